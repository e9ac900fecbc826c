/* SPDX-License-Identifier: MIT */
/* One owner's rings in a backing: the loop's reference to the owner, the thread's image of its rings, and what the loop has told that
 * image. */
#pragma once

#include "daemon/backing/image.h"
#include "daemon/owner.h"

typedef struct Backed Backed;
struct Backed {
	Backed *next;
	Owner *owner;  /* the loop's reference; the thread uses the mapping that it keeps */
	Image *image;  /* owned; the thread's, but for its glossary */
	/* ids that the glossary knows; the loop's */
	u32 n_told;
	u64 told[(ABI_ID_MAX + 64) / 64];
	u64 n_described; /* changes of its programs that were told; the loop's */
	Descriptions programs; /* the newest, unless the thread has taken it: v is NULL; guarded by the lock */
	bool retired;  /* guarded by the lock */
};

/* number: of its files. It knows all ids and programs that the owner has now. 0 or -errno. */
int backed_new(Backed **ret, Owner *o, u32 number, const struct record_clock *clock);
/* Leaves its files. The loop's, since it counts references. */
Backed *backed_free(Backed *x);
void backed_free_all(Backed *first);

/* Ids that it was not told. 0 or -ENOMEM. */
int backed_tell(Backed *x);
/* No program came or ended since it was told of them. */
bool backed_described(const Backed *x);
/* Its programs as they are now. Under the lock, once the thread has it. 0 or -ENOMEM. */
int backed_describe(Backed *x);
