/* SPDX-License-Identifier: MIT */
/* Many programs at one time:
 *
 *   crowd N CALLS PAUSE_US [wait]
 *
 * starts itself N times over. Each of them makes CALLS calls, a pause before each but the first, and notes when each returned.
 * With `wait` it says "ready" when all are there, waits for a line, and lets all go at once. Then it prints "spent NS", from there
 * (or from the start of the first) until all have ended, and for each of them "member INDEX NS...": when its calls returned,
 * counted from there. The value of a record is INDEX << 16 | CALL: the trace says from which call on a program was heard. */
#include <inttypes.h>
#include <linux/futex.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "side.h"

enum { MAX_CALLS = 256, SECONDS_MAX = 300 };

extern char **environ;

typedef struct {
	atomic_uint go, ready;
	uint64_t returned[]; /* by member, then call */
} Square;

static Square *square;
static uint64_t n_members, n_calls;

static void futex(atomic_uint *word, int operation, unsigned value)
{
	syscall(SYS_futex, word, operation, value, NULL, NULL, 0);
}

/* go and ready: sequentially consistent, as they stand; this is no place to save on that */
static int member(uint64_t index, uint64_t pause_us)
{
	struct timespec pause = { (time_t)(pause_us / 1000000), (long)(pause_us % 1000000 * 1000) };

	atomic_fetch_add(&square->ready, 1);
	futex(&square->ready, FUTEX_WAKE, 1);
	while (!atomic_load(&square->go))
		futex(&square->go, FUTEX_WAIT, 0);
	for (uint64_t i = 0; i < n_calls; i++) {
		if (i)
			clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
		RECORD(index << 16 | i);
		square->returned[index * n_calls + i] = clock_ns(CLOCK_MONOTONIC);
	}
	return 0;
}

static int wait_for_line(void)
{
	char line[16];
	unsigned n;

	while ((n = atomic_load(&square->ready)) != n_members)
		futex(&square->ready, FUTEX_WAIT, n);
	puts("ready");
	fflush(stdout);
	return fgets(line, sizeof(line), stdin) ? 0 : -1;
}

int main(int argc, char **argv)
{
	const char *place = getenv("CROWD_MEMBER"), *colon = place ? strchr(place, ':') : NULL;
	uint64_t begin;
	size_t size;
	int fd, status, failed = 0;

	n_members = argc > 3 ? strtoull(argv[1], NULL, 10) : 0;
	n_calls = argc > 3 ? strtoull(argv[2], NULL, 10) : 0;
	if (!n_members || n_calls - 1 >= MAX_CALLS) {
		fprintf(stderr, "crowd N CALLS PAUSE_US [wait]\n");
		return 2;
	}
	alarm(SECONDS_MAX);
	size = sizeof(*square) + n_members * n_calls * sizeof(uint64_t);
	fd = colon ? atoi(colon + 1) : memfd_create("square", 0);
	if (fd < 0 || (!colon && ftruncate(fd, (off_t)size) < 0) ||
	    (square = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)) == MAP_FAILED) {
		perror("crowd: shared memory");
		return 1;
	}
	if (colon)
		return member(strtoull(place, NULL, 10), strtoull(argv[3], NULL, 10));
	if (argc == 4)
		atomic_store(&square->go, 1);
	begin = clock_ns(CLOCK_MONOTONIC);
	for (uint64_t i = 0; i < n_members; i++) {
		char who[48];
		pid_t pid;
		int e;

		snprintf(who, sizeof(who), "%" PRIu64 ":%d", i, fd);
		setenv("CROWD_MEMBER", who, 1);
		e = posix_spawn(&pid, "/proc/self/exe", NULL, NULL, argv, environ);
		if (e) {
			fprintf(stderr, "crowd: member %" PRIu64 ": %s\n", i, strerror(e));
			return 1;
		}
	}
	if (argc > 4) {
		if (wait_for_line() < 0)
			failed = 1; /* they go all the same, and end */
		begin = clock_ns(CLOCK_MONOTONIC);
		atomic_store(&square->go, 1);
		futex(&square->go, FUTEX_WAKE, 0x7fffffff);
	}
	for (uint64_t i = 0; i < n_members; i++)
		if (wait(&status) < 0 || status)
			failed = 1;
	printf("spent %" PRIu64 "\n", clock_ns(CLOCK_MONOTONIC) - begin);
	for (uint64_t i = 0; i < n_members; i++) {
		printf("member %" PRIu64, i);
		for (uint64_t c = 0; c < n_calls; c++)
			printf(" %" PRId64, (int64_t)(square->returned[i * n_calls + c] - begin));
		puts("");
	}
	return failed;
}
