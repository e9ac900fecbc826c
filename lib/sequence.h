/* SPDX-License-Identifier: MIT */
/* The restartable sequences: what one record does to a ring, in assembly, one file per
 * architecture. Each is a function of a request in private memory, or of registers, and the thread's rseq area.
 * Nothing is visible to anybody before the last instruction of a sequence, its commit, which is a
 * single store: a sequence that is preempted, migrated, signalled, killed or fenced by membarrier
 * has not happened.
 *
 * They must live in an object that is never unloaded (libtracer is linked -z nodelete): the kernel
 * reads the descriptor of the last sequence at a thread's next preemption, long after it ended. */
#pragma once

#include "lib/slot.h"

/* offsets in struct request and struct record_part */
#define REQUEST_SLOT       0
#define REQUEST_GENERATION 8
#define REQUEST_IDLEN      12
#define REQUEST_BODY       16
#define REQUEST_BYTES      24
#define REQUEST_STEP       28
#define REQUEST_MULT       32
#define REQUEST_NOW        40
#define REQUEST_RING       48
#define REQUEST_NEED       52
#define REQUEST_CAUSE      56
#define REQUEST_N_PARTS    60
#define REQUEST_PARTS      64
#define REQUEST_AMOUNT     72
#define REQUEST_HEAD       80
#define REQUEST_EDGE       84
#define REQUEST_RENEW      88
#define PART_DATA          0
#define PART_SIZE          8
#define PART_STRING        12
#define PART_STRIDE        16

/* offsets in the kernel's struct rseq */
#define RSEQ_AREA_CPU_ID 4
#define RSEQ_AREA_CS     8
/* in front of every abort address; must be what glibc registered with */
#if defined(__x86_64__)
#define RSEQ_AREA_SIGNATURE 0x53053053
#elif defined(__aarch64__)
#define RSEQ_AREA_SIGNATURE 0xd428bc00
#else
#error "no restartable sequences for this architecture"
#endif

/* what a sequence says */
#define SEQUENCE_DONE      0 /* committed, or nothing was left to do */
#define SEQUENCE_ABORT     1 /* the kernel restarted it */
#define SEQUENCE_STALE     2 /* the slot has another generation */
#define SEQUENCE_NO_RING   3 /* the thread has no rseq, or this CPU has no ring */
#define SEQUENCE_SLOW      4 /* the fast form cannot: take the full one */
#define SEQUENCE_DONE_FULL 5 /* committed by the full form: `base` is to be moved if `renew` is set */
#define SEQUENCE_NO_FIT    6 /* publish the boundary (REQUEST_NEED is set), then again */
#define SEQUENCE_LOST      7 /* to be counted; the cause is in the request */
#define SEQUENCE_CLOCK     8 /* `now` is older than the ring's `last`: read the clock again */

/* bodies up to this many bytes, contexts included, take the fast form's copies of 8 bytes; longer ones are cheaper
 * by the full form's block copy (measured: the two meet between 128 and 256 bytes) */
#define SEQUENCE_FAST_MAX 256

#ifndef __ASSEMBLER__
#include "lib/record.h"

/* One record on its way. Only what its sequences read is set. */
struct request {
	struct slot *slot;
	u32 generation;
	u32 idlen;        /* id | (exact length in the compact form) << 16 */
	const void *body; /* contexts and the head part; readable up to `bytes` */
	u32 bytes;        /* of body, rounded up to 4 */
	u32 step;         /* the whole compact record, rounded up to 4 */
	u64 mult;         /* ABI_CLOCK_COUNTER; 0: the time is `now` */
	u64 now;          /* in: clock MONOTONIC; out: the full form's stamp, for `base` */
	u32 ring;         /* out: where the full form wrote */
	u32 need;         /* out: bytes that did not fit */
	u32 cause;        /* out, and in for sequence_lost: ABI_LOST_* */
	u32 n_parts;      /* more parts behind the body (full form only) */
	const struct record_part *parts;
	u64 amount; /* sequence_lost: how many */
	u32 head;   /* of body, exact: where the parts begin */
	u32 edge;   /* out: not 0 if a boundary was published, or would have been by an attempt that was restarted */
	u32 renew;  /* out, full form: not 0 if it entered a sub-buffer or is extended, so that `base` is to be moved to `now` */
};

