/* SPDX-License-Identifier: MIT */
/* One lie at a time in a ring that is honest else, and what exactly it costs. */
#include "tests/unit/daemon/maker.h"
#include "tests/unit/daemon/packets.h"

#include <signal.h>
#include <sys/mman.h>

#include "lib/atomic.h"

#define SUB	4096ull
#define RING	65536ull
#define RECORD	16	/* header and a number, no contexts */
#define PER_SUB ((SUB - ABI_SUB_HEADER) / RECORD)
#define SECOND	NSEC_PER_SEC

typedef struct {
	Maker maker;
	Packets p;
	u64 n;	  /* records written */
	u64 time; /* of the last one */
} Fixture;

static void fixture_stream(Fixture *f)
{
	packets_init(&f->p, f->maker.region.map, f->maker.region.fd, &f->maker.region.geometry, 0, &f->maker.clock);
	f->p.numbers = g_array_new(FALSE, FALSE, sizeof(u64));
}

static void fixture_init(Fixture *f, u32 policy)
{
	*f = (Fixture){ .time = SECOND };
	maker_init(&f->maker, 1, policy, 0);
	fixture_stream(f);
}

static void fixture_clear(Fixture *f)
{
	packets_clear(&f->p);
	maker_clear(&f->maker);
}

static void write_id(Fixture *f, u32 id, u64 step)
{
	u64 body[2] = { f->n, 0 };

	f->time += step;
	g_assert_true(maker_record(&f->maker, 0, id, f->time, body, 8));
	f->n++;
}

static void write_n(Fixture *f, u64 n)
{
	while (n--)
		write_id(f, 1, 1000);
}

static struct abi_sub *header(Fixture *f, u64 sub)
{
	return (struct abi_sub *)(maker_data(&f->maker, 0) + (sub * SUB & (RING - 1)));
}

/* The i-th record of a sub-buffer of compact records of one size. */
static u8 *record(Fixture *f, u64 sub, u64 i)
{
	return (u8 *)header(f, sub) + ABI_SUB_HEADER + i * RECORD;
}

static void expect(const Fixture *f, u64 kept, u64 overwritten, u64 corrupt, u64 corrupt_subs, u64 clamped)
{
	const StreamCounters *c = &f->p.stream.counters;

	g_assert_cmpuint(c->kept, ==, kept);
	g_assert_cmpuint(c->overwritten, ==, overwritten);
	g_assert_cmpuint(c->corrupt, ==, corrupt);
	g_assert_cmpuint(c->corrupt_subs, ==, corrupt_subs);
	g_assert_cmpuint(c->clamped, ==, clamped);
	g_assert_cmpuint(f->p.numbers->len, ==, kept);
}

/* Numbers from `first` on, but for [gap, gap_end). */
static void expect_numbers(const Fixture *f, u64 first, u64 gap, u64 gap_end)
{
	for (u32 i = 0; i < f->p.numbers->len; i++) {
		u64 is = first + i;

		if (is >= gap)
			is += gap_end - gap;
		g_assert_cmpuint(g_array_index(f->p.numbers, u64, i), ==, is);
	}
}

static void store(u8 *p, u64 value, size_t size)
{
	memcpy(p, &value, size);
}

/* ---- honest, step by step ---- */

