/* SPDX-License-Identifier: MIT */
#include "conf/config.h"
#include "conf/load.h"

/* behind base.h, whose MIN and MAX it replaces */
#include <fcntl.h>
#include <glib.h>
#include <sys/stat.h>

/* What is right reads without a word, and gives what it says. */
static void test_good(void)
{
	g_autofree char *path = g_test_build_filename(G_TEST_DIST, "good", NULL);
	g_autofree char *examples = g_build_filename(g_getenv("TRACER_SOURCE"), "conf", "examples", NULL);
	const char *const directories[] = { path, examples };
	guint n = 0;

	for (size_t i = 0; i < G_N_ELEMENTS(directories); i++) {
		g_autoptr(GDir) dir = g_dir_open(directories[i], 0, NULL);
		const char *name;

		g_assert_nonnull(dir);
		while ((name = g_dir_read_name(dir))) {
			_cleanup_(config_problems_clear) ConfigProblems problems = { 0 };
			_cleanup_(config_freep) Config *c = NULL;
			g_autofree char *file = g_build_filename(directories[i], name, NULL);
			int r = config_load_file(file, &c, &problems);

			if (r < 0 || problems.n > 0)
				g_error("%s: %d: %s", name, r,
					problems.n ? config_problem_text(&problems.v[0]) : "?");
			if (strcmp(name, "empty.conf") != 0)
				g_assert_cmpuint(c->n_sessions, >, 0);
			n++;
		}
	}
	g_assert_cmpuint(n, >=, 8);
}

static Config *load_good(const char *name)
{
	_cleanup_(config_problems_clear) ConfigProblems problems = { 0 };
	g_autofree char *file = g_test_build_filename(G_TEST_DIST, "good", name, NULL);
	Config *c = NULL;

	g_assert_cmpint(config_load_file(file, &c, &problems), ==, 0);
	return c;
}

static void test_all_keys(void)
{
	_cleanup_(config_freep) Config *c = load_good("all-keys.conf");
	const SessionConfig *s = config_find(c, "flight");

	g_assert_nonnull(s);
	g_assert_true(s->autostart);
	g_assert_cmpuint(s->events.n, ==, 2);
	g_assert_cmpstr(s->events.v[1], ==, "libc:*");
	g_assert_cmpstr(s->exclude.v[0], ==, "libc:malloc");
	g_assert_cmpint(s->level, ==, 4);
	g_assert_cmpuint(s->users.n, ==, 2);
	g_assert_cmpstr(s->users.v[0], ==, "1000");
	g_assert_cmpstr(s->users.v[1], ==, "www-data");
	g_assert_cmpstr(s->processes.v[0], ==, "nginx");
	g_assert_cmpstr(s->units.v[0], ==, "nginx.service");
	g_assert_cmpint(s->policy, ==, POLICY_DISCARD);
	g_assert_cmpint(s->buffers, ==, BUFFERS_PER_UNIT);
	g_assert_cmpuint(s->memory, ==, 32 << 20);
	g_assert_cmpuint(s->sub_buffers, ==, 64);
	g_assert_cmpuint(s->contexts, ==, 1);
	g_assert_cmpint(s->io, ==, IO_SPLICE);
	g_assert_cmpstr(s->output, ==, "/srv/traces/flight");
	g_assert_cmpuint(s->sync_interval_ns, ==, 100 * NSEC_PER_MSEC);
	g_assert_cmpuint(s->flush_interval_ns, ==, 250 * NSEC_PER_MSEC);
	g_assert_cmpuint(s->block_timeout_ns, ==, 2 * NSEC_PER_SEC);
	g_assert_cmpuint(s->file_size, ==, 256 << 20);
	g_assert_cmpuint(s->file_interval_ns, ==, 3600 * NSEC_PER_SEC);
	g_assert_cmpuint(s->files.max_count, ==, 8);
	g_assert_cmpuint(s->files.max_size, ==, 4ull << 30);
	g_assert_cmpuint(s->files.max_age_ns, ==, 365 * 86400 * NSEC_PER_SEC);
	g_assert_cmpuint(s->files.keep_free, ==, 0);
	g_assert_cmpuint(s->files.keep_free_percent, ==, 5);
	g_assert_cmpint(s->on_stop, ==, ON_STOP_SNAPSHOT);
	g_assert_false(s->snapshot.on_crash);
	g_assert_true(s->snapshot.on_exit_failure);
	g_assert_true(s->snapshot.on_unknown_death);
	g_assert_true(s->snapshot.on_coredump);
	g_assert_cmpuint(s->snapshot.on_unit_failure.n, ==, 2);
	g_assert_cmpuint(s->snapshot.on_event.n, ==, 2);
	g_assert_cmpstr(s->snapshot.on_event.v[0], ==, "shop:declined");
	g_assert_cmpuint(s->snapshot.keep.max_count, ==, 0x20);
	g_assert_cmpuint(s->snapshot.keep.max_size, ==, 5000000000);
	g_assert_cmpuint(s->snapshot.keep.max_age_ns, ==, 30 * 86400 * NSEC_PER_SEC);
	g_assert_cmpuint(s->snapshot.keep.keep_free, ==, 1ull << 30);
	g_assert_cmpuint(s->snapshot.keep.keep_free_percent, ==, 0);
	g_assert_cmpuint(s->snapshot.min_interval_ns, ==, 0);
	g_assert_cmpuint(s->snapshot.duration_ns, ==, 90 * NSEC_PER_SEC);
	g_assert_cmpuint(s->snapshot.max_snapshot_size, ==, 64 << 20);
	g_assert_cmpstr(c->daemon.snapshot_directory, ==, "/srv/snapshots");
	g_assert_cmpint(c->daemon.clock, ==, CLOCK_COUNTER);
	g_assert_cmpuint(c->daemon.max_memory, ==, 2ull << 30);
	g_assert_cmpuint(c->daemon.max_memory_per_user, ==, 512 << 20);
	g_assert_cmpuint(c->daemon.max_producers, ==, 8192);
	g_assert_cmpuint(c->daemon.max_producers_per_user, ==, 4096);
	g_assert_cmpuint(c->daemon.max_classes_per_user, ==, 1000);
	g_assert_cmpuint(c->daemon.sync_timeout_ns, ==, 500 * NSEC_PER_MSEC);
}

