/* SPDX-License-Identifier: MIT */
#include "loop.h"

#include "lttng-provider.h"
#include "lttng-unwanted.h"

LOOP(one, lttng_ust_tracepoint(bench, one, i))
LOOP(mixed, lttng_ust_tracepoint(bench, mixed, i, (uint32_t)i, loop_short))
LOOP(text, lttng_ust_tracepoint(bench, text, loop_text))
LOOP(bytes, lttng_ust_tracepoint(bench, bytes, loop_payload, (uint16_t)size))
LOOP(twice, lttng_ust_tracepoint(bench, twice, i))
LOOP(small, lttng_ust_tracepoint(bench, small, i))
LOOP(kept, lttng_ust_tracepoint(bench, kept, i))
LOOP(sibling, lttng_ust_tracepoint(bench, off, i))
LOOP(off, lttng_ust_tracepoint(unwanted, off, i))

const Loop lttng_loops[] = {
	{ "lttng-one", one, NULL },	{ "lttng-mixed", mixed, NULL }, { "lttng-text", text, NULL },
	{ "lttng-bytes", bytes, NULL }, { "lttng-twice", twice, NULL }, { "lttng-small", small, NULL },
	{ "lttng-kept", kept, NULL },	{ "lttng-sibling", sibling, NULL }, { "lttng-off", off, NULL },
	{ NULL, NULL, NULL },
};
