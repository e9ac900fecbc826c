/* SPDX-License-Identifier: MIT */
/* Sessions whose rings are kept on disk: what is found there again when the daemon was killed, when its directory was copied in
 * the middle of a pass, and when the disk was cut off. babeltrace2 is the judge, tracerctl does the recovering. */
#include "tests/integration/daemon/house.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <glib/gstdio.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "daemon/backing/format.h"
#include "daemon/backing/recovery.h"
#include "systemd/journal.h"

#define CONFIG(directory, more)                                                                    \
	"sessions: { flight: { autostart = true; events = [ \"shop:*\" ]; memory = \"16M\"; backing = \"" directory \
	"\"; sync_interval = \"20ms\"; " more " }; };"

typedef struct {
	House h;
	char *backing; /* owned: below the house's directory, or on a disk of its own */
	Program p;
	pid_t daemon; /* instead of the house's manager */
} World;

static u64 real_now(void)
{
	return (u64)g_get_real_time() * 1000;
}

static void configure(World *w, const char *more)
{
	g_autofree char *text = g_strdup_printf(CONFIG("%s", "%s"), w->backing, more);

	house_configure(&w->h, text);
}

static void world_up(World *w, gconstpointer more)
{
	house_up(&w->h, "");
	house_close(&w->h);
	w->backing = g_build_filename(w->h.directory, "backing", NULL);
	configure(w, more ? more : "");
}

static void world_down(World *w, gconstpointer unused)
{
	g_free(w->backing);
	house_down(&w->h, NULL);
}

static void run(const char *const *argv, int *ret_status, char **ret_out, char **ret_err)
{
	int status;

	g_assert_true(g_spawn_sync(NULL, (char **)argv, NULL, G_SPAWN_SEARCH_PATH, NULL, NULL, ret_out, ret_err, &status, NULL));
	if (ret_status)
		*ret_status = status;
	else
		g_assert_cmpint(status, ==, 0);
}

static void copy_tree(const char *from, const char *to)
{
	/* files that go while it reads are the point of it */
	const char *argv[] = { "cp", "-r", from, to, NULL };
	int status;
	g_autofree char *err = NULL;

	run(argv, &status, NULL, &err);
}

/* The runs below PATH/flight. */
static u32 n_runs(const char *backing)
{
	g_autofree char *path = g_build_filename(backing, "flight", NULL);
	GDir *d = g_dir_open(path, 0, NULL);
	u32 n = 0;

	while (d && g_dir_read_name(d))
		n++;
	if (d)
		g_dir_close(d);
	return n;
}

/* tracerctl recover DIRECTORY OUTPUT */
static void recover(const char *directory, const char *output, int status, char **ret_err)
{
	const char *argv[] = { g_getenv("TRACER_TEST_TRACERCTL"), "recover", directory, output, NULL };
	g_autofree char *out = NULL, *err = NULL;
	int is;

	run(argv, &is, &out, &err);
	if (is != status)
		g_error("tracerctl recover: %d: %s%s", is, out, err);
	if (ret_err)
		*ret_err = g_steal_pointer(&err);
}

/* The numbers of shop:order in a trace: which of [0, n) are missing, and the highest. */
static u64 numbers_missing(const char *path, u64 n, u64 *ret_highest)
{
	g_autofree char *text = trace_text(path);
	g_autofree u8 *seen = g_malloc0(n + 1);
	u64 missing = 0, highest = 0;

	/* line by line: a sanitizer measures what is left of a text each time it is searched */
	for (const char *p = text, *end; *p; p = *end ? end + 1 : end) {
		g_autofree char *line = NULL;
		const char *at;
		u64 number;

		end = strchrnul(p, '\n');
		line = g_strndup(p, (gsize)(end - p));
		at = strstr(line, "number = ");
		if (!at)
			continue;
		number = strtoull(at + strlen("number = "), NULL, 10);
		highest = MAX(highest, number);
		if (number < n) {
			g_assert_false(seen[number]);
			seen[number] = 1;
		}
	}
	for (u64 i = 0; i < n; i++) {
		if (!seen[i] && (i == 0 || seen[i - 1]))
			g_test_message("missing from %u on", (guint)i);
		missing += !seen[i];
	}
	if (ret_highest)
		*ret_highest = highest;
	return missing;
}

