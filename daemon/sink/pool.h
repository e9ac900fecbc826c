/* SPDX-License-Identifier: MIT */
/* Aligned memory for packets on their way to the disk: shared by all files of a set, and bounded. Each buffer holds one packet. */
#pragma once

#include "lib/base.h"

/* As many, and so much in all: enough to keep a disk busy while the next packet is copied. One packet that is larger than
 * POOL_BYTES gets its memory nevertheless, alone. */
#define POOL_BUFFERS 16
#define POOL_BYTES   (16ull << 20)

typedef struct Buffer Buffer;
struct Buffer {
	u8 *memory; /* owned; NULL: none. Page-aligned */
	u64 capacity;
	bool used;
	/* the packet in it, for whoever uses it */
	Buffer *next;
	u64 size, n_records;
};

typedef struct {
	Buffer buffers[POOL_BUFFERS];
	u64 bytes, largest;
} Pool;

void pool_clear(Pool *p);
/* A buffer for a packet of `size`: `used` is set, `next` NULL. -EBUSY: some must be given back first. -ENOMEM. */
int pool_take(Pool *p, u64 size, Buffer **ret);
void pool_give(Pool *p, Buffer *b);
