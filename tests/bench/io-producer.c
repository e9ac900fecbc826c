/* SPDX-License-Identifier: MIT */
/* One thread that records at a fixed rate, or as fast as it can:
 *
 *   io-producer RATE SECONDS CPU        RATE: records a second; 0: no limit
 *
 * prints "records N seconds S cpu_ns C longest_ns L": N calls were made in S seconds, which took the thread C nanoseconds of
 * CPU, and no batch of calls (a thousandth of a second's, or 1000 of them) took longer than L. Where S is more than SECONDS the
 * machine did not keep up with the rate. Built twice, see side.h. */
#include <inttypes.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "side.h"

#define TICK_NS 1000000ull

static uint64_t longest;

__attribute__((noinline)) static void batch(uint64_t from, uint64_t to)
{
	uint64_t begin = clock_ns(CLOCK_MONOTONIC), took;

	for (uint64_t i = from; i < to; i++)
		RECORD(i);
	took = clock_ns(CLOCK_MONOTONIC) - begin;
	if (took > longest)
		longest = took;
}

/* Sleeps to the next tick, then records all that is due by then. Behind its time it does not sleep, and loses nothing of
 * the number: it ends later. */
static uint64_t run_at(uint64_t rate, uint64_t ticks)
{
	uint64_t begin = clock_ns(CLOCK_MONOTONIC), done = 0;

	for (uint64_t tick = 1; tick <= ticks; tick++) {
		uint64_t at = begin + tick * TICK_NS, due = rate * tick / (1000000000 / TICK_NS);
		struct timespec t = { (time_t)(at / 1000000000), (long)(at % 1000000000) };

		batch(done, due);
		done = due;
		while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL))
			;
	}
	return done;
}

static uint64_t run_free(uint64_t ticks)
{
	uint64_t end = clock_ns(CLOCK_MONOTONIC) + ticks * TICK_NS, done = 0;

	for (; clock_ns(CLOCK_MONOTONIC) < end; done += 1000)
		batch(done, done + 1000);
	return done;
}

int main(int argc, char **argv)
{
	uint64_t rate, ticks, done, begin, cpu;
	cpu_set_t set;

	if (argc != 4 || !(ticks = (uint64_t)(strtod(argv[2], NULL) * 1e9) / TICK_NS)) {
		fprintf(stderr, "io-producer RATE SECONDS CPU\n");
		return 2;
	}
	rate = strtoull(argv[1], NULL, 10);
	CPU_ZERO(&set);
	CPU_SET(strtoul(argv[3], NULL, 10), &set);
	if (sched_setaffinity(0, sizeof(set), &set) < 0) {
		perror("io-producer: sched_setaffinity");
		return 1;
	}
	RECORD(0); /* attaches */
	longest = 0;
	begin = clock_ns(CLOCK_MONOTONIC);
	cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	done = rate ? run_at(rate, ticks) : run_free(ticks);
	cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu;
	begin = clock_ns(CLOCK_MONOTONIC) - begin;
	printf("records %" PRIu64 " seconds %.4f cpu_ns %" PRIu64 " longest_ns %" PRIu64 "\n", done + 1,
	       (double)begin / 1e9, cpu, longest);
	return 0;
}
