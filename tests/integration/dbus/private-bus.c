/* SPDX-License-Identifier: MIT */
#include "tests/integration/dbus/private-bus.h"

#include <fcntl.h>
#include <glib/gstdio.h>
#include <grp.h>
#include <pwd.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>

/* Everything here is a matter of milliseconds; this only ends a test that hangs. */
#define PATIENCE_USEC (30 * 1000000ull)

/* ---- accounts ---- */

static bool file_amend(const char *path, const char *line)
{
	char *text = NULL, *name = NULL, *amended;
	GError *error = NULL;
	bool ok;
	int fd;

	if (!g_file_get_contents(path, &text, NULL, &error))
		return false;
	amended = g_strconcat(text, line, NULL);
	fd = g_file_open_tmp("tracer-accounts-XXXXXX", &name, NULL);
	ok = fd >= 0 && write(fd, amended, strlen(amended)) == (ssize_t)strlen(amended) && fchmod(fd, 0644) == 0 &&
	     mount(name, path, NULL, MS_BIND, NULL) == 0;
	if (fd >= 0)
		close(fd);
	if (name)
		unlink(name); /* the mount keeps it */
	g_free(text);
	g_free(amended);
	g_free(name);
	return ok;
}

void accounts_prepare(void)
{
	if (geteuid() != 0 || (getgrnam("tracing") && getpwnam("tracer")))
		return;
	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		return;
	if (!getgrnam("tracing"))
		(void)file_amend("/etc/group", "tracing:x:54321:\n");
	if (!getpwnam("tracer"))
		(void)file_amend("/etc/passwd", "tracer:x:54322:54321::/:/usr/sbin/nologin\n");
}

bool accounts_there(void)
{
	return geteuid() == 0 && getgrnam("tracing") && getpwnam("tracer");
}

gid_t accounts_tracing(void)
{
	return getgrnam("tracing")->gr_gid;
}

uid_t accounts_tracer(void)
{
	return getpwnam("tracer")->pw_uid;
}

/* ---- the daemon ---- */

static int on_patience(sd_event_source *source, uint64_t usec, void *userdata)
{
	g_error("nothing happens any more");
	return 0;
}

PrivateBus *private_bus_new(const char *policy)
{
	PrivateBus *b = g_new0(PrivateBus, 1);

	b->directory = g_dir_make_tmp("tracer-bus-XXXXXX", NULL);
	g_assert_nonnull(b->directory);
	g_assert_cmpint(chmod(b->directory, 0755), ==, 0);
	b->address = g_strdup_printf("unix:path=%s/bus", b->directory);
	b->policy = g_strdup(policy);
	g_assert_cmpint(sd_event_new(&b->event), >=, 0);
	b->manager = fake_manager_new();
	return b;
}

static void configuration_write(PrivateBus *b, const char *path)
{
	static const char open_policy[] = "<policy context='default'><allow user='*'/><allow own='*'/>"
					  "<allow send_destination='*' eavesdrop='true'/>"
					  "<allow eavesdrop='true'/></policy>";
	/* as system.conf has it: nothing, but what a file allows */
	static const char system_policy[] =
		"<policy context='default'><allow user='*'/><deny own='*'/><deny send_type='method_call'/>"
		"<allow send_type='signal'/><allow send_requested_reply='true' send_type='method_return'/>"
		"<allow send_requested_reply='true' send_type='error'/><allow receive_type='method_call'/>"
		"<allow receive_type='method_return'/><allow receive_type='error'/><allow receive_type='signal'/>"
		"<allow send_destination='org.freedesktop.DBus'/></policy>";
	char *include = b->policy ? g_strdup_printf("<include>%s</include>", b->policy) : g_strdup("");
	char *text = g_strdup_printf("<busconfig><type>custom</type><listen>%s</listen><auth>EXTERNAL</auth>"
				     "%s%s<limit name='max_message_unix_fds'>16</limit></busconfig>",
				     b->address, b->policy ? system_policy : open_policy, include);

	g_assert_true(g_file_set_contents(path, text, -1, NULL));
	g_free(text);
	g_free(include);
}

void private_bus_start(PrivateBus *b)
{
	char *path = g_build_filename(b->directory, "bus.conf", NULL), line[256];
	char *argument = g_strconcat("--config-file=", path, NULL);
	int fds[2];
	ssize_t n;

	configuration_write(b, path);
	g_assert_cmpint(pipe2(fds, O_CLOEXEC), ==, 0);
	b->pid = fork();
	g_assert_cmpint(b->pid, >=, 0);
	if (b->pid == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		(void)dup2(fds[1], 3);
		(void)execlp("dbus-daemon", "dbus-daemon", argument, "--nofork", "--print-address=3", NULL);
		_exit(127);
	}
	close(fds[1]);
	n = read(fds[0], line, sizeof(line));
	g_assert_cmpint(n, >, 0); /* dbus-daemon is there, and likes the configuration */
	close(fds[0]);
	g_free(argument);
	g_free(path);
}

