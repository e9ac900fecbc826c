/* SPDX-License-Identifier: MIT */
/* What of the daemon outlives it: every change that the next daemon has to know is said here before anybody outside can have seen it.
 * It is kept by systemd's store as lines in one memfd (ledger.h), beside the memfds of the rings and the pidfds of programs, which
 * are there by name: "state", "marks", "ring-NUMBER", "program-NUMBER". What is said of sessions, of owners of rings and of
 * programs has its own file each: state-session.h, state-owner.h, state-program.h. restore.h reads it.
 *
 * A newer line of a kind and a key replaces the one before: sessions have their name, owners and programs a number. Only the loop
 * calls. Without a store (`on` is false) all of it does nothing. */
#pragma once

#include "daemon/session.h"
#include "daemon/line.h"
#include "systemd/fdstore.h"

typedef struct Ledger Ledger;

typedef struct State State;
struct State {
	FdStore store;
	Ledger *ledger;	  /* owned; NULL: nothing can be kept */
	Bookmarks *marks; /* owned; NULL likewise */
	Line line;
	u64 last_number;  /* of an owner */
	u32 n_programs;	  /* pidfds that are kept */
	u64 last_class;	  /* number */
	u32 epoch, last_epoch; /* how often all was said anew; the one that counts, and of any */
	bool behind;	  /* a line is missing */
	bool refused, rewriting, spoiled;
	bool quiet; /* what is done is known already: it is being taken over */
	/* says everything anew */
	void (*rewrite)(void *userdata);
	void *userdata;
};

/* ledger, marks_fd: what is gone on with (taken), or NULL and -1: new ones, which are put in the store. n_stored: descriptors there. */
int state_new(State **ret, Ledger *ledger, int marks_fd, u32 n_stored, void (*rewrite)(void *userdata), void *userdata);
/* Says everything anew, so that what is over is in it no more. */
void state_renew(State *s);
/* If something could not be said: tries again. */
void state_catch_up(State *s);
/* All that was taken over is as it will be. */
void state_begin(State *s);
/* From here sessions are stopped because we end: who comes next starts those that should run. */
void state_end(State *s);
/* From now on faults of this process are noted. */
void state_watch_faults(State *s);
void state_healthy(State *s);
/* Nothing is said any more: the next daemon goes on with what there is. */
void state_leave(State *s);
/* The store keeps what it has; who does not want that removes it first. */
State *state_free(State *s);

/* ---- lines ---- */

/* All that say something take NULL for a state that is not kept, and then do nothing. So they ask first: */
bool state_kept(const State *s);
/* What was begun in `line` is said. False: it is not there, and will be only when all is said anew. It may be that all is said anew
 * by this: then `line` is another one. */
bool state_say(State *s);

/* Which CPU has which ring, and the clock. */
void state_machine(State *s, const Cpus *c, const u8 clock_uuid[16]);
/* Units that are failed, as unit_watch_failed() says. */
void state_units(State *s, const char *failed);
