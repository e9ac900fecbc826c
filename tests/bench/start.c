/* SPDX-License-Identifier: MIT */
/* A program that does next to nothing, with tracer, with LTTng-UST (-DBENCH_LTTNG), with an empty library (-DBENCH_EMPTY), and
 * with none (-DBENCH_NONE): what being instrumented costs from the first to the last instruction, and in memory. With an argument
 * it says "ready" and ends with its input. */
#include <stdio.h>

#ifdef BENCH_EMPTY
#define BENCH_NONE
int empty_call(void);
#endif
#include "side.h"

int main(int argc, char **argv)
{
	char line[16];

#ifdef BENCH_EMPTY
	if (empty_call())
		return 1;
#endif
	RECORD((uint64_t)argc);
	if (argc == 1)
		return 0;
	puts("ready");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin))
		;
	return 0;
}
