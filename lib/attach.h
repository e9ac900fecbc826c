/* SPDX-License-Identifier: MIT */
/* The synchronisation: one bounded exchange with the daemon when the sessions have changed or there are classes
 * that it has not seen. Async-signal-safe, and no descriptor of it stays open. */
#pragma once

#include "lib/fork.h"

#define ATTACH_TIMEOUT (200 * NSEC_PER_MSEC)

/* The answer that the class `index` knows is not of the page's generation: synchronises, unless somebody
 * else is at it, or it has failed at this very generation, or would say nothing new. */
void attach_refresh(u32 index);
/* From a constructor whose providers are already wanted. */
void attach_eagerly(void);

/* Id of class `index` in slot i, or 0; valid while the slot has the generation that the caller loaded (acquire)
 * before. *ret_known: false if the session was never asked about this class. */
u32 attach_id(u32 slot, u32 index, bool *ret_known);
