/* SPDX-License-Identifier: MIT */
/* One look of a stream at its ring. */
#include "daemon/view.h"

#include "daemon/records.h"
#include "lib/atomic.h"

/* How far a stamp may be ahead of our own look at the clock: counters of CPUs are not the same to the last tick. */
#define CLOCK_SLACK NSEC_PER_USEC

bool view_position(const Stream *s, u64 *ret_offset, u64 *ret_count)
{
	if (reader_position(&s->reader, ret_offset, ret_count) == 0)
		return true;
	/* acquire: pairs with W1, as the looks before it */
	*ret_offset = load_acquire_u64(&s->reader.line->offset) & ~3ull;
	*ret_count = UINT64_MAX;
	return false;
}

bool view_begin(const Stream *s, View *ret)
{
	bool settled;

	*ret = (View){ .clock = s->clock, .t = s->tally, .c = s->counters };
	settled = view_position(s, &ret->offset, &ret->count);
	/* behind the look: of what was published by then */
	ret->bound = record_clock_now(&s->clock_source) + CLOCK_SLACK;
	return settled;
}

void view_missed(View *v, u64 count)
{
	StreamTally *t = &v->t;
	u64 n = count > t->counted ? MIN(count - t->counted, t->unknown / ABI_RECORD_HEADER) : 0;

	if (count > v->count)
		return;
	if (t->lapped)
		v->c.overwritten = add_bounded(v->c.overwritten, n);
	else
		v->c.corrupt = add_bounded(v->c.corrupt, n);
	t->counted = count;
	t->unknown = 0;
}

void view_spoil(View *v)
{
	if (v->t.spoiled != (v->sub | 1))
		v->c.corrupt_subs++;
	v->t.spoiled = v->sub | 1;
}

static int copy_reserve(Stream *s)
{
	if (!s->copy)
		s->copy = malloc(s->reader.sub_size);
	return s->copy ? 0 : -ENOMEM;
}

int view_sub(Stream *s, View *v)
{
	u64 size = s->reader.sub_size, after, count;
	struct abi_sub h;
	bool complete;
	int good;

	v->sub = reader_sub(&s->reader, s->done);
	complete = v->offset - v->sub >= size;
	v->next = complete ? v->sub + size : v->offset;
	v->start = MAX(s->done, v->sub + ABI_SUB_HEADER);
	h = reader_header(&s->reader, v->sub);
	v->end = complete ? h.end : v->offset;
	v->records = reader_at(&s->reader, v->start);
	good = h.position == v->sub && v->end >= v->start && v->end <= v->next && !(v->end & 3);
	if (s->overwrite) {
		if (copy_reserve(s) < 0)
			return -ENOMEM;
		if (good)
			memcpy(s->copy, v->records, v->end - v->start);
		/* R2: view_position() orders it behind the loads of the copy, and of the header */
		(void)view_position(s, &after, &count);
		if (after < v->offset || view_first_whole(s, after) > v->sub)
			return -EAGAIN;
		v->records = s->copy;
	}
	if (!good)
		return 0;
	v->time = v->clock;
	if (s->done == v->sub) {
		view_missed(v, h.count);
		/* said by the packet that comes next; a lie is bounded by what the ring's line says */
		if (h.lost > v->c.lost && h.lost <= reader_lost(&s->reader))
			v->c.lost = h.lost;
		if (h.begin >= v->clock && h.begin <= v->bound)
			v->time = h.begin;
		else
			v->c.clamped++;
	}
	return 1;
}

int view_records(Stream *s, View *v, const ClassTable *classes, bool judge, StreamPacket *ret)
{
	const RecordsLimit limit = {
		.classes = classes, .time = v->time, .clock = v->clock, .bound = v->bound, .judge = judge
	};
	u32 size = (u32)(v->end - v->start);
	u64 before = stream_discarded(&v->c);
	RecordsResult r;
	Records w;

	r = records_walk(v->records, v->records + size, &limit, &w);
	if (r == RECORDS_BAD) {
		if (copy_reserve(s) < 0)
			return -ENOMEM;
		if (!s->overwrite)
			memcpy(s->copy, v->records, size);
		v->records = s->copy;
		r = records_sift(s->copy, s->copy + size, &limit, &w);
	}
	if (r == RECORDS_UNKNOWN)
		return -ENOENT;
	v->clock = w.clock;
	v->t.counted = add_bounded(v->t.counted, w.met);
	v->c.corrupt = add_bounded(v->c.corrupt, w.left_out);
	v->c.clamped += w.clamped;
	if (w.left_out || w.broken)
		view_spoil(v);
	if (w.taken < size && !w.broken)
		v->next = v->start + w.taken;
	else /* with what is behind the end: nothing, if that is honest */
		v->t.unknown = add_bounded(v->t.unknown, v->next - v->start - w.taken);
	if (w.met)
		v->t.lapped = false;
	if (w.n == 0)
		return 0;
	v->c.kept += w.n;
	*ret = (StreamPacket){
		.records = v->records,
		.size = w.size,
		.n_records = w.n,
		.fd = v->records == s->copy ? -1 : s->fd,
		.fd_offset = v->records == s->copy ? 0 : (u64)(v->records - s->map),
		.begin = w.first,
		.end = w.last,
		.discarded = before,
		.position = v->next,
	};
	return 1;
}
