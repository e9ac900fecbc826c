/* SPDX-License-Identifier: MIT */
/* A manager in this process, and instrumented programs as its children. */
#include "tests/integration/daemon/house.h"

#include <fcntl.h>
#include <glib/gstdio.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define PATIENCE  (20 * NSEC_PER_SEC)
#define LOOK_USEC 10000

static void on_snapshot(void *userdata, const char *session, const char *reason, const char *path)
{
	House *h = userdata;

	h->n_snapshots++;
	g_free(h->snapshot_path);
	g_free(h->snapshot_reason);
	h->snapshot_path = g_strdup(path);
	h->snapshot_reason = g_strdup(reason);
}

/* Trouble may be over before anybody looks; and more than that changes while there is some. */
static void on_changed(void *userdata, Session *s)
{
	House *h = userdata;
	SessionInfo info;

	session_info(s, &info);
	h->n_troubles += info.trouble[0] && g_strcmp0(info.trouble, h->trouble) != 0;
	g_free(h->trouble);
	h->trouble = g_strdup(info.trouble);
}

static void on_trace(void *userdata, const char *session, const char *path, u64 n_records)
{
	((House *)userdata)->n_traces++;
}

static void on_crash(void *userdata, pid_t pid, const char *command, const char *unit)
{
	((House *)userdata)->n_crashes++;
}

static void on_producers(void *userdata)
{
	((House *)userdata)->n_producer_changes++;
}

void house_configure(House *h, const char *text)
{
	g_assert_true(g_file_set_contents(h->config, text, -1, NULL));
}

void house_open(House *h)
{
	static const ManagerObserver observer = { .snapshot_completed = on_snapshot,
						  .trace_completed = on_trace,
						  .session_changed = on_changed,
						  .producer_crashed = on_crash,
						  .producers_changed = on_producers };
	ManagerOptions o = { .runtime_directory = h->runtime,
			     .state_directory = h->state,
			     .config_file = h->config,
			     .listen_fd = -1,
			     .user = true };

	g_assert_cmpint(manager_new(&h->manager, h->event, &o), ==, 0);
	manager_observe(h->manager, &observer, h);
}

void house_close(House *h)
{
	h->manager = manager_free(h->manager);
}

void house_up(House *h, gconstpointer config_text)
{
	h->directory = g_dir_make_tmp("house-XXXXXX", NULL);
	g_assert_cmpint(chmod(h->directory, 0755), ==, 0);
	h->runtime = g_build_filename(h->directory, "run", NULL);
	h->state = g_build_filename(h->directory, "state", NULL);
	h->config = g_build_filename(h->directory, "tracer.conf", NULL);
	house_configure(h, config_text);
	(void)g_setenv("TRACER_RUNTIME_DIR", h->runtime, true);
	/* so that a busy machine is no reason not to be heard */
	(void)g_setenv("TRACER_ATTACH_TIMEOUT", "10000", true);
	g_assert_cmpint(sd_event_new(&h->event), ==, 0);
	house_open(h);
}

static void remove_tree(const char *path)
{
	const char *argv[] = { "rm", "-rf", "--", path, NULL };

	(void)g_spawn_sync(NULL, (char **)argv, NULL, G_SPAWN_SEARCH_PATH, NULL, NULL, NULL, NULL,
			   NULL, NULL);
}

void house_down(House *h, gconstpointer unused)
{
	house_close(h);
	h->event = sd_event_unref(h->event);
	remove_tree(h->directory);
	g_free(h->directory);
	g_free(h->runtime);
	g_free(h->state);
	g_free(h->config);
	g_free(h->snapshot_path);
	g_free(h->snapshot_reason);
	g_free(h->done_path);
	g_free(h->trouble);
}

void house_turn(House *h, u64 usec)
{
	g_assert_cmpint(sd_event_run(h->event, usec), >=, 0);
}

void house_until(House *h, bool (*condition)(void *userdata), void *userdata)
{
	u64 end = manager_now() + PATIENCE;

	while (!condition(userdata)) {
		u64 now = manager_now();

		if (now >= end)
			g_error("waited in vain");
		/* threads and other processes may make it true without a word to the loop */
		house_turn(h, MIN((end - now) / NSEC_PER_USEC + 1, LOOK_USEC));
	}
}

static void snapshot_done(void *userdata, const char *path, const Failure *failure)
{
	House *h = userdata;

	h->done = true;
	g_free(h->done_path);
	h->done_path = g_strdup(path);
	h->done_failure = failure ? *failure : FAILURE_NULL;
}

static bool is_true(void *userdata)
{
	return *(bool *)userdata;
}

const char *house_snapshot(House *h, const char *session)
{
	h->done = false;
	if (manager_snapshot(h->manager, session, "manual", "a test", NULL, snapshot_done, h, NULL,
			     &h->done_failure) < 0)
		return NULL;
	house_until(h, is_true, &h->done);
	if (!h->done_path)
		g_test_message("%s", h->done_failure.text);
	return h->done_path;
}