/* What the thread of a backing does wakes nobody: looked at again and again. */
static void until(World *w, bool (*condition)(void *userdata), void *userdata)
{
	u64 end = manager_now() + 20 * NSEC_PER_SEC;

	while (!condition(userdata)) {
		if (manager_now() >= end)
			g_error("waited in vain");
		house_turn(&w->h, 5000);
	}
}

typedef struct {
	House *h;
	u64 since;
} Sync;

static bool is_synced(void *userdata)
{
	Sync *s = userdata;

	return house_info(s->h, "flight").synced_usec * 1000 > s->since;
}

static void await_sync(World *w)
{
	Sync s = { &w->h, real_now() };

	until(w, is_synced, &s);
}

/* ---- the next daemon ---- */

static bool recovered(void *userdata)
{
	return g_strcmp0(((House *)userdata)->snapshot_reason, "recovered") == 0;
}

static bool one_run(void *userdata)
{
	return n_runs(((World *)userdata)->backing) == 1;
}

/* What a daemon has left, also one that ended in order, is a snapshot of the session's after the next start, and gone from
 * there. */
/* Who recorded it is with it: nobody else knows after a power cut. */
static void check_producer(const World *w, const char *snapshot)
{
	g_autofree char *path = g_build_filename(snapshot, "producers.json", NULL), *text = NULL, *exe = NULL;
	g_autofree char *pid = g_strdup_printf("\"pid\": %d,", (int)w->p.pid);
	g_autofree char *link = g_strdup_printf("/proc/%d/exe", (int)w->p.pid);

	exe = g_file_read_link(link, NULL);
	g_assert_nonnull(exe);
	g_assert_true(g_file_get_contents(path, &text, NULL, NULL));
	g_assert_nonnull(strstr(text, pid));
	g_assert_nonnull(strstr(text, exe));
	g_assert_nonnull(strstr(text, "\"started\": "));
	g_assert_null(strstr(text, "\"build_id\": \"\""));
	g_assert_null(strstr(text, "\"user\": \"\""));
}

static void test_next_start(World *w, gconstpointer unused)
{
	SessionInfo i;

	house_open(&w->h);
	program_start(&w->h, &w->p, 0);
	(void)program_ask(&w->p, "record 5000");
	await_sync(w);
	i = house_info(&w->h, "flight");
	g_assert_cmpstr(i.trouble, ==, "");
	g_assert_cmpstr(i.backing, ==, w->backing);
	g_assert_cmpuint(i.backing_written, >, 5000 * 24);
	(void)program_ask(&w->p, "record 100");
	/* the last pass is made at the end */
	house_close(&w->h);
	g_assert_cmpuint(n_runs(w->backing), ==, 1);
	house_open(&w->h);
	until(w, recovered, &w->h);
	g_assert_cmpuint(w->h.n_snapshots, ==, 1);
	g_assert_true(g_str_has_suffix(w->h.snapshot_path, "-recovered"));
	g_assert_cmpuint(numbers_missing(w->h.snapshot_path, 5100, NULL), ==, 0);
	g_assert_cmpuint(trace_count(w->h.snapshot_path, "shop:order"), ==, 5100);
	check_producer(w, w->h.snapshot_path);
	g_assert_cmpstr(house_info(&w->h, "flight").last_snapshot, ==, w->h.snapshot_path);
	until(w, one_run, w); /* its own */
	/* and once only */
	house_close(&w->h);
	house_open(&w->h);
	await_sync(w);
	program_end(&w->p);
}

