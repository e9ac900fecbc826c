/* SPDX-License-Identifier: MIT */
/* The real daemon, a real program, tracerctl and babeltrace2: what a user does, over a bus. */
#include "tests/integration/dbus/private-bus.h"

#include <fcntl.h>
#include <glib/gstdio.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>

typedef struct {
	PrivateBus *b;
	char *address, *runtime, *state, *config;
	pid_t daemon, program;
	FILE *to, *from; /* the program's ends */
} Town;

static pid_t spawn(const char *const *argv, int in, int out, int err)
{
	pid_t pid = fork();

	g_assert_cmpint(pid, >=, 0);
	if (pid == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (in >= 0)
			(void)dup2(in, 0);
		if (out >= 0)
			(void)dup2(out, 1);
		if (err >= 0)
			(void)dup2(err, 2);
		(void)execv(argv[0], (char **)argv);
		_exit(127);
	}
	return pid;
}

static void daemon_start(Town *t, int err)
{
	const char *argv[] = { TRACERD, "--user", "--address", t->b->address, "--runtime-directory", t->runtime,
			       "--state-directory", t->state, "--config", t->config, NULL };

	t->daemon = spawn(argv, -1, -1, err);
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
	t->program = spawn(argv, in[0], out[1], -1);
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
	daemon_start(t, -1);
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
	daemon_start(t, -1);
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
	/* not reaped before it is known of: a kernel before 6.15 says how it ended by the zombie alone */
	private_bus_await(t->b, &h.crashed);
	private_bus_await(t->b, &h.saved);
	g_assert_true(WIFSIGNALED(reap(&t->program)));
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
	daemon_start(t, -1);
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

/* Started without a bus: it says so, records, and has its name when there is one. */
static void before_the_bus(Town *t, const void *unused)
{
	char *said, line[512];
	bool complained = false;
	Answer a = { 0 };
	int err[2];
	FILE *from;

	g_assert_true(g_file_set_contents(t->config,
					  "sessions: { flight: { autostart = true; events = [ \"shop:*\" ]; memory = "
					  "\"4M\"; }; };\n",
					  -1, NULL));
	g_assert_cmpint(pipe2(err, O_CLOEXEC), ==, 0);
	daemon_start(t, err[1]);
	close(err[1]);
	from = fdopen(err[0], "r");
	said = g_strdup_printf("No bus at %s yet", t->b->address);
	while (!complained && fgets(line, sizeof(line), from))
		complained = strstr(line, said) != NULL;
	g_assert_true(complained);
	program_start(t);
	tell(t, "record 10", "recorded 10");
	private_bus_start(t->b);
	private_bus_await_name(t->b, BUS_NAME, true);
	while (complained && fgets(line, sizeof(line), from))
		complained = strstr(line, "On the bus as " BUS_NAME) == NULL;
	g_assert_false(complained);
	private_bus_ask(t->b, NULL, &a, NULL, NULL, "ListSessions", NULL);
	g_assert_null(a.error);
	answer_clear(&a);
	holds(t, "list --json=short", "\"recorded\":10,");
	fclose(from);
	g_free(said);
}

static void broken_reload(Town *t, const void *unused)
{
	Ran r;

	private_bus_start(t->b);
	daemon_start(t, -1);
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

/* ---- sessions that write ---- */

typedef struct {
	bool completed;
	unsigned n;
	u64 records;
	char *path;
} Traces;

static int on_trace(sd_bus_message *m, void *userdata, sd_bus_error *error)
{
	const char *session, *path;
	Traces *h = userdata;
	u64 n;

	g_assert_cmpint(sd_bus_message_read(m, "sst", &session, &path, &n), >=, 0);
	g_assert_cmpstr(session, ==, "audit");
	g_free(h->path);
	h->path = g_strdup(path);
	h->records += n;
	h->n++;
	h->completed = true;
	return 0;
}

/* Events in the trace at this path, as somebody else reads them; `only` (may be NULL): of this kind. */
static unsigned trace_events(Town *t, const char *path, const char *only)
{
	const char *argv[] = { "babeltrace2", path, NULL };
	Ran r = private_bus_run(t->b, NULL, argv);
	unsigned n = 0;

	if (r.status != 0)
		g_error("babeltrace2 %s: %d, %s", path, r.status, r.err);
	if (!only) {
		n = lines_of(r.out);
	} else {
		for (const char *p = r.out; (p = strstr(p, only)); p++)
			n++;
	}
	ran_clear(&r);
	return n;
}

static void write_begin(Town *t, Traces *h, const char *create)
{
	private_bus_start(t->b);
	daemon_start(t, -1);
	private_bus_await_name(t->b, BUS_NAME, true);
	g_assert_cmpint(sd_bus_match_signal(t->b->caller, NULL, BUS_NAME, BUS_PATH, BUS_MANAGER_INTERFACE,
					    "TraceCompleted", on_trace, h),
			>=, 0);
	does(t, create);
	program_start(t);
}

/* Every record is in exactly one of the traces: what was rotated, what came behind a change while it ran, what was left at
 * the stop, which answers only when all of it can be read. */
static void writes_and_rotates(Town *t, const void *unused)
{
	Traces h = { 0 };
	char *first, *second;
	Ran r;

	if (!reader_there()) {
		g_test_skip("no babeltrace2 to read it with");
		return;
	}
	write_begin(t, &h, "create audit --start policy=discard io=write memory=8M flush_interval=1h events=shop:*");
	tell(t, "record 20000", "recorded 20000");
	first = fine(t, "rotate audit");
	g_assert_cmpuint(trace_events(t, first, NULL), ==, 20000);
	private_bus_await(t->b, &h.completed);
	g_assert_cmpstr(h.path, ==, first);
	g_assert_cmpuint(h.records, ==, 20000);
	holds(t, "show audit", first);
	holds(t, "show audit", "Strategy: write");
	holds(t, "show audit", "Trouble: -");

	/* another way to write, and other events, while it runs: what was recorded before is not lost */
	tell(t, "record 300", "recorded 20300");
	h.completed = false;
	does(t, "set audit io=direct events=shop:order,other:*");
	private_bus_await(t->b, &h.completed); /* the trace from before; else it may have what comes next as well */
	tell(t, "record 700", "recorded 21000");
	tell(t, "extra 5", "recorded 21005"); /* not wanted any more */
	second = fine(t, "rotate audit");
	holds(t, "show audit", "IO: direct");
	g_assert_cmpuint(trace_events(t, second, "shop:extra"), ==, 0);

	tell(t, "record 9000", "recorded 30005");
	h.completed = false;
	does(t, "stop audit");
	private_bus_await(t->b, &h.completed);
	g_assert_cmpuint(trace_events(t, h.path, NULL), ==, 9000);
	g_assert_cmpuint(h.records, ==, 30000);
	holds(t, "list --json=short", "\"written\":30000,");
	holds(t, "list --json=short", "\"state\":\"stopped\",");
	g_assert_cmpuint(h.n, >=, 3);
	r = ctl(t, "view audit");
	g_assert_cmpuint(lines_of(r.out), ==, 9000);
	ran_clear(&r);
	r = ctl(t, "rotate audit");
	g_assert_cmpint(r.status, ==, 1);
	g_assert_nonnull(strstr(r.err, "not running"));
	ran_clear(&r);
	/* nothing to end in a session that keeps memory only */
	does(t, "create flight --start memory=4M");
	r = ctl(t, "rotate flight");
	g_assert_cmpint(r.status, ==, 1);
	g_assert_nonnull(strstr(r.err, "snapshot"));
	ran_clear(&r);
	g_free(first);
	g_free(second);
	g_free(h.path);
}

typedef struct {
	bool there, gone;
	char *text;
} Trouble;

static int on_properties(sd_bus_message *m, void *userdata, sd_bus_error *error)
{
	const char *name, *text;
	Trouble *w = userdata;

	g_assert_cmpint(sd_bus_message_skip(m, "s"), >=, 0);
	g_assert_cmpint(sd_bus_message_enter_container(m, 'a', "{sv}"), >=, 0);
	while (sd_bus_message_enter_container(m, 'e', "sv") > 0) {
		g_assert_cmpint(sd_bus_message_read(m, "s", &name), >=, 0);
		if (strcmp(name, "Trouble") == 0) {
			g_assert_cmpint(sd_bus_message_read(m, "v", "s", &text), >=, 0);
			if (*text) {
				w->there = true;
				g_free(w->text);
				w->text = g_strdup(text);
			} else {
				w->gone = w->there;
			}
		} else {
			g_assert_cmpint(sd_bus_message_skip(m, "v"), >=, 0);
		}
		g_assert_cmpint(sd_bus_message_exit_container(m), >=, 0);
	}
	return 0;
}

static u64 number_of(Town *t, const char *property)
{
	Answer a = { 0 };
	u64 n;

	private_bus_ask(t->b, NULL, &a, BUS_SESSION_PREFIX "/audit", "org.freedesktop.DBus.Properties", "Get", "ss",
			BUS_SESSION_INTERFACE, property);
	g_assert_null(a.error);
	g_assert_cmpint(sd_bus_message_read(a.reply, "v", "t", &n), >, 0);
	answer_clear(&a);
	return n;
}

/* A disk that is full is seen on the session, the program does not notice, and it is over when there is room again. */
static void full_disk(Town *t, const void *unused)
{
	char *output = g_build_filename(t->b->directory, "small", NULL), *ballast, *create, *path;
	Trouble w = { 0 };
	Traces h = { 0 };
	u64 lost;
	int fd;

	if (!reader_there() || unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0) {
		g_test_skip("needs root, to have a small disk, and babeltrace2");
		g_free(output);
		return;
	}
	g_assert_cmpint(g_mkdir(output, 0755), ==, 0);
	g_assert_cmpint(mount("small", output, "tmpfs", 0, "size=16m"), ==, 0);
	ballast = g_build_filename(output, "ballast", NULL);
	create = g_strdup_printf("create audit --start policy=discard io=write memory=4M flush_interval=10ms "
				 "output_keep_free=0 output=%s/traces",
				 output);
	write_begin(t, &h, create);
	g_assert_cmpint(sd_bus_match_signal(t->b->caller, NULL, BUS_NAME, BUS_SESSION_PREFIX "/audit",
					    "org.freedesktop.DBus.Properties", "PropertiesChanged", on_properties, &w),
			>=, 0);
	tell(t, "record 1000", "recorded 1000");
	fd = open(ballast, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	g_assert_cmpint(fd, >=, 0);
	g_assert_cmpint(posix_fallocate(fd, 0, 8 << 20), ==, 0);
	close(fd);
	/* more than there is room for on the disk and in the rings together */
	tell(t, "record 800000", "recorded 801000");
	private_bus_await(t->b, &w.there);
	g_assert_nonnull(strstr(w.text, g_strerror(ENOSPC)));
	holds(t, "list", "audit cannot write: ");
	g_assert_cmpint(unlink(ballast), ==, 0);
	private_bus_await(t->b, &w.gone);
	does(t, "stop audit");
	lost = number_of(t, "Discarded") + number_of(t, "Unwritten") + number_of(t, "Unreadable");
	g_test_message("%" G_GUINT64_FORMAT " written, %" G_GUINT64_FORMAT " lost and counted", number_of(t, "Written"),
		       lost);
	g_assert_cmpuint(number_of(t, "Written") + lost, ==, 801000);
	path = g_build_filename(output, "traces", NULL);
	g_assert_cmpuint(trace_events(t, path, NULL), ==, number_of(t, "Written"));
	does(t, "remove audit");
	g_assert_cmpint(umount2(output, MNT_DETACH), ==, 0);
	g_rmdir(output);
	g_free(path);
	g_free(output);
	g_free(ballast);
	g_free(create);
	g_free(w.text);
	g_free(h.path);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add("/end-to-end/snapshot-on-request", Town, NULL, town_open, snapshot_on_request, town_close);
	g_test_add("/end-to-end/snapshot-of-a-crash", Town, NULL, town_open, snapshot_of_a_crash, town_close);
	g_test_add("/end-to-end/before-the-bus", Town, NULL, town_open, before_the_bus, town_close);
	g_test_add("/end-to-end/bus-comes-and-goes", Town, NULL, town_open, bus_comes_and_goes, town_close);
	g_test_add("/end-to-end/broken-reload", Town, NULL, town_open, broken_reload, town_close);
	g_test_add("/end-to-end/writes-and-rotates", Town, NULL, town_open, writes_and_rotates, town_close);
	/* the last: it leaves this process with mounts of its own */
	g_test_add("/end-to-end/full-disk", Town, NULL, town_open, full_disk, town_close);
	return g_test_run();
}
