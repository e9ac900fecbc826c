/* SPDX-License-Identifier: MIT */
/* Looking at sessions: list and show. */
#include "dbus/moment.h"
#include "dbus/tracerctl.h"

#include <inttypes.h>

#include "dbus/json.h"
#include "dbus/table.h"
#include "dbus/text.h"

const char *size_human(u64 bytes, char ret[16])
{
	static const char units[] = "BKMGTPE";
	double value = (double)bytes;
	size_t i = 0;

	while (value >= 1024 && units[i + 1]) {
		value /= 1024;
		i++;
	}
	if (i == 0)
		(void)snprintf(ret, 16, "%" PRIu64 "B", bytes);
	else
		(void)snprintf(ret, 16, "%.1f%c", value, units[i]);
	return ret;
}

static int json_add(sd_bus_message *m, void *userdata)
{
	Json *j = userdata;
	int r;

	json_open(j, '{');
	r = json_properties(j, m);
	json_close(j, '}');
	return r;
}

static int list_json(const Options *o, sd_bus *bus)
{
	_cleanup_(message_unrefp) sd_bus_message *reply = NULL;
	_cleanup_(error_freep) sd_bus_error error = SD_BUS_ERROR_NULL;
	Json j = { .out = stdout, .pretty = o->json_pretty };
	int r = managed_objects(bus, &error, &reply);

	if (r < 0)
		return client_failed(o, &error, r);
	json_open(&j, '[');
	r = sessions_walk(reply, json_add, &j);
	json_close(&j, ']');
	return r < 0 ? client_failed(o, NULL, r) : STATUS_OK;
}

int verb_list(const Options *o, int argc, char **argv)
{
	_cleanup_(error_freep) sd_bus_error error = SD_BUS_ERROR_NULL;
	_cleanup_(session_rows_clear) SessionRows rows = { NULL, 0 };
	_cleanup_(bus_closep) sd_bus *bus = NULL;
	_cleanup_(table_clear) Table t = TABLE("NAME", "STATE", "POLICY", "IO", ">MEMORY", ">PROGRAMS", ">RECORDED",
					       ">LOST", ">WRITTEN", "LAST");
	char size[16];
	int r = client_connect(o, &bus);

	if (r != STATUS_OK)
		return r;
	if (o->json)
		return list_json(o, bus);
	r = session_rows_read(bus, &rows, &error);
	for (size_t i = 0; r >= 0 && i < rows.n; i++) {
		const SessionRow *s = &rows.v[i];

		if (table_add(&t, s->name) < 0 || table_add(&t, s->state) < 0 || table_add(&t, s->policy) < 0 ||
		    table_add(&t, session_row_io(s)) < 0 || table_add(&t, size_human(s->memory, size)) < 0 ||
		    table_addf(&t, "%u", s->producers) < 0 || table_addf(&t, "%" PRIu64, s->recorded) < 0 ||
		    table_addf(&t, "%" PRIu64, session_row_lost(s)) < 0 ||
		    table_addf(&t, "%" PRIu64, s->written) < 0 ||
		    table_add(&t, session_row_writes(s) ? s->last_trace : s->last_snapshot) < 0)
			r = -ENOMEM;
	}
	if (r < 0)
		return client_failed(o, &error, r);
	table_print(&t, stdout, !o->no_legend, "\n");
	if (o->no_legend)
		return STATUS_OK;
	session_rows_trouble(&rows, stdout, "\n");
	(void)printf("\n%zu session%s.%s\n", rows.n, rows.n == 1 ? "" : "s",
		     rows.n == 0 ? " Make one: tracerctl create --start NAME" : "");
	return STATUS_OK;
}

/* ---- show ---- */

static int value_print(sd_bus_message *m, FILE *out, const char *property);

static void text_print(FILE *out, const char *text)
{
	char clean[2048];

	(void)fputs(text_clean(*text ? text : "-", clean, sizeof(clean)), out);
}

static void moment_print(FILE *out, u64 usec)
{
	char text[64];

	if (usec)
		moment_format(usec * NSEC_PER_USEC, text);
	(void)fputs(usec ? text : "-", out);
}

/* "a, b", "full 0, held 3" */
static int members_print(sd_bus_message *m, FILE *out, char type, const char *content)
{
	const char *key, *separator = "";
	int r = sd_bus_message_enter_container(m, type, content);

	if (r < 0)
		return r;
	while ((r = sd_bus_message_at_end(m, false)) == 0) {
		(void)fputs(separator, out);
		if (content[0] == '{') {
			r = sd_bus_message_enter_container(m, 'e', NULL);
			if (r >= 0)
				r = sd_bus_message_read_basic(m, 's', &key);
			if (r < 0)
				return r;
			text_print(out, key);
			(void)fputs(" ", out);
		}
		r = value_print(m, out, "");
		if (r >= 0 && content[0] == '{')
			r = sd_bus_message_exit_container(m);
		if (r < 0)
			return r;
		/* settings one a line, everything else on one line */
		separator = strcmp(content, "{sv}") == 0 ? "\n              " : ", ";
	}
	if (r >= 0 && !*separator)
		(void)fputs("-", out);
	return r < 0 ? r : sd_bus_message_exit_container(m);
}

