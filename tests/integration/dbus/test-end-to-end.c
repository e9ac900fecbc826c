/* SPDX-License-Identifier: MIT */
/* The real daemon, a real program, tracerctl and babeltrace2: what a user does, over a bus. */
#include "tests/integration/dbus/private-bus.h"

#include <fcntl.h>
#include <glib/gstdio.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

typedef struct {
	PrivateBus *b;
	char *address, *runtime, *state, *config;
	pid_t daemon, program;
	FILE *to, *from; /* the program's ends */
} Town;

static pid_t spawn(const char *const *argv, int in, int out)
{
	pid_t pid = fork();

	g_assert_cmpint(pid, >=, 0);
	if (pid == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (in >= 0)
			(void)dup2(in, 0);
		if (out >= 0)
			(void)dup2(out, 1);
		(void)execv(argv[0], (char **)argv);
		_exit(127);
	}
	return pid;
}

static void daemon_start(Town *t)
{
	const char *argv[] = { TRACERD, "--user", "--address", t->b->address, "--runtime-directory", t->runtime,
			       "--state-directory", t->state, "--config", t->config, NULL };

	t->daemon = spawn(argv, -1, -1);
}

static int reap(pid_t *pid)
{
	int status = 0;

	while (*pid > 0 && waitpid(*pid, &status, 0) < 0 && errno == EINTR)
		;
	*pid = 0;
	return status;
}

static void program_start(Town *t)
{
	const char *argv[] = { SUBJECT, NULL };
	char line[128];
	int in[2], out[2];

	g_setenv("TRACER_RUNTIME_DIR", t->runtime, TRUE);
	g_assert_cmpint(pipe2(in, O_CLOEXEC), ==, 0);
	g_assert_cmpint(pipe2(out, O_CLOEXEC), ==, 0);
	t->program = spawn(argv, in[0], out[1]);
	close(in[0]);
	close(out[1]);
	t->to = fdopen(in[1], "w");
	t->from = fdopen(out[0], "r");
	g_assert_nonnull(fgets(line, sizeof(line), t->from));
	g_assert_true(g_str_has_prefix(line, "ready"));
}

static void tell(Town *t, const char *command, const char *expected)
{
	char line[128];

	fprintf(t->to, "%s\n", command);
	fflush(t->to);
	if (!expected)
		return;
	g_assert_nonnull(fgets(line, sizeof(line), t->from));
	g_strchomp(line);
	g_assert_cmpstr(line, ==, expected);
}

static void town_open(Town *t, const void *unused)
{
	t->b = private_bus_new(NULL);
	t->address = g_strdup_printf("--address=%s", t->b->address);
	t->runtime = g_build_filename(t->b->directory, "run", NULL);
	t->state = g_build_filename(t->b->directory, "state", NULL);
	t->config = g_build_filename(t->b->directory, "tracer.conf", NULL);
	g_assert_true(g_file_set_contents(t->config, "sessions: { configured: { memory = \"4M\"; }; };\n", -1, NULL));
}

static void town_close(Town *t, const void *unused)
{
	const char *argv[] = { "rm", "-rf", t->runtime, t->state, t->config, NULL };
	Ran r;

	if (t->to)
		fclose(t->to);
	(void)reap(&t->program); /* it ends with its input */
	if (t->from)
		fclose(t->from);
	if (t->daemon > 0)
		kill(t->daemon, SIGTERM);
	g_assert_cmpint(reap(&t->daemon), ==, 0);
	r = private_bus_run(t->b, NULL, argv);
	ran_clear(&r);
	private_bus_free(t->b);
	g_free(t->address);
	g_free(t->runtime);
	g_free(t->state);
	g_free(t->config);
}

static Ran ctl(Town *t, const char *line)
{
	char **words = g_strsplit(line, " ", -1);
	const char *argv[32] = { TRACERCTL, t->address };
	size_t n = 2;
	Ran r;

	for (char **w = words; *w && n < 31; w++)
		argv[n++] = *w;
	r = private_bus_run(t->b, NULL, argv);
	g_strfreev(words);
	return r;
}

static char *fine(Town *t, const char *line)
{
	Ran r = ctl(t, line);
	char *out = g_strchomp(g_strdup(r.out));

	if (r.status != 0)
		g_error("tracerctl %s: %d, '%s'", line, r.status, r.err);
	ran_clear(&r);
	return out;
}

static void holds(Town *t, const char *line, const char *part)
{
	char *out = fine(t, line);

	if (!strstr(out, part))
		g_error("tracerctl %s: '%s' is not in '%s'", line, part, out);
	g_free(out);
}

static void does(Town *t, const char *line)
{
	g_free(fine(t, line));
}

static unsigned lines_of(const char *text)
{
	unsigned n = 0;

	for (; *text; text++)
		n += *text == '\n';
	return n;
}

static bool reader_there(void)
{
	char *path = g_find_program_in_path("babeltrace2");
	bool there = path != NULL;

	g_free(path);
	return there;
}

