/* SPDX-License-Identifier: MIT */
/* The program that is recorded. It numbers its events and does what it is told, so that a test can say which
 * number must be the last one in a trace.
 *
 *     recorder                     takes commands from stdin, a line each, and answers each with a line
 *         wait         until a session wants our events: "wanted"
 *         record N     N more events: "recorded TOTAL"
 *         snapshot R   asks the daemon for a snapshot with reason R: "accepted" or "refused"
 *         pid          says its own
 *         crash        writes through a null pointer
 *     recorder crash N MARK        N events, then a fault; MARK gets the number of the last call that returned
 *     recorder storm USEC MARK     events without end, and SIGSEGV from a timer somewhere among them
 *     recorder exit N              N events, then exit status 1
 *     recorder abort N             N events, then abort()
 *     recorder serve N             N events, then it waits for a signal
 *     recorder stubborn N          ... and ignores SIGTERM
 *     recorder eat N               N events, and from SIGUSR1 on it takes memory without end
 *     recorder noise               other events without end, on the first CPU
 *     recorder heavy MIB N plain   on the first CPU, with so much memory: N events, then a fault
 *     recorder heavy MIB N handler ... that the crash handler tells of */
#include "lib/tracer.h" /* installed: <tracer/tracer.h> */

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

TRACER_EVENT(system, step, TRACER_INFO, TRACER_U64(n))
TRACER_EVENT(system, noise, TRACER_INFO, TRACER_U64(n))

static uint64_t total;
static volatile uint64_t *mark; /* shared with the file: what is stored in it survives us */

static void record(uint64_t n)
{
	while (n--) {
		trace_system_step(++total);
		if (mark)
			*mark = total;
	}
}

static _Noreturn void crash(void)
{
	volatile int *volatile nowhere = NULL;

	*nowhere = 1;
	abort();
}

/* A session's mask bit is a store of another process into memory that we map: there is nothing to sleep on. */
static bool wait_wanted(void)
{
	time_t end = time(NULL) + 20;

	while (!trace_enabled_system_step()) {
		if (time(NULL) > end)
			return false;
		sched_yield();
	}
	return true;
}

static void mark_open(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);

	if (fd < 0 || ftruncate(fd, sizeof(*mark)) < 0) {
		perror(path);
		exit(2);
	}
	mark = mmap(NULL, sizeof(*mark), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (mark == MAP_FAILED) {
		perror("mmap");
		exit(2);
	}
	close(fd);
}

/* On one CPU, so in one ring: where two are lapped, what each still has need not meet the other. */
static void stay_here(void)
{
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET((unsigned)sched_getcpu(), &one);
	(void)sched_setaffinity(0, sizeof(one), &one);
}

static void first_cpu(void)
{
	cpu_set_t all, one;

	(void)sched_getaffinity(0, sizeof(all), &all);
	CPU_ZERO(&one);
	for (unsigned cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, &all))
			continue;
		CPU_SET(cpu, &one);
		(void)sched_setaffinity(0, sizeof(one), &one);
		return;
	}
}

/* Every page of it differs from the one before, so that a core dump has them all. */
static void take_memory(size_t size)
{
	char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return;
	for (size_t i = 0; i < size; i += 4096)
		memcpy(p + i, &i, sizeof(i));
}

static _Noreturn void wait_for_signal(bool stubborn, bool eats)
{
	sigset_t mask;
	int signal_number;

	(void)sigemptyset(&mask);
	(void)sigaddset(&mask, SIGUSR1);
	if (stubborn)
		(void)signal(SIGTERM, SIG_IGN);
	(void)sigprocmask(SIG_BLOCK, &mask, NULL);
	while (sigwait(&mask, &signal_number) != 0 || !eats)
		;
	for (;;)
		take_memory(1 << 20);
}

static int command_loop(void)
{
	char line[256];

	while (fgets(line, sizeof(line), stdin)) {
		line[strcspn(line, "\n")] = 0;
		if (strcmp(line, "wait") == 0) {
			puts(wait_wanted() ? "wanted" : "unwanted");
		} else if (strncmp(line, "record ", 7) == 0) {
			record(strtoull(line + 7, NULL, 10));
			printf("recorded %llu\n", (unsigned long long)total);
		} else if (strncmp(line, "snapshot ", 9) == 0) {
			puts(tracer_snapshot(line + 9) < 0 ? "refused" : "accepted");
		} else if (strcmp(line, "pid") == 0) {
			printf("%d\n", (int)getpid());
		} else if (strcmp(line, "crash") == 0) {
			crash();
		} else {
			puts("what?");
		}
		fflush(stdout);
	}
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 4 && strcmp(argv[1], "crash") == 0) {
		mark_open(argv[3]);
		record(strtoull(argv[2], NULL, 10));
		crash();
	} else if (argc == 4 && strcmp(argv[1], "storm") == 0) {
		struct itimerspec when = { .it_value.tv_nsec = atol(argv[2]) * 1000 };
		timer_t timer;
		struct sigevent how = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGSEGV };

		mark_open(argv[3]);
		stay_here();
		if (timer_create(CLOCK_MONOTONIC, &how, &timer) < 0 || timer_settime(timer, 0, &when, NULL) < 0)
			return 2;
		record(UINT64_MAX);
	} else if (argc == 3 && strcmp(argv[1], "exit") == 0) {
		record(strtoull(argv[2], NULL, 10));
		return 1;
	} else if (argc == 3 && strcmp(argv[1], "abort") == 0) {
		record(strtoull(argv[2], NULL, 10));
		abort();
	} else if (argc == 3 && (strcmp(argv[1], "serve") == 0 || strcmp(argv[1], "stubborn") == 0 ||
				 strcmp(argv[1], "eat") == 0)) {
		record(strtoull(argv[2], NULL, 10));
		wait_for_signal(argv[1][1] == 't', argv[1][0] == 'e');
	} else if (argc == 2 && strcmp(argv[1], "noise") == 0) {
		first_cpu();
		for (uint64_t n = 0;; n++)
			trace_system_noise(n);
	} else if (argc == 5 && strcmp(argv[1], "heavy") == 0) {
		first_cpu();
		take_memory(strtoull(argv[2], NULL, 10) << 20);
		if (strcmp(argv[4], "handler") == 0 && tracer_crash_handler(0) < 0)
			return 2;
		record(strtoull(argv[3], NULL, 10));
		crash();
	} else if (argc == 1) {
		return command_loop();
	}
	fprintf(stderr, "recorder: see its source\n");
	return 2;
}
