/* SPDX-License-Identifier: MIT */
/* Each turn of stream_take() looks at one sub-buffer: the one that `done` stands in. What is found out goes into a View, and
 * into the stream only when something is passed over or a packet is released, so that a packet that could not be written is
 * simply found again.
 *
 * Counts. A sub-buffer's header says how many records came before it. Where that is more than was counted, the difference is what
 * was missed on the way: overwritten if the writer came round, corrupt else. */
#include "daemon/stream.h"

#include "lib/atomic.h"

/* No ring reaches this in a machine's life, and arithmetic on positions has room behind it. */
#define POSITION_LIMIT (1ull << 62)
/* How far a stamp may be ahead of our own look at the clock: counters of CPUs are not the same to the last tick. */
#define CLOCK_SLACK NSEC_PER_USEC
#define COMPACT_SPAN (1ull << 32)

/* What one turn knows. */
typedef struct {
	u64 offset, count; /* of the ring, now */
	u64 bound;	   /* no record is newer */
	u64 sub;	   /* position of the sub-buffer */
	u64 start, end;	   /* positions of records to take */
	u64 next;	   /* `done` behind them */
	u64 time;	   /* the first record's stamp counts from it */
	bool complete;	   /* the writer has left the sub-buffer */
	u64 counted, clock;
	StreamCounters c;
} View;

static u64 add(u64 a, u64 b)
{
	return a + b < a ? UINT64_MAX : a + b;
}

static const u8 *at(const Stream *s, u64 position)
{
	return s->reader.data + (position & (s->reader.size - 1));
}

static struct abi_sub header_at(const Stream *s, u64 position)
{
	struct abi_sub h;

	/* one copy, then judged: it may be written over at any time */
	memcpy(&h, at(s, position), sizeof(h));
	return h;
}

void stream_init(Stream *s, u8 *map, int fd, const struct geometry *g, u32 ring,
		 const struct record_clock *clock)
{
	u64 offset = 0, count = 0;

	*s = (Stream){ .clock_source = *clock, .map = map, .fd = fd };
	reader_init(&s->reader, map, g, ring);
	s->overwrite = g->policy == ABI_POLICY_OVERWRITE;
	if (reader_position(&s->reader, &offset, &count) < 0 || offset > POSITION_LIMIT)
		return; /* judged when it is taken from */
	if (s->overwrite) {
		s->done = reader_first_whole(offset, s->reader.size, s->reader.sub_size);
	} else {
		/* relaxed: our own word, if nobody wrote over it */
		u64 consumed = load_relaxed_u64(&s->reader.line->consumed);

		if (consumed <= offset && !(consumed & (s->reader.sub_size - 1)))
			s->done = consumed;
	}
	if (s->done && s->done < offset) {
		struct abi_sub h = header_at(s, s->done);

		if (h.position == s->done && h.count <= count)
			s->counted = h.count;
	} else if (s->done) {
		s->counted = count;
	}
}

void stream_clear(Stream *s)
{
	free(s->copy);
	s->copy = NULL;
}

static int copy_reserve(Stream *s)
{
	if (!s->copy)
		s->copy = malloc(s->reader.sub_size);
	return s->copy ? 0 : -ENOMEM;
}

/* ---- what is found out becomes so ---- */

static void move_on(Stream *s, u64 done, u64 counted, u64 clock, const StreamCounters *c)
{
	u64 mask = ~(s->reader.sub_size - 1), before = s->done & mask;

	s->done = done;
	s->counted = counted;
	s->clock = clock;
	s->counters = *c;
	s->next = 0;
	/* behind the packet: it is out, so that writers may come in; a part of a sub-buffer is not given back */
	if (!s->overwrite && (done & mask) != before)
		reader_consume(&s->reader, done & mask);
}

static void pass_over(Stream *s, const View *v, u64 done)
{
	move_on(s, done, v->counted, v->clock, &v->c);
}

void stream_release(Stream *s)
{
	if (s->next)
		move_on(s, s->next, s->pending_counted, s->pending_clock, &s->pending);
}

/* Records that a good look at the ring says were written before `count`, and that were not met. */
static void missed(const Stream *s, View *v, u64 count)
{
	if (count <= v->counted || count > v->count)
		return;
	if (s->lapped)
		v->c.overwritten = add(v->c.overwritten, count - v->counted);
	else
		v->c.corrupt = add(v->c.corrupt, count - v->counted);
	v->counted = count;
}

