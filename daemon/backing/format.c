/* SPDX-License-Identifier: MIT */
#include "daemon/backing/format.h"

#include <pthread.h>

u64 backing_slots_at(const struct geometry *g, u32 ring)
{
	u64 at = BACKING_BLOCK + 2 * backing_table_size(g);
	const u32 n_of[] = { g->n_ring, g->n_side, g->n_pinned };

	/* rings of one kind are alike: no loop over what may be thousands */
	for (u32 kind = 0, before = 0; kind < ELEMENTSOF(n_of); before += n_of[kind++]) {
		u32 of_kind = n_of[kind];
		u32 n = ring > before ? MIN(ring - before, of_kind) : 0;

		if (n)
			at += n * backing_n_slots(g, before) * geometry_sub_size(g, before);
	}
	return at;
}

#define POLYNOMIAL 0xC96C5795D7870F42ull

/* Eight bytes a turn: table[k][b] is what byte b does, k bytes before the end of the eight. */
static u64 table[8][256];

static void table_fill(void)
{
	for (u32 i = 0; i < 256; i++) {
		u64 crc = i;

		for (u32 bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? POLYNOMIAL : 0);
		table[0][i] = crc;
	}
	for (u32 k = 1; k < 8; k++)
		for (u32 i = 0; i < 256; i++)
			table[k][i] = table[k - 1][i] >> 8 ^ table[0][table[k - 1][i] & 0xff];
}

u64 backing_checksum(u64 crc, const void *data, u64 size)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	const u8 *p = data;

	(void)pthread_once(&once, table_fill);
	crc = ~crc;
	for (; size >= 8; size -= 8, p += 8) {
		u64 x;

		memcpy(&x, p, sizeof(x));
		x ^= crc;
		crc = 0;
		for (u32 k = 0; k < 8; k++)
			crc ^= table[7 - k][x >> 8 * k & 0xff];
	}
	for (; size; size--, p++)
		crc = crc >> 8 ^ table[0][(crc ^ *p) & 0xff];
	return ~crc;
}
