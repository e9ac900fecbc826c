/* SPDX-License-Identifier: MIT */
/* The control page's generations against a program that synchronises. A daemon begins a session, ends it, and gives its slot to
 * another one; it may be killed between any two stores, once, and the next daemon goes on with the page. A program with two
 * threads records, asks when the generation is news, may lose patience, and attaches what it is answered.
 *
 * Properties:
 *   stray    a record made by a slot of the generation that the page shows goes to the ring of the session that has the slot now
 *   kept     whoever has synchronised at a generation, whatever came of it, holds no ring of a session that was over at that one
 *   dropped  a session that a program was attached to, and that goes on, is missed by no record of it while somebody synchronises,
 *	      or fails to
 *   deaf     when all is quiet, and a daemon answers, a running session gets the next record
 *
 * Stands for: daemon/board.c (board_session_begin, board_session_end, page_keep, page_clear, generation_next, board_retry),
 * daemon/takeover.c session_take,
 * daemon/exchange.c exchange_drop and daemon/programs.c programs_late (who lost patience is told to ask again, by a word that moves),
 * lib/attach.c (due, retry_due, synchronise, synchronise_locked, take_session, apply_answer), lib/event.c (record_all, record_carefully) and
 * the check in lib/tracer.h that leads there. Attaching and recording are one step each: slot.pml takes them apart.
 *
 * Orders: the daemon's stores are releases, each seen behind all those before it; so each is a step. An exchange goes
 * through a socket, and is ordered by the kernel. A program may be killed at any step: a run that ends early.
 *
 * Bounds: one slot, one event class, either two sessions, one death of a daemon, one thread, or one session, news of another one, two
 * threads, no death; two records of a thread, the last one behind it all, or two and one; an exchange may be given up whenever it has not been answered. A program that loses patience has sent all it had to: a request that
 * was cut off is not known to the daemon as one.
 *
 * Broken twins:
 *   ORDER    the generation is moved before the slot's generation
 *   RESET    a new daemon begins to count anew
 *   ALL	      a synchronisation begins by letting go of every slot
 *   SILENT   a new daemon does not move the generation
 *   FORGET   a new daemon does not write the masks of the sessions that it goes on with
 *   PATIENT  who lost patience is not heard of
 *   SEEN     the word is looked at when the exchange is over, and not before it
 *   STAMP    the answer is taken for one of the generation that the page shows when it is applied */
/* the page; `ring` is what it stands for: the ring of the session that has the slot */
bool mask;
byte slot_generation, generation, ring, retry;

/* the daemon: what its memory in the fd store says, and the session that runs */
byte told, told_ring;
byte begun; /* sessions begun: their rings' numbers */
bool quiet_now; /* it has done what it had to */
bool died, closing;
bool news; /* of another session: the generation moves */

/* the exchange */
#define IDLE	 0
#define ASKED	 1
#define ANSWERED 2
#define FAILED	 3
byte exchange;
byte answer, answer_slot, answer_ring;
bool late; /* somebody asked and did not wait */

/* the program */
bool lock;
byte own_generation, own_ring;
byte class_generation;
bool class_quiet;
byte attempted, answered;
bool attempt_failed;
byte retry_seen;
byte threads = 1;

/* for the properties */
/* 0, or the generation that told of the end of the session that the program's slot, or the answer, belongs to */
byte own_over, answer_over;
bool attached;	/* the program was attached to the session that has the slot now */
bool stray, kept, dropped, deaf;

#ifdef RESET /* breaks these as well, and is to be seen breaking the other */
#define CHECK(property) skip
#else
#define CHECK(property) assert(!property)
#endif

/* one store of the daemon, unless it is killed before */
#define STORE(what)                                                                                                    \
	if                                                                                                             \
	:: atomic { !died -> died = true; goto dead }                                                                  \
	:: atomic { what }                                                                                             \
	fi

#define OVER_NOW(of, was) (slot_generation && of == slot_generation && !was -> generation + 1 : was)
#define OVER own_over = OVER_NOW(own_generation, own_over); answer_over = OVER_NOW(answer_slot, answer_over)

inline begin()
{
	STORE(begun++; next = generation + 1; mask = true);
#ifdef ORDER
	STORE(generation = next);
	STORE(slot_generation = next; ring = begun; attached = false);
#else
	STORE(slot_generation = next; ring = begun; attached = false);
	STORE(generation = next);
#endif
	STORE(told = next; told_ring = begun)
}

inline end_session()
{
	STORE(mask = false);
#ifdef ORDER
	STORE(OVER; generation++);
	STORE(slot_generation = 0; ring = 0; attached = false);
#else
	STORE(OVER; slot_generation = 0; ring = 0; attached = false);
	STORE(generation++);
#endif
	STORE(told = 0; told_ring = 0)
}

#define ANSWER                                                                                                         \
	d_step {                                                                                                       \
		exchange == ASKED -> exchange = ANSWERED; answer = generation; answer_slot = told; answer_ring = told_ring \
	}
#ifndef PATIENT
#define HEAR d_step { late -> late = false; retry++ } /* at a limited rate, which is time */
#else
#define HEAR late -> late = false
#endif

