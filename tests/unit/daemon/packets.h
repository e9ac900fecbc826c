/* SPDX-License-Identifier: MIT */
/* Takes what a stream gives and reads it as strictly as CTF allows. Every record of the tests begins with its number, u64:
 * how many records the ring had before it. Asserts. */
#pragma once

#include "daemon/stream.h"

#include <glib.h>

typedef struct {
	Stream stream;
	ClassTable *table; /* owned: id 1 has a u64, id 2 a u64 and a string, id 3 a u64 and a u32 */
	bool numbered;	   /* the ring's records are as they were written: numbers must be theirs */
	u64 next;	   /* number behind the newest one seen, of those released */
	u64 packets, before, discarded;
	bool keeps;	   /* the memory of what is released: the test gives it back */
	GArray *numbers;   /* u64: of all released, in order; NULL: not kept */
} Packets;

void packets_init(Packets *p, u8 *map, int fd, const struct geometry *g, u32 ring, const struct record_clock *clock);
void packets_clear(Packets *p);
/* The stream anew, on the same ring, as after a restart. */
void packets_restart(Packets *p, u8 *map, int fd, const struct geometry *g, u32 ring, const struct record_clock *clock);

/* One packet, checked, and released if `release`. As stream_take(). */
int packets_take(Packets *p, unsigned flags, bool release, StreamPacket *ret);
/* All there are; how many records. */
u64 packets_drain(Packets *p, unsigned flags);
