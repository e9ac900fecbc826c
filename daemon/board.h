/* SPDX-License-Identifier: MIT */
/* Writes the control page (lib/abi.h 3): the one thing every instrumented program reads. The file is made at boot
 * by tmpfiles or here, and is rewritten in place for ever: a program that mapped it before this daemon was
 * born sees what this daemon writes. */
#pragma once

#include "conf/config.h"
#include "daemon/beacon.h"
#include "daemon/cpus.h"
#include "daemon/failure.h"
#include "daemon/scope.h"
#include "lib/record.h"

typedef struct Board Board;

/* Sessions that run on while no daemon is there. */
typedef struct {
	u64 slots; /* a bit each */
	u32 generation[ABI_MAX_SLOTS];
	u8 clock_uuid[16];
} BoardKept;

/* Opens or creates `control` in the directory, takes the directory's lock (so that two daemons never share a page:
 * FAILURE_BUSY), ends what a dead daemon left in the page (masks, slots; generation up), decides the clock or
 * takes over that of this boot, and writes the CPUs' rings. *ret_clock_warning is set (FAILURE_NONE otherwise) when the
 * configured clock cannot be had. kept (may be NULL): slots that are gone on with, as an earlier daemon of this boot said; what
 * the page says otherwise, or of another clock, is taken out of it. */
int board_open(Board **ret, int directory_fd, ClockChoice clock, const Cpus *cpus, BoardKept *kept,
	       Failure *ret_clock_warning, Failure *f);
/* Clears masks and slots and publishes that; the file stays. */
Board *board_free(Board *b);
/* Leaves all as it is, for the next daemon. */
Board *board_leave(Board *b);
DEFINE_CLEANUP(Board *, board_free)

struct record_clock board_clock(const Board *b);
const u8 *board_clock_uuid(const Board *b);
/* The generation programs see now; never 0 after board_open(). */
u32 board_generation(const Board *b);

/* A free slot, or -ENOSPC. */
int board_slot_find(const Board *b);
/* The session in `slot` begins: its buckets' bits, then a fresh slot generation (returned), then the generation. Rings made
 * for this slot carry what is returned. */
u32 board_session_begin(Board *b, u32 slot, const u64 buckets[SCOPE_WORDS]);
/* Other patterns, same rings: bits and generation change, the slot's generation does not, so that programs
 * which are attached keep recording until they have asked again. */
void board_session_change(Board *b, u32 slot, const u64 buckets[SCOPE_WORDS]);
/* A session that ran under the last daemon, which may have died with half of the bits stored: the same if they are others. */
void board_session_keep(Board *b, u32 slot, const u64 buckets[SCOPE_WORDS]);
/* Other rings, same patterns: a fresh slot generation. */
u32 board_session_renew(Board *b, u32 slot);
void board_session_end(Board *b, u32 slot);
/* The words by which consumer and programs of this slot wake one another; good until board_free(). Writers that wait for room
 * are sent on by the board itself when their session ends, begins anew or the daemon goes. */
Beacon board_beacon(Board *b, u32 slot);
/* Has the programs ask again that were not heard, each at a time of its own (abi.h 13). */
void board_retry(Board *b);
u32 board_retries(const Board *b);
/* After the ring of this CPU was allocated in every region. */
void board_cpu_ring(Board *b, u32 cpu, u16 ring);
/* The mapped page, for tests. */
const struct abi_control_page *board_page(const Board *b);
