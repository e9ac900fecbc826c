/* SPDX-License-Identifier: MIT */
/* The program itself, as a child: its command line, its signals, and its death. */
#include "lib/atomic.h"
#include "lib/abi.h"
#include "lib/base.h"

#include <dirent.h>
#include <fcntl.h>
#include <glob.h>
#include <glib.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

typedef struct {
	char *directory, *runtime, *state, *config, *snapshots;
	int watch; /* inotify on the session's snapshots */
	pid_t daemon, program;
	int notify; /* where the daemon says READY=1 */
	char status[600]; /* the last STATUS= it said there */
	FILE *to, *from;
} Fixture;

static const char config_text[] =
	"sessions: { flight: { autostart = true; events = [ \"shop:*\" ]; memory = \"1M\"; "
	"on_stop = \"snapshot\"; snapshot: { on_crash = true; min_interval = \"0\"; }; }; };";

static void remove_tree(const char *path)
{
	const char *argv[] = { "rm", "-rf", "--", path, NULL };

	(void)g_spawn_sync(NULL, (char **)argv, NULL, G_SPAWN_SEARCH_PATH, NULL, NULL, NULL, NULL,
			   NULL, NULL);
}

static void fixture_up(Fixture *x, gconstpointer unused)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };

	x->directory = g_dir_make_tmp("tracerd-XXXXXX", NULL);
	x->runtime = g_build_filename(x->directory, "run", NULL);
	x->state = g_build_filename(x->directory, "state", NULL);
	x->config = g_build_filename(x->directory, "tracer.conf", NULL);
	x->snapshots = g_build_filename(x->state, "snapshots", "flight", NULL);
	g_assert_cmpint(g_mkdir_with_parents(x->snapshots, 0755), ==, 0);
	g_assert_true(g_file_set_contents(x->config, config_text, -1, NULL));
	(void)g_setenv("TRACER_RUNTIME_DIR", x->runtime, true);
	/* so that a busy machine is no reason not to be heard */
	(void)g_setenv("TRACER_ATTACH_TIMEOUT", "10000", true);
	x->watch = inotify_init1(IN_CLOEXEC);
	g_assert_cmpint(inotify_add_watch(x->watch, x->snapshots, IN_MOVED_TO), >=, 0);
	x->notify = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	(void)snprintf(a.sun_path, sizeof(a.sun_path), "%s/notify", x->directory);
	g_assert_cmpint(bind(x->notify, (struct sockaddr *)&a, sizeof(a)), ==, 0);
}

static void await(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	if (poll(&p, 1, 20000) != 1)
		g_error("waited in vain");
}

/* A message of the daemon to its manager that begins with `what`. */
static void notified(Fixture *x, const char *what)
{
	for (;;) {
		char text[4096];
		ssize_t n;

		await(x->notify);
		n = recv(x->notify, text, sizeof(text) - 1, 0);
		g_assert_cmpint(n, >, 0);
		text[n] = 0;
		if (g_str_has_prefix(text, "STATUS="))
			(void)g_strlcpy(x->status, text, sizeof(x->status));
		if (strstr(text, what))
			return;
	}
}

static void daemon_start(Fixture *x)
{
	char *notify = g_build_filename(x->directory, "notify", NULL);

	x->daemon = fork();
	if (x->daemon == 0) {
		(void)g_setenv("NOTIFY_SOCKET", notify, true);
		(void)execl(g_getenv("TRACER_TEST_TRACERD"), "tracerd", "--no-bus", "--user", "--config",
			    x->config, "--runtime-directory", x->runtime, "--state-directory",
			    x->state, NULL);
		_exit(127);
	}
	g_free(notify);
	notified(x, "READY=1");
}

static int daemon_stop(Fixture *x, int signal)
{
	int status = 0;

	(void)kill(x->daemon, signal);
	g_assert_cmpint(waitpid(x->daemon, &status, 0), ==, x->daemon);
	x->daemon = 0;
	return status;
}

static void program_start(Fixture *x)
{
	int in[2], out[2];
	char line[256];

	g_assert_cmpint(pipe2(in, O_CLOEXEC), ==, 0);
	g_assert_cmpint(pipe2(out, O_CLOEXEC), ==, 0);
	x->program = fork();
	if (x->program == 0) {
		(void)dup2(in[0], 0);
		(void)dup2(out[1], 1);
		(void)execl(g_getenv("TRACER_TEST_SUBJECT"), "subject", NULL);
		_exit(127);
	}
	(void)close(in[0]);
	(void)close(out[1]);
	x->to = fdopen(in[1], "w");
	x->from = fdopen(out[0], "r");
	g_assert_nonnull(fgets(line, sizeof(line), x->from));
}

