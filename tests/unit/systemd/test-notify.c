/* SPDX-License-Identifier: MIT */
#include "lib/base.h"
#include "systemd/fdstore.h"
#include "systemd/notify.h"

#include <fcntl.h>
#include <glib.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

/* What the service manager is to us: a datagram socket. */
static int manager_socket(void)
{
	g_autofree char *directory = g_build_filename(g_get_tmp_dir(), "test-notify-XXXXXX", NULL);
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	g_assert_nonnull(g_mkdtemp(directory));
	g_snprintf(a.sun_path, sizeof(a.sun_path), "%s/s", directory);
	g_assert_cmpint(bind(fd, (struct sockaddr *)&a, sizeof(a)), ==, 0);
	g_setenv("NOTIFY_SOCKET", a.sun_path, TRUE);
	return fd;
}

static void manager_done(int fd)
{
	const char *path = g_getenv("NOTIFY_SOCKET");
	g_autofree char *directory = g_path_get_dirname(path);

	(void)unlink(path);
	(void)rmdir(directory);
	g_unsetenv("NOTIFY_SOCKET");
	close_fd(fd);
}

static char *heard(int fd)
{
	static char text[4096];
	ssize_t n = recv(fd, text, sizeof(text) - 1, MSG_DONTWAIT);

	g_assert_cmpint(n, >=, 0);
	text[n] = 0;
	return text;
}

static void test_messages(void)
{
	int fd = manager_socket();
	char *text;

	notify_ready();
	g_assert_cmpstr(heard(fd), ==, "READY=1");
	notify_reloading();
	text = heard(fd);
	g_assert_true(g_str_has_prefix(text, "RELOADING=1\nMONOTONIC_USEC="));
	g_assert_cmpuint(g_ascii_strtoull(strrchr(text, '=') + 1, NULL, 10), >, 0);
	notify_stopping();
	g_assert_cmpstr(heard(fd), ==, "STOPPING=1");
	notify_status("%d sessions", 3);
	g_assert_cmpstr(heard(fd), ==, "STATUS=3 sessions");
	manager_done(fd);
}

/* Moves the manager's socket out of the way, as a want of memory does, and back. */
static char *away(void)
{
	char *other = g_strconcat(g_getenv("NOTIFY_SOCKET"), ".away", NULL);

	g_assert_cmpint(rename(g_getenv("NOTIFY_SOCKET"), other), ==, 0);
	return other;
}

static void back(char *other)
{
	g_assert_cmpint(rename(other, g_getenv("NOTIFY_SOCKET")), ==, 0);
	g_free(other);
}

static gpointer back_soon(gpointer other)
{
	g_usleep(30000);
	back(other);
	return NULL;
}

/* systemd ends who does not say that it is ready. */
static void test_ready_is_said_again(void)
{
	int fd = manager_socket();
	GThread *thread = g_thread_new("back", back_soon, away());

	notify_ready();
	g_assert_cmpstr(heard(fd), ==, "READY=1");
	g_thread_join(thread);
	manager_done(fd);
}

/* What is not wanted any more goes out of the store, if not at once. */
static void test_taken_out_later(void)
{
	int fd = manager_socket();
	FdStore store;
	char *other;

	fdstore_init(&store, 3);
	other = away();
	fdstore_remove(&store, "ring-1");
	fdstore_remove(&store, "ring-2");
	g_assert_cmpuint(store.n, ==, 3);
	back(other);
	/* the new one would go with the old one, if that went after it */
	fdstore_remove(&store, "ring-3");
	g_assert_cmpstr(heard(fd), ==, "FDSTOREREMOVE=1\nFDNAME=ring-1");
	g_assert_cmpstr(heard(fd), ==, "FDSTOREREMOVE=1\nFDNAME=ring-2");
	g_assert_cmpstr(heard(fd), ==, "FDSTOREREMOVE=1\nFDNAME=ring-3");
	g_assert_cmpuint(store.n, ==, 0);

	other = away();
	fdstore_remove(&store, "marks");
	g_assert_cmpint(fdstore_put(&store, "marks", fd), ==, -EAGAIN);
	back(other);
	g_assert_cmpint(fdstore_put(&store, "marks", fd), ==, 0);
	g_assert_cmpstr(heard(fd), ==, "FDSTOREREMOVE=1\nFDNAME=marks");
	g_assert_cmpstr(heard(fd), ==, "FDSTORE=1\nFDNAME=marks\nFDPOLL=0");
	fdstore_deinit(&store);
	manager_done(fd);
}

/* A newline in a status would be an assignment: a session called "x\nWATCHDOG=trigger" would end us. */
static void test_status_is_one_line(void)
{
	int fd = manager_socket();

	notify_status("session %s", "x\nWATCHDOG=trigger\r\n");
	g_assert_cmpstr(heard(fd), ==, "STATUS=session x WATCHDOG=trigger  ");
	manager_done(fd);
}

