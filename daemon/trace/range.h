/* SPDX-License-Identifier: MIT */
/* The packets of a range of time, copied from one stream file to another. Those within are copied as they are, those at the
 * edges record by record. */
#pragma once

#include "daemon/trace/extract.h"
#include "daemon/trace/file.h"
#include "daemon/trace/text.h"

typedef struct {
	u64 from, to; /* by the trace's clock; both belong to it */
} Range;

/* Copies stream NAME below dir_fd to a stream of the same name in `trace`, if anything of it is in the range; counts. 0 or
 * -errno; a damaged stream is copied as far as it can be read, and counted. */
int range_copy(const Range *range, int dir_fd, const char *name, const u8 uuid[16], Trace *trace,
	       ExtractResult *result);
/* "2026-11-29T16:01:02.123456789Z to ...", by the time of day. Fresh; NULL: no memory. */
char *range_text(const Range *range, u64 offset);