static void test_partial(gconstpointer policy)
{
	Fixture f;
	StreamPacket k;

	fixture_init(&f, GPOINTER_TO_UINT(policy));
	g_assert_false(stream_ready(&f.p.stream, true));
	g_assert_cmpint(packets_take(&f.p, STREAM_PARTIAL, true, &k), ==, 0);
	write_n(&f, 3);
	g_assert_true(stream_ready(&f.p.stream, true));
	g_assert_false(stream_ready(&f.p.stream, false));
	g_assert_cmpint(packets_take(&f.p, 0, true, &k), ==, 0);
	/* the same one again, then a longer one, then none of it */
	g_assert_cmpint(packets_take(&f.p, STREAM_PARTIAL, false, &k), ==, 1);
	g_assert_cmpuint(k.n_records, ==, 3);
	g_assert_cmpuint(k.size, ==, 3 * RECORD);
	g_assert_cmpint(k.fd >= 0, ==, GPOINTER_TO_UINT(policy) != ABI_POLICY_OVERWRITE);
	expect(&f, 0, 0, 0, 0, 0);
	write_n(&f, 1);
	g_assert_cmpint(packets_take(&f.p, STREAM_PARTIAL, true, &k), ==, 1);
	g_assert_cmpuint(k.n_records, ==, 4);
	g_assert_cmpint(packets_take(&f.p, STREAM_PARTIAL, true, &k), ==, 0);
	g_assert_cmpuint(maker_line(&f.maker, 0)->consumed, ==, 0);
	/* a wrap of the low bits behind what was taken: counts from the running clock */
	write_id(&f, 1, 4 * SECOND);
	write_id(&f, 1, 4 * SECOND / 5); /* extended, and the next one */
	write_id(&f, 1, 5 * SECOND);
	g_assert_cmpint(packets_take(&f.p, STREAM_PARTIAL, true, &k), ==, 1);
	g_assert_cmpuint(k.end, ==, f.time);
	g_assert_cmpuint(k.begin, ==, f.time - 5 * SECOND - 4 * SECOND / 5);
	/* the last ones fit exactly: `offset` is on a boundary, behind it nothing */
	write_n(&f, PER_SUB - 8 - 1);
	g_assert_cmpuint(maker_offset(&f.maker, 0), <, SUB);
	g_assert_cmpint(packets_take(&f.p, STREAM_PARTIAL, true, &k), ==, 1);
	g_assert_false(stream_ready(&f.p.stream, false));
	write_n(&f, 1);
	g_assert_cmpuint(maker_offset(&f.maker, 0), ==, SUB);
	g_assert_true(stream_ready(&f.p.stream, false));
	g_assert_cmpint(packets_take(&f.p, 0, true, &k), ==, 1);
	g_assert_cmpuint(k.n_records, ==, 1);
	g_assert_false(stream_ready(&f.p.stream, true));
	if (!f.p.stream.overwrite)
		g_assert_cmpuint(maker_line(&f.maker, 0)->consumed, ==, SUB);
	/* the boundary is published behind what was taken: no empty packet */
	write_n(&f, PER_SUB - 1);
	g_assert_cmpint(packets_take(&f.p, STREAM_PARTIAL, true, &k), ==, 1);
	g_assert_cmpuint(k.n_records, ==, PER_SUB - 1);
	f.n++;
	f.time += 1000;
	g_assert_true(maker_record(&f.maker, 0, 2, f.time, "\0\0\0\0\0\0\0\0text", 13)); /* does not fit */
	g_assert_cmpuint(maker_offset(&f.maker, 0), >, 2 * SUB);
	g_assert_true(stream_ready(&f.p.stream, false));
	g_assert_cmpint(packets_take(&f.p, 0, true, &k), ==, 0);
	g_assert_false(stream_ready(&f.p.stream, false));
	g_assert_cmpuint(f.p.stream.done, ==, 2 * SUB);
	g_assert_cmpint(packets_take(&f.p, STREAM_PARTIAL, true, &k), ==, 1);
	g_assert_cmpuint(k.n_records, ==, 1);
	g_assert_cmpuint(k.size, ==, 21); /* without its padding */
	expect(&f, f.n, 0, 0, 0, 0);
	fixture_clear(&f);
}

static void test_given_back(void)
{
	Fixture f;
	StreamPacket k;
	u64 n = 0;

	fixture_init(&f, ABI_POLICY_DISCARD);
	write_n(&f, 16 * PER_SUB);
	g_assert_false(maker_record(&f.maker, 0, 1, f.time, &n, 8)); /* full */
	g_assert_cmpint(packets_take(&f.p, 0, false, &k), ==, 1);
	g_assert_cmpuint(maker_line(&f.maker, 0)->consumed, ==, 0); /* it is not out yet */
	g_assert_false(maker_record(&f.maker, 0, 1, f.time, &n, 8));
	g_assert_cmpint(packets_take(&f.p, 0, true, &k), ==, 1);
	g_assert_cmpuint(maker_line(&f.maker, 0)->consumed, ==, SUB);
	write_n(&f, PER_SUB);
	g_assert_false(maker_record(&f.maker, 0, 1, f.time, &n, 8));
	packets_drain(&f.p, 0);
	write_n(&f, 1);
	g_assert_cmpuint(packets_drain(&f.p, STREAM_PARTIAL), ==, 1);
	expect(&f, 17 * PER_SUB + 1, 0, 0, 0, 0);
	expect_numbers(&f, 0, UINT64_MAX, UINT64_MAX);
	/* losses are said by the packet that follows them, and by what the last one leaves */
	g_assert_cmpuint(f.p.discarded, ==, 3);
	maker_lose(&f.maker, 0, ABI_LOST_BIG, 5);
	g_assert_cmpuint(stream_unsaid(&f.p.stream, &n), ==, 5);
	g_assert_cmpuint(n, ==, 8);
	g_assert_cmpuint(stream_unsaid(&f.p.stream, &n), ==, 0);
	g_assert_cmpuint(n, ==, 8);
	fixture_clear(&f);
}

