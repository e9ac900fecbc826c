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

int geometry_plan_pinned(struct geometry *g, u64 memory, u32 n, u64 *ret_minimum)
{
	const u32 subs = log2_of(ABI_MIN_PINNED_SUBS);
	u32 shift = subs + ABI_MIN_PINNED_SUB_SHIFT;

	if (!n || n > GEOMETRY_MAX_PINNED)
		return -EINVAL;
	if ((u64)n << shift > memory) {
		if (ret_minimum)
			*ret_minimum = (u64)n << shift;
		return -ENOSPC;
	}
	while (shift < ABI_MAX_RING_SHIFT && (u64)n << (shift + 1) <= memory)
		shift++;
	g->n_pinned = n;
	g->pinned_shift = shift;
	g->pinned_sub_shift = shift - subs;
	return 0;
}

static bool shifts_valid(u32 ring, u32 sub)
{
	/* compared before subtracted: these numbers come by the wire */
	return ring <= ABI_MAX_RING_SHIFT && sub >= ABI_MIN_SUB_SHIFT && sub < ring &&
	       1u << MIN(ring - sub, 31u) >= ABI_MIN_SUBS;
}

/* Rings of whole pages, whatever their parts are. */
static bool pinned_valid(const struct geometry *g)
{
	return g->pinned_shift <= ABI_MAX_RING_SHIFT && g->pinned_shift >= 12 &&
	       g->pinned_sub_shift >= ABI_MIN_PINNED_SUB_SHIFT && g->pinned_sub_shift < g->pinned_shift &&
	       1u << MIN(g->pinned_shift - g->pinned_sub_shift, 31u) >= ABI_MIN_PINNED_SUBS;
}

int geometry_check(const struct geometry *g)
{
	if (!shifts_valid(g->ring_shift, g->sub_shift) ||
	    !shifts_valid(g->side_shift, g->side_sub_shift))
		return -EBADMSG;
	if (!g->n_ring || g->n_ring > ABI_MAX_CPUS || !g->n_side || g->n_side > GEOMETRY_MAX_SIDES)
		return -EBADMSG;
	if (g->n_pinned ? g->n_pinned > GEOMETRY_MAX_PINNED || !pinned_valid(g) :
			  g->pinned_shift || g->pinned_sub_shift)
		return -EBADMSG;
	if (g->policy > ABI_POLICY_BLOCK ||
	    g->contexts & ~(u32)(ABI_CONTEXT_VPID | ABI_CONTEXT_VTID))
		return -EBADMSG;
	return 0;
}

u64 geometry_data(const struct geometry *g)
{
	u64 lines = (u64)geometry_rings(g) * ABI_LINE;

	return ABI_PAGE + ALIGN_UP(lines, (u64)ABI_PAGE);
}

u64 geometry_ring_at(const struct geometry *g, u32 i)
{
	u64 at = geometry_data(g), sides, pinned;

	if (!geometry_is_side(g, i))
		return at + ((u64)i << g->ring_shift);
	sides = MIN(i - g->n_ring, g->n_side);
	pinned = i - g->n_ring - sides;
	at += (u64)g->n_ring << g->ring_shift;
	at += sides << g->side_shift;
	return at + (pinned << g->pinned_shift);
}

u64 geometry_size(const struct geometry *g)
{
	return geometry_ring_at(g, geometry_rings(g));
}

u64 geometry_ring_size(const struct geometry *g, u32 i)
{
	if (geometry_is_pinned(g, i))
		return 1ull << g->pinned_shift;
	return 1ull << (geometry_is_side(g, i) ? g->side_shift : g->ring_shift);
}

u64 geometry_sub_size(const struct geometry *g, u32 i)
{
	if (geometry_is_pinned(g, i))
		return 1ull << g->pinned_sub_shift;
	return 1ull << (geometry_is_side(g, i) ? g->side_sub_shift : g->sub_shift);
}

u64 geometry_memory(const struct geometry *g, u32 n_allocated)
{
	return geometry_data(g) + ((u64)n_allocated << g->ring_shift) + ((u64)g->n_side << g->side_shift) +
	       ((u64)g->n_pinned << g->pinned_shift);
}