static void test_odd_names(void)
{
	_cleanup_(config_freep) Config *c = load_good("odd-names.conf");

	g_assert_cmpuint(c->n_sessions, ==, 4);
	g_assert_nonnull(config_find(c, "my app"));
	g_assert_nonnull(config_find(c, "web.front"));
	g_assert_nonnull(config_find(c, "caf\xc3\xa9"));
	g_assert_nonnull(config_find(c, "say \"hello\" \\"));
	g_assert_null(config_find(c, "hello"));
	g_assert_null(config_find(c, ""));
}

static void refuse(const char *path, const char *says)
{
	_cleanup_(config_problems_clear) ConfigProblems problems = { 0 };
	_cleanup_(config_freep) Config *c = NULL;

	g_assert_cmpint(config_load_file(path, &c, &problems), ==, -EINVAL);
	g_assert_nonnull(c);
	g_assert_cmpuint(problems.n, ==, 1);
	g_assert_cmpstr(problems.v[0].file, ==, path);
	g_assert_cmpint(problems.v[0].line, ==, 0);
	if (!strstr(problems.v[0].text, says))
		g_error("%s: should say %s", problems.v[0].text, says);
}

/* Things in the place of a file: none may hang, exit or use memory without end. */
static void test_no_files(void)
{
	g_autofree char *root = g_dir_make_tmp("tracer-XXXXXX", NULL);
	g_autofree char *path = g_build_filename(root, "x.conf", NULL);
	int fd;

	refuse(root, "a directory");
	refuse(path, "No such file");
	g_assert_cmpint(mkfifo(path, 0600), ==, 0);
	refuse(path, "a FIFO");
	g_assert_cmpint(unlink(path), ==, 0);
	refuse("/dev/zero", "a device");
	g_assert_cmpint(symlink("x.conf", path), ==, 0);
	refuse(path, "symbolic links");
	g_assert_cmpint(unlink(path), ==, 0);

	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	g_assert_cmpint(fd, >=, 0);
	g_assert_cmpint(ftruncate(fd, (1 << 20) + 1), ==, 0);
	refuse(path, "1 MiB");
	g_assert_cmpint(ftruncate(fd, 1ll << 40), ==, 0);
	refuse(path, "1 MiB");
	(void)close(fd);
	g_assert_cmpint(unlink(path), ==, 0);
	g_assert_cmpint(rmdir(root), ==, 0);
}

/* The largest that may be, all of it settings. */
static void test_large(void)
{
	_cleanup_(config_problems_clear) ConfigProblems problems = { 0 };
	_cleanup_(config_freep) Config *c = NULL;
	g_autoptr(GString) text = g_string_new("sessions = (\n");
	g_autofree char *path = NULL;
	int fd = g_file_open_tmp("tracer-XXXXXX.conf", &path, NULL), n = 0;

	for (; n < 500; n++)
		g_string_append_printf(text, "%s{ name = \"s%03d\"; events = [ \"a:*\" ]; }", n ? ",\n" : "", n);
	g_string_append(text, "\n);\n");
	while (text->len < 1 << 20)
		g_string_append_c(text, '\n');
	g_assert_cmpint(fd, >=, 0);
	(void)close(fd);
	g_assert_true(g_file_set_contents(path, text->str, (gssize)text->len, NULL));
	g_assert_cmpint(config_load_file(path, &c, &problems), ==, 0);
	g_assert_cmpuint(c->n_sessions, ==, (guint)n);
	g_assert_cmpint(config_find(c, "s499")->line, ==, 501);
	(void)unlink(path);
}

/* More sessions than anybody has: refused, and soon. */
static void test_many_sessions(void)
{
	_cleanup_(config_problems_clear) ConfigProblems problems = { 0 };
	_cleanup_(config_freep) Config *c = NULL;
	g_autoptr(GString) text = g_string_new("sessions = (\n");

	for (int n = 0; text->len < (1 << 20) - 64; n++)
		g_string_append_printf(text, "%s{name=\"%d\";}", n ? "," : "", n);
	g_string_append(text, ");\n");
	g_assert_cmpint(config_load_text("x", text->str, text->len, &c, &problems), ==, -EINVAL);
	g_assert_cmpuint(problems.n, ==, 1);
	g_assert_nonnull(strstr(problems.v[0].text, "1024"));
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/file/good", test_good);
	g_test_add_func("/file/all-keys", test_all_keys);
	g_test_add_func("/file/odd-names", test_odd_names);
	g_test_add_func("/file/no-files", test_no_files);
	g_test_add_func("/file/large", test_large);
	g_test_add_func("/file/many-sessions", test_many_sessions);
	return g_test_run();
}
