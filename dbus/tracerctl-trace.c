/* SPDX-License-Identifier: MIT */
/* The verbs that wait for a trace on disk and print where it is: snapshot and rotate. */
#include "dbus/tracerctl.h"

#include "dbus/errors.h"
#include "dbus/json.h"

typedef struct {
	const Options *o;
	Json json;
} Output;

static void path_print(Output *out, const char *session, const char *path)
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
	return o->reason ? o->reason : o->unit ? "a unit has failed" : "tracerctl snapshot";
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
	path_print(out, name, path);
	return STATUS_OK;
}

/* All that run, at one time, or those of a unit: the daemon does that in one call, if there are no options to it. */
static int snapshot_all(Output *out, sd_bus *bus)
{
	const char *method = out->o->unit ? "SnapshotUnit" : "SnapshotAll";
	_cleanup_(message_unrefp) sd_bus_message *call = NULL, *reply = NULL;
	_cleanup_(error_freep) sd_bus_error error = SD_BUS_ERROR_NULL;
	const char *session, *path;
	int status = STATUS_OK;
	int r = client_new_call(bus, TRACER_PATH, TRACER_MANAGER_INTERFACE, method, &call);

	if (r >= 0 && out->o->unit)
		r = sd_bus_message_append(call, "s", out->o->unit);
	if (r >= 0)
		r = sd_bus_message_append(call, "s", reason_of(out->o));
	if (r >= 0)
		r = client_call(out->o, bus, call, true, &error, &reply);
	if (r >= 0)
		r = sd_bus_message_enter_container(reply, 'a', "(ss)");
	while (r >= 0 && (r = sd_bus_message_read(reply, "(ss)", &session, &path)) > 0) {
		if (*path == '/')
			path_print(out, session, path);
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

	if ((o->all || o->unit) == (argc > 0) || (o->all && o->unit))
		return failed(STATUS_USAGE, o->all || o->unit ?
						    "Either --all, --unit or names, not both" :
						    "Which session? Give its NAME, or --all (tracerctl list)");
	if (o->unit && (o->no_wait || o->duration || o->max_size))
		return failed(STATUS_USAGE, "A snapshot for a --unit is automatic: it is not waited for, and has the "
					    "session's limits");
	status = client_connect(o, &bus);
	if (status != STATUS_OK)
		return status;
	if (o->json)
		json_open(&out.json, '[');
	if (o->all && (o->no_wait || o->duration || o->max_size))
		status = snapshot_running(&out, bus);
	else if (o->all || o->unit)
		status = snapshot_all(&out, bus);
	for (int i = 0; i < argc; i++) {
		int r = snapshot_one(&out, bus, argv[i], NULL);

		status = r != STATUS_OK ? r : status;
	}
	if (o->json)
		json_close(&out.json, ']');
	return status;
}

/* ---- rotate ---- */

static int rotate_one(Output *out, sd_bus *bus, const char *name)
{
	_cleanup_(message_unrefp) sd_bus_message *call = NULL, *reply = NULL;
	_cleanup_(error_freep) sd_bus_error error = SD_BUS_ERROR_NULL;
	const char *path;
	int r = client_new_call(bus, TRACER_PATH, TRACER_MANAGER_INTERFACE, "RotateSession", &call);

	if (r >= 0)
		r = sd_bus_message_append(call, "s", name);
	if (r >= 0)
		r = client_call(out->o, bus, call, true, &error, &reply);
	if (r >= 0)
		r = sd_bus_message_read(reply, "s", &path);
	if (r < 0)
		return client_failed(out->o, &error, r);
	path_print(out, name, path);
	return STATUS_OK;
}

int verb_rotate(const Options *o, int argc, char **argv)
{
	_cleanup_(bus_closep) sd_bus *bus = NULL;
	Output out = { .o = o, .json = { .out = stdout, .pretty = o->json_pretty } };
	int status = client_connect(o, &bus);

	if (status != STATUS_OK)
		return status;
	if (o->json)
		json_open(&out.json, '[');
	for (int i = 0; i < argc; i++) {
		int r = rotate_one(&out, bus, argv[i]);

		status = r != STATUS_OK ? r : status;
	}
	if (o->json)
		json_close(&out.json, ']');
	return status;
}
