/* SPDX-License-Identifier: MIT */
/* A manager of sessions that records nothing: what dbus/ calls, with strings on its arms and legs. */
#pragma once

#include "daemon/manager.h"

Manager *fake_manager_new(void);

/* Adds a session past the bus (as a configuration file would), told to the observer. */
Session *fake_session_add(Manager *m, const char *name);
/* Its numbers, to be changed at will; fake_session_changed() tells the observer. */
SessionInfo *fake_session_info(Session *s);
void fake_session_changed(Manager *m, Session *s);
void fake_session_set_last_snapshot(Session *s, const char *path);
void fake_session_set_last_trace(Session *s, const char *path);
void fake_session_set_output(Session *s, const char *path); /* of its traces */
void fake_session_set_trouble(Manager *m, Session *s, const char *text); /* and tells */

void fake_producer_add(Manager *m, pid_t pid, uid_t uid, const char *command, const char *unit);
void fake_producers_clear(Manager *m);
void fake_event_add(Manager *m, const char *provider, const char *event, int level);
void fake_crash(Manager *m, pid_t pid, const char *command, const char *unit);

/* The next operation fails so; kind FAILURE_NONE and r < 0: without saying why. */
void fake_fail_next(Manager *m, FailureKind kind, const char *text, int r);

/* Snapshots that run stay so until they are finished here. */
unsigned fake_n_snapshots(Manager *m);
SnapshotOptions fake_snapshot_options(Manager *m); /* of the newest */
const char *fake_snapshot_reason(Manager *m);
void fake_snapshot_finish(Manager *m, const Failure *failure); /* the oldest */
/* Stops and rotations of sessions that write, likewise; each that succeeds completes a trace of 1000 records. */
unsigned fake_n_writings(Manager *m);
void fake_writing_finish(Manager *m, const Failure *failure);
void fake_hold_writings(Manager *m, bool held); /* not at once, whatever the next says */
/* Finish each as soon as the loop turns. */
void fake_snapshots_at_once(Manager *m, sd_event *event);

unsigned fake_n_reloads(Manager *m);
const ManagerObserver *fake_observer(Manager *m);
