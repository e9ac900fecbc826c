/* SPDX-License-Identifier: MIT */
#include "daemon/stamp.h"

#include <stdio.h>

void stamp_write(char ret[STAMP_SIZE], u64 realtime_ns)
{
	time_t seconds = (time_t)(realtime_ns / NSEC_PER_SEC);
	char text[24] = "";
	struct tm tm;

	(void)gmtime_r(&seconds, &tm);
	(void)strftime(text, sizeof(text), "%Y%m%dT%H%M%S", &tm);
	(void)snprintf(ret, STAMP_SIZE, "%.22s.%06uZ", text, (unsigned)(realtime_ns % NSEC_PER_SEC / NSEC_PER_USEC));
}