static void test_restart(gconstpointer policy)
{
	Fixture f;
	StreamPacket k;

	fixture_init(&f, GPOINTER_TO_UINT(policy));
	write_n(&f, 5 * PER_SUB + 7);
	for (u32 i = 0; i < 3; i++)
		g_assert_cmpint(packets_take(&f.p, 0, true, &k), ==, 1);
	g_assert_cmpint(packets_take(&f.p, 0, false, &k), ==, 1); /* in hand, and never out */
	packets_restart(&f.p, f.maker.region.map, f.maker.region.fd, &f.maker.region.geometry, 0, &f.maker.clock);
	g_array_set_size(f.p.numbers, 0);
	packets_drain(&f.p, STREAM_PARTIAL);
	if (f.p.stream.overwrite) {
		/* nothing says what was taken */
		expect(&f, f.n, 0, 0, 0, 0);
		/* lapped: what went before it began is nobody's */
		write_n(&f, 20 * PER_SUB);
		packets_restart(&f.p, f.maker.region.map, f.maker.region.fd, &f.maker.region.geometry, 0,
				&f.maker.clock);
		g_array_set_size(f.p.numbers, 0);
		write_n(&f, PER_SUB);
		packets_drain(&f.p, STREAM_PARTIAL);
		expect(&f, 14 * PER_SUB + PER_SUB + 7, PER_SUB, 0, 0, 0);
		expect_numbers(&f, f.n - 15 * PER_SUB - 7, UINT64_MAX, UINT64_MAX);
	} else {
		expect(&f, 2 * PER_SUB + 7, 0, 0, 0, 0);
		expect_numbers(&f, 3 * PER_SUB, UINT64_MAX, UINT64_MAX);
		/* the consumed position may be anything: the ring is put right, and goes on */
		maker_line(&f.maker, 0)->consumed = 3 * SUB + 4;
		packets_restart(&f.p, f.maker.region.map, f.maker.region.fd, &f.maker.region.geometry, 0,
				&f.maker.clock);
		g_assert_cmpuint(f.p.stream.done, ==, 0);
	}
	fixture_clear(&f);
}

static void test_overwritten(void)
{
	Fixture f;
	StreamPacket k;

	fixture_init(&f, ABI_POLICY_OVERWRITE);
	write_n(&f, 20 * PER_SUB);
	/* of 16 the one that the writer stands before may go at any time; taken again it costs the same */
	g_assert_cmpint(packets_take(&f.p, 0, false, &k), ==, 1);
	g_assert_cmpuint(k.discarded, ==, 5 * PER_SUB);
	g_assert_cmpint(packets_take(&f.p, 0, false, &k), ==, 1);
	g_assert_cmpuint(k.discarded, ==, 5 * PER_SUB);
	packets_drain(&f.p, 0);
	expect(&f, 15 * PER_SUB, 5 * PER_SUB, 0, 0, 0);
	/* the header that would tell is broken: the next one tells, and what was missed was overwritten */
	write_n(&f, 20 * PER_SUB);
	header(&f, 25)->position ^= SUB;
	g_assert_cmpint(packets_take(&f.p, 0, false, &k), ==, 1);
	g_assert_cmpint(packets_take(&f.p, 0, false, &k), ==, 1);
	packets_drain(&f.p, 0);
	expect(&f, 29 * PER_SUB, 11 * PER_SUB, 0, 1, 0);
	g_assert_cmpfloat(stream_fill(&f.p.stream), ==, 0);
	write_n(&f, 4 * PER_SUB);
	g_assert_cmpfloat(stream_fill(&f.p.stream), ==, 0.25);
	write_n(&f, 40 * PER_SUB);
	g_assert_cmpfloat(stream_fill(&f.p.stream), ==, 1);
	fixture_clear(&f);
}

/* ---- a writer that comes round while it is copied ---- */

