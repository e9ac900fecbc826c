/* SPDX-License-Identifier: MIT */
#include "daemon/described.h"

/* So many dead ones come before the living, in a copy: who died just now is asked for first. */
#define DEAD_FIRST 8

Description *description_new(void)
{
	Description *d = calloc(1, sizeof(*d));

	if (d)
		d->n_refs = 1;
	return d;
}

Description *description_ref(Description *d)
{
	d->n_refs++;
	return d;
}

Description *description_unref(Description *d)
{
	if (d && --d->n_refs == 0)
		free(d);
	return NULL;
}

static void described_remove(DescribedList *l, Described **at)
{
	Described *d = *at;

	*at = d->next;
	l->n_changes++;
	l->n--;
	l->n_dead -= d->dead;
	(void)description_unref(d->what);
	(void)epoch_unref(d->epoch);
	free(d);
}

void described_clear(DescribedList *l)
{
	while (l->first)
		described_remove(l, &l->first);
	*l = (DescribedList){ 0 };
}

int described_add(DescribedList *l, Description *what, Described **ret)
{
	Described *d = calloc(1, sizeof(*d)), **at;

	if (!d)
		return -ENOMEM;
	d->what = description_ref(what);
	for (at = &l->first; *at; at = &(*at)->next)
		;
	*at = d;
	l->n_changes++;
	l->n++;
	*ret = d;
	return 0;
}

void described_end(DescribedList *l, Described *d, Epoch *epoch, u32 pinned)
{
	d->dead = true;
	l->n_changes++;
	d->pinned = pinned;
	if (epoch) {
		d->epoch = epoch;
		epoch->n_refs++;
	}
	if (++l->n_dead <= DESCRIBED_MAX_DEAD)
		return;
	for (Described **at = &l->first; *at; at = &(*at)->next) {
		if (!(*at)->dead)
			continue;
		l->n_dropped++;
		l->dropped_until = MAX(l->dropped_until, (*at)->what->ended);
		described_remove(l, at);
		return;
	}
}

/* Its records were in any ring but the pinned ones of others. */
static bool described_passed(const Described *d, const u64 *first, const struct geometry *g)
{
	for (u32 i = 0; i < d->epoch->n && i < geometry_rings(g); i++)
		if ((!geometry_is_pinned(g, i) || i == d->pinned) && d->epoch->offset[i] &&
		    first[i] < d->epoch->offset[i])
			return false;
	return true;
}

void described_prune(DescribedList *l, const u64 *first, const struct geometry *g)
{
	for (Described **at = &l->first; *at;)
		if ((*at)->dead && (*at)->epoch && described_passed(*at, first, g))
			described_remove(l, at);
		else
			at = &(*at)->next;
}

/* Those that ended, last first; those that live, last come first. */
static int compare(const void *a, const void *b)
{
	const Description *x = *(const Description *const *)a, *y = *(const Description *const *)b;
	u64 xt = x->ended ? x->ended : x->start_ticks, yt = y->ended ? y->ended : y->start_ticks;

	if (!x->ended != !y->ended)
		return x->ended ? -1 : 1;
	return xt < yt ? 1 : xt > yt ? -1 : 0;
}

int described_copy(const DescribedList *l, size_t max, Descriptions *ret)
{
	_cleanup_free_ const Description **all = calloc(MAX(l->n, 1u), sizeof(*all));
	size_t n = 0, n_dead = 0, n_first;
	Descriptions c = { .n_left_out = l->n_dropped, .left_until = l->dropped_until };

	c.v = calloc(MAX(MIN(max, (size_t)l->n), (size_t)1), sizeof(*c.v));
	if (!all || !c.v) {
		descriptions_clear(&c);
		return -ENOMEM;
	}
	for (const Described *d = l->first; d; d = d->next) {
		n_dead += d->what->ended != 0;
		all[n++] = d->what;
	}
	qsort(all, n, sizeof(*all), compare);
	n_first = MIN(n_dead, (size_t)DEAD_FIRST);
	for (size_t i = 0; i < n && c.n < max; i++) {
		/* the first dead, the living, the other dead */
		size_t k = i < n_first ? i : i < n_first + n - n_dead ? i - n_first + n_dead : i - (n - n_dead);

		c.v[c.n++] = *all[k];
	}
	c.n_all = n;
	*ret = c;
	return 0;
}
