/* SPDX-License-Identifier: MIT */
/* The table of keys is the truth; here the shipped file, the manual and the written ranges are held to it. */
#include "conf/field.h"
#include "conf/keys.h"
#include "conf/quantity.h"
#include "conf/setting.h"

/* behind base.h, whose MIN and MAX it replaces */
#include <glib.h>

static char *read_source(const char *name)
{
	g_autofree char *path = g_build_filename(g_getenv("TRACER_SOURCE"), name, NULL);
	char *text = NULL;

	g_assert_true(g_file_get_contents(path, &text, NULL, NULL));
	return text;
}

static Config *load(const char *text)
{
	_cleanup_(config_problems_clear) ConfigProblems problems = { 0 };
	g_autofree char *path = NULL;
	Config *c = NULL;
	int fd = g_file_open_tmp("tracer-XXXXXX.conf", &path, NULL);

	g_assert_cmpint(fd, >=, 0);
	(void)close(fd);
	g_assert_true(g_file_set_contents(path, text, -1, NULL));
	if (config_load_file(path, &c, &problems) < 0 || problems.n > 0)
		g_error("%s", config_problem_text(&problems.v[0]));
	(void)unlink(path);
	return c;
}

/* As it is shipped it sets nothing, but has a session to begin with. */
static void test_shipped(void)
{
	g_autofree char *text = read_source("conf/tracer.conf");
	_cleanup_(config_freep) Config *c = load(text), *empty = load("");
	_cleanup_(session_config_freep) SessionConfig *s = NULL;

	g_assert_cmpuint(c->n_sessions, ==, 1);
	g_assert_cmpint(session_config_new(&s, "flight"), ==, 0);
	g_assert_true(session_config_equal(c->sessions[0], s));
	g_assert_true(daemon_config_equal(&c->daemon, &empty->daemon));
	for (size_t i = 0; i < n_keys; i++) {
		g_assert_null(c->sessions[0]->origins[i].file);
		g_assert_null(c->daemon.origins[i].file);
	}
}

/* With every comment that is a setting taken for one, all keys are set, to their defaults. */
static void test_shipped_keys(void)
{
	g_autofree char *text = read_source("conf/tracer.conf");
	g_autoptr(GRegex) setting = g_regex_new("^( +)// (\\w+ = .*;)$", G_REGEX_MULTILINE, 0, NULL);
	g_autofree char *active = g_regex_replace(setting, text, -1, 0, "\\1\\2", 0, NULL);
	_cleanup_(config_freep) Config *c = load(active), *empty = load("");
	_cleanup_(session_config_freep) SessionConfig *s = NULL;

	g_assert_cmpint(session_config_new(&s, "flight"), ==, 0);
	g_assert_true(session_config_equal(c->sessions[0], s));
	g_assert_true(daemon_config_equal(&c->daemon, &empty->daemon));
	for (size_t i = 0; i < n_keys; i++) {
		const ConfigOrigin *o = keys[i].group == GROUP_DAEMON ? c->daemon.origins :
									c->sessions[0]->origins;
		g_autofree char *written =
			g_strdup_printf("// %s = %s;\n", keys[i].name, keys[i].doc.fallback);

		if (keys[i].kind == KEY_NAME)
			continue; /* in the file's head */
		if (keys[i].kind != KEY_RESET && !o[i].file)
			g_error("tracer.conf lacks %s", keys[i].name);
		if (!strstr(text, written))
			g_error("tracer.conf: the default of %s is not %s", keys[i].name,
				keys[i].doc.fallback);
	}
	g_assert_nonnull(strstr(text, "name = \"my app\""));
}

