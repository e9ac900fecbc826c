/* SPDX-License-Identifier: MIT */
/* The synchronisation: one bounded exchange with the daemon when the sessions have changed or there
 * are classes that it has not seen. Async-signal-safe, and no descriptor of it stays open. */
#pragma once

#include "lib/fork.h"

/* Within which a program asks again that was not heard; twice as long after each failure, 64 s at most. */
#define RETRY_PERIOD	(250 * NSEC_PER_MSEC)
#define RETRY_DOUBLINGS 8

/* The answer that the class `index` knows is not of the page's generation: synchronises, unless
 * somebody else is at it, or it has failed at this very generation, or would say nothing new. */
void attach_refresh(u32 index);
/* From a constructor whose providers are already wanted. */
void attach_eagerly(void);

/* Ids have a fixed place per slot and are written over, never freed (see attach.c for the orders).
 */
extern u16 attach_ids[ABI_MAX_SLOTS][WIRE_MAX_CLASSES] __attribute__((visibility("hidden")));

/* The same for those of which the answer says more than the id: flags << 16 | id. Their place above holds 0, so that no other
 * event pays for the look. */
extern u32 attach_flags[ABI_MAX_SLOTS][WIRE_MAX_CLASSES] __attribute__((visibility("hidden")));

/* Id of class `index` in slot i, 0 if the session does not want it or was never asked, or it has flags: of the
 * generation that the caller loaded (acquire) from the slot before, or of a later one. */
static inline u32 attach_id(size_t slot, size_t index)
{
	return load_relaxed_u16(&attach_ids[slot][index]);
}

/* The same before attach_flagged(). Acquire: pairs with the release that takes the plain id away, so that its flags are seen. */
static inline u32 attach_plain(size_t slot, size_t index)
{
	return load_acquire_u16(&attach_ids[slot][index]);
}

/* flags << 16 | id, 0 if attach_id() has it. Acquire: an id that has lost its flags is there before they go. */
static inline u32 attach_flagged(size_t slot, size_t index)
{
	return load_acquire_u32(&attach_flags[slot][index]);
}
