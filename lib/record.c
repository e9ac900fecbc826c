/* SPDX-License-Identifier: MIT */
/* One record: which sequence, how often, and where it goes when none comes to its end. */
#include "lib/record.h"

#include "lib/atomic.h"
#include "lib/quick.h"
#include "lib/side.h"
#include "lib/waiter.h"

#include <sys/syscall.h>

/* Aborts and refusals of one record, over all its sequences together. An honest record needs three at the
 * worst (boundary, entry, one preemption); a single-stepped one would go on for ever. */
#define TURNS 64

_data_ ptrdiff_t sequence_offset;

/* glibc >= 2.35 says where it registered a thread's rseq area; weak, since libtracer must load with older
 * ones. Size 0: it registered none. */
extern const ptrdiff_t __rseq_offset __attribute__((weak));
extern const unsigned int __rseq_size __attribute__((weak));

void sequence_detect(void)
{
	if (&__rseq_offset && &__rseq_size && __rseq_size)
		sequence_offset = __rseq_offset;
}

void sequence_register(void)
{
	/* the size that every kernel with rseq takes; EBUSY or EINVAL: it has one, as it should */
	if (sequence_offset)
		(void)syscall(SYS_rseq, sequence_area(), 32, 0, RSEQ_AREA_SIGNATURE);
}

static inline u64 clock_mult(const struct record_clock *clock)
{
	return clock->kind == ABI_CLOCK_COUNTER ? clock->mult : 0;
}

u64 record_clock_now(const struct record_clock *clock)
{
	u64 mult = clock_mult(clock), ticks;

	if (!mult)
		return monotonic_ns();
	/* behind the loads before it: a cut must not be older than what was seen before it was taken */
#if defined(__x86_64__)
	u32 low, high;

	__asm__ volatile("lfence; rdtsc" : "=a"(low), "=d"(high)::"memory");
	ticks = low | (u64)high << 32;
#else
	/* an isb alone does not wait for what loads before it bring, unless a branch depends on it, as in the sequences */
	__asm__ volatile("dsb ishld; isb; mrs %0, cntvct_el0" : "=r"(ticks)::"memory");
#endif
	return (u64)(((unsigned __int128)ticks * mult) >> 32);
}

static __attribute__((noinline)) enum record_result lose(struct request *q, u64 ids, u32 turns)
{
	while (sequence_offset && turns++ < TURNS) {
		switch (sequence_lost(q, sequence_area())) {
		case SEQUENCE_DONE:
			return RECORD_LOST;
		case SEQUENCE_STALE:
			return RECORD_STALE;
		case SEQUENCE_NO_RING:
			turns = TURNS;
			break;
		default: /* abort: again */
			break;
		}
	}
	return side_lose(q, ids);
}

static int try_once(struct request *q, bool full)
{
	/* An abort may mean that the thread was away: a time that was read before the sequence is read anew
	 * for each, or the hold of a snapshot would be judged by an old one. */
	if (!q->mult)
		q->now = monotonic_ns();
	if (full)
		return sequence_full(q, sequence_area());
	return q->mult ? sequence_fast_counter(q->body, q->mult, q->slot, q->generation, q->idlen, sequence_area()) :
			 sequence_fast_given(q->body, q->now, q->slot, q->generation, q->idlen, sequence_area());
}

static bool is_full(const struct request *q)
{
	return q->n_parts || q->bytes > SEQUENCE_FAST_MAX;
}

/* A record by sequences, or the side ring if they do not come to an end; r is what the first one said. */
static enum record_result attempt(struct request *q, int r, const struct record_clock *clock, u64 ids, u32 producer)
{
	bool full = is_full(q);

