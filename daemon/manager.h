/* SPDX-License-Identifier: MIT */
/* The whole daemon behind the bus: owns sessions, producers, board, listener and the snapshot worker. One
 * thread (the sd-event loop) calls everything here. dbus/ is its only caller besides main and tests. */
#pragma once

#include <sys/types.h>
#include <systemd/sd-event.h>

#include "conf/config.h"
#include "daemon/failure.h"

typedef struct Manager Manager;
typedef struct Session Session;

typedef struct {
	const char *runtime_directory;	/* "/run/tracer"; holds `control`, `producer.sock` */
	const char *state_directory;	/* "/var/lib/tracer" */
	const char *const *config_directories; /* NULL: config_default_directories */
	const char *config_file;	/* one file instead of the directories; may be NULL */
	int listen_fd;			/* from socket activation, taken over; -1: bind it ourselves */
	struct Passed *passed;		/* what systemd kept for the daemon before (systemd/fdstore.h); NULL: nothing */
	bool user;			/* --user: serve this user only is not implied; just other paths, own bus */
} ManagerOptions;

/* What dbus/ wants to hear. All may be NULL. Called from the loop, after the state is final. */
typedef struct {
	void (*session_added)(void *userdata, Session *s);
	void (*session_removed)(void *userdata, const char *name);
	void (*session_changed)(void *userdata, Session *s); /* state, events, last snapshot, memory, producers */
	void (*producers_changed)(void *userdata);
	void (*producer_crashed)(void *userdata, pid_t pid, const char *command, const char *unit);
	void (*trace_completed)(void *userdata, const char *session, const char *path, u64 n_records);
	void (*snapshot_completed)(void *userdata, const char *session, const char *reason,
				   const char *path);
} ManagerObserver;

/* Opens the runtime directory, the control page, the socket and the configuration (what can be used of it; the rest
 * is said in the log), and starts the sessions with autostart. Starts degraded rather than not at all: only
 * -ENOMEM and a runtime directory that cannot be used at all are errors. */
int manager_new(Manager **ret, sd_event *event, const ManagerOptions *options);
/* Ends every session in order (masks first), takes what on_stop says, and frees all. NULL is fine. */
Manager *manager_free(Manager *m);
/* manager_free() is to end nothing: sessions, rings and programs are the next daemon's, which is about to come. */
void manager_leave(Manager *m);
DEFINE_CLEANUP(Manager *, manager_free)

void manager_observe(Manager *m, const ManagerObserver *observer, void *userdata);

int manager_create_session(Manager *m, SessionConfig *config /* taken on success */, Session **ret, Failure *f);
int manager_remove_session(Manager *m, const char *name, Failure *f);
int manager_start_session(Manager *m, const char *name, Failure *f);
/* done (may be NULL) is called once, from the loop, when all is written (or, failure, is not); not if this fails. */
typedef void (*SessionDone)(void *userdata, const Failure *failure);
int manager_stop_session(Manager *m, const char *name, SessionDone done, void *userdata, Failure *f);
/* Ends the present trace of a session that writes; done is called once with where it is, complete. */
typedef void (*RotateDone)(void *userdata, const char *path, const Failure *failure);
int manager_rotate_session(Manager *m, const char *name, RotateDone done, void *userdata, Failure *f);
/* Another configuration of the same name (taken on success), as a reload applies it. */
int manager_configure_session(Manager *m, SessionConfig *config, Failure *f);
int manager_clear_session(Manager *m, const char *name, Failure *f);
int manager_set_events(Manager *m, const char *name, const Strings *events, Failure *f);
/* Reads the configuration again and applies the difference, or changes nothing (FAILURE_CONFIG, all problems in
 * the text). Sessions made over D-Bus stay. A changed session that runs is restarted; untouched ones go on. */
int manager_reload(Manager *m, Failure *f);

/* Options of one snapshot. */
typedef struct {
	u64 duration_ns; /* only the newest so much; 0: as the session's configuration says */
	u64 max_size;	 /* only the newest so many bytes; 0: likewise */
} SnapshotOptions;

