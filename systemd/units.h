/* SPDX-License-Identifier: MIT */
/* Watches systemd for units that enter `failed`, and finds the unit of a process. */
#pragma once

#include <sys/types.h>
#include <systemd/sd-event.h>

#include "systemd/unit-failures.h"

typedef struct UnitWatch UnitWatch;
/* Connects to the system bus by itself and again when it went away (with back-off); without a bus it waits.
 * `failed` is called from the loop. 0 or -errno. */
int unit_watch_new(UnitWatch **ret, sd_event *event, UnitFailed failed, void *userdata);
UnitWatch *unit_watch_free(UnitWatch *w);
/* Units that were failed when somebody else looked last, by name, with blanks between: others that are now have failed since. Before
 * the loop turns. */
void unit_watch_known(UnitWatch *w, const char *failed);
/* The same of now, for who looks next; NULL: not known yet, or no memory. */
char *unit_watch_failed(const UnitWatch *w);

/* The system unit of a process, else its user unit; a fresh string in *ret. 0, -ENODATA (no unit), -errno. */
int unit_of_pid(pid_t pid, char **ret);
