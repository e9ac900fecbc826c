/* SPDX-License-Identifier: MIT */
/* The restartable sequences in C, for the thread sanitizer, which does not see assembly. What the kernel does for them, a lock for each
 * CPU does here: one thread at a time is on it, and what a thread did there is before what the next one does. Now and then
 * one is preempted in the middle: it leaves what it has written behind the offset, and begins again. Stores and orders are those
 * of sequence-x86_64.S, line by line; the words of a control line are loaded relaxed where the lock orders them. */
#include "tests/stress/race.h"

#include <pthread.h>

#include "lib/atomic.h"
#include "lib/reader.h"
#include "lib/sequence.h"

__thread u32 race_cpu, race_random = 1;
static pthread_mutex_t cpus[RACE_CPUS] = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER };

typedef struct {
	const struct slot *s;
	struct abi_ring *line;
	u8 *data;
	u64 word, position, now;
	u32 ring;
} View;

u32 race_roll(void)
{
	race_random = race_random * 1664525 + 1013904223;
	return race_random >> 8;
}

/* About one in so many, at this place. */
static bool preempted(void)
{
	return race_roll() % 64 == 0;
}

static u64 counter(u64 mult)
{
	const struct record_clock clock = { ABI_CLOCK_COUNTER, mult };

	return record_clock_now(&clock);
}

/* LOAD */
static int view(View *v, const struct slot *s, u32 generation)
{
	if (load_acquire_u32(&s->generation) != generation)
		return SEQUENCE_STALE;
	v->s = s;
	v->ring = s->cpu_ring[race_cpu];
	if (v->ring >= s->n_ring)
		return SEQUENCE_NO_RING;
	v->line = (struct abi_ring *)(s->map + ABI_PAGE) + v->ring;
	v->data = s->map + s->data + ((u64)v->ring << s->shift);
	v->word = load_relaxed_u64(&v->line->offset);
	v->position = v->word & ~3ull;
	return SEQUENCE_DONE;
}

/* GIVEN */
static bool given(const View *v, u64 now)
{
	if (now < load_relaxed_u64(&v->line->last))
		return false;
	store_relaxed_u64(&v->line->last, now);
	return true;
}

static void publish(const View *v, u64 position, u32 records)
{
	u64 bit = ~v->word & 1;

	store_release_u64(&v->line->count[bit], load_relaxed_u64(&v->line->count[v->word & 1]) + records); /* W0 */
	store_release_u64(&v->line->offset, position | bit); /* W1 */
}

static int fast_locked(const void *body, u64 mult, u64 now, const struct slot *s, u32 generation, u32 idlen)
{
	u32 step = ALIGN_UP(idlen >> 16, 4u), low;
	View v;
	int r = view(&v, s, generation);
	u64 in;
	u8 *to;

	if (r != SEQUENCE_DONE)
		return r;
	in = v.position & s->sub_mask;
	if (!in || in + step > s->sub_mask)
		return SEQUENCE_SLOW;
	if (mult)
		now = counter(mult);
	else if (!given(&v, now))
		return SEQUENCE_CLOCK;
	if (now - load_relaxed_u64(&v.line->base) >= ABI_COMPACT_LIMIT)
		return SEQUENCE_SLOW;
	to = v.data + (v.position & s->ring_mask);
	low = (u32)now;
	memcpy(to, &idlen, sizeof(idlen));
	memcpy(to + 4, &low, sizeof(low));
	if (preempted())
		return SEQUENCE_ABORT;
	memcpy(to + ABI_RECORD_HEADER, body, step - ABI_RECORD_HEADER);
	if (preempted())
		return SEQUENCE_ABORT;
	publish(&v, v.position + step, 1);
	return SEQUENCE_DONE;
}

static int on_cpu(void)
{
	(void)pthread_mutex_lock(&cpus[race_cpu]);
	return (int)race_cpu;
}

static int off_cpu(int cpu, int result)
{
	(void)pthread_mutex_unlock(&cpus[cpu]);
	if (result == SEQUENCE_ABORT) /* migrated, as likely as not */
		race_cpu = race_roll() % RACE_CPUS;
	return result;
}

int sequence_fast_counter(const void *body, u64 mult, const struct slot *s, u32 generation, u32 idlen, void *area)
{
	int cpu = on_cpu();

	return off_cpu(cpu, fast_locked(body, mult, 0, s, generation, idlen));
}

int sequence_fast_given(const void *body, u64 now, const struct slot *s, u32 generation, u32 idlen, void *area)
{
	int cpu = on_cpu();

	return off_cpu(cpu, fast_locked(body, 0, now, s, generation, idlen));
}

/* 8020 to 8022: the policy. 0: it may be entered. */
static u32 refused(const View *v)
{
	u64 need = v->position + v->s->sub_mask + 1, ring = v->s->ring_mask + 1, hold;

	if (v->s->policy != ABI_POLICY_OVERWRITE)
		/* acquire: pairs with reader_consume() */
		return need > ring + load_acquire_u64(&v->line->consumed) ? ABI_LOST_FULL + 1 : 0;
	/* acquire: pairs with reader_hold() and reader_release() */
	hold = load_acquire_u64(&v->line->hold);
	if (!(hold & 1) || load_relaxed_u64(&v->line->deadline) - v->now > ABI_MAX_HOLD_NS)
		return 0;
	return need > ring + (hold & ~1ull) ? ABI_LOST_HELD + 1 : 0;
}

