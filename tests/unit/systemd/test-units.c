/* SPDX-License-Identifier: MIT */
/* A private bus, and on it a double of systemd that says what the real one was seen to say. Both ends run in
 * one loop, so that every case waits for its event and for nothing else. */
#include "lib/base.h"
#include "systemd/units.h"

#include <glib.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <systemd/sd-bus.h>

#define MANAGER_PATH "/org/freedesktop/systemd1"

typedef struct {
	char *directory, *address;
	pid_t daemon;
	sd_event *event;
	sd_bus *systemd; /* the double's connection */
	UnitWatch *watch;
	GString *heard;	 /* "unit=result " for each report */
	unsigned n_subscribed, n_listed, n_heard;
	const char *failed_now; /* what ListUnits tells */
	pid_t main_pid;
} Fixture;

static int on_subscribe(sd_bus_message *m, void *userdata, sd_bus_error *e)
{
	((Fixture *)userdata)->n_subscribed++;
	return sd_bus_reply_method_return(m, NULL);
}

static int on_list(sd_bus_message *m, void *userdata, sd_bus_error *e)
{
	_cleanup_(sd_bus_message_unrefp) sd_bus_message *reply = NULL;
	Fixture *f = userdata;

	f->n_listed++;
	g_assert_cmpint(sd_bus_message_new_method_return(m, &reply), >=, 0);
	g_assert_cmpint(sd_bus_message_open_container(reply, 'a', "(ssssssouso)"), >=, 0);
	if (f->failed_now)
		g_assert_cmpint(sd_bus_message_append(reply, "(ssssssouso)", f->failed_now, "", "loaded", "failed",
						      "failed", "", "/u", 0, "", "/"), >=, 0);
	g_assert_cmpint(sd_bus_message_close_container(reply), >=, 0);
	return sd_bus_send(NULL, reply, NULL);
}

static const sd_bus_vtable manager_vtable[] = {
	SD_BUS_VTABLE_START(0),
	SD_BUS_METHOD("Subscribe", NULL, NULL, on_subscribe, SD_BUS_VTABLE_UNPRIVILEGED),
	SD_BUS_METHOD("ListUnitsByPatterns", "asas", "a(ssssssouso)", on_list, SD_BUS_VTABLE_UNPRIVILEGED),
	SD_BUS_VTABLE_END,
};

static void bus_start(Fixture *f)
{
	g_autofree char *config = g_build_filename(f->directory, "bus.conf", NULL);
	g_autofree char *text = g_strdup_printf(
		"<busconfig><type>custom</type><listen>unix:path=%s/bus</listen><policy context='default'>"
		"<allow user='*'/><allow own='*'/><allow send_destination='*' eavesdrop='true'/>"
		"<allow receive_sender='*'/></policy></busconfig>", f->directory);
	int ready[2];
	char line[512];

	g_assert_true(g_file_set_contents(config, text, -1, NULL));
	g_assert_cmpint(pipe(ready), ==, 0);
	f->daemon = fork();
	if (f->daemon == 0) {
		g_autofree char *option = g_strdup_printf("--config-file=%s", config);
		g_autofree char *print = g_strdup_printf("--print-address=%d", ready[1]);

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(ready[0]);
		execlp("dbus-daemon", "dbus-daemon", option, "--nofork", print, NULL);
		_exit(127);
	}
	close(ready[1]);
	g_assert_cmpint(read(ready[0], line, sizeof(line)), >, 0); /* its address: it listens */
	close(ready[0]);
}

static void bus_stop(Fixture *f)
{
	kill(f->daemon, SIGKILL);
	g_assert_cmpint(waitpid(f->daemon, NULL, 0), ==, f->daemon);
}

