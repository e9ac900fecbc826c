/* SPDX-License-Identifier: MIT */
/* Aligned memory for packets on their way to the disk: shared by all files of a set, and bounded. Each buffer holds one packet.
 *
 * Buffers are cut from blocks that are huge pages, where the kernel gives any: for each write it looks up and holds every page, and
 * a hundred huge ones cost it as little as one small one. */
#pragma once

#include "lib/base.h"

/* As many, and so much in all: enough to keep a disk busy while the next packet is copied. One packet that is larger than
 * POOL_BYTES gets its memory nevertheless, alone. */
#define POOL_BUFFERS 16
#define POOL_BYTES   (16ull << 20)

#define POOL_BLOCK (2ull << 20)

typedef struct {
	u8 *memory; /* owned; NULL: none */
	u64 size, given;
	u32 n_buffers;
} Block;

typedef struct Buffer Buffer;
struct Buffer {
	u8 *memory; /* of its block; NULL: none. Page-aligned */
	Block *block;
	u64 capacity;
	bool used;
	/* the packet in it, for whoever uses it */
	Buffer *next;
	u64 size, n_records, mark;
};

typedef struct {
	Buffer buffers[POOL_BUFFERS];
	Block blocks[POOL_BUFFERS];
	u64 bytes, largest;
} Pool;

void pool_clear(Pool *p);
/* A buffer for a packet of `size`: `used` is set, `next` NULL. -EBUSY: some must be given back first. -ENOMEM. */
int pool_take(Pool *p, u64 size, Buffer **ret);
void pool_give(Pool *p, Buffer *b);
