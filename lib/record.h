/* SPDX-License-Identifier: MIT */
/* Writes one record into one ring: picks the sequence or the side ring, bounded, and counts what is
 * lost. Async-signal-safe, thread-safe, no malloc, no lock that a handler could deadlock on. */
#pragma once

#include "lib/slot.h"

/* One piece of a record's fields. */
struct record_part {
	const void *data;
	u32 size;   /* bytes it takes in the record */
	u32 string; /* nonzero: data is a C string of size - 1 bytes when it was measured: the copy
		     * stops at an earlier NUL, fills with '#' and stores the terminator itself */
};

/* How a process writes; one per process, set up by the client before the first record. */
struct record_clock {
	u32 kind; /* ABI_CLOCK_* */
	u64 mult;
};

enum record_result {
	RECORD_DONE = 0,
	RECORD_LOST,  /* and counted in the ring */
	RECORD_STALE, /* the slot has another generation: not recorded, not counted */
	RECORD_REFUSED, /* inside lib/ only: policy block, full, and not counted yet */
};

/* Record `id` with the fields of parts[0..n_parts) in order. ids = vpid | (u64)vtid << 32.
 * parts[0] is the head: a buffer of the caller with RECORD_HEADROOM writable bytes in front (the
 * contexts are put there) and readable up to a multiple of 8 behind its size, which may be 0; never
 * a string. Without any part the record has no fields. More parts are copied from where they are,
 * inside the sequence, and nothing is read beyond their size; a head alone of up to 248 bytes is
 * fastest. generation: what the caller found in s->generation (acquire) and built the record for.
 * `producer`: the daemon's number for this process. Keeps errno. Under the policy `block` it waits while the
 * ring is full, at most the slot's timeout; no cancellation point. */
#define RECORD_HEADROOM 8
enum record_result record_write(struct slot *s, u32 generation, u32 id, u64 ids, u32 producer,
				const struct record_clock *clock, const struct record_part *parts,
				u32 n_parts);

/* The same, into the slot's pinned ring while there is room, then where the others go. */
enum record_result record_write_pinned(struct slot *s, u32 generation, u32 id, u64 ids, u32 producer,
				       const struct record_clock *clock, const struct record_part *parts,
				       u32 n_parts);

/* The same, straight into the side ring. */
enum record_result record_write_side(struct slot *s, u32 generation, u32 id, u64 ids, u32 producer,
				     const struct record_clock *clock,
				     const struct record_part *parts, u32 n_parts);

/* Adds n losses of `cause` to the slot's rings; nothing if the slot has another generation. */
void record_lose(struct slot *s, u32 generation, u64 ids, u32 cause, u64 n);

/* Now, by this clock, ordered behind the loads before it (lfence / dsb ishld, isb). */
u64 record_clock_now(const struct record_clock *clock);