#define REQUEST_AT(f, o) _Static_assert(offsetof(struct request, f) == (o), "request." #f)
REQUEST_AT(slot, REQUEST_SLOT);
REQUEST_AT(generation, REQUEST_GENERATION);
REQUEST_AT(idlen, REQUEST_IDLEN);
REQUEST_AT(body, REQUEST_BODY);
REQUEST_AT(bytes, REQUEST_BYTES);
REQUEST_AT(step, REQUEST_STEP);
REQUEST_AT(mult, REQUEST_MULT);
REQUEST_AT(now, REQUEST_NOW);
REQUEST_AT(ring, REQUEST_RING);
REQUEST_AT(need, REQUEST_NEED);
REQUEST_AT(cause, REQUEST_CAUSE);
REQUEST_AT(n_parts, REQUEST_N_PARTS);
REQUEST_AT(parts, REQUEST_PARTS);
REQUEST_AT(amount, REQUEST_AMOUNT);
REQUEST_AT(head, REQUEST_HEAD);
REQUEST_AT(edge, REQUEST_EDGE);
REQUEST_AT(renew, REQUEST_RENEW);
_Static_assert(offsetof(struct record_part, data) == PART_DATA, "record_part.data");
_Static_assert(offsetof(struct record_part, size) == PART_SIZE, "record_part.size");
_Static_assert(offsetof(struct record_part, string) == PART_STRING, "record_part.string");
_Static_assert(sizeof(struct record_part) == PART_STRIDE, "record_part");

/* The usual record: compact, inside a sub-buffer, not up to its last byte, one part. By clock. What a request says of
 * such a record, in registers, in the order that suits the assembly: whoever is told anything but SEQUENCE_DONE
 * still has it. `body` is readable up to a multiple of 4. */
int sequence_fast_counter(const void *body, u64 mult, const struct slot *s, u32 generation, u32 idlen, void *area);
int sequence_fast_given(const void *body, u64 now, const struct slot *s, u32 generation, u32 idlen, void *area);
/* Any record: enters a sub-buffer, extended (both set `renew`), exact fit (sets `edge`), parts. */
int sequence_full(struct request *q, void *area);
/* Publishes the boundary in front of a record that does not fit, and nothing else. SEQUENCE_SLOW: there was nothing to do. */
int sequence_boundary(struct request *q, void *area);
/* base := now, if still on that ring and newer. */
int sequence_base(struct request *q, void *area);
/* lost[cause] += amount on this CPU's ring. */
int sequence_lost(struct request *q, void *area);

/* The descriptors, as the kernel reads them: for tests that visit each instruction. */
struct sequence_descriptor {
	u32 version, flags;
	u64 start, commit_offset, abort;
};
extern const struct sequence_descriptor sequence_first[], sequence_last[];

/* Where the rseq area of a thread is, from its thread pointer; 0: glibc registered none (older
 * than 2.35, GLIBC_TUNABLES=glibc.pthread.rseq=0, valgrind), everybody uses the side rings. Set by
 * sequence_detect(), which slot_register() and slot_attach() call. */
extern ptrdiff_t sequence_offset __attribute__((visibility("hidden")));
void sequence_detect(void);

/* Registers the calling thread's area if it has no registration, although glibc thinks so: a child of vfork has
 * none, shares its parent's area all the same, and what it forks inherits the one and a copy of the other: a CPU
 * number that nobody keeps up, and nobody to restart a sequence. Only for a thread that shares its memory with
 * no other process. */
void sequence_register(void);

static inline char *sequence_thread_pointer(void)
{
	char *p;

#if defined(__x86_64__)
	__asm__("mov %%fs:0, %0" : "=r"(p));
#else
	__asm__("mrs %0, tpidr_el0" : "=r"(p));
#endif
	return p;
}
static inline void *sequence_area(void)
{
	return sequence_thread_pointer() + sequence_offset;
}
#endif
