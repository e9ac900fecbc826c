/* SPDX-License-Identifier: MIT */
/* A session slot of one process: attached to a session's ring, detached when the session is over, and attached to the ring of
 * the next session that gets the slot, under threads that record: two in restartable sequences, one in a side ring.
 *
 * Properties:
 *   stray  a record that was built for a session touches the ring of that session, by its geometry, and nothing else: not the
 *	    next session's ring, nor a place that words of two sessions together make up, nor the memory that covers a ring
 *   alien  what is published in a ring carries an id of that ring's session
 *   segv   a thread that is in a page fault on a ring never finds no mapping at all, whatever became of its sequence
 * They are asserted at each access. A kill is a run that ends early, so that they hold for one that is killed at any step.
 *
 * Stands for: lib/slot.c (all of slot_attach, slot_detach_until, wait_for_users, slot_enter, slot_leave), the head of each
 * sequence (LOAD in lib/sequence-*.S), lib/attach.c where it writes ids between a detach and an attach (take_session,
 * apply_answer), lib/event.c where it loads generation and id (record_quickly, record_carefully).
 *
 * Orders: the attaching thread's stores of ids, words and generation are in a store buffer and leave it in any order, but a
 * generation (release, seq_cst) not before what was stored earlier. A recorder's load of the id may come as late as inside its
 * sequence, behind that one's load of the generation, but not behind an interrupt: an abort and the fence let it have the value of that
 * moment. System calls are seen at once.
 *
 * Bounds: two sessions, one after the other; two recorders with a record each, or one with two and a user of the side ring, or, in a
 * process without sequences, that user alone; one thread attaches (there is a try-lock).
 *
 * Broken twins:
 *   NOFENCE   no membarrier between clearing the generation and covering the ring
 *   IGNORED   a membarrier that failed is taken for one that did not
 *   ZEROED    detach clears the other words together with the generation
 *   RELAXED   the generation may be seen before the words that it stands for
 *   LOOSE     the generation may be seen before the ids
 *   OUTSIDE   generation and words are loaded before the sequence, which looks at a copy of them
 *   UNASKED   a sequence does not compare the generation
 *   UNMAP     detach takes the mapping away, in place of covering it
 *   EARLY     ids of the next session are written while the last one's generation is there
 *   WEAK      the clearing of the generation may be seen after the look at the users
 *   HASTY     a user looks at the generation, then counts itself
 *   EVICT     users that do not leave in time are covered over */
#define SESSIONS 2
#define RECORDS	 2
#define EMPTY	 9 /* nothing in that place of the store buffer */

/* what is mapped: the ring of session 1 or 2, or */
#define ANONYMOUS 3
#define NOTHING	  4

byte mapped = ANONYMOUS;
byte words, ids, generation; /* of which session, as all others see them */
byte stored_words = EMPTY, stored_ids = EMPTY, stored_generation = EMPTY;
byte users;
bool sequences; /* this process has them */

bool inside[2], restart[2]; /* a recorder's sequence; the kernel's word to begin it anew */
bool id_open[2];	    /* its load of the id was issued and has no value yet */
byte id[2];

bool stray, alien, segv;

/* a store of the attaching thread: into its place of the buffer, if that is free */
#define STORE(place, value) atomic { stored_##place == EMPTY -> stored_##place = value }

#ifdef RELAXED
#define WORDS_LEFT true
#else
#define WORDS_LEFT (stored_words == EMPTY)
#endif
#ifdef LOOSE
#define IDS_LEFT true
#else
#define IDS_LEFT (stored_ids == EMPTY)
#endif

active proctype buffer()
{
end:	do
	:: atomic { stored_words != EMPTY -> words = stored_words; stored_words = EMPTY }
	:: atomic { stored_ids != EMPTY -> ids = stored_ids; stored_ids = EMPTY }
	:: atomic {
		stored_generation != EMPTY && WORDS_LEFT && IDS_LEFT ->
		generation = stored_generation; stored_generation = EMPTY
	}
	od
}

#define DRAINED (stored_words == EMPTY && stored_ids == EMPTY && stored_generation == EMPTY)