static void program_ask(Fixture *x, const char *what, const char *expected)
{
	char line[256];

	(void)fprintf(x->to, "%s\n", what);
	(void)fflush(x->to);
	g_assert_nonnull(fgets(line, sizeof(line), x->from));
	line[strcspn(line, "\n")] = 0;
	if (expected)
		g_assert_cmpstr(line, ==, expected);
}

static void program_end(Fixture *x)
{
	(void)kill(x->program, SIGKILL);
	(void)waitpid(x->program, NULL, 0);
	(void)fclose(x->to);
	(void)fclose(x->from);
	x->program = 0;
}

static void fixture_down(Fixture *x, gconstpointer unused)
{
	if (x->program)
		program_end(x);
	if (x->daemon)
		(void)daemon_stop(x, SIGKILL);
	(void)close(x->watch);
	(void)close(x->notify);
	remove_tree(x->directory);
	g_free(x->directory);
	g_free(x->runtime);
	g_free(x->state);
	g_free(x->config);
	g_free(x->snapshots);
}

/* The next snapshot that appears. */
static char *snapshot_await(Fixture *x)
{
	char buffer[4096] __attribute__((aligned(8)));
	const struct inotify_event *e = (const void *)buffer;

	do {
		await(x->watch);
		g_assert_cmpint(read(x->watch, buffer, sizeof(*e) + NAME_MAX + 1), >, 0);
	} while (e->name[0] == '.');
	return g_build_filename(x->snapshots, e->name, NULL);
}

static u32 trace_records(const char *path, char **ret_last)
{
	const char *argv[] = { "babeltrace2", path, NULL };
	char *out = NULL, *err = NULL, *last;
	int status;
	u32 n = 0;

	g_assert_true(g_spawn_sync(NULL, (char **)argv, NULL, G_SPAWN_SEARCH_PATH, NULL, NULL, &out, &err,
				   &status, NULL));
	if (status)
		g_error("%s", err);
	/* by the byte: a sanitizer's strstr(), and so g_strsplit(), measures all that is left for each line */
	last = g_strchomp(out);
	for (char *at = out; *at; at++)
		if (*at == '\n') {
			last = at + 1;
			n++;
		}
	n += *last != '\0';
	if (ret_last)
		*ret_last = g_strdup(last);
	g_free(out);
	g_free(err);
	return n;
}

static void test_crash(Fixture *x, gconstpointer unused)
{
	char *path, *last = NULL;

	daemon_start(x);
	program_start(x);
	program_ask(x, "record 5000", "recorded 5000");
	(void)fprintf(x->to, "signal 11\n");
	(void)fflush(x->to);
	(void)waitpid(x->program, NULL, 0);
	path = snapshot_await(x);
	g_assert_true(g_str_has_suffix(path, "-crash"));
	g_assert_cmpuint(trace_records(path, &last), ==, 5000);
	g_assert_nonnull(strstr(last, "number = 4999,"));
	g_free(last);
	g_free(path);
	/* on_stop, and a clean end */
	g_assert_cmpint(daemon_stop(x, SIGTERM), ==, 0);
	path = snapshot_await(x);
	g_assert_true(g_str_has_suffix(path, "-stop"));
	g_free(path);
	g_assert_true(g_file_test(x->runtime, G_FILE_TEST_IS_DIR));
	program_end(x);
}

/* Killed at any time: programs go on, and the next daemon has them again. */
static void test_killed(Fixture *x, gconstpointer unused)
{
	daemon_start(x);
	program_start(x);
	program_ask(x, "threads 4", NULL);
	for (int i = 0; i < 10; i++) {
		(void)daemon_stop(x, SIGKILL);
		program_ask(x, "enabled", NULL);
		daemon_start(x);
		program_ask(x, "enabled", NULL);
	}
	program_ask(x, "join", NULL);
	program_ask(x, "record 10", NULL);
	(void)daemon_stop(x, SIGTERM);
	{
		char *path = NULL, *last = NULL;
		struct pollfd p = { .fd = x->watch, .events = POLLIN };

		do {
			g_free(path);
			path = snapshot_await(x);
		} while (poll(&p, 1, 0) > 0);
		g_assert_cmpuint(trace_records(path, &last), >, 0);
		g_assert_nonnull(strstr(last, "customer = \"customer\""));
		g_free(last);
		g_free(path);
	}
	program_end(x);
}

