/* SPDX-License-Identifier: MIT */
/* The walk over records that go to a disk as they lie, which takes short ways, against one that takes none: runs of records of one
 * kind, changes between kinds, and one wrong word anywhere. */
#include "daemon/records.h"

#include "tests/unit/daemon/maker.h"

#define BYTES 2048

typedef struct {
	u8 bytes[BYTES] __attribute__((aligned(8)));
	u32 size;
	ClassTable *table;
} Fixture;

/* id 1: 8 bytes; 2: a string as well; 3: 12; 4 is none. */
static ClassTable *make_table(void)
{
	struct event_class *v[3] = {
		maker_class("t", "one", 6, "n", TRACER_TYPE_U64, TRACER_SHAPE_ONE, 0, NULL),
		maker_class("t", "text", 6, "n", TRACER_TYPE_U64, TRACER_SHAPE_ONE, 0, "s", TRACER_TYPE_STR, TRACER_SHAPE_ONE, 0, NULL),
		maker_class("t", "two", 6, "n", TRACER_TYPE_U64, TRACER_SHAPE_ONE, 0, "m", TRACER_TYPE_U32, TRACER_SHAPE_ONE, 0, NULL),
	};
	const TraceClass classes[] = { { 1, v[0] }, { 2, v[1] }, { 3, v[2] } };
	ClassTable *t;

	g_assert_cmpint(class_table_new(&t, classes, ELEMENTSOF(classes), 0), ==, 0);
	return t;
}

static void put(Fixture *x, u32 id, u64 time, bool extended)
{
	static const u32 sizes[] = { 0, 8, 11, 12, 8 };
	u32 header = extended ? ABI_RECORD_EXTENDED : ABI_RECORD_HEADER, length = header + sizes[id];
	u8 *p = x->bytes + x->size;
	u32 head[2] = { id | length << 16, (u32)time };

	if (x->size + ALIGN_UP(length, 4u) > BYTES)
		return;
	memset(p, 'x', ALIGN_UP(length, 4u));
	if (extended) {
		head[0] = ABI_ID_EXTENDED | length << 16;
		head[1] = id;
		memcpy(p + 8, &time, 8);
	}
	memcpy(p, head, 8);
	if (id == 2)
		p[length - 1] = 0;
	x->size += ALIGN_UP(length, 4u);
}

/* A step at a time, with everything asked of each. */
static bool plain(const Fixture *x, const RecordsLimit *limit, Records *ret)
{
	u64 clock = limit->time;

	*ret = (Records){ .first = limit->time, .clock = limit->clock, .last = limit->time };
	for (u32 at = 0, step; at < x->size; at += step) {
		u64 before = clock;
		struct record r;

		step = record_parse(x->bytes + at, x->size - at, &clock, &r);
		if (!step || clock < before || clock > limit->bound || !class_table_check(limit->classes, r.id, r.body, r.body_size))
			return false;
		if (ret->n++ == 0)
			ret->first = clock;
		ret->last = ret->clock = clock;
		ret->size = at + r.length;
	}
	ret->met = ret->n;
	ret->taken = x->size;
	return true;
}

static void compare(const Fixture *x, const RecordsLimit *limit, u32 *n_good)
{
	Records fast = { 0 }, slow;
	bool good = plain(x, limit, &slow);
	/* a page of its own, so that what is behind the end is not read unseen */
	g_autofree u8 *copy = g_memdup2(x->bytes, x->size);
	RecordsResult r = records_walk(copy, copy + x->size, limit, &fast);

	g_assert_cmpint(r == RECORDS_GOOD, ==, good);
	if (limit->judge)
		g_assert_cmpint(r, !=, RECORDS_UNKNOWN);
	if (!good)
		return;
	++*n_good;
	g_assert_cmpuint(fast.n, ==, slow.n);
	g_assert_cmpuint(fast.size, ==, slow.size);
	g_assert_cmpuint(fast.first, ==, slow.first);
	g_assert_cmpuint(fast.last, ==, slow.last);
	g_assert_cmpuint(fast.clock, ==, slow.clock);
	g_assert_cmpuint(fast.met, ==, slow.met);
	g_assert_cmpuint(fast.taken, ==, slow.taken);
	g_assert_false(fast.broken || fast.left_out || fast.clamped);
}

static void test_walk(void)
{
	Fixture x = { .table = make_table() };
	u32 n_good = 0, n = 30000;

	for (u32 turn = 0; turn < n; turn++) {
		u64 time = 7ull << 32 | (u32)g_test_rand_int(), start = time, step = 1ull << g_test_rand_int_range(0, 32);
		bool strange = g_test_rand_int_range(0, 8) == 0;
		u32 records = (u32)g_test_rand_int_range(0, 100), id = 1;
		RecordsLimit limit = { .classes = x.table, .time = time, .clock = time, .judge = turn & 1 };

		x.size = 0;
		for (u32 i = 0; i < records; i++) {
			if (g_test_rand_int_range(0, 6) == 0)
				id = (u32)g_test_rand_int_range(1, strange ? 5 : 4);
			time += (u64)g_test_rand_int() % step;
			put(&x, id, time, g_test_rand_int_range(0, 20) == 0);
		}
		limit.bound = time;
		compare(&x, &limit, &n_good);
		/* the last of them is from the future */
		limit.bound = MAX(time, 1ull) - 1;
		if (limit.bound >= start)
			compare(&x, &limit, &n_good);
		limit.bound = time + (1ull << 33);
		for (u32 i = 0; x.size && i < 8; i++) {
			u32 at = (u32)g_test_rand_int_range(0, (gint32)x.size / 4) * 4, saved, word;

			memcpy(&saved, x.bytes + at, 4);
			word = g_test_rand_int_range(0, 2) ? saved ^ 1u << g_test_rand_int_range(0, 32) : (u32)g_test_rand_int();
			memcpy(x.bytes + at, &word, 4);
			compare(&x, &limit, &n_good);
			memcpy(x.bytes + at, &saved, 4);
		}
	}
	/* both of them are met */
	g_assert_cmpuint(n_good, >, n);
	g_assert_cmpuint(n_good, <, 9 * n);
	class_table_free(x.table);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/records/walk", test_walk);
	return g_test_run();
}
