/* SPDX-License-Identifier: MIT */
#include "conf/config.h"
#include "conf/session.h"

/* behind base.h, whose MIN and MAX it replaces */
#include <glib.h>

static void test_names(void)
{
	static const char *const right[] = { "flight", "my app", "web.front", "a", "caf\xc3\xa9", "-x", "42",
					     "*" };
	static const char *const wrong[] = { "",	".",	 "..",	    ".x",      "a/b",
					     "/",	"a:b",	 "a\n",	    "a\x7f",   "\xff",
					     "\xc3",	"\xc0\xaf", "\xed\xa0\x80", "\xc2\x85", "\xf4\x90\x80\x80" };
	g_autofree char *longest = g_strnfill(64, 'x'), *longer = g_strnfill(65, 'x');

	for (size_t i = 0; i < G_N_ELEMENTS(right); i++)
		if (!config_session_name_valid(right[i]))
			g_error("%s", right[i]);
	for (size_t i = 0; i < G_N_ELEMENTS(wrong); i++) {
		SessionConfig *s = NULL;

		if (config_session_name_valid(wrong[i]))
			g_error("%zu", i);
		g_assert_cmpint(session_config_new(&s, wrong[i]), ==, -EINVAL);
		g_assert_null(s);
	}
	g_assert_true(config_session_name_valid(longest));
	g_assert_false(config_session_name_valid(longer));
}

static void set(SessionConfig *s, const char *key, ConfigValue v)
{
	_cleanup_free_ char *wrong = NULL;

	if (session_config_set(s, key, &v, &wrong) < 0)
		g_error("%s", wrong);
}

static void refuse(SessionConfig *s, const char *key, ConfigValue v, const char *says)
{
	_cleanup_free_ char *wrong = NULL;
	_cleanup_(session_config_freep) SessionConfig *before = session_config_copy(s);

	g_assert_cmpint(session_config_set(s, key, &v, &wrong), ==, -EINVAL);
	g_assert_nonnull(wrong);
	g_test_message("%s", wrong);
	if (!strstr(wrong, says))
		g_error("%s: should say %s", wrong, says);
	g_assert_true(session_config_equal(before, s));
}

#define BOOL(x)	  ((ConfigValue){ .type = CONFIG_BOOL, .boolean = (x) })
#define INT(x)	  ((ConfigValue){ .type = CONFIG_INT, .integer = (x) })
#define STRING(x) ((ConfigValue){ .type = CONFIG_STRING, .string = (x) })
#define STRINGS(...)                                                                               \
	((ConfigValue){ .type = CONFIG_STRINGS,                                                    \
			.strings = { .v = (char **)(const char *[]){ __VA_ARGS__ },                \
				     .n = sizeof((const char *[]){ __VA_ARGS__ }) / sizeof(char *) } })