void private_bus_stop(PrivateBus *b)
{
	if (b->pid <= 0)
		return;
	kill(b->pid, SIGKILL);
	while (waitpid(b->pid, NULL, 0) < 0 && errno == EINTR)
		;
	b->pid = 0;
	/* as a crash leaves it: the socket stays, and refuses; the next daemon puts its own there */
	if (b->caller) {
		sd_bus_detach_event(b->caller);
		b->caller = sd_bus_close_unref(b->caller);
	}
}

void private_bus_free(PrivateBus *b)
{
	char *path;

	b->service = bus_free(b->service);
	b->manager = manager_free(b->manager);
	private_bus_stop(b);
	sd_event_unref(b->event);
	path = g_build_filename(b->directory, "bus", NULL);
	g_unlink(path);
	g_free(path);
	path = g_build_filename(b->directory, "bus.conf", NULL);
	g_unlink(path);
	g_free(path);
	g_rmdir(b->directory);
	g_free(b->directory);
	g_free(b->address);
	g_free(b->policy);
	g_free(b);
}

sd_bus *private_bus_connect(PrivateBus *b, uid_t uid, gid_t group)
{
	gid_t groups[2] = { uid, group };
	bool other = uid != geteuid();
	sd_bus *bus = NULL;

	/* The kernel notes who connects, at the moment of connecting. */
	if (other) {
		g_assert_cmpint(setgroups(group ? 2 : 1, groups), ==, 0);
		g_assert_cmpint(setegid(uid), ==, 0);
		g_assert_cmpint(seteuid(uid), ==, 0);
	}
	g_assert_cmpint(sd_bus_new(&bus), >=, 0);
	g_assert_cmpint(sd_bus_set_address(bus, b->address), >=, 0);
	g_assert_cmpint(sd_bus_set_bus_client(bus, true), >=, 0);
	g_assert_cmpint(sd_bus_start(bus), >=, 0);
	g_assert_cmpint(sd_bus_get_unique_name(bus, &(const char *){ NULL }), >=, 0); /* waits for the handshake */
	if (other) {
		g_assert_cmpint(seteuid(0), ==, 0);
		g_assert_cmpint(setegid(0), ==, 0);
		g_assert_cmpint(setgroups(0, NULL), ==, 0);
	}
	g_assert_cmpint(sd_bus_attach_event(bus, b->event, 0), >=, 0);
	return bus;
}

static sd_bus *caller(PrivateBus *b)
{
	if (!b->caller)
		b->caller = private_bus_connect(b, geteuid(), 0);
	return b->caller;
}

void private_bus_await(PrivateBus *b, const bool *flag)
{
	sd_event_source *patience = NULL;

	g_assert_cmpint(sd_event_add_time_relative(b->event, &patience, CLOCK_MONOTONIC, PATIENCE_USEC, 0,
						   on_patience, NULL),
			>=, 0);
	while (!*flag)
		g_assert_cmpint(sd_event_run(b->event, UINT64_MAX), >=, 0);
	sd_event_source_disable_unref(patience);
}

typedef struct {
	bool wanted, done;
} NameWait;

static int on_owner_changed(sd_bus_message *m, void *userdata, sd_bus_error *error)
{
	const char *name, *old, *new;
	NameWait *w = userdata;

	if (sd_bus_message_read(m, "sss", &name, &old, &new) >= 0)
		w->done |= (*new != 0) == w->wanted;
	return 0;
}

static int on_has_owner(sd_bus_message *m, void *userdata, sd_bus_error *error)
{
	NameWait *w = userdata;
	int owned;

	if (sd_bus_message_read(m, "b", &owned) >= 0)
		w->done |= (owned != 0) == w->wanted;
	return 0;
}

void private_bus_await_name(PrivateBus *b, const char *name, bool owned)
{
	char *match = g_strdup_printf("type='signal',sender='org.freedesktop.DBus',"
				      "member='NameOwnerChanged',arg0='%s'",
				      name);
	NameWait w = { .wanted = owned };
	sd_bus_slot *slot = NULL;

	g_assert_cmpint(sd_bus_add_match_async(caller(b), &slot, match, on_owner_changed, NULL, &w), >=, 0);
	g_assert_cmpint(sd_bus_call_method_async(caller(b), NULL, "org.freedesktop.DBus", "/org/freedesktop/DBus",
						 "org.freedesktop.DBus", "NameHasOwner", on_has_owner, &w, "s", name),
			>=, 0);
	private_bus_await(b, &w.done);
	sd_bus_slot_unref(slot);
	g_free(match);
}

