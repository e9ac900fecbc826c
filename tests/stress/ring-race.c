/* SPDX-License-Identifier: MIT */
/* Both ends in one process on one mapping, for the thread sanitizer: four threads write to side
 * rings, a fifth consumes them in place under `discard`. What the protocol orders by acquire and
 * release must be all the order there is. (The per-CPU sequences are assembly, which the sanitizer
 * does not see; under `overwrite` a reader copies bytes that may be written, by design.) */
#include "lib/atomic.h"
#include "lib/reader.h"
#include "lib/record.h"
#include "lib/region.h"
#include "lib/side.h"

#include <pthread.h>
#include <stdio.h>

#define THREADS 4
#define RECORDS 20000u

static struct slot slot;
static struct region region;
static u32 running;
static u64 done[THREADS], lost[THREADS];
static const struct record_clock clock_monotonic = {ABI_CLOCK_MONOTONIC, 0};
static const struct geometry geometry = {16, 12, 16, 12, 1, 2, ABI_POLICY_DISCARD, 3};
static u16 cpu_ring[ABI_MAX_CPUS];

static void *write_records(void *arg)
{
	u32 who = (u32)(uintptr_t)arg;

	for (u32 i = 0; i < RECORDS; i++) {
		u64 head[3] = {0, i, 0};
		struct record_part parts[2] = {{&head[1], 8, 0}, {"abc", 4, 1}};
		enum record_result r = record_write_side(&slot, 1, 1 + who, (u64)(who + 1) << 32, 1,
							 &clock_monotonic, parts, 1 + i % 2);

		if (r == RECORD_DONE)
			done[who]++;
		else if (r == RECORD_LOST)
			lost[who]++;
	}
	/* release: pairs with the consumer's look */
	(void)__atomic_fetch_sub(&running, 1, __ATOMIC_RELEASE);
	return NULL;
}

static u64 consume(const struct reader *r, u64 *at, u64 *clock)
{
	u64 offset, count, n = 0;

	if (reader_position(r, &offset, &count) < 0)
		return 0;
	while (*at < offset) {
		u64 in = *at & (r->sub_size - 1), start = *at - in;
		const u8 *sub = r->data + (start & (r->size - 1));
		const struct abi_sub *h = (const struct abi_sub *)sub;
		u64 end = offset >= start + r->sub_size ? h->end : offset;

		if (!in) {
			*clock = h->begin;
			in = ABI_SUB_HEADER;
		}
		while (start + in < end) {
			struct record one;
			u32 step = record_parse(sub + in, end - start - in, clock, &one);

			if (!step) {
				printf("not walkable at %lu\n", start + in);
				return n;
			}
			in += step;
			n++;
		}
		*at = offset >= start + r->sub_size ? start + r->sub_size : end;
		reader_consume(r, *at);
	}
	return n;
}

int main(void)
{
	pthread_t threads[THREADS];
	struct reader readers[2];
	u64 at[2] = {0}, clock[2] = {0}, seen = 0, written = 0, losses = 0, told = 0;
	bool over = false;

	if (region_create(&region, "race", &geometry, 0, 1, NULL, 0) < 0 ||
	    slot_attach(&slot, region.fd, &geometry, 1, cpu_ring, NULL, 0) < 0)
		return 2;
	for (u32 i = 0; i < 2; i++) /* on the writers' mapping: another would hide everything */
		reader_init(&readers[i], slot.map, &geometry, 1 + i);
	running = THREADS;
	for (u32 i = 0; i < THREADS; i++)
		(void)pthread_create(&threads[i], NULL, write_records, (void *)(uintptr_t)i);
	while (!over) {
		over = !load_acquire_u32(&running);
		for (u32 i = 0; i < 2; i++)
			seen += consume(&readers[i], &at[i], &clock[i]);
	}
	for (u32 i = 0; i < THREADS; i++) {
		(void)pthread_join(threads[i], NULL);
		written += done[i];
		told += lost[i];
	}
	for (u32 i = 0; i < 2; i++)
		losses += reader_lost(&readers[i]);
	slot_detach(&slot);
	region_close(&region);
	printf("written %lu, seen %lu, lost %lu, told %lu\n", written, seen, losses, told);
	return written != seen || losses != told || written + told != THREADS * RECORDS;
}
