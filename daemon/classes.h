/* SPDX-License-Identifier: MIT */
/* The event classes the daemon knows, each once per user: five hundred workers of one server cost what one
 * costs. Producers, owners' id tables and running snapshots hold references; the user is charged while
 * there is any. */
#pragma once

#include <sys/types.h>

#include "daemon/account.h"
#include "lib/class.h"

typedef struct Classes Classes;
typedef struct {
	struct event_class *class;
	u64 hash; /* of all of the class, with a key of this daemon */
	uid_t uid;
	u32 n_refs;
	u32 n_producers; /* those of n_refs that are living programs */
	/* Which sessions want it, and pin it, a bit per slot: as asked at that generation of the control page, which every change
	 * of a session raises. A server with hundreds of workers asks for the same classes hundreds of times. */
	u64 judged, wanted, pinned;
	u32 judged_at;
	/* in what outlives the daemon (state-owner.h); 0: it was never said */
	u64 number;
	u32 said;
	Classes *pool;
} Class;

int classes_new(Classes **ret, Account *account);
/* Every reference must be gone. */
Classes *classes_free(Classes *c);
DEFINE_CLEANUP(Classes *, classes_free)

/* One more reference on the user's class that equals `class`, which is taken (freed if it was known, and on
 * failure). 0, FAILURE_LIMIT, -ENOMEM. */
int classes_intern(Classes *c, uid_t uid, struct event_class *class, Class **ret, Failure *f);
Class *class_ref(Class *c);
Class *class_unref(Class *c);
bool class_same(const Class *a, const Class *b);

u32 classes_n(const Classes *c);
/* Walks all; fn must not change the pool. */
void classes_each(const Classes *c, void (*fn)(void *userdata, const Class *class), void *userdata);