static void snapshot_on_request(Town *t, const void *unused)
{
	char *path;
	Ran r;

	private_bus_start(t->b);
	daemon_start(t);
	private_bus_await_name(t->b, BUS_NAME, true);
	holds(t, "list", "configured  stopped");
	does(t, "create flight --start memory=4M events=shop:*");
	program_start(t);
	tell(t, "record 1000", "recorded 1000");
	holds(t, "producers", "subject");
	holds(t, "events", "shop:order   info");
	holds(t, "list --json=short", "\"recorded\":1000,");
	holds(t, "list --json=short", "\"discarded\":0,");
	path = fine(t, "snapshot flight --reason=because");
	g_assert_true(g_str_has_prefix(path, t->state));
	g_assert_true(g_file_test(path, G_FILE_TEST_IS_DIR));
	holds(t, "show flight", path);
	if (reader_there()) {
		r = ctl(t, "view flight");
		g_assert_cmpint(r.status, ==, 0);
		g_assert_cmpuint(lines_of(r.out), ==, 1000);
		g_assert_nonnull(strstr(r.out, "shop:order"));
		ran_clear(&r);
	} else {
		g_test_message("no babeltrace2 to read it with");
	}
	does(t, "clear flight");
	holds(t, "list --json=short", "\"recorded\":0,");
	does(t, "set-events flight other:*");
	holds(t, "show flight", "Events: other:*");
	does(t, "watch --count=2 --interval=0.02");
	does(t, "stop flight");
	does(t, "remove flight");
	holds(t, "list", "1 session.");
	g_assert_true(g_file_test(path, G_FILE_TEST_IS_DIR));
	g_free(path);
}

typedef struct {
	bool crashed, saved;
	char *command, *path;
} Heard;

static int on_crash(sd_bus_message *m, void *userdata, sd_bus_error *error)
{
	const char *command, *unit;
	Heard *h = userdata;
	u32 pid;

	g_assert_cmpint(sd_bus_message_read(m, "uss", &pid, &command, &unit), >=, 0);
	h->command = g_strdup(command);
	h->crashed = true;
	return 0;
}

static int on_saved(sd_bus_message *m, void *userdata, sd_bus_error *error)
{
	const char *session, *reason, *path;
	Heard *h = userdata;

	g_assert_cmpint(sd_bus_message_read(m, "sss", &session, &reason, &path), >=, 0);
	g_assert_cmpstr(session, ==, "flight");
	h->path = g_strdup(path);
	h->saved = true;
	return 0;
}

static void snapshot_of_a_crash(Town *t, const void *unused)
{
	Heard h = { 0 };
	Ran r;

	private_bus_start(t->b);
	daemon_start(t);
	private_bus_await_name(t->b, BUS_NAME, true);
	g_assert_cmpint(sd_bus_match_signal(t->b->caller, NULL, BUS_NAME, BUS_PATH, BUS_MANAGER_INTERFACE,
					    "ProducerCrashed", on_crash, &h),
			>=, 0);
	g_assert_cmpint(sd_bus_match_signal(t->b->caller, NULL, BUS_NAME, BUS_PATH, BUS_MANAGER_INTERFACE,
					    "SnapshotCompleted", on_saved, &h),
			>=, 0);
	does(t, "create flight --start memory=4M");
	program_start(t);
	tell(t, "record 500", "recorded 500");
	tell(t, "signal 11", NULL);
	g_assert_true(WIFSIGNALED(reap(&t->program)));
	private_bus_await(t->b, &h.crashed);
	private_bus_await(t->b, &h.saved);
	g_assert_true(g_str_has_prefix(h.command, "subject"));
	holds(t, "show flight", h.path);
	if (reader_there()) {
		r = ctl(t, "view flight/latest");
		g_assert_cmpint(r.status, ==, 0);
		g_assert_cmpuint(lines_of(r.out), ==, 500);
		ran_clear(&r);
	}
	g_free(h.command);
	g_free(h.path);
}

/* The bus comes late, goes and comes back; programs do not notice. */
static void bus_comes_and_goes(Town *t, const void *unused)
{
	daemon_start(t);
	private_bus_start(t->b);
	private_bus_await_name(t->b, BUS_NAME, true);
	does(t, "create flight --start memory=4M");
	program_start(t);
	tell(t, "record 10", "recorded 10");
	private_bus_stop(t->b);
	tell(t, "record 10", "recorded 20");
	private_bus_start(t->b);
	private_bus_await_name(t->b, BUS_NAME, true);
	holds(t, "list --json=short", "\"recorded\":20,");
	does(t, "snapshot --all");
}

static void broken_reload(Town *t, const void *unused)
{
	Ran r;

	private_bus_start(t->b);
	daemon_start(t);
	private_bus_await_name(t->b, BUS_NAME, true);
	g_assert_true(g_file_set_contents(t->config, "sessions: {\n a: { memroy = \"1M\"; };\n};\n", -1, NULL));
	r = ctl(t, "reload");
	g_assert_cmpint(r.status, ==, 78);
	g_assert_nonnull(strstr(r.err, "tracer.conf:2"));
	g_assert_nonnull(strstr(r.err, "memory"));
	ran_clear(&r);
	holds(t, "list", "configured  stopped");
	g_assert_true(g_file_set_contents(t->config, "sessions: {\n a: { memory = \"8M\"; };\n};\n", -1, NULL));
	does(t, "reload");
	holds(t, "show a", "memory 8M");
	r = ctl(t, "show configured");
	g_assert_cmpint(r.status, ==, 1);
	ran_clear(&r);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add("/end-to-end/snapshot-on-request", Town, NULL, town_open, snapshot_on_request, town_close);
	g_test_add("/end-to-end/snapshot-of-a-crash", Town, NULL, town_open, snapshot_of_a_crash, town_close);
	g_test_add("/end-to-end/bus-comes-and-goes", Town, NULL, town_open, bus_comes_and_goes, town_close);
	g_test_add("/end-to-end/broken-reload", Town, NULL, town_open, broken_reload, town_close);
	return g_test_run();
}
