/* SPDX-License-Identifier: MIT */
#include "daemon/beacon.h"

#include <limits.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <time.h>

#include "lib/atomic.h"

/* Not the private kind: the other side is another process. */
static long futex(u32 *word, int operation, u32 value, const struct timespec *timeout)
{
	return syscall(SYS_futex, word, operation, value, timeout, NULL, 0);
}

int beacon_arm(const Beacon *b)
{
	/* relaxed: the barrier orders it before the caller's look at the rings, here and, for every program that runs
	 * meanwhile, there. Pairs with the load in waiter_call(). */
	store_relaxed_u32(b->wake, 1);
	return syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0) < 0 ? -errno : 0;
}

void beacon_disarm(const Beacon *b)
{
	/* relaxed: who still sees 1 calls once for nothing */
	store_relaxed_u32(b->wake, 0);
}

bool beacon_wait(Beacon *b, u64 timeout_ns)
{
	u64 patience = MIN(MAX(b->patience, BEACON_WAIT_MIN), BEACON_WAIT_MAX);
	u64 ns = MIN(timeout_ns, patience);
	const struct timespec t = { (time_t)(ns / NSEC_PER_SEC), (long)(ns % NSEC_PER_SEC) };

	/* EAGAIN: beacon_call() came first */
	if (futex(b->wake, FUTEX_WAIT, 1, &t) == 0 || errno != ETIMEDOUT) {
		b->patience = BEACON_WAIT_MIN;
		return true;
	}
	b->patience = 2 * patience;
	return ns < timeout_ns;
}

void beacon_call(const Beacon *b)
{
	/* relaxed: what the consumer shall see has an order of its own; a wait that begins later compares with 1. If it
	 * arms itself between the two, it looks behind that and finds what it was called for. */
	store_relaxed_u32(b->wake, 0);
	(void)futex(b->wake, FUTEX_WAKE, INT_MAX, NULL);
}

void beacon_progress(const Beacon *b)
{
	/* release (seq_cst is one): a writer that loads the new value (acquire) sees what was consumed, and a session that
	 * is over. An add, since the board and the consumer may both be at it. */
	(void)fetch_add_seq_cst_u32(b->progress, 1);
	(void)futex(b->progress, FUTEX_WAKE, INT_MAX, NULL);
}
