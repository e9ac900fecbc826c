/* SPDX-License-Identifier: MIT */
/* A pass writes sub-buffers into slots that hold nothing that counts, then the table, then waits for the disk, once. Only then do
 * older versions, and what the ring has overwritten, become free. Whatever of it reaches the disk before the power fails, in any
 * order and torn anywhere, the pass before is whole: nothing here relies on an order of writes. If the disk refuses, the pass
 * has not been: what it wrote is free, and copied again. */
#include "daemon/backing/image.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/random.h>

#include "daemon/backing/format.h"
#include "daemon/backing/programs.h"
#include "daemon/bytes.h"
#include "daemon/capture.h"
#include "lib/atomic.h"
#include "lib/reader.h"

/* Positions that no ring reaches in a machine's life. */
#define POSITION_LIMIT (1ull << 62)

typedef enum {
	SLOT_FREE = 0,
	SLOT_KEPT,  /* durable */
	SLOT_FRESH, /* written by the pass in hand */
} SlotState;

typedef struct {
	u64 position;
	SlotState state;
} Slot;

typedef struct {
	struct reader reader;
	bool overwrites, pinned;
	bool allocated; /* on disk */
	u64 at;		/* of the first slot in the file */
	Slot *slots;	/* owned */
	u32 n_slots, next_slot;
	struct backing_table_ring kept, fresh; /* durable; as the pass in hand will make it */
} Ring;

struct Image {
	char *label, *rings_name, *glossary_name, *programs_name; /* owned */
	Descriptions programs; /* owned */
	bool programs_changed;
	Glossary *glossary;				/* owned */
	u64 id;
	struct geometry geometry;
	struct record_clock clock;
	const Cpus *cpus;
	int fd;
	bool headed; /* block 0 is written */
	u64 pass;    /* the last one that is durable */
	Ring *rings; /* owned */
	u32 n_rings;
	u8 *copy;    /* owned: a sub-buffer */
	u8 *table;   /* owned */
	bool changed;
	u64 fresh_subs, fresh_bytes; /* of the pass in hand */
	u64 begun, until;
};

/* ---- birth and end ---- */

int image_new(Image **ret, const ImageOptions *o)
{
	_cleanup_(image_freep) Image *m = calloc(1, sizeof(*m));
	u64 largest;
	char safe[200];
	int r;

	if (!m)
		return -ENOMEM;
	m->fd = -1;
	if (getrandom(&m->id, sizeof(m->id), 0) != sizeof(m->id))
		return -EIO;
	m->label = strdup(o->label);
	trace_name(safe, sizeof(safe), o->label);
	if (asprintf(&m->rings_name, "%s.%u" BACKING_RINGS, safe, o->number) < 0)
		m->rings_name = NULL;
	if (asprintf(&m->glossary_name, "%s.%u" BACKING_GLOSSARY, safe, o->number) < 0)
		m->glossary_name = NULL;
	if (asprintf(&m->programs_name, "%s.%u" BACKING_PROGRAMS, safe, o->number) < 0)
		m->programs_name = NULL;
	if (!m->label || !m->rings_name || !m->glossary_name || !m->programs_name)
		return -ENOMEM;
	r = glossary_new(&m->glossary, m->id);
	if (r < 0)
		return r;
	m->geometry = o->geometry;
	m->clock = o->clock;
	m->cpus = o->cpus;
	m->n_rings = backing_n_rings(&o->geometry);
	m->rings = calloc(m->n_rings, sizeof(*m->rings));
	largest = MAX(geometry_sub_size(&o->geometry, 0), geometry_sub_size(&o->geometry, m->n_rings - 1));
	m->copy = malloc(largest);
	m->table = malloc(backing_table_size(&o->geometry));
	if (!m->rings || !m->copy || !m->table)
		return -ENOMEM;
	for (u32 i = 0; i < m->n_rings; i++) {
		Ring *ring = &m->rings[i];

		reader_init(&ring->reader, o->map, &o->geometry, i);
		ring->overwrites = backing_overwrites(&o->geometry, i);
		ring->pinned = geometry_is_pinned(&o->geometry, i);
		ring->at = backing_slots_at(&o->geometry, i);
		ring->n_slots = backing_n_slots(&o->geometry, i);
	}
	*ret = steal_ptr(m);
	return 0;
}