static void systemd_start(Fixture *f)
{
	g_assert_cmpint(sd_bus_new(&f->systemd), >=, 0);
	g_assert_cmpint(sd_bus_set_address(f->systemd, f->address), >=, 0);
	g_assert_cmpint(sd_bus_set_bus_client(f->systemd, 1), >=, 0);
	g_assert_cmpint(sd_bus_start(f->systemd), >=, 0);
	g_assert_cmpint(sd_bus_add_object_vtable(f->systemd, NULL, MANAGER_PATH, "org.freedesktop.systemd1.Manager",
						 manager_vtable, f), >=, 0);
	g_assert_cmpint(sd_bus_request_name(f->systemd, "org.freedesktop.systemd1", 0), >=, 0);
	g_assert_cmpint(sd_bus_attach_event(f->systemd, f->event, 0), >=, 0);
}

static void on_failed(void *userdata, const char *unit, const char *result, pid_t main_pid)
{
	Fixture *f = userdata;

	g_string_append_printf(f->heard, "%s=%s ", unit, result);
	if (main_pid)
		f->main_pid = main_pid;
	f->n_heard++;
}

static int on_deadline(sd_event_source *s, uint64_t usec, void *userdata)
{
	g_error("waited 10 s for an event that did not come");
	return 0;
}

/* Runs the loop until *n has come to `wanted`. */
static void until(Fixture *f, const unsigned *n, unsigned wanted)
{
	sd_event_source *deadline = NULL;

	g_assert_cmpint(sd_event_add_time_relative(f->event, &deadline, CLOCK_MONOTONIC, 10000000, 1000, on_deadline,
						   NULL), >=, 0);
	while (*n < wanted)
		g_assert_cmpint(sd_event_run(f->event, UINT64_MAX), >=, 0);
	sd_event_source_disable_unref(deadline);
}

static void fixture_up(Fixture *f)
{
	g_autofree char *template = g_build_filename(g_get_tmp_dir(), "test-units-XXXXXX", NULL);

	*f = (Fixture){ .heard = g_string_new(NULL) };
	f->directory = g_strdup(g_mkdtemp(template));
	f->address = g_strdup_printf("unix:path=%s/bus", f->directory);
	g_setenv("DBUS_SYSTEM_BUS_ADDRESS", f->address, TRUE);
	g_assert_cmpint(sd_event_new(&f->event), ==, 0);
}

static void fixture_watch(Fixture *f)
{
	g_assert_cmpint(unit_watch_new(&f->watch, f->event, on_failed, f), ==, 0);
}

static void fixture_down(Fixture *f)
{
	g_autofree char *config = g_build_filename(f->directory, "bus.conf", NULL);
	g_autofree char *socket = g_build_filename(f->directory, "bus", NULL);

	f->watch = unit_watch_free(f->watch);
	sd_bus_close_unref(f->systemd);
	bus_stop(f);
	sd_event_unref(f->event);
	(void)unlink(config);
	(void)unlink(socket);
	g_assert_cmpint(rmdir(f->directory), ==, 0);
	g_free(f->directory);
	g_free(f->address);
	g_string_free(f->heard, TRUE);
}

static void say_service(Fixture *f, const char *unit, const char *result, unsigned n_restarts)
{
	_cleanup_free_ char *path = NULL;

	g_assert_cmpint(sd_bus_path_encode(MANAGER_PATH "/unit", unit, &path), >=, 0);
	g_assert_cmpint(sd_bus_emit_signal(f->systemd, path, "org.freedesktop.DBus.Properties", "PropertiesChanged",
					   "sa{sv}as", "org.freedesktop.systemd1.Service", 4, "MainPID", "u", 0, "ExecMainPID", "u", 4711,
					   "Result", "s", result, "NRestarts", "u", n_restarts, 1, "ExecStart"), >=, 0);
}

static void say_unit(Fixture *f, const char *unit, const char *active, const char *sub)
{
	_cleanup_free_ char *path = NULL;

	g_assert_cmpint(sd_bus_path_encode(MANAGER_PATH "/unit", unit, &path), >=, 0);
	g_assert_cmpint(sd_bus_emit_signal(f->systemd, path, "org.freedesktop.DBus.Properties", "PropertiesChanged",
					   "sa{sv}as", "org.freedesktop.systemd1.Unit", 2, "ActiveState", "s", active,
					   "SubState", "s", sub, 0), >=, 0);
}

