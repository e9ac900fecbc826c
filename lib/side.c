/* SPDX-License-Identifier: MIT */
/* Side rings, and pinned rings, which are such. The stores and their order are those of the sequences (lib/sequence-*.S); the lock
 * takes the place of the restart. A holder that dies leaves an unpublished record and the lock,
 * which the daemon breaks. */
#include "lib/side.h"

#include "lib/atomic.h"
#include "lib/waiter.h"

#include <sched.h>

/* A holder needs a microsecond. First tries are for one that runs on another CPU, the later ones
 * let one that was preempted on ours finish; all together a fraction of a millisecond. */
#define SPINS  100
#define YIELDS 200

static u32 ring_of(const struct slot *s, u64 ids)
{
	return s->geometry.n_ring + (u32)(ids >> 32) % s->geometry.n_side;
}
static struct abi_ring *line_of(const struct slot *s, u32 ring)
{
	return (struct abi_ring *)(s->map + ABI_PAGE) + ring;
}

static bool lock(struct abi_ring *line, u64 me)
{
	for (u32 i = 0; i < SPINS + YIELDS; i++) {
		u64 none = 0;

		/* acquire: pairs with the release in unlock() and side_break(); what the holder
		 * before stored is visible */
		if (!load_relaxed_u64(&line->lock) && cas_acquire_u64(&line->lock, &none, me))
			return true;
		if (i >= SPINS)
			(void)sched_yield();
	}
	return false;
}

static void unlock(struct abi_ring *line, u64 me)
{
	/* compared: should the daemon have broken the lock wrongly, its next holder is not thrown
	 * out */
	(void)cas_release_u64(&line->lock, &me, 0);
}

bool side_holder(const struct abi_ring *line, u32 *ret_producer, u32 *ret_tid)
{
	u64 word = load_acquire_u64(&line->lock);

	if (!word)
		return false;
	*ret_producer = (u32)(word >> 32);
	*ret_tid = (u32)word;
	return true;
}

bool side_break(struct abi_ring *line, u32 producer, u32 tid)
{
	u64 word = load_acquire_u64(&line->lock);

	if (!word || word >> 32 != producer || (tid && (u32)word != tid))
		return false;
	/* acq_rel: stands between the dead holder's stores and the next one's */
	return cas_acq_rel_u64(&line->lock, &word, 0);
}

static u8 *copy_string(u8 *to, const char *from, u32 size)
{
	u32 i = 0;

	if (!size)
		return to;
	/* the string may be shortened meanwhile; a byte is loaded once, tested and stored */
	for (; i < size - 1; i++) {
		char c = *(const volatile char *)(from + i);

		if (!c)
			break;
		to[i] = (u8)c;
	}
	memset(to + i, '#', size - 1 - i);
	to[size - 1] = 0;
	return to + size;
}

static void copy_body(u8 *to, const struct request *q)
{
	memcpy(to, q->body, q->head);
	to += q->head;
	for (u32 i = 0; i < q->n_parts; i++) {
		const struct record_part *p = &q->parts[i];

		if (p->string) {
			to = copy_string(to, p->data, p->size);
		} else {
			memcpy(to, p->data, p->size);
			to += p->size;
		}
	}
}

static u64 lost_sum(const struct abi_ring *line)
{
	u64 sum = 0;

	for (u32 i = 0; i < ABI_LOST_CAUSES; i++)
		sum += load_relaxed_u64(&line->lost[i]);
	return sum;
}

/* Whether the sub-buffer at `position` may be entered; else the cause. */
static bool may_enter(bool keeps, const struct abi_ring *line, u64 position, u64 now,
		      u64 ring_size, u64 sub_size, u32 *ret_cause)
{
	u64 hold;

	if (keeps) {
		/* acquire: pairs with reader_consume(); only what was copied is overwritten */
		*ret_cause = ABI_LOST_FULL;
		return position + sub_size <= ring_size + load_acquire_u64(&line->consumed);
	}
	/* acquire, hold first: pairs with reader_hold(), which stores the deadline first */
	hold = load_acquire_u64(&line->hold);
	if (!(hold & 1) || load_relaxed_u64(&line->deadline) - now > ABI_MAX_HOLD_NS)
		return true;
	*ret_cause = ABI_LOST_HELD;
	return position + sub_size <= ring_size + (hold & ~1ull);
}

/* The record, under the lock. Every word of the line is another producer's as well: positions are
 * masked, and a record stays inside one sub-buffer of our own geometry whatever they say. */
static bool write_locked(struct request *q, const struct record_clock *clock, u32 ring,
			 struct abi_ring *line)
{
	const struct slot *s = q->slot;
	u64 ring_size = geometry_ring_size(&s->geometry, ring);
	u64 sub_size = geometry_sub_size(&s->geometry, ring);
	u8 *data = s->map + geometry_ring_at(&s->geometry, ring);

