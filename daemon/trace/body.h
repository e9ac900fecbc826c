/* SPDX-License-Identifier: MIT */
/* The classes of one owner by id, and whether a record's body is what its class says. A reader
 * decodes a packet by the classes alone, without the length of each record: one body that says
 * otherwise makes it lose its place, and everything behind it in the trace. So none is written that
 * was not walked first. */
#pragma once

#include "daemon/trace/trace.h"

typedef struct ClassEntry ClassEntry;

/* sizes[id]: what a body of that id takes, contexts included, if it always takes the same: then the check is this one
 * comparison. CLASS_SIZE_VARIES: it does not, or there is no such id. */
typedef struct {
	u32 *sizes;	     /* owned; n */
	ClassEntry *entries; /* owned; n */
	u32 n;
	u32 contexts_size;
} ClassTable;
#define CLASS_SIZE_VARIES UINT32_MAX

/* Borrows the classes. Of two with one id the later counts (the daemon gives no id twice). Classes
 * that cannot be decoded (a type that is none) are left out. 0 or -ENOMEM. */
int class_table_new(ClassTable **ret, const TraceClass *classes, size_t n, u32 contexts);
ClassTable *class_table_free(ClassTable *t);
DEFINE_CLEANUP(ClassTable *, class_table_free)

/* True if id is known and `size` bytes at `body` (contexts, then fields) are exactly what it says.
 */
bool class_table_check(const ClassTable *t, u32 id, const u8 *body, u32 size);

static inline u32 class_table_size(const ClassTable *t, u32 id)
{
	return id < t->n ? t->sizes[id] : CLASS_SIZE_VARIES;
}
bool class_table_known(const ClassTable *t, u32 id);

/* Remembers that a record of id is kept; then only such classes are listed, by id. */
void class_table_use(ClassTable *t, u32 id);
/* Fresh array of the classes used. 0 or -ENOMEM. */
int class_table_used(const ClassTable *t, TraceClass **ret, size_t *ret_n);