/* The page where the copy stops, so that the writer goes on exactly there: the second one of a sub-buffer of two, its header
 * read before, or the first. */
static struct {
	Fixture *f;
	u8 *page;
	u32 turns; /* so often is the next copy met as well */
	u64 subs;  /* that are written meanwhile */
	u64 at;	   /* page of a sub-buffer */
} chase;

#define BIG 8192ull

static u64 big_per_sub(void)
{
	return (BIG - ABI_SUB_HEADER) / RECORD;
}

static void chase_arm(u64 sub)
{
	chase.page = maker_data(&chase.f->maker, 0) + ((sub * BIG + chase.at * 4096) & (16 * BIG - 1));
	g_assert_cmpint(mprotect(chase.page, 4096, PROT_NONE), ==, 0);
}

static void chase_fault(int number, siginfo_t *info, void *context)
{
	u8 *at = info->si_addr;

	if (!chase.page || at < chase.page || at >= chase.page + 4096)
		abort();
	if (mprotect(chase.page, 4096, PROT_READ | PROT_WRITE) < 0)
		abort();
	chase.page = NULL;
	write_n(chase.f, chase.subs * big_per_sub());
	if (--chase.turns) {
		/* the stream cannot know which one is next: whatever it tries from now on */
		u64 next = maker_offset(&chase.f->maker, 0) / BIG + 1 - 16;

		chase_arm(next);
	}
}

static void run_chase(u64 at, u32 turns, u64 subs, u64 least)
{
	struct sigaction action = { .sa_sigaction = chase_fault, .sa_flags = SA_SIGINFO | SA_NODEFER }, before;
	const struct geometry g = { 17, 13, 17, 13, 1, 2, ABI_POLICY_OVERWRITE, 0 };
	const u32 rings[] = { 0 };
	Fixture f = { .time = SECOND };

	f.maker.region = REGION_NULL;
	f.maker.clock = (struct record_clock){ ABI_CLOCK_MONOTONIC, 0 };
	g_assert_cmpint(region_create(&f.maker.region, "test", &g, 0, 1, rings, 1), ==, 0);
	fixture_stream(&f);
	f.p.numbered = true;
	g_assert_cmpint(sigaction(SIGSEGV, &action, &before), ==, 0);
	write_n(&f, 20 * big_per_sub());
	chase.f = &f;
	chase.turns = turns;
	chase.subs = subs;
	chase.at = at;
	chase_arm(20 + 1 - 16);
	packets_drain(&f.p, STREAM_PARTIAL);
	g_assert_cmpint(sigaction(SIGSEGV, &before, NULL), ==, 0);
	if (chase.page)
		g_assert_cmpint(mprotect(chase.page, 4096, PROT_READ | PROT_WRITE), ==, 0);
	chase.page = NULL;
	/* each once or counted (numbered), and nothing that the writer did is taken for a lie */
	g_assert_cmpuint(f.p.next, ==, f.n);
	g_assert_cmpuint(f.p.stream.counters.kept, >=, least * big_per_sub());
	expect(&f, f.n - f.p.stream.counters.overwritten, f.p.stream.counters.overwritten, 0, 0, 0);
	packets_clear(&f.p);
	maker_clear(&f.maker);
}

static void test_chased(void)
{
	for (u64 at = 0; at < 2; at++) {
		run_chase(at, 1, 1, 14);  /* just the one that was being copied */
		run_chase(at, 1, 7, 14);
		run_chase(at, 1, 40, 14); /* laps */
		run_chase(at, 30, 1, 8);  /* again and again: it looks further ahead */
		run_chase(at, 30, 3, 8);
	}
}

/* ---- headers ---- */

typedef void (*Lie)(Fixture *f);