/* What cannot be saved stays until it can; what cannot be read at all is set aside, and said once. */
static void test_not_recovered(World *w, gconstpointer unused)
{
	g_autofree char *snapshots = g_build_filename(w->h.state, "snapshots", NULL);
	g_autofree char *in_the_way = g_build_filename(snapshots, "flight", NULL);
	g_autofree char *session = g_build_filename(w->backing, "flight", NULL);
	const char *name;
	GDir *d;

	house_open(&w->h);
	program_start(&w->h, &w->p, 0);
	(void)program_ask(&w->p, "record 321");
	await_sync(w);
	house_close(&w->h);
	g_assert_cmpint(g_mkdir_with_parents(snapshots, 0755), ==, 0);
	g_assert_true(g_file_set_contents(in_the_way, "in the way", -1, NULL));
	house_open(&w->h);
	await_sync(w);
	for (u32 i = 0; i < 20; i++)
		house_turn(&w->h, 10000);
	g_assert_cmpuint(w->h.n_snapshots, ==, 0);
	g_assert_cmpuint(n_runs(w->backing), ==, 2);
	house_close(&w->h);
	g_assert_cmpint(g_unlink(in_the_way), ==, 0);
	house_open(&w->h);
	until(w, recovered, &w->h);
	g_assert_cmpuint(numbers_missing(w->h.snapshot_path, 321, NULL), ==, 0);
	until(w, one_run, w);
	(void)program_ask(&w->p, "record 10");
	await_sync(w);
	program_end(&w->p);
	house_close(&w->h);

	/* the head of the rings is torn */
	d = g_dir_open(session, 0, NULL);
	name = g_dir_read_name(d);
	{
		g_autofree char *run = g_build_filename(session, name, NULL), *aside = g_strconcat(run, ".damaged", NULL);
		GDir *files = g_dir_open(run, 0, NULL);
		const char *file;
		u32 n = 0;

		while ((file = g_dir_read_name(files))) {
			g_autofree char *path = g_build_filename(run, file, NULL);
			int fd;

			if (!g_str_has_suffix(file, ".rings"))
				continue;
			fd = open(path, O_WRONLY | O_CLOEXEC);
			g_assert_cmpint(pwrite(fd, "torn", 4, 100), ==, 4);
			(void)close(fd);
			n++;
		}
		g_dir_close(files);
		g_assert_cmpuint(n, ==, 1);
		house_open(&w->h);
		for (u32 i = 0; !g_file_test(aside, G_FILE_TEST_IS_DIR) && i < 1000; i++)
			house_turn(&w->h, 10000);
		g_assert_true(g_file_test(aside, G_FILE_TEST_IS_DIR));
		g_assert_cmpuint(w->h.n_snapshots, ==, 1);
		recover(aside, "/dev/null/nowhere", 256, NULL);
	}
	g_dir_close(d);
}

static void test_on_stop(World *w, gconstpointer unused)
{
	house_open(&w->h);
	program_start(&w->h, &w->p, 0);
	(void)program_ask(&w->p, "record 50");
	await_sync(w);
	house_close(&w->h);
	g_assert_cmpuint(w->h.n_snapshots, ==, 1);
	g_assert_cmpuint(n_runs(w->backing), ==, 0);
	program_end(&w->p);
}

/* Rings that are emptied, or go, are empty, or gone, on disk. */
static void test_clear(World *w, gconstpointer unused)
{
	g_autofree char *copy = g_build_filename(w->h.directory, "copy", NULL);
	g_autofree char *output = g_build_filename(w->h.directory, "output", NULL);
	Failure f;

	house_open(&w->h);
	program_start(&w->h, &w->p, 0);
	(void)program_ask(&w->p, "record 50");
	await_sync(w);
	g_assert_cmpint(manager_clear_session(w->h.manager, "flight", &f), ==, 0);
	(void)program_ask(&w->p, "record 7");
	await_sync(w);
	await_sync(w);
	copy_tree(w->backing, copy);
	recover(copy, output, 0, NULL);
	g_assert_cmpuint(trace_count(output, "shop:order"), ==, 7);
	/* stopped and started: the same rings */
	g_assert_cmpint(manager_stop_session(w->h.manager, "flight", NULL, NULL, &f), ==, 0);
	g_assert_cmpint(manager_start_session(w->h.manager, "flight", &f), ==, 0);
	(void)program_ask(&w->p, "record 3");
	await_sync(w);
	g_assert_cmpuint(n_runs(w->backing), ==, 1);
	g_assert_cmpint(manager_remove_session(w->h.manager, "flight", &f), ==, 0);
	while (n_runs(w->backing))
		house_turn(&w->h, 10000);
	program_end(&w->p);
}

