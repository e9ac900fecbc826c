/* SPDX-License-Identifier: MIT */
/* tracerctl: a client of the D-Bus API and of nothing else. */
#pragma once

#include <stdio.h>
#include <systemd/sd-bus.h>

#include "lib/base.h"

#define TRACER_NAME		 "org.tracer.Tracer1"
#define TRACER_PATH		 "/org/tracer/Tracer1"
#define TRACER_MANAGER_INTERFACE "org.tracer.Tracer1.Manager"
#define TRACER_SESSION_INTERFACE "org.tracer.Tracer1.Session"

/* Exit statuses; tracerctl(1) lists them, sysexits(3) has the large ones. */
enum {
	STATUS_OK = 0,
	STATUS_FAILED = 1,
	STATUS_USAGE = 2,	  /* the command line, or what it says about a session */
	STATUS_UNAVAILABLE = 69,  /* no daemon, no bus */
	STATUS_PERMISSION = 77,
	STATUS_CONFIG = 78,	  /* reload: the configuration */
};

typedef struct {
	bool user;
	const char *address;
	bool json, json_pretty;
	bool no_legend, no_ask_password;
	bool all, no_wait, start;
	const char *reason, *duration, *max_size;
	const char *unit;
	const char *from, *to; /* extract; NULL: all */
	u64 count;	     /* watch: so many times; 0: for ever */
	u64 interval_usec;   /* watch */
} Options;

/* A verb gets what stands behind it, and returns an exit status. */
typedef int (*Verb)(const Options *o, int argc, char **argv);
int verb_list(const Options *o, int argc, char **argv);
int verb_show(const Options *o, int argc, char **argv);
int verb_producers(const Options *o, int argc, char **argv);
int verb_events(const Options *o, int argc, char **argv);
int verb_create(const Options *o, int argc, char **argv);
int verb_start(const Options *o, int argc, char **argv);
int verb_stop(const Options *o, int argc, char **argv);
int verb_clear(const Options *o, int argc, char **argv);
int verb_remove(const Options *o, int argc, char **argv);
int verb_set_events(const Options *o, int argc, char **argv);
int verb_set(const Options *o, int argc, char **argv);
int verb_snapshot(const Options *o, int argc, char **argv);
int verb_rotate(const Options *o, int argc, char **argv);
int verb_reload(const Options *o, int argc, char **argv);
int verb_watch(const Options *o, int argc, char **argv);
int verb_view(const Options *o, int argc, char **argv);
int verb_extract(const Options *o, int argc, char **argv);
int verb_recover(const Options *o, int argc, char **argv);

/* ---- tracerctl-client.c ---- */

/* Connects. Prints what is wrong, and returns an exit status. */
int client_connect(const Options *o, sd_bus **ret);

/* Says on standard error what went wrong and what to do, and returns the exit status for it. */
int client_failed(const Options *o, const sd_bus_error *e, int r);
int failed(int status, const char *format, ...) _printf_(2, 3);

/* A call of a method of the manager. Returns 0 or negative with *error set. Calls that change something may ask for a
 * password and so wait as long as it takes: `change`. */
int client_new_call(sd_bus *bus, const char *path, const char *interface, const char *member,
		    sd_bus_message **ret);
int client_call(const Options *o, sd_bus *bus, sd_bus_message *call, bool change, sd_bus_error *error,
		sd_bus_message **ret_reply);
/* A simple one: arguments as of sd_bus_message_append(). */
int client_get(sd_bus *bus, const char *member, sd_bus_error *error, sd_bus_message **ret_reply,
	       const char *types, ...);

/* An agent of polkit on this terminal, while a call that changes something runs. */
void agent_start(const Options *o);
void agent_stop(void);

static inline void message_unrefp(sd_bus_message **m)
{
	sd_bus_message_unref(*m);
}
static inline void bus_closep(sd_bus **bus)
{
	sd_bus_flush_close_unref(*bus);
}
static inline void error_freep(sd_bus_error *e)
{
	sd_bus_error_free(e);
}

/* ---- tracerctl-rows.c ---- */

/* A session as the tables show it. */
typedef struct {
	char *name, *state, *policy, *io, *strategy, *trouble, *last_snapshot, *last_trace;
	u64 memory, recorded, overwritten, discarded, written, unwritten, unreadable;
	u32 producers, owners;
	double fill;
} SessionRow;

typedef struct {
	SessionRow *v;
	size_t n;
} SessionRows;

/* All sessions, sorted by name, in one call. 0 or negative with *error set. */
int session_rows_read(sd_bus *bus, SessionRows *ret, sd_bus_error *error);
void session_rows_clear(SessionRows *rows);

/* Whether it writes continuously; how ("" if not); the events that are neither in a ring nor in a file. */
bool session_row_writes(const SessionRow *row);
const char *session_row_io(const SessionRow *row);
u64 session_row_lost(const SessionRow *row);
/* A line about each session that cannot write. */
void session_rows_trouble(const SessionRows *rows, FILE *out, const char *eol);

/* The same for who wants the messages: `each` is called with m before the a{sv} of every session's interface. */
typedef int (*SessionEach)(sd_bus_message *m, void *userdata);
int managed_objects(sd_bus *bus, sd_bus_error *error, sd_bus_message **ret);
int sessions_walk(sd_bus_message *m, SessionEach each, void *userdata);

/* ---- tracerctl-session.c ---- */

/* "16.0M" */
const char *size_human(u64 bytes, char ret[16]);
