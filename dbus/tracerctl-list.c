/* SPDX-License-Identifier: MIT */
/* The lists that are no sessions: programs and kinds of events. */
#include "dbus/tracerctl.h"

#include <inttypes.h>
#include <pwd.h>

#include "dbus/json.h"
#include "dbus/table.h"

static const char *user_name(u32 uid, char buffer[64])
{
	const struct passwd *p = getpwuid(uid);

	(void)snprintf(buffer, 64, "%u", uid);
	return p ? p->pw_name : buffer;
}

/* Members of an array of structs as objects: names[i] is the key of member i. */
static int objects_write(Json *j, sd_bus_message *m, const char *entry, const char *const *names, size_t n)
{
	int r = sd_bus_message_enter_container(m, 'a', NULL);

	if (r < 0)
		return r;
	json_open(j, '[');
	while (r >= 0 && (r = sd_bus_message_enter_container(m, 'r', entry)) > 0) {
		json_open(j, '{');
		for (size_t i = 0; r >= 0 && i < n; i++) {
			json_key(j, names[i]);
			r = json_value(j, m);
		}
		json_close(j, '}');
		if (r >= 0)
			r = sd_bus_message_exit_container(m);
	}
	json_close(j, ']');
	return r < 0 ? r : sd_bus_message_exit_container(m);
}

/* Fetches the list; with --json also writes it, and then *ret is NULL. */
static int list_fetch(const Options *o, const char *member, const char *entry, const char *const *names,
		      size_t n_names, sd_bus_message **ret)
{
	_cleanup_(message_unrefp) sd_bus_message *reply = NULL;
	_cleanup_(error_freep) sd_bus_error error = SD_BUS_ERROR_NULL;
	_cleanup_(bus_closep) sd_bus *bus = NULL;
	Json j = { .out = stdout, .pretty = o->json_pretty };
	int r = client_connect(o, &bus);

	if (r != STATUS_OK)
		return r;
	r = client_get(bus, member, &error, &reply, NULL);
	if (r >= 0 && o->json)
		r = objects_write(&j, reply, entry, names, n_names);
	if (r < 0)
		return client_failed(o, &error, r);
	if (!o->json)
		*ret = steal_ptr(reply);
	return STATUS_OK;
}

int verb_producers(const Options *o, int argc, char **argv)
{
	static const char *const names[] = { "pid", "uid", "command", "unit" };
	_cleanup_(message_unrefp) sd_bus_message *m = NULL;
	_cleanup_(table_clear) Table t = TABLE(">PID", "USER", "COMMAND", "UNIT");
	const char *command, *unit;
	char buffer[64];
	size_t n = 0;
	u32 pid, uid;
	int r;

	r = list_fetch(o, "ListProducers", "uuss", names, ELEMENTSOF(names), &m);
	if (r != STATUS_OK || !m)
		return r;
	r = sd_bus_message_enter_container(m, 'a', "(uuss)");
	while (r >= 0 && (r = sd_bus_message_read(m, "(uuss)", &pid, &uid, &command, &unit)) > 0) {
		n++;
		if (table_addf(&t, "%u", pid) < 0 || table_add(&t, user_name(uid, buffer)) < 0 ||
		    table_add(&t, command) < 0 || table_add(&t, unit) < 0)
			r = -ENOMEM;
	}
	if (r < 0)
		return client_failed(o, NULL, r);
	table_print(&t, stdout, !o->no_legend, "\n");
	if (!o->no_legend)
		(void)printf("\n%zu program%s.\n", n, n == 1 ? "" : "s");
	return STATUS_OK;
}

int verb_events(const Options *o, int argc, char **argv)
{
	static const char *const names[] = { "provider", "event", "level" };
	_cleanup_(message_unrefp) sd_bus_message *m = NULL;
	_cleanup_(table_clear) Table t = TABLE("EVENT", "LEVEL");
	const char *provider, *event, *level;
	size_t n = 0;
	int r;

	r = list_fetch(o, "ListEvents", "sss", names, ELEMENTSOF(names), &m);
	if (r != STATUS_OK || !m)
		return r;
	r = sd_bus_message_enter_container(m, 'a', "(sss)");
	while (r >= 0 && (r = sd_bus_message_read(m, "(sss)", &provider, &event, &level)) > 0) {
		n++;
		if (table_addf(&t, "%s:%s", provider, event) < 0 || table_add(&t, level) < 0)
			r = -ENOMEM;
	}
	if (r < 0)
		return client_failed(o, NULL, r);
	table_print(&t, stdout, !o->no_legend, "\n");
	if (!o->no_legend)
		(void)printf("\n%zu kind%s of events%s\n", n, n == 1 ? "" : "s",
			     n == 0 ? "; programs announce theirs when a running session wants some." : ".");
	return STATUS_OK;
}