static void test_set(void)
{
	_cleanup_(session_config_freep) SessionConfig *s = NULL;
	char event[] = "shop:*";

	g_assert_cmpint(session_config_new(&s, "x"), ==, 0);
	set(s, "autostart", BOOL(true));
	g_assert_true(s->autostart);
	set(s, "memory", STRING("4M"));
	g_assert_cmpuint(s->memory, ==, 4 << 20);
	set(s, "memory", INT(8 << 20));
	g_assert_cmpuint(s->memory, ==, 8 << 20);
	set(s, "events", STRINGS(event, event));
	event[0] = 'X'; /* ours is a copy */
	g_assert_cmpuint(s->events.n, ==, 2);
	g_assert_cmpstr(s->events.v[1], ==, "shop:*");
	set(s, "events", STRINGS("a"));
	g_assert_cmpuint(s->events.n, ==, 1);
	set(s, "level", STRING("err"));
	g_assert_cmpint(s->level, ==, 3);
	set(s, "level", INT(9));
	g_assert_cmpint(s->level, ==, 9);
	set(s, "contexts", STRINGS("vtid"));
	g_assert_cmpuint(s->contexts, ==, 2);
	set(s, "snapshot.max_count", INT(0));
	g_assert_cmpuint(s->snapshot.keep.max_count, ==, 0);
	set(s, "snapshot.min_interval", STRING("1500ms"));
	g_assert_cmpuint(s->snapshot.min_interval_ns, ==, 1500000000);
	set(s, "snapshot.min_interval", INT(0));
	g_assert_cmpuint(s->snapshot.min_interval_ns, ==, 0);
	/* one of the two, never both */
	set(s, "snapshot.keep_free", STRING("2G"));
	g_assert_cmpuint(s->snapshot.keep.keep_free, ==, 2ull << 30);
	g_assert_cmpuint(s->snapshot.keep.keep_free_percent, ==, 0);
	set(s, "snapshot.keep_free", STRING("5%"));
	g_assert_cmpuint(s->snapshot.keep.keep_free, ==, 0);
	g_assert_cmpuint(s->snapshot.keep.keep_free_percent, ==, 5);
	set(s, "snapshot.keep_free", STRING("0%"));
	g_assert_cmpuint(s->snapshot.keep.keep_free_percent, ==, 0);
	/* of the output alone */
	set(s, "snapshot.keep_free", STRING("3G"));
	set(s, "output_keep_free", STRING("7%"));
	g_assert_cmpuint(s->files.keep_free, ==, 0);
	g_assert_cmpuint(s->files.keep_free_percent, ==, 7);
	g_assert_cmpuint(s->snapshot.keep.keep_free, ==, 3ull << 30);
	g_assert_cmpuint(s->snapshot.keep.keep_free_percent, ==, 0);
	set(s, "output_keep_free", STRING("4G"));
	g_assert_cmpuint(s->files.keep_free, ==, 4ull << 30);
	g_assert_cmpuint(s->files.keep_free_percent, ==, 0);
	set(s, "io", STRING("mmap"));
	g_assert_cmpint(s->io, ==, IO_MMAP);
	set(s, "output", STRING("/srv/x"));
	g_assert_cmpstr(s->output, ==, "/srv/x");
	set(s, "output", STRING(""));
	g_assert_null(s->output);
	set(s, "users", (ConfigValue){ .type = CONFIG_STRINGS });
	g_assert_cmpuint(s->users.n, ==, 0);
}

static void test_refuse(void)
{
	_cleanup_(session_config_freep) SessionConfig *s = NULL;
	g_autofree char *item = g_strnfill(256, 'x');
	char *many[257];

	g_assert_cmpint(session_config_new(&s, "x"), ==, 0);
	refuse(s, "memry", STRING("4M"), "\"memory\"");
	refuse(s, "snapshot.max_cuont", INT(3), "\"max_count\"");
	refuse(s, "max_count", INT(3), "snapshot");
	refuse(s, "snapshot", INT(3), "snapshot.max_count");
	refuse(s, "snapshot.", INT(3), "unknown key");
	refuse(s, "", INT(3), "unknown key");
	refuse(s, "daemon.clock", STRING("auto"), "unknown key");
	refuse(s, "snapshot_directory", STRING("/tmp"), "daemon");
	refuse(s, "name", STRING("y"), "configuration files only");
	refuse(s, "reset", BOOL(true), "configuration files only");
	refuse(s, "output", STRING("x"), "begin with '/'");
	refuse(s, "io", STRING("relay"), "\"auto\"");
	refuse(s, "io", STRING("drect"), "\"direct\"");
	refuse(s, "output_keep_free", STRING("100%"), "1% to 99%");
	refuse(s, "memory", BOOL(true), "256K to 1T");
	refuse(s, "memory", INT(INT64_MIN), "256K to 1T");
	refuse(s, "memory", INT(INT64_MAX), "256K to 1T");
	refuse(s, "sub_buffers", INT((1ll << 32) + 16), "16 to 1024");
	refuse(s, "sub_buffers", INT(0), "16 to 1024");
	refuse(s, "level", INT(-1), "0 to 14");
	refuse(s, "level", INT(1ll << 32), "0 to 14");
	refuse(s, "snapshot.max_count", INT(-1), "100000");
	refuse(s, "events", STRINGS("ok", ""), "empty");
	refuse(s, "events", STRINGS(item), "255");
	refuse(s, "events", (ConfigValue){ .type = CONFIG_STRINGS }, "nothing");
	for (size_t i = 0; i < G_N_ELEMENTS(many); i++)
		many[i] = item + 250;
	refuse(s, "events", ((ConfigValue){ .type = CONFIG_STRINGS, .strings = { many, 257 } }), "256");
	refuse(s, item, INT(1), "unknown key");
	refuse(s, "policy", STRING("\xff\n"), "\"??\"");
}

