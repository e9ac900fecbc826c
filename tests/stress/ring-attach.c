/* SPDX-License-Identifier: MIT */
/* Rings that come and go under eight threads that record. */
#include "tests/stress/ring.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>

static void *eight(void *arg)
{
	writers_run(0, 8);
	return NULL;
}

static void attach(const struct region *r, u32 generation)
{
	if (slot_attach(writers.slot, r->fd, &r->geometry, generation, writers.cpu_ring, NULL, 0) <
	    0) {
		printf("cannot attach\n");
		_exit(2);
	}
}

static void remember(struct region *r, u64 *offsets)
{
	for (u32 i = 0; i < r->geometry.n_ring + r->geometry.n_side; i++) {
		struct reader reader;

		reader_init(&reader, r->map, &r->geometry, i);
		offsets[i] = load_acquire_u64(&reader.line->offset);
	}
}

static void check_unmoved(struct region *r, const u64 *offsets)
{
	u64 now[8];

	remember(r, now);
	for (u32 i = 0; i < r->geometry.n_ring + r->geometry.n_side; i++)
		if (now[i] != offsets[i])
			bad("ring %u moved after the detach", i);
}

/* A new region of another shape each time, attached a few times over: no crash, no record in
 * another generation's ring, nothing written behind a detach, sums exact. */
void mode_attach(u32 seconds)
{
	u64 total = 0, lost = 0, cycles = 0, sum = 0, longest = 0, random = seed * 31 + 7;
	u32 generation = 0;
	struct state o;
	pthread_t t;

	writers.attaching = true;
	writers.side_share = 300;
	/* a control without the fence needs a sequence in the middle of a large record at the
	 * detach */
	writers.large_share = fail_fast ? 160 : 16;
	(void)pthread_create(&t, NULL, eight, NULL);
	for (u64 end = wall() + seconds * NSEC_PER_SEC; wall() < end && n_bad < 100;) {
		u32 sub = random_next(&random) % 4 ? 12 + (u32)(random_next(&random) % 3) : 16;
		u32 first = generation + 1, times = 1 + (u32)(random_next(&random) % 16);
		struct region r =
		    make_region(sub + 4 + (u32)(random_next(&random) % 2), sub,
				random_next(&random) % 8 ? N_CPU : 1,
				1 + (u32)(random_next(&random) % 3), ABI_POLICY_OVERWRITE, first);
		u64 offsets[8];

		for (u32 i = 0; i < times; i++, cycles++) {
			u64 start;

			if (i)
				check_unmoved(&r, offsets);
			attach(&r, ++generation);
			nap((u32)(random_next(&random) % (fail_fast ? 200 : 1000)));
			start = wall();
			slot_detach(writers.slot);
			start = wall() - start;
			if (writers.slot->retired)
				writers_next_slot();
			remember(&r, offsets);
			sum += start;
			longest = MAX(longest, start);
		}
		total += check_quiet(&r, first, generation);
		lost += check_lost(&r, false);
		check_unmoved(&r, offsets);
		region_close(&r);
	}
	store_relaxed_u32(&shared->stop, 1);
	(void)pthread_join(t, NULL);
	writers_total(8, &o);
	if (total != o.number[0] + o.number[1] || lost != o.lost[0] + o.lost[1])
		bad("rings count %lu lost %lu, threads %lu and %lu", total, lost,
		    o.number[0] + o.number[1], o.lost[0] + o.lost[1]);
	printf("  %lu attachments; records %lu, stale %lu, lost %lu, side %lu; detach mean %lu us, "
	       "longest %lu us; checked %lu\n",
	       cycles, total, o.stale, lost, o.side, cycles ? sum / cycles / 1000 : 0,
	       longest / 1000, checked.records);
}

/* As attach, but the owner of the memory punches it out around the detach: sequences take page
 * faults that sleep in the kernel. Nothing but survival is checked. */
static int punch_fd = -1;
static pthread_mutex_t punching = PTHREAD_MUTEX_INITIALIZER;

static void *puncher(void *arg)
{
	while (!load_relaxed_u32(&shared->stop)) {
		bool any = false;

		(void)pthread_mutex_lock(&punching);
		if (punch_fd >= 0) {
			any = true;
			(void)fallocate(punch_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
					4 << 20);
		}
		(void)pthread_mutex_unlock(&punching);
		if (!any)
			nap(50);
	}
	return NULL;
}

static void punch(int fd)
{
	(void)pthread_mutex_lock(&punching);
	punch_fd = fd;
	(void)pthread_mutex_unlock(&punching);
}

void mode_punch(u32 seconds)
{
	u64 cycles = 0, random = seed * 31 + 7;
	pthread_t t, p;

	writers.attaching = true;
	writers.large_share = 16;
	(void)pthread_create(&t, NULL, eight, NULL);
	(void)pthread_create(&p, NULL, puncher, NULL);
	for (u64 end = wall() + seconds * NSEC_PER_SEC; wall() < end; cycles++) {
		struct region r =
		    make_region(19, 15, N_CPU, 1, ABI_POLICY_OVERWRITE, (u32)cycles + 1);

		attach(&r, (u32)cycles + 1);
		nap((u32)(random_next(&random) % 1000));
		punch(r.fd);
		nap((u32)(random_next(&random) % 200));
		slot_detach(writers.slot);
		punch(-1);
		region_close(&r);
		if (writers.slot->retired)
			writers_next_slot();
	}
	store_relaxed_u32(&shared->stop, 1);
	(void)pthread_join(t, NULL);
	(void)pthread_join(p, NULL);
	printf("  %lu attachments\n", cycles);
}
