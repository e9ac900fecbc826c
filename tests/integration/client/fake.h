/* SPDX-License-Identifier: MIT */
/* A daemon for tests of the producer client: a control page, a socket and rings, and behaviours
 * that a real one should never show. It answers on a thread of its own. */
#pragma once

#include "lib/class.h"
#include "lib/region.h"
#include "lib/wire.h"

/* behind ours: it takes MIN and MAX over without a word */
#include <glib.h>
#include <sys/types.h>

#define FAKE_MAX_OWNERS 8

typedef enum {
	FAKE_ANSWERS,
	FAKE_REFUSES,  /* REFUSED, EDQUOT */
	FAKE_SILENT,   /* takes the connection, never answers */
	FAKE_HANGS_UP, /* closes after HELLO */
	FAKE_NONSENSE, /* a message that no decoder may take */
	FAKE_WRONG_ID, /* a SESSION with fewer ids than classes */
	FAKE_NO_FD,    /* a SESSION without its memfd */
	FAKE_UNSEALED, /* a memfd that anybody may shorten */
	FAKE_TWO_FDS,  /* a SESSION with two */
	FAKE_TWICE,    /* the same slot twice */
	FAKE_BIG,      /* a geometry that is not the memfd's */
} FakeBehaviour;

typedef struct {
	pid_t pid;
	uid_t uid;
	struct wire_hello hello;
	char exe[WIRE_MAX_EXE + 1];
	u8 build_id[WIRE_MAX_BUILD_ID];
	u32 n_build_id;
} FakeExchange;

/* One record, found in a ring. */
typedef struct {
	u32 id, vpid, vtid, ring;
	u64 time;
	const u8 *fields; /* owned by the array's chunk */
	u32 size;
	char *event; /* "provider:name" */
} FakeRecord;

typedef struct Fake Fake;

Fake *fake_new(void);
void fake_free(Fake *f);
const char *fake_directory(Fake *f);
void fake_behave(Fake *f, FakeBehaviour b);
/* Bytes of each session's rings, for those that start from now on. */
void fake_memory(Fake *f, u64 memory);
/* Of sessions that start from now on; behind fake_memory(). */
void fake_policy(Fake *f, u32 policy, u32 block_timeout_us);
/* A reader: gives a sub-buffer of each ring that has a whole one back, and says so. How many there were. */
u32 fake_consume(Fake *f, u32 slot);
/* Of one CPU's ring. */
u64 fake_ring_size(Fake *f);
/* Records ever written to a session's rings. */
u64 fake_count(Fake *f, u32 slot);
/* Between accept and the answer: called on the fake's thread. */
void fake_before_answer(Fake *f, void (*call)(void *), void *userdata);

/* A session in a slot; pattern as in configuration. Only producers of `uid` take part, (uid_t)-1:
 * all. */
void fake_start(Fake *f, u32 slot, const char *pattern, uid_t uid);
void fake_stop(Fake *f, u32 slot);
/* Moves the generation and nothing else. */
void fake_bump(Fake *f);
/* Somebody was not heard. */
void fake_retry(Fake *f);
/* Socket gone, masks stay: a daemon that died; and back. */
void fake_die(Fake *f);
void fake_revive(Fake *f);
/* Before any program: notes who did not wait for its answer. */
void fake_note_late(Fake *f);
/* Behind all programs; the fake dies of it. True: one did not, so that it has missed what it recorded: a real daemon would have
 * it ask again (a generation), this one does not. */
bool fake_was_late(Fake *f);

u32 fake_n_exchanges(Fake *f);
FakeExchange fake_exchange(Fake *f, u32 i);
/* The last reason of a snapshot that was asked for; NULL. Answers are ACCEPTED, or REFUSED with
 * EBUSY if asked so. */
char *fake_snapshot_reason(Fake *f);

/* All records of a session's rings, of one owner's or ((uid_t)-1) all. Free with g_ptr_array_unref.
 */
GPtrArray *fake_records(Fake *f, u32 slot, uid_t uid);
u64 fake_lost(Fake *f, u32 slot, u32 cause);
