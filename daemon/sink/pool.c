/* SPDX-License-Identifier: MIT */
#include "daemon/sink/pool.h"

#include <sys/mman.h>

#define PAGE 4096u

/* Aligned to POOL_BLOCK: what is over on either side is given back. */
static int block_map(Block *b, u64 size)
{
	u64 whole = size + POOL_BLOCK, before;
	u8 *memory = mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		return -ENOMEM;
	before = ALIGN_UP((u64)(uintptr_t)memory, POOL_BLOCK) - (u64)(uintptr_t)memory;
	if (before > 0)
		(void)munmap(memory, before);
	if (whole - before > size)
		(void)munmap(memory + before + size, whole - before - size);
	*b = (Block){.memory = memory + before, .size = size};
	/* a kernel that has none to give, or gives them anyway, is as good */
	(void)madvise(b->memory, size, MADV_HUGEPAGE);
	return 0;
}

/* One with so much left, or a new one. NULL: no memory. */
static Block *block_find(Pool *p, u64 capacity)
{
	Block *empty = NULL;

	for (u32 i = 0; i < POOL_BUFFERS; i++) {
		Block *b = &p->blocks[i];

		if (b->memory && b->size - b->given >= capacity)
			return b;
		if (!b->memory && !empty)
			empty = b;
	}
	/* each has a buffer, and there is one buffer without any: so there is an empty one */
	return block_map(empty, MAX(capacity, POOL_BLOCK)) < 0 ? NULL : empty;
}

static void buffer_unmap(Pool *p, Buffer *b)
{
	if (!b->memory)
		return;
	if (--b->block->n_buffers == 0) {
		(void)munmap(b->block->memory, b->block->size);
		*b->block = (Block){0};
	}
	p->bytes -= b->capacity;
	*b = (Buffer){0};
}

static int buffer_map(Pool *p, Buffer *b, u64 capacity)
{
	Block *block = block_find(p, capacity);

	if (!block)
		return -ENOMEM;
	*b = (Buffer){.memory = block->memory + block->given, .block = block, .capacity = capacity};
	block->given += capacity;
	block->n_buffers++;
	p->bytes += capacity;
	return 0;
}

void pool_clear(Pool *p)
{
	for (u32 i = 0; i < POOL_BUFFERS; i++)
		buffer_unmap(p, &p->buffers[i]);
}

static bool fits(const Pool *p, u64 size)
{
	return p->bytes == 0 || p->bytes + size <= POOL_BYTES;
}

static Buffer *find(Pool *p, u64 size)
{
	for (u32 i = 0; i < POOL_BUFFERS; i++)
		if (!p->buffers[i].used && p->buffers[i].memory && p->buffers[i].capacity >= size)
			return &p->buffers[i];
	return NULL;
}

static Buffer *find_empty(Pool *p)
{
	for (u32 i = 0; i < POOL_BUFFERS; i++)
		if (!p->buffers[i].memory)
			return &p->buffers[i];
	return NULL;
}

int pool_take(Pool *p, u64 size, Buffer **ret)
{
	Buffer *b;

	size = ALIGN_UP(size, (u64)PAGE);
	/* as large as the largest that was seen: the next packet is likely to need it */
	p->largest = MAX(p->largest, size);
	b = find(p, size);
	if (!b) {
		/* those that are too small make room first */
		for (u32 i = 0; i < POOL_BUFFERS; i++)
			if (!p->buffers[i].used && p->buffers[i].capacity < p->largest)
				buffer_unmap(p, &p->buffers[i]);
		b = find_empty(p);
		if (!b || !fits(p, size))
			return -EBUSY;
		if (buffer_map(p, b, fits(p, p->largest) ? p->largest : size) < 0)
			return -ENOMEM;
	}
	b->used = true;
	b->next = NULL;
	*ret = b;
	return 0;
}

void pool_give(Pool *p, Buffer *b)
{
	b->used = false;
	/* one packet beyond all bounds is no reason to keep its memory */
	if (b->capacity > POOL_BYTES) {
		p->largest = 0;
		buffer_unmap(p, b);
	}
}
