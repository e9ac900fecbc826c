/* SPDX-License-Identifier: MIT */
/* One thread that records as fast as it can and looks at the clock behind every call, for what holds it up:
 *
 *   writer CPU
 *
 * It greets (side.h). For each line on its input it then prints "window CALLS LONGEST KEPT" of the time since the last: how many
 * calls, the longest time from one look at the clock to the next, and the longest of those in which the kernel did not give the
 * CPU to somebody else, both in nanoseconds. At the end of its input it says "calls N", of all of its life, and ends. */
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "side.h"

#define LONG_NS 2000 /* from here on it is worth asking who had the CPU */

static atomic_uint asked;  /* lines read */
static atomic_bool over;

static void *listen(void *userdata)
{
	int c;

	/* relaxed, both: nothing else is told by them */
	while ((c = getchar()) != EOF)
		if (c == '\n')
			atomic_fetch_add_explicit(&asked, 1, memory_order_relaxed);
	atomic_store_explicit(&over, true, memory_order_relaxed);
	return NULL;
}

static long switches(void)
{
	struct rusage u;

	(void)getrusage(RUSAGE_THREAD, &u);
	return u.ru_nvcsw + u.ru_nivcsw;
}

int main(int argc, char **argv)
{
	uint64_t calls = 0, before = 0, last, longest = 0, kept = 0;
	unsigned answered = 0;
	pthread_t thread;
	cpu_set_t set;
	long away;

	if (argc != 2)
		return 2;
	greet();
	if (pthread_create(&thread, NULL, listen, NULL))
		return 1;
	CPU_ZERO(&set);
	CPU_SET(strtoul(argv[1], NULL, 10), &set);
	if (sched_setaffinity(0, sizeof(set), &set) < 0) {
		perror("writer: sched_setaffinity");
		return 1;
	}
	away = switches();
	last = clock_ns(CLOCK_MONOTONIC);
	while (!atomic_load_explicit(&over, memory_order_relaxed)) {
		uint64_t now, gap;

		RECORD(calls++);
		now = clock_ns(CLOCK_MONOTONIC);
		gap = now - last;
		last = now;
		if (gap > LONG_NS) {
			long n = switches();

			longest = gap > longest ? gap : longest;
			if (n == away)
				kept = gap > kept ? gap : kept;
			away = n;
			last = clock_ns(CLOCK_MONOTONIC);
		} else if (gap > longest) {
			longest = gap;
		}
		if (atomic_load_explicit(&asked, memory_order_relaxed) != answered) {
			printf("window %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", calls - before, longest, kept);
			fflush(stdout);
			answered++;
			before = calls;
			longest = kept = 0;
			away = switches();
			last = clock_ns(CLOCK_MONOTONIC);
		}
	}
	printf("calls %" PRIu64 "\n", calls);
	return 0;
}
