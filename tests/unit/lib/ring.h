/* SPDX-License-Identifier: MIT */
/* A region, a slot and a writer for tests. The writer's rseq area is ordinary memory that the
 * kernel does not know: its cpu_id is what the test says and no sequence is ever restarted. */
#pragma once

#include "lib/reader.h"
#include "lib/record.h"
#include "lib/region.h"
#include "lib/sequence.h"
#include "lib/side.h"

#include <glib.h>

enum writer {
	WRITER_COUNTER,
	WRITER_MONOTONIC,
	WRITER_SIDE_COUNTER,
	WRITER_SIDE_MONOTONIC,
	N_WRITERS,
};
extern const char *const writer_names[N_WRITERS];

struct ring {
	struct region region;
	struct geometry geometry;
	struct slot slot;
	u16 cpu_ring[ABI_MAX_CPUS];
	struct {
		u32 start, cpu;
		u64 cs;
		u32 reserved[4];
	} __attribute__((aligned(32))) area;
	struct record_clock clock;
	enum writer writer;
	u32 target; /* the ring it writes to */
	struct reader reader;
	u64 ids;
};

/* Two per-CPU rings and one side ring of 64 KiB, sub-buffers of 4 KiB, and two pinned rings of 8 KiB, sub-buffers of
 * 1 KiB, generation 1. */
void ring_init(struct ring *r, enum writer w, u32 policy, u32 contexts);
void ring_deinit(struct ring *r);

/* The target ring's base becomes too old for a compact record, as after a long silence. */
#define RING_AGE (5 * NSEC_PER_SEC)
void ring_age(struct ring *r);

enum record_result ring_write_parts(struct ring *r, u32 id, const struct record_part *parts, u32 n);
/* one head part */
enum record_result ring_write(struct ring *r, u32 id, const void *data, u32 size);

struct ring_record {
	struct record record; /* body points into a copy of its own */
	u64 position;
	u8 body[];
};
/* Walks the target ring and checks every header, count and time on the way. GPtrArray of
 * ring_record. */
GPtrArray *ring_walk(const struct ring *r);
static inline struct ring_record *ring_at(GPtrArray *a, u32 i)
{
	g_assert_cmpuint(i, <, a->len);
	return a->pdata[i];
}
u64 ring_offset(const struct ring *r);
u64 ring_count(const struct ring *r);

/* A writer's test is run for each writer: /record/NAME/WRITER; the test gets the number. */
void ring_test_add(const char *name, void (*test)(gconstpointer));
