/* SPDX-License-Identifier: MIT */
/* Every kind of broken configuration in broken/: the error stands at the right line, names the right key and
 * says what to do; there is one error for each mistake and none besides; and nothing half read is used. */
#include "conf/config.h"

/* behind base.h, whose MIN and MAX it replaces */
#include <glib.h>

typedef struct {
	const char *file; /* of broken/, without .conf; several rows: several errors, in this order */
	int line;
	const char *names; /* what it is about ... */
	const char *says;  /* ... and the help */
} Broken;

static const Broken broken[] = {
	{ "key-misspelt", 4, "\"polciy\"", "\"policy\"" },
	{ "key-with-dash", 5, "\"max-size\"", "\"max_size\"" },
	{ "key-in-capitals", 3, "\"Memory\"", "\"memory\"" },
	{ "key-from-nowhere", 3, "\"zzz\"", "autostart, events" },
	{ "key-of-snapshot-in-session", 3, "\"max_count\"", "snapshot: { }" },
	{ "key-of-daemon-in-session", 3, "\"max_memory\"", "daemon: { }" },
	{ "key-misspelt-of-snapshot", 3, "\"on_crush\"", "\"on_crash\"" },
	{ "key-at-top", 1, "\"memory\"", "sessions: {" },
	{ "key-in-sessions", 2, "\"autostart\"", "sessions: { NAME" },
	{ "key-misspelt-in-daemon", 2, "\"max_producer\"", "\"max_producers\"" },
	{ "group-misspelt", 1, "\"sesions\"", "\"sessions\"" },
	{ "group-unknown", 3, "\"frobnicate\"", "sessions: { }" },
	{ "bool-as-number", 3, "autostart", "true or false" },
	{ "bool-as-string", 3, "autostart", "no quotes" },
	{ "bool-as-word", 3, "autostart", "true or false" },
	{ "size-as-word", 3, "memory", "write \"64K\" in quotes" },
	{ "size-as-fraction", 3, "memory", "a fraction" },
	{ "size-as-group", 3, "memory", "a group" },
	{ "count-as-string", 3, "sub_buffers", "without quotes" },
	{ "choice-as-word", 3, "policy", "write \"discard\" in quotes" },
	{ "choice-as-list", 3, "policy", "a list" },
	{ "list-as-string", 3, "events", "[ \"shop:*\" ]" },
	{ "list-with-groups", 3, "events", "other than strings" },
	{ "list-with-fraction", 3, "users", "other than strings" },
	{ "snapshot-as-value", 3, "snapshot", "snapshot: { ... }" },
	{ "session-as-value", 2, "\"flight\"", "flight: { ... }" },
	{ "sessions-as-value", 1, "sessions", "sessions: { NAME" },
	{ "daemon-as-list", 1, "daemon", "daemon: { ... }" },
	{ "size-in-small-letters", 3, "memory", "\"16M\"" },
	{ "size-with-blank", 3, "memory", "at once" },
	{ "size-with-fraction", 3, "memory", "no size" },
	{ "size-negative", 3, "memory", "no size" },
	{ "size-negative-number", 3, "memory", "256K to 1T" },
	{ "size-too-small", 3, "memory", "256K to 1T" },
	{ "size-too-large", 3, "memory", "256K to 1T" },
	{ "size-beyond-64-bits", 3, "memory", "out of range" },
	{ "size-empty", 3, "memory", "no size" },
	{ "time-as-number", 4, "snapshot.min_interval", "\"10s\"" },
	{ "time-without-unit", 4, "snapshot.min_interval", "\"10s\"" },
	{ "time-with-wrong-unit", 4, "snapshot.max_age", "min, h or d" },
	{ "time-too-long", 4, "snapshot.duration", "30d" },
	{ "time-beyond-64-bits", 4, "snapshot.max_age", "out of range" },
	{ "count-negative", 4, "snapshot.max_count", "1 to 100000" },
	{ "count-that-would-wrap", 5, "snapshot.max_count", "4294967316" },
	{ "count-that-would-wrap-in-hex", 4, "snapshot.max_count", "4294967316" },
	{ "count-beyond-64-bits", 4, "max_count", "64 bits" },
	{ "count-with-zero-before", 4, "max_count", "octal" },
	{ "count-minus-one-in-hex", 4, "max_count", "64 bits" },
	{ "count-not-a-power-of-two", 3, "sub_buffers", "32 and 64" },
	{ "choice-misspelt", 3, "policy", "\"overwrite\"" },
	{ "choice-unknown", 3, "buffers", "\"per-user\"" },
	{ "choice-of-later-io", 3, "io", "not available in this version, but \"none\"" },
	{ "choice-misspelt-io", 3, "io", "\"direct\"" },
	{ "key-of-later-version", 3, "symbols", "not available in this version" },
	{ "block-without-io", 3, "policy", "io = \"auto\"" },
	{ "block-with-io-none", 4, "policy", "block-with-io-none.conf:3)" },
	{ "output-without-io", 3, "output", "io = \"auto\"" },
	{ "rotation-without-io", 4, "file_count", "io = \"auto\"" },
	{ "file-larger-than-all", 5, "file_size", "output_size" },
	{ "file-size-too-small", 4, "file_size", "1M to 1P" },
	{ "interval-too-short", 4, "file_interval", "100ms to 365d" },
	{ "interval-without-unit", 4, "flush_interval", "\"5s\"" },
	{ "timeout-zero", 5, "block_timeout", "1ms to 60s" },
	{ "backing-with-io", 4, "backing", "backing-with-io.conf:3)" },
	{ "backing-relative", 3, "backing", "begin with '/'" },
	{ "sync-interval-too-short", 3, "sync_interval", "10ms" },
	{ "output-relative", 4, "output", "begin with '/'" },
	{ "output-with-dots", 4, "output", "\"..\"" },
	{ "output-as-number", 4, "output", "a path in quotes" },
	{ "output-keep-free-too-large", 4, "output_keep_free", "1% to 99%" },
	{ "output-key-misspelt", 4, "\"output_sise\"", "\"output_size\"" },
	{ "output-key-in-snapshot", 4, "\"file_count\"", "in a session" },
	{ "output-twice", 8, "output", "\"audit\"" },
	{ "events-none", 3, "events", "nothing would be recorded" },
	{ "events-two-in-one", 3, "events", "quotes of its own" },
	{ "event-with-two-colons", 3, "events", "one ':'" },
	{ "event-without-provider", 3, "exclude", "before" },
	{ "event-not-ascii", 3, "events", "no event's name" },
	{ "event-with-control-byte", 3, "events", "control" },
	{ "event-not-utf-8", 3, "events", "UTF-8" },
	{ "unit-without-suffix", 3, "units", "\"nginx.service\"" },
	{ "process-too-long", 3, "processes", "\"a-very-long-pro\"" },
	{ "process-as-path", 3, "processes", "\"nginx\"" },
	{ "user-with-colon", 3, "users", "neither a user's name" },
	{ "user-beyond-32-bits", 3, "users", "4294967294" },
	{ "level-too-high", 3, "level", "0 to 14" },
	{ "level-unknown", 3, "level", "\"warning\"" },
	{ "context-unknown", 3, "contexts", "\"procname\"" },
	{ "percent-too-large", 4, "snapshot.keep_free", "1% to 99%" },
	{ "percent-without-number", 4, "snapshot.keep_free", "\"10%\"" },
	{ "path-relative", 2, "daemon.snapshot_directory", "begin with '/'" },
	{ "path-with-dots", 2, "daemon.snapshot_directory", "\"..\"" },
	{ "memory-too-little-for-parts", 3, "memory", "sub_buffers = 1024" },
	{ "parts-too-many-for-memory", 5, "memory", "sub_buffers = 64" },
	{ "one-larger-than-all", 5, "snapshot.max_snapshot_size", "snapshot.max_size" },
	{ "two-in-one-line", 2, "autostart", "true or false" },
	{ "two-in-one-line", 2, "policy", "\"discard\"" },
	{ "two-in-one-line", 2, "memry", "\"memory\"" },
	{ "user-more-than-all", 3, "daemon.max_memory_per_user", "daemon.max_memory" },
	{ "user-more-than-all-producers", 3, "daemon.max_producers_per_user", "daemon.max_producers" },
	{ "session-more-than-all", 4, "memory", "daemon.max_memory" },
	{ "session-name-quoted", 2, "\"my app\"", "name = \"my app\"" },
	{ "session-name-with-dot", 2, "\"web.front\"", "name = \"web.front\"" },
	{ "session-name-with-slash", 3, "\"../etc\"", "'/'" },
	{ "session-name-too-long", 1, "xxx", "64 bytes" },
	{ "session-name-missing", 3, "name", "{ name = " },
	{ "session-name-as-number", 2, "name", "a string in quotes" },
	{ "session-name-twice", 3, "\"a\"", "line 2" },
	{ "session-name-in-group", 3, "name", "\"a\"" },
	{ "session-list-of-strings", 1, "sessions", "groups" },
	{ "reset-as-string", 3, "reset", "true or false" },
	{ "twice-key", 4, "\"memory\"", "line 3" },
	{ "twice-session", 4, "\"flight\"", "line 2" },
	{ "twice-group", 2, "\"daemon\"", "line 1" },
	{ "include-file", 2, "@include", "tracer.conf.d" },
	{ "include-directory", 1, "@include", "tracer.conf.d" },
	{ "include-inside", 3, "@include", "tracer.conf.d" },
	{ "string-not-closed", 3, "memory", "'\"' is missing" },
	{ "string-not-closed-in-list", 3, "events", "'\"' is missing" },
	{ "comment-not-closed", 3, "\"/*\"", "\"*/\"" },
	{ "bracket-never-closed", 1, "\"sessions\"", "never closed" },
	{ "bracket-of-other-kind", 3, "\"events\"", "']' is missing" },
	{ "bracket-too-many", 3, "'}'", "closes nothing" },
	{ "equals-missing", 3, "memory", "'=' is missing" },
	{ "value-missing", 3, "memory", "a value is missing" },
	{ "value-missing-before-bracket", 3, "memory", "a value is missing" },
	{ "value-missing-at-end", 2, "sessions", "ends before the value" },
	{ "comma-missing", 3, "events", "',' is missing" },
	{ "comma-is-semicolon", 3, "events", "write ','" },
	{ "name-is-a-value", 2, "\"true\"", "cannot be a name" },
	{ "name-missing", 2, "'='", "a name is wanted" },
	{ "value-twice", 3, "memory", "a value is wanted" },
	{ "nul-byte", 3, "NUL", "not a text file" },
	{ "nul-in-string", 3, "events", "NUL" },
	{ "nested-too-deep", 1, "16 deep", "brackets" },
	{ "utf-16", 1, "NUL", "not a text file" },
	{ "not-a-configuration", 1, "'{'", "a name is wanted" },
	{ "ini", 1, "'['", "sessions: { NAME" },
	{ "yaml", 2, "flight", "needs braces" },
	{ "many", 3, "autostart", "true" },
	{ "many", 4, "polciy", "\"policy\"" },
	{ "many", 5, "memory", "\"16M\"" },
	{ "many", 6, "memory", "line 5" },
	{ "many", 7, "io", "\"none\"" },
	{ "many", 8, "snapshot.max_count", "1 to" },
	{ "many", 8, "max_sise", "\"max_size\"" },
	{ "many", 10, "level", "14" },
	{ "many", 12, "demon", "\"daemon\"" },
	{ "many", 13, "@include", "tracer.conf.d" },
	{ "many", 14, "daemon.clock", "\"counter\"" },
};

