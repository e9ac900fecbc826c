/* SPDX-License-Identifier: MIT */
#include "tests/integration/daemon/keeper.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/inotify.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

void keeper_configure(Keeper *k, const char *config_text)
{
	g_assert_true(g_file_set_contents(k->config, config_text, -1, NULL));
}

void keeper_up(Keeper *k, const char *config_text)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int much = 8 << 20;

	*k = (Keeper){ 0 };
	k->directory = g_dir_make_tmp("keeper-XXXXXX", NULL);
	k->runtime = g_build_filename(k->directory, "run", NULL);
	k->state = g_build_filename(k->directory, "state", NULL);
	k->config = g_build_filename(k->directory, "tracer.conf", NULL);
	keeper_configure(k, config_text);
	k->names = g_ptr_array_new_with_free_func(g_free);
	k->fds = g_array_new(false, false, sizeof(int));
	k->notify = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	(void)setsockopt(k->notify, SOL_SOCKET, SO_RCVBUFFORCE, &much, sizeof(much));
	(void)snprintf(a.sun_path, sizeof(a.sun_path), "%s/notify", k->directory);
	g_assert_cmpint(bind(k->notify, (struct sockaddr *)&a, sizeof(a)), ==, 0);
}

static void forget_at(Keeper *k, guint i)
{
	(void)close(g_array_index(k->fds, int, i));
	g_ptr_array_remove_index(k->names, i);
	g_array_remove_index(k->fds, i);
}

void keeper_forget(Keeper *k)
{
	while (k->fds->len)
		forget_at(k, 0);
}

void keeper_down(Keeper *k)
{
	const char *argv[] = { "rm", "-rf", "--", k->directory, NULL };

	if (k->daemon)
		(void)keeper_end(k, SIGKILL);
	keeper_forget(k);
	g_ptr_array_free(k->names, true);
	g_array_free(k->fds, true);
	(void)close(k->notify);
	(void)g_spawn_sync(NULL, (char **)argv, NULL, G_SPAWN_SEARCH_PATH, NULL, NULL, NULL, NULL, NULL, NULL);
	g_free(k->directory);
	g_free(k->runtime);
	g_free(k->state);
	g_free(k->config);
}

int keeper_fd(const Keeper *k, const char *name)
{
	for (guint i = 0; i < k->names->len; i++)
		if (g_str_equal(g_ptr_array_index(k->names, i), name))
			return g_array_index(k->fds, int, i);
	return -1;
}

u32 keeper_n(const Keeper *k)
{
	return k->fds->len;
}

static const char *value(char **lines, const char *key)
{
	size_t n = strlen(key);

	for (; *lines; lines++)
		if (strncmp(*lines, key, n) == 0 && (*lines)[n] == '=')
			return *lines + n + 1;
	return NULL;
}

/* As systemd does: the newest first, what is stored already once. */
static void learn(Keeper *k, const char *text, int fd)
{
	char **lines = g_strsplit(text, "\n", -1);
	const char *name = value(lines, "FDNAME");

	if (value(lines, "FDSTOREREMOVE") && name) {
		for (guint i = k->names->len; i > 0; i--)
			if (g_str_equal(g_ptr_array_index(k->names, i - 1), name))
				forget_at(k, i - 1);
	} else if (value(lines, "FDSTORE") && fd >= 0) {
		g_ptr_array_insert(k->names, 0, g_strdup(name ? name : "stored"));
		g_array_prepend_val(k->fds, fd);
		fd = -1;
	}
	if (fd >= 0)
		(void)close(fd);
	g_strfreev(lines);
}

/* One message; false: there is none. */
static bool hear_one(Keeper *k, int timeout_ms, char *text, size_t size)
{
	char control[CMSG_SPACE(sizeof(int))];
	struct iovec v = { text, size - 1 };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control) };
	struct pollfd p = { .fd = k->notify, .events = POLLIN };
	struct cmsghdr *c;
	int fd = -1;
	ssize_t n;

	if (poll(&p, 1, timeout_ms) != 1)
		return false;
	n = recvmsg(k->notify, &m, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	if (n < 0)
		return false;
	text[n] = 0;
	c = CMSG_FIRSTHDR(&m);
	if (c && c->cmsg_type == SCM_RIGHTS)
		memcpy(&fd, CMSG_DATA(c), sizeof(fd));
	learn(k, text, fd);
	return true;
}