/* Between its changes: a loop, one thing at a time. */
inline serve()
{
	do
	:: ANSWER
	:: HEAR
	:: d_step { news -> news = false; generation++ }
	:: true -> break
	od
}

proctype daemon()
{
	byte next;

again:
	serve();
	if
	:: told == 0 && begun < 2 -> begin()
	:: else -> skip
	fi;
	serve();
	if
	:: told != 0 -> end_session(); goto again
	:: told == 0 || begun == 2 -> skip
	fi;
	quiet_now = true;
end:	do
	:: ANSWER
	:: HEAR
	:: atomic { !died && !closing -> died = true; quiet_now = false; goto dead }
	od;
dead:
	skip;
	quiet_now = false;
	/* who was being served sees the end of it; who stands in systemd's queue does not */
	if
	:: atomic { exchange == ASKED -> exchange = FAILED }
	:: late = false
	:: skip
	fi;
	/* board_open(): page_keep(), page_clear() */
#ifdef RESET
	generation = 0;
#endif
	if
	:: told != 0 && told == slot_generation ->
#ifndef FORGET
		mask = true /* it may have been killed over them: board_session_keep() */
#else
		skip
#endif
	:: else ->
		mask = false;
		told = 0;
		told_ring = 0;
		d_step {
			OVER;
			slot_generation = 0;
			ring = 0;
			attached = false
		}
	fi;
#if !defined(SILENT) && !defined(RESET)
	generation++;
#endif
	goto again
}

/* The program's own time to ask again is time: none passes here. */
#define DUE ((attempted != generation && (!attempted || attempt_failed || answered != generation)) || (attempt_failed && retry != retry_seen))

#define LET_GO own_generation = 0; own_ring = 0; own_over = 0

/* synchronise_locked(): the slot of a session that is over is let go of first, whatever the daemon answers. */
inline synchronise()
{
	atomic {
		asked = generation;
		if
		:: !DUE -> goto unlock
		:: else -> skip
		fi
	};
#ifndef SEEN
	before = retry;
#endif
	atomic {
#ifdef ALL
		LET_GO;
#endif
		if
		:: own_generation != slot_generation -> LET_GO
		:: else -> skip
		fi;
		exchange = ASKED
	};
	if
	:: atomic {
		exchange == ANSWERED ->
		exchange = IDLE;
		if
		:: own_generation != answer_slot ->
			own_generation = answer_slot;
			own_ring = answer_ring;
			own_over = answer_over
		:: else -> skip
		fi;
		attached = attached || (answer_slot && answer_slot == slot_generation)
	   };
	   atomic {
		answered = answer;
		class_quiet = !own_generation;
#ifdef STAMP
		class_generation = generation;
#else
		class_generation = answer;
#endif
		attempt_failed = false
	   }
	:: atomic { exchange == FAILED -> exchange = IDLE; attempt_failed = true }
	/* patience is over; an answer that is there, unread, makes no difference */
	:: atomic { (exchange == ASKED || exchange == ANSWERED) && !last -> exchange = IDLE; late = true; attempt_failed = true }
	fi;
#ifdef SEEN
	before = retry;
#endif
	atomic {
		attempted = asked;
		retry_seen = before;
		answer = 0;
		answer_slot = 0;
		answer_ring = 0;
		answer_over = 0;
		kept = own_generation && own_over && own_over <= asked;
		CHECK(kept)
	};
unlock:
	lock = false;
	skip
}

proctype thread(byte n; bool last)
{
	byte now, asked, own, seen, before;
	bool done;

	if
	:: last -> atomic { quiet_now && !late && threads == 0 -> closing = true }
	:: else -> skip
	fi;
	do
	:: n == 0 -> break
	:: else ->
		atomic {
			n--;
			seen = class_generation;
			if
			:: !mask -> goto over
			:: else -> skip
			fi
		};
		if
		:: seen == generation ->
			atomic {
				own = own_generation;
				if
				:: class_quiet -> goto over
				:: !class_quiet && own -> goto record
				:: else -> skip
				fi
			}
		:: else ->
			if
			:: atomic { DUE && !lock -> lock = true }; synchronise()
			:: else -> skip
			fi;
			atomic {
				if
				:: class_generation == generation && class_quiet -> goto over
				:: else -> skip
				fi
			}
		fi;
		now = slot_generation;
		atomic {
			own = own_generation;
			dropped = now && own != now && attached && slot_generation == now;
			assert(!dropped);
			if
			:: !now || own != now -> goto over
			:: else -> skip
			fi
		};
record:
		skip;
		/* the sequence compares */
		d_step {
			stray = own == own_generation && own == slot_generation && own_ring != ring;
			assert(!stray);
			done = own == own_generation && own == slot_generation
		};
over:
		skip;
		d_step { now = 0; asked = 0; own = 0; seen = 0; before = 0 }
	od;
	skip;
	d_step { deaf = last && told && !done; CHECK(deaf) };
	threads = (last -> threads : threads - 1)
}

init
{
	atomic {
		if
		:: run thread(1, false) /* and a daemon may die */
		:: died = true; begun = 1; news = true; threads = 2; run thread(2, false); run thread(1, false)
		fi;
		run thread(1, true);
		run daemon()
	}
}