/* b is a row, and of the file that `first` is of. */
static bool about(const Broken *b, const Broken *first)
{
	return b < broken + G_N_ELEMENTS(broken) && strcmp(b->file, first->file) == 0;
}

static void test_file(gconstpointer data)
{
	const Broken *first = data, *b = first;
	_cleanup_(config_problems_clear) ConfigProblems problems = { 0 };
	_cleanup_(config_freep) Config *c = NULL;
	g_autofree char *base = g_strconcat(b->file, ".conf", NULL);
	g_autofree char *path = g_test_build_filename(G_TEST_DIST, "broken", base, NULL);

	g_assert_cmpint(config_load_file(path, &c, &problems), ==, -EINVAL);
	g_assert_nonnull(c);
	for (size_t i = 0; i < problems.n; i++) {
		const ConfigProblem *p = &problems.v[i];
		_cleanup_free_ char *text = config_problem_text(p);

		g_test_message("%s", text);
		g_assert_true(g_utf8_validate(p->text, -1, NULL));
		if (p->warning)
			continue;
		g_assert_cmpstr(p->file, ==, path);
		if (!about(b, first))
			g_error("one error too many: %s", text);
		g_assert_cmpint(p->line, ==, b->line);
		if (!strstr(p->text, b->names) || !strstr(p->text, b->says))
			g_error("%s: should name %s and say %s", text, b->names, b->says);
		b++;
	}
	if (about(b, first))
		g_error("line %d: the error about %s is missing", b->line, b->names);
	/* all but "session-name-..." are about `flight`, which must not run half configured */
	g_assert_null(config_find(c, "flight"));
}

/* A new file in broken/ without a row would never be tried. */
static void test_all_listed(void)
{
	g_autofree char *path = g_test_build_filename(G_TEST_DIST, "broken", NULL);
	g_autoptr(GDir) dir = g_dir_open(path, 0, NULL);
	const char *name;
	guint n = 0;

	g_assert_nonnull(dir);
	while ((name = g_dir_read_name(dir))) {
		bool found = false;

		for (size_t i = 0; i < G_N_ELEMENTS(broken); i++)
			found = found || (g_str_has_prefix(name, broken[i].file) &&
					  strcmp(name + strlen(broken[i].file), ".conf") == 0);
		if (!found)
			g_error("%s has no row in the table", name);
		n++;
	}
	g_assert_cmpuint(n, >=, 35);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	for (size_t i = 0; i < G_N_ELEMENTS(broken); i++) {
		g_autofree char *path = g_strconcat("/broken/", broken[i].file, NULL);

		if (i == 0 || strcmp(broken[i].file, broken[i - 1].file) != 0)
			g_test_add_data_func(path, &broken[i], test_file);
	}
	g_test_add_func("/broken/all-listed", test_all_listed);
	return g_test_run();
}
