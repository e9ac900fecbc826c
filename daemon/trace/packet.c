/* SPDX-License-Identifier: MIT */
#include "daemon/trace/packet.h"

#include <endian.h>

static u8 *put32(u8 *p, u32 v)
{
	v = htole32(v);
	memcpy(p, &v, sizeof(v));
	return p + sizeof(v);
}

static u8 *put64(u8 *p, u64 v)
{
	v = htole64(v);
	memcpy(p, &v, sizeof(v));
	return p + sizeof(v);
}

static u32 get32(const u8 *p)
{
	u32 v;

	memcpy(&v, p, sizeof(v));
	return le32toh(v);
}

static u64 get64(const u8 *p)
{
	u64 v;

	memcpy(&v, p, sizeof(v));
	return le64toh(v);
}

void packet_encode(u8 ret[PACKET_HEADER], const u8 uuid[16], const PacketInfo *info)
{
	u8 *p = put32(ret, PACKET_MAGIC);

	memcpy(p, uuid, 16);
	p = put32(p + 16, 0); /* stream_id: there is one stream class */
	p = put64(p, info->stream_instance);
	p = put64(p, info->begin);
	p = put64(p, info->end);
	p = put64(p, info->content_size * 8);
	p = put64(p, info->packet_size * 8);
	p = put64(p, info->sequence);
	p = put64(p, info->discarded);
	put32(p, info->cpu);
}

int packet_decode(PacketInfo *ret, const u8 *p, u64 room, const u8 uuid[16])
{
	if (room < PACKET_HEADER || get32(p) != PACKET_MAGIC || get32(p + 20) != 0 ||
	    (uuid && memcmp(p + 4, uuid, 16) != 0))
		return -EBADMSG;

	PacketInfo info = {
	    .stream_instance = (u32)get64(p + 24),
	    .begin = get64(p + 32),
	    .end = get64(p + 40),
	    .content_size = get64(p + 48) / 8,
	    .packet_size = get64(p + 56) / 8,
	    .sequence = get64(p + 64),
	    .discarded = get64(p + 72),
	    .cpu = get32(p + 80),
	};
	if (get64(p + 48) % 8 || get64(p + 56) % (PACKET_ALIGN * 8) || info.packet_size > room ||
	    info.content_size > info.packet_size || info.content_size < PACKET_HEADER ||
	    info.begin > info.end)
		return -EBADMSG;
	*ret = info;
	return 0;
}