/* Five sub-buffers, the lie in the third; then one more. */
static void run_lie(u32 policy, Lie lie, u64 lost, u64 from, u64 subs, u64 clamped)
{
	for (u32 partial = 0; partial < 2; partial++) {
		Fixture f;

		fixture_init(&f, policy);
		/* a wrap of the low bits too many must be in the future */
		f.time = maker_now(&f.maker) - NSEC_PER_SEC / 10;
		write_n(&f, 3 * PER_SUB);
		if (partial) { /* the broken one is met in the middle */
			packets_drain(&f.p, 0);
			fixture_clear(&f);
			fixture_init(&f, policy);
			f.time = maker_now(&f.maker) - NSEC_PER_SEC / 10;
			write_n(&f, 2 * PER_SUB);
			packets_drain(&f.p, STREAM_PARTIAL);
			write_n(&f, PER_SUB);
		}
		write_n(&f, 2 * PER_SUB);
		lie(&f);
		packets_drain(&f.p, STREAM_PARTIAL | STREAM_JUDGE);
		expect(&f, 5 * PER_SUB - lost, 0, lost, subs, clamped);
		expect_numbers(&f, 0, from, from + lost);
		write_n(&f, PER_SUB + 1);
		packets_drain(&f.p, STREAM_PARTIAL | STREAM_JUDGE);
		expect(&f, 6 * PER_SUB + 1 - lost, 0, lost, subs, clamped);
		expect_numbers(&f, 0, from, from + lost);
		fixture_clear(&f);
	}
}

static void lie_position(Fixture *f)
{
	header(f, 2)->position += RING;
}

static void lie_position_last(Fixture *f)
{
	header(f, 4)->position = 0;
}

static void lie_end_behind(Fixture *f)
{
	header(f, 2)->end = 3 * SUB + 4;
}

static void lie_end_before(Fixture *f)
{
	header(f, 2)->end = 2 * SUB + ABI_SUB_HEADER - 4;
}

static void lie_end_odd(Fixture *f)
{
	header(f, 2)->end -= 2;
}

static void lie_end_early(Fixture *f)
{
	header(f, 2)->end -= 3 * RECORD;
}

static void lie_end_inside(Fixture *f)
{
	header(f, 2)->end -= 4; /* inside the last record */
}

static void lie_count_more(Fixture *f)
{
	header(f, 2)->count += 5;
}

static void lie_count_huge(Fixture *f)
{
	header(f, 2)->count = UINT64_MAX;
}

static void lie_count_less(Fixture *f)
{
	header(f, 2)->count = 0;
}

static void lie_line_count(Fixture *f)
{
	struct abi_ring *line = maker_line(&f->maker, 0);

	line->count[line->offset & 1] += 1; /* where nothing is missing nothing can have been */
}

static void lie_lost(Fixture *f)
{
	header(f, 2)->lost = UINT64_MAX / 2;
}

static void lie_begin_future(Fixture *f)
{
	header(f, 2)->begin = UINT64_MAX;
}

static void lie_begin_past(Fixture *f)
{
	header(f, 2)->begin = 0;
}

/* ---- records ---- */

static void lie_id(Fixture *f)
{
	store(record(f, 2, 10), 4, 2);
}

static void lie_class(Fixture *f)
{
	store(record(f, 2, 10), 3, 2); /* of 12 bytes */
}

static void lie_text(Fixture *f)
{
	store(record(f, 2, 10), 2, 2);
	store(record(f, 2, 10) + 8, UINT64_MAX, 8); /* no room for a string */
}

static void lie_id_0(Fixture *f)
{
	store(record(f, 2, 10), 0, 2);
}

static void lie_length_0(Fixture *f)
{
	store(record(f, 2, 10) + 2, 0, 2);
}

static void lie_length_7(Fixture *f)
{
	store(record(f, 2, 10) + 2, 7, 2);
}

static void lie_length_long(Fixture *f)
{
	store(record(f, 2, 10) + 2, 0xFFFF, 2);
}

static void lie_length_last(Fixture *f)
{
	store(record(f, 2, PER_SUB - 1) + 2, RECORD + 1, 2);
}

static void lie_stamp(Fixture *f)
{
	u32 low;

	memcpy(&low, record(f, 2, 10) + 4, 4);
	store(record(f, 2, 10) + 4, low - 100000, 4); /* older: a reader takes it for a wrap, which is in the future */
}

static void lie_extended_id(Fixture *f)
{
	store(record(f, 2, 10), 0xFFFF, 2);
	store(record(f, 2, 10) + 4, 0x10001, 4);
}

/* An extended record takes the place of two. */
static void extend(Fixture *f, u64 time)
{
	u8 *p = record(f, 2, 10);

	store(p, 0xFFFF, 2);
	store(p + 2, 24, 2);
	store(p + 4, 1, 4);
	store(p + 8, time, 8);
	store(p + 16, 2 * PER_SUB + 10, 8);
	store(p + 24, 4, 2); /* 8 bytes are left: of no class */
	store(p + 26, 8, 2);
	memcpy(p + 28, record(f, 2, 9) + 4, 4);
}

