/* SPDX-License-Identifier: MIT */
/* Reads a trace as strictly as CTF allows, in a fraction of babeltrace2's time: every packet, every
 * record against its class, every time, and the index against the packets. Asserts. */
#pragma once

#include "tests/unit/daemon/maker.h"

typedef struct {
	u64 n_records, n_packets, n_streams, discarded;
	u64 first, last; /* times of records; first > last: none */
} Checked;

/* Called for each record of a stream, in order. body: contexts, then fields. */
typedef void (*CheckerRecord)(void *userdata, u32 instance, const struct record *r);

/* All streams of one owner's trace. */
void checker_trace(Checked *ret, const char *path, const TraceClass *classes, size_t n,
		   u32 contexts, CheckerRecord fn, void *userdata);
/* All owners of a snapshot. */
void checker_snapshot(Checked *ret, const char *path, const TraceClass *classes, size_t n,
		      u32 contexts, CheckerRecord fn, void *userdata);
