/* SPDX-License-Identifier: MIT */
#include "daemon/sink/pool.h"

#include <sys/mman.h>

#define PAGE 4096u

static void buffer_unmap(Pool *p, Buffer *b)
{
	if (!b->memory)
		return;
	(void)munmap(b->memory, b->capacity);
	p->bytes -= b->capacity;
	*b = (Buffer){0};
}

static int buffer_map(Pool *p, Buffer *b, u64 capacity)
{
	void *memory = mmap(NULL, capacity, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		return -ENOMEM;
	*b = (Buffer){.memory = memory, .capacity = capacity};
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
