/* SPDX-License-Identifier: MIT */
#include "daemon/trace/index.h"

#include <endian.h>

void index_encode_header(u8 ret[INDEX_HEADER])
{
	const u32 head[4] = {htobe32(INDEX_MAGIC), htobe32(1), htobe32(1), htobe32(INDEX_ENTRY)};

	memcpy(ret, head, sizeof(head));
}

void index_encode_entry(u8 ret[INDEX_ENTRY], u64 offset, const PacketInfo *info)
{
	const u64 entry[9] = {
	    htobe64(offset),
	    htobe64(info->packet_size * 8),
	    htobe64(info->content_size * 8),
	    htobe64(info->begin),
	    htobe64(info->end),
	    htobe64(info->discarded),
	    htobe64(0), /* stream_id */
	    htobe64(info->stream_instance),
	    htobe64(info->sequence),
	};

	memcpy(ret, entry, sizeof(entry));
}

int index_check(const u8 *p, size_t size, size_t *ret_n)
{
	u8 expected[INDEX_HEADER];

	index_encode_header(expected);
	if (size < INDEX_HEADER || (size - INDEX_HEADER) % INDEX_ENTRY ||
	    memcmp(p, expected, INDEX_HEADER) != 0)
		return -EBADMSG;
	*ret_n = (size - INDEX_HEADER) / INDEX_ENTRY;
	return 0;
}

void index_decode_entry(u64 *ret_offset, PacketInfo *ret, const u8 *p)
{
	u64 entry[9];

	memcpy(entry, p, sizeof(entry));
	*ret_offset = be64toh(entry[0]);
	*ret = (PacketInfo){
	    .packet_size = be64toh(entry[1]) / 8,
	    .content_size = be64toh(entry[2]) / 8,
	    .begin = be64toh(entry[3]),
	    .end = be64toh(entry[4]),
	    .discarded = be64toh(entry[5]),
	    .stream_instance = (u32)be64toh(entry[7]),
	    .sequence = be64toh(entry[8]),
	};
}