static void lie_extended_future(Fixture *f)
{
	extend(f, UINT64_MAX);
}

static void lie_extended_past(Fixture *f)
{
	extend(f, 1);
}

static void test_lies(gconstpointer p)
{
	static const struct {
		Lie lie;
		u64 lost, from, subs, clamped;
	} lies[] = {
		{ lie_position, PER_SUB, 2 * PER_SUB, 1, 0 },
		{ lie_position_last, PER_SUB, 4 * PER_SUB, 1, 0 },
		{ lie_end_behind, PER_SUB, 2 * PER_SUB, 1, 0 },
		{ lie_end_before, PER_SUB, 2 * PER_SUB, 1, 0 },
		{ lie_end_odd, PER_SUB, 2 * PER_SUB, 1, 0 },
		{ lie_end_inside, 1, 3 * PER_SUB - 1, 1, 0 },
		{ lie_count_more, 0, 0, 0, 0 },
		{ lie_count_huge, 0, 0, 0, 0 },
		{ lie_count_less, 0, 0, 0, 0 },
		{ lie_line_count, 0, 0, 0, 0 },
		{ lie_lost, 0, 0, 0, 0 },
		{ lie_begin_future, 0, 0, 0, 1 },
		{ lie_begin_past, 0, 0, 0, 1 },
		{ lie_id, 1, 2 * PER_SUB + 10, 1, 0 },
		{ lie_class, 1, 2 * PER_SUB + 10, 1, 0 },
		{ lie_text, 1, 2 * PER_SUB + 10, 1, 0 },
		{ lie_id_0, PER_SUB - 10, 2 * PER_SUB + 10, 1, 0 },
		{ lie_length_0, PER_SUB - 10, 2 * PER_SUB + 10, 1, 0 },
		{ lie_length_7, PER_SUB - 10, 2 * PER_SUB + 10, 1, 0 },
		{ lie_length_long, PER_SUB - 10, 2 * PER_SUB + 10, 1, 0 },
		{ lie_length_last, 1, 3 * PER_SUB - 1, 1, 0 },
		{ lie_extended_id, PER_SUB - 10, 2 * PER_SUB + 10, 1, 0 },
		{ lie_stamp, 0, 0, 0, 1 },
		{ lie_extended_future, 1, 2 * PER_SUB + 11, 1, 1 },
		{ lie_extended_past, 1, 2 * PER_SUB + 11, 1, 1 },
	};

	for (u32 i = 0; i < ELEMENTSOF(lies); i++) {
		g_test_message("lie %u", i);
		run_lie(GPOINTER_TO_UINT(p), lies[i].lie, lies[i].lost, lies[i].from, lies[i].subs, lies[i].clamped);
	}
}

/* Records that end early are cut off without a trace in the bytes: nothing was left out that the stream saw, and nothing is
 * claimed for bytes that were not passed unread. */
static void test_end_early(gconstpointer policy)
{
	Fixture f;

	fixture_init(&f, GPOINTER_TO_UINT(policy));
	write_n(&f, 5 * PER_SUB);
	lie_end_early(&f);
	packets_drain(&f.p, STREAM_PARTIAL);
	expect(&f, 5 * PER_SUB - 3, 0, 3, 0, 0);
	expect_numbers(&f, 0, 3 * PER_SUB - 3, 3 * PER_SUB);
	fixture_clear(&f);
}

static void test_unknown(gconstpointer policy)
{
	Fixture f;
	StreamPacket k;

	fixture_init(&f, GPOINTER_TO_UINT(policy));
	write_n(&f, 2);
	write_id(&f, 9, 1000);
	write_n(&f, 2);
	for (u32 i = 0; i < 3; i++)
		g_assert_cmpint(packets_take(&f.p, STREAM_PARTIAL, true, &k), ==, -ENOENT);
	expect(&f, 0, 0, 0, 0, 0);
	g_assert_cmpint(packets_take(&f.p, STREAM_PARTIAL | STREAM_JUDGE, false, &k), ==, 1);
	g_assert_cmpint(k.fd, ==, -1);
	g_assert_cmpint(packets_take(&f.p, STREAM_PARTIAL, true, &k), ==, -ENOENT);
	g_assert_cmpuint(packets_drain(&f.p, STREAM_PARTIAL | STREAM_JUDGE), ==, 4);
	expect(&f, 4, 0, 1, 1, 0);
	/* again in the same sub-buffer: that one is counted already */
	write_id(&f, 9, 1000);
	write_n(&f, 1);
	packets_drain(&f.p, STREAM_PARTIAL | STREAM_JUDGE);
	expect(&f, 5, 0, 2, 1, 0);
	fixture_clear(&f);
}

