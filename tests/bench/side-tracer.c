/* SPDX-License-Identifier: MIT */
#include "loop.h"

#include "lib/tracer.h"

TRACER_EVENT(bench, one, TRACER_INFO, TRACER_U64(value))
TRACER_EVENT(bench, mixed, TRACER_INFO, TRACER_U64(a), TRACER_U32(b), TRACER_STR(text))
TRACER_EVENT(bench, text, TRACER_INFO, TRACER_STR(text))
TRACER_EVENT(bench, bytes, TRACER_INFO, TRACER_BYTES(data))
/* like `one`, for sessions of other kinds, so that all can run at one time: two sessions, small rings, one that writes */
TRACER_EVENT(bench, twice, TRACER_INFO, TRACER_U64(value))
TRACER_EVENT(bench, small, TRACER_INFO, TRACER_U64(value))
TRACER_EVENT(bench, kept, TRACER_INFO, TRACER_U64(value))
/* that no session names; and of a provider that none names */
TRACER_EVENT(bench, off, TRACER_INFO, TRACER_U64(value))
TRACER_EVENT(unwanted, off, TRACER_INFO, TRACER_U64(value))

/* for the greeting: one for each process */
TRACER_EVENT(bench, hello, TRACER_INFO, TRACER_U64(value))
TRACER_EVENT(bench, hello_too, TRACER_INFO, TRACER_U64(value))

void loop_hello(uint32_t process)
{
	if (process)
		trace_bench_hello_too(0);
	else
		trace_bench_hello(0);
}

/* What a disabled event is, for the disassembler. */
void disabled_event(uint64_t value);
__attribute__((noinline, used)) void disabled_event(uint64_t value)
{
	trace_unwanted_off(value);
}

LOOP(one, trace_bench_one(i))
LOOP(mixed, trace_bench_mixed(i, (uint32_t)i, loop_short))
LOOP(text, trace_bench_text(loop_text))
LOOP(bytes, trace_bench_bytes(loop_payload, size))
LOOP(twice, trace_bench_twice(i))
LOOP(small, trace_bench_small(i))
LOOP(kept, trace_bench_kept(i))
LOOP(sibling, trace_bench_off(i))
LOOP(off, trace_unwanted_off(i))

const Loop tracer_loops[] = {
	{ "tracer-one", one, NULL },	 { "tracer-mixed", mixed, NULL }, { "tracer-text", text, NULL },
	{ "tracer-bytes", bytes, NULL }, { "tracer-twice", twice, NULL }, { "tracer-small", small, NULL },
	{ "tracer-kept", kept, NULL },	 { "tracer-sibling", sibling, NULL }, { "tracer-off", off, NULL },
	{ NULL, NULL, NULL },
};