/* Everything said before has been heard when this failure has. Each time another unit: what is said of it
 * afterwards may be lost with a bus that ends. */
static void settle(Fixture *f)
{
	static unsigned turn;
	g_autofree char *unit = g_strdup_printf("settle-%u.mount", turn++);
	g_autofree char *text = g_strdup_printf("%s=failed ", unit);

	say_unit(f, unit, "failed", "failed");
	/* reports of what came before may be among it, so wait for the text */
	while (!g_str_has_suffix(f->heard->str, text))
		until(f, &f->n_heard, f->n_heard + 1);
	g_string_truncate(f->heard, f->heard->len - strlen(text));
}

static void start(Fixture *f)
{
	fixture_up(f);
	bus_start(f);
	systemd_start(f);
	fixture_watch(f);
	until(f, &f->n_listed, 1);
}

static void test_edges(void)
{
	Fixture f;

	start(&f);
	/* a crash, and what is repeated afterwards */
	say_service(&f, "a@x.service", "core-dump", 0);
	say_unit(&f, "a@x.service", "failed", "failed");
	say_service(&f, "a@x.service", "core-dump", 0);
	say_unit(&f, "a@x.service", "failed", "failed");
	settle(&f);
	g_assert_cmpstr(f.heard->str, ==, "a@x.service=core-dump ");
	g_assert_cmpint(f.main_pid, ==, 4711);

	/* started again by hand, well, ended well */
	say_service(&f, "a@x.service", "success", 0);
	say_unit(&f, "a@x.service", "active", "running");
	say_unit(&f, "a@x.service", "inactive", "dead");
	settle(&f);
	g_assert_cmpstr(f.heard->str, ==, "a@x.service=core-dump ");

	/* and again a failure, of another kind */
	say_service(&f, "a@x.service", "exit-code", 0);
	say_unit(&f, "a@x.service", "failed", "failed");
	settle(&f);
	g_assert_cmpstr(f.heard->str, ==, "a@x.service=core-dump a@x.service=exit-code ");
	fixture_down(&f);
}

static void test_restarts(void)
{
	Fixture f;

	start(&f);
	for (unsigned i = 0; i < 3; i++) {
		say_service(&f, "r.service", "signal", i);
		say_unit(&f, "r.service", "failed", "failed");
		say_unit(&f, "r.service", "activating", "auto-restart");
		say_service(&f, "r.service", "signal", i + 1);
		say_unit(&f, "r.service", "activating", "auto-restart");
		say_service(&f, "r.service", "success", i + 1);
		say_unit(&f, "r.service", "active", "running");
	}
	settle(&f);
	g_assert_cmpstr(f.heard->str, ==, "r.service=signal r.service=signal r.service=signal ");
	fixture_down(&f);
}

/* systemd sends what is true when it gets round to it: the failed state itself may be over by then. */
static void test_hidden_restart(void)
{
	Fixture f;

	start(&f);
	say_service(&f, "h.service", "signal", 0);
	say_unit(&f, "h.service", "activating", "auto-restart");
	say_service(&f, "h.service", "signal", 1);
	say_unit(&f, "h.service", "activating", "auto-restart");
	settle(&f);
	g_assert_cmpstr(f.heard->str, ==, "h.service=signal ");

	/* Restart=always counts a clean end too */
	say_service(&f, "h.service", "success", 1);
	say_unit(&f, "h.service", "active", "running");
	say_service(&f, "h.service", "success", 2);
	say_unit(&f, "h.service", "activating", "auto-restart");
	settle(&f);
	g_assert_cmpstr(f.heard->str, ==, "h.service=signal ");
	fixture_down(&f);
}

