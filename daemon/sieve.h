/* SPDX-License-Identifier: MIT */
/* What of a copied ring is written: walks every record, checks it against its class, puts time
 * right, leaves out what came after the cut or is not asked for, and accounts for each record that
 * was ever in the ring. Works in place on the private copy. A ring full of lies gives less, never a
 * trace that cannot be read. */
#pragma once

#include "daemon/capture.h"
#include "daemon/trace/body.h"

/* The records of one packet: one sub-buffer's, or a part of it. */
typedef struct {
	u8 *records; /* in the ring's copy */
	u32 size;    /* to the last byte of the last record, without its padding */
	u32 n_records;
	u64 begin, end; /* of the packet: begin <= first record, last record <= end <= next begin */
	u64 position;   /* of the sub-buffer */
	u64 discarded;  /* lost or unusable up to `end`, in all; see discarded_base */
	u32 gap;        /* sub-buffers that are missing in front of it */
} Piece;

typedef struct {
	u64 keep_since; /* records older than this are not asked for */
	u64 cut;
} SieveLimit;

typedef struct {
	Piece *pieces; /* owned, oldest first */
	size_t n;
	u64 discarded_base; /* of what is `discarded`, before the first piece's begin */
	/* written = kept + overwritten + trimmed + corrupt + after_cut, always */
	u64 written, kept, overwritten, trimmed, corrupt, after_cut;
	u64 clamped, corrupt_subs;
	u64 lost;       /* all causes, up to the cut */
	size_t to_trim; /* the owner's: pieces that must go, oldest first */
	double reach;   /* the part of the ring from the cut back that was whole; 1 if it was never
			   full */
} Sieve;

/* 0 or -ENOMEM. Marks the classes of what is kept in `classes`. */
int sieve_ring(Sieve *ret, CaptureRing *ring, ClassTable *classes, const SieveLimit *limit);
void sieve_clear(Sieve *s);

/* Takes the first n pieces away, and of the next one the oldest records, until its packet takes at
 * most `budget` bytes (the piece too, if that is not possible). They count as trimmed. */
void sieve_trim(Sieve *s, size_t n, u64 budget);
