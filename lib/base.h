/* SPDX-License-Identifier: MIT */
/* Small tools every room may use: ownership (cleanup attributes), sizes, checked arithmetic, the time.
 * Nothing here knows what a ring or a session is. */
#pragma once

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;

#define NSEC_PER_USEC 1000ull
#define NSEC_PER_MSEC 1000000ull
#define NSEC_PER_SEC  1000000000ull

#define ELEMENTSOF(a)	     (sizeof(a) / sizeof((a)[0]))
#define ALIGN_UP(x, a)	     (((x) + ((a)-1)) & ~((__typeof__(x))(a)-1))
#define likely(x)	     __builtin_expect(!!(x), 1)
#define unlikely(x)	     __builtin_expect(!!(x), 0)
#define container_of(p, t, m) ((t *)((char *)(p)-offsetof(t, m)))
#define MIN(a, b)	     ((a) < (b) ? (a) : (b))
#define MAX(a, b)	     ((a) > (b) ? (a) : (b))

/* Sums that must not wrap, whoever wrote what is summed: UINT64_MAX where there is no room. */
static inline u64 add_bounded(u64 a, u64 b)
{
	u64 sum;

	return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

/* Async-signal-safe, and no system call where the vDSO reads the clock. */
static inline u64 monotonic_ns(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return (u64)ts.tv_sec * NSEC_PER_SEC + (u64)ts.tv_nsec;
}

/* Since the epoch; may be set back. */
static inline u64 realtime_ns(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_REALTIME, &ts);
	return (u64)ts.tv_sec * NSEC_PER_SEC + (u64)ts.tv_nsec;
}

/* Cleanup at the end of scope: `_cleanup_(x_freep) X *x = NULL;` (see DEFINE_CLEANUP) */
#define _cleanup_(f) __attribute__((cleanup(f)))
#define _printf_(a, b) __attribute__((format(printf, a, b)))

/* For a small variable that every instrumented program writes at its start: with the initialised ones, whose page
 * the loader has touched anyway; in .bss each would cost a page of its own, between the large tables there. */
#define _data_ __attribute__((section(".data")))

/* Defines `void f##p(T *p)`, which calls f on what the variable holds when it holds something. */
#define DEFINE_CLEANUP(T, f)                                                                       \
	static inline void f##p(T *p)                                                              \
	{                                                                                          \
		if (*p)                                                                            \
			f(*p);                                                                     \
	}

static inline void freep(void *p)
{
	free(*(void **)p);
}

/* Closes a descriptor and keeps errno; returns -1, so that `fd = close_fd(fd)` reads well. */
static inline int close_fd(int fd)
{
	int saved = errno;

	if (fd >= 0)
		(void)close(fd);
	errno = saved;
	return -1;
}

static inline void closep(int *fd)
{
	*fd = close_fd(*fd);
}

#define _cleanup_free_	_cleanup_(freep)
#define _cleanup_close_ _cleanup_(closep)

/* Hands a pointer or a descriptor on and forgets it here, so that the cleanup finds nothing. */
#define steal_ptr(p)                                                                               \
	({                                                                                         \
		__typeof__(p) steal_ptr_ = (p);                                                    \
		(p) = NULL;                                                                        \
		steal_ptr_;                                                                        \
	})
#define steal_fd(fd)                                                                               \
	({                                                                                         \
		int steal_fd_ = (fd);                                                              \
		(fd) = -1;                                                                         \
		steal_fd_;                                                                         \
	})
