/* SPDX-License-Identifier: MIT */
/* A snapshot takes as long as the disk takes, and its caller is answered from the manager's callback. One call may be
 * about several sessions (SnapshotAll). */
#include "dbus/snapshot-call.h"

#include <stdio.h>

#include "dbus/errors.h"
#include "dbus/pending-call.h"
#include "dbus/reply.h"

#define REASON_MAX 1024
#define UNIT_MAX   255 /* as systemd has it */
#define MAX_SIZE_LEAST (64 * 1024)

typedef struct SnapshotCall SnapshotCall;

typedef struct {
	SnapshotCall *call;
	char *session, *path; /* path NULL: not there yet, or failed */
	char *why;	      /* it failed; without memory for the reason NULL */
	bool nothing;	      /* it failed, since there is nothing to save */
} Part;

struct SnapshotCall {
	PendingCall *pending; /* NULL: answered */
	bool all;	      /* reply a(ss) */
	Part *parts;
	size_t n_parts, n_open;
	Failure failure; /* the first, of those that have something to save if there are any */
};

static SnapshotCall *snapshot_call_free(SnapshotCall *c)
{
	if (!c)
		return NULL;
	for (size_t i = 0; i < c->n_parts; i++) {
		free(c->parts[i].session);
		free(c->parts[i].path);
		free(c->parts[i].why);
	}
	free(c->parts);
	(void)pending_call_free(c->pending);
	free(c);
	return NULL;
}
DEFINE_CLEANUP(SnapshotCall *, snapshot_call_free)

static int snapshot_call_new(SnapshotCall **ret, Bus *b, sd_bus_message *m, size_t n, bool all,
			     sd_bus_error *error)
{
	_cleanup_(snapshot_call_freep) SnapshotCall *c = calloc(1, sizeof(*c));
	int r;

	if (!c)
		return -ENOMEM;
	c->parts = calloc(n ? n : 1, sizeof(*c->parts));
	if (!c->parts)
		return -ENOMEM;
	c->all = all;
	r = pending_call_new(&c->pending, b, m, NULL, error);
	if (r < 0)
		return r;
	*ret = steal_ptr(c);
	return 0;
}

static int reply_all(SnapshotCall *c)
{
	__attribute__((cleanup(sd_bus_message_unrefp))) sd_bus_message *reply = NULL;
	sd_bus_message *m = pending_call_message(c->pending);
	int r;

	if (!m)
		return 1; /* nobody waits any more */
	r = sd_bus_message_new_method_return(m, &reply);
	if (r >= 0)
		r = sd_bus_message_open_container(reply, 'a', "(ss)");
	for (size_t i = 0; r >= 0 && i < c->n_parts; i++) {
		const Part *p = &c->parts[i];
		const char *text = p->path ? p->path :
				   p->why  ? p->why :
					     "error: out of memory";

		if (!p->nothing)
			r = sd_bus_message_append(reply, "(ss)", p->session, text);
	}
	if (r >= 0)
		r = sd_bus_message_close_container(reply);
	return r < 0 ? r : pending_call_send(steal_ptr(c->pending), reply);
}

/* All parts are done: answers, and frees the call. */
static int snapshot_call_finish(SnapshotCall *call)
{
	_cleanup_(snapshot_call_freep) SnapshotCall *c = call;
	size_t n_taken = 0;

	for (size_t i = 0; i < c->n_parts; i++)
		n_taken += c->parts[i].path != NULL;
	if (n_taken == 0 && c->n_parts > 0)
		return pending_call_fail(steal_ptr(c->pending), &c->failure, -EIO);
	if (c->all)
		return reply_all(c);
	return pending_call_reply(steal_ptr(c->pending), "s", c->parts[0].path);
}

static void part_failed(Part *p, const Failure *f)
{
	Failure *first = &p->call->failure;

	if (first->kind == FAILURE_NONE || (first->kind == FAILURE_NOTHING && f->kind != FAILURE_NOTHING))
		*first = *f;
	p->nothing = f->kind == FAILURE_NOTHING;
	if (asprintf(&p->why, "error: %s", f->text) < 0)
		p->why = NULL;
}

