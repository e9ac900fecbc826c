/* SPDX-License-Identifier: MIT */
/* The records of one sub-buffer, or of a part of it, as a stream judges them: walked where they lie, which is all that an
 * honest program's records ever see, or sifted in a private copy where the walk found something wrong. */
#pragma once

#include "daemon/trace/body.h"
#include "lib/reader.h"

/* What a compact stamp can say: how far a record may be from the one before it in a packet. */
#define COMPACT_SPAN (1ull << 32)

typedef struct {
	const ClassTable *classes;
	u64 time;   /* the first stamp counts from it */
	u64 clock;  /* of the newest record before: none is older */
	u64 bound;  /* none is newer */
	bool judge; /* an id that is in no class is a lie */
} RecordsLimit;

typedef enum {
	RECORDS_GOOD,
	RECORDS_UNKNOWN, /* an id that may be told soon; not with `judge` */
	RECORDS_BAD,	 /* of a walk: to be copied and sifted */
} RecordsResult;

typedef struct {
	u32 n, size;	   /* kept; to the last byte of the last one */
	u64 first, last;   /* their times */
	u64 clock;	   /* the running time behind all that was met */
	u32 met;	   /* with those that were left out */
	u32 left_out;
	u32 clamped;
	u32 taken;	   /* bytes that were looked at */
	bool broken;	   /* the chain ends before its end: what is behind `taken` is lost */
} Records;

/* `p` may be written to by others meanwhile: each word is loaded once, and nothing outside is read. Both are multiples of 4. */
RecordsResult records_walk(const u8 *p, const u8 *end, const RecordsLimit *limit, Records *ret);

/* Of a private copy, in place: leaves out what cannot be decoded and puts stamps right. Where that leaves a gap that no
 * compact stamp can say it ends early (`taken`), and the rest is another packet. Never RECORDS_BAD. */
RecordsResult records_sift(u8 *p, u8 *end, const RecordsLimit *limit, Records *ret);

/* Writes the time of a record that was parsed before. */
static inline void record_stamp(u8 *p, bool extended, u64 time)
{
	u32 low = (u32)time;

	if (extended)
		memcpy(p + 8, &time, sizeof(time));
	else
		memcpy(p + 4, &low, sizeof(low));
}
