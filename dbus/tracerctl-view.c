/* SPDX-License-Identifier: MIT */
/* Hands a trace to babeltrace2. */
#include "dbus/tracerctl.h"

#include <sys/stat.h>

#define READER "babeltrace2"

static bool directory_exists(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* The last snapshot of a session, a fresh string. A status; the failure is said. */
static int last_snapshot(const Options *o, const char *name, char **ret)
{
	_cleanup_(message_unrefp) sd_bus_message *reply = NULL;
	_cleanup_(error_freep) sd_bus_error error = SD_BUS_ERROR_NULL;
	_cleanup_(bus_closep) sd_bus *bus = NULL;
	_cleanup_free_ char *text = NULL;
	const char *path;
	int r = client_connect(o, &bus);

	if (r != STATUS_OK)
		return r;
	r = client_get(bus, "GetSession", &error, &reply, "s", name);
	if (r >= 0)
		r = sd_bus_message_read(reply, "o", &path);
	if (r >= 0)
		r = sd_bus_get_property_string(bus, TRACER_NAME, path, TRACER_SESSION_INTERFACE, "LastSnapshot",
					       &error, &text);
	if (r < 0)
		return client_failed(o, &error, r);
	if (!*text)
		return failed(STATUS_FAILED, "Session '%s' has no snapshot yet: tracerctl snapshot %s", name, name);
	*ret = steal_ptr(text);
	return STATUS_OK;
}

/* A directory is itself; NAME and NAME/latest are a session's last snapshot. */
static int path_resolve(const Options *o, const char *what, char **ret)
{
	static const char suffix[] = "/latest";
	_cleanup_free_ char *name = NULL;
	size_t n = strlen(what);

	if (directory_exists(what)) {
		*ret = strdup(what);
		return *ret ? STATUS_OK : failed(STATUS_FAILED, "Out of memory");
	}
	name = strdup(what);
	if (!name)
		return failed(STATUS_FAILED, "Out of memory");
	if (n > strlen(suffix) && strcmp(name + n - strlen(suffix), suffix) == 0)
		name[n - strlen(suffix)] = 0;
	if (strchr(name, '/'))
		return failed(STATUS_FAILED, "There is no directory %s", what);
	return last_snapshot(o, name, ret);
}

int verb_view(const Options *o, int argc, char **argv)
{
	_cleanup_free_ char **arguments = calloc((size_t)argc + 2, sizeof(*arguments));
	_cleanup_free_ char *path = NULL;
	char reader[] = READER;
	int r;

	if (!arguments)
		return failed(STATUS_FAILED, "Out of memory");
	r = path_resolve(o, argv[0], &path);
	if (r != STATUS_OK)
		return r;
	if (access(path, R_OK | X_OK) < 0)
		return failed(errno == EACCES ? STATUS_PERMISSION : STATUS_FAILED, "Cannot read %s: %s%s", path,
			      strerror(errno), errno == EACCES ? "; root and group 'tracing' may" : "");
	arguments[0] = reader;
	for (int i = 1; i < argc; i++)
		arguments[i] = argv[i];
	arguments[argc] = path;
	(void)execvp(READER, arguments);
	if (errno == ENOENT)
		return failed(STATUS_UNAVAILABLE,
			      READER " is not installed, which reads traces: apt install " READER
				     "\nThe trace is in %s",
			      path);
	return failed(STATUS_FAILED, "Could not run " READER ": %s", strerror(errno));
}