/* The next name of a finished trace in the directory that is watched. */
static char *trace_await(const char *directory, int watch)
{
	for (;;) {
		union {
			struct inotify_event e;
			char bytes[4096];
		} u;

		await(watch);
		g_assert_cmpint(read(watch, &u, sizeof(u)), >, 0);
		if (g_str_has_suffix(u.e.name, "-trace"))
			return g_build_filename(directory, u.e.name, NULL);
	}
}

/* A packet is in a file, as its index says. */
static bool is_written(const char *directory)
{
	char *pattern = g_build_filename(directory, "*", "*", "index", "*.idx", NULL);
	bool written = false;
	glob_t found = { 0 };
	struct stat st;

	(void)glob(pattern, 0, NULL, &found);
	for (size_t i = 0; i < found.gl_pathc; i++)
		written |= stat(found.gl_pathv[i], &st) == 0 && st.st_size > 16;
	globfree(&found);
	g_free(pattern);
	return written;
}

/* Killed while it writes: the next one puts the trace right, up to the last packet that is whole. */
static void test_killed_writing(Fixture *x, gconstpointer unused)
{
	static const char *const strategies[] = { "auto", "mmap", "splice", "write" };
	char *directory = g_build_filename(x->state, "traces", "log", NULL);

	g_assert_cmpint(g_mkdir_with_parents(directory, 0755), ==, 0);
	for (size_t i = 0; i < G_N_ELEMENTS(strategies); i++) {
		char *text = g_strdup_printf("sessions: { log: { autostart = true; events = [ \"shop:*\" ]; policy = "
					     "\"discard\"; memory = \"1M\"; flush_interval = \"10ms\"; io = \"%s\"; "
					     "output_keep_free = \"0\"; }; };",
					     strategies[i]);
		int watch = inotify_init1(IN_CLOEXEC);
		char *trace, *last = NULL;

		g_assert_cmpint(inotify_add_watch(watch, directory, IN_MOVED_TO), >=, 0);
		g_assert_true(g_file_set_contents(x->config, text, -1, NULL));
		daemon_start(x);
		program_start(x);
		program_ask(x, "threads 2", NULL);
		while (!is_written(directory))
			program_ask(x, "enabled", NULL);
		(void)daemon_stop(x, SIGKILL);
		program_ask(x, "join", NULL);
		program_end(x);
		daemon_start(x);
		trace = trace_await(directory, watch);
		g_assert_cmpuint(trace_records(trace, &last), >, 0);
		g_assert_nonnull(strstr(last, "shop:order"));
		(void)daemon_stop(x, SIGTERM);
		remove_tree(directory);
		g_assert_cmpint(g_mkdir_with_parents(directory, 0755), ==, 0);
		(void)close(watch);
		g_free(last);
		g_free(trace);
		g_free(text);
	}
	g_free(directory);
}

static bool has_partial(const char *directory)
{
	GDir *d = g_dir_open(directory, 0, NULL);
	const char *name;
	bool has = false;

	g_assert_nonnull(d);
	while ((name = g_dir_read_name(d)))
		has |= name[0] == '.';
	g_dir_close(d);
	return has;
}

/* Waits for an entry that begins with '.' to be made (IN_CREATE) or removed (IN_DELETE). */
static void partial_await(int watch)
{
	char buffer[4096] __attribute__((aligned(8)));
	const struct inotify_event *e = (const void *)buffer;

	do {
		await(watch);
		g_assert_cmpint(read(watch, buffer, sizeof(*e) + NAME_MAX + 1), >, 0);
	} while (e->name[0] != '.');
}

/* Half a snapshot that a killed daemon left is gone with the next start, nobody asking for another: also of a session that is
 * no longer there. What is not of that form stays. */
