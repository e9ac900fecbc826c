/* SPDX-License-Identifier: MIT */
#include "tests/unit/lib/ring.h"

static u32 parse(const u8 *p, u64 room, u64 clock, struct record *ret)
{
	/* in a block of exactly `room` bytes, so that a sanitizer or valgrind sees a byte too far
	 */
	g_autofree u8 *block = g_malloc(room + !room);
	u32 step;

	memcpy(block, p, room);
	step = record_parse(block, room, &clock, ret);
	if (step) {
		g_assert_cmpuint(step, <=, room);
		g_assert_cmpuint(step % 4, ==, 0);
		g_assert_true(ret->body >= block && ret->body + ret->body_size <= block + room);
		g_assert_cmpuint(ret->length, <=, step);
		g_assert_cmpuint(ret->id, >=, 1);
		g_assert_cmpuint(ret->id, <=, ABI_ID_MAX);
		g_assert_cmpuint(clock, ==, ret->time);
	}
	ret->body = NULL;
	return step;
}

static void test_parse(void)
{
	static const u8 compact[] = {7, 0, 13, 0, 0x78, 0x56, 0x34, 0x12, 1, 2, 3, 4, 5, 0, 0, 0};
	static const u8 extended[] = {0xff, 0xff, 17, 0, 9, 0, 0,  0, 1, 0,
				      0,    0,    2,  0, 0, 0, 42, 0, 0, 0};
	struct record r;

	g_assert_cmpuint(parse(compact, sizeof(compact), 0x100000000, &r), ==, 16);
	g_assert_cmpuint(r.id, ==, 7);
	g_assert_cmpuint(r.length, ==, 13);
	g_assert_cmpuint(r.body_size, ==, 5);
	g_assert_cmpuint(r.time, ==, 0x112345678);
	g_assert_false(r.extended);
	/* a wrap */
	g_assert_cmpuint(parse(compact, sizeof(compact), 0x112345679, &r), ==, 16);
	g_assert_cmpuint(r.time, ==, 0x212345678);
	g_assert_cmpuint(parse(compact, sizeof(compact), 0x112345678, &r), ==, 16);
	g_assert_cmpuint(r.time, ==, 0x112345678);
	/* extended: its time is what it says, whatever the running one */
	g_assert_cmpuint(parse(extended, sizeof(extended), ~0ull, &r), ==, 20);
	g_assert_cmpuint(r.id, ==, 9);
	g_assert_cmpuint(r.time, ==, 0x200000001);
	g_assert_cmpuint(r.body_size, ==, 1);
	g_assert_true(r.extended);
}

static void test_parse_refused(void)
{
	struct record r;
	u8 p[24] = {7, 0, 16};

	g_assert_cmpuint(parse(p, 0, 0, &r), ==, 0);
	g_assert_cmpuint(parse(p, 7, 0, &r), ==, 0);
	g_assert_cmpuint(parse(p, 15, 0, &r), ==, 0);
	g_assert_cmpuint(parse(p, 16, 0, &r), ==, 16);
	p[2] = 13; /* its padding must be there, too */
	g_assert_cmpuint(parse(p, 13, 0, &r), ==, 0);
	g_assert_cmpuint(parse(p, 16, 0, &r), ==, 16);
	p[2] = 8;
	g_assert_cmpuint(parse(p, 8, 0, &r), ==, 8);
	p[2] = 7;
	g_assert_cmpuint(parse(p, 24, 0, &r), ==, 0);
	p[2] = 0;
	g_assert_cmpuint(parse(p, 24, 0, &r), ==, 0);
	p[2] = p[3] = 0xff;
	g_assert_cmpuint(parse(p, 24, 0, &r), ==, 0);
	p[0] = 0; /* id 0 */
	p[2] = 16;
	p[3] = 0;
	g_assert_cmpuint(parse(p, 24, 0, &r), ==, 0);
	p[0] = p[1] = 0xff; /* extended, too short; then with ids that cannot be */
	p[2] = 15;
	g_assert_cmpuint(parse(p, 24, 0, &r), ==, 0);
	p[2] = 16;
	g_assert_cmpuint(parse(p, 24, 0, &r), ==, 0);
	p[4] = p[5] = 0xff;
	g_assert_cmpuint(parse(p, 24, 0, &r), ==, 0);
	p[4] = 0xfe;
	g_assert_cmpuint(parse(p, 24, 0, &r), ==, 16);
	p[7] = 1;
	g_assert_cmpuint(parse(p, 24, 0, &r), ==, 0);
}

static void test_parse_random(void)
{
	u32 parsed = 0;

	for (u32 i = 0; i < 300000; i++) {
		u8 p[64];
		struct record r;

		for (u32 k = 0; k < sizeof(p); k++)
			p[k] = (u8)g_test_rand_int();
		if (i & 1)
			p[3] = 0;
		if ((i & 6) == 6)
			p[0] = p[1] = 0xff, p[6] = p[7] = 0;
		parsed += parse(p, (u64)g_test_rand_int_range(0, sizeof(p) + 1),
				(u64)g_test_rand_int() << 32, &r) > 0;
	}
	g_assert_cmpuint(parsed, >, 1000);
}

/* whatever a sub-buffer holds, a walk ends and stays inside */
static void test_walk_random(void)
{
	enum { SIZE = 4096 };

	for (u32 i = 0; i < 2000; i++) {
		g_autofree u8 *sub = g_malloc(SIZE);
		u64 clock = 0, at = 0, steps = 0;

		for (u32 k = 0; k < SIZE; k += 4) {
			u32 word = (u32)g_test_rand_int();

			/* plausible more often than chance would have it */
			if (g_test_rand_int_range(0, 4))
				word = (word & 0x3f0001) | 0x80001;
			memcpy(sub + k, &word, 4);
		}
		while (at < SIZE) {
			struct record r;
			u32 step = record_parse(sub + at, SIZE - at, &clock, &r);

			if (!step)
				break;
			at += step;
			g_assert_cmpuint(++steps, <=, SIZE / 8);
		}
		g_assert_cmpuint(at, <=, SIZE);
	}
}

