/* SPDX-License-Identifier: MIT */
/* Changing something: create, start, stop, clear, remove, set-events, snapshot, reload. */
#include "dbus/tracerctl.h"

#include "dbus/errors.h"
#include "dbus/json.h"

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

int verb_stop(const Options *o, int argc, char **argv)
{
	return change_each(o, "StopSession", argc, argv);
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

int verb_create(const Options *o, int argc, char **argv)
{
	_cleanup_(message_unrefp) sd_bus_message *call = NULL;
	_cleanup_(bus_closep) sd_bus *bus = NULL;
	int r = client_connect(o, &bus);

	if (r != STATUS_OK)
		return r;
	r = client_new_call(bus, TRACER_PATH, TRACER_MANAGER_INTERFACE, "CreateSession", &call);
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
	if (r < 0)
		return client_failed(o, NULL, r);
	r = change(o, bus, call);
	return r == STATUS_OK && o->start ? verb_start(o, 1, argv) : r;
}

/* ---- snapshot ---- */

typedef struct {
	const Options *o;
	Json json;
} Output;

static void snapshot_print(Output *out, const char *session, const char *path)
{
	if (!out->o->json) {
		(void)printf("%s\n", path);
		return;
	}
	json_open(&out->json, '{');
	json_key(&out->json, "session");
	json_string(&out->json, session);
	json_key(&out->json, "path");
	json_string(&out->json, path);
	json_close(&out->json, '}');
}

static int options_append(const Options *o, sd_bus_message *call)
{
	int r = sd_bus_message_open_container(call, 'a', "{sv}");

	if (r >= 0 && o->no_wait)
		r = sd_bus_message_append(call, "{sv}", "wait", "b", 0);
	if (r >= 0 && o->duration)
		r = sd_bus_message_append(call, "{sv}", "duration", "s", o->duration);
	if (r >= 0 && o->max_size)
		r = sd_bus_message_append(call, "{sv}", "max_size", "s", o->max_size);
	return r < 0 ? r : sd_bus_message_close_container(call);
}

static const char *reason_of(const Options *o)
{
	return o->reason ? o->reason : "tracerctl snapshot";
}

/* ret_nothing (may be NULL): there is nothing to save, and that was not said. */
static int snapshot_one(Output *out, sd_bus *bus, const char *name, bool *ret_nothing)
{
	_cleanup_(message_unrefp) sd_bus_message *call = NULL, *reply = NULL;
	_cleanup_(error_freep) sd_bus_error error = SD_BUS_ERROR_NULL;
	const char *path;
	int r = client_new_call(bus, TRACER_PATH, TRACER_MANAGER_INTERFACE, "SnapshotSession", &call);

	if (r >= 0)
		r = sd_bus_message_append(call, "ss", name, reason_of(out->o));
	if (r >= 0)
		r = options_append(out->o, call);
	if (r >= 0)
		r = client_call(out->o, bus, call, true, &error, &reply);
	if (r >= 0)
		r = sd_bus_message_read(reply, "s", &path);
	if (ret_nothing) {
		*ret_nothing = r < 0 && sd_bus_error_has_name(&error, ERROR_NOTHING);
		if (*ret_nothing)
			return STATUS_OK;
	}
	if (r < 0)
		return client_failed(out->o, &error, r);
	snapshot_print(out, name, path);
	return STATUS_OK;
}

/* All that run, at one time: the daemon does that in one call, if there are no options to it. */
static int snapshot_all(Output *out, sd_bus *bus)
{
	_cleanup_(message_unrefp) sd_bus_message *call = NULL, *reply = NULL;
	_cleanup_(error_freep) sd_bus_error error = SD_BUS_ERROR_NULL;
	const char *session, *path;
	int status = STATUS_OK;
	int r = client_new_call(bus, TRACER_PATH, TRACER_MANAGER_INTERFACE, "SnapshotAll", &call);

	if (r >= 0)
		r = sd_bus_message_append(call, "s", reason_of(out->o));
	if (r >= 0)
		r = client_call(out->o, bus, call, true, &error, &reply);
	if (r >= 0)
		r = sd_bus_message_enter_container(reply, 'a', "(ss)");
	while (r >= 0 && (r = sd_bus_message_read(reply, "(ss)", &session, &path)) > 0) {
		if (*path == '/')
			snapshot_print(out, session, path);
		else
			status = failed(STATUS_FAILED, "%s",
					strncmp(path, "error: ", 7) == 0 ? path + 7 : path);
	}
	return r < 0 ? client_failed(out->o, &error, r) : status;
}

static int snapshot_running(Output *out, sd_bus *bus)
{
	_cleanup_(session_rows_clear) SessionRows rows = { NULL, 0 };
	_cleanup_(error_freep) sd_bus_error error = SD_BUS_ERROR_NULL;
	int r = session_rows_read(bus, &rows, &error), status = STATUS_OK;
	size_t n = 0, n_empty = 0;

	if (r < 0)
		return client_failed(out->o, &error, r);
	for (size_t i = 0; i < rows.n; i++) {
		if (!rows.v[i].name || !rows.v[i].state || strcmp(rows.v[i].state, "running") != 0)
			continue;
		bool nothing;

		r = snapshot_one(out, bus, rows.v[i].name, &nothing);
		status = r != STATUS_OK ? r : status;
		n++;
		n_empty += nothing;
	}
	/* like SnapshotAll: idle sessions are no failure beside others */
	if (n && n == n_empty)
		return failed(STATUS_FAILED, "No session that runs has recorded anything, so there is nothing to "
					     "save; see tracerctl producers");
	return status;
}

int verb_snapshot(const Options *o, int argc, char **argv)
{
	_cleanup_(bus_closep) sd_bus *bus = NULL;
	Output out = { .o = o, .json = { .out = stdout, .pretty = o->json_pretty } };
	int status;

	if (o->all == (argc > 0))
		return failed(STATUS_USAGE, o->all ? "Either --all or names, not both" :
						     "Which session? Give its NAME, or --all (tracerctl list)");
	status = client_connect(o, &bus);
	if (status != STATUS_OK)
		return status;
	if (o->json)
		json_open(&out.json, '[');
	if (o->all && (o->no_wait || o->duration || o->max_size))
		status = snapshot_running(&out, bus);
	else if (o->all)
		status = snapshot_all(&out, bus);
	for (int i = 0; i < argc; i++) {
		int r = snapshot_one(&out, bus, argv[i], NULL);

		status = r != STATUS_OK ? r : status;
	}
	if (o->json)
		json_close(&out.json, ']');
	return status;
}
