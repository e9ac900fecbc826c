/* SPDX-License-Identifier: MIT */
/* Which program this process is, by its own word. Async-signal-safe. */
#pragma once

#include "lib/base.h"

/* The path of the executable, at most `room` bytes of it, without NUL. Returns how many; 0: it cannot be read. */
u32 program_exe(char *ret, u32 room);
/* The build id of the executable; 0: it has none, or one of more than `room` bytes. */
u32 program_build_id(u8 *ret, u32 room);
