/* SPDX-License-Identifier: MIT */
/* The same program, instrumented with tracer; no session wants it unless run creates one. */
#include "lib/tracer.h"

TRACER_EVENT(start, main, TRACER_INFO, TRACER_I32(argc))

int main(int argc, char **argv)
{
	(void)argv;
	trace_start_main(argc);
	return 0;
}
