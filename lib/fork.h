/* SPDX-License-Identifier: MIT */
/* What is true of one process only, and must not be believed by a forked child: it lies on memory
 * that the kernel wipes in the child (MADV_WIPEONFORK), by whatever call it forks, so that no
 * handler of ours has to run there. A wiped child has no ring, no answer, no lock held, and no
 * known pid. */
#pragma once

#include <pthread.h>

#include "lib/atomic.h"
#include "lib/record.h"
#include "lib/tracer.h"
#include "lib/wire.h"

#define FORK_MAX_MARKS 32
#define FORK_TRIGGERS  64

/* The kernel wipes whole pages, and where pages may have 64 KiB nothing else may share them. */
#ifdef __x86_64__
#define FORK_ALIGN 4096
#else
#define FORK_ALIGN 65536
#endif

/* A thread that is in vfork: its child runs on its memory and thread pointer, but not under its
 * rseq registration. */
struct vfork_mark {
	u64 thread; /* 0: free */
	u32 lost[ABI_MAX_SLOTS];
};

struct process {
	/* hot: every record reads these */
	u32 pid;       /* 0: not known yet, nobody has recorded here */
	u32 vforks;   /* under way: marks in use, and `everyone` */
	u32 producer; /* the daemon's number for this process */
	u32 everyone; /* vforks that found no free mark: nobody records meanwhile */
	struct record_clock clock;
	u64 mult; /* of the clock where it is the counter, else 0 */
	u64 quick; /* the same, and there are sequences and a key: nothing more is to be asked; else 0 */

	/* the synchronisation (attach.c) */
	u32 attach_lock;
	u32 euid;      /* that the rings were given to */
	u64 attempted; /* 1 << 32 | generation of the last exchange, however it ended; 0: none */
	u32 answered;  /* generation of the last answer */
	u32 attempted_classes; /* that the last exchange carried */
	u32 attempt_failed; /* how often, one after the other */
	u32 catalog_lock;
	u32 retry;     /* the page's, before the last exchange */
	u64 retry_at;  /* CLOCK_MONOTONIC, ns: when to ask again, it having moved since; 0: not seen yet */
	u64 missed, failed; /* see wire_hello */
	u64 told[FORK_TRIGGERS]; /* the last notices of triggers, see request.c */

	struct vfork_mark marks[FORK_MAX_MARKS];
	u64 inode[ABI_MAX_SLOTS]; /* of the memfd behind each slot */
	struct slot slots[ABI_MAX_SLOTS];
	struct tracer_state states[WIRE_MAX_CLASSES];
} __attribute__((aligned(FORK_ALIGN)));

extern struct process process __attribute__((visibility("hidden")));

/* Marks the memory; makes the key of the cached tids. From the constructor. 0 or -errno. */
int fork_prepare(void);

/* A pthread key costs no static TLS, which a host that loads us late may have none left of, and the first
 * 32 keys lie inside the thread's own descriptor: getting and setting them neither allocates nor locks.
 * Its value is what fork_identity() returns. */
extern pthread_key_t fork_key __attribute__((visibility("hidden")));
extern bool fork_key_usable __attribute__((visibility("hidden")));
u64 fork_identity_slow(void);

/* vpid | vtid << 32 of the calling thread. A forked child has one thread, whose value is its parent's; the wiped
 * pid is nobody's, so that its first record finds out and sets it right. The first form only where the key is known
 * to be usable. */
static inline u64 fork_identity_by_key(void)
{
	u64 v = (u64)(uintptr_t)pthread_getspecific(fork_key);

	return likely(v && (u32)v == load_relaxed_u32(&process.pid)) ? v : fork_identity_slow();
}
static inline u64 fork_identity(void)
{
	return likely(fork_key_usable) ? fork_identity_by_key() : fork_identity_slow();
}

/* If the calling thread is in a vfork, counts a loss for each slot in `bits` and says so. Ask only
 * when process.vforks is not 0. */
bool fork_marked(u64 bits);

/* Around the system call, from the assembly. */
void fork_vfork_begin(void);
long fork_vfork_end(long result);
