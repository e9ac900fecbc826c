/* SPDX-License-Identifier: MIT */
/* Without memory, at each allocation in turn: -ENOMEM or the whole result, and nothing leaked or freed twice (which
 * the build with the address sanitizer sees). The linker sends conf/'s calls here (--wrap); those inside of
 * libconfig stay as they are. */
#include "conf/config.h"
#include "conf/load.h"

/* behind base.h, whose MIN and MAX it replaces */
#include <glib.h>
#include <stdarg.h>
#include <stdio.h>

static u64 left = UINT64_MAX; /* allocations until one fails; those after it succeed */
static bool failed;

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t m);
void *__real_realloc(void *p, size_t n);
char *__real_strdup(const char *s);
int __real_vasprintf(char **ret, const char *format, va_list args);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t m);
void *__wrap_realloc(void *p, size_t n);
char *__wrap_strdup(const char *s);
int __wrap_vasprintf(char **ret, const char *format, va_list args);
int __wrap_asprintf(char **ret, const char *format, ...) _printf_(2, 3);

static bool fail(void)
{
	if (left == UINT64_MAX || left-- > 0)
		return false;
	left = UINT64_MAX;
	failed = true;
	return true;
}

void *__wrap_malloc(size_t n)
{
	return fail() ? NULL : __real_malloc(n);
}

void *__wrap_calloc(size_t n, size_t m)
{
	return fail() ? NULL : __real_calloc(n, m);
}

void *__wrap_realloc(void *p, size_t n)
{
	return fail() ? NULL : __real_realloc(p, n);
}

char *__wrap_strdup(const char *s)
{
	return fail() ? NULL : __real_strdup(s);
}

/* glibc leaves the pointer undefined when it fails: so do we, on purpose. */
int __wrap_vasprintf(char **ret, const char *format, va_list args)
{
	if (!fail())
		return __real_vasprintf(ret, format, args);
	*ret = (char *)0x5a5a;
	return -1;
}

int __wrap_asprintf(char **ret, const char *format, ...)
{
	va_list args;
	int r;

	va_start(args, format);
	r = __wrap_vasprintf(ret, format, args);
	va_end(args);
	return r;
}

/* Calls `once` with the first, second, ... allocation failing, until all of them succeed. */
static void try_all(int (*once)(const char *text, size_t n), const char *text, size_t n)
{
	for (u64 i = 0;; i++) {
		int r;

		failed = false;
		left = i;
		r = once(text, n);
		left = UINT64_MAX;
		if (!failed) {
			g_assert_cmpint(r, !=, -ENOMEM);
			g_assert_cmpuint(i, >, 5);
			g_test_message("%" G_GUINT64_FORMAT " allocations", i);
			return;
		}
		g_assert_cmpint(r, ==, -ENOMEM);
	}
}

static int load_once(const char *text, size_t n)
{
	_cleanup_(config_problems_clear) ConfigProblems problems = { 0 };
	_cleanup_(config_freep) Config *c = NULL;
	int r = config_load_text("text", text, n, &c, &problems);

	g_assert_true((c == NULL) == (r == -ENOMEM));
	return r;
}

static int copy_once(const char *text, size_t n)
{
	_cleanup_(session_config_freep) SessionConfig *s = NULL, *copy = NULL;
	int r = session_config_new(&s, "x");

	if (r < 0)
		return r;
	copy = session_config_copy(s);
	return copy ? 0 : -ENOMEM;
}

static int set_once(const char *text, size_t n)
{
	_cleanup_(session_config_freep) SessionConfig *s = NULL;
	_cleanup_free_ char *wrong = NULL;
	char *events[] = { (char *)"a:*", (char *)"b:*" };
	ConfigValue good = { .type = CONFIG_STRINGS, .strings = { events, 2 } };
	ConfigValue bad = { .type = CONFIG_STRING, .string = "overwrit" };
	int r = session_config_new(&s, "x");

	if (r < 0)
		return r;
	r = session_config_set(s, "events", &good, &wrong);
	g_assert_cmpuint(s->events.n, ==, r < 0 ? 1 : 2);
	return r < 0 ? r : session_config_set(s, "policy", &bad, &wrong);
}

static void try_file(const char *room, const char *name)
{
	g_autofree char *path = g_test_build_filename(G_TEST_DIST, room, name, NULL), *text = NULL;
	gsize n = 0;

	g_assert_true(g_file_get_contents(path, &text, &n, NULL));
	try_all(load_once, text, n);
}

static void test_good(void)
{
	try_file("good", "all-keys.conf");
	try_file("good", "odd-names.conf");
}

static void test_broken(void)
{
	try_file("broken", "many.conf");
	try_file("broken", "memory-too-little-for-parts.conf");
	try_file("broken", "user-more-than-all.conf");
	try_file("broken", "bracket-never-closed.conf");
	try_file("broken", "key-from-nowhere.conf");
}

static void test_session(void)
{
	try_all(copy_once, NULL, 0);
	try_all(set_once, NULL, 0);
}

static int files_once(const char *root, size_t n)
{
	_cleanup_(config_problems_clear) ConfigProblems problems = { 0 };
	_cleanup_(config_freep) Config *c = NULL;
	const char *const directories[] = { root, NULL };

	return config_load(directories, &c, &problems);
}

static void test_files(void)
{
	g_autofree char *root = g_dir_make_tmp("tracer-XXXXXX", NULL);
	g_autofree char *main_file = g_build_filename(root, "tracer.conf", NULL);
	g_autofree char *below = g_build_filename(root, "tracer.conf.d", NULL);
	g_autofree char *dropin = g_build_filename(below, "a.conf", NULL);

	g_assert_cmpint(g_mkdir_with_parents(below, 0700), ==, 0);
	g_assert_true(g_file_set_contents(main_file, "sessions: { a: { }; };", -1, NULL));
	g_assert_true(g_file_set_contents(dropin, "sessions: { a: { level = 3; }; };", -1, NULL));
	try_all(files_once, root, 0);
	(void)unlink(dropin);
	(void)unlink(main_file);
	(void)rmdir(below);
	(void)rmdir(root);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/memory/good", test_good);
	g_test_add_func("/memory/broken", test_broken);
	g_test_add_func("/memory/session", test_session);
	g_test_add_func("/memory/files", test_files);
	return g_test_run();
}