/* The ring's own words cannot be: goes on where its writer stands now, with everything before it given up and given back, so
 * that an honest program in a ring that another one scribbled over can go on. */
static void resynchronise(Stream *s, View *v)
{
	if (!s->lying)
		v->c.corrupt_subs++;
	s->lying = true;
	v->count = MIN(v->count, v->offset / ABI_RECORD_HEADER);
	v->c.corrupt = add(v->c.corrupt, v->count > v->counted ? v->count - v->counted : 0);
	v->counted = v->count;
	move_on(s, v->offset, v->counted, v->clock, &v->c);
	if (!s->overwrite)
		reader_consume(&s->reader, v->offset & ~(s->reader.sub_size - 1));
}

/* ---- records ---- */

typedef enum { WALK_GOOD, WALK_UNKNOWN, WALK_BAD } WalkResult;

typedef struct {
	u64 first, last; /* times */
	u32 n;
	u32 size; /* to the last byte of the last record */
} Walked;

/* Whether everything from p to end is what it should be, without touching it. This runs for every record that is ever written
 * to a disk. */
static WalkResult walk(const ClassTable *classes, const u8 *p, const u8 *end, u64 time, u64 bound, bool judge,
		       Walked *ret)
{
	const u64 mask = (1ull << ABI_STAMP_BITS) - 1;
	const u8 *begin = p, *last = p;
	u64 first = 0, clock = time;
	u32 n = 0, length = 0;

	for (; p < end; n++) {
		u32 step, id, body;
		u64 head;

		if (end - p < ABI_RECORD_HEADER)
			return WALK_BAD;
		/* one load: nobody changes one part of it between two looks */
		memcpy(&head, p, sizeof(head));
		id = (u16)head;
		length = (u16)(head >> 16);
		if (unlikely(id == ABI_ID_EXTENDED)) {
			struct record r;

			step = record_parse(p, (u64)(end - p), &clock, &r);
			if (!step || r.time < (n ? ret->last : time) || step > (u64)(end - p))
				return WALK_BAD;
			id = r.id;
			length = r.length;
			body = r.body_size;
		} else {
			step = ALIGN_UP(length, 4u);
			if (length < ABI_RECORD_HEADER || step > (u64)(end - p))
				return WALK_BAD;
			body = length - ABI_RECORD_HEADER;
			clock += ((head >> 32) - clock) & mask;
		}
		if (clock > bound)
			return WALK_BAD;
		if (unlikely(class_table_size(classes, id) != body)) {
			if (!class_table_known(classes, id))
				return judge ? WALK_BAD : WALK_UNKNOWN;
			if (!class_table_check(classes, id, p + length - body, body))
				return WALK_BAD;
		}
		if (n == 0)
			first = clock;
		ret->last = clock;
		last = p;
		p += step;
	}
	ret->first = first;
	ret->n = n;
	ret->size = n ? (u32)(last - begin) + length : 0;
	return WALK_GOOD;
}

static void stamp(u8 *p, bool extended, u64 time)
{
	u32 low = (u32)time;

	if (extended)
		memcpy(p + 8, &time, sizeof(time));
	else
		memcpy(p + 4, &low, sizeof(low));
}

/* The same of a private copy that has something wrong in it: leaves out what cannot be decoded, puts stamps right. Where what
 * was left out makes a gap that a compact stamp cannot say, the packet ends: *ret_at is how far it came. */