void keeper_hear(Keeper *k, const char *text)
{
	char message[4096];

	for (;;) {
		if (!hear_one(k, text ? 60000 : 0, message, sizeof(message))) {
			if (text)
				g_error("the daemon did not say %s", text);
			return;
		}
		if (text && strstr(message, text))
			return;
	}
}

static void run(Keeper *k)
{
	GString *names = g_string_new(NULL);
	char *notify = g_build_filename(k->directory, "notify", NULL);
	char number[16];

	/* a test that fails leaves nobody behind */
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (guint i = 0; i < k->fds->len; i++) {
		int fd = fcntl(g_array_index(k->fds, int, i), F_DUPFD, 3000);

		if (fd < 0)
			_exit(125);
		g_array_index(k->fds, int, i) = fd;
	}
	for (guint i = 0; i < k->fds->len; i++) {
		if (dup2(g_array_index(k->fds, int, i), 3 + (int)i) < 0)
			_exit(126);
		(void)close(g_array_index(k->fds, int, i));
		g_string_append_printf(names, "%s%s", i ? ":" : "", (char *)g_ptr_array_index(k->names, i));
	}
	(void)snprintf(number, sizeof(number), "%d", (int)getpid());
	if (k->fds->len) {
		(void)g_setenv("LISTEN_PID", number, true);
		(void)snprintf(number, sizeof(number), "%u", k->fds->len);
		(void)g_setenv("LISTEN_FDS", number, true);
		(void)g_setenv("LISTEN_FDNAMES", names->str, true);
	}
	(void)g_setenv("NOTIFY_SOCKET", notify, true);
	(void)execl(g_getenv("TRACER_TEST_TRACERD"), "tracerd", "--no-bus", "--user", "--config", k->config,
		    "--runtime-directory", k->runtime, "--state-directory", k->state, NULL);
	_exit(127);
}

void keeper_spawn(Keeper *k)
{
	keeper_hear(k, NULL);
	k->daemon = fork();
	if (k->daemon == 0)
		run(k);
	g_assert_cmpint(k->daemon, >, 0);
}

void keeper_start(Keeper *k)
{
	keeper_spawn(k);
	keeper_hear(k, "READY=1");
}

int keeper_end(Keeper *k, int signal)
{
	int status = 0;

	(void)kill(k->daemon, signal);
	/* one that has much to say waits until it is heard */
	while (waitpid(k->daemon, &status, WNOHANG) == 0) {
		char text[4096];

		(void)hear_one(k, 5, text, sizeof(text));
	}
	k->daemon = 0;
	/* what it said before it died is heard */
	keeper_hear(k, NULL);
	return status;
}

/* ---- programs ---- */

void kept_program_start(KeptProgram *p, const Keeper *k)
{
	kept_program_start_other(p, k, g_getenv("TRACER_TEST_SUBJECT"), NULL);
}

void kept_program_start_other(KeptProgram *p, const Keeper *k, const char *path, const char *argument)
{
	int in[2], out[2];
	char line[256];

	g_assert_cmpint(pipe2(in, O_CLOEXEC), ==, 0);
	g_assert_cmpint(pipe2(out, O_CLOEXEC), ==, 0);
	p->pid = fork();
	if (p->pid == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		(void)dup2(in[0], 0);
		(void)dup2(out[1], 1);
		(void)g_setenv("TRACER_RUNTIME_DIR", k->runtime, true);
		/* so that a busy machine is no reason not to be heard */
		(void)g_setenv("TRACER_ATTACH_TIMEOUT", "10000", true);
		(void)execl(path, path, argument, NULL);
		_exit(127);
	}
	(void)close(in[0]);
	(void)close(out[1]);
	p->to = fdopen(in[1], "w");
	p->from = fdopen(out[0], "r");
	g_assert_nonnull(fgets(line, sizeof(line), p->from));
}

void kept_program_tell(KeptProgram *p, const char *line)
{
	(void)fprintf(p->to, "%s\n", line);
	(void)fflush(p->to);
}

const char *kept_program_hear(KeptProgram *p)
{
	static char line[256];

	g_assert_nonnull(fgets(line, sizeof(line), p->from));
	line[strcspn(line, "\n")] = 0;
	return line;
}

const char *kept_program_ask(KeptProgram *p, const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	(void)vfprintf(p->to, format, ap);
	va_end(ap);
	(void)fputc('\n', p->to);
	(void)fflush(p->to);
	return kept_program_hear(p);
}

