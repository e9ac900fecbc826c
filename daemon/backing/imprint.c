/* SPDX-License-Identifier: MIT */
#include "daemon/backing/imprint.h"

#include <fcntl.h>

#include "daemon/bytes.h"
#include "lib/atomic.h"

void imprint_init(Imprint *ring, u8 *map, const struct geometry *g, u32 index)
{
	*ring = (Imprint){
		.index = index,
		.overwrites = backing_overwrites(g, index),
		.pinned = geometry_is_pinned(g, index),
		.at = backing_slots_at(g, index),
		.n_slots = backing_n_slots(g, index),
	};
	reader_init(&ring->reader, map, g, index);
}

void imprint_reset(Imprint *ring)
{
	free(ring->slots);
	ring->slots = NULL;
	ring->allocated = false;
	ring->kept = ring->fresh = (struct backing_table_ring){};
}

/* ---- slots ---- */

/* A disk that is too small says so before the first sub-buffer, not in the middle of a lap. */
static int imprint_allocate(Imprint *ring, int fd)
{
	u64 size = (u64)ring->n_slots * ring->reader.sub_size;

	if (!ring->slots) {
		ring->slots = calloc(ring->n_slots, sizeof(*ring->slots));
		if (!ring->slots)
			return -ENOMEM;
	}
	while (fallocate(fd, 0, (off_t)ring->at, (off_t)size) < 0) {
		if (errno == EINTR)
			continue;
		if (errno != EOPNOTSUPP)
			return -errno;
		break; /* then it is found as it comes */
	}
	ring->allocated = true;
	return 0;
}

static Slot *slot_find(Imprint *ring)
{
	for (u32 i = 0; i < ring->n_slots; i++) {
		Slot *s = &ring->slots[(ring->next_slot + i) % ring->n_slots];

		if (s->state != SLOT_FREE)
			continue;
		ring->next_slot = (u32)(s - ring->slots + 1) % ring->n_slots;
		return s;
	}
	return NULL;
}

void imprint_settle(Imprint *ring, bool durable)
{
	u64 last = ring->kept.end & ~(ring->reader.sub_size - 1);
	bool again = false; /* the part that was written last has grown */

	for (u32 i = 0; ring->slots && i < ring->n_slots; i++)
		again |= ring->slots[i].state == SLOT_FRESH && ring->slots[i].position == last;
	for (u32 i = 0; ring->slots && i < ring->n_slots; i++) {
		Slot *s = &ring->slots[i];

		if (s->state == SLOT_FRESH)
			s->state = durable ? SLOT_KEPT : SLOT_FREE;
		else if (durable && s->state == SLOT_KEPT &&
			 (s->position < ring->fresh.first || (again && s->position == last)))
			s->state = SLOT_FREE;
	}
	if (durable)
		ring->kept = ring->fresh;
	else
		ring->fresh = ring->kept;
}

/* ---- sub-buffers ---- */

/* Of a pinned ring the daemon gives away what is before. */
static u64 pinned_oldest(const Imprint *ring, u64 offset)
{
	/* relaxed: stored before another program was given the ring (lib/reader.h); one that lies spoils its own */
	u64 consumed = load_relaxed_u64(&ring->reader.line->consumed);

	return consumed > offset || consumed & (ring->reader.sub_size - 1) ? 0 : consumed;
}

static u64 oldest(const Imprint *ring, u64 offset)
{
	if (ring->pinned)
		return pinned_oldest(ring, offset);
	return ring->overwrites ? reader_first_whole(offset, ring->reader.size, ring->reader.sub_size) : 0;
}

/* Records up to the boundary behind `position`, by the header of the sub-buffer there; what it says is checked by whoever reads
 * this. */
static u64 count_behind(const Imprint *ring, u64 position, u64 offset)
{
	struct abi_sub h;

	if (position + ABI_SUB_HEADER > offset)
		return UINT64_MAX;
	memcpy(&h, ring->reader.data + (position & (ring->reader.size - 1)), sizeof(h));
	return h.position == position ? h.count : UINT64_MAX;
}

/* The sub-buffer at `position` into the room for a copy, whole as its writer left it when `offset` was loaded. 0, -EAGAIN: the writer
 * has come round to it; -EBADMSG: the ring lies. */
