/* SPDX-License-Identifier: MIT */
/* A CTF 1.8 trace on disk: one directory per owner with `metadata`, one stream file per ring and
 * `index/NAME.idx`. Readable by babeltrace2 and Trace Compass (doc/trace-format.md has the rules).
 */
#pragma once

#include "lib/class.h"
#include "lib/geometry.h"

/* Where times come from, for the clock in the metadata. */
typedef struct {
	u8 uuid[16];
	u64 realtime_offset_ns; /* CLOCK_REALTIME - trace clock, at the trace's end */
	const char *description;
} TraceClock;

typedef struct {
	const char *key, *value; /* written quoted and escaped */
} TraceEnvironment;

typedef struct {
	u32 id;
	const struct event_class *class; /* borrowed */
} TraceClass;

/* What is written of one packet beside its bytes. Times are whole; sizes in bytes. */
typedef struct {
	u64 begin, end;
	u64 content_size, packet_size; /* header and context included */
	u64 sequence;                  /* of the packet in its stream */
	u64 discarded;                 /* cumulative in the stream; never falls */
	u32 cpu;
	u32 stream_instance;
} PacketInfo;

/* A trace being written. Files are made below a directory that the caller holds open; nothing here
 * removes anything: whoever made the directory takes it away again when a call fails. */
typedef struct Trace Trace;

/* mkdir NAME below dir_fd (0750), draws a uuid. NAME is made a safe file name first (trace_name()).
 */
int trace_new(Trace **ret, int dir_fd, const char *name);
/* Closes what is open; writes nothing more. NULL is fine. */
Trace *trace_free(Trace *t);
DEFINE_CLEANUP(Trace *, trace_free)

/* Begins the stream file NAME, for which about `size` bytes will come: they are allocated now where
 * the file system can, so that a full disk is found before the first byte. One stream at a time. */
int trace_stream_begin(Trace *t, const char *name, u64 size);
/* Appends one packet. begin, end, sequence, discarded, cpu and stream_instance are the caller's;
 * the sizes are computed. `size` ends at the last byte of the last record, without its padding:
 * readers take padding for one more event. */
int trace_stream_packet(Trace *t, const PacketInfo *info, const void *records, size_t size);
/* Cuts the file to size and writes its index; both are on their way to the disk. */
int trace_stream_end(Trace *t);
/* Writes the metadata (text of metadata_write(), with trace_uuid()) and waits until all files and
 * directories are on disk. */
int trace_finish(Trace *t, const char *metadata, size_t size);

const u8 *trace_uuid(const Trace *t);
u64 trace_bytes(const Trace *t); /* of all files so far */

/* The name of a ring's stream file: "cpu_3" for the ring of a CPU, "side_0" for the first side ring, "pinned_0" for the first
 * pinned one. */
void trace_ring_name(char ret[40], const struct geometry *g, u32 ring, u32 cpu);

/* A random uuid for a trace. 0 or -EIO. */
int trace_draw_uuid(u8 ret[16]);

/* Copies label to ret (at most size - 1 bytes) as a file name that no reader or shell stumbles
 * over: bytes other than letters, digits and "._@:+-" become '_', and so does a leading '.'. Never
 * empty. */
void trace_name(char *ret, size_t size, const char *label);
