/* SPDX-License-Identifier: MIT */
/* A session slot of this process: what a sequence loads first. Slots live on private memory that the
 * kernel wipes in a forked child (MADV_WIPEONFORK), by whatever call it forks: a wiped slot has
 * generation 0, so that a child has no ring until it attaches as itself. */
#pragma once

#include "lib/abi.h"

/* offsets for the sequences */
#define SLOT_GENERATION 0
#define SLOT_N_RING	4
#define SLOT_MAP	8
#define SLOT_CPU_RING	16
#define SLOT_RING_MASK	24
#define SLOT_SUB_MASK	32
#define SLOT_DATA	40
#define SLOT_SHIFT	48
#define SLOT_POLICY	52

#ifndef __ASSEMBLER__
#include "lib/geometry.h"
#include <signal.h>

struct slot {
	/* 0: no ring. slot_attach() stores it last (release); slot_detach() clears it and nothing else
	 * before its fence. Sequences load it first and compare; x86 loads in order, aarch64 by ldar. */
	u32 generation;
	u32 n_ring;
	u8 *map;
	const u16 *cpu_ring; /* the control page's map */
	u64 ring_mask, sub_mask;
	u64 data; /* offset of the first ring in the region */
	u32 shift, policy;

	/* not for sequences */
	u32 users;	   /* threads that touch the mapping outside a sequence (seq_cst, see slot.c) */
	u32 contexts;
	struct geometry geometry;
	u64 size;
	u8 *range;	   /* addresses kept for this slot's rings, never unmapped once used */
	u64 range_size;
	const u16 *ids;	   /* id of each class index in this session, 0: not wanted */
	u32 n_ids;
	u32 pinned;	   /* number of this program's pinned ring in the region, 0: none (relaxed) */
	u32 retired;	   /* its users never left: the mapping stays, the slot is not used again */

	/* The control page's words of this slot (lib/abi.h 9), constant once set; NULL: nobody is woken, nobody waits. */
	const u32 *wake, *progress, *session;
	u32 block_timeout_us; /* relaxed */
	u64 stalled;	      /* relaxed; see waiter.c */
} __attribute__((aligned(64))); /* what a sequence loads is one cache line */

_Static_assert(offsetof(struct slot, geometry) == 64, "the line of a record");
#define SLOT_AT(f, o) _Static_assert(offsetof(struct slot, f) == (o), "slot." #f)
SLOT_AT(generation, SLOT_GENERATION);
SLOT_AT(n_ring, SLOT_N_RING);
SLOT_AT(map, SLOT_MAP);
SLOT_AT(cpu_ring, SLOT_CPU_RING);
SLOT_AT(ring_mask, SLOT_RING_MASK);
SLOT_AT(sub_mask, SLOT_SUB_MASK);
SLOT_AT(data, SLOT_DATA);
SLOT_AT(shift, SLOT_SHIFT);
SLOT_AT(policy, SLOT_POLICY);

/* Maps the region behind fd (borrowed; the caller closes it) and makes the slot usable for `generation`.
 * The slot must be detached. Checks F_GET_SEALS (SHRINK must be there, else a peer could shorten the file
 * under us) and the size of the file against geometry_size(g). Maps with MADV_DONTFORK. `ids` is kept, not
 * copied. Returns 0 or -errno; on failure the slot stays detached. Called under the attach lock only.
 * Async-signal-safe. */
int slot_attach(struct slot *s, int fd, const struct geometry *g, u32 generation,
		const u16 *cpu_ring, const u16 *ids, u32 n_ids);

/* Who is woken when a sub-buffer is full, and what a refused record waits for, at most how long. Before the first
 * slot_attach(); again at any time for another timeout. */
void slot_watch(struct slot *s, const struct abi_control *page, u32 slot, u32 block_timeout_us);

/* Which pinned ring of the region is this program's, 0: none. At any time. */
void slot_pin(struct slot *s, u32 ring);

/* Ends the use of the ring: generation 0, membarrier(PRIVATE_EXPEDITED_RSEQ), waits (bounded) for users, then
 * covers the range with anonymous memory. If the membarrier fails or the users do not leave, the
 * mapping stays, and the slot is retired. Users hold a side ring's lock or wait for it, which takes them a few
 * milliseconds at most; who detaches several slots bounds the whole by a deadline of his own
 * (CLOCK_MONOTONIC, ns). Async-signal-safe. */
#define SLOT_USERS_WAIT (100 * NSEC_PER_MSEC)
void slot_detach(struct slot *s);
void slot_detach_until(struct slot *s, u64 deadline);

/* Both membarrier registrations; from the constructor, while there is one thread (later each costs an
 * RCU grace period of about 10 ms). 0 or -errno: without it nothing is ever detached. */
int slot_register(void);

/* For code that touches the mapping outside a sequence: blocks all signals, counts a user, then looks at
 * the generation again. True: go on, then slot_leave(). False: stale, nothing to undo. */
bool slot_enter(struct slot *s, u32 generation, sigset_t *saved);
void slot_leave(struct slot *s, const sigset_t *saved);
#endif
