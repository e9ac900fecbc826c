/* SPDX-License-Identifier: MIT */
/* Offset and count: bit 0 of the offset word names which of two count words is valid. A sequence writes the other
 * one (W0), then publishes offset and flipped bit in one store (W1); it may be begun again before that store.
 *
 * Property:
 *   other  a reader that sees the same offset word before and behind the count has the count that belongs to that offset: here
 *	    every record is one step, so that it is half of the word
 *
 * Stands for: COUNT and NEXT in lib/sequence-*.S, the two stores at the end of lib/side.c write_locked(), and
 * lib/reader.c reader_position().
 *
 * Orders: a W1 may stay in the store buffer for as long as nothing behind it is a release. A W0 is one: it is seen behind the W1
 * of the record before, and so is a W1 behind its W0. Loads are acquires, in order.
 *
 * Bounds: six records, three looks.
 *
 * Broken twins:
 *   SAME   the valid word is written
 *   ONCE   the reader does not compare
 *   PLAIN  W0 is no release: the count of a record may be seen before the offset of the record before */
#define LAST 6

byte word; /* 2 * offset + bit, as others see it */
byte own;  /* as the writer's CPU does */
byte count[2];
bool other;

active proctype buffer()
{
end:	do
	:: word != own -> word = own
	od
}

active proctype writer()
{
	byte at;
again:
	do
	:: own / 2 < LAST ->
#ifdef SAME
		at = own % 2;
#else
		at = 1 - own % 2;
#endif
#ifndef PLAIN
		word == own; /* W0 leaves behind the W1 before it */
#endif
		count[at] = count[own % 2] + 1;
		if
		:: goto again /* the count stored is never looked at */
		:: skip
		fi;
		word == own; /* there is room for one */
		own = 2 * (own / 2 + 1) + at
	:: else -> break
	od
}

active proctype reader()
{
	byte a, b, n, turns;

	do
	:: a = word;
	   n = count[a % 2];
#ifdef ONCE
	   b = a;
#else
	   b = word;
#endif
	   d_step { other = a == b && n != a / 2; assert(!other) };
	   turns++;
	   if
	   :: turns == 3 -> break
	   :: else -> skip
	   fi
	od
}
