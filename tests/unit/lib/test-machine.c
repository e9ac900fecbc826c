/* SPDX-License-Identifier: MIT */
/* What other tests take for granted or replace: the kernel keeps the rseq area up and restarts sequences, on every CPU,
 * and the counter is the one that records are stamped with. With TRACER_TEST_RSEQ=required nothing of it may be missing. */
#include "lib/record.h"
#include "lib/reader.h"
#include "lib/region.h"
#include "lib/sequence.h"

#include <glib.h>
#include <sched.h>
#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

static const struct record_clock counter = {ABI_CLOCK_COUNTER, 1ull << 32};

/* by the instruction itself, whatever lib/ says; ordered behind what came before and in front of what follows */
static u64 ticks(void)
{
#if defined(__x86_64__)
	u32 low, high;

	__asm__ volatile("lfence; rdtsc; lfence" : "=a"(low), "=d"(high)::"memory");
	return low | (u64)high << 32;
#else
	u64 value;

	__asm__ volatile("dsb sy; isb; mrs %0, cntvct_el0; isb" : "=r"(value)::"memory");
	return value;
#endif
}

static bool has_rseq(void)
{
	sequence_detect();
	if (sequence_offset)
		return true;
	if (!g_strcmp0(g_getenv("TRACER_TEST_RSEQ"), "required"))
		g_error("this thread has no rseq area");
	g_test_skip("no rseq here");
	return false;
}

static u32 area_cpu(void)
{
	return *(volatile u32 *)((char *)sequence_area() + RSEQ_AREA_CPU_ID);
}

/* Goes to each CPU that this process may use, in turn. */
static void on_each_cpu(void (*run)(u32 cpu))
{
	cpu_set_t may, one;
	u32 n = 0;

	g_assert_cmpint(sched_getaffinity(0, sizeof(may), &may), ==, 0);
	for (u32 cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, &may))
			continue;
		CPU_ZERO(&one);
		CPU_SET(cpu, &one);
		g_assert_cmpint(sched_setaffinity(0, sizeof(one), &one), ==, 0);
		run(cpu);
		n++;
	}
	g_assert_cmpint(sched_setaffinity(0, sizeof(may), &may), ==, 0);
	g_test_message("%u CPUs", n);
}

static void check_cpu(u32 cpu)
{
	g_assert_cmpuint(area_cpu(), ==, cpu);
	g_assert_cmpint(sched_getcpu(), ==, (int)cpu);
}

static void test_cpu(void)
{
	if (has_rseq())
		on_each_cpu(check_cpu);
}

/* Two rings, for CPUs by turns, and a side ring. */
struct house {
	struct region region;
	struct geometry geometry;
	struct slot slot;
	u16 cpu_ring[ABI_MAX_CPUS];
};
static struct house house;

static void house_init(void)
{
	static const u32 rings[] = {0, 1};

	house = (struct house){.geometry = {16, 12, 16, 12, 2, 1, ABI_POLICY_OVERWRITE, 0}};
	for (u32 i = 0; i < ABI_MAX_CPUS; i++)
		house.cpu_ring[i] = i & 1;
	g_assert_cmpint(slot_register(), ==, 0);
	g_assert_cmpint(region_create(&house.region, "machine", &house.geometry, 0, 1, rings, 2), ==, 0);
	g_assert_cmpint(slot_attach(&house.slot, house.region.fd, &house.geometry, 1, house.cpu_ring, NULL, 0), ==, 0);
}

static void house_deinit(void)
{
	slot_detach(&house.slot);
	region_close(&house.region);
}

static u64 count_of(u32 ring)
{
	struct reader reader;
	u64 offset, count;

	reader_init(&reader, house.region.map, &house.geometry, ring);
	g_assert_cmpint(reader_position(&reader, &offset, &count), ==, 0);
	return count;
}

