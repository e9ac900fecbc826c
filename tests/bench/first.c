/* SPDX-License-Identifier: MIT */
/* The first record of a program, and of each of its threads:
 *
 *   first THREADS [wait]
 *
 * prints "process FIRST SECOND" and for each thread "thread FIRST SECOND": nanoseconds of the two calls by the wall, the reading of
 * the clock included. Two calls in all for each. With `wait` it says "ready" and waits for a line before the first. */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "side.h"

static void two(const char *whose)
{
	uint64_t a, b, c;

	(void)clock_ns(CLOCK_MONOTONIC);
	a = clock_ns(CLOCK_MONOTONIC);
	RECORD((uint64_t)0);
	b = clock_ns(CLOCK_MONOTONIC);
	RECORD((uint64_t)1);
	c = clock_ns(CLOCK_MONOTONIC);
	printf("%s %" PRIu64 " %" PRIu64 "\n", whose, b - a, c - b);
}

static void *begin(void *whose)
{
	two(whose);
	return NULL;
}

int main(int argc, char **argv)
{
	char line[16];

	if (argc > 2) {
		puts("ready");
		fflush(stdout);
		if (!fgets(line, sizeof(line), stdin))
			return 1;
	}
	two("process");
	for (long n = argc > 1 ? strtol(argv[1], NULL, 10) : 0; n > 0; n--) {
		pthread_t thread;

		if (pthread_create(&thread, NULL, begin, (char *)"thread"))
			return 1;
		pthread_join(thread, NULL);
	}
	return 0;
}