static u64 lost_sum(const View *v)
{
	u64 sum = 0;

	for (u32 i = 0; i < ABI_LOST_CAUSES; i++)
		sum += load_relaxed_u64(&v->line->lost[i]);
	return sum;
}

static u8 *parts_copy(u8 *to, const struct request *q)
{
	memcpy(to, q->body, q->head);
	to += q->head;
	for (u32 i = 0; i < q->n_parts; i++) {
		memcpy(to, q->parts[i].data, q->parts[i].size);
		to += q->parts[i].size;
	}
	return to;
}

static int full_locked(struct request *q)
{
	u64 sub_size = q->slot->sub_mask + 1, in, start = 0, end;
	u32 step = q->step, extended = 0, cause;
	struct abi_sub *header;
	View v;
	int r = view(&v, q->slot, q->generation);
	u8 *to;

	if (r != SEQUENCE_DONE)
		return r;
	q->ring = v.ring;
	q->renew = 0;
	if (ABI_SUB_HEADER + ABI_RECORD_EXTENDED - ABI_RECORD_HEADER + step > sub_size) {
		q->cause = ABI_LOST_BIG;
		return SEQUENCE_LOST;
	}
	if (q->mult)
		q->now = counter(q->mult);
	else if (!given(&v, q->now))
		return SEQUENCE_CLOCK;
	v.now = q->now;
	in = v.position & q->slot->sub_mask;
	header = (struct abi_sub *)(v.data + (v.position & q->slot->ring_mask & ~q->slot->sub_mask));
	if (!in) {
		cause = refused(&v);
		if (cause) {
			q->cause = cause - 1;
			return SEQUENCE_LOST;
		}
		header->position = v.position;
		header->begin = q->now;
		header->count = load_relaxed_u64(&v.line->count[v.word & 1]);
		header->lost = lost_sum(&v);
		header->end = 0;
		start = ABI_SUB_HEADER;
		q->renew = 1;
		if (preempted())
			return SEQUENCE_ABORT;
	} else if (q->now - load_relaxed_u64(&v.line->base) >= ABI_COMPACT_LIMIT) {
		extended = ABI_RECORD_EXTENDED - ABI_RECORD_HEADER;
		q->renew = 1;
	}
	step += extended;
	end = in + start + step;
	if (end > sub_size) {
		q->need = step;
		return SEQUENCE_NO_FIT;
	}
	to = (u8 *)header + in + start;
	if (extended) {
		u32 head[2] = { (q->idlen & 0xFFFF0000) + (extended << 16 | ABI_ID_EXTENDED), q->idlen & 0xFFFF };

		memcpy(to, head, sizeof(head));
		memcpy(to + 8, &q->now, sizeof(q->now));
		to += ABI_RECORD_EXTENDED;
	} else {
		u32 head[2] = { q->idlen, (u32)q->now };

		memcpy(to, head, sizeof(head));
		to += ABI_RECORD_HEADER;
	}
	if (end == sub_size) {
		header->end = v.position + start + step;
		q->edge = 1;
	}
	(void)parts_copy(to, q);
	if (preempted())
		return SEQUENCE_ABORT;
	publish(&v, v.position + start + step, 1);
	return SEQUENCE_DONE_FULL;
}

int sequence_full(struct request *q, void *area)
{
	int cpu = on_cpu();

	return off_cpu(cpu, full_locked(q));
}

static int boundary_locked(struct request *q)
{
	View v;
	int r = view(&v, q->slot, q->generation);
	u64 in;

	if (r != SEQUENCE_DONE)
		return r;
	in = v.position & q->slot->sub_mask;
	if (!in || in + q->need - 1 <= q->slot->sub_mask)
		return SEQUENCE_SLOW;
	((struct abi_sub *)(v.data + (v.position & q->slot->ring_mask & ~q->slot->sub_mask)))->end = v.position;
	if (preempted())
		return SEQUENCE_ABORT;
	publish(&v, (v.position | q->slot->sub_mask) + 1, 0);
	return SEQUENCE_DONE;
}

int sequence_boundary(struct request *q, void *area)
{
	int cpu = on_cpu();

	return off_cpu(cpu, boundary_locked(q));
}

static int base_locked(const struct request *q)
{
	View v;
	int r = view(&v, q->slot, q->generation);

	if (r == SEQUENCE_DONE && v.ring == q->ring && q->now > load_relaxed_u64(&v.line->base))
		store_relaxed_u64(&v.line->base, q->now);
	return r;
}

int sequence_base(struct request *q, void *area)
{
	int cpu = on_cpu();

	return off_cpu(cpu, base_locked(q));
}

static int lost_locked(const struct request *q)
{
	View v;
	int r = view(&v, q->slot, q->generation);

	if (r == SEQUENCE_DONE)
		store_relaxed_u64(&v.line->lost[q->cause], load_relaxed_u64(&v.line->lost[q->cause]) + q->amount);
	return r;
}

int sequence_lost(struct request *q, void *area)
{
	int cpu = on_cpu();

	return off_cpu(cpu, lost_locked(q));
}
