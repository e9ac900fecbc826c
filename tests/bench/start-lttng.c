/* SPDX-License-Identifier: MIT */
/* The same program, instrumented with LTTng-UST. */
#include "lttng-provider.h"

int main(int argc, char **argv)
{
	(void)argv;
	lttng_ust_tracepoint(bench, off, (uint64_t)argc);
	return 0;
}
