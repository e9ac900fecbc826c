/* SPDX-License-Identifier: MIT */
/* What was found in the file of one owner's rings: its head, which pass was the last that is whole, and each sub-buffer that is whole
 * itself, by its position. What is torn or cannot be is left out. relic.h puts it together. */
#pragma once

#include "daemon/backing/format.h"
#include "daemon/backing/notes.h"

/* A sub-buffer that was found whole. */
typedef struct {
	u64 position, end; /* `end`: the boundary behind it, if the ring had gone on */
	u64 before;	   /* records of the ring before it, as its header says */
	u64 count;	   /* ... and up to `end`; UINT64_MAX: not known */
	u64 pass, time, lost;
	u64 at; /* in the file */
	u32 size;
	bool complete;
} Found;

typedef struct {
	bool valid;
	struct backing_table head;
	struct backing_table_ring *rings; /* owned */
} FoundTable;

typedef struct {
	int fd;	  /* owned */
	u64 size; /* of the file */
	char label[256];
	struct geometry geometry;
	u32 n_rings;
	u64 id;			     /* of the image: in everything that belongs to it */
	FoundTable tables[2];	     /* the newer one first */
	bool cut_off;		     /* tables[0] is of a pass that was not finished */
	const FoundTable *reference; /* of the last pass that was; NULL: none was */
	Found **found;		     /* owned: of each ring, sorted by position, the best of each */
	size_t *n_found;	     /* owned */
	u32 n_torn;		     /* slots that were not written to their end */
	u8 *copy;		     /* owned: room for a sub-buffer */
} Finds;

/* NAME: of the file below dir_fd. 0; -EBADMSG: it cannot be believed at all, and a note says why; -ENOMEM. *ret is set in any case,
 * and cleared by the caller; it cannot be moved. */
int finds_read(Finds *ret, int dir_fd, const char *name, Notes *notes);
void finds_clear(Finds *d);

/* The sub-buffer of this position; NULL: it was not found. */
const Found *finds_at(const Finds *d, u32 ring, u64 position);
/* The sub-buffer at `position` is there as far as the table says. */
bool finds_there(const Finds *d, u32 ring, const struct backing_table_ring *t, u64 position);
/* Its f->size bytes, into `copy`: read twice, so judged twice. 0; -EBADMSG: a disk that gives other bytes the second time has lost
 * this part. */
int finds_copy(Finds *d, u32 ring, const Found *f);
