/* SPDX-License-Identifier: MIT */
/* Records and entries of sub-buffers as restartable sequences: two CPUs with a ring each; a thread with a signal handler that
 * records as well, and a thread of another process. The kernel preempts, runs a thread on again on any CPU that is free,
 * delivers the signal, and kills a process, each between any two instructions; who was in a sequence begins it again.
 *
 * Properties, of the rings at any moment, as a reader walks them from their beginning to their offset:
 *   torn   every record is whole, and where the sub-buffers' headers and ends say that records are
 *   twice  no record is there more than once
 *   gone   a record whose call has returned is there, whoever was killed
 *   off    the valid count word says how many there are
 *
 * Stands for: lib/sequence-x86_64.S and lib/sequence-aarch64.S, sequence_fast_*, sequence_full (inside, entry, exact fit) and
 * sequence_boundary, with COUNT and NEXT; lib/record.c attempt(), which begins an aborted one again and makes way by a boundary.
 * Nothing of one sequence but its last store, the commit, makes what it stored part of the ring.
 *
 * Orders: stores are seen as they are made: what restarts, kills and other threads see of a CPU's own stores is in order on any
 * machine, since they run on that CPU or behind a context switch. Other machines' orders are for readers: ring.pml, count.pml.
 *
 * Bounds: a thread and its handler, or two threads of two processes; one record of each, of two units, one, two; sub-buffers of a header and three units, in rings that do not come
 * round. Two preemptions, each of which may
 * end on another CPU; a signal; the process of the two is killed or not.
 *
 * Broken twins:
 *   EARLY    the commit comes before the last of the payload
 *   LATE     the commit is not the last instruction of its sequence
 *   PLAIN    nothing is restarted
 *   OUTSIDE  the CPU is asked before the sequence, and kept over its restarts
 *   SAME     the count is counted up in the word that is valid
 *   EXACT    a record that fits exactly does not store `end` */
#define SUB   4
#define SUBS  4
#define UNITS (SUB * SUBS) /* of a ring */
#define TURNS 2 /* preemptions */


byte unit[2 * UNITS]; /* 1 + who */
byte header[2 * SUBS], last[2 * SUBS]; /* of sub-buffer SUBS * ring + n: position + 1, and `end` */
byte word[2];	      /* 2 * position + valid */
byte count[4];	      /* 2 * ring + valid */

/* context 0 is a thread, context 1 its handler, context 2 another process's thread */
#define THREAD(who) (who / 2)
byte cpu[2];
bool runs[2], killed[2], over[2];
bool handling, signalled;
bool inside[3], restart[3], returned[3];

bool torn, twice, gone, off;

#define RUNS(who) (runs[THREAD(who)] && (who == 2 || handling == (who == 1)))

/* The kernel takes a context off its CPU, or puts a handler above it. */
#ifdef PLAIN
#define INTERRUPT(who) skip
#else
#define INTERRUPT(who) restart[who] = inside[who]
#endif

#define STEP(what)                                                                                                     \
	if                                                                                                             \
	:: atomic { RUNS(who) && restart[who] -> goto again }                                                          \
	:: atomic { RUNS(who) && !restart[who] -> what }                                                               \
	:: killed[THREAD(who)] -> goto dead                                                                            \
	fi

