/* SPDX-License-Identifier: MIT */
/* Both tracers in one process, taking turns in slices, so that whatever else the machine does hits both:
 *
 *   sides SLICES RECORDS CASE...
 *
 * prints "SLICE CASE NANOSECONDS" per slice: thread CPU time per call. The cases run in the given order in
 * every slice; a ratio is taken inside one slice only. run.py starts the daemons and makes the tables.
 *
 * `fill` cases write RECORDS records once and print nothing: they fill rings for the snapshot figures. */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "lttng-provider.h"

#include "lib/tracer.h"

TRACER_EVENT(bench, one, TRACER_INFO, TRACER_U64(value))
TRACER_EVENT(bench, mixed, TRACER_INFO, TRACER_U64(a), TRACER_U32(b), TRACER_STR(text))
TRACER_EVENT(unwanted, off, TRACER_INFO, TRACER_U64(value))

static const char *volatile text = "fifteen letters";
static volatile uint64_t sink;

static uint64_t counter(void)
{
#if defined(__x86_64__)
	return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
	uint64_t v;

	__asm__ volatile("isb; mrs %0, cntvct_el0" : "=r"(v));
	return v;
#else
#error "no counter known for this machine"
#endif
}

/* Each loop stands alone and is not inlined: a call of the event and the loop's own add, no more. */
#define LOOP(name, statement)                                                                      \
	__attribute__((noinline)) static void name(uint64_t n)                                     \
	{                                                                                          \
		for (uint64_t i = 0; i < n; i++) {                                                 \
			statement;                                                                 \
			__asm__ volatile("" ::: "memory");                                         \
		}                                                                                  \
	}

LOOP(loop_empty, (void)i)
LOOP(loop_counter, sink = counter())
LOOP(loop_monotonic, {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	sink = (uint64_t)t.tv_nsec;
})
LOOP(loop_lttng_off, lttng_ust_tracepoint(bench, off, i))
LOOP(loop_lttng_one, lttng_ust_tracepoint(bench, one, i))
LOOP(loop_lttng_mixed, lttng_ust_tracepoint(bench, mixed, i, (uint32_t)i, text))
LOOP(loop_tracer_off, trace_unwanted_off(i))
LOOP(loop_tracer_one, trace_bench_one(i))
LOOP(loop_tracer_mixed, trace_bench_mixed(i, (uint32_t)i, text))

static const struct {
	const char *name;
	void (*run)(uint64_t n);
} cases[] = {
	{ "empty", loop_empty },
	{ "counter", loop_counter },
	{ "monotonic", loop_monotonic },
	{ "lttng-off", loop_lttng_off },
	{ "lttng-one", loop_lttng_one },
	{ "lttng-mixed", loop_lttng_mixed },
	{ "tracer-off", loop_tracer_off },
	{ "tracer-one", loop_tracer_one },
	{ "tracer-mixed", loop_tracer_mixed },
};

static double thread_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

int main(int argc, char **argv)
{
	unsigned slices = argc > 3 ? (unsigned)strtoul(argv[1], NULL, 10) : 0;
	uint64_t n = argc > 3 ? strtoull(argv[2], NULL, 10) : 0;

	if (!slices || !n) {
		fprintf(stderr, "sides SLICES RECORDS CASE...\n");
		return 2;
	}
	/* slice 0 attaches, and its first lap through a ring takes the page faults; it is not printed */
	for (unsigned s = 0; s <= slices; s++)
		for (int a = 3; a < argc; a++) {
			size_t c = 0;

			while (c < sizeof cases / sizeof *cases && strcmp(cases[c].name, argv[a]))
				c++;
			if (c == sizeof cases / sizeof *cases) {
				fprintf(stderr, "sides: no case \"%s\"\n", argv[a]);
				return 2;
			}
			double t = thread_ns();
			cases[c].run(n);
			t = thread_ns() - t;
			if (s) {
				printf("%u %s %.3f\n", s, argv[a], t / (double)n);
				fflush(stdout);
			}
		}
	return 0;
}