/* Called exactly once, from the loop, when the snapshot is on disk (path) or is not (failure). */
typedef void (*SnapshotDone)(void *userdata, const char *path, const Failure *failure);

/* Queues a snapshot (jobs.h). trigger is the last part of the directory's name ("manual", "crash", "program",
 * "unit", "stop"); reason is free text for the metadata. Returns 0 and later calls done (may be NULL), or fails at once.
 * *ret_path (may be NULL; owned by the caller) is where it will be. */
int manager_snapshot(Manager *m, const char *name, const char *trigger, const char *reason,
		     const SnapshotOptions *options, SnapshotDone done, void *userdata, char **ret_path,
		     Failure *f);

/* Somebody who knows says that a unit has failed: a snapshot of each running session that recorded it lately, or of all if none
 * did, unless the failure was saved already or the last one is too recent. saved is called for each with where it is, or will
 * be. Returns how many. */
typedef void (*UnitSaved)(void *userdata, const char *session, const char *path);
u32 manager_report_unit(Manager *m, const char *unit, const char *reason, UnitSaved saved, void *userdata);

/* ---- looking ---- */
Session *manager_find(Manager *m, const char *name);
Session *manager_first(Manager *m);
Session *manager_next(Manager *m, Session *s);
u32 manager_n_sessions(Manager *m);
u32 manager_n_producers(Manager *m);

typedef struct {
	pid_t pid;
	uid_t uid;
	const char *command, *unit; /* "" if unknown */
	const char *exe, *build_id; /* by its own word; NULL or "" if it said nothing */
	u64 started;	 /* CLOCK_REALTIME, ns; 0: unknown */
	u64 start_ticks; /* clock ticks since boot */
	u32 n_classes;
	u64 missed, failed;
	u32 n_sessions;
} ProducerInfo;
/* i counts from 0; false at the end. Strings are valid until the next turn of the loop. */
bool manager_producer(Manager *m, u32 i, ProducerInfo *ret);

typedef struct {
	const char *provider, *event;
	int level;
} EventInfo;
/* Classes known from living producers, each once. */
bool manager_event(Manager *m, u32 i, EventInfo *ret);

typedef struct {
	const char *name;
	const char *state; /* "stopped", "running" */
	const SessionConfig *config;
	u64 memory;	   /* bytes allocated now */
	const char *output; /* directory of its traces, if it writes continuously, else of its snapshots */
	const char *snapshots; /* directory of its snapshots */
	const char *last_trace; /* finished; "" if none */
	const char *trouble; /* why nothing can be written now; "" */
	char strategy[16];  /* the I/O that is used, where `io` says auto; "" if not running */
	const char *last_snapshot; /* "" if none */
	u32 n_producers, n_owners;
	u64 recorded;	   /* records ever written in its rings, since start or clear */
	u64 overwritten;   /* of those, no longer in the rings (flight recorder) */
	u64 pinned;	   /* of `recorded`: those that pinned rings keep */
	u64 unpinned;	   /* events that were to be pinned, and had no room there: as others are */
	u64 discarded;	   /* lost and counted, all causes */
	u64 lost[8];	   /* the same by cause, ABI_LOST_* */
	u64 written;	   /* to disk: records. recorded = written + overwritten + unreadable + unwritten + those in the rings */
	u64 unreadable;	   /* records that no library of ours writes, left out */
	u64 unwritten;	   /* records that were on their way to a file when that was given up */
	u64 suppressed;	   /* automatic snapshots not taken because of min_interval */
	u64 suppressed_by[8]; /* the same by cause, CAUSE_* of triggers.h */
	const char *backing; /* where its rings are kept for a machine that dies; "": nowhere */
	u64 synced_usec;   /* CLOCK_REALTIME: what was recorded before is there; 0: nothing yet */
	u64 backing_written; /* bytes that it took */
	u64 backing_missed; /* sub-buffers that were overwritten before they could be copied */
	u64 clamped;	   /* stamps that a producer set backwards */
	u64 corrupt;	   /* sub-buffers that could not be believed */
	double fill;	   /* 0..1: how full the fullest ring is */
} SessionInfo;
void session_info(Session *s, SessionInfo *ret);
