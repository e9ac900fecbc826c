/* SPDX-License-Identifier: MIT */
/* Writers under `block` and a full ring: the value of `progress` is loaded before the attempt that may be refused, and waited
 * on; the consumer gives memory back, then moves it, then wakes all; the session's end does the same (lib/abi.h 9).
 *
 * Property:
 *   asleep  no writer sleeps while there is room, or the session is over, with no waking on its way: when nothing moves any more, all
 *	     have come to their end, without the slices by which they wait in truth.
 *
 * Stands for: lib/waiter.c waiter_next(), daemon/beacon.c beacon_progress(), daemon/consumer-thread.c give(), daemon/board.c
 * slot_release().
 *
 * Bounds: two writers of three records, one sub-buffer, two of them taken before the session ends.
 *
 * Broken twins:
 *   AFTER  progress is loaded behind the attempt
 *   FIRST  progress is moved before the memory is given back
 *   ONE    one is woken, not all
 *   SILENT the session's end wakes nobody */
#define ROOM	1 /* sub-buffers */
#define WRITERS 2
#define TAKEN	2 /* by the consumer, before the session ends: less than the writers have */
#define EACH	3

byte written, consumed, progress;
bool over;
byte sleepers; /* a bit each */
byte ended;
bool asleep;

proctype writer(byte me)
{
	byte n, p;
	bool stored, stale;

	do
	:: n == EACH || stale -> break
	:: else ->
#ifndef AFTER
		p = progress;
#endif
		stale = over; /* loaded behind progress */
		atomic {
			stored = written - consumed < ROOM;
			written = (stored && !stale -> written + 1 : written)
		};
#ifdef AFTER
		p = progress;
#endif
		if
		:: stale -> skip
		:: !stale && stored -> n++
		:: !stale && !stored ->
			atomic {
				if
				:: progress == p -> sleepers = sleepers | (1 << me)
				:: else -> skip
				fi
			};
			!(sleepers & (1 << me))
		fi
	od;
	ended++
}

inline wake_all()
{
#ifdef ONE
	if
	:: sleepers & 1 -> sleepers = sleepers & 2
	:: else -> sleepers = 0
	fi
#else
	sleepers = 0
#endif
}

active proctype consumer()
{
	byte n;

	do
	:: n == TAKEN -> break
	:: n < TAKEN ->
		written > consumed;
#ifdef FIRST
		progress++;
		wake_all();
		consumed++;
#else
		consumed++;
		progress++;
		wake_all();
#endif
		n++
	od;
	over = true;
#ifndef SILENT
	progress++;
	wake_all()
#endif
}

/* when nobody else can move */
active proctype judge()
{
	timeout -> asleep = ended < WRITERS; assert(!asleep)
}

init
{
	run writer(0);
	run writer(1)
}
