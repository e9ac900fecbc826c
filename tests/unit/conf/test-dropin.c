/* SPDX-License-Identifier: MIT */
/* Which files are read, in which order, and what wins. */
#include "conf/config.h"

/* behind base.h, whose MIN and MAX it replaces */
#include <glib.h>
#include <glib/gstdio.h>

enum { USR, LOCAL, RUN, ETC, N_DIRECTORIES };
static const char *const names[] = { "usr", "local", "run", "etc" };

typedef struct {
	char *root;
	char *directories[N_DIRECTORIES + 1];
	ConfigProblems problems;
	Config *config;
} Fixture;

static void set_up(Fixture *f, gconstpointer data)
{
	f->root = g_dir_make_tmp("tracer-XXXXXX", NULL);
	g_assert_nonnull(f->root);
	for (int i = 0; i < N_DIRECTORIES; i++)
		f->directories[i] = g_build_filename(f->root, names[i], NULL);
}

static void remove_tree(const char *path)
{
	GDir *dir = g_file_test(path, G_FILE_TEST_IS_SYMLINK) ? NULL : g_dir_open(path, 0, NULL);
	const char *name;

	while (dir && (name = g_dir_read_name(dir))) {
		g_autofree char *below = g_build_filename(path, name, NULL);

		remove_tree(below);
	}
	if (dir)
		g_dir_close(dir);
	(void)g_remove(path);
}

static void tear_down(Fixture *f, gconstpointer data)
{
	f->config = config_free(f->config);
	config_problems_clear(&f->problems);
	remove_tree(f->root);
	for (int i = 0; i < N_DIRECTORIES; i++)
		g_free(f->directories[i]);
	g_free(f->root);
}

static char *path_of(Fixture *f, int directory, const char *name)
{
	return g_build_filename(f->directories[directory], name, NULL);
}

static void put(Fixture *f, int directory, const char *name, const char *text)
{
	g_autofree char *path = path_of(f, directory, name), *parent = g_path_get_dirname(path);

	g_assert_cmpint(g_mkdir_with_parents(parent, 0755), ==, 0);
	(void)g_unlink(path);
	g_assert_true(g_file_set_contents(path, text, -1, NULL));
}

static void put_link(Fixture *f, int directory, const char *name, const char *target)
{
	g_autofree char *path = path_of(f, directory, name), *parent = g_path_get_dirname(path);

	g_assert_cmpint(g_mkdir_with_parents(parent, 0755), ==, 0);
	(void)g_unlink(path);
	g_assert_cmpint(symlink(target, path), ==, 0);
}

static int load(Fixture *f)
{
	f->config = config_free(f->config);
	config_problems_clear(&f->problems);
	int r = config_load((const char *const *)f->directories, &f->config, &f->problems);

	for (size_t i = 0; i < f->problems.n; i++) {
		_cleanup_free_ char *text = config_problem_text(&f->problems.v[i]);

		g_test_message("%s", text);
	}
	g_assert_nonnull(f->config);
	return r;
}

static const SessionConfig *session(Fixture *f, const char *name)
{
	const SessionConfig *s = config_find(f->config, name);

	g_assert_nonnull(s);
	return s;
}

/* memory in MiB of session s */
static void put_memory(Fixture *f, int directory, const char *name, int memory)
{
	g_autofree char *text =
		g_strdup_printf("sessions: { s: { memory = \"%dM\"; }; };\n", memory);

	put(f, directory, name, text);
}

static void expect_memory(Fixture *f, u64 memory)
{
	g_assert_cmpint(load(f), ==, 0);
	g_assert_cmpuint(session(f, "s")->memory >> 20, ==, memory);
}

static void test_nothing(Fixture *f, gconstpointer data)
{
	g_assert_cmpint(load(f), ==, 0);
	g_assert_cmpuint(f->config->n_sessions, ==, 0);
	g_assert_cmpuint(f->problems.n, ==, 0);
	g_assert_cmpuint(f->config->daemon.max_memory, ==, 1ull << 30);
}

/* Each put beats all before it. */
static void test_order(Fixture *f, gconstpointer data)
{
	put_memory(f, USR, "tracer.conf", 1);
	expect_memory(f, 1);
	put_memory(f, LOCAL, "tracer.conf", 2);
	expect_memory(f, 2);
	put_memory(f, RUN, "tracer.conf", 3);
	expect_memory(f, 3);
	put_memory(f, ETC, "tracer.conf", 4);
	expect_memory(f, 4);
	/* a drop-in of the vendor beats the administrator's main file */
	put_memory(f, USR, "tracer.conf.d/10-a.conf", 5);
	expect_memory(f, 5);
	put_memory(f, USR, "tracer.conf.d/50-m.conf", 6);
	expect_memory(f, 6);
	/* sorted by name, not by directory */
	put_memory(f, ETC, "tracer.conf.d/20-b.conf", 7);
	expect_memory(f, 6);
	put_memory(f, RUN, "tracer.conf.d/90-z.conf", 8);
	expect_memory(f, 8);
	/* the same name: the last directory */
	put_memory(f, USR, "tracer.conf.d/90-z.conf", 9);
	expect_memory(f, 8);
	put_memory(f, ETC, "tracer.conf.d/90-z.conf", 10);
	expect_memory(f, 10);
}