/* What is left out carried the time over more than a compact stamp can say: two packets. */
static void test_gap(gconstpointer policy)
{
	Fixture f;
	StreamPacket k;
	u64 late;

	fixture_init(&f, GPOINTER_TO_UINT(policy));
	write_n(&f, 2);
	write_id(&f, 9, 6 * SECOND); /* extended, since the last one is too old */
	write_n(&f, 2);
	late = f.time;
	write_id(&f, 1, 5 * SECOND); /* extended itself: no gap for a reader */
	g_assert_cmpint(packets_take(&f.p, STREAM_PARTIAL | STREAM_JUDGE, true, &k), ==, 1);
	g_assert_cmpuint(k.n_records, ==, 2);
	g_assert_cmpuint(k.end, ==, SECOND + 2000);
	g_assert_cmpuint(k.discarded, ==, 0);
	g_assert_cmpint(packets_take(&f.p, STREAM_PARTIAL | STREAM_JUDGE, true, &k), ==, 1);
	g_assert_cmpuint(k.n_records, ==, 3);
	g_assert_cmpuint(k.begin, ==, late - 1000);
	g_assert_cmpuint(k.end, ==, f.time);
	g_assert_cmpuint(k.discarded, ==, 1);
	g_assert_cmpint(packets_take(&f.p, STREAM_PARTIAL | STREAM_JUDGE, true, &k), ==, 0);
	expect(&f, 5, 0, 1, 1, 0);
	fixture_clear(&f);
}

/* ---- positions ---- */

/* An honest program goes on from wherever the position was put; nothing is seen twice that it writes. */
static void go_on(Fixture *f, u64 subs)
{
	u64 before = f->p.numbers->len, n = f->n;

	for (u32 i = 0; i < 3; i++) {
		for (u64 k = 0; k < subs * PER_SUB; k++) {
			u64 body[2] = { f->n, 0 };

			f->time += 1000;
			if (maker_record(&f->maker, 0, 1, f->time, body, 8))
				f->n++;
		}
		packets_drain(&f->p, STREAM_PARTIAL | STREAM_JUDGE);
		g_assert_false(stream_ready(&f->p.stream, true));
	}
	g_assert_cmpuint(f->n - n, >=, subs * PER_SUB); /* it was let in */
	g_assert_cmpuint(f->p.numbers->len - before, >=, subs * PER_SUB);
	/* all of the last round, in order */
	for (u32 i = 1; i <= subs * PER_SUB; i++)
		g_assert_cmpuint(g_array_index(f->p.numbers, u64, f->p.numbers->len - i), ==, f->n - i);
}

static void test_positions(gconstpointer p)
{
	static const struct {
		u64 to;
		bool refused; /* a lie that can be told from an honest position */
	} lies[] = {
		{ 0, true },
		{ SUB + 4, true },
		{ 3 * SUB - 8, true },
		{ 5 * SUB + 2, true },
		{ 5 * SUB + 5, false }, /* in the header's room */
		{ 5 * SUB + ABI_SUB_HEADER, false },
		{ 17 * SUB, false },
		{ 21 * SUB + 8, false },
		{ 22 * SUB, false },
		{ 99 * SUB, false },
		{ 1ull << 40, false },
		{ (1ull << 62) + 4, false },
		{ (1ull << 63) + 2, true },
	};
	u32 policy = GPOINTER_TO_UINT(p);

	for (u32 i = 0; i < ELEMENTSOF(lies); i++) {
		Fixture f;
		struct abi_ring *line;
		bool ahead;

		g_test_message("position %" G_GUINT64_FORMAT, lies[i].to);
		fixture_init(&f, policy);
		line = maker_line(&f.maker, 0);
		write_n(&f, 5 * PER_SUB + 20);
		packets_drain(&f.p, STREAM_PARTIAL);
		expect(&f, f.n, 0, 0, 0, 0);
		ahead = policy != ABI_POLICY_OVERWRITE && (lies[i].to & ~3ull) > 5 * SUB + RING;
		line->offset = lies[i].to;
		line->count[lies[i].to & 1] = f.n;
		packets_drain(&f.p, STREAM_PARTIAL | STREAM_JUDGE);
		g_assert_false(stream_ready(&f.p.stream, true));
		/* a position that was put where nothing new is, is known for what it is */
		if (lies[i].refused || ahead)
			g_assert_cmpuint(f.p.stream.counters.corrupt_subs, >=, 1);
		g_assert_cmpuint(f.p.stream.counters.corrupt, ==, 0);
		g_assert_cmpuint(f.p.numbers->len, ==, f.p.stream.counters.kept);
		go_on(&f, 4);
		fixture_clear(&f);
	}
}

