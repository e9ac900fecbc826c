/* SPDX-License-Identifier: MIT */
/* A consumer that goes to sleep, writers that fill sub-buffers, and the daemon's main thread that has an order for the
 * consumer (lib/abi.h 9).
 *
 * Property:
 *   asleep  no full sub-buffer and no order is left while the consumer sleeps with no call on its way: when nothing moves any
 *	     more, it has come to its end, which is behind the last of each. The one call that may be missed is a writer's, between the look and the sleep: for that
 * alone a wait may run out of time (`missed`); orders need no time.
 *
 * A writer's W1 may stay in its store buffer while its load of `wake` is made; it leaves the buffer at any time, and at the
 * consumer's membarrier.
 *
 * Stands for: daemon/beacon.c, daemon/consumer-thread.c rest(), lib/waiter.c call(), and W1 of a boundary.
 *
 * Bounds: two writers of two sub-buffers, one order.
 *
 * Broken twins:
 *   NOFENCE   no membarrier
 *   ONCE      the consumer does not look again once it has armed itself
 *   UNCOMPARED  it sleeps without comparing the word
 *   ENDLESS   a wait never runs out of time: the missed call is missed for good
 *   BLIND     a writer calls once, for its first sub-buffer only */
#define WRITERS 2
#define EACH	2
#define LAST	(WRITERS * EACH)

byte buffer[WRITERS];	/* published, and not visible yet */
byte whole;		/* sub-buffers that are full, visibly */
byte taken;
bool wake, sleeping, missed;
bool order;
bool ended, asleep;

proctype writer(byte me)
{
	byte n;
	bool call;

	do
	:: n == EACH -> break
	:: n < EACH ->
		buffer[me]++; /* W1 */
		n++;
		call = wake;
#ifdef BLIND
		call = call && n == 1;
#endif
		if
		:: call -> atomic { missed = !sleeping; sleeping = false } /* FUTEX_WAKE */
		:: else -> skip
		fi
	od
}

/* What is in a buffer gets out by itself, some time. */
active proctype drain()
{
	byte left = LAST;

	do
	:: left == 0 -> break
	:: atomic { buffer[0] > 0 -> buffer[0]--; whole++; left-- }
	:: atomic { buffer[1] > 0 -> buffer[1]--; whole++; left-- }
	:: atomic { whole == LAST -> left = 0 } /* the barrier did the rest */
	od
}

active proctype main_thread()
{
	order = true;
	/* beacon_call() */
	wake = false;
	sleeping = false
}

active proctype consumer()
{
	bool ordered;

	do
	:: taken == LAST && ordered -> break
	:: else ->
		taken = whole;
		if
		:: order -> ordered = true
		:: else -> skip
		fi;
		if
		:: taken == LAST && ordered -> break
		:: else -> skip
		fi;
		missed = false;
		wake = true;
#ifndef NOFENCE
		d_step {
			whole = whole + buffer[0] + buffer[1];
			buffer[0] = 0;
			buffer[1] = 0
		};
#endif
		if
#ifndef ONCE
		:: whole > taken || (order && !ordered) -> skip
#endif
#ifdef ONCE
		:: true ->
#else
		:: else ->
#endif
			/* FUTEX_WAIT: compared and asleep in one step, by the kernel's lock */
#ifdef UNCOMPARED
			sleeping = true;
#else
			atomic {
				if
				:: wake -> sleeping = true
				:: else -> skip
				fi
			};
#endif
#ifdef ENDLESS
			!sleeping
#else
			atomic { !sleeping || missed -> sleeping = false }
#endif
		fi;
		wake = false
	od;
	ended = true
}

/* when nobody else can move */
active proctype judge()
{
	timeout -> asleep = !ended; assert(!asleep)
}

init
{
	run writer(0);
	run writer(1)
}