static int value_print(sd_bus_message *m, FILE *out, const char *property)
{
	const char *content, *text;
	char type, size[16];
	double d;
	u64 t;
	u32 u;
	int b, r = sd_bus_message_peek_type(m, &type, &content);

	if (r < 0)
		return r;
	switch (type) {
	case 's':
		r = sd_bus_message_read_basic(m, type, &text);
		if (r >= 0)
			text_print(out, text);
		return r;
	case 't':
		r = sd_bus_message_read_basic(m, type, &t);
		if (r < 0)
			return r;
		if (strcmp(property, "SyncedUntil") == 0)
			moment_print(out, t);
		else if (strcmp(property, "Memory") == 0 || strcmp(property, "SyncedBytes") == 0)
			(void)fputs(size_human(t, size), out);
		else
			(void)fprintf(out, "%" PRIu64, t);
		return 0;
	case 'u':
		r = sd_bus_message_read_basic(m, type, &u);
		if (r >= 0)
			(void)fprintf(out, "%u", u);
		return r;
	case 'b':
		r = sd_bus_message_read_basic(m, type, &b);
		if (r >= 0)
			(void)fputs(b ? "true" : "false", out);
		return r;
	case 'd':
		r = sd_bus_message_read_basic(m, type, &d);
		if (r >= 0)
			(void)fprintf(out, "%.0f%%", d * 100);
		return r;
	case 'v':
		r = sd_bus_message_enter_container(m, 'v', content);
		if (r >= 0)
			r = value_print(m, out, property);
		return r < 0 ? r : sd_bus_message_exit_container(m);
	case 'a':
		return members_print(m, out, type, content);
	default: /* a property of a version to come */
		return sd_bus_message_skip(m, NULL);
	}
}

static int session_print(sd_bus_message *m)
{
	const char *name;
	int r = sd_bus_message_enter_container(m, 'a', "{sv}");

	if (r < 0)
		return r;
	while ((r = sd_bus_message_enter_container(m, 'e', "sv")) > 0) {
		r = sd_bus_message_read_basic(m, 's', &name);
		if (r < 0)
			return r;
		(void)printf("%12s: ", name);
		r = value_print(m, stdout, name);
		(void)putchar('\n');
		if (r >= 0)
			r = sd_bus_message_exit_container(m);
		if (r < 0)
			return r;
	}
	return r < 0 ? r : sd_bus_message_exit_container(m);
}

/* The settings are not among GetAll's. */
static int settings_get(sd_bus *bus, const char *path, sd_bus_error *error, sd_bus_message **ret)
{
	int r = sd_bus_get_property(bus, TRACER_NAME, path, TRACER_SESSION_INTERFACE, "Settings", error, ret,
				    "a{sv}");

	return r < 0 ? r : 0;
}

static int show_text(sd_bus_message *properties, sd_bus_message *settings)
{
	int r = session_print(properties);

	if (r < 0)
		return r;
	(void)printf("%12s: ", "Settings");
	r = value_print(settings, stdout, "Settings");
	(void)putchar('\n');
	return r;
}

static int show_json(Json *j, sd_bus_message *properties, sd_bus_message *settings)
{
	int r;

	json_open(j, '{');
	r = json_properties(j, properties);
	if (r >= 0) {
		json_key(j, "settings");
		r = json_value(j, settings);
	}
	json_close(j, '}');
	return r;
}

static int show_one(const Options *o, sd_bus *bus, const char *name, Json *j)
{
	_cleanup_(message_unrefp) sd_bus_message *found = NULL, *reply = NULL, *settings = NULL;
	_cleanup_(error_freep) sd_bus_error error = SD_BUS_ERROR_NULL;
	const char *path;
	int r = client_get(bus, "GetSession", &error, &found, "s", name);

	if (r >= 0)
		r = sd_bus_message_read(found, "o", &path);
	if (r >= 0)
		r = sd_bus_call_method(bus, TRACER_NAME, path, "org.freedesktop.DBus.Properties", "GetAll",
				       &error, &reply, "s", TRACER_SESSION_INTERFACE);
	if (r >= 0)
		r = settings_get(bus, path, &error, &settings);
	if (r >= 0)
		r = o->json ? show_json(j, reply, settings) : show_text(reply, settings);
	return r < 0 ? client_failed(o, &error, r) : STATUS_OK;
}

int verb_show(const Options *o, int argc, char **argv)
{
	_cleanup_(bus_closep) sd_bus *bus = NULL;
	Json j = { .out = stdout, .pretty = o->json_pretty };
	int status = client_connect(o, &bus);

	if (status != STATUS_OK)
		return status;
	if (o->json && argc > 1)
		json_open(&j, '[');
	for (int i = 0; i < argc; i++) {
		int r;

		if (i > 0 && !o->json)
			(void)putchar('\n');
		r = show_one(o, bus, argv[i], &j);
		status = r != STATUS_OK ? r : status;
	}
	if (o->json && argc > 1)
		json_close(&j, ']');
	return status;
}
