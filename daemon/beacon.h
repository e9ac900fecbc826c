/* SPDX-License-Identifier: MIT */
/* The two words of the control page by which one session's consumer and its programs wake one another (lib/abi.h 9): the
 * consumer's side. They outlive every ring and every program; only the daemon writes them.
 *
 * A consumer that has nothing to do:
 *
 *	r = beacon_arm(&b);		from here a program that fills a sub-buffer calls
 *	if (nothing in any ring, no orders)
 *		beacon_wait(&b, ns);
 *	beacon_disarm(&b);
 *
 * Programs cannot write the word that is compared when the consumer goes to sleep. So a call that comes after its look and
 * before it sleeps, a microsecond, finds nobody, and nothing remembers it. The next boundary calls again; and for the last
 * one, waits begin short and grow while nobody calls: most such moments are right behind a busy time.
 *
 * Anybody who can read the page, which is everybody, can wake who sleeps here, or move him by FUTEX_REQUEUE to where nobody
 * wakes him, or sleep there too and be woken instead. So a waking proves nothing: look again; and each wait is bounded: never sleep longer than it would be right to be
 * late. The same bound stands in for a program that was stopped or killed between filling a sub-buffer and its call, and
 * for one that must not use membarrier.
 *
 * Arming, disarming and waiting are for the one consumer of the slot; beacon_call() and beacon_progress() for any thread. */
#pragma once

#include "lib/base.h"

typedef struct {
	u32 *wake, *progress; /* borrowed from the board */
	u64 patience;	      /* the consumer's own: its next wait */
} Beacon;

/* The first wait after a call, and the longest one, whatever is asked for. */
#define BEACON_WAIT_MIN (2 * NSEC_PER_MSEC)
#define BEACON_WAIT_MAX NSEC_PER_SEC

/* Asks programs to call, with the fence that the look at the rings has to be behind. 0, or -errno if the kernel has no such
 * fence: a call may then be missed, and the consumer should wait for a few milliseconds at a time. */
int beacon_arm(const Beacon *b);
void beacon_disarm(const Beacon *b);
/* Sleeps while armed. False: timeout_ns are over. True: look again, since somebody called, or claimed to, or a signal came, or
 * because a call may have been missed. */
bool beacon_wait(Beacon *b, u64 timeout_ns);
/* Ends the consumer's wait, or the next one before its next beacon_arm(): store what it shall see first, under its lock or
 * otherwise so that it is visible to who looks behind beacon_arm(). */
void beacon_call(const Beacon *b);

/* Behind reader_consume(), once for several sub-buffers if they come together: writers that wait for room try again. */
void beacon_progress(const Beacon *b);
