/* SPDX-License-Identifier: MIT */
#include "conf/config.h"
#include "conf/keys.h"
#include "conf/load.h"

/* behind base.h, whose MIN and MAX it replaces */
#include <glib.h>

static char *check(const char *file, int *ret)
{
	char *text = NULL;
	size_t n = 0;
	FILE *f = open_memstream(&text, &n);

	*ret = config_check(NULL, file, f);
	g_assert_cmpint(fclose(f), ==, 0);
	return text;
}

/* --check-config: everything in one run, in the order of lines, and the exit status systemd calls CONFIG. */
static void test_check(void)
{
	g_autofree char *many = g_test_build_filename(G_TEST_DIST, "broken", "many.conf", NULL);
	g_autofree char *good = g_test_build_filename(G_TEST_DIST, "good", "all-keys.conf", NULL);
	_cleanup_free_ char *text = NULL, *fine = NULL;
	g_auto(GStrv) lines = NULL;
	int r, last = 0, n = 0;

	text = check(many, &r);
	g_assert_cmpint(r, ==, 78);
	lines = g_strsplit(text, "\n", -1);
	for (; g_str_has_prefix(lines[n], many); n++) {
		int line = atoi(lines[n] + strlen(many) + 1);

		if (strstr(lines[n], ": warning: "))
			break; /* of the file as a whole */
		g_assert_nonnull(strstr(lines[n], ": error: "));
		g_assert_cmpint(line, >=, last);
		last = line;
	}
	g_assert_cmpint(n, ==, 11);
	g_assert_cmpstr(lines[n + 1], ==, "11 errors");
	fine = check(good, &r);
	g_assert_cmpint(r, ==, 0);
	g_assert_cmpstr(fine, ==, "no errors; 1 session\n");
}

static Config *load(const char *text)
{
	_cleanup_(config_problems_clear) ConfigProblems problems = { 0 };
	Config *c = NULL;

	if (config_load_text("text", text, strlen(text), &c, &problems) < 0 || problems.n > 0)
		g_error("%s", config_problem_text(&problems.v[0]));
	return c;
}

static char *dump(const Config *c)
{
	char *text = NULL;
	size_t n = 0;
	FILE *f = open_memstream(&text, &n);

	g_assert_cmpint(config_dump(c, f), ==, 0);
	g_assert_cmpint(fclose(f), ==, 0);
	return text;
}

/* What is dumped, read again, is the same; and says where it came from. */
static void try_dump(const char *name)
{
	_cleanup_(config_problems_clear) ConfigProblems problems = { 0 };
	_cleanup_(config_freep) Config *c = NULL, *back = NULL;
	g_autofree char *path = g_test_build_filename(G_TEST_DIST, "good", name, NULL);
	g_autofree char *origin = g_strdup_printf("// %s:", path);
	_cleanup_free_ char *text = NULL;

	g_assert_cmpint(config_load_file(path, &c, &problems), ==, 0);
	text = dump(c);
	g_assert_nonnull(strstr(text, origin));
	back = load(text);
	g_assert_true(daemon_config_equal(&c->daemon, &back->daemon));
	g_assert_cmpuint(back->n_sessions, ==, c->n_sessions);
	for (size_t i = 0; i < c->n_sessions; i++)
		g_assert_true(session_config_equal(c->sessions[i], back->sessions[i]));
}

static void test_dump(void)
{
	_cleanup_(config_freep) Config *c = load("sessions: { s: { memory = \"3M\";\n autostart = true; }; };");
	_cleanup_free_ char *text = dump(c);

	g_assert_nonnull(strstr(text, "memory = \"3M\"; // text:1\n"));
	g_assert_nonnull(strstr(text, "autostart = true; // text:2\n"));
	g_assert_nonnull(strstr(text, "policy = \"overwrite\"; // default\n"));
	try_dump("all-keys.conf");
	try_dump("odd-names.conf");
}

/* --dump-config: what is broken is said and left out, the rest is in effect and dumped. */
static void test_dump_main(void)
{
	g_autofree char *good = g_test_build_filename(G_TEST_DIST, "good", "all-keys.conf", NULL);
	g_autofree char *bad = g_test_build_filename(G_TEST_DIST, "broken", "key-misspelt.conf", NULL);
	const char *files[] = { good, bad };

	for (int i = 0; i < 2; i++) {
		_cleanup_free_ char *out_text = NULL, *err_text = NULL;
		_cleanup_(config_freep) Config *back = NULL;
		size_t n_out = 0, n_err = 0;
		FILE *out = open_memstream(&out_text, &n_out), *err = open_memstream(&err_text, &n_err);

		g_assert_cmpint(config_dump_main(NULL, files[i], out, err), ==, i == 0 ? 0 : 78);
		g_assert_cmpint(fclose(out), ==, 0);
		g_assert_cmpint(fclose(err), ==, 0);
		g_assert_cmpint(n_err > 0 && strstr(err_text, ": error: "), ==, i == 1);
		back = load(out_text);
		g_assert_cmpuint(back->n_sessions, ==, i == 0);
	}
	{
		_cleanup_free_ char *err_text = NULL;
		size_t n_err = 0;
		FILE *full = fopen("/dev/full", "w"), *err = open_memstream(&err_text, &n_err);

		g_assert_nonnull(full);
		g_assert_cmpint(config_dump_main(NULL, good, full, err), ==, 74);
		(void)fclose(full);
		g_assert_cmpint(fclose(err), ==, 0);
		g_assert_nonnull(strstr(err_text, "cannot be written"));
	}
}

/* One that came over the bus has no file. */
static void test_dump_without_origin(void)
{
	_cleanup_(config_freep) Config *c = load("");
	_cleanup_(session_config_freep) SessionConfig *s = NULL;
	SessionConfig *one[1];
	_cleanup_free_ char *text = NULL;

	g_assert_cmpint(session_config_new(&s, "x"), ==, 0);
	one[0] = s;
	c->sessions = one;
	c->n_sessions = 1;
	text = dump(c);
	g_assert_nonnull(strstr(text, "name = \"x\";\n"));
	c->sessions = NULL;
	c->n_sessions = 0;
}

static void test_help(void)
{
	_cleanup_free_ char *text = NULL;
	size_t n = 0;
	FILE *f = open_memstream(&text, &n);

	g_assert_cmpint(config_help(f), ==, 0);
	g_assert_cmpint(fclose(f), ==, 0);
	for (size_t i = 0; i < n_keys; i++) {
		g_autofree char *line = g_strdup_printf("  %s = ", keys[i].name);

		g_assert_nonnull(strstr(text, line));
		g_assert_nonnull(strstr(text, keys[i].doc.text));
	}
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/report/check", test_check);
	g_test_add_func("/report/dump", test_dump);
	g_test_add_func("/report/dump-main", test_dump_main);
	g_test_add_func("/report/dump-without-origin", test_dump_without_origin);
	g_test_add_func("/report/help", test_help);
	return g_test_run();
}