static void test_check(void)
{
	_cleanup_(session_config_freep) SessionConfig *s = NULL;
	_cleanup_free_ char *wrong = NULL;

	g_assert_cmpint(session_config_new(&s, "x"), ==, 0);
	s->sub_buffers = 16;
	s->memory = session_config_minimum(16, (u32)sysconf(_SC_NPROCESSORS_ONLN),
					   (u32)sysconf(_SC_NPROCESSORS_CONF));
	g_assert_cmpint(session_config_check(s, &wrong), ==, 0);
	g_assert_null(wrong);
	s->memory--;
	g_assert_cmpint(session_config_check(s, &wrong), ==, -EINVAL);
	g_assert_nonnull(strstr(wrong, "sub_buffers"));
	/* 16 parts of 4 KiB on 2 processors, two side rings of 64 KiB, the header and a page of lines */
	g_assert_cmpuint(session_config_minimum(16, 2, 4), ==, 2 * 16 * 4096 + 2 * 65536 + 2 * 4096);
	g_assert_cmpuint(session_config_minimum(1024, 1, 15), ==,
			 1024 * 4096 + 2 * 512 * 1024 + 4096 + 2 * 4096);
}

/* Who writes everything has no use for what is kept of it. */
static void test_check_pinned(void)
{
	_cleanup_(session_config_freep) SessionConfig *s = NULL;
	_cleanup_free_ char *wrong = NULL;

	g_assert_cmpint(session_config_new(&s, "x"), ==, 0);
	set(s, "pinned", STRINGS("shop:start*"));
	g_assert_cmpint(session_config_check(s, &wrong), ==, 0);
	set(s, "io", STRING("auto"));
	g_assert_cmpint(session_config_check(s, &wrong), ==, -EINVAL);
	g_assert_nonnull(strstr(wrong, "leave pinned out, or use io = \"none\""));
	set(s, "pinned", STRINGS());
	g_clear_pointer(&wrong, free);
	g_assert_cmpint(session_config_check(s, &wrong), ==, 0);
}

/* Who writes nothing has no use for files, and blocks nobody. */
static void test_check_output(void)
{
	static const struct {
		const char *key, *value;
	} files[] = {
		{ "output", "/srv/x" },	 { "file_size", "1M" },	   { "file_interval", "1h" },
		{ "output_size", "2M" }, { "output_age", "7d" },
	};

	for (size_t i = 0; i < G_N_ELEMENTS(files); i++) {
		_cleanup_(session_config_freep) SessionConfig *s = NULL;
		_cleanup_free_ char *wrong = NULL;

		g_assert_cmpint(session_config_new(&s, "x"), ==, 0);
		set(s, files[i].key, STRING(files[i].value));
		g_assert_cmpint(session_config_check(s, &wrong), ==, -EINVAL);
		g_assert_true(g_str_has_prefix(wrong, files[i].key));
		set(s, "io", STRING("auto"));
		g_assert_cmpint(session_config_check(s, NULL), ==, 0);
	}
	for (Io io = IO_NONE; io <= IO_DIRECT; io++) {
		_cleanup_(session_config_freep) SessionConfig *s = NULL;
		_cleanup_free_ char *wrong = NULL;

		g_assert_cmpint(session_config_new(&s, "x"), ==, 0);
		set(s, "io", STRING(io_name(io)));
		set(s, "policy", STRING("discard"));
		g_assert_cmpint(session_config_check(s, NULL), ==, 0);
		set(s, "policy", STRING("block"));
		g_assert_cmpint(session_config_check(s, &wrong), ==, io == IO_NONE ? -EINVAL : 0);
	}
}

