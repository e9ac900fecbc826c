/* SPDX-License-Identifier: MIT */
#include "lib/fork.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>

/* In .bss: no mapping of our own, and no memory before somebody writes there. */
struct process process;

pthread_key_t fork_key;
bool fork_key_usable;

int fork_prepare(void)
{
	if (madvise(&process, sizeof(process), MADV_WIPEONFORK) < 0)
		return -errno;
	/* glibc keeps the first 32 in struct pthread; a later one would make setspecific allocate
	 */
	if (pthread_key_create(&fork_key, NULL) == 0)
		fork_key_usable = fork_key < 32;
	return 0;
}

u64 fork_identity_slow(void)
{
	u64 epoch = load_acquire_u64(&process.epoch);
	u32 tid = (u32)syscall(SYS_gettid);

	if (!epoch) {
		struct timespec t;
		u64 now;

		/* The time tells a child's values from its parent's: a fork takes longer than the
		 * microsecond that this counts in. 42 bits of it wrap after 52 days. */
		clock_gettime(CLOCK_MONOTONIC, &t);
		now = ((u64)t.tv_sec * NSEC_PER_SEC + (u64)t.tv_nsec) >> 10;
		now = (now & ((1ull << (64 - FORK_TID_BITS)) - 1)) | 1;
		/* all who race here store the same pid; whoever sees the epoch (acquire) sees it */
		store_relaxed_u32(&process.pid, (u32)syscall(SYS_getpid));
		if (cas_acq_rel_u64(&process.epoch, &epoch, now))
			epoch = now;
	}
	if (fork_key_usable)
		(void)pthread_setspecific(fork_key,
					  (void *)(uintptr_t)(epoch << FORK_TID_BITS | tid));
	return load_relaxed_u32(&process.pid) | (u64)tid << 32;
}

/* ---- vfork ---- */

static u64 thread_pointer(void)
{
	u64 p;

#if defined(__x86_64__)
	__asm__("mov %%fs:0, %0" : "=r"(p));
#elif defined(__aarch64__)
	__asm__("mrs %0, tpidr_el0" : "=r"(p));
#else
#error "tracer runs on x86-64 and aarch64"
#endif
	return p;
}

static struct vfork_mark *find_mark(u64 thread)
{
	for (u32 i = 0; i < FORK_MAX_MARKS; i++)
		if (load_relaxed_u64(&process.marks[i].thread) == thread)
			return &process.marks[i];
	return NULL;
}

bool fork_marked(u64 bits)
{
	struct vfork_mark *m;

	if (load_relaxed_u32(&process.everyone)) {
		(void)fetch_add_relaxed_u64(&process.everyone_lost, 1);
		return true;
	}
	/* Orders are relaxed throughout: only the thread itself, and its child, which runs while it
	 * does not, look for its own mark. */
	m = find_mark(thread_pointer());
	if (!m)
		return false;
	for (; bits; bits &= bits - 1)
		(void)fetch_add_relaxed_u32(&m->lost[__builtin_ctzll(bits)], 1);
	return true;
}

void fork_vfork_begin(void)
{
	u64 thread = thread_pointer();

	(void)fetch_add_relaxed_u32(&process.vforks, 1);
	for (u32 i = 0; i < FORK_MAX_MARKS; i++) {
		u64 expected = 0;

		if (cas_acquire_u64(&process.marks[i].thread, &expected, thread))
			return;
	}
	/* Better nobody records for a moment than one in another CPU's ring. */
	(void)fetch_add_relaxed_u32(&process.everyone, 1);
}

/* The mark given back last cannot be told from the others of the same thread, and need not be: they
 * are all its own, one for each vfork inside a vfork. */
long fork_vfork_end(long result)
{
	struct vfork_mark *m = find_mark(thread_pointer()), *outer;
	u32 lost[ABI_MAX_SLOTS];
	bool any = false;

	if (!m) {
		(void)fetch_add_relaxed_u32(&process.everyone, (u32)-1);
	} else {
		for (u32 i = 0; i < ABI_MAX_SLOTS; i++) {
			lost[i] = load_relaxed_u32(&m->lost[i]);
			if (lost[i]) {
				store_relaxed_u32(&m->lost[i], 0);
				any = true;
			}
		}
		store_release_u64(&m->thread, 0);
	}
	(void)fetch_add_relaxed_u32(&process.vforks, (u32)-1);
	if (any) {
		outer = find_mark(thread_pointer());
		for (u32 i = 0; i < ABI_MAX_SLOTS; i++) {
			struct slot *s = &process.slots[i];
			u32 generation;

			if (!lost[i])
				continue;
			if (outer) {
				(void)fetch_add_relaxed_u32(&outer->lost[i], lost[i]);
				continue;
			}
			generation = load_acquire_u32(&s->generation);
			if (generation)
				record_lose(s, generation, fork_identity(), ABI_LOST_VFORK,
					    lost[i]);
		}
	}
	if (result < 0) {
		errno = (int)-result;
		return -1;
	}
	return result;
}
