/* SPDX-License-Identifier: MIT */
/* An instrumented program that does what it is told on stdin, a line at a time, and answers a line each. */
#include "lib/tracer.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

TRACER_EVENT(shop, order, TRACER_INFO, TRACER_U64(number), TRACER_STR(customer))
TRACER_EVENT(shop, extra, TRACER_INFO, TRACER_U64(number))
TRACER_EVENT(other, thing, TRACER_INFO, TRACER_U64(number))

static atomic_bool stop;
static atomic_ulong recorded;
/* volatile: on_alarm() counts in between, and glibc says of sigprocmask() that it comes back to nobody here */
static volatile unsigned long number;

static void *recorder(void *unused)
{
	unsigned long n = 0;

	while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
		trace_shop_order(n, "thread");
		trace_other_thing(n++);
	}
	atomic_fetch_add(&recorded, n);
	return NULL;
}

/* Records on every CPU in turn, so that every ring that anybody wrote comes round. */
static void lap(unsigned long n)
{
	cpu_set_t all, one;

	(void)sched_getaffinity(0, sizeof(all), &all);
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, &all))
			continue;
		CPU_ZERO(&one);
		CPU_SET(cpu, &one);
		(void)sched_setaffinity(0, sizeof(one), &one);
		for (unsigned long i = 0; i < n; i++)
			trace_shop_order(number++, "lap");
	}
	(void)sched_setaffinity(0, sizeof(all), &all);
}

static void on_alarm(int unused)
{
	trace_shop_extra(number);
	number++;
}

/* Extras, with a handler that records as many again as the timer lets it. */
static void storm(unsigned long n)
{
	const struct itimerval fast = { { 0, 100 }, { 0, 100 } }, none = { { 0, 0 }, { 0, 0 } };
	sigset_t alarm, saved;

	(void)signal(SIGALRM, on_alarm);
	(void)sigemptyset(&alarm);
	(void)sigaddset(&alarm, SIGALRM);
	(void)setitimer(ITIMER_REAL, &fast, NULL);
	for (unsigned long i = 0; i < n; i++) {
		trace_shop_extra(i);
		(void)sigprocmask(SIG_BLOCK, &alarm, &saved);
		number++;
		(void)sigprocmask(SIG_SETMASK, &saved, NULL);
	}
	(void)setitimer(ITIMER_REAL, &none, NULL);
	(void)signal(SIGALRM, SIG_IGN);
}

/* n events in a second, a millisecond's at a time. */
static void pace(unsigned long n)
{
	struct timespec at;

	(void)clock_gettime(CLOCK_MONOTONIC, &at);
	for (int ms = 0; ms < 1000; ms++) {
		for (unsigned long i = n * (unsigned)ms / 1000; i < n * (unsigned)(ms + 1) / 1000; i++)
			trace_shop_order(number++, "pace");
		at.tv_nsec += 1000000;
		if (at.tv_nsec >= 1000000000) {
			at.tv_nsec -= 1000000000;
			at.tv_sec++;
		}
		(void)clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
	}
}

int main(int argc, char **argv)
{
	char line[512], *argument;
	pthread_t threads[64];
	int n_threads = 0;

	(void)setvbuf(stdout, NULL, _IOLBF, 0);
	(void)printf("ready %d\n", (int)getpid());
	while (fgets(line, sizeof(line), stdin)) {
		line[strcspn(line, "\n")] = 0;
		argument = strchr(line, ' ');
		argument = argument ? argument + 1 : line + strlen(line);
		if (strncmp(line, "record", 6) == 0) {
			for (long i = atol(argument); i > 0; i--)
				trace_shop_order(number++, "customer");
			(void)printf("recorded %lu\n", number);
		} else if (strncmp(line, "extra", 5) == 0) {
			for (long i = atol(argument); i > 0; i--)
				trace_shop_extra(number++);
			(void)printf("recorded %lu\n", number);
		} else if (strncmp(line, "fork", 4) == 0) {
			pid_t pid = fork();

			if (pid == 0) {
				for (long i = atol(argument); i > 0; i--)
					trace_shop_extra(number++);
				_exit(0);
			}
			(void)waitpid(pid, NULL, 0);
			(void)printf("forked %d\n", (int)pid);
		} else if (strncmp(line, "storm", 5) == 0) {
			unsigned long before = number;

			storm(strtoul(argument, NULL, 10));
			(void)printf("recorded %lu\n", number - before);
		} else if (strncmp(line, "pace", 4) == 0) {
			pace(strtoul(argument, NULL, 10));
			(void)printf("recorded %lu\n", number);
		} else if (strncmp(line, "lap", 3) == 0) {
			lap(strtoul(argument, NULL, 10));
			(void)printf("recorded %lu\n", number);
		} else if (strncmp(line, "enabled", 7) == 0) {
			(void)printf("enabled %d %d %d\n", trace_enabled_shop_order(),
				     trace_enabled_shop_extra(), trace_enabled_other_thing());
		} else if (strncmp(line, "snapshot", 8) == 0) {
			(void)printf("snapshot %d\n", tracer_snapshot(argument));
		} else if (strncmp(line, "threads", 7) == 0) {
			for (n_threads = 0; n_threads < atoi(argument); n_threads++)
				(void)pthread_create(&threads[n_threads], NULL, recorder, NULL);
			(void)printf("running %d\n", n_threads);
		} else if (strncmp(line, "join", 4) == 0) {
			atomic_store(&stop, 1);
			while (n_threads)
				(void)pthread_join(threads[--n_threads], NULL);
			atomic_store(&stop, 0);
			(void)printf("joined %lu\n", atomic_load(&recorded));
		} else if (strncmp(line, "signal", 6) == 0) {
			(void)signal(atoi(argument), SIG_DFL);
			(void)raise(atoi(argument));
		} else if (strncmp(line, "exec", 4) == 0) {
			(void)execv("/proc/self/exe", argv);
		} else if (strncmp(line, "exit", 4) == 0) {
			_exit(atoi(argument));
		}
	}
	return 0;
}
