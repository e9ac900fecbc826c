/* SPDX-License-Identifier: MIT */
/* The part of a takeover that is about memory and those who record into it: rings come back into their sessions, programs to their
 * rings. What is damaged is refused piece by piece. */
#pragma once

#include "daemon/takeover.h"

/* Rings, with what is in them by name: behind the sessions. */
void adoption_rings(Takeover *t, Manager *m);
/* Programs, at the places that they had; rings that nobody came back to are left to others. Returns how many were kept. */
u32 adoption_programs(Takeover *t, Manager *m);
