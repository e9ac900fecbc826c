/* SPDX-License-Identifier: MIT */
/* One named session: its configuration, its place on the board while it runs, its owners' rings. */
#pragma once

#include "daemon/manager.h"
#include "daemon/owner.h"
#include "daemon/producer.h"
#include "daemon/scope.h"
#include "daemon/triggers.h"
#include "daemon/writing.h"

struct Session {
	Session *next; /* of the manager, sorted by name */
	Ground *ground;
	SessionConfig *config; /* owned */
	Scope scope;
	char *snapshots; /* directory of its snapshots */
	char *output;	 /* ... and of what it writes continuously */
	Writing *writing; /* while it runs, and until the rest is written; NULL if it keeps memory only */
	struct Backing *backing; /* from its first start on, if it is wanted: as long as there may be rings */
	bool unbacked;	 /* some of its rings are not in it, for want of memory or descriptors: tried again */
	bool back_goes_on; /* ... with the rings of a daemon before */
	bool running;
	bool start_wanted; /* once what it recorded before is written; not while it runs */
	u32 slot, generation; /* while running */
	struct geometry geometry; /* of rings made from now on */
	bool planned;
	Owner *owners;
	u32 n_owners;
	u32 n_renewals; /* how often its rings were made new */
	u32 n_waiting; /* snapshots that were asked for and have not begun (jobs.c) */

	u64 said; /* a hash of what the files said of it when they were read last; 0: nothing */

	/* what is said of it; of rings that are gone, and of snapshots */
	OwnerCounters past;
	u64 written, clamped, corrupt;
	u64 unwritten; /* of writings that have ended */
	u64 unwritten_before; /* of the present one, when the counters began anew */
	char *last_snapshot, *last_trace;
	Triggers triggers;
};

/* Takes the configuration on success. */
int session_new(Session **ret, Ground *ground, SessionConfig *config, Failure *f);
/* Stops it if need be. */
Session *session_free(Session *s);
DEFINE_CLEANUP(Session *, session_free)

/* FAILURE_SESSION_RUNNING; FAILURE_LIMIT: no slot or the rings of one owner would not fit the limits; FAILURE_NO_MEMORY: they
 * would not fit the machine; all with numbers. */
int session_start(Session *s, Failure *f);
/* The same at the daemon's start or reload: an output that cannot be opened is no reason not to record, and one that was stopped and
 * still writes starts when that is done. */
int session_start_anyway(Session *s, Failure *f);
/* No program records any more, nor will when it was to start later. done (may be NULL): once what is left is written, which is now if it writes nothing. On failure
 * nothing was done, and done is not called. */
int session_stop(Session *s, WritingDone done, void *userdata, Failure *f);
/* Taken over from an earlier daemon, with its rings: writes on; draining: what is left of it, for it was stopped; again: it begins anew,
 * for its slot is lost; whole: all its rings are there, as far as is known. */
void session_resume(Session *s, bool draining, bool again, bool whole);
/* Its writing has ended; a session that was told to write again meanwhile does so now. */
void session_writing_ended(Session *s);
/* Empty rings, counters from 0; goes on running if it ran. */
int session_clear(Session *s, Failure *f);
/* There are no rings, so nothing can be saved: says what to do. Returns what failure_set() does. */
int session_nothing(const Session *s, Failure *f);
/* A configuration of the same name. What can be changed while rings live is; else the session gets new rings. Takes it on
 * success. */
int session_configure(Session *s, SessionConfig *config, Failure *f);
/* Whether it could write where that configuration wants it to, if it is to write elsewhere than now. FAILURE_IO. */
int session_can_move(const Session *s, const SessionConfig *config, Failure *f);

/* Whether rings as configured can be planned on these CPUs; FAILURE_INVALID says what memory is the least. */
int session_possible(const SessionConfig *c, const Cpus *cpus, Failure *f);
/* Has what was left of its rings when the machine died made into a trace, if it has a backing. */
void session_look_back(const Session *s);
/* Where its snapshots and traces go, from where the daemon's go now. 0 or -ENOMEM (then as before). */
int session_set_directories(Session *s);
/* Adds what an owner's rings say; a lie that is found is said. */
void session_count(Session *s, Owner *o, OwnerCounters *sum);
static inline bool session_is_continuous(const Session *s)
{
	return s->config->io != IO_NONE;
}

/* Attaches the program if the session wants it. ids, flags: one per class of the program; id 0 where it is not wanted, else with
 * WIRE_FLAG_*. Returns 1 with *ret if it takes part, 0 if not, negative with *f. */
int session_attach(Session *s, Producer *p, u16 *ids, u16 *flags, Attachment **ret, Failure *f);
/* True if this program was attached to the session, and it runs. */
bool session_records(const Session *s, const Producer *p);
u32 session_n_producers(const Session *s);

/* A CPU appeared: its ring in every region. The first failure is returned, the rest goes on. */
int session_add_ring(Session *s, u32 ring);
/* Lets go of a user's rings without a living program, oldest first, but for `keep` of them; and of one owner's. What they
 * counted stays in the session's sums. */
void session_drop_idle(Session *s, uid_t uid, u32 keep);
void session_drop_owner(Session *s, Owner *o);
/* Of a session that writes: more rings of gone programs than would be kept when the next one comes, which may be never. Seldom. */
void session_sweep(Session *s);
/* Rings that could not be kept on disk when they were made. True: now they are. Seldom. */
bool session_back_again(Session *s);
