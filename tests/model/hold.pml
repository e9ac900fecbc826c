/* SPDX-License-Identifier: MIT */
/* A snapshot's hold against an entry: the reader sets `hold`, makes a membarrier (every sequence that had not seen
 * hold starts again, or is published where the reader will see it), then loads the offset and copies. A writer that
 * would enter held memory discards instead.
 *
 * Property:
 *   gone  everything in the ring at the moment the offset is loaded is still there after the copy: nothing of the last N - 1
 *	   sub-buffers was overwritten. (The one that may be half entered is the reader's to drop.)
 *
 * Stands for: daemon/capture.c capture_take() (hold_all, fence, the offsets, the copy), lib/reader.c reader_hold(), and the entry
 * under overwrite, 8020 to 8022 in lib/sequence-*.S. The deadline is time, and not here.
 *
 * `hold` as the writer sees it is a load that was taken when its sequence began. The membarrier restarts the sequence, and
 * orders the reader's store of hold before its load of the offset.
 *
 * Bounds: three sub-buffers, eight entries, one hold.
 *
 * Broken twins:
 *   NOFENCE  there is no membarrier: the load may pass the store, and the ring may go round in between
 *   UNHELD   an entry does not look at the hold */
#define N    3
#define LAST 8

byte ring[N];	 /* position + 1 that lies in each sub-buffer */
byte offset;
bool hold, done, gone;
bool restart;	 /* set by the membarrier, taken by the sequence at its next step */

active proctype writer()
{
	byte at;
	bool saw;
again:
	do
	:: done || offset >= LAST -> break
	:: else ->
		restart = false;
		at = offset;
#ifndef UNHELD
		saw = hold;
#endif
		if
		:: saw -> skip /* counted as held */
		:: else ->
			/* a store and its sequence's restart are one step: the kernel restarts between instructions */
			if
			:: atomic { restart -> goto again }
			:: atomic { !restart -> ring[at % N] = at + 1 }
			fi;
			if
			:: atomic { restart -> goto again }
			:: atomic { !restart -> offset = at + 1 }
			fi
		fi
	od
}

active proctype reader()
{
	byte end, i, copy[N];

#ifdef NOFENCE
	end = offset; /* the store of hold sits in the reader's store buffer meanwhile */
	hold = true;
#else
	hold = true;
	restart = true;
	end = offset;
#endif
	i = 0;
	do
	:: i < N -> copy[i] = ring[i]; i++
	:: else -> break
	od;
	i = (end + 1 > N -> end + 1 - N : 0);
	do
	:: i < end -> d_step { gone = copy[i % N] != i + 1; assert(!gone); i++ }
	:: else -> break
	od;
	done = true
}