	for (u32 turns = 0; turns < TURNS; turns++) {
		switch (r) {
		case SEQUENCE_DONE:
			return RECORD_DONE;
		case SEQUENCE_DONE_FULL:
			/* bounded, and may be left undone: a stale base only costs extended records */
			while (q->renew && turns++ < TURNS &&
			       sequence_base(q, sequence_area()) == SEQUENCE_ABORT)
				;
			return RECORD_DONE;
		case SEQUENCE_LOST:
			if (waiter_refused(q->slot, q->cause))
				return RECORD_REFUSED;
			q->amount = 1;
			return lose(q, ids, turns);
		case SEQUENCE_STALE:
			return RECORD_STALE;
		case SEQUENCE_NO_RING:
			return side_write(q, clock, ids, producer);
		case SEQUENCE_SLOW:
			r = try_once(q, true);
			continue;
		case SEQUENCE_NO_FIT:
			r = sequence_boundary(q, sequence_area());
			if (r == SEQUENCE_STALE || r == SEQUENCE_NO_RING)
				continue;
			q->edge |= r == SEQUENCE_DONE;
			r = try_once(q, true); /* on a boundary now, as likely as not */
			continue;
		default: /* abort, clock */
			r = try_once(q, full);
			continue;
		}
	}
	return side_write(q, clock, ids, producer);
}

/* Policy block: the whole record again and again, outside of any ring in between, until there is room or it is too late.
 * Whatever an attempt found (ring, clock, time) is found anew by the next. */
static __attribute__((noinline, cold)) enum record_result
wait_for_room(struct request *q, const struct record_clock *clock, u64 ids, u32 producer, bool side)
{
	enum record_result result = RECORD_REFUSED;
	struct waiter w;

	waiter_begin(&w, q->slot, q->generation);
	while (result == RECORD_REFUSED) {
		switch (waiter_next(&w)) {
		case WAITER_STALE:
			return RECORD_STALE;
		case WAITER_LATE:
			q->cause = ABI_LOST_FULL;
			q->amount = 1;
			return lose(q, ids, 0);
		case WAITER_TRY:
			break;
		}
		q->edge = 0;
		result = side ? side_write(q, clock, ids, producer) :
				attempt(q, try_once(q, is_full(q)), clock, ids, producer);
		if (q->edge)
			waiter_call(q->slot);
	}
	return result;
}

/* What every record has behind it that was not over with its first sequence. */
static enum record_result finish(struct request *q, enum record_result result, const struct record_clock *clock,
				 u64 ids, u32 producer, bool side)
{
	/* also where the boundary was published and the entry then refused: the consumer has that one to take */
	if (q->edge)
		waiter_call(q->slot);
	return likely(result != RECORD_REFUSED) ? result : wait_for_room(q, clock, ids, producer, side);
}

/* Fills the request; false if the record is larger than `length` can say in the extended form. */
static inline bool request_init(struct request *q, struct slot *s, u32 generation, u32 id,
				const u8 *body, u64 head, u64 rest, u64 mult)
{
	u32 length = (u32)(ABI_RECORD_HEADER + head + rest);

	q->slot = s;
	q->generation = generation;
	q->body = body;
	q->mult = mult;
	q->head = (u32)head;
	q->edge = 0;
	if (unlikely(head + rest > ABI_MAX_RECORD - ABI_RECORD_EXTENDED))
		return false;
	q->bytes = ALIGN_UP((u32)head, 4u);
	q->idlen = (id & 0xFFFF) | length << 16;
	q->step = ALIGN_UP(length, 4u);
	return true;
}

enum way { WAY_CPU, WAY_SIDE, WAY_PINNED };

