/* SPDX-License-Identifier: MIT */
#include "daemon/priority.h"

#include <errno.h>
#include <sys/resource.h>

#define LOOP	 (-20)
#define HURRY	 (-15)
#define CONSUMER (-10)

static int usual; /* written once, before there are threads */

static int priority_get(void)
{
	int n;

	errno = 0;
	n = getpriority(PRIO_PROCESS, 0); /* of this thread */
	return n == -1 && errno ? 0 : n;
}

void priority_loop(void)
{
	usual = priority_get();
	(void)setpriority(PRIO_PROCESS, 0, LOOP);
}

void priority_consumer(void)
{
	(void)setpriority(PRIO_PROCESS, 0, CONSUMER);
}

void priority_usual(void)
{
	(void)setpriority(PRIO_PROCESS, 0, usual);
}

int priority_hurry(void)
{
	int before = priority_get();

	(void)setpriority(PRIO_PROCESS, 0, HURRY);
	return before;
}

void priority_back(int before)
{
	(void)setpriority(PRIO_PROCESS, 0, before);
}
