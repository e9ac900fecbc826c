/* SPDX-License-Identifier: MIT */
#include "daemon/line-rings.h"

void line_geometry(Line *l, const struct geometry *g)
{
	line_number(l, "ring_shift", g->ring_shift);
	line_number(l, "sub_shift", g->sub_shift);
	line_number(l, "side_shift", g->side_shift);
	line_number(l, "side_sub_shift", g->side_sub_shift);
	line_number(l, "n_ring", g->n_ring);
	line_number(l, "n_side", g->n_side);
	line_number(l, "pinned_shift", g->pinned_shift);
	line_number(l, "pinned_sub_shift", g->pinned_sub_shift);
	line_number(l, "n_pinned", g->n_pinned);
	line_number(l, "policy", g->policy);
	line_number(l, "contexts", g->contexts);
}

bool line_get_geometry(const char *line, struct geometry *ret)
{
	struct geometry g = { 0 };

	if (!line_get_u32(line, "ring_shift", 63, &g.ring_shift) || !line_get_u32(line, "sub_shift", 63, &g.sub_shift) ||
	    !line_get_u32(line, "side_shift", 63, &g.side_shift) ||
	    !line_get_u32(line, "side_sub_shift", 63, &g.side_sub_shift) ||
	    !line_get_u32(line, "n_ring", ABI_MAX_CPUS, &g.n_ring) ||
	    !line_get_u32(line, "n_side", GEOMETRY_MAX_SIDES, &g.n_side) ||
	    !line_get_u32(line, "policy", UINT32_MAX, &g.policy) ||
	    !line_get_u32(line, "contexts", UINT32_MAX, &g.contexts))
		return false;
	/* an older daemon had none */
	(void)line_get_u32(line, "pinned_shift", 63, &g.pinned_shift);
	(void)line_get_u32(line, "pinned_sub_shift", 63, &g.pinned_sub_shift);
	(void)line_get_u32(line, "n_pinned", GEOMETRY_MAX_PINNED, &g.n_pinned);
	if (geometry_check(&g) < 0)
		return false;
	*ret = g;
	return true;
}

void line_counters(Line *l, const OwnerCounters *c)
{
	line_number(l, "recorded", c->recorded);
	line_number(l, "overwritten", c->overwritten);
	line_number(l, "discarded", c->discarded);
	line_number(l, "kept", c->written);
	line_number(l, "corrupt_records", c->corrupt);
	line_number(l, "corrupt_subs", c->corrupt_subs);
	line_number(l, "clamped_records", c->clamped);
	line_number(l, "unpinned", c->unpinned);
	line_bytes(l, "lost", c->lost, sizeof(c->lost));
}

void line_get_counters(const char *line, OwnerCounters *ret)
{
	_cleanup_free_ u8 *lost = NULL;
	size_t n = 0;

	*ret = (OwnerCounters){ 0 };
	(void)line_get_number(line, "recorded", &ret->recorded);
	(void)line_get_number(line, "overwritten", &ret->overwritten);
	(void)line_get_number(line, "discarded", &ret->discarded);
	(void)line_get_number(line, "kept", &ret->written);
	(void)line_get_number(line, "corrupt_records", &ret->corrupt);
	(void)line_get_number(line, "corrupt_subs", &ret->corrupt_subs);
	(void)line_get_number(line, "clamped_records", &ret->clamped);
	(void)line_get_number(line, "unpinned", &ret->unpinned);
	lost = line_get_bytes(line, "lost", &n);
	if (lost)
		memcpy(ret->lost, lost, MIN(n, sizeof(ret->lost)));
}
