/* SPDX-License-Identifier: MIT */
/* The event ids of one owner's rings: dense from 1, equal classes share one. An id means its class for as long
 * as any record with it may be in the rings: it is given to another class only when the last program
 * that could write it is gone and every ring begins after that moment. */
#pragma once

#include "daemon/classes.h"

/* Where each ring of an owner stood at some moment; shared by the ids that lost their last holder then. */
typedef struct {
	u32 n_refs, n;
	u64 offset[];
} Epoch;

int epoch_new(Epoch **ret, u32 n_rings);
Epoch *epoch_unref(Epoch *e);
DEFINE_CLEANUP(Epoch *, epoch_unref)

typedef struct {
	Class *class;	 /* owned reference; NULL: free */
	u32 n_holders;	 /* living programs that were told this id */
	Epoch *epoch;	 /* owned reference; of the moment when n_holders became 0 */
	u32 said;	 /* to what outlives the daemon: when it was last written anew */
	u32 next;	 /* id with the same hash, 0: none */
} IdEntry;

typedef struct {
	IdEntry *entries; /* entries[0] is never used */
	u32 n, n_allocated; /* ids 1 .. n - 1 are or were in use */
	u32 n_unheld;
	u32 *buckets, n_buckets; /* a power of two; ids */
} Ids;

/* The ids one program was told: a bit each. */
typedef struct {
	u64 *words;
	u32 n_words;
} IdSet;

void ids_clear(Ids *ids);
/* The id of this class, a new one if need be (takes a reference on the class). 0, -ENOMEM, -ENOSPC: all ids
 * are in use. */
int ids_get(Ids *ids, Class *class, u16 *ret);
/* This id means this class, which an earlier daemon gave it (takes a reference). 0, -ENOMEM, -EEXIST. */
int ids_put(Ids *ids, Class *class, u16 id);
/* The next n ids, as far as there are so many, are given to nobody. 0 or -ENOMEM. */
int ids_skip(Ids *ids, u32 n);
/* Of all that have neither holder nor epoch. */
void ids_settle(Ids *ids, Epoch *epoch);
/* Notes that the set's program was told this id; once however often. 0 or -ENOMEM. */
int ids_hold(Ids *ids, IdSet *set, u16 id);
/* The set's program is gone: no record of it was written after `epoch` (where the rings stand now). Empties the set. */
void ids_release(Ids *ids, IdSet *set, Epoch *epoch);
/* Frees ids without holders whose epoch lies before what the rings still hold: `first` is the oldest position that is still
 * there, per ring. */
void ids_prune(Ids *ids, const u64 *first, u32 n_rings);
static inline const IdEntry *ids_entry(const Ids *ids, u32 id)
{
	return id && id < ids->n && ids->entries[id].class ? &ids->entries[id] : NULL;
}
