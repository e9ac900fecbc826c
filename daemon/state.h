/* SPDX-License-Identifier: MIT */
/* What of the daemon outlives it: every change that the next daemon has to know is said here before anybody outside can have seen it.
 * It is kept by systemd's store as lines in one memfd (ledger.h), beside the memfds of the rings and the pidfds of programs, which
 * are there by name: "state", "marks", "ring-NUMBER", "program-NUMBER". restore.h reads it.
 *
 * A newer line of a kind and a key replaces the one before: sessions have their name, owners and programs a number. Only the loop
 * calls. Without a store (`on` is false) all of it does nothing. */
#pragma once

#include "daemon/session.h"
#include "daemon/line.h"
#include "systemd/fdstore.h"

typedef struct Job Job;
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

/* Descriptors of programs leave this much of the store to rings. */
#define STATE_MAX_PROGRAMS (FDSTORE_MAX / 4)

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

/* All take NULL for a state that is not kept. */
/* Which CPU has which ring, and the clock. */
void state_machine(State *s, const Cpus *c, const u8 clock_uuid[16]);
/* Its numbers and counters; its configuration. */
void state_session(const Session *s);
void state_session_config(const Session *s);
/* Causes that were met lately, so that another sign of one that was answered is still known for one. */
void state_signs(const Session *s);
/* What the files said of a session when they were last read: a hash. */
void state_session_said(State *s, const char *name, u64 said);
/* Units that are failed, as unit_watch_failed() says. */
void state_units(State *s, const char *failed);
void state_session_gone(State *s, const char *name);
/* Before any program is given its rings: gives it a number and its memfd to the store. FAILURE_LIMIT, with numbers: there is no room
 * in it. */
int state_owner_add(State *s, Owner *o, Failure *f);
void state_owner(const Owner *o);
/* With what its session counts without it, in one line. */
void state_owner_gone(const Owner *o);
/* One of its programs has ended: it is still said in snapshots. */
void state_dead(const Owner *o, const Description *d);
/* Before a consumer has its feed: what is written of it is marked from now on. Without memory for that it is not. */
void state_marks_reserve(Owner *o);
/* As an earlier daemon reserved them, with `first`. False: they cannot be. */
bool state_marks_claim(Owner *o, u32 first);
/* Nobody writes to them any more. */
void state_marks_release(Owner *o);
/* Ids that were not said yet; before a program is told them. */
void state_ids(Owner *o);
void state_program(State *s, Producer *p);
void state_program_gone(State *s, Producer *p);
/* An automatic snapshot that is due until it is on disk. */
void state_job(State *s, const Job *b);
void state_job_gone(State *s, const Job *b);
