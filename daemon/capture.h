/* SPDX-License-Identifier: MIT */
/* A private copy of all rings of a session at one cut: the clock once, hold, fence, positions,
 * bytes, positions again. What is copied here is still whatever the producers wrote: sieve.h judges
 * it. */
#pragma once

#include "lib/reader.h"
#include "lib/record.h"

/* A region to copy: borrowed, mapped, with the geometry that the daemon decided. */
typedef struct {
	u8 *map;
	const struct geometry *geometry;
} CaptureSource;

/* What is not asked for need not be copied. 0: everything. */
typedef struct {
	u64 duration_ns;
	u64 ring_bytes; /* the newest so many of each ring are enough */
	/* The cut first, then memory for the copies: writers are held off for longer, and what they push out of the rings until
	 * the cut is less by all that the memory takes (some milliseconds for each 16 MB). For a crash. */
	bool urgent;
} CaptureLimit;

/* One ring that has, or had, content. */
typedef struct {
	u32 source, ring; /* index of the source; of the ring in its region */
	u64 size, sub_size;
	u64 offset, count; /* behind the cut; the count belongs to the offset */
	u64 lost[ABI_LOST_CAUSES];
	u64 unpinned; /* records that were to be pinned and went elsewhere */
	bool pinned;  /* all of it is kept, whatever is asked for */
	bool broken; /* its positions cannot be believed: nothing was copied */
	u8 *copy;    /* owned (munmap): the positions from `first` to `offset` */
	size_t allocated;
	u64 first;  /* a sub-buffer's position, or one behind the offset if nothing is there */
	u64 oldest; /* the oldest whole sub-buffer; below `first` if not all was asked for */
	u64 oldest_count; /* records before `oldest`, as its header says; UINT64_MAX: it does not
			     say */
} CaptureRing;

typedef struct {
	u64 cut;
	u64 realtime_offset_ns; /* CLOCK_REALTIME - this clock, taken beside the cut */
	u64 hold_ns;            /* how long any ring was held at most */
	bool late; /* the copy took longer than ABI_HOLD_NS: what was overwritten meanwhile is gone
		    */
	CaptureRing *rings; /* owned */
	size_t n_rings;
} Capture;

/* Copies. 0, or -ENOMEM (with all rings let go). */
int capture_take(Capture *ret, const CaptureSource *sources, size_t n,
		 const struct record_clock *clock, const CaptureLimit *limit);
void capture_clear(Capture *c);

/* CLOCK_REALTIME - this clock, now. A machine whose time of day is before the clock's zero (no battery) gets 0. */
u64 capture_realtime_offset(const struct record_clock *clock);
