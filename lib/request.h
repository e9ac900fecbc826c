/* SPDX-License-Identifier: MIT */
/* What the library tells the daemon by itself, outside the synchronisation. */
#pragma once

#include "lib/base.h"

/* An event of the class `index`, a trigger, was recorded. At most one notice a second and class; waits for nobody. Keeps errno,
 * and is async-signal-safe. */
void request_event(u32 index);
