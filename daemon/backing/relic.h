/* SPDX-License-Identifier: MIT */
/* One owner's rings as they were found on a disk, put together again as the copy that a snapshot would have made. Every byte is
 * judged: a part that is torn, or says what cannot be, is left out and named; the rest is used. What the records in it say is
 * for the sieve to judge. */
#pragma once

#include "daemon/backing/glossary.h"
#include "daemon/backing/notes.h"
#include "daemon/capture.h"
#include "daemon/description.h"

typedef struct {
	char label[256];
	struct geometry geometry;
	GlossaryClasses classes;
	Descriptions programs; /* owned */
	u32 *cpu_of_ring;   /* owned */
	CaptureRing *rings; /* owned, with their copies */
	u32 n_rings;
	u64 synced; /* trace clock: all that was recorded before and was still in the rings is here, but for what the notes
		       say is damaged; 0: no pass was finished */
	u64 until;  /* ... and that of all owners of the run; 0: not known */
	u64 cut;    /* trace clock: no record is newer */
	u64 realtime_offset;
	u64 pass;	   /* the one that `synced` speaks of */
	u32 n_sub_buffers; /* used */
} Relic;

/* NAME: of the file with the rings, below dir_fd; the glossary lies beside it. 0; -EBADMSG: nothing of it could be used, and a
 * note says why; -ENOMEM. */
int relic_read(Relic *ret, int dir_fd, const char *name, Notes *notes);
void relic_clear(Relic *r);
