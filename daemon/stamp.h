/* SPDX-License-Identifier: MIT */
/* The time of day as names of snapshots, traces and the like begin with it: 20261129T160102.123456Z. */
#pragma once

#include "lib/base.h"

#define STAMP_SIZE 32

/* realtime_ns: nanoseconds since the epoch; what is less than a microsecond is cut off. */
void stamp_write(char ret[STAMP_SIZE], u64 realtime_ns);
