/* SPDX-License-Identifier: MIT */
/* The side ring's lock: {producer, tid} of its holder. A holder may be killed at any step; the daemon, which knows that the
 * producer is gone, breaks the lock by comparing and swapping the dead one's word; a holder gives it back by comparing and
 * swapping its own word, so that a lock broken wrongly never throws out a new holder.
 *
 * Properties:
 *   both  two living holders are never inside
 *   torn  what is published is whole, and every record whose call returned is there: whoever comes next begins from the last offset
 *   shut  after a death the others get in again: when nothing moves any more, no lock has a dead holder
 *
 * Stands for: lib/side.c lock(), unlock(), side_holder(), side_break(), the stores of write_locked(), daemon/locks.c locks_check().
 *
 * Orders: a holder's stores of the record and the offset stay in its store buffer, and leave it in any order, but the offset
 * (W1) and the lock given back, both releases, not before what was stored earlier. A dead one's buffer is empty before the daemon hears of the
 * death, which the kernel tells it.
 *
 * Bounds: three producers of a record each, of which the first may be killed; the others wait without a bound (in truth they count `busy`).
 *
 * Broken twins:
 *   BLIND    whatever word is there is broken
 *   NOBREAK  it is never broken
 *   GIVEN    the lock may be seen to be free before the offset
 *   EARLY    the offset may be seen before the record */
#define P 3

byte lock; /* 0, or number of the holder */
byte inside;
bool dead, told; /* the first, and the daemon knows */
byte finished;
byte unit[P + 1], offset;
byte waiting_unit, waiting_offset; /* in the holder's store buffer: value, 0: none; the unit's place is that of the offset before */
byte place;
bool returned[P + 1];
bool both, torn, shut;

#ifdef EARLY
#define BEHIND_UNIT true
#else
#define BEHIND_UNIT (waiting_unit == 0)
#endif
#ifdef GIVEN
#define DRAINED true
#else
#define DRAINED (waiting_unit == 0 && waiting_offset == 0)
#endif

active proctype buffer()
{
end:	do
	:: atomic { waiting_unit != 0 -> unit[place] = waiting_unit; waiting_unit = 0 }
	:: atomic { waiting_offset != 0 && BEHIND_UNIT -> offset = waiting_offset; waiting_offset = 0 }
	od
}

#define KILLED atomic { me == 1 -> dead = true; inside--; goto out }

proctype producer(byte me)
{
	byte at;

	atomic { lock == 0 -> lock = me; inside++; both = inside > 1; assert(!both) };
	if
	:: KILLED
	:: at = offset
	fi;
	if
	:: KILLED
	:: atomic { waiting_unit == 0 -> waiting_unit = me; place = at }
	fi;
	if
	:: KILLED
	:: atomic { waiting_offset == 0 -> waiting_offset = at + 1 }
	fi;
	if
	:: KILLED
	:: inside--
	fi;
	if
	:: atomic { me == 1 -> dead = true; goto out }
	:: atomic { DRAINED -> lock = (lock == me -> 0 : lock); returned[me] = true }
	:: atomic { me == 1 && DRAINED -> lock = (lock == me -> 0 : lock); returned[me] = true; dead = true }
	fi;
out:
	finished++
}

/* A timer: a lock that a producer holds that is not known any more. */
active proctype daemon()
{
	byte seen;

	do
	:: atomic { dead && !told && waiting_unit == 0 && waiting_offset == 0 -> told = true }
	:: told ->
		seen = lock;
#ifndef NOBREAK
#ifdef BLIND
		lock = 0;
#else
		if
		:: seen == 1 -> lock = (lock == seen -> 0 : lock)
		:: else -> skip
		fi;
#endif
#endif
		break
	:: finished == P && !dead -> break
	od
}

active proctype judge()
{
	byte i;

	timeout ->
	shut = finished < P || lock != 0;
	assert(!shut);
	i = 1;
	do
	:: i > P -> break
	:: else ->
		torn = returned[i] && unit[0] != i && unit[1] != i && unit[2] != i;
		assert(!torn);
		i++
	od;
	skip
}

/* at any one moment */
active proctype reader()
{
	d_step { torn = offset > 0 && unit[offset - 1] == 0; assert(!torn) }
}

init {
	atomic { run producer(1); run producer(2); run producer(3) }
}
