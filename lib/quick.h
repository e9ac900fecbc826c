/* SPDX-License-Identifier: MIT */
/* The usual record, inline: one part, small, into the ring of this CPU. Whatever is unusual about it is said by
 * its result and is somebody else's, out of line. Internal to record.c and event.c: a record costs little more than
 * reading the clock, so that calls and arguments in memory between the two would be half of it. */
#pragma once

#include "lib/atomic.h"
#include "lib/sequence.h"

/* The contexts of the session, in front of the head part. Returns how many bytes. A generation that changed
 * meanwhile makes every sequence leave, so that what is read of the slot here may be stale. */
static inline u32 quick_contexts(u8 *head, const struct slot *s, u64 ids)
{
	/* relaxed: as said above; pairs with slot_attach() */
	u32 contexts = load_relaxed_u32(&s->contexts), one;

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

/* A head of this size is small enough for the fast sequences. */
static inline bool quick_size(u32 size)
{
	return size <= SEQUENCE_FAST_MAX - RECORD_HEADROOM;
}

/* Runs the fast sequence, by `mult` if that is not 0. Only if quick_size(), and there is a sequence_offset. Returns SEQUENCE_*. */
static inline int quick_write(const struct slot *s, u32 generation, u32 id, u64 ids, u64 mult, u8 *head, u32 size)
{
	u32 contexts = quick_contexts(head, s, ids);
	u32 idlen = (id & 0xFFFF) | (ABI_RECORD_HEADER + contexts + size) << 16;

	if (likely(mult))
		return sequence_fast_counter(head - contexts, mult, s, generation, idlen, sequence_area());
	return sequence_fast_given(head - contexts, monotonic_ns(), s, generation, idlen, sequence_area());
}
