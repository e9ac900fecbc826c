/* SPDX-License-Identifier: MIT */
/* What the daemon says of all sessions, in one call: so the numbers of one table were taken together. */
#include "dbus/tracerctl.h"

#include "dbus/text.h"

static void session_row_clear(SessionRow *row)
{
	free(row->name);
	free(row->state);
	free(row->policy);
	free(row->io);
	free(row->strategy);
	free(row->trouble);
	free(row->last_snapshot);
	free(row->last_trace);
	*row = (SessionRow){ 0 };
}

void session_rows_clear(SessionRows *rows)
{
	for (size_t i = 0; i < rows->n; i++)
		session_row_clear(&rows->v[i]);
	free(rows->v);
	*rows = (SessionRows){ NULL, 0 };
}

/* The variant of a property into the row, if the row has a place for it. */
static int property_read(sd_bus_message *m, const char *name, SessionRow *row)
{
	const struct {
		const char *name, *type;
		void *to;
	} places[] = {
		{ "Name", "s", &row->name },
		{ "State", "s", &row->state },
		{ "Policy", "s", &row->policy },
		{ "IO", "s", &row->io },
		{ "Strategy", "s", &row->strategy },
		{ "Trouble", "s", &row->trouble },
		{ "LastSnapshot", "s", &row->last_snapshot },
		{ "LastTrace", "s", &row->last_trace },
		{ "Memory", "t", &row->memory },
		{ "Recorded", "t", &row->recorded },
		{ "Overwritten", "t", &row->overwritten },
		{ "Discarded", "t", &row->discarded },
		{ "Written", "t", &row->written },
		{ "Unwritten", "t", &row->unwritten },
		{ "Unreadable", "t", &row->unreadable },
		{ "Producers", "u", &row->producers },
		{ "Owners", "u", &row->owners },
		{ "Fill", "d", &row->fill },
	};
	const char *text;
	int r;

	for (size_t i = 0; i < ELEMENTSOF(places); i++) {
		if (strcmp(places[i].name, name) != 0)
			continue;
		if (places[i].type[0] != 's')
			return sd_bus_message_read(m, "v", places[i].type, places[i].to);
		r = sd_bus_message_read(m, "v", "s", &text);
		if (r < 0)
			return r;
		free(*(char **)places[i].to);
		*(char **)places[i].to = strdup(text);
		return *(char **)places[i].to ? 0 : -ENOMEM;
	}
	return sd_bus_message_skip(m, "v");
}

static int properties_read(sd_bus_message *m, SessionRow *row)
{
	const char *name;
	int r = sd_bus_message_enter_container(m, 'a', "{sv}");

	if (r < 0)
		return r;
	while ((r = sd_bus_message_enter_container(m, 'e', "sv")) > 0) {
		r = sd_bus_message_read_basic(m, 's', &name);
		if (r >= 0)
			r = property_read(m, name, row);
		if (r >= 0)
			r = sd_bus_message_exit_container(m);
		if (r < 0)
			return r;
	}
	return r < 0 ? r : sd_bus_message_exit_container(m);
}

int managed_objects(sd_bus *bus, sd_bus_error *error, sd_bus_message **ret)
{
	int r = sd_bus_call_method(bus, TRACER_NAME, TRACER_PATH, "org.freedesktop.DBus.ObjectManager",
				   "GetManagedObjects", error, ret, NULL);

	return r < 0 ? r : 0;
}

static int interfaces_walk(sd_bus_message *m, SessionEach each, void *userdata)
{
	const char *interface;
	int r = sd_bus_message_enter_container(m, 'a', "{sa{sv}}");

	if (r < 0)
		return r;
	while ((r = sd_bus_message_enter_container(m, 'e', "sa{sv}")) > 0) {
		r = sd_bus_message_read_basic(m, 's', &interface);
		if (r >= 0 && strcmp(interface, TRACER_SESSION_INTERFACE) == 0)
			r = each(m, userdata);
		else if (r >= 0)
			r = sd_bus_message_skip(m, "a{sv}");
		if (r >= 0)
			r = sd_bus_message_exit_container(m);
		if (r < 0)
			return r;
	}
	return r < 0 ? r : sd_bus_message_exit_container(m);
}

int sessions_walk(sd_bus_message *m, SessionEach each, void *userdata)
{
	int r = sd_bus_message_enter_container(m, 'a', "{oa{sa{sv}}}");

	if (r < 0)
		return r;
	while ((r = sd_bus_message_enter_container(m, 'e', "oa{sa{sv}}")) > 0) {
		r = sd_bus_message_skip(m, "o");
		if (r >= 0)
			r = interfaces_walk(m, each, userdata);
		if (r >= 0)
			r = sd_bus_message_exit_container(m);
		if (r < 0)
			return r;
	}
	return r < 0 ? r : sd_bus_message_exit_container(m);
}

static int row_add(sd_bus_message *m, void *userdata)
{
	SessionRows *rows = userdata;
	SessionRow *v = realloc(rows->v, (rows->n + 1) * sizeof(*v));

	if (!v)
		return -ENOMEM;
	rows->v = v;
	v[rows->n] = (SessionRow){ 0 };
	return properties_read(m, &v[rows->n++]);
}

static int row_compare(const void *a, const void *b)
{
	const SessionRow *x = a, *y = b;

	return strcmp(x->name ? x->name : "", y->name ? y->name : "");
}

int session_rows_read(sd_bus *bus, SessionRows *ret, sd_bus_error *error)
{
	_cleanup_(message_unrefp) sd_bus_message *reply = NULL;
	_cleanup_(session_rows_clear) SessionRows rows = { NULL, 0 };
	int r = managed_objects(bus, error, &reply);

	if (r >= 0)
		r = sessions_walk(reply, row_add, &rows);
	if (r < 0)
		return r;
	if (rows.n > 0)
		qsort(rows.v, rows.n, sizeof(*rows.v), row_compare);
	*ret = rows;
	rows = (SessionRows){ NULL, 0 };
	return 0;
}

bool session_row_writes(const SessionRow *row)
{
	return row->io && strcmp(row->io, "none") != 0;
}

u64 session_row_lost(const SessionRow *row)
{
	/* a flight recorder overwrites by design; where all should be in a file, what is in none is lost */
	return row->discarded + (session_row_writes(row) ? row->overwritten + row->unwritten + row->unreadable : 0);
}

const char *session_row_io(const SessionRow *row)
{
	if (!session_row_writes(row))
		return "";
	return row->strategy && *row->strategy ? row->strategy : row->io;
}

void session_rows_trouble(const SessionRows *rows, FILE *out, const char *eol)
{
	char name[256], text[2048];

	for (size_t i = 0; i < rows->n; i++) {
		const SessionRow *s = &rows->v[i];

		if (s->trouble && *s->trouble)
			(void)fprintf(out, "%s cannot write: %s%s", text_clean(s->name, name, sizeof(name)),
				      text_clean(s->trouble, text, sizeof(text)), eol);
	}
}
