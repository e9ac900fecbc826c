/* SPDX-License-Identifier: MIT */
/* A hundred snapshots while writers run at full speed. Each: every record intact, no hole (the
 * numbers of a thread are consecutive over all rings since the oldest time that all rings reach
 * back to), nothing missing that had returned before the cut, the reach, the sums. All are read by
 * the checker, some by babeltrace2. At the end: written = kept + overwritten, and the losses are
 * those that the threads were told.
 *
 *     stress-snapshot [-n SNAPSHOTS] [-s SEED] [-d: discard]      */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>

#include "lib/atomic.h"
#include "lib/slot.h"
#include "tests/unit/daemon/babeltrace.h"
#include "tests/unit/daemon/checker.h"

#define THREADS 4
#define BODY    (4 + 8 + 8)

typedef struct {
	pthread_t thread;
	u32 index, seed;
	u64 done; /* release behind the call that recorded it; read by the main thread before a cut
		   */
	u64 lost;
} Writer;

static struct slot slot;
static struct record_clock test_clock;
static u32 stop;
static Writer writers[THREADS];
static u16 cpu_ring[ABI_MAX_CPUS];

static u64 mix(u64 thread, u64 n)
{
	u64 x = (n + 1) * 0x9E3779B97F4A7C15ull ^ thread << 56;

	return x ^ x >> 29;
}

static void *write_records(void *userdata)
{
	Writer *w = userdata;
	u64 ids = (u64)getpid() | (u64)(u32)syscall(SYS_gettid) << 32;
	u32 x = w->seed;
	u64 n = 0;

	while (!load_relaxed_u32(&stop)) {
		struct {
			u8 headroom[RECORD_HEADROOM];
			u8 body[BODY + 68];
		} __attribute__((aligned(8))) b;
		u64 check = mix(w->index, n);
		u32 text;

		x = x * 1664525 + 1013904223;
		text = 1 + x % 23;
		memcpy(b.body, &w->index, 4);
		memcpy(b.body + 4, &n, 8);
		memcpy(b.body + 12, &check, 8);
		memset(b.body + BODY, 'a' + (int)(n % 26), text - 1);
		b.body[BODY + text - 1] = 0;

		struct record_part part = {b.body, BODY + text, 0};
		enum record_result r =
		    (x >> 24) == 7
			? record_write_side(&slot, 1, 1, ids, w->index + 1, &test_clock, &part, 1)
			: record_write(&slot, 1, 1, ids, w->index + 1, &test_clock, &part, 1);

		g_assert_cmpint(r, !=, RECORD_STALE);
		if (r == RECORD_DONE)
			store_release_u64(&w->done, ++n);
		else
			w->lost++;
		if (x % 65536 == 1)
			sched_yield();
	}
	return NULL;
}

/* ---- one snapshot ---- */

typedef struct {
	u64 time, n;
} Seen;

typedef struct {
	GArray *seen[THREADS];
	u64 first[THREADS * 64]; /* of each stream */
} Reading;

static void see(void *userdata, u32 instance, const struct record *r)
{
	Reading *reading = userdata;
	Seen seen = {.time = r->time};
	u64 check;
	u32 thread;

	/* contexts are vpid and vtid */
	memcpy(&thread, r->body + 8, 4);
	memcpy(&seen.n, r->body + 12, 8);
	memcpy(&check, r->body + 20, 8);
	g_assert_cmpuint(thread, <, THREADS);
	g_assert_cmpuint(check, ==, mix(thread, seen.n));
	for (u32 i = 8 + BODY; i + 1 < r->body_size; i++)
		g_assert_cmpuint(r->body[i], ==, 'a' + seen.n % 26);
	if (reading->first[instance] == 0)
		reading->first[instance] = r->time;
	g_array_append_val(reading->seen[thread], seen);
}

static int by_number(const void *a, const void *b)
{
	const Seen *x = a, *y = b;

	return x->n < y->n ? -1 : x->n > y->n;
}