void kept_program_end(KeptProgram *p)
{
	if (!p->pid)
		return;
	(void)kill(p->pid, SIGKILL);
	(void)waitpid(p->pid, NULL, 0);
	(void)fclose(p->to);
	(void)fclose(p->from);
	*p = (KeptProgram){ 0 };
}

u64 kept_program_exit(KeptProgram *p, const char *line)
{
	char answer[256] = "";
	u64 n = 0;

	kept_program_tell(p, line);
	kept_program_tell(p, "exit 0");
	while (fgets(answer, sizeof(answer), p->from))
		(void)sscanf(answer, "recorded %llu", (unsigned long long *)&n);
	(void)waitpid(p->pid, NULL, 0);
	(void)fclose(p->to);
	(void)fclose(p->from);
	*p = (KeptProgram){ 0 };
	return n;
}

/* ---- what is on disk ---- */

static int compare(gconstpointer a, gconstpointer b)
{
	return g_strcmp0(*(char *const *)a, *(char *const *)b);
}

static char **paths_find(const char *directory, const char *suffix, u32 *ret_n)
{
	GPtrArray *v = g_ptr_array_new();
	GDir *d = g_dir_open(directory, 0, NULL);
	const char *name;

	while (d && (name = g_dir_read_name(d)))
		if (name[0] != '.' && g_str_has_suffix(name, suffix))
			g_ptr_array_add(v, g_build_filename(directory, name, NULL));
	if (d)
		g_dir_close(d);
	g_ptr_array_sort(v, compare);
	*ret_n = v->len;
	g_ptr_array_add(v, NULL);
	return (char **)g_ptr_array_free(v, false);
}

char **paths_await(const char *directory, const char *suffix, u32 n)
{
	int watch = inotify_init1(IN_CLOEXEC);
	gint64 end = g_get_monotonic_time() + 60 * G_USEC_PER_SEC;

	(void)g_mkdir_with_parents(directory, 0755);
	g_assert_cmpint(inotify_add_watch(watch, directory, IN_MOVED_TO | IN_CREATE), >=, 0);
	for (;;) {
		struct pollfd p = { .fd = watch, .events = POLLIN };
		char buffer[4096];
		u32 found;
		char **v = paths_find(directory, suffix, &found);

		if (found >= n) {
			(void)close(watch);
			return v;
		}
		g_strfreev(v);
		if (g_get_monotonic_time() > end || poll(&p, 1, 60000) != 1)
			g_error("%s: waited in vain for %u of *%s", directory, n, suffix);
		(void)!read(watch, buffer, sizeof(buffer));
	}
}

GHashTable *trace_records(const char *path, const char *event)
{
	const char *argv[] = { "babeltrace2", path, NULL };
	GHashTable *all = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
	char *out = NULL, *err = NULL, *rest = NULL;
	int status;

	g_assert_true(g_spawn_sync(NULL, (char **)argv, NULL, G_SPAWN_SEARCH_PATH, NULL, NULL, &out, &err, &status,
				   NULL));
	if (status)
		g_error("%s: %s", path, err);
	/* not g_strsplit(), whose strstr() a sanitizer makes quadratic */
	for (char *l = strtok_r(out, "\n", &rest); l; l = strtok_r(NULL, "\n", &rest)) {
		const char *number = strstr(l, "number = "), *pid = strstr(l, "vpid = ");
		char *key;

		if (!number || !pid || !strstr(l, event))
			continue;
		key = g_strdup_printf("%ld %llu", atol(pid + 7), strtoull(number + 9, NULL, 10));
		if (!g_hash_table_add(all, key))
			g_error("%s: twice: %s", path, l);
	}
	g_free(out);
	g_free(err);
	return all;
}

GArray *trace_numbers(const char *path, const char *event)
{
	const char *argv[] = { "babeltrace2", path, NULL };
	GArray *v = g_array_new(false, false, sizeof(u64));
	char *out = NULL, *err = NULL;
	int status;

	g_assert_true(g_spawn_sync(NULL, (char **)argv, NULL, G_SPAWN_SEARCH_PATH, NULL, NULL, &out, &err, &status,
				   NULL));
	if (status)
		g_error("%s: %s", path, err);
	for (char *line = out; *line;) {
		char *end = strchr(line, '\n'), *at;

		if (end)
			*end++ = 0;
		else
			end = line + strlen(line);
		at = strstr(line, event) ? strstr(line, "number = ") : NULL;
		if (at) {
			u64 n = g_ascii_strtoull(at + 9, NULL, 10);

			g_array_append_val(v, n);
		}
		line = end;
	}
	g_free(out);
	g_free(err);
	return v;
}
