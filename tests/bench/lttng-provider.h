/* SPDX-License-Identifier: MIT */
/* The LTTng side of the comparison: the same events as side-tracer.c declares for tracer. */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER bench

#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "./lttng-provider.h"

#if !defined(BENCH_LTTNG_PROVIDER_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define BENCH_LTTNG_PROVIDER_H

#include <lttng/tracepoint.h>
#include <stdint.h>

LTTNG_UST_TRACEPOINT_EVENT_CLASS(bench, value,
	LTTNG_UST_TP_ARGS(uint64_t, value),
	LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(uint64_t, value, value)))

LTTNG_UST_TRACEPOINT_EVENT_INSTANCE(bench, value, bench, one, LTTNG_UST_TP_ARGS(uint64_t, value))
LTTNG_UST_TRACEPOINT_EVENT_INSTANCE(bench, value, bench, twice, LTTNG_UST_TP_ARGS(uint64_t, value))
LTTNG_UST_TRACEPOINT_EVENT_INSTANCE(bench, value, bench, small, LTTNG_UST_TP_ARGS(uint64_t, value))
LTTNG_UST_TRACEPOINT_EVENT_INSTANCE(bench, value, bench, kept, LTTNG_UST_TP_ARGS(uint64_t, value))
/* that no session names */
LTTNG_UST_TRACEPOINT_EVENT_INSTANCE(bench, value, bench, off, LTTNG_UST_TP_ARGS(uint64_t, value))

LTTNG_UST_TRACEPOINT_EVENT(bench, mixed,
	LTTNG_UST_TP_ARGS(uint64_t, a, uint32_t, b, const char *, text),
	LTTNG_UST_TP_FIELDS(
		lttng_ust_field_integer(uint64_t, a, a)
		lttng_ust_field_integer(uint32_t, b, b)
		lttng_ust_field_string(text, text)))

LTTNG_UST_TRACEPOINT_EVENT(bench, text,
	LTTNG_UST_TP_ARGS(const char *, text),
	LTTNG_UST_TP_FIELDS(lttng_ust_field_string(text, text)))

LTTNG_UST_TRACEPOINT_EVENT(bench, bytes,
	LTTNG_UST_TP_ARGS(const uint8_t *, data, uint16_t, n),
	LTTNG_UST_TP_FIELDS(lttng_ust_field_sequence(uint8_t, data, data, uint16_t, n)))

#endif

#include <lttng/tracepoint-event.h>
