/* SPDX-License-Identifier: MIT */
/* The manager calls back once for each call, and that may be long after the caller has gone: a disk that hangs, a
 * connection that broke, a service that ended. So a call outlives its place in the Bus: it leaves (`bus` is NULL, the
 * message is let go of), and is freed by the callback that finds nobody to tell. */
#include "dbus/pending-call.h"

#include <stdarg.h>

#include "dbus/announce.h"
#include "dbus/errors.h"
#include "dbus/reply.h"

struct PendingCall {
	PendingCall *next;
	Bus *bus;		 /* NULL: nobody waits */
	sd_bus_message *message; /* owned reference */
	sd_bus_track *track;	 /* of the caller; NULL on a connection without a bus daemon */
	char *session;
};

static void pending_call_leave(PendingCall *c)
{
	if (!c->bus)
		return;
	for (PendingCall **p = &c->bus->pending_calls; *p; p = &(*p)->next) {
		if (*p != c)
			continue;
		*p = c->next;
		c->bus->n_pending_calls--;
		break;
	}
	c->bus = NULL;
	c->track = sd_bus_track_unref(c->track);
	c->message = sd_bus_message_unref(c->message);
}

/* The caller has gone. What it asked for is done all the same, but its place is free for others. */
static int on_caller_gone(sd_bus_track *track, void *userdata)
{
	pending_call_leave(userdata);
	return 0;
}

static void pending_call_track(PendingCall *c)
{
	/* A call that is not watched is only kept until its work is done. */
	if (!c->bus->address || sd_bus_track_new(c->bus->bus, &c->track, on_caller_gone, c) < 0)
		return;
	if (sd_bus_track_add_sender(c->track, c->message) < 0)
		c->track = sd_bus_track_unref(c->track);
}

int pending_call_new(PendingCall **ret, Bus *b, sd_bus_message *m, const char *session, sd_bus_error *error)
{
	PendingCall *c;

	if (b->n_pending_calls >= PENDING_CALLS_MAX)
		return sd_bus_error_setf(error, SD_BUS_ERROR_LIMITS_EXCEEDED,
					 "%d callers wait for snapshots, traces or sessions already; wait for one of them",
					 PENDING_CALLS_MAX);
	c = calloc(1, sizeof(*c));
	if (!c)
		return -ENOMEM;
	if (session) {
		c->session = strdup(session);
		if (!c->session) {
			free(c);
			return -ENOMEM;
		}
	}
	c->message = sd_bus_message_ref(m);
	c->bus = b;
	c->next = b->pending_calls;
	b->pending_calls = c;
	b->n_pending_calls++;
	pending_call_track(c);
	*ret = c;
	return 0;
}

PendingCall *pending_call_free(PendingCall *c)
{
	if (!c)
		return NULL;
	pending_call_leave(c);
	free(c->session);
	free(c);
	return NULL;
}

sd_bus_message *pending_call_message(const PendingCall *c)
{
	return c->message;
}

/* Before an answer: tells what changed. False: there is nobody to answer. */
static bool pending_call_settle(PendingCall *c)
{
	if (!c->bus)
		return false;
	if (c->session)
		announce_session(c->bus, c->session);
	announce_flush(c->bus);
	return true;
}

int pending_call_send(PendingCall *call, sd_bus_message *reply)
{
	_cleanup_(pending_call_freep) PendingCall *c = call;
	int r = 1;

	if (pending_call_settle(c))
		r = reply_send(reply);
	return r < 0 ? r : 1;
}

int pending_call_reply(PendingCall *call, const char *types, ...)
{
	_cleanup_(pending_call_freep) PendingCall *c = call;
	__attribute__((cleanup(sd_bus_message_unrefp))) sd_bus_message *reply = NULL;
	va_list ap;
	int r;

	if (!pending_call_settle(c))
		return 1;
	r = sd_bus_message_new_method_return(c->message, &reply);
	if (r >= 0 && types) {
		va_start(ap, types);
		r = sd_bus_message_appendv(reply, types, ap);
		va_end(ap);
	}
	if (r >= 0)
		r = reply_send(reply);
	else
		r = sd_bus_reply_method_errno(c->message, r, NULL);
	return r < 0 ? r : 1;
}

int pending_call_fail(PendingCall *call, const Failure *failure, int r)
{
	_cleanup_(pending_call_freep) PendingCall *c = call;
	__attribute__((cleanup(sd_bus_error_free))) sd_bus_error error = SD_BUS_ERROR_NULL;
	__attribute__((cleanup(sd_bus_message_unrefp))) sd_bus_message *reply = NULL;

	if (!pending_call_settle(c))
		return 1;
	r = error_from_failure(&error, failure, r);
	r = sd_bus_message_new_method_errno(c->message, &reply, r, &error);
	if (r >= 0)
		r = reply_send(reply);
	return r < 0 ? r : 1;
}

void pending_calls_forget(Bus *b)
{
	while (b->pending_calls)
		pending_call_leave(b->pending_calls);
}

void pending_calls_abandon(Bus *b)
{
	for (PendingCall *c = b->pending_calls; c; c = c->next)
		(void)sd_bus_reply_method_errorf(c->message, SD_BUS_ERROR_NO_REPLY,
						 "tracerd ends; what was asked for may still be completed, see the journal");
	pending_calls_forget(b);
}
