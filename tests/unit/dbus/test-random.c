/* SPDX-License-Identifier: MIT */
/* A caller with no sense: walks the introspection, calls every method of every object with random values of its
 * signature (and sometimes of another), and looks whether the service still answers. GLib prints the seed; --seed
 * runs it again. */
#include "systemd/journal.h"
#include "tests/unit/dbus/peer.h"

typedef struct {
	char *path, *interface, *member, *signature;
} Method;

typedef struct {
	GPtrArray *methods;
	const char *path;
	char *interface, *member;
	GString *signature;
} Walk;

static const char *attribute(const char **names, const char **values, const char *name)
{
	for (; *names; names++, values++)
		if (strcmp(*names, name) == 0)
			return *values;
	return "";
}

static void on_start(GMarkupParseContext *context, const char *element, const char **names, const char **values,
		     void *userdata, GError **error)
{
	Walk *w = userdata;

	if (strcmp(element, "interface") == 0) {
		g_free(w->interface);
		w->interface = g_strdup(attribute(names, values, "name"));
	} else if (strcmp(element, "method") == 0) {
		g_free(w->member);
		w->member = g_strdup(attribute(names, values, "name"));
		g_string_truncate(w->signature, 0);
	} else if (strcmp(element, "arg") == 0 && w->member &&
		   strcmp(attribute(names, values, "direction"), "in") == 0) {
		g_string_append(w->signature, attribute(names, values, "type"));
	}
}

static void on_end(GMarkupParseContext *context, const char *element, void *userdata, GError **error)
{
	Walk *w = userdata;
	Method *m;

	if (strcmp(element, "method") != 0)
		return;
	m = g_new0(Method, 1);
	m->path = g_strdup(w->path);
	m->interface = g_strdup(w->interface);
	m->member = w->member;
	m->signature = g_strdup(w->signature->str);
	w->member = NULL;
	g_ptr_array_add(w->methods, m);
}

static void walk(Peer *p, GPtrArray *methods, const char *path)
{
	static const GMarkupParser parser = { .start_element = on_start, .end_element = on_end };
	Walk w = { .methods = methods, .path = path, .signature = g_string_new("") };
	GMarkupParseContext *context = g_markup_parse_context_new(&parser, 0, &w, NULL);
	sd_bus_message *m = peer_call(p, path, "org.freedesktop.DBus.Introspectable", "Introspect", NULL);
	const char *xml;

	g_assert_cmpint(sd_bus_message_read(m, "s", &xml), >=, 0);
	g_assert_true(g_markup_parse_context_parse(context, xml, -1, NULL));
	g_markup_parse_context_free(context);
	sd_bus_message_unref(m);
	g_free(w.interface);
	g_string_free(w.signature, TRUE);
}

static const char *random_text(char buffer[80])
{
	static const char *const words[] = {
		"", "a", "flight", "memory", "events", "policy", "snapshot", "snapshot.max_count", "wait", "duration",
		"max_size", "16M", "10s", "overwrite", "true", "shop:*", "-1", "99999999999999999999", "%s%n", "../..",
		".", "sub_buffers", "32", BUS_MANAGER_INTERFACE, BUS_SESSION_INTERFACE, "State", "contexts", "level",
		"keep_free", "100%", "org.freedesktop.LogControl1", "LogLevel",
	};
	size_t n;

	if (g_test_rand_bit())
		return words[g_test_rand_int_range(0, G_N_ELEMENTS(words))];
	n = (size_t)g_test_rand_int_range(0, 79);
	for (size_t i = 0; i < n; i++)
		buffer[i] = (char)g_test_rand_int_range(1, 128);
	buffer[n] = 0;
	return buffer;
}

static void append_random(sd_bus_message *m, const char *signature, unsigned depth);

static void append_basic(sd_bus_message *m, char type)
{
	char buffer[80];
	union {
		u64 t;
		double d;
		int b;
	} v = { .t = ((u64)g_test_rand_int() << 32) | (u32)g_test_rand_int() };
	const void *p = &v;

	if (g_test_rand_bit())
		v.t = (u64)g_test_rand_int_range(-2, 70);
	if (type == 'b')
		v.b = (int)(v.t & 1);
	if (type == 's')
		p = random_text(buffer);
	else if (type == 'o')
		p = g_test_rand_bit() ? BUS_PATH : "/";
	else if (type == 'g')
		p = "a{sv}";
	g_assert_cmpint(sd_bus_message_append_basic(m, type, p), >=, 0);
}

/* Length of the first complete type. */
static size_t type_length(const char *s)
{
	size_t n = 0;
	int open = 0;

	do {
		while (s[n] == 'a')
			n++;
		open += s[n] == '(' || s[n] == '{';
		open -= s[n] == ')' || s[n] == '}';
		n++;
	} while (open > 0);
	return n;
}

static void append_one(sd_bus_message *m, const char *type, unsigned depth)
{
	static const char *const variants[] = { "s", "b", "as", "u", "t", "x", "i", "d", "a{sv}", "y", "v", "o",
						"(ss)", "aas", "q", "n" };
	size_t n = strlen(type);

	if (*type == 'a') {
		_cleanup_free_ char *inner = strdup(type + 1);
		int entries = depth > 4 ? 0 : g_test_rand_int_range(0, 4);

		g_assert_cmpint(sd_bus_message_open_container(m, 'a', inner), >=, 0);
		while (entries-- > 0)
			append_random(m, inner, depth + 1);
		g_assert_cmpint(sd_bus_message_close_container(m), >=, 0);
	} else if (*type == '(' || *type == '{') {
		_cleanup_free_ char *inner = strndup(type + 1, n - 2);

		g_assert_cmpint(sd_bus_message_open_container(m, *type == '(' ? 'r' : 'e', inner), >=, 0);
		append_random(m, inner, depth + 1);
		g_assert_cmpint(sd_bus_message_close_container(m), >=, 0);
	} else if (*type == 'v') {
		const char *content = depth > 4 ? "s" : variants[g_test_rand_int_range(0, G_N_ELEMENTS(variants))];

		g_assert_cmpint(sd_bus_message_open_container(m, 'v', content), >=, 0);
		append_random(m, content, depth + 1);
		g_assert_cmpint(sd_bus_message_close_container(m), >=, 0);
	} else {
		append_basic(m, *type);
	}
}

