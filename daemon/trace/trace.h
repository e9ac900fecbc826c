/* SPDX-License-Identifier: MIT */
/* A CTF 1.8 trace on disk: one directory per owner with `metadata`, one stream file per ring and
 * `index/NAME.idx`. Readable by babeltrace2 and Trace Compass (doc/trace-format.md has the rules). */
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
	u64 sequence;		       /* of the packet in its stream */
	u64 discarded;		       /* cumulative in the stream; never falls */
	u32 cpu;
	u32 stream_instance;
} PacketInfo;
