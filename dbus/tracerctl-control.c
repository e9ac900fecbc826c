/* SPDX-License-Identifier: MIT */
/* Changing something: create, set, start, stop, clear, remove, set-events, reload. */
#include "dbus/tracerctl.h"

/* One method call without a result. */
static int change(const Options *o, sd_bus *bus, sd_bus_message *call)
{
	_cleanup_(error_freep) sd_bus_error error = SD_BUS_ERROR_NULL;
	int r = client_call(o, bus, call, true, &error, NULL);

	return r < 0 ? client_failed(o, &error, r) : STATUS_OK;
}

/* The same method of the manager for each name; goes on after a failure, and returns the last one. */
static int change_each(const Options *o, const char *member, int argc, char **argv)
{
	_cleanup_(bus_closep) sd_bus *bus = NULL;
	int status = client_connect(o, &bus);

	for (int i = 0; bus && i < argc; i++) {
		_cleanup_(message_unrefp) sd_bus_message *call = NULL;
		int r = client_new_call(bus, TRACER_PATH, TRACER_MANAGER_INTERFACE, member, &call);

		if (r >= 0)
			r = sd_bus_message_append(call, "s", argv[i]);
		r = r < 0 ? client_failed(o, NULL, r) : change(o, bus, call);
		status = r != STATUS_OK ? r : status;
	}
	return status;
}

int verb_start(const Options *o, int argc, char **argv)
{
	return change_each(o, "StartSession", argc, argv);
}

int verb_remove(const Options *o, int argc, char **argv)
{
	return change_each(o, "RemoveSession", argc, argv);
}

int verb_reload(const Options *o, int argc, char **argv)
{
	_cleanup_(message_unrefp) sd_bus_message *call = NULL;
	_cleanup_(bus_closep) sd_bus *bus = NULL;
	int r = client_connect(o, &bus);

	if (r != STATUS_OK)
		return r;
	r = client_new_call(bus, TRACER_PATH, TRACER_MANAGER_INTERFACE, "Reload", &call);
	return r < 0 ? client_failed(o, NULL, r) : change(o, bus, call);
}

/* A call of a method of the session's own object. STATUS_OK, or the failure is said. */
static int session_call(const Options *o, sd_bus *bus, const char *name, const char *member, sd_bus_message **ret)
{
	_cleanup_(message_unrefp) sd_bus_message *reply = NULL;
	_cleanup_(error_freep) sd_bus_error error = SD_BUS_ERROR_NULL;
	const char *path;
	int r = client_get(bus, "GetSession", &error, &reply, "s", name);

	if (r >= 0)
		r = sd_bus_message_read(reply, "o", &path);
	if (r >= 0)
		r = client_new_call(bus, path, TRACER_SESSION_INTERFACE, member, ret);
	return r < 0 ? client_failed(o, &error, r) : STATUS_OK;
}

/* ---- stop ---- */

typedef struct {
	bool begun;  /* it does not run any more */
	bool ended;  /* the call was answered */
	int status;
	const Options *o;
} Stop;

static int on_stop_answered(sd_bus_message *m, void *userdata, sd_bus_error *unused)
{
	Stop *s = userdata;

	s->ended = true;
	if (sd_bus_message_is_method_error(m, NULL))
		s->status = client_failed(s->o, sd_bus_message_get_error(m), -sd_bus_message_get_errno(m));
	return 1;
}

static int on_stop_changed(sd_bus_message *m, void *userdata, sd_bus_error *unused)
{
	const char *name, *state;
	Stop *s = userdata;
	int r = sd_bus_message_skip(m, "s");

	if (r >= 0)
		r = sd_bus_message_enter_container(m, 'a', "{sv}");
	while (r >= 0 && (r = sd_bus_message_enter_container(m, 'e', "sv")) > 0) {
		r = sd_bus_message_read_basic(m, 's', &name);
		if (r >= 0 && strcmp(name, "State") == 0) {
			r = sd_bus_message_read(m, "v", "s", &state);
			s->begun |= r >= 0 && strcmp(state, "running") != 0;
		} else if (r >= 0) {
			r = sd_bus_message_skip(m, "v");
		}
		if (r >= 0)
			r = sd_bus_message_exit_container(m);
	}
	return 0;
}

