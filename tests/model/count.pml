/* SPDX-License-Identifier: MIT */
/* Offset and count: bit 0 of the offset word names which of two count words is valid. A sequence writes the other
 * one, then publishes offset and flipped bit in one store; it may be restarted before that store.
 *
 * Property: a reader that sees the same offset word before and after reading the count has the count that belongs to
 * that offset. Here every record is one step, so count == offset / 2.
 *
 * Broken twins: -DSAME writes the valid word; -DONCE does not compare. */
#define LAST 6

byte word;     /* 2 * offset + bit */
byte count[2];

active proctype writer()
{
	byte w, other;
again:
	do
	:: word / 2 < LAST ->
		w = word;
#ifdef SAME
		other = w % 2;
#else
		other = 1 - w % 2;
#endif
		count[other] = count[w % 2] + 1;
		if
		:: goto again /* restarted: the count stored is never looked at */
		:: word = 2 * (w / 2 + 1) + other
		fi
	:: else -> break
	od
}

active proctype reader()
{
	byte a, b, n, turns;

	do
	:: a = word;
	   n = count[a % 2];
	   b = word;
#ifdef ONCE
	   b = a;
#endif
	   if
	   :: a == b -> assert(n == a / 2)
	   :: else -> skip
	   fi;
	   turns++;
	   if
	   :: turns == 3 -> break
	   :: else -> skip
	   fi
	od
}