static WalkResult sift(Stream *s, View *v, const ClassTable *classes, u8 *p, u8 *end, bool judge, Walked *ret,
		       u8 **ret_at)
{
	u8 *to = p, *begin = p;
	u64 decode = v->time, clock = v->clock;
	u32 length = 0, n = 0;

	*ret = (Walked){ 0 };
	while (p < end) {
		u64 time = decode;
		struct record r;
		u32 step = record_parse(p, (u64)(end - p), &time, &r);
		bool wrong;

		if (!step || step > (u64)(end - p))
			break;
		if (!class_table_known(classes, r.id) && !judge)
			return WALK_UNKNOWN;
		if (ret->n && !r.extended && r.time <= v->bound && r.time - ret->last >= COMPACT_SPAN)
			goto out;
		n++;
		wrong = r.time < clock || r.time > v->bound;
		if (wrong)
			r.time = clock;
		clock = decode = r.time;
		if (!class_table_check(classes, r.id, r.body, r.body_size)) {
			v->c.corrupt = add(v->c.corrupt, 1);
			p += step;
			continue;
		}
		if (wrong) {
			stamp(p, r.extended, r.time);
			v->c.clamped++;
		}
		if (to != p)
			memmove(to, p, r.length);
		if (ret->n++ == 0)
			ret->first = r.time;
		ret->last = r.time;
		length = r.length;
		ret->size = (u32)(to - begin) + length;
		to += step;
		p += step;
	}
	/* What the chain's end cuts off is counted by the next header. */
	if (p < end || n > ret->n)
		v->c.corrupt_subs++;
	p = end;
out:
	v->counted = add(v->counted, n);
	v->clock = clock;
	*ret_at = p;
	return WALK_GOOD;
}

/* ---- sub-buffers ---- */

/* Where the ring stands, and whether there is anything to look at: 1; 0: no; -1: it lied, and was put right. */
static int view_ring(Stream *s, View *v, bool partial)
{
	u64 given = s->done & ~(s->reader.sub_size - 1);

	*v = (View){ .counted = s->counted, .clock = s->clock, .c = s->counters };
	/* R1 of lib/abi.h */
	if (reader_position(&s->reader, &v->offset, &v->count) < 0 || v->offset > POSITION_LIMIT) {
		if (!s->lying)
			s->counters.corrupt_subs++;
		s->lying = true;
		return 0;
	}
	v->bound = record_clock_now(&s->clock_source) + CLOCK_SLACK;
	if (v->offset < s->done || (!s->overwrite && v->offset - given > s->reader.size)) {
		resynchronise(s, v);
		return -1;
	}
	s->lying = false;
	if (v->offset == s->done) {
		if (v->count > v->counted) {
			/* what the end of a broken chain cut off, with no header behind it yet */
			missed(s, v, v->count);
			pass_over(s, v, s->done);
		}
		return 0;
	}
	return partial || v->offset - given >= s->reader.sub_size;
}

/* Under overwrite: to the oldest sub-buffer that is whole. False: the writer is coming round again. */
static bool view_oldest(Stream *s, View *v)
{
	u64 oldest = reader_first_whole(v->offset, s->reader.size, s->reader.sub_size), after, count;
	struct abi_sub h;

	if (!s->overwrite || s->done >= oldest)
		return true;
	s->lapped = true;
	h = header_at(s, oldest);
	/* R2 */
	if (reader_position(&s->reader, &after, &count) < 0 || after < v->offset)
		return false;
	if (reader_first_whole(after, s->reader.size, s->reader.sub_size) <= oldest && h.position == oldest)
		missed(s, v, h.count);
	pass_over(s, v, oldest);
	return false; /* looked at anew, with what is known now */
}

/* The header, and where records begin and end. False: it cannot be believed. */
static bool view_sub(const Stream *s, View *v)
{
	u64 size = s->reader.sub_size;
	struct abi_sub h;

	v->sub = s->done & ~(size - 1);
	v->complete = v->offset - v->sub >= size;
	v->next = v->complete ? v->sub + size : v->offset;
	v->start = s->done;
	v->time = v->clock;
	h = header_at(s, v->sub);
	if (h.position != v->sub)
		return false;
	if (s->done == v->sub) {
		v->start += ABI_SUB_HEADER;
		missed(s, v, h.count);
		/* said by the packet that comes next; a lie is bounded by what the ring's line says */
		if (h.lost > v->c.lost && h.lost <= reader_lost(&s->reader))
			v->c.lost = h.lost;
		if (h.begin >= v->clock && h.begin <= v->bound)
			v->time = h.begin;
	}
	v->end = v->complete ? h.end : v->offset;
	return v->end >= v->start && v->end <= v->next && !(v->end & 3);
}

