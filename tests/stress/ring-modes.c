/* SPDX-License-Identifier: MIT */
/* One ring under writers: overwrite with snapshots, discard with a consumer, SIGKILL at random. */
#include "tests/stress/ring.h"

#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static void overwrite(u32 seconds, bool hold)
{
	struct region r = make_region(20, 16, N_CPU, N_SIDE, ABI_POLICY_OVERWRITE, 1);
	u8 *copy = calloc(1, r.size);
	u64 random = seed * 77 + 1;
	pid_t pid;
	int status;

	writers.side_share = 200;
	pid = writers_start(&r, 0, 4);
	for (u64 end = wall() + seconds * NSEC_PER_SEC; wall() < end && n_bad < 100;) {
		check_snapshot(&r, copy, hold);
		nap((u32)(random_next(&random) % 8000));
	}
	store_relaxed_u32(&shared->stop, 1);
	if (waitpid(pid, &status, 0) != pid || status)
		bad("producer ended with %x", (unsigned)status);
	check_snapshot(&r, copy, true);
	check_totals(&r, 4);
	printf("  snapshots %lu (not held to the end: %lu, longest %lu us), records checked %lu "
	       "(extended %lu), walked off %lu\n",
	       checked.snapshots, checked.late, checked.longest_ns / 1000, checked.records,
	       checked.extended, checked.walked_off);
	printf(
	    "  reach back >= %lu %% over %lu rings; calls that had returned and were found %lu\n",
	    checked.reach, checked.reaches, checked.returned);
	if (!checked.extended || !checked.returned)
		bad("nothing was proved: %lu extended, %lu returned", checked.extended,
		    checked.returned);
	free(copy);
	region_close(&r);
}

void mode_overwrite(u32 seconds)
{
	overwrite(seconds, true);
}

/* The rule "drop what the writer stands before or in, one lap back, and all that is older" alone
 * keeps all of it right; only the reach goes. */
void mode_overwrite_nohold(u32 seconds)
{
	overwrite(seconds, false);
}

#define MAX_NUMBER (1ull << 30)
static u8 *bits[MAX_WHO][2];

struct consumer {
	u64 at, clock, floor, count;
};

static void mark(u32 ring, const struct record *record, const struct pay *p)
{
	u8 *byte = &bits[p->who][id_kind(record->id)][p->number % MAX_NUMBER / 8];
	u8 bit = (u8)(1u << (p->number & 7));

	if (*byte & bit)
		bad("ring %u: who %u number %lu twice", ring, p->who, p->number);
	*byte |= bit;
}

