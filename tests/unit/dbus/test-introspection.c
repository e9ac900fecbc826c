/* SPDX-License-Identifier: MIT */
/* The file org.tracer.Tracer1.xml is the contract: what the daemon answers to Introspect must say the same, to the
 * last argument's name and the last annotation. */
#include "tests/unit/dbus/peer.h"

/* One line per thing, below the interface: "method X", "method X arg s name in", "property P s read",
 * "property P annotation A=V". */
typedef struct {
	GPtrArray *lines;
	GPtrArray *path; /* of names of open elements worth a line */
	const char *wanted;
	bool inside;
} Reader;

static const char *attribute(const char **names, const char **values, const char *name, const char *fallback)
{
	for (; *names; names++, values++)
		if (strcmp(*names, name) == 0)
			return *values;
	return fallback;
}

static void on_start(GMarkupParseContext *context, const char *element, const char **names, const char **values,
		     void *userdata, GError **error)
{
	Reader *r = userdata;
	const char *name = attribute(names, values, "name", "");
	const char *parent = r->path->len > 0 ? r->path->pdata[r->path->len - 1] : "";
	char *line = NULL;

	if (strcmp(element, "interface") == 0) {
		r->inside = strcmp(name, r->wanted) == 0;
		line = g_strdup("interface");
	} else if (strcmp(element, "arg") == 0) {
		/* of a signal, "out" goes without saying */
		line = g_strdup_printf("%s arg %s %s %s", parent, attribute(names, values, "type", "?"), name,
				       attribute(names, values, "direction",
						 g_str_has_prefix(parent, "signal") ? "out" : "in"));
	} else if (strcmp(element, "annotation") == 0) {
		line = g_strdup_printf("%s annotation %s=%s", parent, name, attribute(names, values, "value", "?"));
	} else if (strcmp(element, "property") == 0) {
		line = g_strdup_printf("property %s %s %s", name, attribute(names, values, "type", "?"),
				       attribute(names, values, "access", "?"));
	} else {
		line = g_strdup_printf("%s %s", element, name);
	}
	g_ptr_array_add(r->path, g_strdup(line));
	if (r->inside)
		g_ptr_array_add(r->lines, line);
	else
		g_free(line);
}

static void on_end(GMarkupParseContext *context, const char *element, void *userdata, GError **error)
{
	Reader *r = userdata;

	g_ptr_array_remove_index(r->path, r->path->len - 1);
	if (strcmp(element, "interface") == 0)
		r->inside = false;
}

static GPtrArray *read_interface(const char *xml, const char *interface)
{
	static const GMarkupParser parser = { .start_element = on_start, .end_element = on_end };
	Reader r = { .lines = g_ptr_array_new_with_free_func(g_free),
		     .path = g_ptr_array_new_with_free_func(g_free),
		     .wanted = interface };
	GMarkupParseContext *context = g_markup_parse_context_new(&parser, 0, &r, NULL);
	GError *error = NULL;

	if (!g_markup_parse_context_parse(context, xml, -1, &error) ||
	    !g_markup_parse_context_end_parse(context, &error))
		g_error("%s", error->message);
	g_markup_parse_context_free(context);
	g_ptr_array_unref(r.path);
	return r.lines;
}

static bool contains(GPtrArray *lines, const char *line)
{
	for (guint i = 0; i < lines->len; i++)
		if (strcmp(lines->pdata[i], line) == 0)
			return true;
	return false;
}

static unsigned report_missing(GPtrArray *from, GPtrArray *in, const char *what)
{
	unsigned n = 0;

	for (guint i = 0; i < from->len; i++)
		if (!contains(in, from->pdata[i])) {
			g_test_message("%s: %s", what, (char *)from->pdata[i]);
			n++;
		}
	return n;
}

static void compare(Peer *p, const char *path, const char *interface)
{
	sd_bus_message *m = peer_call(p, path, "org.freedesktop.DBus.Introspectable", "Introspect", NULL);
	GPtrArray *live, *contract;
	GError *error = NULL;
	const char *xml;
	char *file;

	g_assert_cmpint(sd_bus_message_read(m, "s", &xml), >=, 0);
	g_assert_true(g_file_get_contents(TRACER_XML, &file, NULL, &error));
	live = read_interface(xml, interface);
	contract = read_interface(file, interface);
	g_assert_cmpuint(contract->len, >, 10);
	g_assert_cmpuint(report_missing(contract, live, "in the file, not in the daemon"), ==, 0);
	g_assert_cmpuint(report_missing(live, contract, "in the daemon, not in the file"), ==, 0);
	/* order included: an introspection is read by people */
	for (guint i = 0; i < live->len; i++)
		if (!g_str_has_prefix(live->pdata[i], "property") || strstr(live->pdata[i], "annotation") == NULL)
			g_assert_cmpstr(live->pdata[i], ==, contract->pdata[i]);
	g_ptr_array_unref(live);
	g_ptr_array_unref(contract);
	g_free(file);
	sd_bus_message_unref(m);
}

static void manager(Fixture *f, const void *unused)
{
	compare(f->p, BUS_PATH, BUS_MANAGER_INTERFACE);
}

static void session(Fixture *f, const void *unused)
{
	fake_session_add(f->p->manager, "x");
	compare(f->p, BUS_SESSION_PREFIX "/x", BUS_SESSION_INTERFACE);
}

static void nodes(Fixture *f, const void *unused)
{
	sd_bus_message *m;
	const char *xml;

	fake_session_add(f->p->manager, "a b");
	m = peer_call(f->p, BUS_SESSION_PREFIX, "org.freedesktop.DBus.Introspectable", "Introspect", NULL);
	g_assert_cmpint(sd_bus_message_read(m, "s", &xml), >=, 0);
	g_assert_nonnull(strstr(xml, "<node name=\"a_20b\"/>"));
	sd_bus_message_unref(m);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	TEST("/dbus/introspection/manager", manager);
	TEST("/dbus/introspection/session", session);
	TEST("/dbus/introspection/nodes", nodes);
	return g_test_run();
}
