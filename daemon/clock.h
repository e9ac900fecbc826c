/* SPDX-License-Identifier: MIT */
/* The one clock of all traces of this machine: which it is, and how many nanoseconds a tick of the counter
 * is. Decided once per boot; after that the control page keeps it (board.h). */
#pragma once

#include "conf/config.h"
#include "daemon/failure.h"

/* Which clock to use: the counter where it is invariant and the kernel lists it as a usable clock source, or where the
 * configuration insists (refused with FAILURE_INVALID and *ret_kind = ABI_CLOCK_MONOTONIC if the CPU has
 * no invariant counter); else CLOCK_MONOTONIC. *ret_kind is always set. */
int clock_choose(ClockChoice choice, u32 *ret_kind, Failure *f);

/* Nanoseconds per tick as 32.32 fixed point. Takes a tenth of a second where the counter has to be held against
 * CLOCK_MONOTONIC_RAW; less than a millionth off then. */
u64 clock_calibrate(void);

/* The pure parts. */
bool clock_cpuinfo_invariant(const char *cpuinfo);	 /* text of /proc/cpuinfo */
bool clock_sources_list_counter(const char *available); /* text of available_clocksource */
u64 clock_mult(u64 ns, u64 ticks);
