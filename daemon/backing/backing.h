/* SPDX-License-Identifier: MIT */
/* A session's rings kept on disk while it runs, as its loop sees it: a thread copies what is new in them, every sync_interval.
 * Neither the loop nor a program ever waits for that disk. */
#pragma once

#include <systemd/sd-event.h>

#include "daemon/owner.h"

typedef struct Backing Backing;

/* What the backings of one daemon tell; from the loop. session: NULL if it was removed. */
typedef struct {
	/* trouble, or its end */
	void (*changed)(void *userdata, Session *session);
} BackingsObserver;

/* All of a daemon. */
typedef struct Backings {
	sd_event *event;
	BackingsObserver observer;
	void *userdata;
	Backing *first;
	bool hang; /* after backings_end(): a thread may come back from its disk, so that what it borrowed must stay */
} Backings;

typedef struct {
	u64 synced; /* CLOCK_REALTIME, nanoseconds: what was recorded before, and was still in the rings, is on disk; 0: nothing yet */
	u64 written; /* bytes */
	u64 missed;  /* sub-buffers that were overwritten before they could be copied */
	const char *trouble; /* why nothing is copied now; "". Until the next turn of the loop */
} BackingInfo;

/* Of this session, below PATH. Touches no disk: a disk that is not there is trouble, which is said once, and over when it is
 * there. goes_on: with the rings of a daemon before, whose run (of this boot) is no leftover: it is locked until a pass of this one is
 * durable, then it goes; session_look_back() is called once it is locked. 0 or -ENOMEM. */
int backing_new(Backing **ret, Backings *set, Session *s, const char *path, u64 interval_ns, bool goes_on);
/* An owner's rings, and all ids that were told: before any program is told of them. 0 or -ENOMEM. */
int backing_add(Backing *b, Owner *o);
bool backing_has(Backing *b, const Owner *o);
/* Ids were added: before a program is told. 0 or -ENOMEM. */
int backing_tell(Backing *b, Owner *o);
/* Now and then: programs that came or ended. */
void backing_describe(Backing *b);
/* The rings go, and so does what is on disk of them. */
void backing_retire(Backing *b, Owner *o);
void backing_set_interval(Backing *b, u64 interval_ns);
const char *backing_path(const Backing *b);
void backing_info(Backing *b, BackingInfo *ret);
/* The session does not want it any more, or is gone: what is on disk of its rings goes as they do; the session is not touched
 * any more. */
void backing_drop(Backing *b);

/* The end of the daemon: a last pass of all, then they are left for whoever starts next (but for those of sessions that
 * `saved` says true of: these are on disk otherwise). Waits for all together. */
void backings_end(Backings *set, u64 timeout_ns, bool (*saved)(const Session *s));