Image *image_free(Image *m)
{
	if (!m)
		return NULL;
	for (u32 i = 0; m->rings && i < m->n_rings; i++)
		free(m->rings[i].slots);
	(void)glossary_free(m->glossary);
	(void)close_fd(m->fd);
	free(m->rings);
	free(m->copy);
	free(m->table);
	free(m->label);
	free(m->rings_name);
	free(m->glossary_name);
	free(m->programs_name);
	descriptions_clear(&m->programs);
	free(m);
	return NULL;
}

Glossary *image_glossary(const Image *m)
{
	return m->glossary;
}

void image_reset(Image *m)
{
	for (u32 i = 0; i < m->n_rings; i++) {
		Ring *ring = &m->rings[i];

		free(ring->slots);
		ring->slots = NULL;
		ring->allocated = false;
		ring->kept = ring->fresh = (struct backing_table_ring){};
	}
	m->fd = close_fd(m->fd);
	m->headed = false;
	m->pass = 0;
	m->programs_changed = true;
	glossary_reset(m->glossary);
}

void image_describe(Image *m, Descriptions *programs)
{
	descriptions_clear(&m->programs);
	m->programs = *programs;
	*programs = (Descriptions){};
	m->programs_changed = true;
}

int image_remove(Image *m, int dir_fd)
{
	int r = 0;

	/* the rings first: a glossary without them says nothing */
	if (unlinkat(dir_fd, m->rings_name, 0) < 0 && errno != ENOENT)
		r = -errno;
	if (unlinkat(dir_fd, m->glossary_name, 0) < 0 && errno != ENOENT && r == 0)
		r = -errno;
	programs_remove(dir_fd, m->programs_name);
	return r;
}

/* ---- the disk ---- */

static int image_open(Image *m, int dir_fd, bool *ret_made)
{
	struct backing_image h = {
		.magic = BACKING_MAGIC_IMAGE,
		.version = BACKING_VERSION,
		.id = m->id,
		.ring_shift = m->geometry.ring_shift,
		.sub_shift = m->geometry.sub_shift,
		.side_shift = m->geometry.side_shift,
		.side_sub_shift = m->geometry.side_sub_shift,
		.n_ring = m->geometry.n_ring,
		.n_side = m->geometry.n_side,
		.pinned_shift = m->geometry.pinned_shift,
		.pinned_sub_shift = m->geometry.pinned_sub_shift,
		.n_pinned = m->geometry.n_pinned,
		.policy = m->geometry.policy,
		.contexts = m->geometry.contexts,
	};
	int r;

	if (m->fd < 0) {
		m->fd = openat(dir_fd, m->rings_name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0640);
		if (m->fd < 0)
			return -errno;
	}
	if (m->headed)
		return 0;
	(void)snprintf(h.label, sizeof(h.label), "%s", m->label);
	h.checksum = backing_checksum(0, &h, sizeof(h));
	r = write_at(m->fd, &h, sizeof(h), 0);
	if (r == 0 && ftruncate(m->fd, (off_t)backing_slots_at(&m->geometry, m->n_rings)) < 0)
		r = -errno;
	/* durable before anything that it explains; fsync: the size too */
	if (r == 0 && fsync(m->fd) < 0)
		r = -errno;
	if (r < 0)
		return r;
	m->headed = true;
	*ret_made = true;
	return 0;
}

