/* SPDX-License-Identifier: MIT */
/* Each turn of stream_take() looks at one sub-buffer: the one that `done` stands in. What is found out goes into a View (view.h), and
 * into the stream only when something is passed over or a packet is released, so that a packet that could not be written is
 * simply found again. */
#include "daemon/stream.h"

#include "daemon/view.h"
#include "lib/atomic.h"

/* ---- the beginning ---- */

/* The oldest whole sub-buffer and its count. A writer that comes round meanwhile is met further on. */
static void begin_oldest(Stream *s, u64 offset)
{
	for (u32 skip = 0; skip < s->reader.size / s->reader.sub_size; skip++) {
		u64 oldest = view_first_whole(s, offset), position, count, after;
		struct abi_sub h;

		position = oldest ? MIN(oldest + skip * s->reader.sub_size, reader_sub(&s->reader, offset)) : 0;
		h = reader_header(&s->reader, position);
		(void)view_position(s, &after, &count);
		if (after < offset || after > view_limit(s))
			break;
		s->done = position;
		if (view_first_whole(s, after) <= position) {
			if (h.position == position && h.count <= count)
				s->tally.counted = h.count;
			return;
		}
		offset = after;
	}
}

void stream_init(Stream *s, u8 *map, int fd, const struct geometry *g, u32 ring,
		 const struct record_clock *clock)
{
	u64 offset, count, consumed;
	struct abi_sub h;

	*s = (Stream){ .clock_source = *clock, .map = map, .fd = fd };
	reader_init(&s->reader, map, g, ring);
	s->overwrite = !geometry_keeps(g, ring);
	if (!view_position(s, &offset, &count) || offset > view_limit(s))
		return; /* judged when it is taken from */
	if (s->overwrite) {
		if (view_first_whole(s, offset) == 0)
			return;
		s->tally.counted = UINT64_MAX;
		begin_oldest(s, offset);
		return;
	}
	/* relaxed: our own word, if nobody wrote over it */
	consumed = load_relaxed_u64(&s->reader.line->consumed);
	if (consumed == 0 || consumed > offset || consumed != reader_sub(&s->reader, consumed))
		return;
	s->done = s->safe = consumed;
	s->tally.counted = UINT64_MAX;
	h = reader_header(&s->reader, consumed);
	if (consumed == offset)
		s->tally.counted = count;
	else if (h.position == consumed && h.count <= count)
		s->tally.counted = h.count;
}

void stream_clear(Stream *s)
{
	free(s->copy);
	s->copy = NULL;
}

/* ---- what is found out becomes so ---- */

/* Positions below are not needed any more. A part of a sub-buffer is not given back. */
static void give(Stream *s, u64 safe)
{
	bool moves = reader_sub(&s->reader, safe) != reader_sub(&s->reader, s->safe);

	s->safe = safe;
	if (!s->overwrite && moves)
		reader_consume(&s->reader, reader_sub(&s->reader, safe));
}

static void move_on(Stream *s, u64 done, u64 clock, const StreamTally *t, const StreamCounters *c)
{
	u64 lost = MAX(s->counters.lost, c->lost);

	s->done = done;
	s->clock = clock;
	s->tally = *t;
	s->counters = *c;
	s->counters.lost = lost; /* a last packet may have said more meanwhile */
	s->next = 0;
}

static void pass_over(Stream *s, const View *v, u64 done)
{
	bool owed = s->safe != s->done;

	move_on(s, done, v->clock, &v->t, &v->c);
	/* else with the packet before it */
	if (!owed)
		give(s, done);
}

void stream_release(Stream *s)
{
	if (!s->next)
		return;
	s->said = MAX(s->said, s->pending_said);
	s->last = s->next;
	move_on(s, s->next, s->pending_clock, &s->pending_tally, &s->pending);
}

void stream_give(Stream *s, u64 position)
{
	if (position > s->safe && position <= s->done)
		give(s, position == s->last ? s->done : position);
}

u64 stream_given(const Stream *s)
{
	return reader_sub(&s->reader, s->safe);
}

/* The ring's own words cannot be: goes on where its writer stands now, with everything before it given up and given back, so
 * that an honest program in a ring that another one scribbled over can go on. */
static void resynchronise(Stream *s, View *v)
{
	u64 to = v->offset; /* backwards: what is before it was seen, or is as old */

	if (v->offset > s->done) {
		/* the sub-buffer it stands in may be good */
		to = reader_sub(&s->reader, v->offset);
		v->t.unknown = add_bounded(v->t.unknown, MIN(to - MIN(s->done, to), s->reader.size));
	} else {
		v->t.counted = v->count;
		v->t.unknown = 0;
	}
	if (!s->lying)
		v->c.corrupt_subs++;
	s->lying = true;
	pass_over(s, v, to);
	s->safe = to;
	s->last = 0;
	if (!s->overwrite)
		reader_consume(&s->reader, reader_sub(&s->reader, to));
}

/* ---- the ring ---- */

/* Where the ring stands, and whether there is anything to look at: 1; 0: no; -1: it lied, and was put right. */
static int look_at_ring(Stream *s, View *v, bool partial)
{
	u64 taken = reader_sub(&s->reader, s->done), given = stream_given(s);
	bool settled;

	settled = view_begin(s, v);
	if (!settled || v->offset > view_limit(s)) {
		if (!s->lying)
			s->counters.corrupt_subs = ++v->c.corrupt_subs;
		s->lying = true;
		if (v->offset > view_limit(s))
			return 0;
	}
	if (v->offset < s->done || (!s->overwrite && v->offset - given > s->reader.size)) {
		resynchronise(s, v);
		return -1;
	}
	if (settled)
		s->lying = false;
	if (v->offset == s->done) {
		if (v->t.unknown && settled) {
			/* what the end of a broken chain cut off, with no header behind it yet */
			view_missed(v, v->count);
			pass_over(s, v, s->done);
		}
	} else if (partial || v->offset - taken >= s->reader.sub_size) {
		return 1;
	}
	/* relaxed: our own word; one that was written over would keep honest writers out of a ring that is empty */
	if (!s->overwrite && load_relaxed_u64(&s->reader.line->consumed) != given)
		reader_consume(&s->reader, given);
	return 0;
}