/* 1: a packet; 0: nothing in it, go on with the next; -EAGAIN: overwritten meanwhile; -ENOENT, -ENOMEM. */
static int take_sub(Stream *s, View *v, ClassTable *classes, bool judge, StreamPacket *ret)
{
	u64 discarded = add(v->c.lost, add(v->c.overwritten, v->c.corrupt)), after, count;
	u32 size = (u32)(v->end - v->start);
	const u8 *records = at(s, v->start);
	bool private = s->overwrite;
	Walked w = { 0 };
	WalkResult r;

	if (private) {
		if (copy_reserve(s) < 0)
			return -ENOMEM;
		memcpy(s->copy, records, size);
		records = s->copy;
		/* R2: reader_position() orders it behind the loads of the copy */
		if (reader_position(&s->reader, &after, &count) < 0 || after < v->offset ||
		    reader_first_whole(after, s->reader.size, s->reader.sub_size) > v->sub)
			return -EAGAIN;
	}
	r = walk(classes, records, records + size, v->time, v->bound, judge, &w);
	if (r == WALK_GOOD) {
		v->counted = add(v->counted, w.n);
		v->clock = w.n ? w.last : v->clock;
	} else if (r == WALK_BAD) {
		u8 *stop;

		if (copy_reserve(s) < 0)
			return -ENOMEM;
		if (!private)
			memcpy(s->copy, records, size);
		private = true;
		records = s->copy;
		r = sift(s, v, classes, s->copy, s->copy + size, judge, &w, &stop);
		if (stop < s->copy + size && r == WALK_GOOD)
			v->next = v->start + (u64)(stop - s->copy);
	}
	if (r == WALK_UNKNOWN)
		return -ENOENT;
	s->lapped = false;
	if (w.n == 0)
		return 0;
	v->c.kept += w.n;
	*ret = (StreamPacket){
		.records = records,
		.size = w.size,
		.n_records = w.n,
		.fd = private ? -1 : s->fd,
		.fd_offset = private ? 0 : (u64)(records - s->map),
		.begin = w.first,
		.end = w.last,
		.discarded = discarded,
	};
	return 1;
}

int stream_take(Stream *s, ClassTable *classes, unsigned flags, StreamPacket *ret)
{
	/* each turn passes a sub-buffer or follows a writer round; more than all of them in one call is somebody's game */
	u64 turns = s->reader.size / s->reader.sub_size + 8;

	s->next = 0;
	while (turns-- > 0) {
		View v;
		int r = view_ring(s, &v, flags & STREAM_PARTIAL);

		if (r == 0)
			return 0;
		if (r < 0 || !view_oldest(s, &v))
			continue;
		if (!view_sub(s, &v)) {
			/* its records are counted by the header behind it */
			v.c.corrupt_subs++;
			pass_over(s, &v, v.next);
			continue;
		}
		r = take_sub(s, &v, classes, flags & STREAM_JUDGE, ret);
		if (r == -EAGAIN)
			continue;
		if (r < 0)
			return r;
		if (r == 0) {
			pass_over(s, &v, v.next);
			continue;
		}
		s->next = v.next;
		s->pending = v.c;
		s->pending_counted = v.counted;
		s->pending_clock = v.clock;
		return 1;
	}
	return 0;
}

/* ---- looking ---- */

bool stream_ready(const Stream *s, bool partial)
{
	/* acquire: whoever acts on it finds what was published before; take() looks for itself all the same */
	u64 offset = load_acquire_u64(&s->reader.line->offset) & ~3ull;

	/* also where it is behind us: then it lies, and take() has to see that */
	return partial ? offset != s->done :
			 offset - (s->done & ~(s->reader.sub_size - 1)) >= s->reader.sub_size;
}

u64 stream_unsaid(Stream *s, u64 *ret_discarded)
{
	u64 lost = reader_lost(&s->reader), unsaid = 0;

	if (lost > s->counters.lost) {
		unsaid = lost - s->counters.lost;
		s->counters.lost = lost;
	}
	*ret_discarded = add(s->counters.lost, add(s->counters.overwritten, s->counters.corrupt));
	return unsaid;
}

double stream_fill(const Stream *s)
{
	u64 offset = load_relaxed_u64(&s->reader.line->offset) & ~3ull, done = s->done;

	if (!s->overwrite)
		done &= ~(s->reader.sub_size - 1);
	if (offset <= done)
		return 0;
	return offset - done >= s->reader.size ? 1 : (double)(offset - done) / (double)s->reader.size;
}
