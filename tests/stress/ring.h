/* SPDX-License-Identifier: MIT */
/* The stress of the ring: writers that record a computed pattern, a reader that checks every claim
 * of lib/abi.h, and modes that put the two together. Built with stamps of 16 bits (see
 * ABI_STAMP_BITS): a wrap every 65 us, so that one record in about ten is extended. */
#pragma once

#include "lib/atomic.h"
#include "lib/reader.h"
#include "lib/record.h"
#include "lib/region.h"
#include "lib/side.h"

#include <sys/types.h>

#define N_CPU   2u /* rings; threads on other CPUs use the side rings */
#define N_SIDE  2u
#define N_RINGS (N_CPU + N_SIDE)
#define MAX_WHO 16u

/* What a record carries. Bytes behind `before` follow from the rest. */
struct pay {
	u32 who, generation;
	u64 number, before;
	u8 fill[104];
};
#define PAY_HEAD 24u
/* the ids of records; a text's fields behind PAY_HEAD are a string, shortened by half after it was
 * measured when its number is even in steps of 16 */
#define ID_NUMBER  100 /* kind 0 */
#define ID_HANDLER 101 /* kind 1 */
#define ID_TEXT    102 /* kind 0 as well */
static inline u32 id_kind(u32 id)
{
	return id == ID_HANDLER;
}
/* Records of this size keep a sequence running for microseconds. Behind struct pay they are a
 * constant. */
#define PAY_LONG 40000u
/* And some of those in their place: a head too large for the loop of the usual record, with a piece of every size behind
 * the contexts. */
#define PAY_MIDDLE 340u

/* What a thread says about itself, in memory shared with the checker; kind 1 is its signal handler.
 */
struct state {
	u64 number[2], before[2], lost[2], stale, side;
} __attribute__((aligned(128)));

struct shared {
	u32 stop;
	u32 incarnation[MAX_WHO];
	struct state t[MAX_WHO];
};

/* ---- ring-stress.c: what all share ---- */
extern struct shared *shared;
extern u64 seed, n_bad;
extern bool fail_fast; /* a control: the first `bad` ends it */
extern struct record_clock record_clock;

void bad(const char *format, ...) _printf_(1, 2);
u64 random_next(u64 *state);
u64 wall(void);
void nap(u32 microseconds);
struct region make_region(u32 ring_shift, u32 sub_shift, u32 n_ring, u32 n_side, u32 policy,
			  u32 generation);

/* ---- ring-writer.c ---- */
struct writers {
	struct slot *slot; /* replaced when it is retired */
	u32 producer;
	bool attaching;   /* generations come and go */
	bool number_lost; /* a lost record keeps its number */
	u32 side_share;   /* one record in so many goes straight to the side ring; 0: none */
	u32 large_share;  /* attaching: of 256 records, so many are large */
	u16 cpu_ring[ABI_MAX_CPUS];
};
extern struct writers writers;

void writers_init(void);
static inline struct slot *load_acquire_ptr(struct slot *const *p)
{
	return __atomic_load_n(p, __ATOMIC_ACQUIRE);
}
static inline void store_release_ptr(struct slot **p, struct slot *v)
{
	__atomic_store_n(p, v, __ATOMIC_RELEASE);
}
/* the slot was retired: waits until its users are gone, then takes another */
void writers_next_slot(void);
/* one record by thread `who`; fill: bytes of struct pay's fill, or PAY_LONG */
enum record_result writer_emit(u32 who, u32 kind, u32 fill, bool side);
/* n threads of this process from number `first`, until shared->stop */
void writers_run(u32 first, u32 n);
/* a process that does so on region `r`; its producer number is first + 1 */
pid_t writers_start(const struct region *r, u32 first, u32 n);
void writers_total(u32 n, struct state *ret);
u8 pay_byte(const struct pay *p, u32 i);
u8 pay_tail(u32 i);
/* the text of p, `size` bytes with its NUL; as recorded, or as it is in memory when it is recorded
 */
void pay_text(const struct pay *p, char *text, u32 size, bool recorded);

/* ---- ring-check.c ---- */
struct checked {
	u64 records, extended, snapshots, late, walked_off, returned, reaches, reach, longest_ns;
};
extern struct checked checked;

/* one record: intact, its time right; false if nothing of it can be used */
bool check_record(const struct record *r, u64 floor, u32 ring, struct pay *ret);
/* a snapshot of a region that others write, with every claim about it checked */
void check_snapshot(struct region *r, u8 *copy, bool hold);
/* a region that nobody writes: its records, all of generations first..last; returns their count */
u64 check_quiet(struct region *r, u32 first, u32 last);
u64 check_lost(struct region *r, bool print);
/* the rings' counts against what the threads of 0..n say */
void check_totals(struct region *r, u32 n);

/* ---- the modes ---- */
void mode_overwrite(u32 seconds);
void mode_overwrite_nohold(u32 seconds);
void mode_discard(u32 seconds);
void mode_block(u32 seconds);
void mode_attach(u32 seconds);
void mode_punch(u32 seconds);
void mode_kill(u32 seconds);
void mode_step(u32 seconds);
void mode_instructions(u32 seconds);