static void append_random(sd_bus_message *m, const char *signature, unsigned depth)
{
	while (*signature) {
		size_t n = type_length(signature);
		_cleanup_free_ char *type = strndup(signature, n);

		append_one(m, type, depth);
		signature += n;
	}
}

static void call_random(Peer *p, const Method *method, unsigned *n_ok, unsigned *n_refused)
{
	static const char *const others[] = { "", "s", "a{sv}", "ssa{sv}", "t", "as", "(ss)", "sa{sv}s" };
	const char *signature = method->signature;
	sd_bus_error error = SD_BUS_ERROR_NULL;
	sd_bus_message *call = NULL, *reply;

	if (g_test_rand_int_range(0, 20) == 0)
		signature = others[g_test_rand_int_range(0, G_N_ELEMENTS(others))];
	g_assert_cmpint(sd_bus_message_new_method_call(p->client, &call, NULL, method->path, method->interface,
						       method->member),
			>=, 0);
	append_random(call, signature, 0);
	reply = peer_send(p, call, &error);
	if (reply) {
		++*n_ok;
	} else {
		++*n_refused;
		/* a sentence, always */
		if (!error.message || !*error.message)
			g_error("%s says %s without a word", method->member, error.name);
	}
	sd_bus_message_unref(reply);
	sd_bus_message_unref(call);
	sd_bus_error_free(&error);
}

static void method_free(void *data)
{
	Method *m = data;

	g_free(m->path);
	g_free(m->interface);
	g_free(m->member);
	g_free(m->signature);
	g_free(m);
}

static void session_make(Manager *m, const char *name)
{
	SessionConfig *c = NULL;
	Failure failure = FAILURE_NULL;
	Session *s;

	g_assert_cmpint(session_config_new(&c, name), >=, 0);
	if (manager_create_session(m, c, &s, &failure) < 0)
		g_error("%s", failure.text);
}

/* Keeps one session of a known name, and not too many others. */
static void sessions_tidy(Manager *m)
{
	if (!manager_find(m, "flight"))
		session_make(m, "flight");
	while (manager_n_sessions(m) > 50) {
		Failure failure = FAILURE_NULL;
		SessionInfo info;

		session_info(manager_first(m), &info);
		g_assert_cmpint(manager_remove_session(m, info.name, &failure), ==, 0);
	}
}

static void call_many(Peer *p, int n)
{
	GPtrArray *methods = g_ptr_array_new_with_free_func(method_free);
	unsigned n_ok = 0, n_refused = 0;

	journal_set_level(0);
	sessions_tidy(p->manager);
	walk(p, methods, BUS_PATH);
	walk(p, methods, BUS_SESSION_PREFIX "/flight");
	walk(p, methods, "/org/freedesktop/LogControl1");
	g_assert_cmpuint(methods->len, >, 20);
	while (n-- > 0) {
		call_random(p, methods->pdata[g_test_rand_int_range(0, (gint32)methods->len)], &n_ok, &n_refused);
		sessions_tidy(p->manager);
	}
	journal_set_level(6);
	g_test_message("%u answered, %u refused", n_ok, n_refused);
	g_assert_cmpuint(n_ok, >, 100);
	g_assert_cmpuint(n_refused, >, 100);
	g_ptr_array_unref(methods);
}

static Peer *random_peer(void);

static void senseless(void)
{
	Peer *p = random_peer();

	call_many(p, g_test_thorough() ? 200000 : 10000);
	peer_settle(p);
	peer_free(p);
}

#ifdef REAL_MANAGER
#include <glib/gstdio.h>

static char *directory;

static Peer *random_peer(void)
{
	char *runtime = g_build_filename(directory, "run", NULL), *state = g_build_filename(directory, "state", NULL);
	const char *const nowhere[] = { directory, NULL };
	ManagerOptions options = { .runtime_directory = runtime, .state_directory = state,
				   .config_directories = nowhere, .listen_fd = -1, .user = true };
	sd_event *event;
	Manager *m;

	g_assert_cmpint(sd_event_new(&event), >=, 0);
	g_assert_cmpint(manager_new(&m, event, &options), >=, 0);
	g_free(runtime);
	g_free(state);
	return peer_new_with(event, m);
}

int main(int argc, char **argv)
{
	char rm[] = "rm", rf[] = "-rf", *arguments[] = { rm, rf, NULL, NULL };

	g_test_init(&argc, &argv, NULL);
	arguments[2] = directory = g_dir_make_tmp("tracer-random-XXXXXX", NULL);
	g_test_add_func("/dbus/random/real-manager", senseless);
	argc = g_test_run();
	(void)g_spawn_sync(NULL, arguments, NULL, G_SPAWN_SEARCH_PATH, NULL, NULL, NULL, NULL, NULL, NULL);
	return argc;
}
#else
static Peer *random_peer(void)
{
	Peer *p = peer_new();

	fake_snapshots_at_once(p->manager, p->event);
	fake_producer_add(p->manager, 1, 1, "x", "y");
	return p;
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/dbus/random/senseless", senseless);
	return g_test_run();
}
#endif
