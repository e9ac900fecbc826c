/* SPDX-License-Identifier: MIT */
/* Session slots: mapping a ring and taking it away again under threads that record.
 *
 * A sequence compares the slot's generation first and loads the rest behind it. To detach, the
 * generation is cleared and nothing else; the membarrier restarts every sequence that may have
 * loaded the rest; then the range is covered by anonymous memory, not unmapped: a thread may sit in
 * the kernel in a page fault that a sequence took on the ring, its restart happens on its way back
 * to user space, and if the kernel finds no mapping when it looks again, the thread gets SIGSEGV
 * first. Only behind that fence may the other words change, which is what slot_attach() relies on.
 */
#include "lib/slot.h"

#include "lib/atomic.h"
#include "lib/sequence.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>

#ifndef F_GET_SEALS
#define F_GET_SEALS   1034
#define F_SEAL_SHRINK 2
#endif

/* Users hold a side ring's lock or wait for it, which is bounded to a few milliseconds; a stopped
 * program must not keep its one synchronising thread, though. */
#define USERS_WAIT_NS (100 * NSEC_PER_MSEC)

static int membarrier(int command)
{
	return (int)syscall(SYS_membarrier, command, 0, 0);
}

int slot_register(void)
{
	sequence_detect();
	/* the first restarts our own sequences when a slot is detached; the second lets a snapshot
	 * in another process restart them between its hold and its look at the offsets */
	if (membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_RSEQ) < 0 ||
	    membarrier(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED) < 0)
		return -errno;
	return 0;
}

/* Anonymous memory over [at, at + size), or somewhere. A forked child gets none of it, as of the
 * rings: it has no slot that could know these addresses. */
static u8 *cover(u8 *at, u64 size)
{
	u8 *p = mmap(at, size, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | (at ? MAP_FIXED : 0), -1, 0);

	if (p != MAP_FAILED)
		(void)madvise(p, size, MADV_DONTFORK);
	return p;
}

static int check_file(int fd, u64 size)
{
	struct stat st;
	int seals = fcntl(fd, F_GET_SEALS);

	if (seals < 0)
		return -errno;
	if (!(seals & F_SEAL_SHRINK))
		return -EBADMSG; /* a peer could shorten it: SIGBUS */
	if (fstat(fd, &st) < 0)
		return -errno;
	return st.st_size >= 0 && (u64)st.st_size == size ? 0 : -EBADMSG;
}

/* A range that holds `size`; the one before stays covered where it is too small, as a thread may
 * still be in a fault on it. Ranges grow by powers of two, so that those left behind are never more
 * than the last one. */
static int make_range(struct slot *s, u64 size)
{
	u64 rounded = ABI_PAGE;
	u8 *p;

	if (s->range && s->range_size >= size)
		return 0;
	while (rounded < size)
		rounded <<= 1;
	p = cover(NULL, rounded);
	if (p == MAP_FAILED)
		return -errno;
	s->range = p;
	s->range_size = rounded;
	return 0;
}

int slot_attach(struct slot *s, int fd, const struct geometry *g, u32 generation,
		const u16 *cpu_ring, const u16 *ids, u32 n_ids)
{
	u64 size;
	u8 *map;
	int r;

	if (!generation)
		return -EINVAL;
	if (s->retired || load_relaxed_u32(&s->generation))
		return -EBUSY;
	r = geometry_check(g);
	if (r < 0)
		return r;
	size = geometry_size(g);
	r = check_file(fd, size);
	if (r < 0)
		return r;
	sequence_detect();
	r = make_range(s, size);
	if (r < 0)
		return r;
	/* not populated: pages of CPUs that are not there must stay holes, and a short-lived
	 * program should not pay for a lap it never records. Another thread may fork before the
	 * madvise: that child has the mapping until it execs, but no slot that knows it. */
	map = mmap(s->range, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE,
		   fd, 0);
	if (map == MAP_FAILED)
		return -errno;
	if (madvise(map, size, MADV_DONTFORK) < 0) {
		r = -errno;
		(void)cover(s->range, size);
		return r;
	}
	s->n_ring = g->n_ring;
	s->map = map;
	s->cpu_ring = cpu_ring;
	s->ring_mask = (1ull << g->ring_shift) - 1;
	s->sub_mask = (1ull << g->sub_shift) - 1;
	s->data = geometry_data(g);
	s->shift = g->ring_shift;
	s->policy = g->policy;
	s->contexts = g->contexts;
	s->geometry = *g;
	s->size = size;
	s->ids = ids;
	s->n_ids = n_ids;
	/* last, release: pairs with the load at the head of each sequence and in slot_enter() */
	store_release_u32(&s->generation, generation);
	return 0;
}