static void test_without_manager(void)
{
	sd_event *event = NULL;

	g_unsetenv("NOTIFY_SOCKET");
	notify_ready();
	notify_status("nobody hears this");
	g_assert_cmpint(sd_event_new(&event), ==, 0);
	g_assert_cmpint(notify_watchdog(event), ==, 0);
	{
		Passed p;

		g_assert_cmpint(passed_receive(&p), ==, 0);
		g_assert_cmpint(passed_take_socket(&p), ==, -1);
		passed_clear(&p);
	}
	sd_event_unref(event);
}

static int on_datagram(sd_event_source *s, int fd, uint32_t events, void *userdata)
{
	char *text = heard(fd);

	g_string_append(userdata, text);
	g_string_append_c(userdata, '\n');
	if (strstr(text, "WATCHDOG=1") != NULL)
		sd_event_exit(sd_event_source_get_event(s), 0);
	return 0;
}

static void test_watchdog(void)
{
	int fd = manager_socket();
	g_autoptr(GString) all = g_string_new(NULL);
	sd_event *event = NULL;
	char pid[16];

	g_snprintf(pid, sizeof(pid), "%d", (int)getpid());
	g_setenv("WATCHDOG_PID", pid, TRUE);
	g_setenv("WATCHDOG_USEC", "400000", TRUE);
	g_assert_cmpint(sd_event_new(&event), ==, 0);
	g_assert_cmpint(notify_watchdog(event), ==, 0);
	g_assert_cmpint(sd_event_add_io(event, NULL, fd, 1 /* EPOLLIN */, on_datagram, all), >=, 0);
	g_assert_cmpint(sd_event_loop(event), ==, 0);
	g_assert_nonnull(strstr(all->str, "WATCHDOG=1"));
	sd_event_unref(event);
	g_unsetenv("WATCHDOG_PID");
	g_unsetenv("WATCHDOG_USEC");
	manager_done(fd);
}

/* One socket of our kind and some that are not, passed as systemd passes them; in a process of its own, which
 * has descriptors 3 and up for them. Exits with the chosen descriptor. */
static int passed(const char *names, const int *kinds, int n)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		char text[16];
		Passed p;
		int r;

		for (int i = 0; i < n; i++) {
			int fd = socket(AF_UNIX, kinds[i], 0);
			struct sockaddr_un a = { .sun_family = AF_UNIX };

			/* the abstract autobind address: nothing is left in the file system */
			if (bind(fd, (struct sockaddr *)&a, sizeof(sa_family_t)) < 0 ||
			    (kinds[i] != SOCK_DGRAM && listen(fd, 1) < 0))
				_exit(100);
			if (dup2(fd, 20 + i) < 0)
				_exit(101);
			close(fd);
		}
		for (int i = 0; i < n; i++)
			if (dup2(20 + i, 3 + i) < 0 || close(20 + i) < 0)
				_exit(102);
		g_snprintf(text, sizeof(text), "%d", (int)getpid());
		g_setenv("LISTEN_PID", text, TRUE);
		g_snprintf(text, sizeof(text), "%d", n);
		g_setenv("LISTEN_FDS", text, TRUE);
		if (names)
			g_setenv("LISTEN_FDNAMES", names, TRUE);
		if (passed_receive(&p) < 0)
			_exit(106);
		r = passed_take_socket(&p);
		passed_clear(&p);
		if (g_getenv("LISTEN_FDS"))
			_exit(103); /* a child of ours would take them for its own */
		for (int i = 0; i < n; i++)
			if (3 + i != r && fcntl(3 + i, F_GETFD) >= 0)
				_exit(104);
		_exit(r < 0 ? 105 : r);
	}
	g_assert_cmpint(waitpid(pid, &status, 0), ==, pid);
	g_assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void test_listen(void)
{
	g_assert_cmpint(passed("producer", (int[]){ SOCK_SEQPACKET }, 1), ==, 3);
	g_assert_cmpint(passed("other:producer", (int[]){ SOCK_SEQPACKET, SOCK_SEQPACKET }, 2), ==, 4);
	/* no name, another name: the first that fits */
	g_assert_cmpint(passed(NULL, (int[]){ SOCK_STREAM, SOCK_SEQPACKET }, 2), ==, 4);
	g_assert_cmpint(passed("a:b", (int[]){ SOCK_DGRAM, SOCK_SEQPACKET }, 2), ==, 4);
	/* the right name on the wrong kind is not ours */
	g_assert_cmpint(passed("producer", (int[]){ SOCK_STREAM }, 1), ==, 105);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/systemd/notify/messages", test_messages);
	g_test_add_func("/systemd/notify/ready-is-said-again", test_ready_is_said_again);
	g_test_add_func("/systemd/notify/taken-out-later", test_taken_out_later);
	g_test_add_func("/systemd/notify/status-is-one-line", test_status_is_one_line);
	g_test_add_func("/systemd/notify/without-manager", test_without_manager);
	g_test_add_func("/systemd/notify/watchdog", test_watchdog);
	g_test_add_func("/systemd/notify/listen", test_listen);
	return g_test_run();
}