/* Words of a text without what wraps and marks them, to find sentences again. */
static char *plain(const char *text)
{
	g_autoptr(GRegex) noise =
		g_regex_new("\\\\f[BIRP]|\\\\(?=-)|(?m:^\\.(B|I|BR|br|TP)( |$))|(?m:^ *// ?)|`|\"", 0, 0, NULL);
	g_autoptr(GRegex) quotes = g_regex_new("\\\\\\(dq", 0, 0, NULL);
	g_autoptr(GRegex) ticks = g_regex_new("\\\\\\(aq", 0, 0, NULL);
	g_autoptr(GRegex) blanks = g_regex_new("\\s+", 0, 0, NULL);
	g_autofree char *a = g_regex_replace_literal(quotes, text, -1, 0, "", 0, NULL);
	g_autofree char *b = g_regex_replace_literal(ticks, a, -1, 0, "'", 0, NULL);
	g_autofree char *c = g_regex_replace_literal(noise, b, -1, 0, "", 0, NULL);

	return g_regex_replace_literal(blanks, c, -1, 0, " ", 0, NULL);
}

static void check_texts(const char *name, bool manual)
{
	g_autofree char *text = read_source(name), *have = plain(text);

	for (size_t i = 0; i < n_keys; i++) {
		const ConfigKey *d = &keys[i].doc;
		g_autofree char *sentence = plain(d->text), *range = plain(d->range);

		if (keys[i].kind == KEY_NAME && !manual)
			continue;
		if (!strstr(have, sentence))
			g_error("%s: %s: should say \"%s\"", name, d->key, sentence);
		if (!strstr(have, range))
			g_error("%s: %s: should give the range %s", name, d->key, range);
		if (manual && *d->fallback) {
			g_autofree char *fallback = plain(d->fallback);
			g_autofree char *spaced = g_strdup_printf(" %s = %s ", d->key, fallback);
			g_autofree char *line = plain(spaced);

			if (!strstr(have, line))
				g_error("%s: %s: should give the default %s", name, d->key, fallback);
		}
	}
}

static void test_shipped_texts(void)
{
	check_texts("conf/tracer.conf", false);
}

static void test_manual(void)
{
	check_texts("doc/tracer.conf.5", true);
}

/* "256K to 1T" is what min and max say, and both ends can be set, and nothing beyond. */
static void test_ranges(void)
{
	_cleanup_(config_freep) Config *c = load("");
	_cleanup_(session_config_freep) SessionConfig *s = NULL;

	g_assert_cmpint(session_config_new(&s, "x"), ==, 0);
	for (size_t i = 0; i < n_keys; i++) {
		const Key *k = &keys[i];
		void *base = k->group == GROUP_DAEMON ? (void *)&c->daemon : (void *)s;
		char low[32], high[32];
		g_autofree char *range = NULL;

		if (k->kind == KEY_COUNT) {
			g_snprintf(low, sizeof(low), "%" G_GUINT64_FORMAT, k->min);
			g_snprintf(high, sizeof(high), "%" G_GUINT64_FORMAT, k->max);
		} else if (k->kind == KEY_SIZE || k->kind == KEY_FREE) {
			format_size(k->min, low);
			format_size(k->max, high);
		} else if (k->kind == KEY_TIME) {
			format_time(k->min, low);
			format_time(k->max, high);
			if (k->max == 60 * NSEC_PER_SEC)
				g_strlcpy(high, "60s", sizeof(high));
		} else {
			continue;
		}
		range = g_strdup_printf("%s to %s", low, high);
		if (!g_str_has_prefix(k->doc.range, range))
			g_error("%s: the range is %s", k->name, range);
		g_assert_cmpint(k->none, ==, strstr(k->doc.range, "or 0 for") != NULL);
		for (int end = 0; end < 4; end++) {
			u64 n = end == 0 ? k->min : end == 1 ? k->max : end == 2 ? k->min - 1 : k->max + 1;
			char text[32];
			_cleanup_free_ char *wrong = NULL;
			ConfigValue v = { .type = CONFIG_STRING, .string = text };
			int r;

			if (end == 2 && n == 0 && k->none)
				continue;
			if (k->kind == KEY_COUNT) {
				v.type = CONFIG_INT;
				v.integer = (int64_t)n;
			} else if (k->kind == KEY_TIME) {
				format_time(n, text);
			} else {
				format_size(n, text);
			}
			r = setting_set(k, base, &v, &wrong);
			if (r != (end < 2 ? 0 : -EINVAL))
				g_error("%s: %" G_GUINT64_FORMAT ": %d %s", k->name, n, r, wrong);
		}
	}
}

