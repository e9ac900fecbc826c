/* SPDX-License-Identifier: MIT */
/* `consumed` and the offset under discard and block, on a machine with weak order: a writer that enters only what was given
 * back, and a daemon that copies what was published, writes it to a file, gives it back, and may be killed at any step; the next
 * daemon goes on from `consumed`.
 *
 * Properties:
 *   torn  what gets into the file is what was written at that position
 *   lost  every record that was published is in the file, in the ring at or above `consumed`, or in both
 *
 * Stands for: the entry under discard (8021 in lib/sequence-*.S, may_enter() in lib/side.c), lib/reader.c reader_consume(),
 * daemon/stream.c (stream_take, stream_release, give), daemon/consumer-thread.c give(). A refused record is counted, or waits: room.pml.
 *
 * Orders: the writer's record and offset are in its store buffer and leave it in any order, but the offset (W1, release) not before the record.
 * Its entry loads `consumed` and stores behind that, since it branches on it. The daemon's load of the record may be made late, but not behind the
 * store of `consumed`, a release; its load of the offset (R1) is an acquire.
 *
 * Bounds: two sub-buffers of one record, five records, one death.
 *
 * Broken twins:
 *   RELAXED  the offset may be seen before the record
 *   UNASKED  an entry does not look at `consumed`
 *   LOOSE    `consumed` may be seen before the record was loaded
 *   HASTY    it is given back before it is in the file */
#define N    2
#define LAST 5

byte unit[N];	   /* position + 1 */
byte offset, consumed;
byte waiting_unit, waiting_offset, place;
byte filed; /* positions below are in the file */
bool torn, lost;

#ifdef RELAXED
#define BEHIND_UNIT true
#else
#define BEHIND_UNIT (waiting_unit == 0)
#endif

active proctype buffer()
{
end:	do
	:: atomic { waiting_unit != 0 -> unit[place] = waiting_unit; waiting_unit = 0 }
	:: atomic { waiting_offset != 0 && BEHIND_UNIT -> offset = waiting_offset; waiting_offset = 0 }
	od
}

active proctype writer()
{
	byte at;

end:	do
	:: at == LAST -> break
	:: at < LAST ->
#ifndef UNASKED
		at + 1 <= N + consumed;
#endif
		atomic { waiting_unit == 0 -> waiting_unit = at + 1; place = at % N };
		atomic { waiting_offset == 0 -> waiting_offset = at + 1 };
		at++
	od
}

active proctype daemon()
{
	byte done, got;
	bool died;

again:
	done = consumed;
end:	do
	:: done == LAST -> break
	:: done < offset ->
#ifdef LOOSE
		if
		:: consumed = done + 1
		:: skip
		fi;
#endif
		got = unit[done % N];
#ifdef HASTY
		consumed = done + 1;
		if
		:: !died -> died = true; goto again
		:: skip
		fi;
#endif
		skip;
		d_step { torn = got != done + 1; assert(!torn) };
		if
		:: !died -> died = true; goto again
		:: skip
		fi;
		skip;
		d_step {
			lost = done > filed; /* a hole */
			assert(!lost);
			filed = (filed > done + 1 -> filed : done + 1)
		};
		if
		:: !died -> died = true; goto again
		:: skip
		fi;
		consumed = done + 1;
		done++
	od;
	skip;
	d_step { lost = filed < LAST; assert(!lost) }
}