/* A disk that is not there is said once, and nobody minds; when it comes, all that the rings hold is on it. */
static bool in_trouble(void *userdata)
{
	return house_info(userdata, "flight").trouble[0];
}

static bool out_of_trouble(void *userdata)
{
	return !in_trouble(userdata);
}

static void test_trouble(World *w, gconstpointer unused)
{
	g_autofree char *copy = g_build_filename(w->h.directory, "copy", NULL);
	g_autofree char *output = g_build_filename(w->h.directory, "output", NULL);

	u32 n;

	g_assert_true(g_file_set_contents(w->backing, "in the way", -1, NULL));
	house_open(&w->h);
	program_start(&w->h, &w->p, 0);
	(void)program_ask(&w->p, "record 500");
	until(w, in_trouble, &w->h);
	g_assert_nonnull(strstr(house_info(&w->h, "flight").trouble, w->backing));
	n = w->h.n_troubles;
	g_assert_cmpuint(n, >=, 1);
	for (u32 i = 0; i < 10; i++)
		house_turn(&w->h, 20000);
	g_assert_cmpuint(w->h.n_troubles, ==, n);
	g_assert_cmpuint(house_info(&w->h, "flight").synced_usec, ==, 0);
	g_assert_cmpint(g_unlink(w->backing), ==, 0);
	until(w, out_of_trouble, &w->h);
	await_sync(w);
	copy_tree(w->backing, copy);
	recover(copy, output, 0, NULL);
	g_assert_cmpuint(numbers_missing(output, 500, NULL), ==, 0);
	program_end(&w->p);
}

/* As the configuration has it, without reading a file. */
static void session_again(World *w)
{
	SessionConfig *config;
	char *text = NULL;
	Failure f = FAILURE_NULL;

	g_assert_cmpint(session_config_new(&config, "flight"), ==, 0);
	g_assert_cmpint(session_config_set(config, "backing", &(ConfigValue){ .type = CONFIG_STRING, .string = w->backing }, &text),
			==, 0);
	g_assert_cmpint(manager_create_session(w->h.manager, config, NULL, &f), ==, 0);
	g_assert_cmpint(manager_start_session(w->h.manager, "flight", &f), ==, 0);
}

static bool stopped(void *userdata)
{
	return strcmp(house_info(userdata, "flight").state, "stopped") == 0;
}

static void limit_descriptors(bool limited)
{
	struct rlimit l;

	g_assert_cmpint(getrlimit(RLIMIT_NOFILE, &l), ==, 0);
	l.rlim_cur = limited ? 3 : l.rlim_max;
	g_assert_cmpint(setrlimit(RLIMIT_NOFILE, &l), ==, 0);
}

/* No descriptor for it when the session starts: it is said, and the rings are kept as soon as there is one. */
static void test_later(World *w, gconstpointer unused)
{
	g_autofree char *copy = g_build_filename(w->h.directory, "copy", NULL);
	g_autofree char *output = g_build_filename(w->h.directory, "output", NULL);

	house_open(&w->h);
	g_assert_cmpint(manager_stop_session(w->h.manager, "flight", NULL, NULL, NULL), ==, 0);
	until(w, stopped, &w->h);
	g_assert_cmpint(manager_remove_session(w->h.manager, "flight", NULL), ==, 0);
	limit_descriptors(true);
	session_again(w);
	limit_descriptors(false);
	g_assert_true(in_trouble(&w->h));
	program_start(&w->h, &w->p, 0);
	(void)program_ask(&w->p, "record 500");
	until(w, out_of_trouble, &w->h);
	await_sync(w);
	copy_tree(w->backing, copy);
	recover(copy, output, 0, NULL);
	g_assert_cmpuint(numbers_missing(output, 500, NULL), ==, 0);
	program_end(&w->p);
}

