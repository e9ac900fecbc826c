/* SPDX-License-Identifier: MIT */
/* The usual record, inline: one part, small, into the ring of this CPU. Whatever is unusual about it is said by
 * its result and finished by record_finish(), out of line. Internal to record.c and event.c: a record costs little
 * more than reading the clock, so that calls and arguments in memory between the two would be half of it. */
#pragma once

#include "lib/sequence.h"

#include <time.h>

/* The contexts of the session, in front of the head part. Returns how many bytes. A generation that changed
 * meanwhile makes every sequence leave, so that what is read of the slot here may be stale. */
static inline u32 quick_contexts(u8 *head, u32 contexts, u64 ids)
{
	u32 one;

	if (likely(contexts == (ABI_CONTEXT_VPID | ABI_CONTEXT_VTID))) {
		memcpy(head - 8, &ids, 8);
		return 8;
	}
	if (!contexts)
		return 0;
	one = (u32)(contexts == ABI_CONTEXT_VPID ? ids : ids >> 32);
	memcpy(head - 4, &one, 4);
	return 4;
}

/* A head of this size is small enough for the fast sequences, and those are to be had. */
static inline bool quick_possible(u32 size)
{
	return size <= SEQUENCE_FAST_MAX - RECORD_HEADROOM && sequence_offset;
}

static inline u64 quick_monotonic(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (u64)t.tv_sec * NSEC_PER_SEC + (u64)t.tv_nsec;
}

/* Fills what the fast sequences read, and runs one. Only if quick_possible(). Returns SEQUENCE_*. */
static inline int quick_write(struct request *q, struct slot *s, u32 generation, u32 id, u64 ids, u64 mult,
			      u8 *head, u32 size)
{
	u32 contexts = quick_contexts(head, s->contexts, ids);

	size += contexts;
	q->slot = s;
	q->generation = generation;
	q->idlen = (id & 0xFFFF) | (ABI_RECORD_HEADER + size) << 16;
	q->body = head - contexts;
	q->bytes = ALIGN_UP(size, 4u);
	q->step = ABI_RECORD_HEADER + ALIGN_UP(size, 4u);
	q->mult = mult;
	if (likely(mult))
		return sequence_fast_counter(q, sequence_area());
	q->now = quick_monotonic();
	return sequence_fast_given(q, sequence_area());
}

/* Goes on with a record whose first sequence said r, not SEQUENCE_DONE; q as quick_write() left it. */
enum record_result record_finish(struct request *q, int r, const struct record_clock *clock, u64 ids,
				 u32 producer);