static void test_leftovers(Fixture *x, gconstpointer unused)
{
	static const char name[] = ".20261129T160102.123456Z-manual.tmp";
	char *gone = g_build_filename(x->state, "snapshots", "gone", NULL);
	char *half = g_build_filename(gone, name, "user-0", NULL);
	char *other = g_build_filename(gone, ".other", NULL);
	int watch = inotify_init1(IN_CLOEXEC), made = inotify_init1(IN_CLOEXEC);
	u32 n_left = 0;

	g_assert_cmpint(g_mkdir_with_parents(half, 0755), ==, 0);
	g_assert_cmpint(g_mkdir_with_parents(other, 0755), ==, 0);
	g_assert_cmpint(inotify_add_watch(watch, gone, IN_DELETE), >=, 0);
	daemon_start(x);
	partial_await(watch);
	g_free(half);
	half = g_build_filename(gone, name, NULL);
	g_assert_false(g_file_test(half, G_FILE_TEST_EXISTS));
	g_assert_true(g_file_test(other, G_FILE_TEST_EXISTS));

	/* killed as soon as it began to write */
	g_assert_cmpint(inotify_add_watch(made, x->snapshots, IN_CREATE), >=, 0);
	g_assert_cmpint(inotify_add_watch(watch, x->snapshots, IN_DELETE), >=, 0);
	for (int i = 0; i < 10; i++) {
		program_start(x);
		program_ask(x, "record 5000", "recorded 5000");
		(void)fprintf(x->to, "signal 11\n");
		(void)fflush(x->to);
		partial_await(made);
		(void)daemon_stop(x, SIGKILL);
		program_end(x);
		n_left += has_partial(x->snapshots);
		if (has_partial(x->snapshots)) {
			daemon_start(x);
			partial_await(watch);
		} else {
			daemon_start(x);
		}
		g_assert_false(has_partial(x->snapshots));
	}
	g_test_message("%u of 10 were caught half way", n_left);
	/* whatever there is under a snapshot's name is whole */
	{
		GDir *d = g_dir_open(x->snapshots, 0, NULL);
		const char *entry;

		while ((entry = g_dir_read_name(d))) {
			char *path = g_build_filename(x->snapshots, entry, NULL);

			g_assert_cmpuint(trace_records(path, NULL), ==, 5000);
			g_free(path);
		}
		g_dir_close(d);
	}
	(void)close(watch);
	(void)close(made);
	g_free(gone);
	g_free(half);
	g_free(other);
}

static void test_hup(Fixture *x, gconstpointer unused)
{
	daemon_start(x);
	program_start(x);
	program_ask(x, "record 10", NULL);
	g_assert_true(g_file_set_contents(x->config, "sessions: { flight: { autostart = maybe; }; };", -1,
					  NULL));
	(void)kill(x->daemon, SIGHUP);
	notified(x, "RELOADING=1");
	notified(x, "READY=1");
	program_ask(x, "enabled", "enabled 1 1 0");
	g_assert_true(g_file_set_contents(x->config,
					  "sessions: { other: { autostart = true; events = [ \"other:*\" "
					  "]; memory = \"1M\"; }; };",
					  -1, NULL));
	(void)kill(x->daemon, SIGHUP);
	notified(x, "READY=1");
	program_ask(x, "enabled", NULL); /* asks again */
	program_ask(x, "enabled", "enabled 0 0 1");
	(void)kill(x->daemon, SIGUSR1); /* not ours, and no reason to die */
	(void)kill(x->daemon, SIGUSR2);
	program_ask(x, "record 10", "recorded 20");
	g_assert_cmpint(daemon_stop(x, SIGINT), ==, 0);
}

/* What `systemctl status` shows: each change is said, the last word is true. */
static void test_status(Fixture *x, gconstpointer unused)
{
	char *path, *line;

	daemon_start(x);
	g_assert_cmpstr(x->status, ==,
			"STATUS=1 of 1 session running, 0 programs attached; last snapshot: none yet");
	program_start(x);
	program_ask(x, "record 10", NULL);
	notified(x, "STATUS=1 of 1 session running, 1 program attached; last snapshot: none yet");
	(void)fprintf(x->to, "signal 11\n");
	(void)fflush(x->to);
	(void)waitpid(x->program, NULL, 0);
	path = snapshot_await(x);
	line = g_strdup_printf("STATUS=1 of 1 session running, 0 programs attached; last snapshot: %s", path);
	notified(x, line);
	g_free(line);
	/* the snapshot outlives its session */
	g_assert_true(g_file_set_contents(x->config, "sessions: { a: { }; b: { }; };", -1, NULL));
	(void)kill(x->daemon, SIGHUP);
	line = g_strdup_printf("STATUS=0 of 2 sessions running, 0 programs attached; last snapshot: %s", path);
	notified(x, line);
	g_free(line);
	g_free(path);
	g_assert_cmpint(daemon_stop(x, SIGTERM), ==, 0);
	program_end(x);
}