/* Every key makes a difference, and a copy has it. */
static void test_copy(void)
{
	static const struct {
		const char *key;
		ConfigValue v;
	} changes[] = {
		{ "autostart", { .type = CONFIG_BOOL, .boolean = true } },
		{ "level", { .type = CONFIG_INT, .integer = 3 } },
		{ "policy", { .type = CONFIG_STRING, .string = "discard" } },
		{ "buffers", { .type = CONFIG_STRING, .string = "per-unit" } },
		{ "memory", { .type = CONFIG_STRING, .string = "5M" } },
		{ "sub_buffers", { .type = CONFIG_INT, .integer = 32 } },
		{ "contexts", { .type = CONFIG_STRINGS } },
		{ "pinned_memory", { .type = CONFIG_STRING, .string = "7M" } },
		{ "policy", { .type = CONFIG_STRING, .string = "block" } },
		{ "io", { .type = CONFIG_STRING, .string = "splice" } },
		{ "output", { .type = CONFIG_STRING, .string = "/srv/x" } },
		{ "backing", { .type = CONFIG_STRING, .string = "/srv/x" } },
		{ "sync_interval", { .type = CONFIG_STRING, .string = "7s" } },
		{ "flush_interval", { .type = CONFIG_STRING, .string = "7s" } },
		{ "block_timeout", { .type = CONFIG_STRING, .string = "7s" } },
		{ "file_size", { .type = CONFIG_STRING, .string = "7M" } },
		{ "file_interval", { .type = CONFIG_STRING, .string = "7h" } },
		{ "file_count", { .type = CONFIG_INT, .integer = 7 } },
		{ "output_size", { .type = CONFIG_STRING, .string = "7G" } },
		{ "output_age", { .type = CONFIG_STRING, .string = "7d" } },
		{ "output_keep_free", { .type = CONFIG_STRING, .string = "7%" } },
		{ "output_keep_free", { .type = CONFIG_STRING, .string = "7G" } },
		{ "on_stop", { .type = CONFIG_STRING, .string = "snapshot" } },
		{ "snapshot.on_crash", { .type = CONFIG_BOOL } },
		{ "snapshot.on_exit_failure", { .type = CONFIG_BOOL, .boolean = true } },
		{ "snapshot.on_unknown_death", { .type = CONFIG_BOOL, .boolean = true } },
		{ "snapshot.on_coredump", { .type = CONFIG_BOOL, .boolean = true } },
		{ "snapshot.max_count", { .type = CONFIG_INT, .integer = 7 } },
		{ "snapshot.max_size", { .type = CONFIG_STRING, .string = "7G" } },
		{ "snapshot.max_age", { .type = CONFIG_STRING, .string = "7d" } },
		{ "snapshot.keep_free", { .type = CONFIG_STRING, .string = "7%" } },
		{ "snapshot.keep_free", { .type = CONFIG_STRING, .string = "7G" } },
		{ "snapshot.min_interval", { .type = CONFIG_STRING, .string = "7s" } },
		{ "snapshot.duration", { .type = CONFIG_STRING, .string = "7s" } },
		{ "snapshot.max_snapshot_size", { .type = CONFIG_STRING, .string = "7M" } },
	};
	static const char *const lists[] = { "events", "exclude", "users", "processes", "units", "pinned",
					     "snapshot.on_unit_failure", "snapshot.on_event" };
	_cleanup_(session_config_freep) SessionConfig *first = NULL, *other = NULL;

	g_assert_cmpint(session_config_new(&first, "x"), ==, 0);
	g_assert_cmpint(session_config_new(&other, "y"), ==, 0);
	g_assert_false(session_config_equal(first, other));
	for (size_t i = 0; i < G_N_ELEMENTS(changes) + G_N_ELEMENTS(lists); i++) {
		size_t list = i - G_N_ELEMENTS(changes);
		_cleanup_(session_config_freep) SessionConfig *s = session_config_copy(first);
		_cleanup_(session_config_freep) SessionConfig *copy = NULL;

		g_assert_true(session_config_equal(first, s));
		if (i < G_N_ELEMENTS(changes))
			set(s, changes[i].key, changes[i].v);
		else
			set(s, lists[list], STRINGS("x.service"));
		if (session_config_equal(first, s))
			g_error("%s makes no difference",
				i < G_N_ELEMENTS(changes) ? changes[i].key : lists[list]);
		copy = session_config_copy(s);
		g_assert_true(session_config_equal(copy, s));
	}
	g_assert_null(session_config_free(NULL));
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/session/names", test_names);
	g_test_add_func("/session/set", test_set);
	g_test_add_func("/session/refuse", test_refuse);
	g_test_add_func("/session/check", test_check);
	g_test_add_func("/session/check-pinned", test_check_pinned);
	g_test_add_func("/session/check-output", test_check_output);
	g_test_add_func("/session/copy", test_copy);
	return g_test_run();
}
