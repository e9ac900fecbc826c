/* SPDX-License-Identifier: MIT */
/* The bytes in front of a packet's records: CTF packet header and context, as metadata.c declares
 * them. */
#pragma once

#include "daemon/trace/trace.h"

#define PACKET_MAGIC  0xC1FC1FC1u
#define PACKET_HEADER 84 /* a multiple of 4: the first record follows without a gap */
#define PACKET_ALIGN  8  /* of packet_size */

static inline u64 packet_size(u64 records)
{
	return ALIGN_UP(PACKET_HEADER + records, (u64)PACKET_ALIGN);
}

void packet_encode(u8 ret[PACKET_HEADER], const u8 uuid[16], const PacketInfo *info);
/* The other way, for tests and for recovery. -EBADMSG if the magic, the uuid or the sizes are not
 * right for `room` bytes. */
int packet_decode(PacketInfo *ret, const u8 *p, u64 room, const u8 uuid[16]);