static int sub_copy(const Imprint *ring, const Pass *p, u64 position, u64 offset, u64 count, struct backing_slot *ret)
{
	const struct reader *r = &ring->reader;
	bool complete = offset - position >= r->sub_size;
	u64 size = complete ? r->sub_size : offset - position, after, unused;
	struct abi_sub h;

	memcpy(p->copy, r->data + (position & (r->size - 1)), size);
	*ret = (struct backing_slot){
		.magic = BACKING_MAGIC_SLOT,
		.image = p->image,
		.pass = p->number,
		.position = position,
		.count = !complete || position + r->sub_size == offset ? count :
									  count_behind(ring, position + r->sub_size, offset),
		.ring = ring->index,
		.complete = complete,
	};
	/* R2 of abi.h: reader_position() orders it behind the loads of the copy */
	if (reader_position(r, &after, &unused) < 0 || after < offset || after > BACKING_POSITION_LIMIT)
		return -EBADMSG;
	if (oldest(ring, after) > position)
		return -EAGAIN;
	memcpy(&h, p->copy, sizeof(h));
	/* what lies beyond the end is of an older lap; an end that cannot be is for who reads it to judge */
	if (complete && h.position == position && h.end > position + ABI_SUB_HEADER && h.end <= position + r->sub_size)
		size = h.end - position;
	ret->size = (u32)size;
	ret->time = record_clock_now(p->clock);
	ret->lost = reader_lost(r);
	return 0;
}

static int sub_write(Imprint *ring, Pass *p, Slot *s, struct backing_slot *h)
{
	u64 padded = ALIGN_UP((u64)h->size, (u64)BACKING_BLOCK);
	u8 *room = p->copy + offsetof(struct abi_sub, room);
	int r;

	memset(p->copy + h->size, 0, padded - h->size);
	memcpy(room, h, sizeof(*h));
	h->checksum = backing_checksum(0, p->copy, h->size);
	memcpy(room, h, sizeof(*h));
	r = write_at(p->fd, p->copy, padded, ring->at + (u64)(s - ring->slots) * ring->reader.sub_size);
	if (r < 0)
		return r;
	s->position = h->position;
	s->state = SLOT_FRESH;
	p->changed = true;
	p->n_subs++;
	p->n_bytes += padded;
	return 0;
}

/* The ring's entry in the table, with the sub-buffer that was just written. */
static void imprint_advance(Imprint *ring, const struct backing_slot *h)
{
	u64 sub_size = ring->reader.sub_size;

	/* a hole: what is before it is not counted on any more */
	if (h->position > (ring->fresh.end & ~(sub_size - 1)))
		ring->fresh.first = h->position;
	ring->fresh.end = h->complete ? h->position + sub_size : h->position + h->size;
	ring->fresh.first = MAX(ring->fresh.first, oldest(ring, ring->fresh.end));
	ring->fresh.count = h->count;
}

/* ---- all of it ---- */

/* All of the ring that is new, up to where it stands now. */
static int imprint_copy(Imprint *ring, Pass *p, u64 offset, u64 count)
{
	u64 sub_size = ring->reader.sub_size, position = ring->fresh.end & ~(sub_size - 1), skip = 0;

	while (position < offset) {
		u64 now, unused, whole, bytes;
		struct backing_slot h;
		Slot *s;
		int r;

		if (reader_position(&ring->reader, &now, &unused) < 0 || now < offset || now > BACKING_POSITION_LIMIT)
			return 0;
		whole = oldest(ring, now);
		if (position < whole) {
			/* to be ahead of a fast writer takes a longer step each time it wins */
			u64 to = MIN(whole + skip * sub_size, ALIGN_UP(offset, sub_size));

			p->n_missed += (to - position) / sub_size;
			position = to;
			continue;
		}
		r = sub_copy(ring, p, position, offset, count, &h);
		if (r == -EAGAIN) {
			skip = skip * 2 + 1;
			continue;
		}
		if (r == -EBADMSG)
			return 0;
		/* whatever id is in the copy was added before a program was told it */
		r = glossary_flush(p->glossary, p->dir_fd, p->glossary_name, &bytes);
		if (r < 0)
			return r;
		p->n_words += bytes;
		s = slot_find(ring);
		if (!s)
			return -ENOSPC; /* there is one for every sub-buffer of a pass beside those that are kept */
		r = sub_write(ring, p, s, &h);
		if (r < 0)
			return r;
		imprint_advance(ring, &h);
		position += sub_size;
	}
	return 0;
}

int imprint_pass(Imprint *ring, Pass *p)
{
	u64 offset, count;
	int r;

	/* R1; a ring that lies is left as it is: its last good state is on disk */
	if (reader_position(&ring->reader, &offset, &count) < 0 || offset > BACKING_POSITION_LIMIT || offset < ring->fresh.end)
		return 0;
	/* nobody gives anything back in such a ring */
	if (!ring->overwrites && offset - oldest(ring, offset) > ring->reader.size)
		return 0;
	for (u32 k = 0; k < ABI_LOST_CAUSES; k++) {
		u64 lost = reader_lost_by(&ring->reader, k);

		p->changed |= lost != ring->fresh.lost[k];
		ring->fresh.lost[k] = lost;
	}
	if (offset == ring->fresh.end)
		return 0;
	r = ring->allocated ? 0 : imprint_allocate(ring, p->fd);
	return r < 0 ? r : imprint_copy(ring, p, offset, count);
}
