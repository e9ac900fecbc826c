/* SPDX-License-Identifier: MIT */
/* One ring in overwrite mode on a machine with weak order: a writer on one CPU, and a reader in another process that copies and
 * looks at the offset again.
 *
 * Property:
 *   torn  what the reader keeps is whole and of the right lap: of each sub-buffer behind the last one that it must drop and before
 *	   the offset that it began with, the header and both halves of the record are one writer's, and of that position
 *
 * Stands for: lib/sequence-aarch64.S sequence_full (8020, 8022 with `dmb ishst`, the commit by stlr) and sequence_boundary, the
 * same in lib/side.c write_locked(); lib/reader.c reader_position() (R1, R2, `dmb ishld`); daemon/capture.c ring_copy() and
 * daemon/view.c, with reader_first_whole(). x86-64 is the case in which the buffer is left in order.
 *
 * A sub-buffer holds one record of two words behind a header, and the record fits exactly or not: the boundary behind it is
 * published with it, or by itself. The sequence may be begun again before any of its stores: what it stored before stays in the store buffer,
 * and the next to begin may be another thread.
 *
 * Orders: stores of the writer are in a buffer of some places and leave it in any order, those to one word in theirs; the offset
 * (release) not before what was stored earlier; nothing that was stored behind the fence of an entry before what was stored in front of it.
 * The reader's loads of the copy are made in any order; one of them may even be made after R2 where no fence says otherwise.
 *
 * Bounds: two sub-buffers, three entries, one restart; a buffer of three stores. The reader judges any one sub-buffer, and so all.
 *
 * Broken twins:
 *   EARLY    the offset is stored before the second half of the record
 *   RELAXED  the offset may be seen before what was stored earlier
 *   NOST     an entry has no fence
 *   NOLD     the last of the copy may be loaded behind R2
 *   KEEP     the reader keeps the sub-buffer that the writer stands before, one lap back
 *   ONCE     the reader does not look at the offset again */
#define N    2
#define LAST 3 /* sub-buffers written: the first one twice */
#define ROOM 3

/* places: headers, first halves, second halves, and the offset */
#define PLACES (3 * N + 1)
#define OFFSET (3 * N)
byte memory[PLACES]; /* position of the sub-buffer + 1 that it was stored for; the offset: twice that, and one if inside */

/* the store buffer, oldest first; a fence is the mark of who was stored behind it */
bool torn;

byte n, place[ROOM], value[ROOM];
bool fenced[ROOM]; /* a fence lies directly in front of this one */

#define STORE(p, v, f) atomic { n < ROOM -> place[n] = p; value[n] = v; fenced[n] = f; n++ }

/* the i-th may leave: nothing older is to the same place, and no fence and no release is in its way */
inline leave(i)
{
	d_step {
		memory[place[i]] = value[i];
		j = i;
		do
		:: j + 1 < n ->
			place[j] = place[j + 1];
			value[j] = value[j + 1];
			fenced[j] = fenced[j + 1];
			j++
		:: else -> break
		od;
		n--;
		place[n] = 0;
		value[n] = 0;
		fenced[n] = false;
		j = 0
	}
}

#ifdef RELAXED
#define RELEASED(i) true
#else
#define RELEASED(i) (place[i] != OFFSET)
#endif

active proctype buffer()
{
	byte j;

end:	do
	:: n > 0 -> leave(0)
	:: n > 1 && !fenced[1] && place[1] != place[0] && RELEASED(1) -> leave(1)
	:: n > 2 && !fenced[1] && !fenced[2] && place[2] != place[0] && place[2] != place[1] && RELEASED(2) -> leave(2)
	od
}

#ifdef NOST
#define FENCE false
#else
#define FENCE true
#endif
/* the writer stands before or in sub-buffer after / 2: the one a lap back may be half overwritten */
#ifdef KEEP
#define KEPT (k + N >= after / 2)
#else
#define KEPT (k + N > after / 2)
#endif

active proctype writer()
{
	byte at, who;

	do
	:: at == LAST -> break
	:: at < LAST ->
		/* the entry: the fence, the header, the record */
		STORE(3 * (at % N), at + 1, FENCE);
		if
		:: who == 0 -> who = 1; goto next
		:: skip
		fi;
		STORE(3 * (at % N) + 1, 2 * (at + 1) + who, false);
#ifdef EARLY
		STORE(OFFSET, 2 * (at + 1), false);
		STORE(3 * (at % N) + 2, 2 * (at + 1) + who, false);
		at++;
#else
		if
		:: who == 0 -> who = 1; goto next
		:: skip
		fi;
		STORE(3 * (at % N) + 2, 2 * (at + 1) + who, false);
		if
		:: who == 0 -> who = 1; goto next
		:: STORE(OFFSET, 2 * (at + 1), false) /* it fits exactly */
		:: STORE(OFFSET, 2 * at + 1, false);
		   STORE(OFFSET, 2 * (at + 1), false) /* the next does not fit, and makes a boundary first */
		fi;
		at++;
#endif
next:
		skip
	od
}

active proctype reader()
{
	byte end, after, k, left, h, a, b;

	end = memory[OFFSET]; /* R1 */
	/* any sub-buffer that has something of it below the offset */
	do
	:: 2 * (k + 1) < end + 1 -> k++
	:: 2 * k < end -> break
	:: 2 * k >= end -> goto out
	od;
	left = 7;
	do
	:: left & 1 -> h = memory[3 * (k % N)]; left = left - 1
	:: left & 2 -> a = memory[3 * (k % N) + 1]; left = left - 2
	:: left & 4 -> b = memory[3 * (k % N) + 2]; left = left - 4
	:: left == 0 -> break
#ifdef NOLD
	:: left == 1 || left == 2 || left == 4 -> break
#endif
	od;
#ifdef ONCE
	after = end;
#else
	after = memory[OFFSET]; /* R2 */
#endif
#ifdef NOLD
	if
	:: left == 1 -> h = memory[3 * (k % N)]
	:: left == 2 -> a = memory[3 * (k % N) + 1]
	:: left == 4 -> b = memory[3 * (k % N) + 2]
	:: left == 0 -> skip
	fi;
#endif
	d_step {
		torn = KEPT && (h != k + 1 || a != b || a / 2 != k + 1);
		assert(!torn)
	};
out:
	skip
}
