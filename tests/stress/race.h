/* SPDX-License-Identifier: MIT */
/* What the C rendering of the sequences (race-sequence.c) and the test on top of it share. */
#pragma once

#include "lib/base.h"

#define RACE_CPUS 2u

/* where the thread is, and its dice */
extern __thread u32 race_cpu, race_random;
u32 race_roll(void);
