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

typedef struct {
	u32 pid, uid;
	const char *command, *unit, *exe, *build_id;
} ProgramRow;

/* Whatever else later versions say is passed over. */
static int program_read(sd_bus_message *m, ProgramRow *ret)
{
	const char *key;
	int r = sd_bus_message_enter_container(m, 'a', "{sv}");

	*ret = (ProgramRow){ .command = "", .unit = "", .exe = "", .build_id = "" };
	while (r >= 0 && (r = sd_bus_message_enter_container(m, 'e', "sv")) > 0) {
		const struct {
			const char *key, *type;
			void *to;
		} known[] = {
			{ "pid", "u", &ret->pid },	   { "uid", "u", &ret->uid }, { "command", "s", &ret->command },
			{ "unit", "s", &ret->unit },	   { "exe", "s", &ret->exe },
			{ "build_id", "s", &ret->build_id },
		};
		size_t i;

		r = sd_bus_message_read_basic(m, 's', &key);
		for (i = 0; i < ELEMENTSOF(known) && r >= 0 && strcmp(known[i].key, key) != 0; i++)
			;
		if (r >= 0)
			r = i < ELEMENTSOF(known) ? sd_bus_message_read(m, "v", known[i].type, known[i].to) :
						    sd_bus_message_skip(m, "v");
		if (r >= 0)
			r = sd_bus_message_exit_container(m);
	}
	return r < 0 ? r : sd_bus_message_exit_container(m);
}

static int programs_json(Json *j, sd_bus_message *m)
{
	int r = sd_bus_message_enter_container(m, 'a', "a{sv}");

	json_open(j, '[');
	while (r >= 0 && (r = sd_bus_message_at_end(m, false)) == 0) {
		json_open(j, '{');
		r = json_properties(j, m);
		json_close(j, '}');
	}
	json_close(j, ']');
	return r;
}

int verb_producers(const Options *o, int argc, char **argv)
{
	_cleanup_(message_unrefp) sd_bus_message *m = NULL;
	_cleanup_(error_freep) sd_bus_error error = SD_BUS_ERROR_NULL;
	_cleanup_(bus_closep) sd_bus *bus = NULL;
	_cleanup_(table_clear) Table t = TABLE(">PID", "USER", "COMMAND", "UNIT", "EXECUTABLE", "BUILD ID");
	Json j = { .out = stdout, .pretty = o->json_pretty };
	char buffer[64];
	ProgramRow p;
	size_t n = 0;
	int r = client_connect(o, &bus);

	if (r != STATUS_OK)
		return r;
	r = client_get(bus, "ListProducerDetails", &error, &m, NULL);
	if (r >= 0 && o->json)
		r = programs_json(&j, m);
	if (r < 0)
		return client_failed(o, &error, r);
	if (o->json)
		return STATUS_OK;
	r = sd_bus_message_enter_container(m, 'a', "a{sv}");
	while (r >= 0 && (r = sd_bus_message_at_end(m, false)) == 0) {
		n++;
		r = program_read(m, &p);
		if (r >= 0 && (table_addf(&t, "%u", p.pid) < 0 || table_add(&t, user_name(p.uid, buffer)) < 0 ||
			       table_add(&t, p.command) < 0 || table_add(&t, p.unit) < 0 || table_add(&t, p.exe) < 0 ||
			       table_add(&t, p.build_id) < 0))
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