/* Beyond what arithmetic has room for nothing can be done, but it is counted, once, and costs no time. */
static void test_position_last(gconstpointer policy)
{
	Fixture f;
	StreamPacket k;

	fixture_init(&f, GPOINTER_TO_UINT(policy));
	write_n(&f, 10);
	packets_drain(&f.p, STREAM_PARTIAL);
	maker_line(&f.maker, 0)->offset = UINT64_MAX - 3;
	g_assert_true(stream_ready(&f.p.stream, false));
	for (u32 i = 0; i < 5; i++) {
		g_assert_cmpint(packets_take(&f.p, STREAM_PARTIAL, true, &k), ==, 0);
		g_assert_false(stream_ready(&f.p.stream, true));
	}
	expect(&f, 10, 0, 0, 1, 0);
	maker_line(&f.maker, 0)->offset = 0;
	maker_line(&f.maker, 0)->count[0] = 0;
	packets_drain(&f.p, STREAM_PARTIAL);
	f.n = 0;
	go_on(&f, 4);
	fixture_clear(&f);
}

/* The daemon's own words in a line. */
static void test_words(void)
{
	Fixture f;
	u64 said;

	fixture_init(&f, ABI_POLICY_DISCARD);
	write_n(&f, 16 * PER_SUB);
	packets_drain(&f.p, 0);
	maker_line(&f.maker, 0)->consumed = 0;
	g_assert_false(maker_record(&f.maker, 0, 1, f.time, &f.n, 8));
	packets_drain(&f.p, 0);
	g_assert_cmpuint(maker_line(&f.maker, 0)->consumed, ==, RING);
	write_n(&f, PER_SUB);
	packets_drain(&f.p, 0);
	expect(&f, 17 * PER_SUB, 0, 0, 0, 0);
	/* losses that are taken back, or more than there can be */
	g_assert_cmpuint(stream_unsaid(&f.p.stream, &said), ==, 0);
	g_assert_cmpuint(said, ==, 1);
	memset(maker_line(&f.maker, 0)->lost, 0, sizeof(maker_line(&f.maker, 0)->lost));
	write_n(&f, PER_SUB);
	packets_drain(&f.p, 0);
	g_assert_cmpuint(f.p.discarded, ==, 1);
	maker_line(&f.maker, 0)->lost[2] = UINT64_MAX;
	g_assert_cmpuint(stream_unsaid(&f.p.stream, &said), ==, UINT64_MAX - 1);
	g_assert_cmpuint(said, ==, UINT64_MAX);
	write_n(&f, 2 * PER_SUB);
	header(&f, 18)->position = 1; /* sums do not wrap */
	packets_drain(&f.p, 0);
	g_assert_cmpuint(f.p.stream.counters.corrupt, ==, PER_SUB);
	g_assert_cmpuint(f.p.discarded, ==, UINT64_MAX);
	fixture_clear(&f);
}

static void add(const char *name, GTestDataFunc fn)
{
	static const char *const names[] = { "overwrite", "discard" };

	for (u32 policy = 0; policy < 2; policy++) {
		g_autofree char *path = g_strdup_printf("/stream/%s/%s", name, names[policy]);

		g_test_add_data_func(path, GUINT_TO_POINTER(policy), fn);
	}
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	add("partial", test_partial);
	g_test_add_func("/stream/given-back", test_given_back);
	add("restart", test_restart);
	g_test_add_func("/stream/overwritten", test_overwritten);
	g_test_add_func("/stream/chased", test_chased);
	add("lies", test_lies);
	add("end-early", test_end_early);
	add("unknown", test_unknown);
	add("gap", test_gap);
	add("positions", test_positions);
	add("position-last", test_position_last);
	g_test_add_func("/stream/words", test_words);
	return g_test_run();
}
