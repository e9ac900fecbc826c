/* SPDX-License-Identifier: MIT */
/* The shape of one ring region, in private memory. The daemon decides it (geometry_plan), the wire
 * carries it, both ends check it (geometry_check) before they map anything, and no one ever reads
 * it back from shared memory. */
#pragma once

#include "lib/abi.h"
#include "lib/base.h"

struct geometry {
	u32 ring_shift, sub_shift;      /* per-CPU rings: log2 of bytes, of a sub-buffer */
	u32 side_shift, side_sub_shift; /* side rings */
	u32 n_ring;                     /* for all possible CPUs; those offline are holes */
	u32 n_side;
	u32 policy;   /* ABI_POLICY_* */
	u32 contexts; /* ABI_CONTEXT_* bits */
	u32 pinned_shift, pinned_sub_shift; /* pinned rings; 0 where there is none */
	u32 n_pinned;
};

#define GEOMETRY_SIDES     2
#define GEOMETRY_MAX_SIDES 64
#define GEOMETRY_MAX_PINNED 64

/* Plans a region: the largest power-of-two rings such that `n_online` per-CPU rings and the side
 * rings (two, an eighth of a ring each, at least 64 KiB) fit in `memory` bytes. sub_buffers: how
 * many per ring, a power of two >= ABI_MIN_SUBS (a side ring has fewer, but never fewer than that,
 * where they would come out smaller than 4 KiB). A record must fit an empty sub-buffer: those of
 * the full 64 KiB need sub-buffers of 128 KiB, others are counted ABI_LOST_BIG. Returns 0, or
 * -ENOSPC when memory is too small (then *ret_minimum, if not NULL, says how many bytes are the
 * least), -EINVAL for impossible counts. */
int geometry_plan(struct geometry *ret, u64 memory, u32 sub_buffers, u32 n_online, u32 n_possible,
		  u32 policy, u32 contexts, u64 *ret_minimum);

/* Adds n pinned rings to a planned region, the largest that fit in `memory` bytes of their own. 0, or -ENOSPC
 * (*ret_minimum says how many bytes are the least), -EINVAL for an impossible n. */
int geometry_plan_pinned(struct geometry *g, u64 memory, u32 n, u64 *ret_minimum);

/* 0 if every number is within the limits of abi.h and the sizes do not overflow, else -EBADMSG. */
int geometry_check(const struct geometry *g);

/* For a checked geometry: bytes of the whole region; offset of the first ring's data; and of ring
 * i, which counts per-CPU rings first (0 .. n_ring - 1), then side rings, then pinned rings. */
u64 geometry_size(const struct geometry *g);
u64 geometry_data(const struct geometry *g);
u64 geometry_ring_at(const struct geometry *g, u32 i);
u64 geometry_ring_size(const struct geometry *g, u32 i);
u64 geometry_sub_size(const struct geometry *g, u32 i);
/* All of them. */
static inline u32 geometry_rings(const struct geometry *g)
{
	return g->n_ring + g->n_side + g->n_pinned;
}
/* No CPU's: written under a lock, allocated from the beginning. Pinned rings are such, too. */
static inline bool geometry_is_side(const struct geometry *g, u32 i)
{
	return i >= g->n_ring;
}
static inline bool geometry_is_pinned(const struct geometry *g, u32 i)
{
	return i >= g->n_ring + g->n_side;
}
/* Nothing in ring i is overwritten that was not given back: by the policy, or because it is pinned. */
static inline bool geometry_keeps(const struct geometry *g, u32 i)
{
	return g->policy != ABI_POLICY_OVERWRITE || geometry_is_pinned(g, i);
}
/* Bytes of memory a region takes with n rings allocated: header, lines, n rings, side and pinned rings. */
u64 geometry_memory(const struct geometry *g, u32 n_allocated);