	if (ABI_SUB_HEADER + ABI_RECORD_EXTENDED - ABI_RECORD_HEADER + q->step > sub_size) {
		q->cause = ABI_LOST_BIG;
		return false;
	}
	/* twice at most, for an honest ring: a boundary, then the record; a liar may move it for
	 * ever */
	for (u32 turn = 0; turn < 4; turn++) {
		/* relaxed: the lock ordered it */
		u64 word = load_relaxed_u64(&line->offset), position = word & ~3ull,
		    bit = ~word & 1;
		u64 count = load_relaxed_u64(&line->count[word & 1]);
		u64 in = position & (sub_size - 1), start = 0, end, last;
		u64 now = record_clock_now(clock);
		u8 *sub = data + (position & (ring_size - 1) & ~(sub_size - 1)), *to;
		struct abi_sub *header = (struct abi_sub *)sub;
		u32 step = q->step, extended = 0;

		last = load_relaxed_u64(&line->last);
		if (now < last)
			now = last; /* another CPU's counter may be a hair behind */
		if (!in) {
			if (!may_enter(geometry_keeps(&s->geometry, ring), line, position, now, ring_size, sub_size, &q->cause))
				return false;
#if defined(__aarch64__) /* behind the W1 that published this boundary, as in the sequences */
			__asm__ volatile("dmb ishst" ::: "memory");
#endif
			header->position = position;
			header->begin = now;
			header->count = count;
			header->lost = lost_sum(line);
			header->end = 0;
			start = ABI_SUB_HEADER;
		} else if (now - load_relaxed_u64(&line->base) >= ABI_COMPACT_LIMIT) {
			extended = ABI_RECORD_EXTENDED - ABI_RECORD_HEADER;
		}
		step += extended;
		end = in + start + step;
		if (end > sub_size) {
			header->end = position;
			store_release_u64(&line->count[bit], count); /* W0 */
			store_release_u64(&line->offset,
					  ((position | (sub_size - 1)) + 1) | bit); /* W1 */
			q->edge = 1;
			continue;
		}
		to = sub + in + start;
		if (extended) {
			u32 head[2] = {(q->idlen & 0xFFFF0000) + (extended << 16 | ABI_ID_EXTENDED),
				       q->idlen & 0xFFFF};

			memcpy(to, head, sizeof(head));
			memcpy(to + 8, &now, sizeof(now));
			to += ABI_RECORD_EXTENDED;
		} else {
			u32 head[2] = {q->idlen, (u32)now};

			memcpy(to, head, sizeof(head));
			to += ABI_RECORD_HEADER;
		}
		copy_body(to, q);
		if (end == sub_size) {
			header->end = position + start + step;
			q->edge = 1;
		}
		/* before W1: should we die between the two, the next holder's time is clamped to a
		 * record that never was, which is harmless; the other way round time would go back
		 */
		store_relaxed_u64(&line->last, now);
		store_release_u64(&line->count[bit], count + 1);                   /* W0 */
		store_release_u64(&line->offset, (position + start + step) | bit); /* W1 */
		/* after it, as the sequences do: a base that is too old costs an extended record */
		if (start || extended)
			store_relaxed_u64(&line->base, now);
		return true;
	}
	q->cause = ABI_LOST_BUSY;
	return false;
}

enum record_result side_write(struct request *q, const struct record_clock *clock, u64 ids,
			      u32 producer)
{
	enum record_result result = RECORD_LOST;
	u64 me = (u64)producer << 32 | (u32)(ids >> 32);
	struct abi_ring *line;
	int saved = errno;
	sigset_t signals;
	u32 ring;

	if (!slot_enter(q->slot, q->generation, &signals)) {
		errno = saved;
		return RECORD_STALE;
	}
	ring = ring_of(q->slot, ids);
	line = line_of(q->slot, ring);
	me += !me; /* never the word of a free lock, whatever the caller calls itself */
	q->cause = ABI_LOST_BUSY;
	if (lock(line, me)) {
		if (write_locked(q, clock, ring, line))
			result = RECORD_DONE;
		unlock(line, me);
	}
	if (result == RECORD_LOST && waiter_refused(q->slot, q->cause))
		result = RECORD_REFUSED;
	else if (result == RECORD_LOST)
		/* relaxed: a counter; a locked add, since others count without the lock */
		(void)fetch_add_relaxed_u64(&line->lost[q->cause], 1);
	slot_leave(q->slot, &signals);
	errno = saved;
	return result;
}

enum record_result side_pin(struct request *q, const struct record_clock *clock, u64 ids, u32 producer)
{
	enum record_result result = RECORD_REFUSED;
	u64 me = (u64)producer << 32 | (u32)(ids >> 32);
	struct abi_ring *line;
	int saved = errno;
	sigset_t signals;
	u32 ring;

	if (!slot_enter(q->slot, q->generation, &signals)) {
		errno = saved;
		return RECORD_STALE;
	}
	/* loaded once, then held against the geometry that does not change while we are counted */
	ring = load_relaxed_u32(&q->slot->pinned);
	me += !me;
	if (!geometry_is_pinned(&q->slot->geometry, ring) || ring >= geometry_rings(&q->slot->geometry)) {
		line = line_of(q->slot, ring_of(q->slot, ids));
	} else {
		line = line_of(q->slot, ring);
		if (lock(line, me)) {
			if (write_locked(q, clock, ring, line))
				result = RECORD_DONE;
			unlock(line, me);
		}
	}
	if (result == RECORD_REFUSED)
		/* relaxed: a counter; locked, since others count without the lock */
		(void)fetch_add_relaxed_u64(&line->unpinned, 1);
	slot_leave(q->slot, &signals);
	errno = saved;
	return result;
}

enum record_result side_lose(struct request *q, u64 ids)
{
	int saved = errno;
	sigset_t signals;

	if (!slot_enter(q->slot, q->generation, &signals)) {
		errno = saved;
		return RECORD_STALE;
	}
	(void)fetch_add_relaxed_u64(&line_of(q->slot, ring_of(q->slot, ids))->lost[q->cause],
				    q->amount);
	slot_leave(q->slot, &signals);
	errno = saved;
	return RECORD_LOST;
}
