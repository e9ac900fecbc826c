/* SPDX-License-Identifier: MIT */
/* The programs that an owner's rings may have records of: those that are attached, and those that were, as long as the rings have
 * not passed all that they can have written. One ends up here once however often it asked. */
#pragma once

#include "daemon/description.h"
#include "daemon/ids.h"
#include "lib/geometry.h"

/* Dead ones that one owner keeps; the oldest go first, and are counted. */
#define DESCRIBED_MAX_DEAD 128

typedef struct Described Described;
struct Described {
	Described *next; /* who came later */
	Description *what; /* owned reference */
	Epoch *epoch;	   /* owned reference; where the rings stood when it ended; NULL: it lives, or that is not known */
	bool dead;
	u32 pinned;	   /* number of the pinned ring that was its, 0: none */
};

typedef struct {
	Described *first;
	u32 n, n_dead;
	u64 n_dropped, dropped_until; /* when the last of those ended */
	u64 n_changes;
} DescribedList;

Description *description_new(void);
Description *description_ref(Description *d);
Description *description_unref(Description *d);
DEFINE_CLEANUP(Description *, description_unref)

void described_clear(DescribedList *l);
/* 0 or -ENOMEM. *ret is the list's, and what described_end() takes. */
int described_add(DescribedList *l, Description *what, Described **ret);
void described_end(DescribedList *l, Described *d, Epoch *epoch, u32 pinned);
/* Forgets those that nothing in the rings can be of any more: `first` as in ids_prune(). */
void described_prune(DescribedList *l, const u64 *first, const struct geometry *g);
/* A copy of the first `max`, for a snapshot or a consumer. 0 or -ENOMEM. */
int described_copy(const DescribedList *l, size_t max, Descriptions *ret);