/* Somebody tidies up. */
static void test_removed(World *w, gconstpointer unused)
{
	g_autofree char *copy = g_build_filename(w->h.directory, "copy", NULL);
	g_autofree char *output = g_build_filename(w->h.directory, "output", NULL);
	const char *argv[] = { "rm", "-rf", w->backing, NULL };

	house_open(&w->h);
	program_start(&w->h, &w->p, 0);
	(void)program_ask(&w->p, "record 500");
	await_sync(w);
	run(argv, NULL, NULL, NULL);
	(void)program_ask(&w->p, "record 500");
	await_sync(w);
	await_sync(w);
	g_assert_cmpstr(house_info(&w->h, "flight").trouble, ==, "");
	copy_tree(w->backing, copy);
	recover(copy, output, 0, NULL);
	g_assert_cmpuint(numbers_missing(output, 1000, NULL), ==, 0);
	program_end(&w->p);
}

/* Elsewhere from now on, or nowhere, while it runs. */
static void test_moved(World *w, gconstpointer unused)
{
	g_autofree char *before = g_steal_pointer(&w->backing), *copy = g_build_filename(w->h.directory, "copy", NULL);
	g_autofree char *output = g_build_filename(w->h.directory, "output", NULL);
	Failure f;

	house_open(&w->h);
	program_start(&w->h, &w->p, 0);
	(void)program_ask(&w->p, "record 400");
	await_sync(w);
	w->backing = g_build_filename(w->h.directory, "elsewhere", NULL);
	configure(w, "");
	g_assert_cmpint(manager_reload(w->h.manager, &f), ==, 0);
	(void)program_ask(&w->p, "record 100");
	await_sync(w);
	while (n_runs(before))
		house_turn(&w->h, 10000);
	/* the rings were those of before */
	copy_tree(w->backing, copy);
	recover(copy, output, 0, NULL);
	g_assert_cmpuint(numbers_missing(output, 500, NULL), ==, 0);
	house_configure(&w->h, "sessions: { flight: { autostart = true; events = [ \"shop:*\" ]; memory = \"16M\"; }; };");
	g_assert_cmpint(manager_reload(w->h.manager, &f), ==, 0);
	while (n_runs(w->backing))
		house_turn(&w->h, 10000);
	g_assert_cmpuint(house_info(&w->h, "flight").recorded, ==, 500);
	program_end(&w->p);
}

/* Each program has its rings: each is an owner, and a trace. */
static void test_owners(World *w, gconstpointer unused)
{
	g_autofree char *copy = g_build_filename(w->h.directory, "copy", NULL);
	g_autofree char *output = g_build_filename(w->h.directory, "output", NULL);
	Program p[3];

	house_open(&w->h);
	for (u32 i = 0; i < 3; i++) {
		program_start(&w->h, &p[i], 0);
		(void)program_ask(&p[i], "record %u", 100 * (i + 1));
	}
	await_sync(w);
	copy_tree(w->backing, copy);
	recover(copy, output, 0, NULL);
	g_assert_cmpuint(trace_count(output, "shop:order"), ==, 600);
	for (u32 i = 0; i < 3; i++) {
		g_autofree char *owner = g_strdup_printf("%s/process-%d-subject-daemon", output, (int)p[i].pid);

		g_assert_cmpuint(trace_count(owner, "shop:order"), ==, 100 * (i + 1));
		program_end(&p[i]);
	}
}

/* ---- the middle of a pass ---- */

/* The directory is copied by cp while a program records and the daemon writes: no copy of one moment. All that was recorded before
 * the last pass that had ended is in each, and babeltrace2 reads it. */
static void test_copied(World *w, gconstpointer unused)
{
	g_autoptr(GRand) rand = g_rand_new_with_seed(7);
	u64 number = 0;

	house_open(&w->h);
	program_start(&w->h, &w->p, 0);
	for (u32 turn = 0; turn < 6; turn++) {
		g_autofree char *copy = g_strdup_printf("%s/copy-%u", w->h.directory, turn);
		g_autofree char *output = g_strdup_printf("%s/output-%u", w->h.directory, turn);
		u64 before, highest, missing;

		(void)program_ask(&w->p, "record 3000");
		number += 3000;
		await_sync(w);
		before = number;
		w->p.answered = false;
		program_tell(&w->p, "pace 20000");
		number += 20000;
		house_turn(&w->h, (u64)g_rand_int_range(rand, 20000, 400000));
		copy_tree(w->backing, copy);
		recover(copy, output, 0, NULL);
		missing = numbers_missing(output, before, &highest);
		g_assert_cmpuint(missing, ==, 0);
		g_assert_cmpuint(highest, >=, before - 1);
		while (!w->p.answered)
			house_turn(&w->h, 10000);
	}
	program_end(&w->p);
}

