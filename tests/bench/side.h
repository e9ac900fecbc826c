/* SPDX-License-Identifier: MIT */
/* The event of the programs that are built once for each side: with tracer, with LTTng-UST (-DBENCH_LTTNG), and with neither
 * (-DBENCH_NONE), which is what they cost by themselves. */
#pragma once

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#if defined(BENCH_LTTNG)
#include "lttng-provider.h"
#define RECORD(i) lttng_ust_tracepoint(bench, one, i)
#define HELLO()
#elif defined(BENCH_NONE)
#define RECORD(i) __asm__ volatile("" ::"r"(i))
#define HELLO()
#else
#include "lib/tracer.h"
TRACER_EVENT(bench, one, TRACER_INFO, TRACER_U64(value))
TRACER_EVENT(bench, hello, TRACER_INFO, TRACER_U64(value))
#define RECORD(i) trace_bench_one(i)
#define HELLO()	  trace_bench_hello(0)
#endif

static inline uint64_t clock_ns(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* See sides.c: until somebody has seen that the program was heard. (LTTng's attach before main().) */
static inline void greet(void)
{
	char line[16];

	do {
		HELLO();
		puts("ready");
		fflush(stdout);
	} while (fgets(line, sizeof(line), stdin) && strcmp(line, "go\n"));
}
