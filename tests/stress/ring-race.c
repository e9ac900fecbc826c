/* SPDX-License-Identifier: MIT */
/* ring-race MODE: both ends in one process on one mapping, for the thread sanitizer. What the protocol orders by acquire and
 * release must be all the order there is. The sequences are those of race-sequence.c.
 *
 *   sides    four threads write to side rings, a fifth consumes them in place under `discard`
 *   rings    the same with per-CPU rings, and some in the side rings
 *   hold     under `overwrite`, snapshots that hold: what they read in place nobody writes
 *   attach   rings that come and go under threads that write to side rings
 *
 * (Without a hold, or behind its deadline, a reader copies bytes that may be written, by design; and in `attach` what orders a
 * sequence behind a detach is a membarrier: neither is for this tool to judge.) */
#include "lib/atomic.h"
#include "lib/reader.h"
#include "lib/record.h"
#include "lib/region.h"
#include "lib/sequence.h"
#include "lib/side.h"
#include "tests/stress/race.h"

#include <linux/membarrier.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <sys/syscall.h>

#define THREADS	    4
#define RECORDS	    20000u
#define SNAPSHOTS   150u
#define ATTACHMENTS 100u
#define RINGS	    (RACE_CPUS + 2)

static struct slot slot;
static struct region region;
static u32 running, stop, passed;
static u64 done[THREADS], lost[THREADS];
static struct record_clock clock_used = { ABI_CLOCK_MONOTONIC, 0 };
static struct geometry geometry = { 16, 12, 16, 12, RACE_CPUS, 2, ABI_POLICY_DISCARD, 3 };
static u16 cpu_ring[ABI_MAX_CPUS];
static u32 side_share; /* one record in so many goes to a side ring */

static enum record_result write_one(u32 who, u32 i, u32 generation)
{
	static const u8 tail[600];
	u64 head[3] = { 0, i, 0 };
	struct record_part parts[2] = { { &head[1], 8, 0 }, { "abc", 4, 1 } };
	bool side = i % side_share == 0;

	/* the strings of a side ring's record are copied by it; a sequence's are assembly's matter */
	if (!side)
		parts[1] = (struct record_part){ tail, race_roll() % sizeof(tail), 0 };
	return (side ? record_write_side : record_write)(&slot, generation, 1 + who, (u64)(who + 1) << 32, 1, &clock_used, parts,
							 1 + i % 2);
}

static void *write_records(void *arg)
{
	u32 who = (u32)(uintptr_t)arg;

	race_random = who + 1;
	race_cpu = who % RACE_CPUS;
	for (u32 i = 0; i < RECORDS || (geometry.policy == ABI_POLICY_OVERWRITE && !load_relaxed_u32(&stop)); i++) {
		enum record_result r;

		if (i % 1000 == 999)
			race_cpu = race_roll() % RACE_CPUS;
		r = write_one(who, i, 1);
		if (r == RECORD_DONE)
			done[who]++;
		else if (r == RECORD_LOST)
			lost[who]++;
	}
	/* release: pairs with the consumer's look */
	(void)__atomic_fetch_sub(&running, 1, __ATOMIC_RELEASE);
	return NULL;
}

/* The records at [*at, offset) where they are. Returns how many; what lies there must be walkable. */
static u64 walk(const struct reader *r, u64 *at, u64 *clock, u64 offset, bool give_back)
{
	u64 n = 0;

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
				exit(1);
			}
			in += step;
			n++;
		}
		*at = offset >= start + r->sub_size ? start + r->sub_size : end;
		if (give_back)
			reader_consume(r, *at);
	}
	return n;
}

static u64 consume(const struct reader *r, u64 *at, u64 *clock)
{
	u64 offset, count;

	return reader_position(r, &offset, &count) < 0 ? 0 : walk(r, at, clock, offset, true);
}

/* Every ring in place, while nobody may come round. */
static u64 snapshot(const struct reader *readers)
{
	u64 seen = 0;

	for (u32 i = 0; i < RINGS; i++)
		reader_hold(&readers[i], record_clock_now(&clock_used) + ABI_HOLD_NS);
	(void)syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0);
	for (u32 i = 0; i < RINGS; i++) {
		u64 offset, count, at, clock = 0;

		if (reader_position(&readers[i], &offset, &count) < 0) {
			printf("no position\n");
			exit(1);
		}
		at = reader_first_whole(offset, readers[i].size, readers[i].sub_size);
		seen += walk(&readers[i], &at, &clock, offset, false);
		reader_release(&readers[i]);
	}
	return seen;
}

static int begin(struct reader *readers, pthread_t *threads, void *(*writer)(void *))
{
	static const u32 rings[RACE_CPUS] = { 0, 1 };

	for (u32 i = 0; i < ABI_MAX_CPUS; i++)
		cpu_ring[i] = i < RACE_CPUS ? (u16)i : ABI_NO_RING;
	if (region_create(&region, "race", &geometry, 0, 1, rings, RACE_CPUS) < 0 ||
	    slot_attach(&slot, region.fd, &geometry, 1, cpu_ring, NULL, 0) < 0)
		return 2;
	sequence_offset = sizeof(u64); /* also where there is no rseq: nothing is there that anybody looks at */
	for (u32 i = 0; i < RINGS; i++) /* on the writers' mapping: another would hide everything */
		reader_init(&readers[i], slot.map, &geometry, i);
	running = THREADS;
	for (u32 i = 0; i < THREADS; i++)
		(void)pthread_create(&threads[i], NULL, writer, (void *)(uintptr_t)i);
	return 0;
}