/* A disk that is too small says so before the first sub-buffer, not in the middle of a lap. */
static int ring_allocate(Image *m, Ring *ring)
{
	u64 size = (u64)ring->n_slots * ring->reader.sub_size;

	if (!ring->slots) {
		ring->slots = calloc(ring->n_slots, sizeof(*ring->slots));
		if (!ring->slots)
			return -ENOMEM;
	}
	while (fallocate(m->fd, 0, (off_t)ring->at, (off_t)size) < 0) {
		if (errno == EINTR)
			continue;
		if (errno != EOPNOTSUPP)
			return -errno;
		break; /* then it is found as it comes */
	}
	ring->allocated = true;
	return 0;
}

/* ---- the end of a pass ---- */

static u32 ring_cpu(const Image *m, u32 ring)
{
	if (geometry_is_side(&m->geometry, ring))
		return 0;
	/* relaxed: set before the ring has memory, so before anything is in it */
	return load_relaxed_u32(&m->cpus->cpu_of[ring]);
}

static u64 table_write(Image *m, u64 *ret_size)
{
	struct backing_table *t = (void *)m->table;
	struct backing_table_ring *v = (void *)(t + 1);
	u64 size = sizeof(*t) + m->n_rings * sizeof(*v);

	memset(m->table, 0, backing_table_size(&m->geometry));
	*t = (struct backing_table){
		.magic = BACKING_MAGIC_TABLE,
		.image = m->id,
		.pass = m->pass + 1,
		.begun = m->begun,
		.time = record_clock_now(&m->clock),
		.until = m->until,
		.realtime_offset = capture_realtime_offset(&m->clock),
		.glossary = glossary_size(m->glossary),
		.n_rings = m->n_rings,
	};
	for (u32 i = 0; i < m->n_rings; i++) {
		v[i] = m->rings[i].fresh;
		v[i].cpu = ring_cpu(m, i);
	}
	t->checksum = backing_checksum(0, m->table, size);
	*ret_size = size;
	return t->pass;
}

static void ring_settle(Ring *ring, bool durable)
{
	u64 last = ring->kept.end & ~(ring->reader.sub_size - 1);
	bool again = false; /* the part that was written last has grown */

	if (!ring->slots)
		return;
	for (u32 i = 0; i < ring->n_slots; i++)
		again |= ring->slots[i].state == SLOT_FRESH && ring->slots[i].position == last;
	for (u32 i = 0; i < ring->n_slots; i++) {
		Slot *s = &ring->slots[i];

		if (s->state == SLOT_FRESH)
			s->state = durable ? SLOT_KEPT : SLOT_FREE;
		else if (durable && s->state == SLOT_KEPT &&
			 (s->position < ring->fresh.first || (again && s->position == last)))
			s->state = SLOT_FREE;
	}
}

/* What was copied becomes durable, or has not been. */
static int image_commit(Image *m, ImageCounters *c)
{
	u64 size, pass = table_write(m, &size);
	int r = write_at(m->fd, m->table, size, backing_table_at(&m->geometry, pass));

	if (r == 0 && fdatasync(m->fd) < 0)
		r = -errno;
	for (u32 i = 0; i < m->n_rings; i++) {
		Ring *ring = &m->rings[i];

		ring_settle(ring, r == 0);
		if (r == 0)
			ring->kept = ring->fresh;
		else
			ring->fresh = ring->kept;
	}
	if (r == 0) {
		m->pass = pass;
		c->sub_buffers += m->fresh_subs;
		c->bytes += m->fresh_bytes + size;
		/* nobody reads it before the next boot: the page cache is for others */
		(void)posix_fadvise(m->fd, 0, 0, POSIX_FADV_DONTNEED);
	}
	m->changed = false;
	m->fresh_subs = m->fresh_bytes = 0;
	return r;
}

/* ---- one ring ---- */

static Slot *slot_find(Ring *ring)
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

/* Of a pinned ring the daemon gives away what is before. */
static u64 pinned_oldest(const Ring *ring, u64 offset)
{
	/* relaxed: stored before another program was given the ring (lib/reader.h); one that lies spoils its own */
	u64 consumed = load_relaxed_u64(&ring->reader.line->consumed);

	return consumed > offset || consumed & (ring->reader.sub_size - 1) ? 0 : consumed;
}

