/* SPDX-License-Identifier: MIT */
/* An instrumented library that comes and goes. */
#include "lib/tracer.h"

TRACER_EVENT(plugin, call, TRACER_NOTICE, TRACER_U32(turn), TRACER_STR(what))

void plugin_call(unsigned int turn);

__attribute__((visibility("default"))) void plugin_call(unsigned int turn)
{
	trace_plugin_call(turn, "called");
}
