/* SPDX-License-Identifier: MIT */
/* What becomes of a record whose slot is not, or not any more, what the control page says of it: in the ring, missed and
 * counted, or, if its session is over, neither. The page and the slots are the test's own; the link wraps record_write(), so
 * that something can happen to the slot while a record is on its way. */
#include "lib/attach.h"
#include "lib/control.h"
#include "lib/reader.h"
#include "lib/region.h"

#include <glib.h>

#define SLOT	  3
#define CLASS	  5
#define SIGNATURE 77
#define ID	  9

static struct abi_control_page page;
static u16 cpu_ring[ABI_MAX_CPUS]; /* one ring for all: there is one thread */
static const struct geometry geometry = { .ring_shift = 16,
					  .sub_shift = 12,
					  .side_shift = 16,
					  .side_sub_shift = 12,
					  .n_ring = 1,
					  .n_side = 1,
					  .policy = ABI_POLICY_OVERWRITE,
					  .contexts = ABI_CONTEXT_VPID | ABI_CONTEXT_VTID };
static struct region region;

static void attach(u32 generation)
{
	const u32 ring = 0;

	g_assert_cmpint(region_create(&region, "test", &geometry, SLOT, generation, &ring, 1), ==, 0);
	g_assert_cmpint(slot_attach(&process.slots[SLOT], region.fd, &geometry, generation, cpu_ring, attach_ids[SLOT],
				    CLASS + 1),
			==, 0);
}

static void detach(void)
{
	slot_detach(&process.slots[SLOT]);
	region_close(&region);
}

static void set_up(void)
{
	control_page = &page;
	page.head.slot_generation[SLOT] = 1;
	page.mask[0] = 1ull << SLOT;
	/* the daemon was asked at this generation, in vain: nobody is asked here */
	process.attempted = 1ull << 32 | page.head.generation;
	process.attempt_failed = 1;
	attach_ids[SLOT][CLASS] = ID;
	process.clock = (struct record_clock){ .kind = ABI_CLOCK_MONOTONIC };
	process.missed = 0;
	attach(1);
}

static void tear_down(void)
{
	detach();
	attach_ids[SLOT][CLASS] = 0;
}

/* With no answer of the page's generation, so that each slot is looked at. */
static void record(void)
{
	const struct tracer_event event = { .mask = page.mask,
					    .generation = &page.head.generation,
					    .state = &process.states[CLASS],
					    .signature = SIGNATURE };
	u64 v[3] = { 0, 4711, 0 };
	struct tracer_part part = { &v[1], 8, 0 };

	tracer_record_(&event, TRACER_ASK_, SIGNATURE, &part, 1);
}

/* In the rings that the slot has now. */
static u64 n_recorded(void)
{
	u64 sum = 0;

	for (u32 i = 0; i < 2; i++) {
		u64 offset, count;
		struct reader r;

		reader_init(&r, region.map, &geometry, i);
		g_assert_cmpint(reader_position(&r, &offset, &count), ==, 0);
		sum += count;
	}
	return sum;
}

/* ---- while a record is on its way ---- */

static void (*meanwhile)(void); /* before it is written, once or each time; NULL: nothing */
static u32 n_written, n_times;

enum record_result __real_record_write(struct slot *s, u32 generation, u32 id, u64 ids, u32 producer,
				       const struct record_clock *clock, const struct record_part *parts, u32 n_parts);
enum record_result __wrap_record_write(struct slot *s, u32 generation, u32 id, u64 ids, u32 producer,
				       const struct record_clock *clock, const struct record_part *parts, u32 n_parts);

enum record_result __wrap_record_write(struct slot *s, u32 generation, u32 id, u64 ids, u32 producer,
				       const struct record_clock *clock, const struct record_part *parts, u32 n_parts)
{
	enum record_result r;

	if (n_written++ < n_times) {
		u32 now = s->generation;

		/* it finds the slot empty, and then the slot is not */
		s->generation = 0;
		r = __real_record_write(s, generation, id, ids, producer, clock, parts, n_parts);
		s->generation = now;
		g_assert_cmpint(r, ==, RECORD_STALE);
		if (meanwhile)
			meanwhile();
		return r;
	}
	return __real_record_write(s, generation, id, ids, producer, clock, parts, n_parts);
}

static void record_while(u32 times, void (*call)(void))
{
	n_written = 0;
	n_times = times;
	meanwhile = call;
	record();
	n_times = 0;
}

static void check(u64 recorded, u64 missed)
{
	g_assert_cmpuint(n_recorded(), ==, recorded);
	g_assert_cmpuint(process.missed, ==, missed);
}

/* ---- tests ---- */

static void attached(void)
{
	set_up();
	record();
	check(1, 0);
	tear_down();
}

/* The mask's bit still stands, and the slot has its ring. */
static void over(void)
{
	set_up();
	page.head.slot_generation[SLOT] = 0;
	record();
	check(0, 0);
	tear_down();
}

/* Another session, which was not told of yet: nothing of it goes into the ring of the one before. */
static void another(void)
{
	set_up();
	page.head.slot_generation[SLOT] = 2;
	for (u32 i = 0; i < 3; i++)
		record();
	check(0, 3);
	tear_down();
}

static void never_attached(void)
{
	set_up();
	detach();
	record();
	g_assert_cmpuint(process.missed, ==, 1);
	attach(1);
	tear_down();
}

/* A class that was added behind the answer. */
static void unanswered(void)
{
	set_up();
	store_relaxed_u32(&process.slots[SLOT].n_ids, CLASS);
	record();
	check(0, 1);
	tear_down();
}

/* The session has it in its answer, and does not want it. */
static void unwanted(void)
{
	set_up();
	attach_ids[SLOT][CLASS] = 0;
	record();
	check(0, 0);
	tear_down();
}

static void renew(void)
{
	detach();
	page.head.slot_generation[SLOT] = 2;
	attach(2);
}

/* Another ring, of another generation or of the same: the record is built again, for that one. */
static void renewed(void)
{
	set_up();
	record_while(1, renew);
	check(1, 0);
	tear_down();
}

static void give_another(void)
{
	detach();
	attach(1);
}

static void same_generation(void)
{
	set_up();
	record_while(1, give_another);
	check(1, 0);
	tear_down();
}

/* No third time; but it is not lost silently. */
static void twice(void)
{
	set_up();
	record_while(2, give_another);
	check(0, 1);
	g_assert_cmpuint(n_written, ==, 2);
	tear_down();
}

static void end(void)
{
	page.head.slot_generation[SLOT] = 0;
}

static void end_at_last(void)
{
	if (n_written == 2)
		end();
}

static void over_meanwhile(void)
{
	set_up();
	record_while(1, end);
	check(0, 0);
	tear_down();
	set_up();
	record_while(2, end_at_last);
	check(0, 0);
	tear_down();
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/missed/attached", attached);
	g_test_add_func("/missed/over", over);
	g_test_add_func("/missed/another", another);
	g_test_add_func("/missed/never-attached", never_attached);
	g_test_add_func("/missed/unanswered", unanswered);
	g_test_add_func("/missed/unwanted", unwanted);
	g_test_add_func("/missed/renewed", renewed);
	g_test_add_func("/missed/same-generation", same_generation);
	g_test_add_func("/missed/twice", twice);
	g_test_add_func("/missed/over-meanwhile", over_meanwhile);
	return g_test_run();
}
