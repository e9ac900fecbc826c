/* SPDX-License-Identifier: MIT */
/* The event classes of this process, each once, encoded as they travel on the wire. An index is
 * given once and for good, and the bytes are our own: a library that is unloaded leaves nothing
 * behind that points into it, and one that is loaded again finds its classes under the same
 * numbers. */
#pragma once

#include "lib/fork.h"

/* The state of the event's class, which is added if it is new. Returns 0, -E2BIG (WIRE_MAX_CLASSES,
 * or larger than a message), -ENOMEM, or -EBUSY (the lock was not to be had in time: a stopped
 * thread). Blocks all signals meanwhile. */
int catalog_add(const struct tracer_event *event, struct tracer_state **ret);

/* How many there are (acquire: those below it are whole). */
u32 catalog_count(void);
/* The encoded bytes of class i < catalog_count(). */
const u8 *catalog_class(u32 i, u32 *ret_size);
