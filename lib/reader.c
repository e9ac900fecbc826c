/* SPDX-License-Identifier: MIT */
/* The reading end of a ring. */
#include "lib/reader.h"

#include "lib/atomic.h"

/* An offset moves every 10 ns at most, and the three loads meet one cache line: a handful of looks
 * is the rule, and tens of thousands cannot happen to an honest ring. */
#define MAX_LOOKS 100000

void reader_init(struct reader *r, u8 *map, const struct geometry *g, u32 ring)
{
	r->line = (struct abi_ring *)(map + ABI_PAGE) + ring;
	r->data = map + geometry_ring_at(g, ring);
	r->size = geometry_ring_size(g, ring);
	r->sub_size = geometry_sub_size(g, ring);
}

int reader_position(const struct reader *r, u64 *ret_offset, u64 *ret_count)
{
	/* R2 must come behind the loads of a copy made before: those are plain, so an order on the
	 * operation cannot say it; this is a `dmb ishld` on aarch64 and nothing on x86-64. It pairs
	 * with the order of the writer's stores: whoever met bytes of an entered sub-buffer sees
	 * the boundary before it. */
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
#if defined(__aarch64__)
	__asm__ volatile("dmb ishld" ::: "memory");
#endif
	for (u32 i = 0; i < MAX_LOOKS; i++) {
		/* R1, pairs with W1 in the sequences and in side_write() */
		u64 offset = load_acquire_u64(&r->line->offset);
		/* acquire: the second look at the offset comes behind it. A count of the record
		 * after next is stored by a release (W0) behind that next record's W1, so whoever
		 * sees it sees another offset at the second look. */
		u64 count = load_acquire_u64(&r->line->count[offset & 1]);

		if (load_relaxed_u64(&r->line->offset) != offset)
			continue;
		if (offset & 2)
			return -EBADMSG;
		*ret_offset = offset & ~1ull;
		*ret_count = count;
		return 0;
	}
	return -EBADMSG;
}

u64 reader_lost_by(const struct reader *r, u32 cause)
{
	/* relaxed: a counter; nothing else is read by it */
	return cause < ABI_LOST_CAUSES ? load_relaxed_u64(&r->line->lost[cause]) : 0;
}

u64 reader_lost(const struct reader *r)
{
	u64 sum = 0;

	for (u32 i = 0; i < ABI_LOST_CAUSES; i++)
		sum += reader_lost_by(r, i);
	return sum;
}

void reader_hold(const struct reader *r, u64 deadline)
{
	/* release, both: a writer loads hold (acquire), then deadline, and must not take the
	 * deadline of the snapshot before for this one's */
	store_release_u64(&r->line->deadline, deadline);
	store_release_u64(&r->line->hold, 0 | 1);
}

void reader_release(const struct reader *r)
{
	/* release: the copy is made before the writer is let in; pairs with the load in an entry */
	store_release_u64(&r->line->hold, 0);
}

void reader_consume(const struct reader *r, u64 position)
{
	/* release: copied before it is given back; pairs with the load in an entry under discard */
	store_release_u64(&r->line->consumed, position);
}

u32 record_parse(const u8 *p, u64 room, u64 *clock, struct record *ret)
{
	const u64 mask = (1ull << ABI_STAMP_BITS) - 1;
	u32 header = ABI_RECORD_HEADER, step, low;
	u16 id, length;

	if (room < ABI_RECORD_HEADER)
		return 0;
	memcpy(&id, p, sizeof(id));
	memcpy(&length, p + 2, sizeof(length));
	memcpy(&low, p + 4, sizeof(low));
	ret->extended = id == ABI_ID_EXTENDED;
	if (ret->extended)
		header = ABI_RECORD_EXTENDED;
	step = ALIGN_UP((u32)length, 4u);
	if (length < header || step > room)
		return 0;
	if (ret->extended) {
		ret->id = low; /* a u32 stands where a compact record has its stamp */
		memcpy(&ret->time, p + 8, sizeof(ret->time));
	} else {
		ret->id = id;
		ret->time = (*clock & ~mask) | (low & mask);
		if (ret->time < *clock)
			ret->time += mask + 1; /* what every CTF reader does: one wrap, at most */
	}
	if (!ret->id || ret->id > ABI_ID_MAX)
		return 0;
	*clock = ret->time;
	ret->length = length;
	ret->body = p + header;
	ret->body_size = length - header;
	return step;
}
