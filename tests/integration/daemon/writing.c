/* SPDX-License-Identifier: MIT */
#include "tests/integration/daemon/writing.h"

/* ---- the end of a stop, and of a rotation ---- */

static void on_stopped(void *userdata, const Failure *failure)
{
	Answer *a = userdata;

	a->done = true;
	a->failure = failure ? *failure : FAILURE_NULL;
}

static void on_rotated(void *userdata, const char *path, const Failure *failure)
{
	Answer *a = userdata;

	on_stopped(a, failure);
	g_free(a->path);
	a->path = g_strdup(path);
}

static bool is_done(void *userdata)
{
	return ((Answer *)userdata)->done;
}

Answer stop(House *h)
{
	Answer a = { 0 };
	Failure f;

	g_assert_cmpint(manager_stop_session(h->manager, "log", on_stopped, &a, &f), ==, 0);
	house_until(h, is_done, &a);
	return a;
}

void stop_well(House *h)
{
	Answer a = stop(h);

	if (a.failure.kind != FAILURE_NONE)
		g_error("%s", a.failure.text);
}

const char *rotate(House *h, Answer *a)
{
	Failure f;

	a->done = false;
	g_assert_cmpint(manager_rotate_session(h->manager, "log", on_rotated, a, &f), ==, 0);
	house_until(h, is_done, a);
	return a->path;
}

void start(House *h)
{
	Failure f = FAILURE_NULL;

	if (manager_start_session(h->manager, "log", &f) < 0)
		g_error("%s", f.text);
}

/* ---- traces ---- */

GArray *numbers(const char *path, const char *event)
{
	GArray *v = g_array_new(false, false, sizeof(u64));
	char *all = trace_text(path);

	for (char *line = all; line && *line;) {
		char *end = strchr(line, '\n'), *at;

		if (end)
			*end++ = 0;
		at = strstr(line, event) ? strstr(line, "number = ") : NULL;
		if (at) {
			u64 n = g_ascii_strtoull(at + 9, NULL, 10);

			g_array_append_val(v, n);
		}
		line = end;
	}
	g_free(all);
	return v;
}

void check_all(const char *path, u64 n)
{
	GArray *v = numbers(path, "shop:");

	g_assert_cmpuint(v->len, ==, n);
	for (u64 i = 0; i < n; i++)
		g_assert_cmpuint(g_array_index(v, u64, i), ==, i);
	g_array_unref(v);
}

void check_counted(const char *path, u64 n, u64 lost)
{
	GArray *v = numbers(path, "shop:");

	g_assert_cmpuint(v->len + lost, ==, n);
	for (u32 i = 1; i < v->len; i++)
		g_assert_cmpuint(g_array_index(v, u64, i - 1), <, g_array_index(v, u64, i));
	g_array_unref(v);
}

SessionInfo check_sums(House *h, u64 n)
{
	SessionInfo i = house_info(h, "log");

	g_assert_cmpuint(i.recorded + i.discarded, ==, n);
	g_assert_cmpuint(i.recorded, ==, i.written + i.overwritten + i.unreadable + i.unwritten);
	return i;
}

u32 count_entries(const char *path)
{
	GDir *d = g_dir_open(path, 0, NULL);
	u32 n = 0;

	while (d && g_dir_read_name(d))
		n++;
	if (d)
		g_dir_close(d);
	return n;
}

char *output_of(House *h)
{
	return g_strdup(house_info(h, "log").output);
}

bool enough_written(void *userdata)
{
	Traces *t = userdata;

	house_turn(t->h, 1000);
	return house_info(t->h, "log").written >= t->n;
}

bool enough_traces(void *userdata)
{
	Traces *t = userdata;

	return t->h->n_traces >= t->n;
}

void set_key(House *h, const char *key, const char *value)
{
	SessionConfig *c = session_config_copy(manager_find(h->manager, "log")->config);
	char *text = NULL;
	Failure f;

	g_assert_cmpint(
		session_config_set(c, key, &(ConfigValue){ .type = CONFIG_STRING, .string = value }, &text), ==, 0);
	if (manager_configure_session(h->manager, c, &f) < 0)
		g_error("%s", f.text);
}

/* ---- trouble ---- */

bool in_trouble(void *userdata)
{
	return house_info(userdata, "log").trouble[0] != 0;
}

bool out_of_trouble(void *userdata)
{
	return house_info(userdata, "log").trouble[0] == 0;
}

bool enough_troubles(void *userdata)
{
	Traces *t = userdata;

	return t->h->n_troubles >= t->n;
}
