/* SPDX-License-Identifier: MIT */
/* How long programs take from posix_spawn to their end, taking turns:
 *
 *   spawn ROUNDS RUNS PROGRAM...
 *
 * prints "ROUND PROGRAM MICROSECONDS": wall time per run, RUNS runs of each in every round. */
#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

extern char **environ;

static double now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

int main(int argc, char **argv)
{
	unsigned rounds = argc > 3 ? (unsigned)strtoul(argv[1], NULL, 10) : 0;
	unsigned runs = argc > 3 ? (unsigned)strtoul(argv[2], NULL, 10) : 0;

	if (!rounds || !runs) {
		fprintf(stderr, "spawn ROUNDS RUNS PROGRAM...\n");
		return 2;
	}
	/* round 0 warms the page cache; it is not printed */
	for (unsigned r = 0; r <= rounds; r++)
		for (int a = 3; a < argc; a++) {
			char *args[] = { argv[a], NULL };
			double t = now_us();

			for (unsigned i = 0; i < runs; i++) {
				int status, e;
				pid_t pid;

				e = posix_spawn(&pid, argv[a], NULL, NULL, args, environ);
				if (e) {
					fprintf(stderr, "spawn: %s: %s\n", argv[a], strerror(e));
					return 1;
				}
				while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
					;
				if (status) {
					fprintf(stderr, "spawn: %s: status %x\n", argv[a], status);
					return 1;
				}
			}
			if (r)
				printf("%u %s %.2f\n", r, argv[a], (now_us() - t) / runs);
		}
	return 0;
}