static void on_done(void *userdata, const char *path, const Failure *failure)
{
	Part *p = userdata;
	SnapshotCall *c = p->call;

	if (path)
		p->path = strdup(path);
	else if (failure)
		part_failed(p, failure);
	if (--c->n_open == 0)
		(void)snapshot_call_finish(c);
}

static int part_start(Bus *b, SnapshotCall *c, const char *session, const char *reason,
		      const SnapshotOptions *options, Failure *f)
{
	Part *p = &c->parts[c->n_parts];
	int r;

	p->session = strdup(session);
	if (!p->session)
		return -ENOMEM;
	p->call = c;
	c->n_parts++;
	c->n_open++;
	r = manager_snapshot(b->manager, session, "manual", reason, options, on_done, p, NULL, f);
	if (r < 0) {
		c->n_open--;
		part_failed(p, f);
	}
	return r;
}

/* Reads an a{sv} of wait b, duration s, max_size s. */
static int options_read(sd_bus_message *m, bool *ret_wait, SnapshotOptions *ret, sd_bus_error *error)
{
	const char *key, *content, *text;
	char type;
	int flag, r;

	*ret_wait = true;
	*ret = (SnapshotOptions){ 0 };
	r = sd_bus_message_enter_container(m, 'a', "{sv}");
	if (r < 0)
		return r;
	while ((r = sd_bus_message_enter_container(m, 'e', "sv")) > 0) {
		bool wait, duration, size;

		r = sd_bus_message_read_basic(m, 's', &key);
		if (r < 0)
			return r;
		r = sd_bus_message_peek_type(m, &type, &content);
		if (r < 0)
			return r;
		wait = strcmp(key, "wait") == 0;
		duration = strcmp(key, "duration") == 0;
		size = strcmp(key, "max_size") == 0;
		if (!wait && !duration && !size)
			return sd_bus_error_setf(error, SD_BUS_ERROR_INVALID_ARGS,
						 "Unknown option '%s'; there are wait (b), duration (s), max_size (s)",
						 key);
		if (strcmp(content, wait ? "b" : "s") != 0)
			return sd_bus_error_setf(error, SD_BUS_ERROR_INVALID_ARGS,
						 "Option '%s' has D-Bus type '%s', not '%s'", key, content,
						 wait ? "b" : "s");
		if (wait) {
			r = sd_bus_message_read(m, "v", "b", &flag);
			*ret_wait = flag;
		} else {
			r = sd_bus_message_read(m, "v", "s", &text);
		}
		if (r < 0)
			return r;
		if (duration && (parse_time(text, &ret->duration_ns) < 0 || ret->duration_ns == 0))
			return sd_bus_error_setf(error, SD_BUS_ERROR_INVALID_ARGS,
						 "Option 'duration': '%s' is no time; write it like \"10s\" or \"500ms\"",
						 text);
		if (size && (parse_size(text, &ret->max_size) < 0 || ret->max_size == 0))
			return sd_bus_error_setf(error, SD_BUS_ERROR_INVALID_ARGS,
						 "Option 'max_size': '%s' is no size; write it like \"16M\"", text);
		/* as snapshot.max_snapshot_size has it: below, there may be room for not one event, and what
		 * comes out is a trace without any that calls itself a success */
		if (size && ret->max_size < MAX_SIZE_LEAST)
			return sd_bus_error_setf(error, SD_BUS_ERROR_INVALID_ARGS,
						 "Option 'max_size': '%s' is out of range: 64K or more", text);
		r = sd_bus_message_exit_container(m);
		if (r < 0)
			return r;
	}
	return r < 0 ? r : sd_bus_message_exit_container(m);
}