/* A look at the very oldest sub-buffer is a race that a fast writer can win for ever: the next one is further ahead. */
static u64 further(const Stream *s, u64 skip)
{
	return MIN(skip * 2 + 1, s->reader.size / s->reader.sub_size / 2);
}

/* Under overwrite: to the oldest sub-buffer that is whole, or `skip` behind it. False: to be looked at anew, with what is known
 * now. */
static bool go_to_oldest(Stream *s, View *v, u64 *skip)
{
	u64 oldest = view_first_whole(s, v->offset), to, after, count;
	struct abi_sub h;

	if (!s->overwrite || s->done >= oldest)
		return true;
	to = MIN(oldest + *skip * s->reader.sub_size, reader_sub(&s->reader, v->offset));
	v->t.lapped = true;
	v->t.unknown = add_bounded(v->t.unknown, to - s->done);
	h = reader_header(&s->reader, to);
	/* R2; else the next header that is whole tells */
	(void)view_position(s, &after, &count);
	if (after < v->offset || view_first_whole(s, after) > to)
		*skip = further(s, *skip);
	else if (to < v->offset && h.position == to)
		view_missed(v, h.count);
	pass_over(s, v, to);
	return false;
}

int stream_take(Stream *s, ClassTable *classes, unsigned flags, StreamPacket *ret)
{
	/* each turn passes a sub-buffer or follows a writer round; more than all of them in one call is somebody's game */
	u64 turns = s->reader.size / s->reader.sub_size + 8, skip = 0;

	s->next = 0;
	while (turns-- > 0) {
		View v;
		int r = look_at_ring(s, &v, flags & STREAM_PARTIAL);

		if (r == 0)
			return 0;
		if (r < 0 || !go_to_oldest(s, &v, &skip))
			continue;
		r = view_sub(s, &v);
		if (r == -EAGAIN) {
			skip = further(s, skip);
			continue;
		}
		if (r < 0)
			return r;
		if (r == 0) {
			/* its records are counted by the header behind it */
			view_spoil(&v);
			v.t.unknown = add_bounded(v.t.unknown, v.next - s->done);
			pass_over(s, &v, v.next);
			continue;
		}
		r = view_records(s, &v, classes, flags & STREAM_JUDGE, ret);
		if (r < 0)
			return r;
		if (r == 0) {
			pass_over(s, &v, v.next);
			continue;
		}
		s->next = v.next;
		s->pending = v.c;
		s->pending_tally = v.t;
		s->pending_clock = v.clock;
		s->pending_said = ret->discarded;
		return 1;
	}
	return 0;
}

/* ---- going on ---- */

StreamProgress stream_progress(const Stream *s)
{
	StreamProgress p = { s->done, s->clock, s->said, s->tally, s->counters };

	if (s->next) {
		p = (StreamProgress){ s->next, s->pending_clock, MAX(s->said, s->pending_said), s->pending_tally,
				      s->pending };
		p.counters.lost = MAX(p.counters.lost, s->counters.lost);
	}
	return p;
}

void stream_resume(Stream *s, const StreamProgress *p)
{
	s->done = s->safe = p->done;
	s->last = 0;
	s->clock = p->clock;
	s->said = p->said;
	s->tally = p->tally;
	s->counters = p->counters;
	/* the daemon before may have died before it gave this back */
	if (!s->overwrite)
		reader_consume(&s->reader, reader_sub(&s->reader, s->safe));
}

/* ---- looking ---- */

bool stream_ready(const Stream *s, bool partial)
{
	/* acquire: whoever acts on it finds what was published before; take() looks for itself all the same */
	u64 offset = load_acquire_u64(&s->reader.line->offset) & ~3ull;

	/* nothing can be done about such a position, but to count it once */
	if (offset > view_limit(s))
		return !s->lying;
	/* also where it is behind us: then it lies, and take() has to see that */
	return partial ? offset != s->done : offset - reader_sub(&s->reader, s->done) >= s->reader.sub_size;
}

u64 stream_before(const Stream *s)
{
	const StreamCounters *c = &s->counters;
	u64 ours = add_bounded(add_bounded(c->kept, c->corrupt), c->overwritten);

	return s->overwrite && s->tally.counted != UINT64_MAX ? s->tally.counted - MIN(s->tally.counted, ours) : 0;
}

u64 stream_unsaid(Stream *s, u64 *ret_discarded)
{
	u64 now, unsaid;

	s->counters.lost = MAX(s->counters.lost, reader_lost(&s->reader));
	now = stream_discarded(&s->counters);
	unsaid = now - MIN(s->said, now);
	s->said = *ret_discarded = MAX(s->said, now);
	return unsaid;
}

double stream_fill(const Stream *s)
{
	/* relaxed: nothing is read by it */
	u64 offset = load_relaxed_u64(&s->reader.line->offset) & ~3ull;
	u64 done = s->overwrite ? s->done : stream_given(s);

	if (offset <= done)
		return 0;
	return offset - done >= s->reader.size ? 1 : (double)(offset - done) / (double)s->reader.size;
}
