/* SPDX-License-Identifier: MIT */
/* One owner's part of a snapshot: its rings, judged, what is said of them, and its trace. */
#pragma once

#include "daemon/capture.h"
#include "daemon/sieve.h"
#include "daemon/snapshot.h"

/* What all parts share. */
typedef struct {
	const SnapshotJob *job;
	Capture capture;  /* owned by who runs it */
	TraceClock clock; /* the job's, with the offset taken beside the cut */
} PartContext;

/* One source on its way to disk. */
typedef struct {
	const SnapshotSource *source; /* borrowed */
	ClassTable *classes;          /* owned */
	CaptureRing **rings;          /* owned array; borrowed from the capture */
	Sieve *sieves;                /* owned, one per ring */
	size_t n_rings;
	TraceClass *used; /* owned */
	size_t n_used;
	u32 side_cpu; /* number of the first side ring */
	char *name;   /* owned: its directory */
} Part;

/* Judges the source's rings; `index` is its number in the capture. Zeroed before. 0 or -ENOMEM. */
int part_sift(Part *p, const PartContext *c, const SnapshotSource *source, size_t index);
void part_clear(Part *p);

/* The metadata's text. 0 or -ENOMEM. */
int part_metadata(const Part *p, const PartContext *c, const u8 *uuid, char **ret,
		  size_t *ret_size);
/* Writes the trace below dir_fd; *ret_bytes: of its files. 0 or -errno. */
int part_write(const Part *p, const PartContext *c, int dir_fd, u64 *ret_bytes);

/* The oldest record kept of those that are not pinned, or the cut: what is covered without a hole begins there. */
u64 part_begin(const Part *p, const PartContext *c);
/* Bytes of its stream files, at most. */
u64 part_size(const Part *p);

/* What a stream takes beside its packets, at most: the head of its index, and a packet that may go
 * in front. */
u64 part_stream_overhead(void);