static u64 oldest(const Ring *ring, u64 offset)
{
	if (ring->pinned)
		return pinned_oldest(ring, offset);
	return ring->overwrites ? reader_first_whole(offset, ring->reader.size, ring->reader.sub_size) : 0;
}

/* Records up to the boundary behind `position`, by the header of the sub-buffer there; what it says is checked by whoever reads
 * this. */
static u64 count_behind(const Ring *ring, u64 position, u64 offset)
{
	struct abi_sub h;

	if (position + ABI_SUB_HEADER > offset)
		return UINT64_MAX;
	memcpy(&h, ring->reader.data + (position & (ring->reader.size - 1)), sizeof(h));
	return h.position == position ? h.count : UINT64_MAX;
}

/* The sub-buffer at `position` into m->copy, whole as its writer left it when `offset` was loaded. 0, -EAGAIN: the writer has come
 * round to it; -EBADMSG: the ring lies. */
static int sub_copy(Image *m, u32 index, u64 position, u64 offset, u64 count, struct backing_slot *ret)
{
	const Ring *ring = &m->rings[index];
	const struct reader *r = &ring->reader;
	bool complete = offset - position >= r->sub_size;
	u64 size = complete ? r->sub_size : offset - position, after, unused;
	struct abi_sub h;

	memcpy(m->copy, r->data + (position & (r->size - 1)), size);
	*ret = (struct backing_slot){
		.magic = BACKING_MAGIC_SLOT,
		.image = m->id,
		.pass = m->pass + 1,
		.position = position,
		.count = !complete || position + r->sub_size == offset ? count :
									  count_behind(ring, position + r->sub_size, offset),
		.ring = index,
		.complete = complete,
	};
	/* R2 of abi.h: reader_position() orders it behind the loads of the copy */
	if (reader_position(r, &after, &unused) < 0 || after < offset || after > POSITION_LIMIT)
		return -EBADMSG;
	if (oldest(ring, after) > position)
		return -EAGAIN;
	memcpy(&h, m->copy, sizeof(h));
	/* what lies beyond the end is of an older lap; an end that cannot be is for who reads it to judge */
	if (complete && h.position == position && h.end > position + ABI_SUB_HEADER && h.end <= position + r->sub_size)
		size = h.end - position;
	ret->size = (u32)size;
	ret->time = record_clock_now(&m->clock);
	ret->lost = reader_lost(r);
	return 0;
}

static int sub_write(Image *m, Ring *ring, Slot *s, struct backing_slot *h)
{
	u64 padded = ALIGN_UP((u64)h->size, (u64)BACKING_BLOCK);
	u8 *room = m->copy + offsetof(struct abi_sub, room);
	int r;

	memset(m->copy + h->size, 0, padded - h->size);
	memcpy(room, h, sizeof(*h));
	h->checksum = backing_checksum(0, m->copy, h->size);
	memcpy(room, h, sizeof(*h));
	r = write_at(m->fd, m->copy, padded, ring->at + (u64)(s - ring->slots) * ring->reader.sub_size);
	if (r < 0)
		return r;
	s->position = h->position;
	s->state = SLOT_FRESH;
	m->changed = true;
	m->fresh_subs++;
	m->fresh_bytes += padded;
	return 0;
}

/* The ring's entry in the table, with the sub-buffer that was just written. */
static void ring_advance(Ring *ring, const struct backing_slot *h)
{
	u64 sub_size = ring->reader.sub_size;

	/* a hole: what is before it is not counted on any more */
	if (h->position > (ring->fresh.end & ~(sub_size - 1)))
		ring->fresh.first = h->position;
	ring->fresh.end = h->complete ? h->position + sub_size : h->position + h->size;
	ring->fresh.first = MAX(ring->fresh.first, oldest(ring, ring->fresh.end));
	ring->fresh.count = h->count;
}

