/* SPDX-License-Identifier: MIT */
/* What makes a session continuous: one thread that empties its rings into its output while it runs. The loop gives it orders and
 * is told what happened; neither ever waits for the other, but at the end of the daemon. It outlives the session that made it, if
 * that is removed, until everything is written. */
#pragma once

#include <systemd/sd-event.h>

#include "daemon/beacon.h"
#include "daemon/feed.h"
#include "daemon/failure.h"

typedef struct Consumer Consumer;

/* All from the loop. */
typedef struct {
	/* A chunk is on disk under its name; CHUNK_UNCOUNTED records if a dead daemon left it. */
	void (*completed)(void *userdata, const char *path, u64 n_records);
	/* Nothing can be written, and why; NULL: it goes on. Said once each. */
	void (*trouble)(void *userdata, const char *text);
	/* A feed that was retired is empty, and the thread has let go of it. */
	void (*retired)(void *userdata, Feed *f);
	/* consumer_stop() is done: everything is written, or *failure says what is not. The feeds are let go of. */
	void (*stopped)(void *userdata, const Failure *failure);
} ConsumerObserver;

/* Exactly once: where the chunk that was ended is, or why there is none. */
typedef void (*ConsumerRotated)(void *userdata, const char *path, const Failure *failure);

typedef struct {
	sd_event *event;
	const SessionConfig *config; /* copied */
	const char *path;	     /* of the output */
	struct record_clock clock;
	const u8 *clock_uuid;
	Beacon beacon;
	ConsumerObserver observer;
	void *userdata;
} ConsumerOptions;

/* Starts the thread. FAILURE_NO_MEMORY; *ret_trouble (may be NULL) is set where the output cannot be opened now: the consumer tries
 * again by itself all the same. */
int consumer_new(Consumer **ret, const ConsumerOptions *options, Failure *f, Failure *ret_trouble);
/* Of one that was told to stop: waits at most timeout_ns for its end, and tells all that there is to tell, so that it may be gone
 * afterwards. False: its thread hangs, in a disk. */
bool consumer_wait(Consumer *c, u64 timeout_ns);
/* Stopped already, or now: waits for the thread at most timeout_ns; what it then has not written is lost to the trace. Calls nobody
 * any more, but for rotations that are not answered yet. NULL; or c, if its thread hangs: it may come back and look, so that
 * feeds and beacon must stay for ever. */
Consumer *consumer_free(Consumer *c, u64 timeout_ns);

/* Orders: 0, or -ENOMEM and nothing was ordered.
 * The thread takes what is in this feed's rings from now on; the loop must not touch the feed until it is let go of (but for
 * what feed.h says). */
int consumer_add(Consumer *c, Feed *f);
/* Nobody records into it any more: empties it, then lets go of it. */
int consumer_retire(Consumer *c, Feed *f);
/* Another output, strategy, rotation: the chunk is ended, no record is lost. */
int consumer_configure(Consumer *c, const SessionConfig *config, const char *path);
int consumer_rotate(Consumer *c, ConsumerRotated done, void *userdata);
/* Takes what is there, ends the chunk, and tells. Writers must have been told to stay away before. */
void consumer_stop(Consumer *c);
/* Before consumer_stop(): writers go on, so what is there is left, and only what was taken is written. */
void consumer_leave(Consumer *c);
/* Who is told from now on. */
void consumer_observe(Consumer *c, const ConsumerObserver *observer, void *userdata);

typedef struct {
	u64 unwritten; /* records that were taken from the rings and are in no file */
	char strategy[16]; /* that is used: "direct" */
	const char *trouble, *last_path; /* until the next turn of the loop; "" none */
	bool stopping;
} ConsumerInfo;
void consumer_info(Consumer *c, ConsumerInfo *ret);
