/* SPDX-License-Identifier: MIT */
/* One ring's place in an image: which of its sub-buffers lies in which slot of the file, and what of that counts. */
#pragma once

#include "daemon/backing/format.h"
#include "daemon/backing/glossary.h"
#include "lib/reader.h"
#include "lib/record.h"

typedef enum {
	SLOT_FREE = 0,
	SLOT_KEPT,  /* durable */
	SLOT_FRESH, /* written by the pass in hand */
} SlotState;

typedef struct {
	u64 position;
	SlotState state;
} Slot;

typedef struct {
	struct reader reader;
	u32 index;
	bool overwrites, pinned;
	bool allocated; /* on disk */
	u64 at;		/* of the first slot in the file */
	Slot *slots;	/* owned */
	u32 n_slots, next_slot;
	struct backing_table_ring kept, fresh; /* durable; as the pass in hand will make it */
} Imprint;

/* A pass in hand, over all rings of an image. What it points to is the image's. */
typedef struct {
	u64 image;  /* its id */
	u64 number; /* passes count from 1 */
	int fd, dir_fd;
	Glossary *glossary;
	const char *glossary_name;
	const struct record_clock *clock;
	u8 *copy; /* room for a sub-buffer */
	u64 begun, until; /* as in struct backing_table */
	bool changed; /* there is something for the table to say */
	u64 n_subs, n_bytes; /* that were written, and are not durable */
	u64 n_missed;	     /* sub-buffers that their writers came round to before they could be copied */
	u64 n_words;	     /* bytes that the glossary got meanwhile */
} Pass;

/* Of a region's ring; touches no disk. */
void imprint_init(Imprint *ring, u8 *map, const struct geometry *g, u32 index);
/* Its file is gone, or it is of no use any more: nothing of it is anywhere. */
void imprint_reset(Imprint *ring);
/* Copies what is new in the ring into free slots. 0, also for a ring that lies; -ENOMEM, or -errno of the disk: the pass has
 * failed. */
int imprint_pass(Imprint *ring, Pass *p);
/* The end of a pass: what was copied is durable, and what it replaces is free; or it has not been. */
void imprint_settle(Imprint *ring, bool durable);