/* All of the ring that is new, up to where it stands now. */
static int ring_copy(Image *m, u32 index, u64 offset, u64 count, int dir_fd, ImageCounters *c)
{
	Ring *ring = &m->rings[index];
	u64 sub_size = ring->reader.sub_size, position = ring->fresh.end & ~(sub_size - 1), skip = 0;

	while (position < offset) {
		u64 now, unused, whole, bytes;
		struct backing_slot h;
		Slot *s;
		int r;

		if (reader_position(&ring->reader, &now, &unused) < 0 || now < offset || now > POSITION_LIMIT)
			return 0;
		whole = oldest(ring, now);
		if (position < whole) {
			/* to be ahead of a fast writer takes a longer step each time it wins */
			u64 to = MIN(whole + skip * sub_size, ALIGN_UP(offset, sub_size));

			c->missed += (to - position) / sub_size;
			position = to;
			continue;
		}
		r = sub_copy(m, index, position, offset, count, &h);
		if (r == -EAGAIN) {
			skip = skip * 2 + 1;
			continue;
		}
		if (r == -EBADMSG)
			return 0;
		/* whatever id is in the copy was added before a program was told it */
		r = glossary_flush(m->glossary, dir_fd, m->glossary_name, &bytes);
		if (r < 0)
			return r;
		c->bytes += bytes;
		s = slot_find(ring);
		if (!s)
			return -ENOSPC; /* there is one for every sub-buffer of a pass beside those that are kept */
		r = sub_write(m, ring, s, &h);
		if (r < 0)
			return r;
		ring_advance(ring, &h);
		position += sub_size;
	}
	return 0;
}

static int ring_pass(Image *m, u32 index, int dir_fd, ImageCounters *c)
{
	Ring *ring = &m->rings[index];
	u64 offset, count;
	int r;

	/* R1; a ring that lies is left as it is: its last good state is on disk */
	if (reader_position(&ring->reader, &offset, &count) < 0 || offset > POSITION_LIMIT || offset < ring->fresh.end)
		return 0;
	/* nobody gives anything back in such a ring */
	if (!ring->overwrites && offset - oldest(ring, offset) > ring->reader.size)
		return 0;
	for (u32 k = 0; k < ABI_LOST_CAUSES; k++) {
		u64 lost = reader_lost_by(&ring->reader, k);

		m->changed |= lost != ring->fresh.lost[k];
		ring->fresh.lost[k] = lost;
	}
	if (offset == ring->fresh.end)
		return 0;
	r = ring->allocated ? 0 : ring_allocate(m, ring);
	return r < 0 ? r : ring_copy(m, index, offset, count, dir_fd, c);
}

int image_pass(Image *m, int dir_fd, u64 until, bool *ret_made, ImageCounters *c)
{
	u64 bytes;
	int r;

	m->begun = record_clock_now(&m->clock);
	m->until = until;
	r = image_open(m, dir_fd, ret_made);
	if (r == 0)
		r = glossary_flush(m->glossary, dir_fd, m->glossary_name, &bytes);
	if (r < 0)
		return r;
	c->bytes += bytes;
	for (u32 i = 0; i < m->n_rings && r == 0; i++)
		r = ring_pass(m, i, dir_fd, c);
	if (r < 0) {
		/* nothing of it counts; it is begun anew */
		for (u32 i = 0; i < m->n_rings; i++) {
			ring_settle(&m->rings[i], false);
			m->rings[i].fresh = m->rings[i].kept;
		}
		m->changed = false;
		m->fresh_subs = m->fresh_bytes = 0;
		return r;
	}
	if (m->changed || m->pass == 0)
		r = image_commit(m, c);
	c->passes += r == 0;
	/* records first: of whom they are is less */
	if (r == 0 && m->programs_changed) {
		r = programs_write(dir_fd, m->programs_name, m->id, &m->programs);
		m->programs_changed = r < 0;
		*ret_made |= r == 0;
	}
	return r;
}
