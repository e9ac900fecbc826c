/* SPDX-License-Identifier: MIT */
/* A provider that no session names. */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER unwanted

#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "./lttng-unwanted.h"

#if !defined(BENCH_LTTNG_UNWANTED_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define BENCH_LTTNG_UNWANTED_H

#include <lttng/tracepoint.h>
#include <stdint.h>

LTTNG_UST_TRACEPOINT_EVENT(unwanted, off,
	LTTNG_UST_TP_ARGS(uint64_t, value),
	LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(uint64_t, value, value)))

#endif

#include <lttng/tracepoint-event.h>
