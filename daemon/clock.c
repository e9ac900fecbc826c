/* SPDX-License-Identifier: MIT */
/* The one clock of all traces of this machine. */
#include "daemon/clock.h"

#include <fcntl.h>
#include <time.h>

#include "lib/abi.h"

/* The interval the counter is held against the kernel's clock. A sample is off by half its bracket, some
 * 20 ns; over a tenth of a second that is less than a millionth, and it is paid once per boot. */
#define CALIBRATE_NS	(100 * NSEC_PER_MSEC)
#define CALIBRATE_TRIES 64

static bool word_in(const char *text, const char *word)
{
	size_t n = strlen(word);

	for (const char *p = text; (p = strstr(p, word)); p += n) {
		bool begin = p == text || p[-1] == ' ' || p[-1] == '\t' || p[-1] == '\n';

		if (begin && (p[n] == 0 || p[n] == ' ' || p[n] == '\n'))
			return true;
	}
	return false;
}

bool clock_cpuinfo_invariant(const char *cpuinfo)
{
	return word_in(cpuinfo, "constant_tsc") && word_in(cpuinfo, "nonstop_tsc");
}

bool clock_sources_list_counter(const char *available)
{
	return word_in(available, "tsc") || word_in(available, "arch_sys_counter");
}

#if defined(__x86_64__)
static bool text_read(const char *path, char *ret, size_t size)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, ret, size - 1);

	if (n < 0)
		return false;
	ret[n] = 0;
	return true;
}

static bool counter_invariant(void)
{
	char text[8192]; /* the first CPU's paragraph; all have the same flags where it matters */

	return text_read("/proc/cpuinfo", text, sizeof(text)) && clock_cpuinfo_invariant(text);
}

static bool counter_listed(void)
{
	char text[512];

	return text_read("/sys/devices/system/clocksource/clocksource0/available_clocksource", text,
			 sizeof(text)) &&
	       clock_sources_list_counter(text);
}

static inline u64 counter_now(void)
{
	u32 low, high;

	/* fenced on both sides: the bracket of clock readings must contain it */
	__asm__ volatile("lfence; rdtsc; lfence" : "=a"(low), "=d"(high)::"memory");
	return (u64)high << 32 | low;
}
#elif defined(__aarch64__)
/* The generic timer is invariant by architecture, and the kernel runs on it. */
static bool counter_invariant(void)
{
	return true;
}

static bool counter_listed(void)
{
	return true;
}
#else
static bool counter_invariant(void)
{
	return false;
}

static bool counter_listed(void)
{
	return false;
}
#endif

int clock_choose(ClockChoice choice, u32 *ret_kind, Failure *f)
{
	*ret_kind = ABI_CLOCK_MONOTONIC;
	if (choice == CLOCK_MONO)
		return 0;
	if (!counter_invariant()) {
		if (choice == CLOCK_COUNTER)
			return failure_set(f, FAILURE_INVALID,
					   "daemon.clock = \"counter\": the CPU does not promise a "
					   "counter of constant rate; using \"monotonic\"");
		return 0;
	}
	if (choice == CLOCK_COUNTER || counter_listed())
		*ret_kind = ABI_CLOCK_COUNTER;
	return 0;
}

u64 clock_mult(u64 ns, u64 ticks)
{
	return ticks ? (u64)(((unsigned __int128)ns << 32) / ticks) : 0;
}

#if defined(__x86_64__)
/* A pair of both clocks, read within the shortest bracket of some tries. */
static void pair_read(u64 *ret_ns, u64 *ret_ticks)
{
	u64 best = UINT64_MAX;

	for (int i = 0; i < CALIBRATE_TRIES; i++) {
		struct timespec ts;
		u64 before = counter_now(), after;

		(void)clock_gettime(CLOCK_MONOTONIC_RAW, &ts);
		after = counter_now();
		if (after - before >= best)
			continue;
		best = after - before;
		*ret_ns = (u64)ts.tv_sec * NSEC_PER_SEC + (u64)ts.tv_nsec;
		*ret_ticks = before + best / 2;
	}
}

u64 clock_calibrate(void)
{
	struct timespec pause = { .tv_nsec = CALIBRATE_NS };
	u64 ns[2] = { 0 }, ticks[2] = { 0 };

	pair_read(&ns[0], &ticks[0]);
	/* not waiting for anybody: a rate is measured over time */
	while (clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, &pause) == EINTR)
		;
	pair_read(&ns[1], &ticks[1]);
	return clock_mult(ns[1] - ns[0], ticks[1] - ticks[0]);
}
#elif defined(__aarch64__)
u64 clock_calibrate(void)
{
	u64 hz;

	__asm__ volatile("mrs %0, cntfrq_el0" : "=r"(hz));
	return clock_mult(NSEC_PER_SEC, hz);
}
#else
u64 clock_calibrate(void)
{
	return 0;
}
#endif