static void test_other_names(Fixture *f, gconstpointer data)
{
	put_memory(f, USR, "tracer.conf", 1);
	put_memory(f, ETC, "tracer.conf.d/a.conf~", 2);
	put_memory(f, ETC, "tracer.conf.d/.a.conf", 2);
	put_memory(f, ETC, "tracer.conf.d/README", 2);
	put_memory(f, ETC, "tracer.conf.d/.conf", 2);
	put_memory(f, ETC, "tracer.conf.d/a.conf.dpkg-old", 2);
	put_memory(f, ETC, "tracer.conf.d/sub/a.conf", 2);
	expect_memory(f, 1);
}

static void test_masked(Fixture *f, gconstpointer data)
{
	put_memory(f, USR, "tracer.conf", 1);
	put_memory(f, USR, "tracer.conf.d/a.conf", 2);
	expect_memory(f, 2);
	put(f, ETC, "tracer.conf.d/a.conf", "");
	expect_memory(f, 1);
	put_link(f, ETC, "tracer.conf.d/a.conf", "/dev/null");
	expect_memory(f, 1);
	/* not masked: comments are no reason to think that somebody wanted it gone, but the file is read */
	put(f, ETC, "tracer.conf.d/a.conf", "// nothing\n");
	expect_memory(f, 1);
	/* the last directory decides, also against a mask before it */
	put_link(f, RUN, "tracer.conf.d/a.conf", "/dev/null");
	put_memory(f, ETC, "tracer.conf.d/a.conf", 3);
	expect_memory(f, 3);
}

static void test_masked_main(Fixture *f, gconstpointer data)
{
	put_memory(f, USR, "tracer.conf", 1);
	put_link(f, ETC, "tracer.conf", "/dev/null");
	g_assert_cmpint(load(f), ==, 0);
	g_assert_null(config_find(f->config, "s"));
	/* an empty one adds nothing and takes nothing away */
	put(f, ETC, "tracer.conf", "");
	expect_memory(f, 1);
	/* what a link leads to is read */
	put_memory(f, ETC, "other", 4);
	put_link(f, ETC, "tracer.conf", "other");
	expect_memory(f, 4);
}

static void test_merged(Fixture *f, gconstpointer data)
{
	const SessionConfig *s;
	const ConfigOrigin *o;
	g_autofree char *main_file = path_of(f, USR, "tracer.conf");
	g_autofree char *dropin = path_of(f, ETC, "tracer.conf.d/a.conf");

	put(f, USR, "tracer.conf",
	    "sessions: {\n  s: {\n    autostart = true;\n    events = [ \"a:*\", \"b:*\" ];\n"
	    "    snapshot: { max_count = 5; max_age = \"1d\"; };\n  };\n  only: { };\n};\n"
	    "daemon: { max_memory = \"2G\"; clock = \"monotonic\"; };\n");
	put(f, ETC, "tracer.conf.d/a.conf",
	    "sessions = (\n  { name = \"s\";\n    events = [ \"c:*\" ];\n"
	    "    snapshot: { max_count = 6; }; },\n  { name = \"more\"; } );\n"
	    "daemon: { max_memory = \"3G\"; };\n");
	g_assert_cmpint(load(f), ==, 0);
	g_assert_cmpuint(f->config->n_sessions, ==, 3);
	g_assert_cmpstr(f->config->sessions[0]->name, ==, "more");
	g_assert_cmpstr(f->config->sessions[1]->name, ==, "only");
	g_assert_cmpstr(f->config->sessions[2]->name, ==, "s");
	s = session(f, "s");
	/* key by key, in both forms of a session; a list replaces */
	g_assert_true(s->autostart);
	g_assert_cmpuint(s->events.n, ==, 1);
	g_assert_cmpstr(s->events.v[0], ==, "c:*");
	g_assert_cmpuint(s->snapshot.keep.max_count, ==, 6);
	g_assert_cmpuint(s->snapshot.keep.max_age_ns, ==, 86400 * NSEC_PER_SEC);
	g_assert_cmpuint(f->config->daemon.max_memory, ==, 3ull << 30);
	g_assert_cmpint(f->config->daemon.clock, ==, CLOCK_MONO);
	/* and each says where it comes from */
	g_assert_cmpstr(s->file, ==, main_file);
	g_assert_cmpint(s->line, ==, 2);
	o = session_config_origin(s, "autostart");
	g_assert_cmpstr(o->file, ==, main_file);
	g_assert_cmpint(o->line, ==, 3);
	o = session_config_origin(s, "events");
	g_assert_cmpstr(o->file, ==, dropin);
	g_assert_cmpint(o->line, ==, 3);
	o = session_config_origin(s, "snapshot.max_count");
	g_assert_cmpstr(o->file, ==, dropin);
	g_assert_cmpint(o->line, ==, 4);
	g_assert_null(session_config_origin(s, "policy"));
	g_assert_null(session_config_origin(s, "nonsense"));
}

