/* SPDX-License-Identifier: MIT */
#include "lib/fork.h"

#include "lib/sequence.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>

/* In .bss: no mapping of our own, and no memory before somebody writes there. */
struct process process;

_data_ pthread_key_t fork_key;
_data_ bool fork_key_usable;

int fork_prepare(void)
{
	if (madvise(&process, sizeof(process), MADV_WIPEONFORK) < 0)
		return -errno;
	/* glibc keeps the first 32 in struct pthread; a later one would make setspecific allocate
	 */
	if (pthread_key_create(&fork_key, NULL) == 0) {
		fork_key_usable = fork_key < 32;
		if (!fork_key_usable)
			(void)pthread_key_delete(fork_key);
	}
	return 0;
}

u64 fork_identity_slow(void)
{
	int saved = errno;
	u32 pid = (u32)syscall(SYS_getpid);
	u64 ids = pid | (u64)(u32)syscall(SYS_gettid) << 32;

	/* The first in this process, or one that recorded in another: forked, perhaps, by a child of vfork, and
	 * so without a registration. */
	if (!load_relaxed_u32(&process.pid) || (fork_key_usable && pthread_getspecific(fork_key)))
		sequence_register();
	if (fork_key_usable)
		(void)pthread_setspecific(fork_key, (void *)(uintptr_t)ids);
	/* relaxed: whoever races here stores the same */
	store_relaxed_u32(&process.pid, pid);
	errno = saved;
	return ids;
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
		/* it may be anybody's, and no parent will add it up: the daemon hears of it */
		(void)fetch_add_relaxed_u64(&process.missed, (u64)__builtin_popcountll(bits));
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
