/* SPDX-License-Identifier: MIT */
/* The pinned rings of one owner: whose each is. A ring belongs to one program as long as that lives, so that a chatty one fills its
 * own alone. It keeps what it says after that, for the snapshot of its death and later ones, until a program that has
 * none needs it and there is no unused one: then the ring of the program that has been gone longest is
 * given on, and its records with it, so that of a service that was restarted a thousand times the newest start is
 * there, and the fifteen before it. Only the loop calls; nothing is read back from what programs can write but
 * positions, and those are judged. */
#pragma once

#include "lib/geometry.h"

typedef struct {
	u32 holder; /* number of the program; 0: nobody's, or nobody's any more */
	u64 left;   /* which to end since there are rings it was, from 1; 0: it lives, or there was none */
} PinnedRing;

typedef struct {
	PinnedRing *rings; /* owned, n_pinned of them; NULL before the first was asked for */
	u64 n_left;
} Pinned;

void pinned_clear(Pinned *p);
/* The ring of this program, by its number in the region; 0 if there is none for it: all belong to programs that live, or their
 * words lie. */
u32 pinned_take(Pinned *p, u8 *map, const struct geometry *g, u32 holder);
/* The program is gone. */
void pinned_leave(Pinned *p, const struct geometry *g, u32 holder);
/* The oldest position that ring i still has: what is before it was given away. 0 for nonsense. */
u64 pinned_first(const u8 *map, const struct geometry *g, u32 i);
