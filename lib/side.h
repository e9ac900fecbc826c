/* SPDX-License-Identifier: MIT */
/* Side rings: the same format under a lock word, for threads without rseq, CPUs without a ring, and
 * whoever found no quiet moment for a sequence (a debugger that single-steps restarts it for ever).
 */
#pragma once

#include "lib/sequence.h"

/* The request into a side ring of its slot, chosen by the thread's number. RECORD_DONE, RECORD_LOST
 * (counted; ABI_LOST_BUSY if the lock was not to be had in a bounded time), RECORD_STALE, or RECORD_REFUSED. Sets `edge`.
 * Async-signal-safe: the holder has its signals blocked, so that a handler never waits for its own
 * thread. */
enum record_result side_write(struct request *q, const struct record_clock *clock, u64 ids,
			      u32 producer);

/* The request into the slot's pinned ring. RECORD_DONE, RECORD_STALE, or RECORD_REFUSED: there is none, or no room in it, or its
 * lock was not to be had; that is counted (`unpinned`), and the record is to go where others go. */
enum record_result side_pin(struct request *q, const struct record_clock *clock, u64 ids, u32 producer);

/* Counts `amount` losses of q->cause on the side ring's line, by a locked add, without its lock.
 * RECORD_LOST or RECORD_STALE. */
enum record_result side_lose(struct request *q, u64 ids);

/* For the daemon: breaks the lock of this line if `producer` holds it and, with a tid that is not
 * 0, its thread `tid` (as the program numbers it). For producers that are dead, have come back as
 * another image, or no longer have that thread; what the holder had begun was not published. True
 * if it was held so. */
bool side_break(struct abi_ring *line, u32 producer, u32 tid);

/* The holder of a side ring: true, with its numbers, if there is one. */
bool side_holder(const struct abi_ring *line, u32 *ret_producer, u32 *ret_tid);
