/* SPDX-License-Identifier: MIT */
/* The reading end of a ring. Every byte may be written by others while it is read, and by liars: a
 * position is loaded once and masked, a length is checked against what is left, and bytes are
 * copied out before they are parsed. */
#pragma once

#include "lib/geometry.h"

/* One ring of a mapped region. Borrowed: the region outlives it. */
struct reader {
	struct abi_ring *line;
	const u8 *data;
	u64 size, sub_size; /* powers of two, from private geometry */
};

void reader_init(struct reader *r, u8 *map, const struct geometry *g, u32 ring);

/* Offset (bit 0 removed) and the count that belongs to it. 0, or -EBADMSG if they never settle or
 * the offset is no multiple of 4: a writer can keep it moving through thousands of looks only by
 * lying. It is R1 and, behind a copy, R2 as well: the loads of the copy are done before it looks.
 */
int reader_position(const struct reader *r, u64 *ret_offset, u64 *ret_count);

/* The sum of losses of this ring, all causes; and one cause. */
u64 reader_lost(const struct reader *r);
u64 reader_lost_by(const struct reader *r, u32 cause);

/* Holds everything of this ring until `deadline` (deadline is stored first), or lets go. */
void reader_hold(const struct reader *r, u64 deadline);
void reader_release(const struct reader *r);

/* discard: everything below `position` was copied and may be overwritten. */
void reader_consume(const struct reader *r, u64 position);

/* The oldest sub-buffer (its position) that is certainly whole in a copy that was finished before
 * `offset_after` was loaded: the one the writer stands before or in, one lap back, is dropped. */
static inline u64 reader_first_whole(u64 offset_after, u64 size, u64 sub_size)
{
	u64 at = offset_after / sub_size + 1, n = size / sub_size;

	return at > n ? (at - n) * sub_size : 0;
}

/* The sub-buffer that a position lies in. */
static inline u64 reader_sub(const struct reader *r, u64 position)
{
	return position & ~(r->sub_size - 1);
}

static inline const u8 *reader_at(const struct reader *r, u64 position)
{
	return r->data + (position & (r->size - 1));
}

/* The header of the sub-buffer at `position`: one copy, to be judged, since it may be written over at any time. */
static inline struct abi_sub reader_header(const struct reader *r, u64 position)
{
	struct abi_sub h;

	memcpy(&h, reader_at(r, position), sizeof(h));
	return h;
}

struct record {
	u32 id;
	u32 length; /* exact bytes, header included */
	u64 time;   /* whole */
	bool extended;
	const u8 *body; /* contexts, then fields; points into the caller's copy */
	u32 body_size;
};

/* Parses the record at p with `room` bytes left in the sub-buffer's copy. *clock is the running
 * time of the stream (the sub-buffer's begin, at first) and is advanced as a CTF reader does.
 * Returns the padded step to the next record, or 0 if this is no record. */
u32 record_parse(const u8 *p, u64 room, u64 *clock, struct record *ret);
