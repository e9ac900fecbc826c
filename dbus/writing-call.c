/* SPDX-License-Identifier: MIT */
#include "dbus/writing-call.h"

#include "dbus/announce.h"
#include "dbus/errors.h"
#include "dbus/pending-call.h"
#include "dbus/settings.h"

static void on_stopped(void *userdata, const Failure *failure)
{
	if (failure)
		(void)pending_call_fail(userdata, failure, -EIO);
	else
		(void)pending_call_reply(userdata, NULL);
}

int writing_call_stop(Bus *b, sd_bus_message *m, const char *session, sd_bus_error *error)
{
	PendingCall *c = NULL;
	Failure f = FAILURE_NULL;
	int r;

	r = bus_authorize(b, m, ACTION_MANAGE, session, error);
	if (r <= 0)
		return r < 0 ? r : 1;
	r = pending_call_new(&c, b, m, session, error);
	if (r < 0)
		return r;
	/* A session that writes nothing has answered before this returns. */
	r = manager_stop_session(b->manager, session, on_stopped, c, &f);
	if (r < 0) {
		(void)pending_call_free(c);
		return error_from_failure(error, &f, r);
	}
	return 1;
}

static void on_rotated(void *userdata, const char *path, const Failure *failure)
{
	static const Failure unknown = { .kind = FAILURE_NONE };

	if (path)
		(void)pending_call_reply(userdata, "s", path);
	else
		(void)pending_call_fail(userdata, failure ? failure : &unknown, -EIO);
}

int writing_call_rotate(Bus *b, sd_bus_message *m, const char *session, sd_bus_error *error)
{
	PendingCall *c = NULL;
	Failure f = FAILURE_NULL;
	int r;

	r = bus_authorize(b, m, ACTION_SNAPSHOT, session, error);
	if (r <= 0)
		return r < 0 ? r : 1;
	r = pending_call_new(&c, b, m, session, error);
	if (r < 0)
		return r;
	r = manager_rotate_session(b->manager, session, on_rotated, c, &f);
	if (r < 0) {
		(void)pending_call_free(c);
		return error_from_failure(error, &f, r);
	}
	return 1;
}

int writing_call_configure(Bus *b, sd_bus_message *m, const char *session, sd_bus_error *error)
{
	_cleanup_(session_config_freep) SessionConfig *config = NULL;
	Failure f = FAILURE_NULL;
	SessionInfo info;
	Session *s = manager_find(b->manager, session);
	int r;

	if (!s)
		return sd_bus_error_setf(error, ERROR_NO_SUCH_SESSION,
					 "There is no session '%s'; 'tracerctl list' shows those there are", session);
	/* The others stay: what is read goes over a copy of what the session has now. While polkit thinks the session
	 * may change, but then all of this is done again. */
	session_info(s, &info);
	config = session_config_copy(info.config);
	if (!config)
		return -ENOMEM;
	r = settings_read(m, config, error);
	if (r < 0)
		return r;
	r = bus_authorize(b, m, ACTION_MANAGE, session, error);
	if (r <= 0)
		return r < 0 ? r : 1;
	r = manager_configure_session(b->manager, config, &f);
	if (r < 0)
		return error_from_failure(error, &f, r);
	(void)steal_ptr(config);
	return announce_reply(b, m);
}
