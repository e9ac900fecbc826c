/* SPDX-License-Identifier: MIT */
/* A running session's writing, as its loop sees it: the consumer, the owners whose rings it was given, and who waits for its end.
 * It goes on until everything is written, also if its session is removed meanwhile. */
#pragma once

#include "daemon/consumer.h"
#include "daemon/owner.h"

typedef struct Writing Writing;
typedef void (*WritingDone)(void *userdata, const Failure *failure);

/* What the writings of one daemon tell; session is NULL if it was removed. From the loop. */
typedef struct {
	void (*completed)(void *userdata, Session *session, const char *name, const char *path, u64 n_records);
	/* trouble, its end, or the end of the writing */
	void (*changed)(void *userdata, Session *session);
} WritingsObserver;

/* All of a daemon. */
typedef struct Writings {
	sd_event *event;
	WritingsObserver observer;
	void *userdata;
	Writing *first;
	bool hang; /* after writings_end(): a thread may come back from its disk, so that what it borrowed must stay */
} Writings;

/* Of this session, which begins to run in its slot. FAILURE_NO_MEMORY; with `strict` also FAILURE_IO and FAILURE_BUSY, if its output
 * cannot be opened: else it is tried again and again. */
int writing_new(Writing **ret, Writings *set, Session *s, bool strict, Failure *f);
/* Gives it an owner's rings, and all ids that were told: before any program is told of them. 0 or -ENOMEM. */
int writing_add(Writing *w, Owner *o);
/* Of an owner that has no feed: makes it. marks: those of an earlier daemon, from which it goes on as far as the files below `output`
 * bear them out; 0: from what its rings hold. Before anything opens that output. 0 or -ENOMEM; -EBADMSG: the marks cannot be. */
int writing_feed(Owner *o, u32 marks, const char *output);
/* Ids were added. 0 or -ENOMEM. */
int writing_tell(Owner *o);
/* Nobody records into these rings any more: once they are empty, and if `drop`, session_drop_owner() is called. False: the consumer
 * does not have them. */
bool writing_retire(Writing *w, Owner *o, bool drop);
int writing_configure(Writing *w, const SessionConfig *config, const char *path);
int writing_rotate(Writing *w, ConsumerRotated done, void *userdata);
/* done is called once, when it has ended. 0 or -ENOMEM. */
int writing_wait(Writing *w, WritingDone done, void *userdata);
/* The session has stopped, or writes no longer: writes what is left. Until then nobody else may have its rings. Then calls
 * session_writing_ended(). */
void writing_stop(Writing *w);
bool writing_stopping(const Writing *w);
/* The session is gone: nothing of it is touched any more. */
void writing_forget(Writing *w);
void writing_info(const Writing *w, ConsumerInfo *ret);

/* The end of the daemon: stops all, and waits for them together. */
void writings_end(Writings *set, u64 timeout_ns);
/* The same for a daemon whose sessions the next one goes on with: what was taken is written, what is in the rings stays there. */
void writings_leave(Writings *set, u64 timeout_ns);
