/* SPDX-License-Identifier: MIT */
/* What is measured, as loops: one for each kind of call, on either side, and the floor below both. */
#pragma once

#include <stddef.h>
#include <stdint.h>

typedef struct {
	const char *name;
	/* n calls; size: of the payload, for those that vary */
	void (*run)(uint64_t n, uint32_t size);
	/* what a thread needs before, untimed; or NULL */
	void (*prepare)(void);
} Loop;

extern const Loop tracer_loops[], lttng_loops[], store_loops[]; /* a NULL name ends each */

/* A call of tracer's that is none of the loops', by which it is seen whether the process is attached. */
void loop_hello(uint32_t process);

/* 199 characters and a NUL; 15 and one; as many bytes as the largest payload has */
extern const char *volatile loop_text, *volatile loop_short;
extern const uint8_t *volatile loop_payload;
#define LOOP_PAYLOAD_MAX 65536

/* Each loop stands alone and is not inlined: a call of the event and the loop's own add, no more. */
#define LOOP(name, statement)                                                                      \
	static __attribute__((noinline)) void name(uint64_t n, uint32_t size)                      \
	{                                                                                          \
		for (uint64_t i = 0; i < n; i++) {                                                 \
			statement;                                                                 \
			__asm__ volatile("" ::: "memory");                                         \
		}                                                                                  \
	}
