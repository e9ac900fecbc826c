/* SPDX-License-Identifier: MIT */
/* What the machine, or a daemon, left of a session's rings when it died, made into traces at the daemon's start: on a thread, one
 * after another. A run that somebody holds the lock of is left alone: a daemon whose sessions' rings live on takes that lock
 * before anything here is asked for. */
#pragma once

#include <systemd/sd-event.h>

#include "conf/config.h"

typedef struct Leftovers Leftovers;

typedef struct {
	void (*recovered)(void *userdata, const char *session, const char *path);
} LeftoversObserver;

int leftovers_new(Leftovers **ret, sd_event *event, const LeftoversObserver *observer, void *userdata);
/* Leaves what it is at to the end of the process; it is done again by the next daemon. */
Leftovers *leftovers_free(Leftovers *l);

/* Looks below `backing` for what was left of the session, makes a trace of each run in `snapshots`, where it falls under the
 * retention, and takes the run away once the trace is on disk. 0 or -ENOMEM. */
int leftovers_look(Leftovers *l, const char *backing, const char *session, const char *snapshots, const RetentionConfig *keep);