/* the interrupt of the membarrier: it is behind all that the caller stored, and restarts who is in a sequence */
inline fence()
{
	atomic {
		DRAINED ->
		restart[0] = inside[0];
		restart[1] = inside[1];
		id[0] = (id_open[0] -> ids : id[0]);
		id[1] = (id_open[1] -> ids : id[1]);
		id_open[0] = false;
		id_open[1] = false
	}
}

proctype attacher()
{
	byte g;
	bool retired;

	g = 1;
	do
	:: g > SESSIONS || retired -> break
	:: else ->
		/* slot_attach() */
#ifndef EARLY
		STORE(ids, g);
#else
		if
		:: g == 1 -> STORE(ids, g)
		:: else -> skip
		fi;
#endif
		mapped = g;
		STORE(words, g);
		STORE(generation, g);
#ifdef EARLY
		if
		:: g < SESSIONS -> STORE(ids, g + 1)
		:: else -> skip
		fi;
#endif
		/* slot_detach_until() */
		STORE(generation, 0);
#ifdef ZEROED
		STORE(words, 0);
#endif
		if
#ifndef NOFENCE
		:: sequences -> fence()
#ifdef IGNORED
		:: sequences -> skip
#else
		:: sequences -> retired = true /* the membarrier failed */
#endif
#else
		:: sequences -> skip
#endif
		:: !sequences -> skip
		fi;
#ifndef WEAK
		DRAINED;
#endif
		if
		:: users == 0 -> skip
		:: users != 0 -> /* and the time is over */
#ifndef EVICT
			retired = true
#else
			skip
#endif
		fi;
		if
#ifdef UNMAP
		:: !retired -> mapped = NOTHING
#else
		:: !retired -> mapped = ANONYMOUS
#endif
		:: retired -> skip
		fi;
		g++
	od
}

/* One instruction of a sequence, unless it is to begin anew: by the fence, or since the thread was preempted. */
#define STEP(what)                                                                                                     \
	if                                                                                                             \
	:: atomic { restart[me] -> goto again }                                                                        \
	:: atomic { !restart[me] -> id[me] = (id_open[me] -> ids : id[me]); id_open[me] = false; goto again }          \
	:: atomic { !restart[me] -> what }                                                                             \
	fi

proctype recorder(byte me; byte n)
{
	byte g, w;

	do
	:: n == 0 -> break
	:: else ->
		n--;
		g = generation;
		if
		:: g == 0 -> goto next
		:: else -> skip
		fi;
		if
		:: id[me] = ids
		:: id_open[me] = true
		fi;
#ifdef OUTSIDE
		w = words;
#define UNASKED
#endif
again:
		atomic {
			restart[me] = false;
			inside[me] = true;
#ifndef UNASKED
			if
			:: generation != g -> goto leave
			:: else -> skip
			fi
#endif
		};
#ifndef OUTSIDE
		STEP(w = words);
#endif
		if
		:: id_open[me] -> STEP(id[me] = ids; id_open[me] = false)
		:: else -> skip
		fi;
		if
		:: true ->
			STEP(skip); /* takes a page fault */
			d_step { segv = mapped == NOTHING; assert(!segv) }
		:: true -> skip
		fi;
		STEP(stray = mapped != g || w != g; assert(!stray));		      /* the payload */
		STEP(stray = mapped != g || w != g; assert(!stray);
		     alien = id[me] != g; assert(!alien)); /* the commit */
leave:
		atomic { inside[me] = false; restart[me] = false; id_open[me] = false }
next:
		skip
	od
}

/* A side ring: outside of sequences, signals blocked, counted. */
proctype user()
{
	byte g, seen, own;

	g = generation;
	if
	:: g == 0 -> goto out
	:: else -> own = ids
	fi;
#ifdef HASTY
	seen = generation;
	users++;
#else
	users++;
	seen = generation;
#endif
	if
	:: seen == g ->
		d_step {
			stray = mapped != g || words != g; assert(!stray);
			alien = own != g; assert(!alien)
		}
	:: else -> skip
	fi;
	users--;
out:
	skip
}

init
{
	atomic {
		if
		:: run user()
		:: sequences = true; run recorder(0, 1); run recorder(1, 1)
		:: sequences = true; run recorder(0, RECORDS); run user()
		fi;
		run attacher()
	}
}
