/* SPDX-License-Identifier: MIT */
/* The side ring's lock: {producer, tid} of its holder. A holder may die at any step; the daemon, which knows that the
 * producer is gone, breaks the lock by comparing and swapping the dead one's word; a holder gives it back by comparing and
 * swapping its own word, so that a lock broken wrongly never throws out a new holder.
 *
 * Properties: never two living holders inside; after a death the others get in again (no end state but the proper ones).
 *
 * Broken twins: -DBLIND breaks whatever word is there; -DNOBREAK never breaks it. */
#define P 3

byte lock;	   /* 0, or number of the holder */
byte inside;
bool dead[P + 1];
byte finished;

proctype producer(byte me)
{
	atomic { lock == 0 -> lock = me };
	inside++;
	assert(inside == 1);
	if
	:: me == 1 -> atomic { inside--; dead[me] = true; finished++ } /* killed while it holds the lock */
	:: me == 1 -> /* killed after it gave it back */
	   inside--;
	   lock = 0;
	   atomic { dead[me] = true; finished++ }
	:: inside--;
	   atomic { if :: lock == me -> lock = 0 :: else -> skip fi };
	   finished++
	fi
}

proctype daemon()
{
	byte seen;

#ifndef NOBREAK
	dead[1] || finished == P;
	seen = lock;
#ifdef BLIND
	if
	:: dead[1] -> lock = 0
	:: else -> skip
	fi
#else
	if
	:: dead[1] -> atomic { if :: lock == 1 -> lock = 0 :: else -> skip fi }
	:: else -> skip
	fi
#endif
#endif
	seen = 0
}

init {
	atomic { run producer(1); run producer(2); run producer(3); run daemon() }
}