/* Records with several parts, large ones, none at all, and those for the side ring or a pinned one. */
static __attribute__((noinline)) enum record_result
write_parts(struct slot *s, u32 generation, u32 id, u64 ids, u32 producer,
	    const struct record_clock *clock, const struct record_part *parts, u32 n_parts, enum way way)
{
	bool side = way == WAY_SIDE || !sequence_offset;
	enum record_result result;
	u64 empty[2] = { 0 }, rest = 0;
	u8 *head = (u8 *)&empty[1], *body;
	u32 size = 0;
	struct request q;

	q.n_parts = 0;
	q.parts = NULL;
	if (n_parts) {
		head = (u8 *)parts[0].data;
		size = parts[0].size;
		q.n_parts = n_parts - 1;
		q.parts = parts + 1;
	}
	for (u32 i = 0; i < q.n_parts; i++)
		rest += q.parts[i].size;
	body = head - quick_contexts(head, s, ids);
	if (!request_init(&q, s, generation, id, body, (u64)(head - body) + size, rest,
			  clock_mult(clock))) {
		q.cause = ABI_LOST_BIG;
		q.amount = 1;
		return lose(&q, ids, 0);
	}
	if (way == WAY_PINNED) {
		result = side_pin(&q, clock, ids, producer);
		if (result != RECORD_REFUSED)
			return result;
		q.edge = 0; /* of a ring that nobody consumes */
	}
	return finish(&q,
		      side ? side_write(&q, clock, ids, producer) :
			     attempt(&q, try_once(&q, is_full(&q)), clock, ids, producer),
		      clock, ids, producer, side);
}

/* Goes on with a record whose first sequence said r. */
static __attribute__((noinline)) enum record_result
write_on(int r, struct slot *s, u32 generation, u32 id, u64 ids, u32 producer, const struct record_clock *clock,
	 const struct record_part *part)
{
	u8 *head = (u8 *)part->data, *body = head - quick_contexts(head, s, ids);
	struct request q;

	q.n_parts = 0;
	(void)request_init(&q, s, generation, id, body, (u64)(head - body) + part->size, 0, clock_mult(clock));
	return finish(&q, attempt(&q, r, clock, ids, producer), clock, ids, producer, false);
}

enum record_result record_write(struct slot *s, u32 generation, u32 id, u64 ids, u32 producer,
				const struct record_clock *clock, const struct record_part *parts,
				u32 n_parts)
{
	int r;

#ifdef BROKEN_OUTSIDE /* negative control of tests/stress: pointer and geometry loaded before the sequence */
	struct slot outside = *s;

	if (outside.generation != generation)
		return RECORD_STALE;
	s = &outside;
#endif
	if (unlikely(!generation))
		return RECORD_STALE; /* a detached slot has generation 0: it must not agree */
	if (unlikely(n_parts != 1 || !sequence_offset || !quick_size(parts[0].size)))
		return write_parts(s, generation, id, ids, producer, clock, parts, n_parts, WAY_CPU);
	r = quick_write(s, generation, id, ids, clock_mult(clock), (u8 *)parts[0].data, parts[0].size);
	if (likely(r == SEQUENCE_DONE))
		return RECORD_DONE;
	return write_on(r, s, generation, id, ids, producer, clock, parts);
}

enum record_result record_write_side(struct slot *s, u32 generation, u32 id, u64 ids, u32 producer,
				     const struct record_clock *clock,
				     const struct record_part *parts, u32 n_parts)
{
	if (unlikely(!generation))
		return RECORD_STALE;
	return write_parts(s, generation, id, ids, producer, clock, parts, n_parts, WAY_SIDE);
}

enum record_result record_write_pinned(struct slot *s, u32 generation, u32 id, u64 ids, u32 producer,
				       const struct record_clock *clock, const struct record_part *parts,
				       u32 n_parts)
{
	if (unlikely(!generation))
		return RECORD_STALE;
	return write_parts(s, generation, id, ids, producer, clock, parts, n_parts, WAY_PINNED);
}

void record_lose(struct slot *s, u32 generation, u64 ids, u32 cause, u64 n)
{
	struct request q;

	if (!generation || cause >= ABI_LOST_CAUSES || !n)
		return;
	q.slot = s;
	q.generation = generation;
	q.cause = cause;
	q.amount = n;
	(void)lose(&q, ids, 0);
}
