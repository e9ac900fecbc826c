/* SPDX-License-Identifier: MIT */
/* The floor below a record: the clock is read and the same bytes are stored, one behind the other, into memory like a
 * ring's. No space is asked for, nothing is published, nobody is told how many there are. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "loop.h"

#define RING (4u << 20)

static __thread uint8_t *ring;
static __thread uint32_t at;
static volatile uint64_t sink;

static void prepare(void)
{
	int fd;

	if (ring)
		return;
	fd = memfd_create("store", MFD_CLOEXEC);
	if (fd < 0 || ftruncate(fd, RING) < 0 ||
	    (ring = mmap(NULL, RING, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0)) == MAP_FAILED) {
		perror("sides: memory for the floor");
		exit(1);
	}
	close(fd);
}

static inline uint64_t counter(void)
{
#if defined(__x86_64__)
	return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
	uint64_t v;

	__asm__ volatile("isb; mrs %0, cntvct_el0" : "=r"(v));
	return v;
#else
#error "no counter known for this machine"
#endif
}

static inline uint64_t monotonic(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* Where the next record of n bytes goes: padded to 4, as in a ring. */
static inline uint8_t *next(uint32_t n)
{
	uint8_t *here;

	n = (n + 3) & ~3u;
	if (at + n > RING)
		at = 0;
	here = ring + at;
	at += n;
	return here;
}

/* id, length and time; pid and tid */
static inline uint8_t *head(uint8_t *to, uint64_t now)
{
	const uint64_t words[2] = { 7 | now << 32, 0x100000001 };

	memcpy(to, words, sizeof(words));
	return to + sizeof(words);
}

static inline void put_one(uint64_t now, uint64_t value)
{
	memcpy(head(next(24), now), &value, 8);
}

static inline void put_mixed(uint64_t now, uint64_t value)
{
	uint8_t *to = head(next(44), now);
	uint32_t half = (uint32_t)value;

	memcpy(to, &value, 8);
	memcpy(to + 8, &half, 4);
	memcpy(to + 12, loop_short, 16);
}

static inline void put_text(uint64_t now)
{
	memcpy(head(next(16 + 200), now), loop_text, 200);
}

static inline void put_bytes(uint64_t now, uint32_t size)
{
	uint8_t *to = head(next(16 + 2 + size), now);
	uint16_t n = (uint16_t)size;

	memcpy(to, &n, 2);
	memcpy(to + 2, loop_payload, size);
}

LOOP(empty, (void)i)
LOOP(clock_counter, sink = counter())
LOOP(clock_monotonic, sink = monotonic())
LOOP(counter_one, put_one(counter(), i))
LOOP(counter_mixed, put_mixed(counter(), i))
LOOP(counter_text, put_text(counter()))
LOOP(counter_bytes, put_bytes(counter(), size))
LOOP(monotonic_one, put_one(monotonic(), i))
LOOP(monotonic_mixed, put_mixed(monotonic(), i))
LOOP(monotonic_text, put_text(monotonic()))
LOOP(monotonic_bytes, put_bytes(monotonic(), size))

const Loop store_loops[] = {
	{ "empty", empty, NULL },
	{ "clock-counter", clock_counter, NULL },
	{ "clock-monotonic", clock_monotonic, NULL },
	{ "counter-one", counter_one, prepare },
	{ "counter-mixed", counter_mixed, prepare },
	{ "counter-text", counter_text, prepare },
	{ "counter-bytes", counter_bytes, prepare },
	{ "monotonic-one", monotonic_one, prepare },
	{ "monotonic-mixed", monotonic_mixed, prepare },
	{ "monotonic-text", monotonic_text, prepare },
	{ "monotonic-bytes", monotonic_bytes, prepare },
	{ NULL, NULL, NULL },
};