/* Programs by the dozen are no reason to write to systemd by the dozen. */
/* Reads what the daemon has said, of which a queue holds ten: it would wait. How often that was its status. */
static int statuses(Fixture *x)
{
	char text[4096];
	ssize_t length;
	int n = 0;

	while ((length = recv(x->notify, text, sizeof(text) - 1, MSG_DONTWAIT)) > 0) {
		text[length] = 0;
		n += g_str_has_prefix(text, "STATUS=");
	}
	return n;
}

static void test_status_seldom(Fixture *x, gconstpointer unused)
{
	gint64 begin, seconds;
	int n = 0;

	daemon_start(x);
	begin = g_get_monotonic_time();
	for (int i = 0; i < 30; i++) {
		program_start(x);
		program_ask(x, "record 1", NULL);
		program_end(x);
		n += statuses(x);
	}
	if (n == 0) {
		notified(x, "STATUS=");
		n = 1 + statuses(x);
	}
	seconds = (g_get_monotonic_time() - begin) / G_USEC_PER_SEC;
	g_assert_cmpint(n, <=, seconds + 2);
	g_assert_cmpint(daemon_stop(x, SIGTERM), ==, 0);
}

static int run(const char *const *argv, char **ret_err)
{
	int status = 0;

	g_assert_true(g_spawn_sync(NULL, (char **)argv, NULL, G_SPAWN_STDOUT_TO_DEV_NULL, NULL, NULL,
				   NULL, ret_err, &status, NULL));
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void test_arguments(Fixture *x, gconstpointer unused)
{
	const char *tracerd = g_getenv("TRACER_TEST_TRACERD");
	const char *good[] = { tracerd, "--check-config", x->config, NULL };
	const char *help[] = { tracerd, "--help", NULL }, *version[] = { tracerd, "--version", NULL };
	const char *keys[] = { tracerd, "--help-config", NULL };
	const char *dump[] = { tracerd, "--dump-config", x->config, NULL };
	const char *unknown[] = { tracerd, "--frobnicate", NULL };
	const char *many[] = { tracerd, "--version", "x", NULL };
	const char *second[] = { tracerd, "--no-bus", "--user", "--config", x->config,
				 "--runtime-directory", x->runtime, "--state-directory", x->state, NULL };
	char *err = NULL;

	g_assert_cmpint(run(help, NULL), ==, 0);
	g_assert_cmpint(run(version, NULL), ==, 0);
	g_assert_cmpint(run(many, NULL), ==, 0);
	g_assert_cmpint(run(unknown, NULL), ==, 64);
	g_assert_cmpint(run(keys, NULL), ==, 0);
	g_assert_cmpint(run(good, &err), ==, 0);
	g_assert_nonnull(strstr(err, "no errors; 1 session"));
	g_free(err);
	g_assert_cmpint(run(dump, &err), ==, 0);
	g_assert_cmpstr(err, ==, "");
	g_free(err);
	{
		const char *again[] = { tracerd, "--config", x->config, "--dump-config", NULL };
		char *out = NULL;

		g_assert_true(g_spawn_sync(NULL, (char **)again, NULL, 0, NULL, NULL, &out, NULL, NULL, NULL));
		g_assert_nonnull(strstr(out, "name = \"flight\";"));
		g_assert_nonnull(strstr(out, "tracer.conf:1\n"));
		g_assert_nonnull(strstr(out, "policy = \"overwrite\"; // default\n"));
		g_free(out);
	}
	g_assert_true(g_file_set_contents(x->config, "sessions: {\n a: { memry = \"1M\"; };\n};\n", -1, NULL));
	g_assert_cmpint(run(good, &err), ==, 78);
	g_assert_nonnull(strstr(err, "tracer.conf:2"));
	g_assert_nonnull(strstr(err, "memory"));
	g_assert_nonnull(strstr(err, "1 error"));
	g_free(err);
	/* a broken file costs what is broken, not the daemon */
	daemon_start(x);
	g_assert_cmpint(run(second, &err), ==, 1);
	g_assert_nonnull(strstr(err, "another tracerd"));
	g_free(err);
	g_assert_cmpint(daemon_stop(x, SIGTERM), ==, 0);
}

/* A control page from boot: programs that were started before the first daemon are reached. */
static void test_early_program(Fixture *x, gconstpointer unused)
{
	struct abi_control *h;
	char *path = g_build_filename(x->runtime, "control", NULL);
	int fd;

	g_assert_cmpint(g_mkdir_with_parents(x->runtime, 0755), ==, 0);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
	g_assert_cmpint(ftruncate(fd, ABI_CONTROL_SIZE), ==, 0);
	h = mmap(NULL, ABI_CONTROL_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	*h = (struct abi_control){ .magic = ABI_CONTROL_MAGIC, .major = ABI_MAJOR, .minor = ABI_MINOR,
				   .size = ABI_CONTROL_SIZE };
	program_start(x);
	program_ask(x, "enabled", "enabled 0 0 0");
	daemon_start(x);
	program_ask(x, "record 10", NULL);
	program_ask(x, "record 10", NULL);
	program_ask(x, "enabled", "enabled 1 1 0");
	(void)daemon_stop(x, SIGTERM);
	g_free(snapshot_await(x));
	(void)munmap(h, ABI_CONTROL_SIZE);
	(void)close(fd);
	g_free(path);
}

/* The nice values of all threads of the daemon, sorted. */
static GArray *priorities(const Fixture *x)
{
	g_autofree char *path = g_strdup_printf("/proc/%d/task", (int)x->daemon);
	GArray *all = g_array_new(false, false, sizeof(int));
	GDir *d = g_dir_open(path, 0, NULL);
	const char *name;

	while ((name = g_dir_read_name(d))) {
		int n;

		errno = 0;
		n = getpriority(PRIO_PROCESS, (id_t)atoi(name));
		if (errno != ESRCH)
			g_array_append_val(all, n);
	}
	g_dir_close(d);
	return all;
}

static guint n_with(const GArray *all, int nice)
{
	guint n = 0;

	for (guint i = 0; i < all->len; i++)
		n += g_array_index(all, int, i) == nice;
	return n;
}

/* The loop goes before the programs that wait for it, a consumer before those that fill its rings, and nobody else. */
static void test_priorities(Fixture *x, gconstpointer unused)
{
	int before = getpriority(PRIO_PROCESS, 0);
	GArray *all = NULL;

	if (setpriority(PRIO_PROCESS, 0, -20) < 0) {
		g_test_skip("nobody can go first here (LimitNICE=, CAP_SYS_NICE)");
		return;
	}
	(void)setpriority(PRIO_PROCESS, 0, before);
	g_assert_true(g_file_set_contents(
		x->config,
		"sessions: { log: { autostart = true; events = [ \"shop:*\" ]; policy = \"discard\"; memory = \"1M\"; "
		"io = \"auto\"; output_keep_free = \"0\"; }; flight: { autostart = true; memory = \"1M\"; }; };",
		-1, NULL));
	daemon_start(x);
	program_start(x);
	program_ask(x, "record 10", NULL);
	/* a thread sets its own, when it comes to run */
	do {
		g_clear_pointer(&all, g_array_unref);
		all = priorities(x);
	} while (n_with(all, -20) != 1 || n_with(all, -10) != 1);
	g_assert_cmpint(getpriority(PRIO_PROCESS, (id_t)x->daemon), ==, -20);
	g_assert_cmpuint(n_with(all, before), ==, all->len - 2);
	g_assert_cmpuint(all->len, >, 2);
	g_array_unref(all);
	program_end(x);
	(void)daemon_stop(x, SIGTERM);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	(void)signal(SIGPIPE, SIG_IGN);
#define ADD(name, fn) g_test_add("/tracerd/" name, Fixture, NULL, fixture_up, fn, fixture_down)
	ADD("crash", test_crash);
	ADD("killed", test_killed);
	ADD("killed/writing", test_killed_writing);
	ADD("leftovers", test_leftovers);
	ADD("hup", test_hup);
	ADD("priorities", test_priorities);
	ADD("status", test_status);
	ADD("status-seldom", test_status_seldom);
	ADD("arguments", test_arguments);
	ADD("early-program", test_early_program);
	return g_test_run();
}