static void test_reset(Fixture *f, gconstpointer data)
{
	const SessionConfig *s;
	g_autofree char *dropin = path_of(f, ETC, "tracer.conf.d/a.conf");

	put(f, USR, "tracer.conf",
	    "sessions: { s: { autostart = true; memory = \"3M\"; snapshot: { max_count = 5; }; }; };\n");
	/* wherever in the group it stands */
	put(f, ETC, "tracer.conf.d/a.conf", "\nsessions: { s: { memory = \"4M\"; reset = true; }; };\n");
	g_assert_cmpint(load(f), ==, 0);
	s = session(f, "s");
	g_assert_false(s->autostart);
	g_assert_cmpuint(s->memory, ==, 4 << 20);
	g_assert_cmpuint(s->snapshot.keep.max_count, ==, 20);
	g_assert_cmpstr(s->file, ==, dropin);
	g_assert_null(session_config_origin(s, "autostart"));
	put(f, ETC, "tracer.conf.d/a.conf", "sessions: { s: { memory = \"4M\"; reset = false; }; };\n");
	g_assert_cmpint(load(f), ==, 0);
	g_assert_true(session(f, "s")->autostart);
}

/* What one file sets up another may turn off, and is only told of it; what nobody said of io was forgotten. */
static void test_output(Fixture *f, gconstpointer data)
{
	put(f, USR, "tracer.conf", "sessions: { s: { output = \"/srv/x\"; file_size = \"2M\"; }; };\n");
	put(f, ETC, "tracer.conf.d/a.conf", "sessions: { s: { io = \"write\"; }; };\n");
	g_assert_cmpint(load(f), ==, 0);
	g_assert_cmpuint(f->problems.n, ==, 0);
	g_assert_cmpint(session(f, "s")->io, ==, IO_WRITE);
	put(f, ETC, "tracer.conf.d/a.conf", "sessions: { s: { io = \"none\"; }; };\n");
	g_assert_cmpint(load(f), ==, 0);
	g_assert_cmpuint(f->problems.n, ==, 1);
	g_assert_true(f->problems.v[0].warning);
	g_assert_nonnull(strstr(f->problems.v[0].text, "output"));
	g_assert_nonnull(strstr(f->problems.v[0].text, "a.conf:1)"));
	g_assert_cmpint(session(f, "s")->io, ==, IO_NONE);
	put(f, ETC, "tracer.conf.d/a.conf", "sessions: { s: { level = \"info\"; }; };\n");
	g_assert_cmpint(load(f), ==, -EINVAL);
	g_assert_null(config_find(f->config, "s"));
}

/* A mistake costs what it is in, not what was there before. */
static void test_broken_group(Fixture *f, gconstpointer data)
{
	put(f, USR, "tracer.conf", "sessions: { s: { memory = \"3M\"; }; t: { memory = \"3M\"; }; };\n"
				   "daemon: { max_producers = 2000; };\n");
	put(f, ETC, "tracer.conf.d/a.conf",
	    "sessions: { s: { reset = true; memory = \"4M\"; polciy = \"discard\"; };\n"
	    "t: { memory = \"4M\"; }; u: { level = 99; }; };\n"
	    "daemon: { max_producers = 3000; clock = \"sundial\"; };\n");
	g_assert_cmpint(load(f), ==, -EINVAL);
	g_assert_cmpuint(session(f, "s")->memory, ==, 3 << 20);
	g_assert_cmpuint(session(f, "t")->memory, ==, 4 << 20);
	g_assert_null(config_find(f->config, "u"));
	g_assert_cmpuint(f->config->daemon.max_producers, ==, 2000);
}

static void test_broken_file(Fixture *f, gconstpointer data)
{
	put_memory(f, USR, "tracer.conf", 1);
	put(f, ETC, "tracer.conf", "sessions: { s: { memory = \"2M\"; }; v: { }; };\n}\n");
	put(f, ETC, "tracer.conf.d/a.conf", "sessions: { t: { memory = \"3M\"; }; };\n");
	g_assert_cmpint(load(f), ==, -EINVAL);
	g_assert_cmpuint(session(f, "s")->memory, ==, 1 << 20);
	g_assert_null(config_find(f->config, "v"));
	g_assert_cmpuint(session(f, "t")->memory, ==, 3 << 20);
}

