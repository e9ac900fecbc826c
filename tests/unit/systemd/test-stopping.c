/* SPDX-License-Identifier: MIT */
/* Whether this is a restart is asked of a bus that may be dead, mute, or not there: the answer is then no, and soon. */
#include "systemd/stopping.h"

#include <glib.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static char *directory, *path;

static void address_set(void)
{
	g_autofree char *address = g_strdup_printf("unix:path=%s", path);

	(void)g_setenv("DBUS_SYSTEM_BUS_ADDRESS", address, true);
	(void)g_setenv("DBUS_SESSION_BUS_ADDRESS", address, true);
}

static void test_none(void)
{
	address_set();
	g_assert_false(stopping_is_restart(false));
	g_assert_false(stopping_is_restart(true));
}

static void test_no_manager(void)
{
	(void)g_unsetenv("NOTIFY_SOCKET");
	g_assert_false(stopping_is_restart(false));
	(void)g_setenv("NOTIFY_SOCKET", "/nowhere", true);
}

/* It takes connections and says nothing: as one that is stopped, or that waits for us. A timeout of this test's is an endless wait. */
static void test_mute(const void *user)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	(void)g_strlcpy(a.sun_path, path, sizeof(a.sun_path));
	g_assert_cmpint(bind(fd, (struct sockaddr *)&a, sizeof(a)), ==, 0);
	g_assert_cmpint(listen(fd, 5), ==, 0);
	address_set();
	/* libsystemd gives up by itself after some twenty-five seconds */
	(void)alarm(20);
	g_assert_false(stopping_is_restart(user != NULL));
	(void)alarm(0);
	(void)close(fd);
	(void)unlink(path);
}

int main(int argc, char **argv)
{
	int r;

	g_test_init(&argc, &argv, NULL);
	directory = g_dir_make_tmp("stopping-XXXXXX", NULL);
	path = g_build_filename(directory, "bus", NULL);
	(void)g_setenv("NOTIFY_SOCKET", "/nowhere", true);
	g_test_add_func("/stopping/none", test_none);
	g_test_add_func("/stopping/no-manager", test_no_manager);
	g_test_add_data_func("/stopping/mute/system", NULL, test_mute);
	g_test_add_data_func("/stopping/mute/user", "user", test_mute);
	r = g_test_run();
	(void)rmdir(directory);
	g_free(path);
	g_free(directory);
	return r;
}