/* The daemon answers when all is written; that the session runs no more it announces at once. */
static int stop_without_wait(const Options *o, sd_bus *bus, const char *name)
{
	__attribute__((cleanup(sd_bus_slot_unrefp))) sd_bus_slot *changed = NULL, *answered = NULL;
	_cleanup_(message_unrefp) sd_bus_message *call = NULL;
	Stop s = { .o = o };
	int r = session_call(o, bus, name, "Stop", &call);

	if (r != STATUS_OK)
		return r;
	agent_start(o);
	r = sd_bus_match_signal(bus, &changed, TRACER_NAME, sd_bus_message_get_path(call),
				"org.freedesktop.DBus.Properties", "PropertiesChanged", on_stop_changed, &s);
	if (r >= 0)
		r = sd_bus_call_async(bus, &answered, call, on_stop_answered, &s, UINT64_MAX);
	while (r >= 0 && !s.begun && !s.ended) {
		r = sd_bus_process(bus, NULL);
		if (r == 0)
			r = sd_bus_wait(bus, UINT64_MAX);
		if (r == -EINTR)
			r = 0;
	}
	return r < 0 ? client_failed(o, NULL, r) : s.status;
}

int verb_stop(const Options *o, int argc, char **argv)
{
	_cleanup_(bus_closep) sd_bus *bus = NULL;
	int status;

	if (!o->no_wait)
		return change_each(o, "StopSession", argc, argv);
	status = client_connect(o, &bus);
	for (int i = 0; bus && i < argc; i++) {
		int r = stop_without_wait(o, bus, argv[i]);

		status = r != STATUS_OK ? r : status;
	}
	return status;
}

int verb_clear(const Options *o, int argc, char **argv)
{
	_cleanup_(bus_closep) sd_bus *bus = NULL;
	int status = client_connect(o, &bus);

	for (int i = 0; bus && i < argc; i++) {
		_cleanup_(message_unrefp) sd_bus_message *call = NULL;
		int r = session_call(o, bus, argv[i], "Clear", &call);

		if (r == STATUS_OK)
			r = change(o, bus, call);
		status = r != STATUS_OK ? r : status;
	}
	return status;
}

int verb_set_events(const Options *o, int argc, char **argv)
{
	_cleanup_(message_unrefp) sd_bus_message *call = NULL;
	_cleanup_(bus_closep) sd_bus *bus = NULL;
	int r = client_connect(o, &bus);

	if (r != STATUS_OK)
		return r;
	r = session_call(o, bus, argv[0], "SetEvents", &call);
	if (r != STATUS_OK)
		return r;
	r = sd_bus_message_append_strv(call, argv + 1);
	return r < 0 ? client_failed(o, NULL, r) : change(o, bus, call);
}

/* "key=value" as {sv} with a text: the daemon knows what each key is. */
static int setting_append(sd_bus_message *call, const char *argument)
{
	const char *equals = strchr(argument, '=');
	_cleanup_free_ char *key = NULL;

	if (!equals || equals == argument)
		return -EINVAL;
	key = strndup(argument, (size_t)(equals - argument));
	if (!key)
		return -ENOMEM;
	return sd_bus_message_append(call, "{sv}", key, "s", equals + 1);
}

/* A call of the manager's about NAME with KEY=VALUE. */
static int settings_call(const Options *o, const char *member, int argc, char **argv, sd_bus *bus)
{
	_cleanup_(message_unrefp) sd_bus_message *call = NULL;
	int r = client_new_call(bus, TRACER_PATH, TRACER_MANAGER_INTERFACE, member, &call);

	if (r >= 0)
		r = sd_bus_message_append(call, "s", argv[0]);
	if (r >= 0)
		r = sd_bus_message_open_container(call, 'a', "{sv}");
	for (int i = 1; r >= 0 && i < argc; i++) {
		r = setting_append(call, argv[i]);
		if (r == -EINVAL)
			return failed(STATUS_USAGE, "'%s' is no setting; write KEY=VALUE, as in memory=16M", argv[i]);
	}
	if (r >= 0)
		r = sd_bus_message_close_container(call);
	return r < 0 ? client_failed(o, NULL, r) : change(o, bus, call);
}

int verb_create(const Options *o, int argc, char **argv)
{
	_cleanup_(bus_closep) sd_bus *bus = NULL;
	int r = client_connect(o, &bus);

	if (r == STATUS_OK)
		r = settings_call(o, "CreateSession", argc, argv, bus);
	return r == STATUS_OK && o->start ? verb_start(o, 1, argv) : r;
}

int verb_set(const Options *o, int argc, char **argv)
{
	_cleanup_(bus_closep) sd_bus *bus = NULL;
	int r = client_connect(o, &bus);

	return r == STATUS_OK ? settings_call(o, "ConfigureSession", argc, argv, bus) : r;
}