/* What does not fit together is said of the file that set it last, not of the one that was right alone. */
static void test_blame(Fixture *f, gconstpointer data)
{
	g_autofree char *dropin = path_of(f, ETC, "tracer.conf.d/a.conf");

	put(f, USR, "tracer.conf", "sessions: { s: { autostart = true; }; };\n");
	put(f, ETC, "tracer.conf.d/a.conf",
	    "sessions: {\n  s: {\n    sub_buffers = 1024;\n    memory = \"1M\";\n  };\n};\n");
	g_assert_cmpint(load(f), ==, -EINVAL);
	g_assert_cmpstr(f->problems.v[0].file, ==, dropin);
	g_assert_cmpint(f->problems.v[0].line, ==, 4);
	g_assert_null(config_find(f->config, "s"));
	/* memory has its default: the blame is on what asks for more */
	put(f, ETC, "tracer.conf.d/a.conf", "daemon: {\n\n  max_memory = \"2M\";\n};\n");
	g_assert_cmpint(load(f), ==, -EINVAL);
	g_assert_nonnull(strstr(f->problems.v[0].text, "daemon.max_memory"));
}

/* Who lowers the limit for all does not have to know of the one for each. */
static void test_defaults_fit(Fixture *f, gconstpointer data)
{
	put(f, ETC, "tracer.conf", "daemon: { max_memory = \"64M\"; max_producers = 100; };\n");
	g_assert_cmpint(load(f), ==, 0);
	g_assert_cmpuint(f->config->daemon.max_memory_per_user, ==, 64 << 20);
	g_assert_cmpuint(f->config->daemon.max_producers_per_user, ==, 100);
}

static void test_no_files(Fixture *f, gconstpointer data)
{
	g_autofree char *fifo = path_of(f, ETC, "tracer.conf.d/fifo.conf");
	g_autofree char *directory = path_of(f, ETC, "tracer.conf");

	put_memory(f, USR, "tracer.conf", 1);
	put_memory(f, ETC, "tracer.conf/x", 1);
	put_memory(f, ETC, "tracer.conf.d/z.conf", 2);
	g_assert_cmpint(mkfifo(fifo, 0600), ==, 0);
	put_link(f, ETC, "tracer.conf.d/gone.conf", "nowhere");
	g_assert_cmpint(load(f), ==, -EINVAL);
	g_assert_cmpuint(f->problems.n, ==, 3);
	g_assert_cmpstr(f->problems.v[0].file, ==, directory);
	g_assert_nonnull(strstr(f->problems.v[0].text, "a directory"));
	g_assert_cmpstr(f->problems.v[1].file, ==, fifo);
	g_assert_nonnull(strstr(f->problems.v[1].text, "a FIFO"));
	g_assert_nonnull(strstr(f->problems.v[2].text, "No such file"));
	/* the others are read all the same */
	g_assert_cmpuint(session(f, "s")->memory >> 20, ==, 2);
}

static void test_autostart(Fixture *f, gconstpointer data)
{
	g_autoptr(GString) text = g_string_new("sessions: {\n");

	for (int i = 0; i < 64; i++)
		g_string_append_printf(text, "s%d: { autostart = true; };\n", i);
	g_string_append(text, "};\n");
	put(f, ETC, "tracer.conf", text->str);
	g_assert_cmpint(load(f), ==, 0);
	g_assert_cmpuint(f->config->n_sessions, ==, 64);
	put(f, ETC, "tracer.conf.d/a.conf", "sessions: { more: { autostart = true; }; };\n");
	g_assert_cmpint(load(f), ==, -EINVAL);
	g_assert_nonnull(strstr(f->problems.v[0].text, "65 sessions"));
}

int main(int argc, char **argv)
{
	static const struct {
		const char *path;
		void (*test)(Fixture *f, gconstpointer data);
	} tests[] = {
		{ "/dropin/nothing", test_nothing },
		{ "/dropin/order", test_order },
		{ "/dropin/other-names", test_other_names },
		{ "/dropin/masked", test_masked },
		{ "/dropin/masked-main", test_masked_main },
		{ "/dropin/merged", test_merged },
		{ "/dropin/reset", test_reset },
		{ "/dropin/output", test_output },
		{ "/dropin/broken-group", test_broken_group },
		{ "/dropin/broken-file", test_broken_file },
		{ "/dropin/blame", test_blame },
		{ "/dropin/defaults-fit", test_defaults_fit },
		{ "/dropin/no-files", test_no_files },
		{ "/dropin/autostart", test_autostart },
	};

	g_test_init(&argc, &argv, NULL);
	for (size_t i = 0; i < G_N_ELEMENTS(tests); i++)
		g_test_add(tests[i].path, Fixture, NULL, set_up, tests[i].test, tear_down);
	return g_test_run();
}