static int discard(void)
{
	u64 at[RINGS] = { 0 }, clock[RINGS] = { 0 }, seen = 0, written = 0, losses = 0, told = 0;
	struct reader readers[RINGS];
	pthread_t threads[THREADS];
	bool over = false;

	if (begin(readers, threads, write_records))
		return 2;
	while (!over) {
		over = !load_acquire_u32(&running);
		for (u32 i = 0; i < RINGS; i++)
			seen += consume(&readers[i], &at[i], &clock[i]);
	}
	for (u32 i = 0; i < THREADS; i++) {
		(void)pthread_join(threads[i], NULL);
		written += done[i];
		told += lost[i];
	}
	for (u32 i = 0; i < RINGS; i++)
		losses += reader_lost(&readers[i]);
	slot_detach(&slot);
	region_close(&region);
	printf("written %lu, seen %lu, lost %lu, told %lu\n", written, seen, losses, told);
	return written != seen || losses != told || written + told != THREADS * RECORDS || !written;
}

static int hold(void)
{
	struct reader readers[RINGS];
	u64 seen = 0, counted = 0, written = 0;
	pthread_t threads[THREADS];

	/* time goes a thousand times slower than it does, so that no hold runs out while this thread waits for its turn */
	clock_used = (struct record_clock){ ABI_CLOCK_COUNTER, (1ull << 32) / 3000 };
	geometry.policy = ABI_POLICY_OVERWRITE;
	if (begin(readers, threads, write_records))
		return 2;
	for (u32 i = 0; i < SNAPSHOTS; i++)
		seen += snapshot(readers);
	store_relaxed_u32(&stop, 1);
	for (u32 i = 0; i < THREADS; i++) {
		(void)pthread_join(threads[i], NULL);
		written += done[i];
	}
	for (u32 i = 0; i < RINGS; i++) {
		u64 offset, count;

		if (reader_position(&readers[i], &offset, &count) == 0)
			counted += count;
	}
	slot_detach(&slot);
	region_close(&region);
	printf("written %lu, counted %lu, seen in %u snapshots %lu\n", written, counted, SNAPSHOTS, seen);
	return written != counted || !seen;
}

static void *write_in_passing(void *arg)
{
	u32 who = (u32)(uintptr_t)arg;

	race_random = who + 1;
	for (u32 i = 0; !load_relaxed_u32(&stop); i++) {
		/* acquire: pairs with slot_attach() */
		u32 generation = load_acquire_u32(&slot.generation);

		if (generation && write_one(who, i, generation) == RECORD_DONE) {
			done[who]++;
			(void)fetch_add_relaxed_u32(&passed, 1);
		} else {
			(void)sched_yield();
		}
	}
	return NULL;
}

static int attach(void)
{
	struct reader readers[RINGS];
	pthread_t threads[THREADS];
	u64 counted = 0, written = 0;

	geometry.policy = ABI_POLICY_OVERWRITE;
	if (begin(readers, threads, write_in_passing))
		return 2;
	for (u32 i = 2; i < ATTACHMENTS; i++) {
		u64 offset, count;

		/* some records, and then in the middle of whatever is going on */
		for (u32 seen = load_relaxed_u32(&passed); load_relaxed_u32(&passed) - seen < i % 8;)
			(void)sched_yield();
		/* as long as it takes: under this tool, and on a busy machine, a user may be away for a while */
		slot_detach_until(&slot, UINT64_MAX);
		if (slot.retired) {
			printf("retired\n");
			return 1;
		}
		for (u32 k = 0; k < RINGS; k++) {
			reader_init(&readers[k], region.map, &geometry, k);
			if (reader_position(&readers[k], &offset, &count) == 0)
				counted += count;
		}
		region_close(&region);
		geometry.contexts = i % 4;
		if (region_create(&region, "race", &geometry, 0, i, NULL, 0) < 0 ||
		    slot_attach(&slot, region.fd, &geometry, i, cpu_ring, NULL, 0) < 0)
			return 2;
	}
	store_relaxed_u32(&stop, 1);
	for (u32 i = 0; i < THREADS; i++) {
		(void)pthread_join(threads[i], NULL);
		written += done[i];
	}
	for (u32 k = 0; k < RINGS; k++) {
		u64 offset, count;

		reader_init(&readers[k], region.map, &geometry, k);
		if (reader_position(&readers[k], &offset, &count) == 0)
			counted += count;
	}
	printf("written %lu, counted %lu\n", written, counted);
	return written != counted || !written;
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";

	side_share = strcmp(mode, "sides") == 0 || strcmp(mode, "attach") == 0 ? 1 : 16;
	if (strcmp(mode, "sides") == 0 || strcmp(mode, "rings") == 0)
		return discard();
	if (strcmp(mode, "hold") == 0)
		return hold();
	if (strcmp(mode, "attach") == 0)
		return attach();
	fprintf(stderr, "ring-race sides|rings|hold|attach\n");
	return 2;
}