static void check_placed(u32 cpu)
{
	u64 before[3] = {count_of(0), count_of(1), count_of(2)}, from, to;
	u8 head[RECORD_HEADROOM + 8] = {0};
	const struct record_part part = {head + RECORD_HEADROOM, 8, 0};
	struct reader reader;

	reader_init(&reader, house.region.map, &house.geometry, cpu & 1);
	from = ticks();
	g_assert_cmpint(record_write(&house.slot, 1, 1, 0, 1, &counter, &part, 1), ==, RECORD_DONE);
	to = ticks();
	if (!before[cpu & 1]) { /* it entered the ring, which `base` tells the time of */
		g_assert_cmpuint(reader.line->base, >=, from);
		g_assert_cmpuint(reader.line->base, <=, to);
	}
	/* and the usual record */
	g_assert_cmpint(record_write(&house.slot, 1, 1, 0, 1, &counter, &part, 1), ==, RECORD_DONE);
	for (u32 i = 0; i < 3; i++)
		g_assert_cmpuint(count_of(i), ==, before[i] + (i == (cpu & 1) ? 2 : 0));
}

/* a record is in the ring of its CPU, at the time that the counter shows, and no side ring was needed */
static void test_placed(void)
{
	if (!has_rseq())
		return;
	house_init();
	on_each_cpu(check_placed);
	house_deinit();
}

static volatile sig_atomic_t n_ticks;
static void on_tick(int signal)
{
	n_ticks++;
}

/* Signals that arrive inside a sequence: it is restarted, and has not happened. */
static void test_restarted(void)
{
	struct sigaction action = {.sa_handler = on_tick, .sa_flags = SA_RESTART}, saved;
	struct itimerval every = {{0, 500}, {0, 500}}, never = {0};
	struct request q = {.slot = &house.slot, .generation = 1, .cause = ABI_LOST_VFORK, .amount = 1};
	u64 done = 0, aborted = 0, lost = 0;

	if (!has_rseq())
		return;
	house_init();
	g_assert_cmpint(sigaction(SIGALRM, &action, &saved), ==, 0);
	g_assert_cmpint(setitimer(ITIMER_REAL, &every, NULL), ==, 0);
	while (aborted < 20) {
		int r = sequence_lost(&q, sequence_area());

		done += r == SEQUENCE_DONE;
		aborted += r == SEQUENCE_ABORT;
		g_assert_true(r == SEQUENCE_DONE || r == SEQUENCE_ABORT);
	}
	g_assert_cmpint(setitimer(ITIMER_REAL, &never, NULL), ==, 0);
	g_assert_cmpint(sigaction(SIGALRM, &saved, NULL), ==, 0);
	for (u32 i = 0; i < 2; i++) {
		struct reader reader;

		reader_init(&reader, house.region.map, &house.geometry, i);
		lost += reader_lost_by(&reader, ABI_LOST_VFORK);
	}
	g_assert_cmpuint(lost, ==, done);
	g_test_message("%" G_GUINT64_FORMAT " sequences, %" G_GUINT64_FORMAT " restarted, %d signals", done, aborted,
		       (int)n_ticks);
	house_deinit();
}

/* one counter for all CPUs: it goes on where the last one was left */
static u64 last;
static void check_counter(u32 cpu)
{
	u64 now = ticks();

	g_assert_cmpuint(now, >=, last);
	last = now;
}

static void test_counter(void)
{
	u64 before, between, after;

	last = 0;
	on_each_cpu(check_counter);
	before = ticks();
	between = record_clock_now(&counter);
	after = ticks();
	g_assert_cmpuint(before, <=, between);
	g_assert_cmpuint(between, <=, after);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/machine/rseq/cpu", test_cpu);
	g_test_add_func("/machine/rseq/placed", test_placed);
	g_test_add_func("/machine/rseq/restarted", test_restarted);
	g_test_add_func("/machine/counter", test_counter);
	return g_test_run();
}
