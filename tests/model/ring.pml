/* SPDX-License-Identifier: MIT */
/* One ring in overwrite mode: a writer whose sequence may be restarted at any store (preempted, signalled,
 * killed; the next record may then be another thread's), and a reader in another process that copies and
 * looks at the offset again.
 *
 * Property: what the reader keeps, it keeps whole and of the right lap: each record's two halves carry the
 * same writer and the position that it stands at.
 *
 * A sub-buffer holds one record of two words, so that every record is an entry; N sub-buffers. Stores are seen
 * in the order they are made (x86; aarch64 by dmb ishst at each entry and the releasing commit).
 *
 * Broken twins, which the checker must refuse:
 *   -DEARLY  the offset is published before the second half of the record
 *   -DKEEP   the reader keeps the sub-buffer that the writer stands before, one lap back
 *   -DONCE   the reader does not look at the offset again */
#define N    3
#define LAST 7 /* positions written: more than two laps */

byte half_a[N], half_b[N]; /* position + 1 and writer, packed: 16 * writer + position + 1 */
byte offset;		   /* next position to be written; all below are published */

active proctype writer()
{
	byte at, who = 1, value;
again:
	do
	:: offset < LAST ->
		at = offset;
		value = 16 * who + at + 1;
		if
		:: who = 3 - who; goto again /* restarted before anything was stored */
		:: half_a[at % N] = value
		fi;
#ifdef EARLY
		offset = at + 1;
		half_b[at % N] = value;
#else
		if
		:: who = 3 - who; goto again /* restarted with half a record stored */
		:: half_b[at % N] = value
		fi;
		if
		:: who = 3 - who; goto again /* restarted with the record stored and not published */
		:: offset = at + 1
		fi;
#endif
		if
		:: who = 3 - who
		:: skip
		fi
	:: else -> break
	od
}

active proctype reader()
{
	byte end, after, first, i, copy_a[N], copy_b[N];

	end = offset;
	i = 0;
	do
	:: i < N ->
		copy_a[i] = half_a[i];
		copy_b[i] = half_b[i];
		i++
	:: else -> break
	od;
#ifdef ONCE
	after = end;
#else
	after = offset;
#endif
	/* the writer stands before sub-buffer `after`: one lap back, after - N, may be half overwritten */
#ifdef KEEP
	first = (after > N -> after - N : 0);
#else
	first = (after + 1 > N -> after + 1 - N : 0);
#endif
	i = first;
	do
	:: i < end ->
		assert(copy_a[i % N] == copy_b[i % N]);
		assert(copy_a[i % N] % 16 == i + 1);
		i++
	:: else -> break
	od
}