/* since: from here on nothing may be missing; done: what had returned before the cut. */
static void check_numbers(Reading *reading, const SnapshotResult *result, u64 since,
			  const u64 *done)
{
	for (u32 t = 0; t < THREADS; t++) {
		GArray *a = reading->seen[t];
		const Seen *v = (Seen *)(void *)a->data;
		u64 next = UINT64_MAX;

		if (a->len)
			qsort(a->data, a->len, sizeof(Seen), by_number);
		for (guint i = 0; i < a->len; i++) {
			g_assert_cmpuint(v[i].time, <=, result->cut);
			if (i > 0) {
				g_assert_cmpuint(v[i].n, >, v[i - 1].n); /* none twice */
				g_assert_cmpuint(v[i].time, >=, v[i - 1].time);
			}
			if (v[i].time < since)
				continue;
			if (next != UINT64_MAX)
				g_assert_cmpuint(v[i].n, ==, next);
			next = v[i].n + 1;
		}
		if (next != UINT64_MAX)
			g_assert_cmpuint(next, >=, done[t]);
		g_array_free(a, TRUE);
	}
}

static u64 calibrate(void)
{
#if defined(__x86_64__)
	struct timespec a, b, wait = {0, 50000000};
	u64 from, ticks, ns;

	clock_gettime(CLOCK_MONOTONIC_RAW, &a);
	from = __builtin_ia32_rdtsc();
	nanosleep(&wait, NULL); /* not waiting for anything: measuring an interval */
	ticks = __builtin_ia32_rdtsc() - from;
	clock_gettime(CLOCK_MONOTONIC_RAW, &b);
	ns = (u64)(b.tv_sec - a.tv_sec) * NSEC_PER_SEC + (u64)b.tv_nsec - (u64)a.tv_nsec;
	return (u64)(((unsigned __int128)ns << 32) / ticks);
#else
	u64 hz;

	__asm__("mrs %0, cntfrq_el0" : "=r"(hz));
	return (NSEC_PER_SEC << 32) / hz;
#endif
}