static u64 consume(const struct reader *r, u32 ring, struct consumer *c, struct abi_control *page)
{
	u64 offset, count, n = 0;

	if (reader_position(r, &offset, &count) < 0) {
		bad("ring %u: no position", ring);
		return 0;
	}
	if (c->at == offset)
		return 0;
	while (c->at < offset) {
		u64 in = c->at & (r->sub_size - 1), start = c->at - in;
		const u8 *sub = r->data + (start & (r->size - 1));
		const struct abi_sub *h = (const struct abi_sub *)sub;
		u64 end = offset >= start + r->sub_size ? h->end : offset;

		if (!in) {
			if (h->position != start || h->count != c->count)
				bad("ring %u at %lu: header says %lu, count %lu for %lu", ring,
				    start, h->position, h->count, c->count);
			c->clock = h->begin;
			in = ABI_SUB_HEADER;
		}
		if (end < start + in || end > start + r->sub_size) {
			bad("ring %u: end %lu in %lu", ring, end, start);
			end = start + in;
		}
		while (start + in < end) {
			struct record one;
			struct pay pay;
			u32 step = record_parse(sub + in, end - start - in, &c->clock, &one);

			if (!step) {
				bad("ring %u: not walkable at %lu", ring, start + in);
				break;
			}
			in += step;
			c->count++;
			n++;
			if (check_record(&one, c->floor, ring, &pay)) {
				c->floor = one.time;
				mark(ring, &one, &pay);
			}
		}
		c->at = offset >= start + r->sub_size ? start + r->sub_size : end;
		reader_consume(r, c->at);
		/* as the daemon does it (daemon/beacon.c), which this room does not know */
		(void)fetch_add_seq_cst_u32(&page->progress[0], 1);
		(void)syscall(SYS_futex, &page->progress[0], FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
	}
	if (c->count != count)
		bad("ring %u: walked %lu, counted %lu", ring, c->count, count);
	return n;
}

/* Every number is seen once or counted lost, exactly; under `block`, with a reader that is slow and lives, seen once. */
static void every_number(u32 seconds, u32 policy)
{
	struct region r = make_region(18, 14, N_CPU, N_SIDE, policy, 1);
	struct abi_control *page = mmap(NULL, ABI_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct consumer c[N_RINGS] = {0};
	struct reader readers[N_RINGS];
	u64 seen = 0, end, lost;
	struct state o;
	int status = 0;
	pid_t pid;

	for (u32 w = 0; w < MAX_WHO; w++)
		for (u32 k = 0; k < 2; k++)
			bits[w][k] = mmap(NULL, MAX_NUMBER / 8, PROT_READ | PROT_WRITE,
					  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	for (u32 i = 0; i < N_RINGS; i++)
		reader_init(&readers[i], r.map, &r.geometry, i);
	writers.number_lost = true;
	writers.side_share = 200;
	if (page == MAP_FAILED)
		_exit(2);
	page->slot_generation[0] = 1;
	if (policy == ABI_POLICY_BLOCK)
		slot_watch(writers.slot, page, 0, 60 * 1000000);
	pid = writers_start(&r, 0, 4);
	end = wall() + seconds * NSEC_PER_SEC;
	for (bool over = false; n_bad < 100;) {
		u64 got = 0;

		for (u32 i = 0; i < N_RINGS; i++)
			got += consume(&readers[i], i, &c[i], page);
		seen += got;
		if (over)
			break;
		if (wall() >= end)
			store_relaxed_u32(&shared->stop, 1);
		if (policy == ABI_POLICY_BLOCK && !over)
			nap(2000); /* most of the time the rings are full */
		if (!got && waitpid(pid, &status, WNOHANG) == pid)
			over = true; /* once more, for what came between the two */
		else if (!got)
			nap(50);
	}
	if (status)
		bad("producer ended with %x", (unsigned)status);
	writers_total(4, &o);
	lost = check_lost(&r, true);
	if (seen + lost != o.number[0] + o.number[1] || lost != o.lost[0] + o.lost[1])
		bad("numbers %lu, seen %lu, lost in rings %lu, in threads %lu",
		    o.number[0] + o.number[1], seen, lost, o.lost[0] + o.lost[1]);
	/* (busy is a side ring's lock, whose holder was away: under every policy) */
	for (u32 i = 0; i < N_RINGS; i++)
		if (policy == ABI_POLICY_BLOCK && reader_lost_by(&readers[i], ABI_LOST_FULL))
			bad("ring %u: lost although the reader lives", i);
	printf("  numbers %lu = seen once %lu + counted %lu; extended %lu, by handlers %lu\n",
	       o.number[0] + o.number[1], seen, lost, checked.extended, o.number[1]);
	(void)munmap(page, ABI_PAGE);
	region_close(&r);
}

void mode_discard(u32 seconds)
{
	every_number(seconds, ABI_POLICY_DISCARD);
}

void mode_block(u32 seconds)
{
	every_number(seconds, ABI_POLICY_BLOCK);
}

/* Four processes of two threads on one set of rings, SIGKILL at random: a snapshot after each death
 * holds what the dead had been told is recorded. */
void mode_kill(u32 seconds)
{
	enum { PROCESSES = 4, THREADS = 2 };
	struct region r = make_region(19, 15, N_CPU, N_SIDE, ABI_POLICY_OVERWRITE, 1);
	/* so many deaths instead of so many seconds */
	const char *wanted = getenv("TRACER_STRESS_KILLS");
	u64 most = wanted ? strtoull(wanted, NULL, 0) : UINT64_MAX;
	u64 until = wanted ? UINT64_MAX : wall() + seconds * NSEC_PER_SEC;
	u64 kills = 0, broken = 0, with_records = 0, random = seed * 13 + 5;
	u8 *copy = calloc(1, r.size);
	pid_t pid[PROCESSES];

	writers.side_share = 20;
	/* eight threads that never sleep would have the killer wait for its turn longer than it works; the writers
	 * it starts take their own priority back */
	(void)setpriority(PRIO_PROCESS, 0, -15);
	for (u32 i = 0; i < PROCESSES; i++)
		pid[i] = writers_start(&r, i * THREADS, THREADS);
	for (; kills < most && wall() < until && n_bad < 100; kills++) {
		u32 k = (u32)(random_next(&random) % PROCESSES);
		int status;

		nap((u32)(random_next(&random) % 4000));
		(void)kill(pid[k], SIGKILL);
		(void)waitpid(pid[k], &status, 0);
		if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
			bad("process %u ended with %x", k, (unsigned)status);
		for (u32 i = N_CPU; i < N_RINGS; i++) {
			struct reader reader;

			reader_init(&reader, r.map, &r.geometry, i);
			broken += side_break(reader.line, k * THREADS + 1, 0);
		}
		with_records += shared->t[k * THREADS].number[0] > 0;
		/* not after each: the writers should be killed at work, not while they are held off */
		if (kills % 8 == 0)
			check_snapshot(&r, copy, true);
		for (u32 w = k * THREADS; w < (k + 1) * THREADS; w++) {
			shared->incarnation[w]++;
			memset(&shared->t[w], 0, sizeof(shared->t[w]));
		}
		pid[k] = writers_start(&r, k * THREADS, THREADS);
	}
	for (u32 i = 0; i < PROCESSES; i++) {
		(void)kill(pid[i], SIGKILL);
		(void)waitpid(pid[i], NULL, 0);
	}
	(void)setpriority(PRIO_PROCESS, 0, 0);
	check_snapshot(&r, copy, true);
	(void)check_lost(&r, true);
	printf("  kills %lu (%lu had recorded), side locks broken %lu, snapshots %lu (late %lu), "
	       "records checked %lu (extended %lu), returned and found %lu, reach >= %lu %%\n",
	       kills, with_records, broken, checked.snapshots, checked.late, checked.records,
	       checked.extended, checked.returned, checked.reach);
	if (!with_records)
		bad("nobody had recorded");
	free(copy);
	region_close(&r);
}
