/* SPDX-License-Identifier: MIT */
/* A part of a trace as a trace of its own: the events of a range of time, of all owners and streams. */
#pragma once

#include "daemon/failure.h"
#include "lib/base.h"

typedef struct Extract Extract;

/* Looks at PATH: a trace directory (a snapshot, or one that a session wrote or writes), one owner's trace in it, or a directory
 * with several traces, a session's output. Fails with a sentence if there is no trace of ours, or none with a packet. */
int extract_new(Extract **ret, const char *path, Failure *f);
Extract *extract_free(Extract *e);
DEFINE_CLEANUP(Extract *, extract_free)

/* The time of day of the first packet's begin and the last one's end, in nanoseconds since the epoch. */
void extract_span(const Extract *e, u64 *ret_begin, u64 *ret_end);

typedef struct {
	u64 n_packets;	      /* written */
	u64 n_touched;	      /* packet headers read, to find and copy them */
	u64 bytes;	      /* written, all files */
	u64 discarded;	      /* losses that may be of this time */
	u32 n_traces, n_streams;
	u32 n_damaged;	      /* streams that could be read only in part ... */
	char damaged[512];    /* ... the first of them */
} ExtractResult;

/* Writes the directory OUTPUT with exactly the events stamped within [from, to] (nanoseconds since the epoch): in it a trace
 * for each owner, below a directory of the trace's name where PATH holds several. It is on disk when it appears, by rename;
 * what is there already is never replaced. FAILURE_NOTHING if there are neither events nor losses in that time. */
int extract_write(Extract *e, u64 from, u64 to, const char *output, ExtractResult *ret, Failure *f);