/* What was failed before we came is not news; what failed while we were away is. */
static void test_reconnect(void)
{
	Fixture f;
	unsigned listed;

	fixture_up(&f);
	bus_start(&f);
	systemd_start(&f);
	f.failed_now = "old.service";
	fixture_watch(&f);
	until(&f, &f.n_listed, 1);
	say_unit(&f, "old.service", "failed", "failed");
	settle(&f);
	g_assert_cmpstr(f.heard->str, ==, "");

	sd_bus_close_unref(f.systemd);
	bus_stop(&f);
	listed = f.n_listed;
	f.failed_now = "new.service";
	bus_start(&f);
	systemd_start(&f);
	until(&f, &f.n_listed, listed + 1);
	until(&f, &f.n_heard, 1);
	settle(&f);
	g_assert_cmpstr(f.heard->str, ==, "new.service=failed ");

	say_service(&f, "later.service", "oom-kill", 0);
	say_unit(&f, "later.service", "failed", "failed");
	settle(&f);
	g_assert_cmpstr(f.heard->str, ==, "new.service=failed later.service=oom-kill ");
	fixture_down(&f);
}

/* Before the bus, and a bus before its systemd: both come later. */
static void test_early(void)
{
	Fixture f;

	fixture_up(&f);
	fixture_watch(&f);
	g_assert_cmpint(sd_event_run(f.event, 0), >=, 0);
	bus_start(&f);
	systemd_start(&f);
	until(&f, &f.n_listed, 1);
	say_service(&f, "e.service", "watchdog", 0);
	say_unit(&f, "e.service", "failed", "failed");
	settle(&f);
	g_assert_cmpstr(f.heard->str, ==, "e.service=watchdog ");
	fixture_down(&f);
}

static void test_nonsense(void)
{
	Fixture f;

	start(&f);
	g_assert_cmpint(sd_bus_emit_signal(f.systemd, MANAGER_PATH "/unit/x_2eservice",
					   "org.freedesktop.DBus.Properties", "PropertiesChanged", "sa{sv}as",
					   "org.freedesktop.systemd1.Unit", 1, "ActiveState", "u", 7, 0), >=, 0);
	g_assert_cmpint(sd_bus_emit_signal(f.systemd, MANAGER_PATH "/unit/x_2eservice",
					   "org.freedesktop.DBus.Properties", "PropertiesChanged", "u", 1), >=, 0);
	g_assert_cmpint(sd_bus_emit_signal(f.systemd, MANAGER_PATH "/unit/x_2eservice",
					   "org.freedesktop.DBus.Properties", "PropertiesChanged", "sa{sv}as",
					   "org.freedesktop.systemd1.Service", 2, "Result", "t", (uint64_t)1, "NRestarts",
					   "s", "x", 0), >=, 0);
	settle(&f);
	g_assert_cmpstr(f.heard->str, ==, "");
	fixture_down(&f);
}

static void test_unit_of_pid(void)
{
	_cleanup_free_ char *unit = NULL;
	int r = unit_of_pid(getpid(), &unit);

	/* the machine that tests may or may not be one of systemd's */
	if (r == 0)
		g_assert_nonnull(strchr(unit, '.'));
	else
		g_assert_cmpint(r, ==, -ENODATA);
	/* no such process */
	g_assert_cmpint(unit_of_pid(0x3FFFFFFF, &unit), <, 0);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/systemd/units/unit-of-pid", test_unit_of_pid);
	g_test_add_func("/systemd/units/edges", test_edges);
	g_test_add_func("/systemd/units/restarts", test_restarts);
	g_test_add_func("/systemd/units/hidden-restart", test_hidden_restart);
	g_test_add_func("/systemd/units/reconnect", test_reconnect);
	g_test_add_func("/systemd/units/early", test_early);
	g_test_add_func("/systemd/units/nonsense", test_nonsense);
	return g_test_run();
}
