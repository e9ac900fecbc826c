/* SPDX-License-Identifier: MIT */
/* One stream file of a trace that lies on disk, for reading. Nothing in it is believed: every packet is judged by its own
 * header (packet_decode()), and what its index says is held against the packets that it names. An index that is missing, short
 * or wrong costs time, never a result. The file may grow meanwhile (a trace that is being written); what it had when it was
 * opened is what is read. */
#pragma once

#include "daemon/trace/trace.h"
#include "lib/reader.h"

typedef struct {
	int fd, index_fd; /* owned; index_fd may be -1 */
	u8 uuid[16];
	u64 size;      /* of the file, in bytes */
	u64 n_entries; /* of the index, as far as it holds; 0: none, or it was found wrong */
	u64 touched;   /* packet headers that were read: what a search costs */
} TraceFile;

#define TRACE_FILE_NULL                                                                            \
	(TraceFile)                                                                                \
	{                                                                                          \
		.fd = -1, .index_fd = -1                                                           \
	}

/* A packet and where it lies. */
typedef struct {
	u64 offset;
	PacketInfo info;
} TracePacket;

/* Opens NAME below dir_fd, and index/NAME.idx. 0, -EBADMSG: no regular file, -errno. */
int trace_file_open(TraceFile *ret, int dir_fd, const char *name, const u8 uuid[16]);
void trace_file_close(TraceFile *f);

/* The packet at `offset`: 1; 0: the file ends there; -EBADMSG: what lies there is none, or not whole; -errno. */
int trace_file_packet(TraceFile *f, u64 offset, TracePacket *ret);
/* The one behind p, judged by it as well: its times and losses must not go back. As above. */
int trace_file_next(TraceFile *f, const TracePacket *p, TracePacket *ret);
/* The first packet that ends at `time` or later: 1, with *before, the packet in front of it (offset UINT64_MAX: there is none);
 * 0: none does; -EBADMSG: none does up to where the file is broken; -errno. O(log n) by the index. */
int trace_file_find(TraceFile *f, u64 time, TracePacket *ret, TracePacket *ret_before);
/* The last whole packet: 1; 0: there is none; -errno. A broken tail is no error: *ret_broken (may be NULL) says so. */
int trace_file_last(TraceFile *f, TracePacket *ret, bool *ret_broken);

/* The records of a packet, in *buffer (owned by the caller, made larger as needed; the records begin at its begin) with zeros
 * up to a multiple of 4. 0, -EBADMSG: the file is shorter now, -ENOMEM, -errno. */
typedef struct {
	u8 *p;
	size_t allocated;
} TraceBuffer;
int trace_file_records(TraceFile *f, const TracePacket *p, TraceBuffer *buffer);
void trace_buffer_clear(TraceBuffer *b);

/* Of the records of a packet, which lie at p, [*ret_first, *ret_end) are the *ret_n ones stamped within [from, to]; *ret_end
 * ends at the last byte of the last one. 0, or -EBADMSG: somewhere the chain breaks, or time goes back or beyond the packet;
 * what was before is given all the same. */
int trace_records_within(const u8 *p, const PacketInfo *info, u64 from, u64 to, u64 *ret_first, u64 *ret_end,
			 u64 *ret_n);
