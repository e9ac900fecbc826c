/* SPDX-License-Identifier: MIT */
/* The programs' side of `wake` and `progress` (lib/abi.h 9): calling a consumer that sleeps, and waiting for room under the
 * policy block. Outside of every ring: no lock is held, no ring is touched or counted as used, no signal is blocked, so
 * that a handler may record meanwhile, and a stopped or killed waiter is in nobody's way. Async-signal-safe; keeps errno; no
 * cancellation point. */
#pragma once

#include "lib/atomic.h"
#include "lib/slot.h"

/* A boundary was published: if the consumer sleeps, wakes it. */
void waiter_call(const struct slot *s);

/* Whether a record that was refused for `cause` is to wait rather than be counted. What is read of the slot may be of its next
 * generation: the next attempt finds out. */
static inline bool waiter_refused(const struct slot *s, u32 cause)
{
	return cause == ABI_LOST_FULL && load_relaxed_u32(&s->policy) == ABI_POLICY_BLOCK && s->progress &&
	       load_relaxed_u32(&s->block_timeout_us);
}

enum waiter_step {
	WAITER_TRY,   /* the record may go now: try */
	WAITER_STALE, /* the session is over, or has other rings */
	WAITER_LATE,  /* count it */
};

struct waiter {
	struct slot *slot;
	const u32 *wake, *progress_word, *session; /* its own: a handler that forks leaves its child a wiped slot */
	u32 generation;
	u32 progress;  /* as it was before the last attempt */
	bool tried;
	u64 deadline;  /* of this record */
	u64 looked;    /* when `progress` was loaded */
};

/* For a record that was refused. Then waiter_next() before each further attempt, until one is not refused; it sleeps, but for the
 * first time. */
void waiter_begin(struct waiter *w, struct slot *s, u32 generation);
enum waiter_step waiter_next(struct waiter *w);