int main(int argc, char **argv)
{
	struct geometry g = {
	    20, 16, 18, 14, 0, 2, ABI_POLICY_OVERWRITE, ABI_CONTEXT_VPID | ABI_CONTEXT_VTID};
	u32 cpus = (u32)sysconf(_SC_NPROCESSORS_ONLN), rings[64], n_snapshots = 100, late = 0;
	u32 seed = (u32)time(NULL);
	double least = 1;
	u64 kept = 0, after = 0, longest = 0, recorded = 0, lost = 0, counted = 0;
	struct region region;
	TraceClass class = {1, maker_class("stress", "record", 6, "thread", TRACER_TYPE_U32, 0, 0,
					   "n", TRACER_TYPE_U64, 0, 0, "check", TRACER_TYPE_U64, 0,
					   0, "text", TRACER_TYPE_STR, 0, 0, NULL)};
	int option;

	while ((option = getopt(argc, argv, "n:s:d")) != -1) {
		if (option == 'n')
			n_snapshots = (u32)atoi(optarg);
		else if (option == 's')
			seed = (u32)strtoul(optarg, NULL, 0);
		else if (option == 'd')
			g.policy = ABI_POLICY_DISCARD;
		else
			return 2;
	}
	g.n_ring = MIN(cpus, 64u);
	printf("seed %u\n", seed);
	for (u32 i = 0; i < ABI_MAX_CPUS; i++)
		cpu_ring[i] = (u16)(i < g.n_ring ? i : ABI_NO_RING);
	for (u32 i = 0; i < g.n_ring; i++)
		rings[i] = i;
	test_clock = (struct record_clock){ABI_CLOCK_COUNTER, calibrate()};
	g_assert_cmpint(region_create(&region, "stress", &g, 0, 1, rings, g.n_ring), ==, 0);
	g_assert_cmpint(slot_register(), ==, 0);
	g_assert_cmpint(slot_attach(&slot, region.fd, &g, 1, cpu_ring, NULL, 0), ==, 0);
	for (u32 i = 0; i < THREADS; i++) {
		writers[i].index = i;
		writers[i].seed = seed + i;
		g_assert_cmpint(
		    pthread_create(&writers[i].thread, NULL, write_records, &writers[i]), ==, 0);
	}

	for (u32 k = 0; k <= n_snapshots; k++) {
		Maker maker = {.region = region, .clock = test_clock};
		Reading reading = {{NULL}};
		u64 done[THREADS], before[THREADS * 64], since = 0;
		MakerJob j;
		Checked c;
		g_autofree char *path = NULL;

		if (k == n_snapshots) { /* the last one with nobody there */
			store_relaxed_u32(&stop, 1);
			for (u32 i = 0; i < THREADS; i++)
				g_assert_cmpint(pthread_join(writers[i].thread, NULL), ==, 0);
		}
		for (u32 i = 0; i < THREADS; i++) {
			reading.seen[i] = g_array_new(FALSE, FALSE, sizeof(Seen));
			done[i] = load_acquire_u64(&writers[i].done);
		}
		for (u32 i = 0; i < g.n_ring + g.n_side; i++)
			before[i] = maker_offset(&maker, i);
		maker_job_init(&j, &maker, 1, &class, 1);
		j.job.urgent = k % 2;
		path = maker_job_run(&j);
		checker_snapshot(&c, path, &class, 1, g.contexts, see, &reading);
		g_assert_cmpuint(c.n_records, ==, j.result.n_records);
		g_assert_cmpuint(j.result.corrupt_subs, ==, 0);
		g_assert_cmpuint(j.result.corrupt_records, ==, 0);
		g_assert_cmpuint(j.result.clamped, ==, 0);
		for (u32 i = 0; i < g.n_ring + g.n_side; i++) {
			if (maker_offset(&maker, i) < geometry_ring_size(&g, i) || g.policy != ABI_POLICY_OVERWRITE)
				continue;
			if (reading.first[i]) {
				since = MAX(since, reading.first[i]);
			} else if (j.result.late) {
				since = UINT64_MAX; /* lapped whole before its turn came, when the hold was over */
			} else {
				g_assert_cmpuint(before[i], ==, 0);
			}
		}
		check_numbers(&reading, &j.result, since,
			      g.policy == ABI_POLICY_OVERWRITE ? done : (u64[THREADS]){0});
		if (j.result.late)
			late++;
		else
			g_assert_cmpfloat(j.result.reach, >=, 0.8);
		least = MIN(least, j.result.reach);
		longest = MAX(longest, j.result.hold_ns);
		kept += j.result.n_records;
		after += j.result.n_after_cut;
		if (k % 25 == 0 || k == n_snapshots) {
			Babeltrace b;

			babeltrace_run(&b, path, NULL);
			babeltrace_assert_clean(&b);
			g_assert_cmpuint(b.n, ==, j.result.n_records);
			babeltrace_clear(&b);
		}
		if (k == n_snapshots) {
			for (u32 i = 0; i < THREADS; i++) {
				recorded += writers[i].done;
				lost += writers[i].lost;
			}
			for (u32 i = 0; i < ABI_LOST_CAUSES; i++)
				counted += j.result.lost[i];
			g_assert_cmpuint(j.result.n_records + j.result.overwritten, ==, recorded);
			g_assert_cmpuint(j.result.n_after_cut, ==, 0);
			g_assert_cmpuint(counted, ==, lost);
			printf("recorded %" G_GUINT64_FORMAT " lost %" G_GUINT64_FORMAT
			       " (held %" G_GUINT64_FORMAT ", full %" G_GUINT64_FORMAT
			       ", busy %" G_GUINT64_FORMAT ")\n",
			       recorded, lost, j.result.lost[ABI_LOST_HELD],
			       j.result.lost[ABI_LOST_FULL], j.result.lost[ABI_LOST_BUSY]);
		}
		maker_job_clear(&j);
	}
	printf("%u snapshots, %" G_GUINT64_FORMAT " records checked, %" G_GUINT64_FORMAT
	       " after a cut, least reach %.3f, longest hold %.3f ms, %u late\n",
	       n_snapshots + 1, kept, after, least, (double)longest / 1e6, late);
	if (late > n_snapshots / 2) {
		fprintf(stderr, "most copies took longer than a hold lasts\n");
		return 1;
	}
	slot_detach(&slot);
	region_close(&region);
	return 0;
}