typedef struct {
	House *h;
	u32 n;
} Await;

static bool snapshots_reached(void *userdata)
{
	Await *a = userdata;

	return a->h->n_snapshots >= a->n;
}

void house_await_snapshots(House *h, u32 n)
{
	Await a = { h, n };

	house_until(h, snapshots_reached, &a);
}

SessionInfo house_info(House *h, const char *session)
{
	Session *s = manager_find(h->manager, session);
	SessionInfo info;

	g_assert_nonnull(s);
	session_info(s, &info);
	return info;
}

/* ---- programs ---- */

static int program_on_output(sd_event_source *s, int fd, u32 revents, void *userdata)
{
	Program *p = userdata;
	ssize_t n = read(fd, p->line + p->n, sizeof(p->line) - 1 - p->n);

	if (n <= 0) {
		p->closed = true;
		p->source = sd_event_source_disable_unref(p->source);
		return 0;
	}
	p->n += (size_t)n;
	if (p->line[p->n - 1] == '\n') {
		p->line[p->n - 1] = 0;
		p->answered = true;
	}
	return 0;
}

static bool program_answered(void *userdata)
{
	Program *p = userdata;

	return p->answered || p->closed;
}

static const char *program_await(Program *p)
{
	house_until(p->house, program_answered, p);
	p->n = 0;
	p->answered = false;
	return p->closed ? NULL : p->line;
}

static void program_launch(House *h, Program *p, uid_t uid, const char *path, const char *const *arguments)
{
	int in[2], out[2];

	*p = (Program){ .house = h };
	g_assert_cmpint(pipe2(in, O_CLOEXEC), ==, 0);
	g_assert_cmpint(pipe2(out, O_CLOEXEC), ==, 0);
	p->pid = fork();
	g_assert_cmpint(p->pid, >=, 0);
	if (p->pid == 0) {
		(void)dup2(in[0], 0);
		(void)dup2(out[1], 1);
		if (uid && (setgid(uid) < 0 || setuid(uid) < 0))
			_exit(126);
		(void)execv(path, (char **)arguments);
		_exit(127);
	}
	(void)close(in[0]);
	(void)close(out[1]);
	p->in = in[1];
	p->out = out[0];
	g_assert_cmpint(sd_event_add_io(h->event, &p->source, p->out, EPOLLIN, program_on_output, p),
			>=, 0);
	g_assert_nonnull(program_await(p));
}

void program_start(House *h, Program *p, uid_t uid)
{
	const char *arguments[] = { g_getenv("TRACER_TEST_SUBJECT"), NULL };

	program_launch(h, p, uid, arguments[0], arguments);
}

void program_start_other(House *h, Program *p, const char *path, const char *argument)
{
	const char *arguments[] = { path, argument, NULL };

	program_launch(h, p, 0, path, arguments);
}

void program_start_words(House *h, Program *p, const char *path, const char *words)
{
	g_autofree char *line = g_strdup_printf("%s %s", path, words);
	g_auto(GStrv) arguments = g_strsplit(line, " ", -1);

	program_launch(h, p, 0, path, (const char *const *)arguments);
}

const char *program_line(Program *p)
{
	return program_await(p);
}

void program_tell(Program *p, const char *line)
{
	char text[600];
	int n = snprintf(text, sizeof(text), "%s\n", line);

	g_assert_cmpint(write(p->in, text, (size_t)n), ==, n);
}

const char *program_ask(Program *p, const char *format, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, format);
	(void)vsnprintf(text, sizeof(text), format, ap);
	va_end(ap);
	program_tell(p, text);
	return program_await(p);
}

int program_end(Program *p)
{
	int status = 0;

	(void)kill(p->pid, SIGKILL);
	(void)waitpid(p->pid, &status, 0);
	p->source = sd_event_source_disable_unref(p->source);
	(void)close(p->in);
	(void)close(p->out);
	return status;
}

/* ---- traces ---- */

char *trace_text(const char *path)
{
	const char *argv[] = { "babeltrace2", path, NULL };
	char *out = NULL, *err = NULL;
	int status = 0;

	g_assert_true(g_spawn_sync(NULL, (char **)argv, NULL, G_SPAWN_SEARCH_PATH, NULL, NULL, &out, &err,
				   &status, NULL));
	if (status || strstr(err, "ERROR"))
		g_error("babeltrace2 %s: %s", path, err);
	g_free(err);
	return g_strchomp(out);
}

u32 trace_count(const char *path, const char *text)
{
	char *all = trace_text(path);
	u32 n = 0;

	/* line by line: a sanitizer's strstr() measures all that is left, each time */
	for (char *line = all; line;) {
		char *end = strchr(line, '\n');

		if (end)
			*end++ = 0;
		n += strstr(line, text) != NULL;
		line = end;
	}
	g_free(all);
	return n;
}