/* ---- SIGKILL ---- */

/* Returns when it is ready: what it left in the control page when it was killed must not be taken for it. */
static void daemon_start(World *w)
{
	g_autofree char *notify = g_build_filename(w->h.directory, "notify", NULL);
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bool ready = false;

	(void)g_unlink(notify);
	(void)g_strlcpy(a.sun_path, notify, sizeof(a.sun_path));
	g_assert_cmpint(bind(fd, (struct sockaddr *)&a, sizeof(a)), ==, 0);
	w->daemon = fork();
	if (w->daemon == 0) {
		(void)g_setenv("NOTIFY_SOCKET", notify, true);
		(void)execl(g_getenv("TRACER_TEST_TRACERD"), "tracerd", "--no-bus", "--user", "--config", w->h.config,
			    "--runtime-directory", w->h.runtime, "--state-directory", w->h.state, NULL);
		_exit(127);
	}
	while (!ready) {
		struct pollfd p = { .fd = fd, .events = POLLIN };
		char text[4096];
		ssize_t n;

		if (poll(&p, 1, 20000) != 1)
			g_error("tracerd does not get ready");
		n = recv(fd, text, sizeof(text) - 1, 0);
		g_assert_cmpint(n, >, 0);
		text[n] = 0;
		ready = strstr(text, "READY=1");
	}
	(void)close(fd);
}

static void daemon_kill(World *w, int signal)
{
	g_assert_cmpint(kill(w->daemon, signal), ==, 0);
	g_assert_cmpint(waitpid(w->daemon, NULL, 0), ==, w->daemon);
	w->daemon = 0;
}

/* A program that is attached: `record 1` is recorded from when its session is known to it. */
static void await_attached(World *w)
{
	for (u32 i = 0; i < 2000; i++) {
		if (strcmp(program_ask(&w->p, "enabled"), "enabled 1 1 0") == 0)
			return;
		g_usleep(5000);
	}
	g_error("the program is not attached");
}

/* What the numbers had come to when. */
typedef struct {
	u64 at, number;
} Mark;

/* Everything before the last mark that was before `synced` is there. */
static void check_marks(const char *output, const GArray *marks, u64 synced)
{
	u64 number = 0, highest;

	for (guint i = 0; i < marks->len; i++)
		if (g_array_index(marks, Mark, i).at < synced)
			number = g_array_index(marks, Mark, i).number;
	g_assert_cmpuint(number, >, 0);
	g_assert_cmpuint(numbers_missing(output, number, &highest), ==, 0);
	g_test_message("%u records were synced, of %u; the highest that was found is %u", (guint)number,
		       (guint)g_array_index(marks, Mark, marks->len - 1).number, (guint)highest);
}

/* Into the middle of whatever: found as it was left, by whoever asks, with the time that it reaches to. */
static u64 recover_here(const char *directory, const char *output)
{
	g_autofree char *parent = g_path_get_dirname(output), *name = g_path_get_basename(output);
	g_autofree char *session = g_build_filename(directory, "flight", NULL);
	RecoveryResult result;
	GDir *d = g_dir_open(session, 0, NULL);
	g_autofree char *path = NULL;
	Failure f;
	u64 synced;
	int fd, r;

	g_assert_nonnull(d);
	path = g_build_filename(session, g_dir_read_name(d), NULL);
	g_dir_close(d);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	g_assert_cmpint(fd, >=, 0);
	r = recovery_run(&(RecoveryOptions){ .dir_fd = fd, .path = path, .directory = parent, .name = name }, &result, &f);
	if (r < 0)
		g_error("recovery_run: %s", f.text);
	for (u32 i = 0; i < result.notes.n; i++)
		g_test_message("%s", result.notes.v[i]);
	g_assert_cmpuint(result.notes.n_damage, ==, 0);
	g_test_message("%u found, %u overwritten, %u corrupt, %u behind the cut", (guint)result.snapshot.n_records,
		       (guint)result.snapshot.overwritten, (guint)result.snapshot.corrupt_records,
		       (guint)result.snapshot.n_after_cut);
	synced = result.synced;
	recovery_clear(&result);
	(void)close(fd);
	return synced;
}

