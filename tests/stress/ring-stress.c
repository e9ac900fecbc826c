/* SPDX-License-Identifier: MIT */
/* ring-stress [control] MODE counter|monotonic SECONDS [SEED]
 *
 * Exit status 0: all held; 1: something was broken; 2: it could not run; 77: skipped. Under
 * `control`, which runs builds that are broken on purpose, 0 says that it was noticed within
 * SECONDS: the mode failed or died. TRACER_STRESS_SECONDS replaces SECONDS. */
#include "tests/stress/ring.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <time.h>

struct shared *shared;
u64 seed, n_bad;
bool fail_fast;
struct record_clock record_clock;

void bad(const char *format, ...)
{
	va_list args;

	if (n_bad++ < 12) {
		va_start(args, format);
		printf("  BAD ");
		(void)vprintf(format, args);
		printf("\n");
		va_end(args);
	}
	if (fail_fast) {
		(void)fflush(stdout);
		_exit(1);
	}
}

u64 random_next(u64 *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

u64 wall(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (u64)t.tv_sec * NSEC_PER_SEC + (u64)t.tv_nsec;
}

/* not to wait for anything, but to be somewhere else */
void nap(u32 microseconds)
{
	struct timespec t = {0, (long)microseconds * 1000};

	(void)nanosleep(&t, NULL);
}

struct region make_region(u32 ring_shift, u32 sub_shift, u32 n_ring, u32 n_side, u32 policy,
			  u32 generation)
{
	static const u32 rings[] = {0, 1};
	const struct geometry g = {
	    .ring_shift = ring_shift,
	    .sub_shift = sub_shift,
	    .side_shift = ring_shift,
	    .side_sub_shift = sub_shift,
	    .n_ring = n_ring,
	    .n_side = n_side,
	    .policy = policy,
	    .contexts = ABI_CONTEXT_VPID | ABI_CONTEXT_VTID,
	};
	struct region r;
	int error = region_create(&r, "stress", &g, 0, generation, rings, n_ring);

	if (error < 0) {
		printf("region: %s\n", strerror(-error));
		_exit(2);
	}
	return r;
}

static void calibrate(const char *kind)
{
	const struct record_clock ticks = {ABI_CLOCK_COUNTER, 1ull << 32};
	u64 a, b;

	record_clock = (struct record_clock){ABI_CLOCK_MONOTONIC, 0};
	if (!strcmp(kind, "monotonic"))
		return;
	a = wall();
	b = record_clock_now(&ticks);
	nap(50000);
	a = wall() - a;
	b = record_clock_now(&ticks) - b;
	record_clock.kind = ABI_CLOCK_COUNTER;
	record_clock.mult = (u64)(((unsigned __int128)a << 32) / b);
}

static const struct {
	const char *name;
	void (*run)(u32 seconds);
} modes[] = {
    {"overwrite", mode_overwrite}, {"overwrite-nohold", mode_overwrite_nohold},
    {"discard", mode_discard},     {"block", mode_block},
    {"attach", mode_attach},
    {"punch", mode_punch},         {"kill", mode_kill},
    {"step", mode_step},           {"instructions", mode_instructions},
};

static int run(const char *mode, const char *clock, u32 seconds)
{
	shared =
	    mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		return 2;
	calibrate(clock);
	writers_init();
	if (slot_register() < 0) {
		perror("membarrier");
		return 77; /* a kernel or a sandbox without it */
	}
	for (u32 i = 0; i < ELEMENTSOF(modes); i++)
		if (!strcmp(mode, modes[i].name)) {
			modes[i].run(seconds);
			printf("%s: %s (%lu bad)\n", mode, n_bad ? "BROKEN" : "holds", n_bad);
			return n_bad != 0;
		}
	fprintf(stderr, "no mode %s\n", mode);
	return 2;
}

/* in a process of its own, since a broken build may die of it, and again until it is noticed */
static int control(const char *mode, const char *clock, u32 seconds)
{
	u64 end = wall() + seconds * NSEC_PER_SEC;

	for (u32 round = 1; wall() < end; round++, seed++) {
		pid_t pid;
		int status;

		(void)fflush(stdout);
		pid = fork();
		if (!pid) {
			(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
			fail_fast = true;
			_exit(run(mode, clock, MIN(seconds, 5)));
		}
		(void)waitpid(pid, &status, 0);
		if (WIFSIGNALED(status) || WEXITSTATUS(status) == 1) {
			printf("noticed in round %u: %s %d\n", round,
			       WIFSIGNALED(status) ? "signal" : "exit status",
			       WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
			return 0;
		}
		if (WEXITSTATUS(status))
			return WEXITSTATUS(status);
	}
	printf("NOT noticed\n");
	return 1;
}

int main(int argc, char **argv)
{
	bool is_control = argc > 1 && !strcmp(argv[1], "control");
	const char *override = getenv("TRACER_STRESS_SECONDS");
	u32 seconds;

	argv += is_control;
	argc -= is_control;
	if (argc < 4) {
		fprintf(stderr, "ring-stress [control] MODE counter|monotonic SECONDS [SEED]\n");
		return 2;
	}
	seconds = (u32)atoi(override && *override && !is_control ? override : argv[3]);
	if (argc > 4)
		seed = strtoull(argv[4], NULL, 0);
	else if (getrandom(&seed, 4, 0) != 4)
		return 2;
	seed += !seed;
	(void)setvbuf(stdout, NULL, _IOLBF, 0);
	printf("%s, clock %s, %u s, seed %lu\n", argv[1], argv[2], seconds, seed);
	return is_control ? control(argv[1], argv[2], seconds) : run(argv[1], argv[2], seconds);
}
