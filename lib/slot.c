/* SPDX-License-Identifier: MIT */
/* Session slots: mapping a ring and taking it away again under threads that record.
 *
 * A sequence compares the slot's generation first and loads the rest behind it. To detach, the generation is
 * cleared and nothing else; the membarrier restarts every sequence that may have loaded the rest; then
 * the range is covered by anonymous memory, not unmapped: a thread may sit in the kernel in a page fault
 * that a sequence took on the ring, its restart happens on its way back to user space, and if the
 * kernel finds no mapping when it looks again, the thread gets SIGSEGV first. Only behind that fence may
 * the other words change, which is what slot_attach() relies on. */
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
#define F_GET_SEALS 1034
#define F_SEAL_SHRINK 2
#endif

static int membarrier(int command)
{
	return (int)syscall(SYS_membarrier, command, 0, 0);
}

int slot_register(void)
{
	sequence_detect();
	/* the first restarts our own sequences when a slot is detached; the second lets a snapshot in
	 * another process restart them between its hold and its look at the offsets */
	if (membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_RSEQ) < 0 ||
	    membarrier(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED) < 0)
		return -errno;
	return 0;
}

/* A mapping that takes the place of whatever is at `at` in one step, or goes somewhere (NULL), with not one
 * page of it touched. In a program that has called mlockall(MCL_FUTURE) the kernel fills a new mapping at
 * once, holes too: the rings of CPUs that are not there, at the expense of all who share them, or as much
 * anonymous memory. It does not fill what nobody may access; so it begins like that, and is unlocked before it
 * is opened. It is moved into its place last, since a thread may be in a fault on those addresses, which
 * must find them accessible. A forked child gets none of it: it has no slot that could know the addresses. */
static u8 *map_untouched(u8 *at, u64 size, int flags, int fd)
{
	u8 *p = mmap(NULL, size, PROT_NONE, flags | MAP_NORESERVE, fd, 0), *placed = p;
	int saved;

	if (p == MAP_FAILED)
		return NULL;
	if (madvise(p, size, MADV_DONTFORK) == 0 && munlock(p, size) == 0 &&
	    mprotect(p, size, PROT_READ | PROT_WRITE) == 0) {
		if (at)
			placed = mremap(p, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, at);
		if (placed != MAP_FAILED)
			return placed;
	}
	saved = errno;
	(void)munmap(p, size);
	errno = saved;
	return NULL;
}

/* Anonymous memory over [at, at + size), or somewhere. */
static u8 *cover(u8 *at, u64 size)
{
	return map_untouched(at, size, MAP_PRIVATE | MAP_ANONYMOUS, -1);
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

/* A range that holds `size`; the one before stays covered where it is too small, as a thread may still be
 * in a fault on it. Ranges grow by powers of two, so that those left behind are never more than the
 * last one. */
static int make_range(struct slot *s, u64 size)
{
	u64 rounded = ABI_PAGE;
	u8 *p;

	if (s->range && s->range_size >= size)
		return 0;
	while (rounded < size)
		rounded <<= 1;
	p = cover(NULL, rounded);
	if (!p)
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
	/* pages of CPUs that are not there must stay holes, and a short-lived program should not pay for a
	 * lap it never records */
	map = map_untouched(s->range, size, MAP_SHARED, fd);
	if (!map)
		return -errno;
	s->n_ring = g->n_ring;
	s->map = map;
	s->cpu_ring = cpu_ring;
	s->ring_mask = (1ull << g->ring_shift) - 1;
	s->sub_mask = (1ull << g->sub_shift) - 1;
	s->data = geometry_data(g);
	s->shift = g->ring_shift;
	s->policy = g->policy;
	/* relaxed: a recorder of a generation before may look at these; what it makes of them its sequence, or slot_enter(),
	 * refuses with its generation */
	store_relaxed_u32(&s->contexts, g->contexts);
	s->geometry = *g;
	s->size = size;
	s->ids = ids;
	store_relaxed_u32(&s->n_ids, n_ids);
	store_relaxed_u64(&s->stalled, 0);
	/* last, release: pairs with the load at the head of each sequence and in slot_enter() */
	store_release_u32(&s->generation, generation);
	return 0;
}

void slot_watch(struct slot *s, const struct abi_control *page, u32 slot, u32 block_timeout_us)
{
	/* Only ever these values: writers of an earlier generation may read them. The generation (release) publishes them. */
	s->wake = &page->wake[slot];
	s->progress = &page->progress[slot];
	s->session = &page->slot_generation[slot];
	/* relaxed: a record that waits by the timeout of before does so once */
	store_relaxed_u32(&s->block_timeout_us, block_timeout_us);
}

void slot_pin(struct slot *s, u32 ring)
{
	/* relaxed: whoever uses it holds it against the slot's geometry of that moment (side.c) */
	store_relaxed_u32(&s->pinned, ring);
}

/* Waits until no thread is in the mapping outside a sequence, or the deadline (CLOCK_MONOTONIC) is over. */
static bool wait_for_users(struct slot *s, u64 deadline)
{
	const struct timespec end = { (time_t)(deadline / NSEC_PER_SEC), (long)(deadline % NSEC_PER_SEC) };
	for (;;) {
		/* seq_cst, with the generation cleared before: a user counts itself, then looks at the
		 * generation (both seq_cst too), so that one of us sees the other */
		u32 users = load_seq_cst_u32(&s->users);

		if (!users)
			return true;
		if (monotonic_ns() >= deadline)
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

void slot_detach_until(struct slot *s, u64 deadline)
{
	int saved = errno;

	if (!load_relaxed_u32(&s->generation))
		return;
	/* seq_cst: see wait_for_users() */
	store_seq_cst_u32(&s->generation, 0);
#ifdef BROKEN_ZEROED /* negative control of tests/stress: more than the generation, before the fence */
	s->map = NULL;
	s->ring_mask = s->sub_mask = s->data = 0;
#endif
	/* Without the fence nothing that a sequence has loaded may ever change under it: not the mapping,
	 * nor the slot's other words. */
	if (fence_sequences() < 0)
		s->retired = 1;
	if (!wait_for_users(s, deadline))
		s->retired = 1;
	if (!s->retired && !cover(s->range, s->size))
		s->retired = 1; /* the ring stays mapped; the next must not be mapped over it */
	errno = saved;
}

void slot_detach(struct slot *s)
{
	slot_detach_until(s, monotonic_ns() + SLOT_USERS_WAIT);
}

static void mask_signals(const u64 *set, u64 *ret_saved)
{
	/* the bare call: libc's own keeps its internal signals (cancellation, setuid) unblocked, and their
	 * handlers must not run in here either */
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
	/* seq_cst, both: if a detach saw us counted and goes to sleep, we see its cleared generation */
	(void)fetch_add_seq_cst_u32(&s->users, (u32)-1);
	if (unlikely(!load_seq_cst_u32(&s->generation)))
		(void)syscall(SYS_futex, &s->users, FUTEX_WAKE_PRIVATE, 1 << 30, NULL, NULL, 0);
	mask_signals((const u64 *)saved, NULL);
}