/* Choices are all in the range's text, and come back by name. */
static void test_choices(void)
{
	for (size_t i = 0; i < n_keys; i++) {
		const Key *k = &keys[i];

		if (!k->choices)
			continue;
		for (const KeyChoice *choice = k->choices; choice->name; choice++) {
			g_autofree char *quoted = g_strdup_printf("\"%s\"", choice->name);

			if (choice->later) {
				g_assert_null(strstr(k->doc.range, quoted));
				continue;
			}
			g_assert_cmpstr(choice_name(k->choices, choice->value), ==, choice->name);
			if (k->kind == KEY_LEVEL)
				g_assert_nonnull(strstr(k->doc.text, choice->name));
			else
				g_assert_nonnull(strstr(k->doc.range, quoted));
		}
		g_assert_null(choice_name(k->choices, 999));
	}
	g_assert_cmpstr(policy_name(POLICY_DISCARD), ==, "discard");
	g_assert_cmpstr(buffers_name(BUFFERS_PER_PROCESS), ==, "per-process");
	g_assert_cmpstr(io_name(IO_NONE), ==, "none");
	g_assert_cmpstr(io_name(IO_DIRECT), ==, "direct");
	g_assert_cmpstr(policy_name(POLICY_BLOCK), ==, "block");
	g_assert_cmpstr(on_stop_name(ON_STOP_SNAPSHOT), ==, "snapshot");
	g_assert_cmpstr(clock_choice_name(CLOCK_MONO), ==, "monotonic");
}

/* The default as written is the default as held. */
static void test_defaults(void)
{
	_cleanup_(config_freep) Config *c = load("");
	_cleanup_(session_config_freep) SessionConfig *s = NULL;

	g_assert_cmpint(session_config_new(&s, "x"), ==, 0);
	for (size_t i = 0; i < n_keys; i++) {
		const Key *k = &keys[i];
		_cleanup_free_ char *text = NULL;

		if (k->kind == KEY_NAME || k->kind == KEY_RESET)
			continue;
		text = field_text(k, k->group == GROUP_DAEMON ? (const void *)&c->daemon : s);
		g_assert_cmpstr(text, ==, k->doc.fallback);
	}
	g_assert_null(c->daemon.snapshot_directory);
	g_assert_cmpuint(s->memory, ==, 16 << 20);
	g_assert_cmpint(s->level, ==, 14);
	g_assert_cmpuint(s->contexts, ==, 3);
	g_assert_cmpuint(s->snapshot.keep.keep_free_percent, ==, 10);
	g_assert_cmpuint(s->files.keep_free_percent, ==, 10);
	g_assert_cmpuint(s->files.max_count, ==, 0);
	g_assert_cmpuint(s->flush_interval_ns, ==, NSEC_PER_SEC);
	g_assert_cmpint(s->io, ==, IO_NONE);
	g_assert_null(s->output);
	g_assert_true(s->snapshot.on_crash);
	g_assert_false(s->snapshot.on_exit_failure);
	g_assert_false(s->snapshot.on_unknown_death);
	g_assert_false(s->snapshot.on_coredump);
	g_assert_cmpuint(s->snapshot.on_event.n, ==, 0);
}

static void test_documented(void)
{
	size_t n;
	const ConfigKey *docs = config_keys(&n);

	g_assert_cmpuint(n, ==, n_keys);
	for (size_t i = 0; i < n; i++) {
		g_assert_cmpstr(docs[i].key, ==, keys[i].name);
		g_assert_true(*docs[i].text && *docs[i].range && *docs[i].type && docs[i].fallback);
		g_assert_true(docs[i].text == keys[i].doc.text);
		g_assert_true(strlen(keys[i].name) < 48);
	}
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/keys/documented", test_documented);
	g_test_add_func("/keys/defaults", test_defaults);
	g_test_add_func("/keys/ranges", test_ranges);
	g_test_add_func("/keys/choices", test_choices);
	g_test_add_func("/keys/shipped", test_shipped);
	g_test_add_func("/keys/shipped-keys", test_shipped_keys);
	g_test_add_func("/keys/shipped-texts", test_shipped_texts);
	g_test_add_func("/keys/manual", test_manual);
	return g_test_run();
}
