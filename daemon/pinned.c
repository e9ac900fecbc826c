/* SPDX-License-Identifier: MIT */
#include "daemon/pinned.h"

#include "lib/atomic.h"
#include "lib/reader.h"

/* No ring reaches it in a machine's life, and arithmetic has no room behind it. */
#define POSITION_LIMIT (1ull << 62)

void pinned_clear(Pinned *p)
{
	free(p->rings);
	*p = (Pinned){};
}

/* False: its words are none that a library of ours writes. */
static bool ring_position(u8 *map, const struct geometry *g, u32 i, struct reader *r, u64 *ret)
{
	u64 count;

	reader_init(r, map, g, i);
	return reader_position(r, ret, &count) == 0 && *ret <= POSITION_LIMIT;
}

u64 pinned_first(const u8 *map, const struct geometry *g, u32 i)
{
	struct reader r;
	u64 offset, consumed;

	if (!ring_position((u8 *)map, g, i, &r, &offset))
		return 0;
	/* relaxed: the loop's own word, if nobody wrote over it */
	consumed = load_relaxed_u64(&r.line->consumed);
	if (consumed > offset || consumed & (r.sub_size - 1) || offset - consumed > r.size)
		return 0;
	return consumed;
}

/* Gives the ring's records away: all but those in the part that it stands in, which no honest writer is in the middle of. */
static bool ring_empty(u8 *map, const struct geometry *g, u32 i)
{
	struct reader r;
	u64 offset;

	if (!ring_position(map, g, i, &r, &offset))
		return false;
	reader_consume(&r, reader_sub(&r, offset));
	return true;
}

u32 pinned_take(Pinned *p, u8 *map, const struct geometry *g, u32 holder)
{
	u32 first = g->n_ring + g->n_side;

	if (!g->n_pinned)
		return 0;
	if (!p->rings)
		p->rings = calloc(g->n_pinned, sizeof(*p->rings));
	if (!p->rings)
		return 0;
	for (u32 i = 0; i < g->n_pinned; i++)
		if (p->rings[i].holder == holder)
			return first + i;
	/* an unused one, else the one that was left first; one whose words lie is passed over */
	for (u64 tried = 0;;) {
		const PinnedRing *best = NULL;
		u32 i;

		for (i = 0; i < g->n_pinned; i++)
			if (!p->rings[i].holder && !(tried >> i & 1) && (!best || p->rings[i].left < best->left))
				best = &p->rings[i];
		if (!best)
			return 0;
		i = (u32)(best - p->rings);
		if (!best->left || ring_empty(map, g, first + i)) {
			p->rings[i] = (PinnedRing){ .holder = holder };
			return first + i;
		}
		tried |= 1ull << i;
	}
}

void pinned_leave(Pinned *p, const struct geometry *g, u32 holder)
{
	for (u32 i = 0; p->rings && i < g->n_pinned; i++)
		if (p->rings[i].holder == holder)
			p->rings[i] = (PinnedRing){ .left = ++p->n_left };
}
