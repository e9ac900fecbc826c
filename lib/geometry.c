/* SPDX-License-Identifier: MIT */
/* The shape of a ring region. All arithmetic stays far below 2^64: 4096 rings of 2^32 bytes are
 * 2^44. */
#include "lib/geometry.h"

#define SIDE_MIN_SHIFT 16 /* 64 KiB: 16 sub-buffers of a page */
#define SIDE_FRACTION  3  /* a side ring is an eighth of a per-CPU ring: few threads use it */

static u32 log2_of(u64 power)
{
	return (u32)__builtin_ctzll(power);
}

static void shape(struct geometry *g, u32 ring_shift, u32 subs_shift)
{
	g->ring_shift = ring_shift;
	g->sub_shift = ring_shift - subs_shift;
	g->side_shift = MAX(ring_shift - SIDE_FRACTION, SIDE_MIN_SHIFT);
	g->side_sub_shift = g->side_shift > subs_shift ? g->side_shift - subs_shift : 0;
	g->side_sub_shift = MAX(g->side_sub_shift, ABI_MIN_SUB_SHIFT);
}

int geometry_plan(struct geometry *ret, u64 memory, u32 sub_buffers, u32 n_online, u32 n_possible,
		  u32 policy, u32 contexts, u64 *ret_minimum)
{
	struct geometry g = {
	    .n_ring = n_possible,
	    .n_side = GEOMETRY_SIDES,
	    .policy = policy,
	    .contexts = contexts,
	};
	u32 subs, shift;

	if (!n_online || n_online > n_possible || n_possible > ABI_MAX_CPUS)
		return -EINVAL;
	if (sub_buffers < ABI_MIN_SUBS || sub_buffers & (sub_buffers - 1))
		return -EINVAL;
	subs = log2_of(sub_buffers);
	shift = subs + ABI_MIN_SUB_SHIFT;
	if (shift > ABI_MAX_RING_SHIFT)
		return -EINVAL;
	shape(&g, shift, subs);
	if (geometry_check(&g) < 0)
		return -EINVAL;
	if (geometry_memory(&g, n_online) > memory) {
		if (ret_minimum)
			*ret_minimum = geometry_memory(&g, n_online);
		return -ENOSPC;
	}
	for (; shift < ABI_MAX_RING_SHIFT; shift++) {
		struct geometry larger = g;

		shape(&larger, shift + 1, subs);
		if (geometry_memory(&larger, n_online) > memory)
			break;
		g = larger;
	}
	*ret = g;
	return 0;
}

static bool shifts_valid(u32 ring, u32 sub)
{
	/* compared before subtracted: these numbers come by the wire */
	return ring <= ABI_MAX_RING_SHIFT && sub >= ABI_MIN_SUB_SHIFT && sub < ring &&
	       1u << MIN(ring - sub, 31u) >= ABI_MIN_SUBS;
}

int geometry_check(const struct geometry *g)
{
	if (!shifts_valid(g->ring_shift, g->sub_shift) ||
	    !shifts_valid(g->side_shift, g->side_sub_shift))
		return -EBADMSG;
	if (!g->n_ring || g->n_ring > ABI_MAX_CPUS || !g->n_side || g->n_side > GEOMETRY_MAX_SIDES)
		return -EBADMSG;
	if (g->policy > ABI_POLICY_BLOCK ||
	    g->contexts & ~(u32)(ABI_CONTEXT_VPID | ABI_CONTEXT_VTID))
		return -EBADMSG;
	return 0;
}

u64 geometry_data(const struct geometry *g)
{
	u64 lines = ((u64)g->n_ring + g->n_side) * ABI_LINE;

	return ABI_PAGE + ALIGN_UP(lines, (u64)ABI_PAGE);
}

u64 geometry_ring_at(const struct geometry *g, u32 i)
{
	u64 data = geometry_data(g);

	if (!geometry_is_side(g, i))
		return data + ((u64)i << g->ring_shift);
	return data + ((u64)g->n_ring << g->ring_shift) + ((u64)(i - g->n_ring) << g->side_shift);
}

u64 geometry_size(const struct geometry *g)
{
	return geometry_ring_at(g, g->n_ring + g->n_side);
}

u64 geometry_ring_size(const struct geometry *g, u32 i)
{
	return 1ull << (geometry_is_side(g, i) ? g->side_shift : g->ring_shift);
}

u64 geometry_sub_size(const struct geometry *g, u32 i)
{
	return 1ull << (geometry_is_side(g, i) ? g->side_sub_shift : g->sub_shift);
}

u64 geometry_memory(const struct geometry *g, u32 n_allocated)
{
	return geometry_data(g) + ((u64)n_allocated << g->ring_shift) +
	       ((u64)g->n_side << g->side_shift);
}
