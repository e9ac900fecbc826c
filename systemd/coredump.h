/* SPDX-License-Identifier: MIT */
/* Core dumps, as systemd-coredump tells the journal of them. Only what it said itself is believed: everybody can write such
 * an entry, but not its trusted fields. */
#pragma once

#include <sys/types.h>
#include <systemd/sd-event.h>

#include "lib/base.h"

typedef struct {
	pid_t pid;
	int signal;
	char file[1024]; /* "": it was not kept, or only in the journal */
} CoreDump;

/* Called from the loop; must not free the watch. */
typedef void (*CoreSeen)(void *userdata, const CoreDump *dump);

typedef struct CoreWatch CoreWatch;
/* Tells of entries since that time (CLOCK_REALTIME). Reads the journal on a thread of its own: to open the journal of a large
 * machine takes longer than a program may wait for the daemon. Where there is none, or it may not be read, that is said once,
 * and nothing is told. 0 or -errno. */
int core_watch_new(CoreWatch **ret, sd_event *event, u64 since_usec, CoreSeen seen, void *userdata);
CoreWatch *core_watch_free(CoreWatch *w);
