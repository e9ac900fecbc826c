/* SPDX-License-Identifier: MIT */
/* Both tracers in one process, taking turns in slices, so that whatever else the machine does hits both:
 *
 *   sides SLICES CALLS LOOP[:SIZE][@THREADS[xPROCESSES]]...
 *
 * prints "slice N LOOP... CPU WALL" per slice: thread CPU time per call, and time per call of all threads together, both in
 * nanoseconds; and in the end "calls LOOP... N", how many calls were made of it, with those of two slices before the first (they
 * attach, and the first lap through a ring takes the page faults). The loops run in the given order in every slice; a ratio is
 * taken inside one slice only. A SIZE makes CALLS fewer. Thread t of process p has CPU t + p. Before all that it calls
 * loop_hello(), says "ready" and waits for a line, again and again until the line is "go" or there is none: whether a program is
 * attached cannot be seen from inside. */
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "loop.h"

enum { WARM_SLICES = 2, MAX_STEPS = 64, MAX_THREADS = 8, MAX_PROCESSES = 2, SECONDS_MAX = 900 };

extern char **environ;

const char *volatile loop_short = "fifteen letters", *volatile loop_text;
const uint8_t *volatile loop_payload;

typedef struct {
	const Loop *loop;
	const char *name; /* as it was given */
	uint32_t size, threads, processes;
	uint64_t calls;
} Step;

typedef struct {
	uint64_t begin, end, cpu;
} Lap;

/* What the processes share. */
typedef struct {
	atomic_bool go;
	pthread_barrier_t begin, end;
	Lap laps[MAX_PROCESSES][MAX_THREADS];
} Course;

static Course *course;
static Step steps[MAX_STEPS];
static uint32_t n_steps, n_slices, n_threads = 1, n_processes = 1, this_process;

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static const Loop *find(const char *name, size_t n)
{
	const Loop *all[] = { store_loops, tracer_loops,
#ifdef BENCH_LTTNG
			      lttng_loops
#endif
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
		for (const Loop *l = all[i]; l->name; l++)
			if (strlen(l->name) == n && !strncmp(l->name, name, n))
				return l;
	return NULL;
}

static int step_parse(Step *s, const char *text, uint64_t calls)
{
	size_t n = strcspn(text, ":@");
	char *rest = (char *)text + n;

	*s = (Step){ .loop = find(text, n), .name = text, .threads = 1, .processes = 1, .calls = calls };
	if (*rest == ':') {
		s->size = (uint32_t)strtoul(rest + 1, &rest, 10);
		s->calls = calls * 64 / (s->size + 64);
		if (s->calls < 100)
			s->calls = 100;
	}
	if (*rest == '@')
		s->threads = (uint32_t)strtoul(rest + 1, &rest, 10);
	if (*rest == 'x')
		s->processes = (uint32_t)strtoul(rest + 1, &rest, 10);
	if (!s->loop || *rest || s->size > LOOP_PAYLOAD_MAX || s->threads - 1 >= MAX_THREADS || s->processes - 1 >= MAX_PROCESSES) {
		fprintf(stderr, "sides: no loop \"%s\"\n", text);
		return -1;
	}
	return 0;
}

static void report(uint32_t slice, const Step *s)
{
	uint64_t begin = UINT64_MAX, end = 0, cpu = 0;
	double calls = (double)s->calls * s->threads * s->processes;

	for (uint32_t p = 0; p < s->processes; p++)
		for (uint32_t t = 0; t < s->threads; t++) {
			const Lap *l = &course->laps[p][t];

			begin = l->begin < begin ? l->begin : begin;
			end = l->end > end ? l->end : end;
			cpu += l->cpu;
		}
	printf("slice %u %s %.3f %.3f\n", slice, s->name, (double)cpu / calls, (double)(end - begin) / calls);
	fflush(stdout);
}

static void *drive(void *number)
{
	uint32_t thread = (uint32_t)(uintptr_t)number;
	Lap *lap = &course->laps[this_process][thread];
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET((thread + this_process) % (uint32_t)sysconf(_SC_NPROCESSORS_ONLN), &set);
	(void)sched_setaffinity(0, sizeof(set), &set); /* refused: then where the kernel likes */
	for (uint32_t slice = 0; slice < WARM_SLICES + n_slices; slice++)
		for (Step *s = steps; s < steps + n_steps; s++) {
			bool mine = thread < s->threads && this_process < s->processes;

			if (mine && s->loop->prepare)
				s->loop->prepare();
			pthread_barrier_wait(&course->begin);
			if (mine) {
				lap->begin = clock_ns(CLOCK_MONOTONIC);
				lap->cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID);
				s->loop->run(s->calls, s->size);
				lap->cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID) - lap->cpu;
				lap->end = clock_ns(CLOCK_MONOTONIC);
			}
			pthread_barrier_wait(&course->end);
			/* the laps are whole until the next step is begun, which this thread has a part in */
			if (!thread && !this_process && slice >= WARM_SLICES)
				report(slice - WARM_SLICES, s);
		}
	return NULL;
}