/* Waits until no thread is in the mapping outside a sequence. */
static bool wait_for_users(struct slot *s)
{
	struct timespec now, end;

	(void)clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_nsec += (long)USERS_WAIT_NS;
	if (end.tv_nsec >= (long)NSEC_PER_SEC) {
		end.tv_nsec -= (long)NSEC_PER_SEC;
		end.tv_sec++;
	}
	for (;;) {
		/* seq_cst, with the generation cleared before: a user counts itself, then looks at
		 * the generation (both seq_cst too), so that one of us sees the other */
		u32 users = load_seq_cst_u32(&s->users);

		if (!users)
			return true;
		(void)clock_gettime(CLOCK_MONOTONIC, &now);
		if (now.tv_sec > end.tv_sec ||
		    (now.tv_sec == end.tv_sec && now.tv_nsec >= end.tv_nsec))
			return false;
		/* absolute, so that signals do not lengthen it; woken by slot_leave() */
		(void)syscall(SYS_futex, &s->users, FUTEX_WAIT_BITSET_PRIVATE, users, &end, NULL,
			      FUTEX_BITSET_MATCH_ANY);
	}
}

static int fence_sequences(void)
{
#ifdef BROKEN_NOFENCE /* negative control of tests/stress: sequences go on with the old pointer */
	return 0;
#endif
	if (!sequence_offset)
		return 0; /* no thread has ever run one */
	if (membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ) == 0)
		return 0;
	/* a program may have come here without the constructor */
	if (errno != EPERM || membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_RSEQ) < 0)
		return -errno;
	return membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ) < 0 ? -errno : 0;
}

void slot_detach(struct slot *s)
{
	int saved = errno;

	if (!load_relaxed_u32(&s->generation))
		return;
	/* seq_cst: see wait_for_users() */
	store_seq_cst_u32(&s->generation, 0);
#ifdef BROKEN_ZEROED /* negative control of tests/stress: more than the generation, before the     \
			fence */
	s->map = NULL;
	s->ring_mask = s->sub_mask = s->data = 0;
#endif
	/* Without the fence nothing that a sequence has loaded may ever change under it: not the
	 * mapping, nor the slot's other words. */
	if (fence_sequences() < 0)
		s->retired = 1;
	if (!wait_for_users(s))
		s->retired = 1;
	if (!s->retired && cover(s->range, s->size) == MAP_FAILED)
		s->retired = 1; /* the ring stays mapped; the next must not be mapped over it */
	errno = saved;
}

static void mask_signals(const u64 *set, u64 *ret_saved)
{
	/* the bare call: libc's own keeps its internal signals (cancellation, setuid) unblocked,
	 * and their handlers must not run in here either */
	(void)syscall(SYS_rt_sigprocmask, SIG_SETMASK, set, ret_saved, sizeof(u64));
}

bool slot_enter(struct slot *s, u32 generation, sigset_t *saved)
{
	static const u64 all = ~0ull;

	mask_signals(&all, (u64 *)saved);
	/* count, then look; both seq_cst: pairs with slot_detach() and wait_for_users() */
	(void)fetch_add_seq_cst_u32(&s->users, 1);
	if (generation && load_seq_cst_u32(&s->generation) == generation)
		return true;
	slot_leave(s, saved);
	return false;
}

void slot_leave(struct slot *s, const sigset_t *saved)
{
	/* seq_cst, both: if a detach saw us counted and goes to sleep, we see its cleared
	 * generation */
	(void)fetch_add_seq_cst_u32(&s->users, (u32)-1);
	if (unlikely(!load_seq_cst_u32(&s->generation)))
		(void)syscall(SYS_futex, &s->users, FUTEX_WAKE_PRIVATE, 1 << 30, NULL, NULL, 0);
	mask_signals((const u64 *)saved, NULL);
}