void private_bus_serve(PrivateBus *b)
{
	g_assert_cmpint(bus_new(&b->service, b->event, b->manager, b->address, false), >=, 0);
	if (b->pid > 0)
		private_bus_await_name(b, BUS_NAME, true);
}

/* ---- calls ---- */

void answer_clear(Answer *a)
{
	g_free(a->error);
	g_free(a->text);
	sd_bus_message_unref(a->reply);
	*a = (Answer){ 0 };
}

static int on_answer(sd_bus_message *m, void *userdata, sd_bus_error *error)
{
	const sd_bus_error *e = sd_bus_message_get_error(m);
	Answer *a = userdata;

	a->error = e ? g_strdup(e->name) : NULL;
	a->text = e ? g_strdup(e->message) : NULL;
	a->reply = sd_bus_message_ref(m);
	a->done = true;
	return 1;
}

static void call_va(sd_bus *from, Answer *a, const char *path, const char *interface, const char *member,
		    const char *types, va_list ap)
{
	sd_bus_message *m = NULL;

	answer_clear(a);
	g_assert_cmpint(sd_bus_message_new_method_call(from, &m, BUS_NAME, path ? path : BUS_PATH,
						       interface ? interface : BUS_MANAGER_INTERFACE, member),
			>=, 0);
	if (types)
		g_assert_cmpint(sd_bus_message_appendv(m, types, ap), >=, 0);
	g_assert_cmpint(sd_bus_call_async(from, NULL, m, on_answer, a, PATIENCE_USEC), >=, 0);
	sd_bus_message_unref(m);
}

void private_bus_call(sd_bus *from, Answer *a, const char *path, const char *interface, const char *member,
		      const char *types, ...)
{
	va_list ap;

	va_start(ap, types);
	call_va(from, a, path, interface, member, types, ap);
	va_end(ap);
}

void private_bus_ask(PrivateBus *b, sd_bus *from, Answer *a, const char *path, const char *interface,
		     const char *member, const char *types, ...)
{
	va_list ap;

	va_start(ap, types);
	call_va(from ? from : caller(b), a, path, interface, member, types, ap);
	va_end(ap);
	private_bus_await(b, &a->done);
}

/* ---- programs ---- */

void ran_clear(Ran *r)
{
	g_free(r->out);
	g_free(r->err);
	*r = (Ran){ 0 };
}

typedef struct {
	GString *text;
	sd_event_source *source;
	bool ended;
} Stream;

static int on_readable(sd_event_source *source, int fd, uint32_t events, void *userdata)
{
	Stream *s = userdata;
	char buffer[4096];
	ssize_t n = read(fd, buffer, sizeof(buffer));

	if (n > 0) {
		g_string_append_len(s->text, buffer, n);
		return 0;
	}
	s->ended = true;
	return sd_event_source_set_enabled(source, SD_EVENT_OFF);
}

static int stream_open(PrivateBus *b, Stream *s)
{
	int fds[2];

	g_assert_cmpint(pipe2(fds, O_CLOEXEC), ==, 0);
	s->text = g_string_new("");
	g_assert_cmpint(sd_event_add_io(b->event, &s->source, fds[0], EPOLLIN, on_readable, s), >=, 0);
	g_assert_cmpint(sd_event_source_set_io_fd_own(s->source, true), >=, 0);
	return fds[1];
}

/* standard input as a file, so that nobody has to feed it */
static int input_open(const char *text)
{
	int fd = memfd_create("input", MFD_CLOEXEC);

	g_assert_cmpint(fd, >=, 0);
	if (text)
		g_assert_cmpint(write(fd, text, strlen(text)), ==, (ssize_t)strlen(text));
	(void)lseek(fd, 0, SEEK_SET);
	return fd;
}

Ran private_bus_run(PrivateBus *b, const char *input, const char *const *argv)
{
	Stream out = { 0 }, err = { 0 };
	int out_fd = stream_open(b, &out), err_fd = stream_open(b, &err), in_fd = input_open(input);
	pid_t pid = fork();
	int status;
	Ran r;

	g_assert_cmpint(pid, >=, 0);
	if (pid == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		(void)dup2(in_fd, 0);
		(void)dup2(out_fd, 1);
		(void)dup2(err_fd, 2);
		(void)execvp(argv[0], (char **)argv);
		_exit(126);
	}
	close(out_fd);
	close(err_fd);
	close(in_fd);
	private_bus_await(b, &out.ended);
	private_bus_await(b, &err.ended);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	sd_event_source_disable_unref(out.source);
	sd_event_source_disable_unref(err.source);
	r.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
	r.out = g_string_free(out.text, FALSE);
	r.err = g_string_free(err.text, FALSE);
	return r;
}
