/* SPDX-License-Identifier: MIT */
/* A session's rings for one user, unit or process, and the ids of the events in them. Reference counted: a
 * running snapshot keeps the memory of an owner whose session is gone already. Only the loop counts. */
#pragma once

#include "daemon/ground.h"
#include "daemon/feed.h"
#include "daemon/described.h"
#include "daemon/ids.h"
#include "daemon/pinned.h"
#include "lib/region.h"

typedef struct Owner Owner;
typedef struct Attachment Attachment;
typedef struct Producer Producer;
typedef struct Session Session;

typedef struct {
	Buffers kind;
	uid_t uid;	  /* per user */
	const char *unit; /* per unit; borrowed from who asks, owned in an Owner */
	pid_t pid;	  /* per process */
	u64 start_time;
} OwnerKey;

typedef struct {
	u64 recorded, overwritten, discarded;
	u64 written, corrupt, corrupt_subs, clamped; /* by its feed */
	u64 lost[ABI_LOST_CAUSES];
	u64 pinned, unpinned; /* of `recorded`: in pinned rings now; that were to be pinned and went elsewhere */
	double fill;
} OwnerCounters;

bool owner_key_equal(const OwnerKey *a, const OwnerKey *b);

struct Owner {
	u32 n_refs;
	Session *session; /* NULL once the session has let go */
	Owner *next;	  /* of the session */
	OwnerKey key;
	char *label;	  /* directory of its trace; unique in its session */
	uid_t charged_uid;
	u64 charged;
	Ground *ground;
	struct region region;
	Ids ids;
	Pinned pinned;
	DescribedList described;
	Attachment *attachments;
	u32 n_active;	  /* attachments of programs that record now */
	u32 n_attachments;
	u64 idle_since;	  /* CLOCK_MONOTONIC; 0: has attachments */
	u64 number;	  /* in what outlives the daemon; 0: it does not know of it */
	u32 n_pins;	  /* copies of the rings whose ids were not asked for yet: until then none goes */
	u64 created;	  /* CLOCK_MONOTONIC: bounds what its rings can have counted */
	OwnerCounters seen; /* what was last believed of its counters */
	bool liar;	  /* they said what cannot be, so nothing more of them is believed */
	u32 marks;	  /* first page of its bookmarks; 0: none */
	Feed *feed;	  /* owned; of a session that writes, or wrote: a consumer's as long as it was given to one */
	u32 n_told;	  /* ids that the feed knows */
	bool leaving;	  /* goes once its consumer has emptied it */
	bool given;	  /* a consumer has the feed, which is its thread's */
	u64 *holders;	  /* of the side and pinned rings' locks, as the last look found them (locks.h); may be NULL */
};

/* One program in one owner's rings. Lives until the program or the owner is gone: an id that a program was told is
 * its until then, even if the session was stopped meanwhile. */
struct Attachment {
	Producer *producer;
	Owner *owner;
	Attachment *next_of_owner, *next_of_producer;
	u32 pinned;  /* number of its pinned ring in the region; 0: none */
	Described *described; /* the owner's */
	bool active; /* its last answer named this owner's session */
	IdSet ids;
};

/* Makes the rings: charged to uid, allocated for every CPU that has a ring. FAILURE_LIMIT or FAILURE_NO_MEMORY, with
 * numbers. */
int owner_new(Owner **ret, Ground *ground, Session *session, const char *session_name,
	      const OwnerKey *key, const char *label, uid_t uid, const struct geometry *g, u32 slot,
	      u32 generation, Failure *f);
/* Of rings that an earlier daemon made, as it said: takes fd. FAILURE_CORRUPT: they are not what it said. */
typedef struct {
	u64 number, memory, created;
	uid_t charged_uid;
	bool liar;
	u32 marks;
	OwnerKey key;
	const char *label;
	struct geometry geometry;
} OwnerRemains;
int owner_adopt(Owner **ret, Ground *ground, Session *session, const OwnerRemains *what, int fd, Failure *f);
/* Ids that no program holds may go once the rings have passed where they stand now. */
void owner_settle(Owner *o);
Owner *owner_ref(Owner *o);
/* The last one punches the memory out, although programs may have it mapped still. */
Owner *owner_unref(Owner *o);
DEFINE_CLEANUP(Owner *, owner_unref)
/* The session lets go: attachments and ids end (ids not before the last pin), the memory stays for who else holds a
 * reference. Drops one reference. */
void owner_abandon(Owner *o);
/* A snapshot takes the ids after it has copied the rings, since a program may be told new ones until then. In between every id
 * keeps its class: what was copied may name one that nothing in the rings names any more. */
void owner_pin(Owner *o);
void owner_unpin(Owner *o);

/* The attachment of this producer, a new one if there is none. 0 or -ENOMEM. */
int owner_attach(Owner *o, Producer *p, Attachment **ret);
void attachment_set_active(Attachment *a, bool active);
/* Ends and frees it. dead: the program is gone, so the side locks it may have left are broken. */
void attachment_end(Attachment *a, bool dead);

int owner_add_ring(Owner *o, u32 ring);
/* Breaks what the program left locked in the side and pinned rings. */
void owner_break_locks(Owner *o, u32 producer_number);
/* Forgets ids that nothing in the rings can mean any more, and programs that nothing in them can be of. */
void owner_prune(Owner *o);

/* Adds what the rings say now, if that can be: programs write those counters, so figures that fall, or that are more than
 * one event a nanosecond since the rings were made, are lies. The rings' last believable figures stand from then on. True if
 * a lie was found now. Whoever keeps within those bounds can still lie, about its own numbers. */
bool owner_count(Owner *o, OwnerCounters *sum);
/* sum += more, without wrapping. */
void counters_add(OwnerCounters *sum, const OwnerCounters *more);
