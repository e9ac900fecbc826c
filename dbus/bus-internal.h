/* SPDX-License-Identifier: MIT */
/* What the files of this room share about the one Bus. Not for other rooms. */
#pragma once

#include "dbus/bus.h"
#include "dbus/polkit.h"

typedef struct Announced Announced;
typedef struct PendingCall PendingCall;

/* What a property getter reads: taken once per message, so that the counters of one GetAll belong together. */
typedef struct {
	Bus *bus;
	Session *session;
	SessionInfo info;
	const char *policy, *io; /* names of the enums */
	const char *strategy;	 /* in info */
	u64 lost_total;
} SessionView;

struct Bus {
	sd_event *event;
	Manager *manager; /* borrowed */
	bool user;
	char *address; /* NULL: a peer, never reconnected */

	sd_bus *bus; /* NULL between two connections */
	sd_event_source *reconnect;
	bool tentative; /* what it is armed for: a look, not an attempt */
	u64 backoff_usec;
	bool complained; /* the present trouble is in the log already */
	bool named;

	Authority *authority;

	/* announcements */
	Announced *announced; /* what the bus was last told of each session */
	sd_event_source *flush, *flush_later;
	u64 flushed_usec; /* CLOCK_MONOTONIC */
	u32 announced_sessions, announced_producers;

	/* calls that somebody waits for */
	PendingCall *pending_calls;
	unsigned n_pending_calls;

	SessionView view;
};

/* The object path of a session, a fresh string. 0 or -ENOMEM. */
int session_path(const char *name, char **ret);
/* Its name, a fresh string, from a path that is exactly what session_path() makes; 0 if it is no such path, 1. */
int session_path_name(const char *path, char **ret);

/* Vtables onto b->bus */
int manager_object_add(Bus *b);
int session_object_add(Bus *b);
int log_control_add(Bus *b);

/* Asks whether the sender of `m` may do `action` to `session` (NULL: to none in particular). 1: yes; 0: not known
 * yet, the handler returns 1 and is called again; negative: no, *error says why. */
int bus_authorize(Bus *b, sd_bus_message *m, const char *action, const char *session, sd_bus_error *error);
#define ACTION_MANAGE	"org.tracer.Tracer1.manage"
#define ACTION_SNAPSHOT "org.tracer.Tracer1.snapshot"
