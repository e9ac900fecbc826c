/* SPDX-License-Identifier: MIT */
/* index/NAME.idx: where the packets of a stream lie and what times they cover, in LTTng's format
 * (CTFINDEX 1.1, big endian), which babeltrace2 opens instead of reading every packet's header. */
#pragma once

#include "daemon/trace/trace.h"

#define INDEX_MAGIC  0xC1F1DCC1u
#define INDEX_HEADER 16
#define INDEX_ENTRY  72

void index_encode_header(u8 ret[INDEX_HEADER]);
void index_encode_entry(u8 ret[INDEX_ENTRY], u64 offset, const PacketInfo *info);

/* For tests and for recovery: -EBADMSG unless it is a whole index of this version; *ret_n entries
 * follow the header. */
int index_check(const u8 *p, size_t size, size_t *ret_n);
void index_decode_entry(u64 *ret_offset, PacketInfo *ret, const u8 *p);
