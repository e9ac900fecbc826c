/* SPDX-License-Identifier: MIT */
/* A moment as people write it. */
#pragma once

#include "lib/base.h"

/* "2026-11-29 16:01:02.123456789" (a T for the blank, the seconds or their fraction left out, Z behind it: UTC, else local
 * time), "2026-11-29", "16:01:02.5" on the day of `begin` (or the one after it, if that is within the span and the first is
 * not), "+5s" after begin, "-10s" before end. Nanoseconds since the epoch. 0, -EINVAL: none of these forms, -ERANGE: a day or
 * time that there is not. */
int moment_parse(const char *text, u64 begin, u64 end, u64 *ret);
/* "2026-11-29 16:01:02.123456789", local time. */
void moment_format(u64 ns, char ret[64]);
