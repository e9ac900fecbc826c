/* SPDX-License-Identifier: MIT */
/* What the files of the manager share: sessions (manager.c), birth and end (lifetime.c), configuration (reload.c), programs
 * (programs.c), causes of snapshots (causes.c), seldom things (chores.c), and the line for systemctl status (status.c). */
#pragma once

#include "daemon/backing/backing.h"
#include "daemon/backing/leftovers.h"
#include "daemon/deaths.h"
#include "daemon/jobs.h"
#include "daemon/listener.h"
#include "daemon/manager.h"
#include "daemon/roster.h"
#include "systemd/coredump.h"
#include "systemd/units.h"

/* A unit that failed, while a process of it is known to die and not yet how. */
typedef struct {
	char unit[256], result[32];
	pid_t main_pid;
} FailedUnit;

struct Manager {
	sd_event *event;
	char *runtime_directory, *state_directory;
	char **config_directories; /* owned, NULL-terminated; NULL: the default ones */
	char *config_file;
	bool user;
	int runtime_fd;
	bool leaving; /* manager_leave() */
	bool bound; /* producer.sock is ours to remove */
	DaemonConfig daemon; /* snapshot_directory is ground.snapshot_directory */
	Ground ground;
	Cpus *cpus;
	Listener *listener;
	Jobs *jobs;
	Roster roster;
	Writings writings;
	Backings backings;
	Leftovers *leftovers;
	u64 born; /* CLOCK_MONOTONIC; 0: old enough to be called healthy */
	bool blind; /* the kernel does not say how programs end */
	char *units_failed; /* as they were last said to who comes after us; NULL: not yet */
	UnitWatch *units; /* while a session has on_unit_failure, or on_crash and we are blind */
	CoreWatch *cores; /* while a session has on_coredump, and for a while after each crash */
	u64 cores_until;
	Deaths deaths;
	FailedUnit failed[32];
	u32 n_failed;
	Session *sessions; /* sorted by name */
	u32 n_sessions;
	sd_event_source *tick, *retry;
	u64 retry_last;
	u64 clock_last; /* newest reading of the trace clock: a counter that goes back was reset */
	sd_event_source *status;
	char status_said[512];
	u64 status_last;
	char *last_snapshot; /* of any session, also of one that is gone; NULL: none since the start */
	ManagerObserver observer;
	void *userdata;

	/* for manager_producer() and manager_event(), made when they are asked from 0 */
	EventInfo *events;
	u32 n_events;
	const Producer **listed;
	u32 n_listed;
};

u64 manager_now(void);
int manager_add_session(Manager *m, SessionConfig *config, Session **ret, Failure *f);
void manager_drop_session(Manager *m, Session *s);
void manager_session_changed(Manager *m, Session *s);
/* Watches units and the journal's core dumps if a session asks for it. */
void manager_watch(Manager *m);
/* Says which units are failed, if others are, to who comes after us. */
void manager_say_units(Manager *m);
/* The journal may soon tell of a core dump that explains a death. */
void manager_expect_core(Manager *m);
/* Takes limits and the rest of a new daemon configuration; ends with config->daemon emptied. */
int manager_apply_daemon(Manager *m, DaemonConfig *daemon);
/* reload.c: the difference between what is there and the sessions of the configuration, which loses those that are taken.
 * restoring: what is there was taken over. */
void manager_apply_sessions(Manager *m, Config *config, bool restoring);
/* restate.c */
void manager_restate(void *manager);

/* programs.c */
extern const ExchangeHandler manager_programs;
/* ProducerDied */
void manager_program_died(void *userdata, Producer *p, const Death *death);
void manager_forget_programs(Manager *m);

/* chores.c */
#define MANAGER_TICK_USEC (5 * 1000 * 1000)
int manager_on_tick(sd_event_source *source, u64 usec, void *userdata);

/* status.c */
int manager_status_new(Manager *m);
void manager_status_say(Manager *m);
/* Something that the line says is another now. It is said soon, at most once a second. */
void manager_status_changed(Manager *m);

/* causes.c */
void manager_on_death(Manager *m, const Producer *p, const Death *death);
/* One of p and dead: it may be gone by the time that its notice is read. */
void manager_on_notice(Manager *m, Producer *p, Dead *dead, const struct wire_crash *notice);
void manager_on_unit_failed(void *userdata, const char *unit, const char *result, pid_t main_pid);
/* Those that waited for a death that is told of now. */
void manager_release_units(Manager *m);
void manager_on_core(void *userdata, const CoreDump *c);
/* Says how many causes were suppressed, of series that are over. */
void manager_settle_causes(Manager *m);
/* Whether the session takes a snapshot when an event of this class is recorded in it. */
bool manager_is_trigger(const Session *s, const Class *class);
void manager_on_event(Manager *m, const Producer *p, const Class *class);
/* The program's own request. How many sessions will be snapshot; *ret_suppressed: how many not, for it is too soon. */
u32 manager_on_request(Manager *m, const Producer *p, const char *reason, u32 *ret_suppressed);
