/* SPDX-License-Identifier: MIT */
/* Hands a trace to babeltrace2. */
#include "dbus/tracerctl.h"

#include <dirent.h>
#include <sys/stat.h>

#define READER "babeltrace2"

static bool directory_exists(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* The newest finished trace in the directory of a session's traces, a fresh string; NULL if there is none, or it may not
 * be looked into. Names begin with the time, and end so once the trace is complete. */
static char *newest_trace(const char *output)
{
	static const char finished[] = "-trace";
	_cleanup_free_ char *newest = NULL;
	DIR *directory = opendir(output);
	char *path = NULL;

	for (struct dirent *e; directory && (e = readdir(directory));) {
		size_t n = strlen(e->d_name);
		char *copy;

		if (e->d_name[0] == '.' || n <= strlen(finished) ||
		    strcmp(e->d_name + n - strlen(finished), finished) != 0 ||
		    (newest && strcmp(newest, e->d_name) >= 0))
			continue;
		copy = strdup(e->d_name);
		if (!copy)
			continue;
		free(newest);
		newest = copy;
	}
	if (directory)
		(void)closedir(directory);
	return newest && asprintf(&path, "%s/%s", output, newest) >= 0 ? path : NULL;
}

typedef struct {
	char *io, *output, *last_trace, *last_snapshot;
} Saved;

static void saved_clear(Saved *s)
{
	free(s->io);
	free(s->output);
	free(s->last_trace);
	free(s->last_snapshot);
}

static int saved_read(sd_bus *bus, const char *name, Saved *ret, sd_bus_error *error)
{
	_cleanup_(message_unrefp) sd_bus_message *reply = NULL;
	const struct {
		const char *property;
		char **to;
	} wanted[] = {
		{ "IO", &ret->io },
		{ "Output", &ret->output },
		{ "LastTrace", &ret->last_trace },
		{ "LastSnapshot", &ret->last_snapshot },
	};
	const char *path;
	int r = client_get(bus, "GetSession", error, &reply, "s", name);

	if (r >= 0)
		r = sd_bus_message_read(reply, "o", &path);
	for (size_t i = 0; r >= 0 && i < ELEMENTSOF(wanted); i++)
		r = sd_bus_get_property_string(bus, TRACER_NAME, path, TRACER_SESSION_INTERFACE,
					       wanted[i].property, error, wanted[i].to);
	return r < 0 ? r : 0;
}

/* The last trace of a session that writes, else its last snapshot: a fresh string. A status; the failure is said. */
static int last_of(const Options *o, const char *name, char **ret)
{
	_cleanup_(error_freep) sd_bus_error error = SD_BUS_ERROR_NULL;
	_cleanup_(saved_clear) Saved s = { NULL, NULL, NULL, NULL };
	_cleanup_(bus_closep) sd_bus *bus = NULL;
	int r = client_connect(o, &bus);
	bool writes;

	if (r != STATUS_OK)
		return r;
	r = saved_read(bus, name, &s, &error);
	if (r < 0)
		return client_failed(o, &error, r);
	writes = strcmp(s.io, "none") != 0;
	if (writes && (!*s.last_trace || !directory_exists(s.last_trace))) {
		/* not since tracerd began, or that one had to go */
		char *newest = newest_trace(s.output);

		if (newest) {
			*ret = newest;
			return STATUS_OK;
		}
	}
	if (writes && !*s.last_trace)
		return failed(STATUS_FAILED,
			      "Session '%s' has finished no trace yet: tracerctl rotate %s ends the present one", name,
			      name);
	if (!writes && !*s.last_snapshot)
		return failed(STATUS_FAILED, "Session '%s' has no snapshot yet: tracerctl snapshot %s", name, name);
	*ret = writes ? steal_ptr(s.last_trace) : steal_ptr(s.last_snapshot);
	return STATUS_OK;
}

/* A directory is itself; NAME and NAME/latest are a session's last trace or snapshot. */
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
	return last_of(o, name, ret);
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