proctype context(byte who; byte size)
{
	byte at, valid, to, ring;

#ifdef OUTSIDE
	ring = cpu[THREAD(who)];
#endif
again:
	if
	:: atomic {
		RUNS(who) ->
		inside[who] = true;
		restart[who] = false;
#ifndef OUTSIDE
		ring = cpu[THREAD(who)]
#endif
	   }
	:: killed[THREAD(who)] -> goto dead
	fi;
	STEP(at = word[ring] / 2; valid = word[ring] % 2);
	if
	:: at % SUB != 0 && at % SUB + size > SUB ->
		/* the boundary, and nothing else */
		STEP(last[SUBS * ring + at / SUB] = at);
		STEP(count[2 * ring + 1 - valid] = count[2 * ring + valid]);
		STEP(word[ring] = 2 * (at / SUB * SUB + SUB) + 1 - valid; inside[who] = false);
		goto again
	:: at % SUB == 0 -> STEP(header[SUBS * ring + at / SUB] = at + 1); to = at + 1
	:: at % SUB != 0 && at % SUB + size <= SUB -> to = at
	fi;
	STEP(unit[ring * UNITS + to] = 1 + who);
#ifndef EARLY
	if
	:: size == 2 -> STEP(unit[ring * UNITS + to + 1] = 1 + who)
	:: else -> skip
	fi;
#endif
#ifndef EXACT
	if
	:: (to + size) % SUB == 0 -> STEP(last[SUBS * ring + at / SUB] = to + size)
	:: else -> skip
	fi;
#endif
#ifdef SAME
	STEP(count[2 * ring + valid]++);
#else
	STEP(count[2 * ring + 1 - valid] = count[2 * ring + valid] + 1);
#endif
#ifdef LATE
	STEP(word[ring] = 2 * (to + size) + 1 - valid);
	STEP(inside[who] = false; returned[who] = true);
#else
#ifdef EARLY
	STEP(word[ring] = 2 * (to + size) + 1 - valid);
	STEP(unit[ring * UNITS + to + size - 1] = 1 + who; inside[who] = false; returned[who] = true);
#else
#ifdef SAME
	STEP(word[ring] = 2 * (to + size) + valid; inside[who] = false; returned[who] = true);
#else
	STEP(word[ring] = 2 * (to + size) + 1 - valid; inside[who] = false; returned[who] = true);
#endif
#endif
#endif
dead:
	atomic {
		handling = (who == 1 -> false : handling);
		over[0] = over[0] || who == 0;
		over[1] = over[1] || who == 2;
		at = 0; valid = 0; to = 0; ring = 0
	}
}

proctype kernel()
{
	byte t, c;

	byte turns;

	do
	:: over[0] && over[1] && (signalled && !handling || killed[0]) -> break
	:: atomic {
		!runs[0] && !killed[0] ->
		if
		:: !(runs[1] && cpu[1] == 0) -> cpu[0] = 0; runs[0] = true
		:: !(runs[1] && cpu[1] == 1) -> cpu[0] = 1; runs[0] = true
		fi
	   }
	:: atomic {
		!runs[1] && !killed[1] ->
		if
		:: !(runs[0] && cpu[0] == 0) -> cpu[1] = 0; runs[1] = true
		:: !(runs[0] && cpu[0] == 1) -> cpu[1] = 1; runs[1] = true
		fi
	   }
	:: atomic { runs[0] && turns < TURNS -> turns++; runs[0] = false; INTERRUPT(0); INTERRUPT(1) }
	:: atomic { runs[1] && turns < TURNS -> turns++; runs[1] = false; INTERRUPT(2) }
	:: atomic { runs[0] && !signalled -> signalled = true; handling = true; INTERRUPT(0) }
	:: atomic { !killed[0] -> killed[0] = true; runs[0] = false }
	od
}

/* Walks both rings, at any one moment. */
proctype reader()
{
	byte r, p, n, who, seen, end;

	d_step {
		r = 0;
		do
		:: r == 2 -> break
		:: else ->
			p = 0;
			n = 0;
			do
			:: p >= word[r] / 2 -> break
			:: else ->
				if
				:: p % SUB == 0 ->
					/* where its records end: as it says itself, once there is a boundary behind it */
					end = (word[r] / 2 >= p + SUB -> last[SUBS * r + p / SUB] : word[r] / 2);
					torn = header[SUBS * r + p / SUB] != p + 1 || end <= p || end > p + SUB;
					assert(!torn);
					p++
				:: else -> skip
				fi;
				if
				:: p >= end -> p = (p + SUB - 1) / SUB * SUB
				:: else ->
					who = unit[r * UNITS + p];
					torn = who == 0;
					assert(!torn);
					who--;
					torn = who != 1 && (p + 1 >= end || unit[r * UNITS + p + 1] != who + 1);
					assert(!torn);
					twice = (seen >> who) & 1;
					assert(!twice);
					seen = seen | (1 << who);
					n++;
					p = p + (who == 1 -> 1 : 2);
					p = (p == end -> (word[r] / 2 >= (p + SUB - 1) / SUB * SUB -> (p + SUB - 1) / SUB * SUB : p) : p)
				fi
			od;
			off = count[2 * r + word[r] % 2] != n;
			assert(!off);
			r++
		od;
		gone = (returned[0] && !(seen & 1)) || (returned[1] && !(seen & 2)) || (returned[2] && !(seen & 4));
		assert(!gone);
		r = 0; p = 0; n = 0; who = 0; seen = 0; end = 0
	}
}

init
{
	atomic {
		run context(0, 2);
		if
		:: run context(1, 1); over[1] = true; killed[1] = true /* nobody else */
		:: run context(2, 2); signalled = true
		fi;
		run kernel();
		run reader()
	}
}
