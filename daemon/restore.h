/* SPDX-License-Identifier: MIT */
/* What state.h said, read back: plain data, each piece judged by itself, so that one that is damaged is left out alone. Knows no
 * manager; takeover.c makes sessions of it. */
#pragma once

#include "daemon/ledger.h"
#include "daemon/session.h"

typedef struct RestoredClass RestoredClass;
struct RestoredClass {
	RestoredClass *next;
	u64 number;
	uid_t uid;
	struct event_class *class; /* owned, until somebody takes it */
	Class *taken; /* a reference of who took it; NULL: nobody */
};

typedef struct RestoredId RestoredId;
struct RestoredId {
	RestoredId *next;
	u32 id;
	RestoredClass *class;
};

typedef struct RestoredDead RestoredDead;
struct RestoredDead {
	RestoredDead *next; /* who ended later */
	Description what;
};

typedef struct RestoredOwner RestoredOwner;
struct RestoredOwner {
	RestoredOwner *next;
	char *session, *label; /* owned; so is remains.key.unit */
	OwnerRemains remains;
	RestoredId *ids; /* owned */
	RestoredDead *dead, **last_dead; /* owned */
	PinnedRing *pinned; /* owned: remains.geometry.n_pinned of them; NULL: none was ever taken */
};

typedef struct RestoredSession RestoredSession;
struct RestoredSession {
	RestoredSession *next;
	char *name, *text, *file; /* owned; of the configuration; file may be NULL */
	u32 line;
	u64 said;
	bool running, planned, draining;
	bool told; /* its numbers were; else nobody knows whether it ran */
	bool again; /* it ran, but cannot run on: it begins anew */
	u32 slot, generation;
	struct geometry geometry;
	u64 written, clamped, corrupt, unwritten, renewals;
	Triggers triggers;
	char *last_snapshot, *last_trace; /* owned, may be NULL */
	OwnerCounters past;
};

typedef struct {
	u64 owner;
	bool active;
} RestoredPlace;

typedef struct RestoredProgram RestoredProgram;
struct RestoredProgram {
	RestoredProgram *next;
	u32 number, pid, uid;
	u64 start_time, missed, failed, cookie[2];
	char *command, *unit, *exe, *build_id; /* owned; the last two may be NULL */
	u32 vpid;
	RestoredPlace *places; /* owned */
	size_t n_places;
};

typedef struct RestoredDue RestoredDue;
struct RestoredDue {
	RestoredDue *next;
	u64 usec, number;
	char *session, *trigger, *reason, *path; /* owned */
	char *coredump; /* owned; NULL: none */
	u8 *environment; /* owned; strings, each with its NUL */
	size_t n_environment; /* bytes */
};

typedef struct {
	RestoredSession *sessions;
	RestoredClass *classes;
	RestoredOwner *owners;
	RestoredProgram *programs;
	RestoredDue *due;
	char *units_failed; /* owned; NULL: nobody looked */
	u32 *cpu_of; /* owned */
	u32 n_cpus;
	u8 clock_uuid[16];
	u64 last_number, last_class; /* the highest of owners, of classes */
	u32 last_program;
	u64 n_damaged_bytes;
	u64 last_snapshot; /* the newest number of one */
	u32 n_damaged; /* lines that were not whole, or said what cannot be */
} Restored;

/* 0 or -ENOMEM, -errno of the memory. */
int restored_read(Restored *ret, Ledger *l);
void restored_clear(Restored *r);