static int reason_check(const char *reason, sd_bus_error *error)
{
	if (strlen(reason) <= REASON_MAX)
		return 0;
	return sd_bus_error_setf(error, SD_BUS_ERROR_INVALID_ARGS, "A reason has at most %d bytes", REASON_MAX);
}

int snapshot_call(Bus *b, sd_bus_message *m, const char *session, const char *reason, sd_bus_error *error)
{
	_cleanup_free_ char *path = NULL;
	SnapshotOptions options;
	Failure f = FAILURE_NULL;
	SnapshotCall *c = NULL;
	bool wait;
	int r;

	r = options_read(m, &wait, &options, error);
	if (r < 0)
		return r;
	r = reason_check(reason, error);
	if (r < 0)
		return r;
	r = bus_authorize(b, m, ACTION_SNAPSHOT, session, error);
	if (r <= 0)
		return r < 0 ? r : 1;
	if (!wait) {
		r = manager_snapshot(b->manager, session, "manual", reason, &options, NULL, NULL, &path, &f);
		if (r < 0)
			return error_from_failure(error, &f, r);
		return reply_to(m, "s", path);
	}
	r = snapshot_call_new(&c, b, m, 1, false, error);
	if (r < 0)
		return r;
	r = part_start(b, c, session, reason, &options, &f);
	if (r < 0) {
		snapshot_call_free(c);
		return error_from_failure(error, &f, r);
	}
	return 1;
}

int snapshot_call_all(Bus *b, sd_bus_message *m, const char *reason, sd_bus_error *error)
{
	SnapshotOptions options = { 0 };
	SnapshotCall *c = NULL;
	int r;

	r = reason_check(reason, error);
	if (r < 0)
		return r;
	r = bus_authorize(b, m, ACTION_SNAPSHOT, NULL, error);
	if (r <= 0)
		return r < 0 ? r : 1;
	r = snapshot_call_new(&c, b, m, manager_n_sessions(b->manager), true, error);
	if (r < 0)
		return r;
	/* held open until all have been started */
	c->n_open = 1;
	for (Session *s = manager_first(b->manager); s; s = manager_next(b->manager, s)) {
		Failure f = FAILURE_NULL;
		SessionInfo info;

		session_info(s, &info);
		if (strcmp(info.state, "running") == 0)
			(void)part_start(b, c, info.name, reason, &options, &f);
	}
	if (--c->n_open == 0)
		return snapshot_call_finish(c);
	return 1;
}

typedef struct {
	sd_bus_message *reply;
	int r;
} UnitReply;

static void on_saved(void *userdata, const char *session, const char *path)
{
	UnitReply *u = userdata;

	if (u->r >= 0)
		u->r = sd_bus_message_append(u->reply, "(ss)", session, path);
}

int snapshot_call_unit(Bus *b, sd_bus_message *m, const char *unit, const char *reason, sd_bus_error *error)
{
	__attribute__((cleanup(sd_bus_message_unrefp))) sd_bus_message *reply = NULL;
	UnitReply u;
	int r;

	if (!unit[0] || strlen(unit) > UNIT_MAX)
		return sd_bus_error_setf(error, SD_BUS_ERROR_INVALID_ARGS, "'%s' is no unit; write it like \"nginx.service\"",
					 unit);
	r = reason_check(reason, error);
	if (r < 0)
		return r;
	r = bus_authorize(b, m, ACTION_SNAPSHOT, NULL, error);
	if (r <= 0)
		return r < 0 ? r : 1;
	r = sd_bus_message_new_method_return(m, &reply);
	if (r >= 0)
		r = sd_bus_message_open_container(reply, 'a', "(ss)");
	if (r < 0)
		return r;
	u = (UnitReply){ .reply = reply };
	(void)manager_report_unit(b->manager, unit, reason, on_saved, &u);
	if (u.r >= 0)
		u.r = sd_bus_message_close_container(reply);
	if (u.r >= 0)
		u.r = reply_send(reply);
	return u.r < 0 ? u.r : 1;
}
