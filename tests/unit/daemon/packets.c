/* SPDX-License-Identifier: MIT */
#include "tests/unit/daemon/packets.h"

#include "tests/unit/daemon/maker.h"

static ClassTable *make_table(u32 contexts)
{
	static struct event_class *v[3];
	ClassTable *table;

	if (!v[0]) {
		v[0] = maker_class("t", "number", 6, "n", TRACER_TYPE_U64, TRACER_SHAPE_ONE, 0, NULL);
		v[1] = maker_class("t", "text", 6, "n", TRACER_TYPE_U64, TRACER_SHAPE_ONE, 0, "s", TRACER_TYPE_STR,
				   TRACER_SHAPE_ONE, 0, NULL);
		v[2] = maker_class("t", "more", 6, "n", TRACER_TYPE_U64, TRACER_SHAPE_ONE, 0, "m", TRACER_TYPE_U32,
				   TRACER_SHAPE_ONE, 0, NULL);
	}
	TraceClass classes[] = { { 1, v[0] }, { 2, v[1] }, { 3, v[2] } };
	g_assert_cmpint(class_table_new(&table, classes, 3, contexts), ==, 0);
	return table;
}

void packets_init(Packets *p, u8 *map, int fd, const struct geometry *g, u32 ring, const struct record_clock *clock)
{
	*p = (Packets){ .table = make_table(g->contexts) };
	stream_init(&p->stream, map, fd, g, ring, clock);
}

void packets_restart(Packets *p, u8 *map, int fd, const struct geometry *g, u32 ring, const struct record_clock *clock)
{
	stream_clear(&p->stream);
	stream_init(&p->stream, map, fd, g, ring, clock);
	p->before = p->discarded = 0;
}

void packets_clear(Packets *p)
{
	stream_clear(&p->stream);
	class_table_free(p->table);
	if (p->numbers)
		g_array_free(p->numbers, TRUE);
}

/* The numbers of the first and the last record. */
static void check(Packets *p, const StreamPacket *k, u64 *ret_first, u64 *ret_last)
{
	u64 clock = k->begin, before = k->begin, n = 0, at = 0, number = 0;

	g_assert_cmpuint(k->n_records, >, 0);
	g_assert_cmpuint(k->begin, >=, p->before);
	g_assert_cmpuint(k->begin, <=, k->end);
	g_assert_cmpuint(k->end, <=, record_clock_now(&p->stream.clock_source) + NSEC_PER_USEC);
	g_assert_cmpuint(k->discarded, >=, p->discarded);
	if (k->fd >= 0) {
		g_assert_cmpint(k->fd, ==, p->stream.fd);
		g_assert_true(k->records == p->stream.map + k->fd_offset);
	}
	while (at < k->size) {
		struct record r;
		u32 step = record_parse(k->records + at, ALIGN_UP((u64)k->size, 4ull) - at, &clock, &r);
		u64 is;

		g_assert_cmpuint(step, >, 0);
		g_assert_cmpuint(at + r.length, <=, k->size);
		g_assert_true(class_table_check(p->table, r.id, r.body, r.body_size));
		g_assert_cmpuint(r.time, >=, before);
		if (n == 0)
			g_assert_cmpuint(r.time, ==, k->begin);
		memcpy(&is, r.body + p->table->contexts_size, sizeof(is));
		if (p->numbered && n > 0)
			g_assert_cmpuint(is, ==, number + 1);
		if (n++ == 0)
			*ret_first = is;
		number = is;
		before = r.time;
		if (at + step >= k->size)
			g_assert_cmpuint(at + r.length, ==, k->size);
		at += step;
	}
	g_assert_cmpuint(before, ==, k->end);
	g_assert_cmpuint(n, ==, k->n_records);
	*ret_last = number;
}

static void keep(Packets *p, const StreamPacket *k)
{
	u64 clock = k->begin, at = 0;

	while (p->numbers && at < k->size) {
		struct record r;
		u64 is;

		at += record_parse(k->records + at, ALIGN_UP((u64)k->size, 4ull) - at, &clock, &r);
		memcpy(&is, r.body + p->table->contexts_size, sizeof(is));
		g_array_append_val(p->numbers, is);
	}
}

int packets_take(Packets *p, unsigned flags, bool release, StreamPacket *ret)
{
	Stream *s = &p->stream;
	StreamCounters before = s->counters;
	u64 first = 0, last = 0;
	int r = stream_take(s, p->table, flags, ret);

	if (r != 1)
		return r;
	check(p, ret, &first, &last);
	if (p->numbered) {
		/* each once or counted, up to the very first record of the packet */
		g_assert_cmpuint(first, >=, p->next);
		g_assert_cmpuint(ret->discarded, >=, first - before.kept);
		g_assert_cmpuint(ret->discarded - (first - before.kept), <=, reader_lost(&s->reader));
	}
	if (!release)
		return 1;
	keep(p, ret);
	stream_release(s);
	if (!p->keeps)
		stream_give(s, ret->position);
	p->packets++;
	p->before = ret->end;
	p->discarded = ret->discarded;
	if (p->numbered) {
		g_assert_cmpuint(s->counters.kept + s->counters.overwritten + s->counters.corrupt, ==, last + 1);
		g_assert_cmpuint(s->counters.corrupt, ==, 0);
		g_assert_cmpuint(s->counters.clamped, ==, 0);
		g_assert_cmpuint(s->counters.corrupt_subs, ==, 0);
		p->next = last + 1;
	}
	return 1;
}

u64 packets_drain(Packets *p, unsigned flags)
{
	StreamPacket k;
	u64 n = 0;
	int r;

	while ((r = packets_take(p, flags, true, &k)) == 1)
		n += k.n_records;
	g_assert_cmpint(r, ==, 0);
	return n;
}