static void test_position(void)
{
	struct abi_ring line = {0};
	struct reader r = {.line = &line, .size = 65536, .sub_size = 4096};
	u64 offset = 99, count = 99;

	line.offset = 400 | 1;
	line.count[1] = 7;
	line.count[0] = 8;
	g_assert_cmpint(reader_position(&r, &offset, &count), ==, 0);
	g_assert_cmpuint(offset, ==, 400);
	g_assert_cmpuint(count, ==, 7);
	line.offset = 404;
	g_assert_cmpint(reader_position(&r, &offset, &count), ==, 0);
	g_assert_cmpuint(count, ==, 8);
	line.offset = 406;
	g_assert_cmpint(reader_position(&r, &offset, &count), ==, -EBADMSG);
	line.offset = ~0ull;
	g_assert_cmpint(reader_position(&r, &offset, &count), ==, -EBADMSG);
	g_assert_cmpuint(offset, ==, 404); /* outputs untouched on failure */
}

static void test_first_whole(void)
{
	/* 16 sub-buffers of 4096: nothing dropped before the lap is full */
	g_assert_cmpuint(reader_first_whole(0, 65536, 4096), ==, 0);
	g_assert_cmpuint(reader_first_whole(65535, 65536, 4096), ==, 0);
	/* on the boundary behind the last: the writer stands before sub-buffer 0 of the next lap */
	g_assert_cmpuint(reader_first_whole(65536, 65536, 4096), ==, 4096);
	g_assert_cmpuint(reader_first_whole(65536 + 4095, 65536, 4096), ==, 4096);
	g_assert_cmpuint(reader_first_whole(65536 + 4096, 65536, 4096), ==, 8192);
	/* hostile: no overflow into nonsense below the offset */
	g_assert_cmpuint(reader_first_whole(~0ull, 65536, 4096), >, ~0ull - 70000);
}

/* Any position at all is one within the ring: its size is ours. */
static void test_positions(void)
{
	static u8 data[65536];
	const struct reader r = {.data = data, .size = sizeof(data), .sub_size = 4096};
	const struct abi_sub sub = {.position = 3 * 65536 + 8192, .count = 77};

	memcpy(data + 8192, &sub, sizeof(sub));
	g_assert_cmpuint(reader_sub(&r, 3 * 65536 + 8192), ==, 3 * 65536 + 8192);
	g_assert_cmpuint(reader_sub(&r, 3 * 65536 + 8192 + 4095), ==, 3 * 65536 + 8192);
	g_assert_true(reader_at(&r, 3 * 65536 + 8192 + 5) == data + 8197);
	g_assert_true(reader_at(&r, ~0ull) == data + 65535);
	g_assert_cmpuint(reader_header(&r, 3 * 65536 + 8192).count, ==, 77);
	g_assert_cmpuint(reader_header(&r, 8192).position, ==, 3 * 65536 + 8192);
}

static void test_hold(void)
{
	struct abi_ring line = {0};
	struct reader r = {.line = &line};

	reader_hold(&r, 1234);
	g_assert_cmpuint(line.deadline, ==, 1234);
	g_assert_cmpuint(line.hold, ==, 1);
	reader_release(&r);
	g_assert_cmpuint(line.hold, ==, 0);
	reader_consume(&r, 4096);
	g_assert_cmpuint(line.consumed, ==, 4096);
}

static void test_lost(void)
{
	struct abi_ring line = {.lost = {1, 2, 3, 4, 5, 6, 7, 8}};
	struct reader r = {.line = &line};

	g_assert_cmpuint(reader_lost(&r), ==, 36);
	g_assert_cmpuint(reader_lost_by(&r, ABI_LOST_BUSY), ==, 4);
	g_assert_cmpuint(reader_lost_by(&r, ABI_LOST_CAUSES), ==, 0);
	g_assert_cmpuint(reader_lost_by(&r, ~0u), ==, 0);
}

static void test_break(void)
{
	struct abi_ring line = {.lock = 5ull << 32 | 77};
	u32 producer, tid;

	g_assert_true(side_holder(&line, &producer, &tid));
	g_assert_cmpuint(producer, ==, 5);
	g_assert_cmpuint(tid, ==, 77);
	g_assert_false(side_break(&line, 6, 0));
	g_assert_false(side_break(&line, 5, 78));
	g_assert_cmpuint(line.lock, ==, 5ull << 32 | 77);
	g_assert_true(side_break(&line, 5, 77));
	g_assert_cmpuint(line.lock, ==, 0);
	g_assert_false(side_break(&line, 5, 0));
	g_assert_false(side_break(&line, 0, 0));
	g_assert_false(side_holder(&line, &producer, &tid));
	line.lock = 5ull << 32 | 77;
	g_assert_true(side_break(&line, 5, 0));
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/reader/parse/fields", test_parse);
	g_test_add_func("/reader/parse/refused", test_parse_refused);
	g_test_add_func("/reader/parse/random", test_parse_random);
	g_test_add_func("/reader/walk/random", test_walk_random);
	g_test_add_func("/reader/position", test_position);
	g_test_add_func("/reader/first-whole", test_first_whole);
	g_test_add_func("/reader/positions", test_positions);
	g_test_add_func("/reader/hold", test_hold);
	g_test_add_func("/reader/lost", test_lost);
	g_test_add_func("/side/break", test_break);
	return g_test_run();
}