static int course_open(const char *inherited)
{
	pthread_barrierattr_t shared;
	int fd = inherited ? atoi(inherited) : memfd_create("course", 0);

	if (fd < 0 || (!inherited && ftruncate(fd, sizeof(*course)) < 0))
		return -1;
	course = mmap(NULL, sizeof(*course), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (course == MAP_FAILED)
		return -1;
	if (!inherited) {
		pthread_barrierattr_init(&shared);
		pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
		pthread_barrier_init(&course->begin, &shared, n_threads * n_processes);
		pthread_barrier_init(&course->end, &shared, n_threads * n_processes);
	}
	return fd;
}

/* The same program once more, which finds the course behind the descriptor. */
static pid_t another(int fd, uint32_t number, char **argv)
{
	char place[32], *old = getenv("SIDES_PROCESS");
	pid_t pid;
	int e;

	if (old)
		return -1;
	snprintf(place, sizeof(place), "%u:%d", number, fd);
	setenv("SIDES_PROCESS", place, 1);
	e = posix_spawn(&pid, "/proc/self/exe", NULL, NULL, argv, environ);
	unsetenv("SIDES_PROCESS");
	if (e) {
		fprintf(stderr, "sides: cannot start another: %s\n", strerror(e));
		return -1;
	}
	return pid;
}

/* Until somebody has seen that every process was heard. */
static void greet(void)
{
	struct timespec pause = { 0, 20000000 };
	char line[16] = "";

	if (this_process) {
		/* relaxed: the barrier is what orders all that follows */
		while (!atomic_load_explicit(&course->go, memory_order_relaxed)) {
			loop_hello(this_process);
			nanosleep(&pause, NULL);
		}
		return;
	}
	do {
		loop_hello(0);
		puts("ready");
		fflush(stdout);
	} while (fgets(line, sizeof(line), stdin) && strcmp(line, "go\n"));
	atomic_store_explicit(&course->go, true, memory_order_relaxed);
}

static void fill_payloads(void)
{
	char *text = malloc(200);
	uint8_t *payload = malloc(LOOP_PAYLOAD_MAX);

	if (!text || !payload)
		exit(1);
	memset(text, 't', 199);
	text[199] = 0;
	for (uint32_t i = 0; i < LOOP_PAYLOAD_MAX; i++)
		payload[i] = (uint8_t)(i * 131);
	loop_text = text;
	loop_payload = payload;
}

int main(int argc, char **argv)
{
	const char *place = getenv("SIDES_PROCESS"), *inherited = place ? strchr(place, ':') : NULL;
	uint64_t calls = argc > 3 ? strtoull(argv[2], NULL, 10) : 0;
	pthread_t threads[MAX_THREADS];
	int fd, status = 0;

	n_slices = argc > 3 ? (uint32_t)strtoul(argv[1], NULL, 10) : 0;
	if (!n_slices || !calls || argc - 3 > MAX_STEPS) {
		fprintf(stderr, "sides SLICES CALLS LOOP[:SIZE][@THREADS[xPROCESSES]]...\n");
		return 2;
	}
	for (int i = 3; i < argc; i++) {
		Step *s = &steps[n_steps++];

		if (step_parse(s, argv[i], calls) < 0)
			return 2;
		n_threads = s->threads > n_threads ? s->threads : n_threads;
		n_processes = s->processes > n_processes ? s->processes : n_processes;
	}
	alarm(SECONDS_MAX); /* one that dies leaves the others at the barrier */
	fill_payloads();
	this_process = place ? (uint32_t)atoi(place) : 0;
	fd = course_open(inherited ? inherited + 1 : NULL);
	if (fd < 0) {
		perror("sides: shared memory");
		return 1;
	}
	for (uint32_t p = 1; !place && p < n_processes; p++)
		if (another(fd, p, argv) < 0)
			return 1;
	greet();
	for (uint32_t t = 1; t < n_threads; t++)
		if (pthread_create(&threads[t], NULL, drive, (void *)(uintptr_t)t)) {
			fprintf(stderr, "sides: cannot start a thread\n");
			return 1;
		}
	drive(NULL);
	for (uint32_t t = 1; t < n_threads; t++)
		pthread_join(threads[t], NULL);
	if (place)
		return 0;
	for (uint32_t p = 1, one; p < n_processes; p++)
		if (wait((int *)&one) < 0 || one)
			status = 1;
	for (const Step *s = steps; s < steps + n_steps; s++)
		printf("calls %s %" PRIu64 "\n", s->name, s->calls * (WARM_SLICES + n_slices) * s->threads * s->processes);
	return status;
}
