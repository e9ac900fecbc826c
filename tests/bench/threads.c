/* SPDX-License-Identifier: MIT */
/* Many threads at one time:
 *
 *   threads N CALLS
 *
 * It greets (side.h). N threads are made and wait; then all go at once, and each makes CALLS calls. Prints "calls TOTAL spent NS
 * cpu NS resident BYTES": from there until the last one is done, the CPU time of that, and what the program then holds; and
 * "first NS..." how long the first call of each thread took by the wall. */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "side.h"

enum { STACK = 128 << 10 };

static pthread_barrier_t begin, end, over;
static uint64_t calls, *first;

static void *work(void *number)
{
	uint64_t t;

	pthread_barrier_wait(&begin);
	t = clock_ns(CLOCK_MONOTONIC);
	RECORD((uint64_t)0);
	*(uint64_t *)number = clock_ns(CLOCK_MONOTONIC) - t;
	for (uint64_t i = 1; i < calls; i++)
		RECORD(i);
	pthread_barrier_wait(&end);
	pthread_barrier_wait(&over);
	return NULL;
}

static uint64_t resident(void)
{
	FILE *file = fopen("/proc/self/statm", "re");
	uint64_t size, pages = 0;

	if (!file || fscanf(file, "%" SCNu64 " %" SCNu64, &size, &pages) != 2)
		pages = 0;
	if (file)
		fclose(file);
	return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

int main(int argc, char **argv)
{
	unsigned n = argc > 2 ? (unsigned)strtoul(argv[1], NULL, 10) : 0;
	pthread_t *threads = calloc(n + 1, sizeof(*threads));
	uint64_t spent, cpu, bytes;
	pthread_attr_t attr;

	calls = argc > 2 ? strtoull(argv[2], NULL, 10) : 0;
	first = calloc(n + 1, sizeof(*first));
	if (!n || !calls || !threads || !first) {
		fprintf(stderr, "threads N CALLS\n");
		return 2;
	}
	greet();
	pthread_barrier_init(&begin, NULL, n + 1);
	pthread_barrier_init(&end, NULL, n + 1);
	pthread_barrier_init(&over, NULL, n + 1);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK);
	for (unsigned i = 0; i < n; i++)
		if (pthread_create(&threads[i], &attr, work, &first[i])) {
			fprintf(stderr, "threads: cannot make number %u\n", i);
			return 1;
		}
	spent = clock_ns(CLOCK_MONOTONIC);
	cpu = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
	pthread_barrier_wait(&begin);
	pthread_barrier_wait(&end);
	spent = clock_ns(CLOCK_MONOTONIC) - spent;
	cpu = clock_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu;
	bytes = resident();
	pthread_barrier_wait(&over);
	for (unsigned i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
	printf("calls %" PRIu64 " spent %" PRIu64 " cpu %" PRIu64 " resident %" PRIu64 "\nfirst", n * calls, spent, cpu, bytes);
	for (unsigned i = 0; i < n; i++)
		printf(" %" PRIu64, first[i]);
	puts("");
	return 0;
}
