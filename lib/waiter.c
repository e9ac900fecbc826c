/* SPDX-License-Identifier: MIT */
/* A reader that makes no progress for as long as a record may wait is taken for dead: the process remembers in
 * slot.stalled at which value of `progress` it waits, and since when, and while that is so refused records of all threads
 * are counted at once, instead of each waiting by itself. The value is remembered only behind an attempt that was
 * refused after it had been loaded: so that ring is full for as long as the value stays, and a reader that merely has nothing
 * to do is never taken for dead. */
#include "lib/waiter.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>

/* Somebody who can read the control page can move a sleeper to where nobody wakes it; it is not gone for longer. */
#define SLICE (10 * NSEC_PER_MSEC)

/* Shared, not private: the other side is another process. The page is mapped read-only, which both calls are content
 * with. The bare system call is no cancellation point. */
static void futex(const u32 *word, int operation, u32 value, u64 ns)
{
	const struct timespec t = { (time_t)(ns / NSEC_PER_SEC), (long)(ns % NSEC_PER_SEC) };
	int saved = errno;

	(void)syscall(SYS_futex, word, operation, value, operation == FUTEX_WAIT ? &t : NULL, NULL, 0);
	errno = saved;
}

static void call(const u32 *wake)
{
	/* relaxed: the consumer stores it, then makes a membarrier, then looks at the rings. The W1 that we come from is
	 * before that barrier, and seen by that look; or this load is behind it, and sees 1. (The compiler keeps the
	 * order: W1 is in a sequence, or in front of system calls.) */
	if (wake && load_relaxed_u32(wake))
		futex(wake, FUTEX_WAKE, 1, 0);
}

void waiter_call(const struct slot *s)
{
	/* loaded once: see waiter.h */
	call(__atomic_load_n(&s->wake, __ATOMIC_RELAXED));
}

/* slot.stalled: 0, or in one word that there is one (bit 63), milliseconds (31 bits), progress */
static u64 stall(u32 progress, u64 now)
{
	return 1ull << 63 | (now / NSEC_PER_MSEC & 0x7FFFFFFF) << 32 | progress;
}

/* For how many milliseconds the word says this of the reader. It was stored before it was loaded and `now` is later than that;
 * so what seems to be from the future is older than the half of 31 bits (twelve days), and says nothing any more. */
static int64_t stalled_for(u64 word, u32 progress, u64 now)
{
	u64 ms = (now / NSEC_PER_MSEC - (word >> 32)) & 0x7FFFFFFF;

	return word >> 63 && (u32)word == progress && ms < 1u << 30 ? (int64_t)ms : -1;
}

void waiter_begin(struct waiter *w, struct slot *s, u32 generation)
{
	*w = (struct waiter){ .slot = s,
			      .wake = __atomic_load_n(&s->wake, __ATOMIC_RELAXED),
			      .progress_word = __atomic_load_n(&s->progress, __ATOMIC_RELAXED),
			      .session = __atomic_load_n(&s->session, __ATOMIC_RELAXED),
			      .generation = generation,
			      .deadline = monotonic_ns() + load_relaxed_u32(&s->block_timeout_us) * NSEC_PER_USEC };
}

enum waiter_step waiter_next(struct waiter *w)
{
	struct slot *s = w->slot;
	u64 word;

	if (unlikely(!w->progress_word || !w->session))
		return WAITER_STALE;
	if (w->tried) {
		u64 now;

		word = load_relaxed_u64(&s->stalled);
		now = monotonic_ns();
		/* relaxed: a hint of ours to ourselves; if another thread's is overwritten, somebody waits longer, and no
		 * longer than his own deadline */
		if (stalled_for(word, w->progress, now) < 0)
			store_relaxed_u64(&s->stalled, stall(w->progress, w->looked));
		if (now >= w->deadline)
			return WAITER_LATE;
		/* who published the last boundary may have been stopped before it called */
		call(w->wake);
		futex(w->progress_word, FUTEX_WAIT, w->progress, MIN(SLICE, w->deadline - now));
	}
	w->tried = true;
	word = load_relaxed_u64(&s->stalled);
	/* acquire: pairs with the add in beacon_progress(). Whoever sees its value sees what was consumed before it, in the
	 * attempt that follows, and that the session is over, here. */
	w->progress = load_acquire_u32(w->progress_word);
	/* Behind both loads: a thread that was away between them and its clock must neither say that a reader has stood still
	 * since before it moved, nor take what another thread says now for something of the future. */
	w->looked = monotonic_ns();
	if (load_acquire_u32(w->session) != w->generation || load_acquire_u32(&s->generation) != w->generation)
		return WAITER_STALE;
	return stalled_for(word, w->progress, w->looked) * 1000 >= (int64_t)load_relaxed_u32(&s->block_timeout_us) ?
		       WAITER_LATE :
		       WAITER_TRY;
}
