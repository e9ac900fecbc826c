/* SPDX-License-Identifier: MIT */
/* An event class: what a producer says about an event, as it travels on the wire and as the daemon keeps
 * it. Field types are those of the public header (TRACER_TYPE_*). */
#pragma once

#include "lib/base.h"
#include "lib/tracer.h"

#define CLASS_MAX_FIELDS 32
#define CLASS_MAX_NAME	 127 /* bytes of a provider, event or field name, without NUL */
#define CLASS_MAX_BYTES	 (4 + 2 * (CLASS_MAX_NAME + 1) + CLASS_MAX_FIELDS * (4 + CLASS_MAX_NAME + 1)) /* on the wire */

struct class_field {
	char *name;
	u8 type;   /* TRACER_TYPE_*: of the field, or of an array's elements */
	u8 shape;  /* TRACER_SHAPE_* */
	u16 count; /* TRACER_SHAPE_FIXED: elements */
};

struct event_class {
	char *provider, *name;
	u8 level; /* TRACER_EMERG .. TRACER_DEBUG */
	u8 n_fields;
	struct class_field fields[]; /* names live in the same allocation */
};

/* One class from the wire: checks names ([A-Za-z_][A-Za-z0-9_]*, provider also allows '.' and '-'), types,
 * shapes, counts and that nothing is left over. Returns the bytes taken or -EBADMSG / -ENOMEM. *ret is one
 * allocation, freed by free(). Daemon only: it allocates. */
int class_decode(struct event_class **ret, const u8 *p, size_t size);
/* The other way: returns the bytes, 0 if there is no room for them; CLASS_MAX_BYTES is always enough. */
size_t class_encode(const struct event_class *c, u8 *p, size_t size);
/* Bytes of one value of a TRACER_TYPE_*: of a string, its terminator at least; 0 for what is no type. */
u32 class_type_size(u8 type);
bool class_equal(const struct event_class *a, const struct event_class *b);
