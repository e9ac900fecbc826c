/* SPDX-License-Identifier: MIT */
/* The event ids of one owner's rings. */
#include "daemon/ids.h"

#include "lib/abi.h"

int epoch_new(Epoch **ret, u32 n_rings)
{
	Epoch *e = calloc(1, sizeof(*e) + n_rings * sizeof(e->offset[0]));

	if (!e)
		return -ENOMEM;
	e->n_refs = 1;
	e->n = n_rings;
	*ret = e;
	return 0;
}

Epoch *epoch_unref(Epoch *e)
{
	if (e && --e->n_refs == 0)
		free(e);
	return NULL;
}

void ids_clear(Ids *ids)
{
	for (u32 i = 1; i < ids->n; i++) {
		(void)class_unref(ids->entries[i].class);
		(void)epoch_unref(ids->entries[i].epoch);
	}
	free(ids->entries);
	free(ids->buckets);
	*ids = (Ids){};
}

static int ids_grow(Ids *ids)
{
	u32 n = ids->n_allocated ? ids->n_allocated * 2 : 64;
	IdEntry *entries;
	u32 *buckets;

	if (ids->n < ids->n_allocated)
		return 0;
	buckets = calloc(n, sizeof(*buckets));
	if (!buckets)
		return -ENOMEM;
	entries = realloc(ids->entries, n * sizeof(*entries));
	if (!entries) {
		free(buckets);
		return -ENOMEM;
	}
	memset(entries + ids->n_allocated, 0, (n - ids->n_allocated) * sizeof(*entries));
	ids->entries = entries;
	ids->n_allocated = n;
	free(ids->buckets);
	ids->buckets = buckets;
	ids->n_buckets = n;
	if (ids->n == 0)
		ids->n = 1;
	for (u32 i = 1; i < ids->n; i++) {
		u32 *bucket;

		if (!entries[i].class)
			continue;
		bucket = &buckets[entries[i].class->hash & (n - 1)];
		entries[i].next = *bucket;
		*bucket = i;
	}
	return 0;
}

int ids_get(Ids *ids, Class *class, u16 *ret)
{
	u32 id = 0, *bucket;
	int r;

	for (u32 i = ids->n_buckets ? ids->buckets[class->hash & (ids->n_buckets - 1)] : 0; i;
	     i = ids->entries[i].next) {
		if (class_same(ids->entries[i].class, class)) {
			*ret = (u16)i;
			return 0;
		}
	}
	if (ids->n > ABI_ID_MAX) {
		/* fresh ones first: an old trace then never shows one id for two things */
		for (id = 1; id < ids->n && ids->entries[id].class; id++)
			;
		if (id == ids->n)
			return -ENOSPC;
	} else {
		r = ids_grow(ids);
		if (r < 0)
			return r;
		id = ids->n++;
	}
	bucket = &ids->buckets[class->hash & (ids->n_buckets - 1)];
	ids->entries[id] = (IdEntry){ .class = class_ref(class), .next = *bucket };
	*bucket = id;
	ids->n_unheld++;
	*ret = (u16)id;
	return 0;
}

int ids_put(Ids *ids, Class *class, u16 id)
{
	u32 *bucket;

	while (ids->n <= id) {
		int r = ids_grow(ids);

		if (r < 0)
			return r;
		/* those in between are free: they have no class, and are in no chain */
		ids->entries[ids->n++] = (IdEntry){};
	}
	if (id == 0 || ids->entries[id].class)
		return -EEXIST;
	bucket = &ids->buckets[class->hash & (ids->n_buckets - 1)];
	ids->entries[id] = (IdEntry){ .class = class_ref(class), .next = *bucket };
	*bucket = id;
	ids->n_unheld++;
	return 0;
}

int ids_skip(Ids *ids, u32 n)
{
	for (; n && ids->n <= ABI_ID_MAX; n--) {
		int r = ids_grow(ids);

		if (r < 0)
			return r;
		/* free, and in no chain: given again once there are no fresh ones */
		ids->entries[ids->n++] = (IdEntry){};
	}
	return 0;
}

void ids_settle(Ids *ids, Epoch *epoch)
{
	for (u32 id = 1; epoch && id < ids->n; id++) {
		IdEntry *e = &ids->entries[id];

		if (!e->class || e->n_holders || e->epoch)
			continue;
		e->epoch = epoch;
		epoch->n_refs++;
	}
}

int ids_hold(Ids *ids, IdSet *set, u16 id)
{
	IdEntry *e = &ids->entries[id];

	if (id / 64u >= set->n_words) {
		u32 n = id / 64u + 8;
		u64 *words = realloc(set->words, n * sizeof(*words));

		if (!words)
			return -ENOMEM;
		memset(words + set->n_words, 0, (n - set->n_words) * sizeof(*words));
		set->words = words;
		set->n_words = n;
	}
	if (set->words[id / 64] >> id % 64 & 1)
		return 0;
	set->words[id / 64] |= 1ull << id % 64;
	if (e->n_holders++ == 0)
		ids->n_unheld--;
	e->epoch = epoch_unref(e->epoch);
	return 0;
}

void ids_release(Ids *ids, IdSet *set, Epoch *epoch)
{
	for (u32 i = 0; i < set->n_words; i++) {
		for (u64 w = set->words[i]; w; w &= w - 1) {
			u32 id = i * 64 + (u32)__builtin_ctzll(w);
			IdEntry *e = &ids->entries[id];

			if (--e->n_holders)
				continue;
			ids->n_unheld++;
			if (epoch) {
				e->epoch = epoch;
				epoch->n_refs++;
			}
		}
	}
	free(set->words);
	*set = (IdSet){};
}

static bool epoch_passed(const Epoch *e, const u64 *first, u32 n_rings)
{
	for (u32 i = 0; i < n_rings && i < e->n; i++)
		if (e->offset[i] && first[i] < e->offset[i])
			return false;
	return true;
}

void ids_prune(Ids *ids, const u64 *first, u32 n_rings)
{
	for (u32 id = 1; id < ids->n && ids->n_unheld; id++) {
		IdEntry *e = &ids->entries[id];
		u32 *p;

		/* without an epoch nothing is known (it could not be allocated): kept for good */
		if (!e->class || e->n_holders || !e->epoch || !epoch_passed(e->epoch, first, n_rings))
			continue;
		p = &ids->buckets[e->class->hash & (ids->n_buckets - 1)];
		while (*p != id)
			p = &ids->entries[*p].next;
		*p = e->next;
		(void)class_unref(e->class);
		(void)epoch_unref(e->epoch);
		*e = (IdEntry){};
		ids->n_unheld--;
	}
}