/* Two passes are on disk, however slow it is: the second one's table is there. */
static bool has_two_passes(const World *w)
{
	g_autofree char *pattern = g_build_filename(w->backing, "flight", "*", "*.rings", NULL);
	glob_t found = { 0 };
	bool synced = false;

	(void)glob(pattern, 0, NULL, &found);
	for (size_t i = 0; i < found.gl_pathc && !synced; i++) {
		int fd = open(found.gl_pathv[i], O_RDONLY | O_CLOEXEC);
		u64 magic = 0;

		synced = fd >= 0 && pread(fd, &magic, sizeof(magic), BACKING_BLOCK) == sizeof(magic) &&
			 magic == BACKING_MAGIC_TABLE;
		if (fd >= 0)
			(void)close(fd);
	}
	globfree(&found);
	return synced;
}

static GArray *record_for_a_while(World *w, u32 turns)
{
	GArray *marks = g_array_new(FALSE, FALSE, sizeof(Mark));

	for (u32 i = 0; i < turns || (!has_two_passes(w) && i < 10000); i++) {
		unsigned long number = 0;
		Mark m;

		g_assert_cmpint(sscanf(program_ask(&w->p, "record 500"), "recorded %lu", &number), ==, 1);
		m = (Mark){ real_now(), number };
		g_array_append_val(marks, m);
		g_usleep(2000);
	}
	return marks;
}

static bool is_recovered_trace(const char *name)
{
	return g_str_has_suffix(name, "-recovered");
}

static char *recovered_find(World *w)
{
	g_autofree char *path = g_build_filename(w->h.state, "snapshots", "flight", NULL);
	GDir *d = g_dir_open(path, 0, NULL);
	char *found = NULL;
	const char *name;

	while (d && (name = g_dir_read_name(d)))
		if (is_recovered_trace(name) && !found)
			found = g_build_filename(path, name, NULL);
	if (d)
		g_dir_close(d);
	return found;
}

static void test_killed(World *w, gconstpointer unused)
{
	g_autoptr(GRand) rand = g_rand_new_with_seed(3);

	daemon_start(w);
	program_start(&w->h, &w->p, 0);
	await_attached(w);
	{
		g_autoptr(GArray) marks = record_for_a_while(w, (u32)g_rand_int_range(rand, 40, 80));
		g_autofree char *copy = g_build_filename(w->h.directory, "copy", NULL);
		g_autofree char *output = g_build_filename(w->h.directory, "output", NULL);
		g_autofree char *found = NULL;
		u64 synced;

		daemon_kill(w, SIGKILL);
		copy_tree(w->backing, copy);
		synced = recover_here(copy, output);
		check_marks(output, marks, synced);
		/* nobody needs to be asked for it */
		daemon_start(w);
		for (u32 i = 0; !found && i < 2000; i++) {
			g_usleep(10000);
			found = recovered_find(w);
		}
		g_assert_nonnull(found);
		check_marks(found, marks, synced);
		for (u32 i = 0; n_runs(w->backing) != 1 && i < 1000; i++)
			g_usleep(10000);
		g_assert_cmpuint(n_runs(w->backing), ==, 1);
		daemon_kill(w, SIGTERM);
	}
	program_end(&w->p);
}

/* ---- the power cut ---- */

#define SHUTDOWN	     _IOR('X', 125, u32)
#define SHUTDOWN_NO_LOGFLUSH 2

typedef struct {
	char *image, *mount;
	bool mounted;
} Disk;

static bool disk_mount(Disk *d)
{
	const char *argv[] = { "mount", "-o", "loop", d->image, d->mount, NULL };
	g_autofree char *err = NULL;
	int status = 0;

	if (!g_spawn_sync(NULL, (char **)argv, NULL, G_SPAWN_SEARCH_PATH, NULL, NULL, NULL, &err, &status, NULL) || status)
		return false;
	d->mounted = true;
	return true;
}

