/* SPDX-License-Identifier: MIT */
/* One owner's trace that is written while it is recorded: a directory with `metadata`, a stream file per ring, and
 * `index/NAME.idx`, as trace.h makes them in one go. It can be read at any time up to its last flush: the metadata is replaced
 * as a whole, by rename, before the first packet that needs it; a stream file ends with a whole packet; an index that is
 * shorter than its stream is ignored by readers.
 *
 * One thread at a time: the consumer's until live_trace_end(), whoever closes it afterwards. */
#pragma once

#include "daemon/sink/sink.h"
#include "daemon/trace/trace.h"

typedef struct LiveTrace LiveTrace;
typedef struct LiveStream LiveStream;

/* One packet's records and what is said of them. */
typedef struct {
	const void *records;
	u64 size; /* to the last byte of the last record; 0: an empty packet, which only says losses */
	u64 n_records;
	int fd; /* the memfd in which they lie at fd_offset, or -1 */
	u64 fd_offset;
	u64 begin, end, discarded;
	u64 mark; /* for live_stream_mark(); 0: says nothing */
} LivePacket;

/* Makes directories NAME and NAME/index below dir_fd (borrowed), and draws a uuid; NAME is a file name already (trace_name()). */
int live_trace_new(LiveTrace **ret, int dir_fd, const char *name, SinkSet *sinks);
/* Gives up what is open; records that were taken and are not in a file are counted (*ret_lost, may be NULL). */
LiveTrace *live_trace_free(LiveTrace *t, u64 *ret_lost);
const u8 *live_trace_uuid(const LiveTrace *t);

/* Replaces the metadata. 0 or -errno, with the one before in place. */
int live_trace_metadata(LiveTrace *t, const char *text, size_t size);

/* A stream file; belongs to the trace. `instance` is the ring's number, `cpu` what readers show. */
int live_stream_new(LiveStream **ret, LiveTrace *t, const char *name, u32 instance, u32 cpu);
/* Appends a packet, or fails with nothing taken. The memory is the caller's again. */
int live_stream_append(LiveStream *s, const LivePacket *p);
/* Where a packet with so many bytes of records would end. */
u64 live_stream_end(const LiveStream *s, u64 size);
/* live_trace_end() came as far as this one. */
bool live_stream_ended(const LiveStream *s);
u64 live_stream_size(const LiveStream *s);
/* Of the last packet with a mark that is in the file, with all before it; 0: there is none. */
u64 live_stream_mark(const LiveStream *s);

/* What was taken is on its way to the files. */
void live_trace_push(LiveTrace *t);
/* All that was taken is in the files, and the indexes name it. The first error; the rest goes on. */
int live_trace_flush(LiveTrace *t);
/* False if a file of it is no longer in its directory. */
bool live_trace_present(const LiveTrace *t);
/* The streams end: files cut to size. On failure what could not be ended stays open. */
int live_trace_end(LiveTrace *t);
/* After live_trace_end(): writes the last index entries and closes files and directories, which live_trace_sync() opens again. A
 * chunk may see thousands of owners come and go. */
int live_trace_park(LiveTrace *t);
/* After live_trace_park(), on any thread: the metadata (NULL: as it is), and waits until all of it is on disk. */
int live_trace_sync(LiveTrace *t, const char *metadata, size_t size);
/* Bytes of stream files so far. */
u64 live_trace_bytes(const LiveTrace *t);
/* ... and of the largest of them. */
u64 live_trace_largest(const LiveTrace *t);