static void disk_unmount(Disk *d)
{
	/* the daemon that has files open there may be about to go */
	for (u32 i = 0; d->mounted && i < 500; i++) {
		d->mounted = umount2(d->mount, 0) < 0;
		if (d->mounted)
			g_usleep(10000);
	}
	g_assert_false(d->mounted);
}

static bool disk_make(World *w, Disk *d)
{
	const char *make[] = { "mkfs.ext4", "-q", "-F", NULL, NULL };
	g_autofree char *err = NULL;
	int fd, status = 0;

	d->image = g_build_filename(w->h.directory, "image", NULL);
	d->mount = g_build_filename(w->h.directory, "disk", NULL);
	make[3] = d->image;
	fd = open(d->image, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	g_assert_cmpint(fd, >=, 0);
	g_assert_cmpint(ftruncate(fd, 128 << 20), ==, 0);
	(void)close(fd);
	g_assert_cmpint(mkdir(d->mount, 0755), ==, 0);
	return g_spawn_sync(NULL, (char **)make, NULL, G_SPAWN_SEARCH_PATH, NULL, NULL, NULL, &err, &status, NULL) && !status &&
	       disk_mount(d);
}

/* A file system of its own under load is cut off at a random moment: nothing that was not written by then ever is. Mounted again it
 * has everything up to the last pass that had ended. */
static void test_power_cut(World *w, gconstpointer unused)
{
	g_autoptr(GRand) rand = g_rand_new_with_seed((guint32)real_now());
	Disk d = {};

	if (geteuid() != 0) {
		g_test_skip("only root can mount a disk");
		return;
	}
	if (!disk_make(w, &d)) {
		g_test_skip("no disk can be made: mkfs.ext4 or loop devices are missing here");
		return;
	}
	g_free(w->backing);
	w->backing = g_build_filename(d.mount, "backing", NULL);
	configure(w, "");
	for (u32 turn = 0; turn < 3; turn++) {
		g_autofree char *output = g_strdup_printf("%s/output-%u", w->h.directory, turn);
		g_autoptr(GArray) marks = NULL;
		u32 flags = SHUTDOWN_NO_LOGFLUSH;
		u64 cut, synced;
		int fd;

		daemon_start(w);
		program_start(&w->h, &w->p, 0);
		await_attached(w);
		marks = record_for_a_while(w, (u32)g_rand_int_range(rand, 40, 120));
		fd = open(d.mount, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		g_assert_cmpint(ioctl(fd, SHUTDOWN, &flags), ==, 0);
		cut = real_now();
		(void)close(fd);
		/* programs do not notice; the daemon says so and goes on */
		(void)program_ask(&w->p, "record 1000");
		daemon_kill(w, SIGKILL);
		program_end(&w->p);
		disk_unmount(&d);

		/* the next boot */
		g_assert_true(disk_mount(&d));
		synced = recover_here(w->backing, output);
		g_assert_cmpuint(synced, <, cut);
		/* it was synced every 20 ms; a second is for machines that do other things as well */
		g_assert_cmpuint(synced, >, cut - 5 * NSEC_PER_SEC);
		check_marks(output, marks, synced);
		disk_unmount(&d);
		g_assert_true(disk_mount(&d));
		{
			const char *argv[] = { "rm", "-rf", w->backing, NULL };

			run(argv, NULL, NULL, NULL);
		}
	}
	disk_unmount(&d);
	g_free(d.image);
	g_free(d.mount);
}

#define ADD(name, more, fn) g_test_add("/daemon/backing/" name, World, more, world_up, fn, world_down)

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	journal_set_level(LOG_CRIT);
	ADD("next-start", NULL, test_next_start);
	ADD("not-recovered", NULL, test_not_recovered);
	ADD("on-stop", "on_stop = \"snapshot\";", test_on_stop);
	ADD("clear", NULL, test_clear);
	ADD("trouble", NULL, test_trouble);
	ADD("later", NULL, test_later);
	ADD("removed", NULL, test_removed);
	ADD("moved", NULL, test_moved);
	ADD("owners", "buffers = \"per-process\";", test_owners);
	ADD("copied", NULL, test_copied);
	ADD("killed", NULL, test_killed);
	ADD("power-cut", NULL, test_power_cut);
	return g_test_run();
}
