/* SPDX-License-Identifier: MIT */
/* The connection: before the bus, after it, beside another owner of the name, and under the shipped policy. */
#include "tests/integration/dbus/private-bus.h"

#include "dbus/bus-internal.h"

#include <sched.h>
#include <sys/mount.h>

static void ask_fine(PrivateBus *b)
{
	Answer a = { 0 };

	private_bus_ask(b, NULL, &a, NULL, NULL, "ListSessions", NULL);
	g_assert_cmpstr(a.error, ==, NULL);
	answer_clear(&a);
}

static void before_the_bus(void)
{
	PrivateBus *b = private_bus_new(NULL);

	private_bus_serve(b);
	/* what happens meanwhile is not lost on those who come later */
	fake_session_add(b->manager, "early");
	private_bus_start(b);
	private_bus_await_name(b, BUS_NAME, true);
	ask_fine(b);
	private_bus_free(b);
}

/* The directory of the bus is mounted when we wait for it already: nothing tells us of what is made there. Not in a
 * directory of ours, where something is made now and then, which is a reason to look. */
static void behind_a_mount(void)
{
	static const char directory[] = "/mnt";
	PrivateBus *b;

	if (!g_file_test(directory, G_FILE_TEST_IS_DIR) || unshare(CLONE_NEWNS) < 0 ||
	    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0) {
		g_test_skip("needs root, to mount something on /mnt");
		return;
	}
	b = private_bus_new(NULL);
	g_free(b->address);
	b->address = g_strdup_printf("unix:path=%s/bus", directory);
	g_assert_cmpint(mount("before", directory, "tmpfs", 0, "size=1m"), ==, 0);
	private_bus_serve(b); /* it watches now */
	g_assert_cmpint(mount("behind", directory, "tmpfs", 0, "size=1m"), ==, 0);
	private_bus_start(b);
	private_bus_await_name(b, BUS_NAME, true);
	ask_fine(b);
	private_bus_free(b);
	for (int i = 0; i < 2; i++)
		g_assert_cmpint(umount2(directory, MNT_DETACH), ==, 0);
}

/* Nothing that could be watched, and nobody there: it is tried again by the clock. */
static void abstract(void)
{
	PrivateBus *b = private_bus_new(NULL);

	g_free(b->address);
	b->address = g_strdup_printf("unix:abstract=%s/bus", b->directory);
	private_bus_serve(b);
	private_bus_start(b);
	private_bus_await_name(b, BUS_NAME, true);
	ask_fine(b);
	private_bus_free(b);
}

static void bus_restarts(void)
{
	PrivateBus *b = private_bus_new(NULL);

	private_bus_start(b);
	private_bus_serve(b);
	for (int i = 0; i < 3; i++) {
		ask_fine(b);
		private_bus_stop(b);
		fake_session_add(b->manager, (const char *const[]){ "a", "b", "c" }[i]);
		private_bus_start(b);
		private_bus_await_name(b, BUS_NAME, true);
	}
	ask_fine(b);
	private_bus_free(b);
}

/* The bus dies while a snapshot is under way: its answer has nowhere to go. */
static void bus_dies_before_the_answer(void)
{
	PrivateBus *b = private_bus_new(NULL);
	Answer a = { 0 };

	private_bus_start(b);
	private_bus_serve(b);
	fake_session_add(b->manager, "flight");
	private_bus_ask(b, NULL, &a, NULL, NULL, "StartSession", "s", "flight");
	g_assert_cmpstr(a.error, ==, NULL);
	private_bus_call(b->caller, &a, NULL, NULL, "SnapshotSession", "ssa{sv}", "flight", "", 0);
	while (fake_n_snapshots(b->manager) == 0)
		g_assert_cmpint(sd_event_run(b->event, UINT64_MAX), >=, 0);
	private_bus_stop(b);
	private_bus_start(b);
	private_bus_await_name(b, BUS_NAME, true);
	fake_snapshot_finish(b->manager, NULL);
	ask_fine(b);
	answer_clear(&a);
	private_bus_free(b);
}

static void name_is_taken(void)
{
	PrivateBus *b = private_bus_new(NULL);
	const char *unique;
	sd_bus *other;
	char *name;
	int armed;

	private_bus_start(b);
	other = private_bus_connect(b, geteuid(), 0);
	g_assert_cmpint(sd_bus_request_name(other, BUS_NAME, 0), >=, 0);
	private_bus_serve(b);
	/* it waits for its name, and stays on the connection that it has */
	g_assert_cmpint(sd_bus_get_unique_name(b->service->bus, &unique), >=, 0);
	name = g_strdup(unique);
	do {
		g_assert_cmpint(sd_event_run(b->event, UINT64_MAX), >=, 0);
		g_assert_cmpint(sd_bus_get_unique_name(b->service->bus, &unique), >=, 0);
		g_assert_cmpstr(unique, ==, name);
		g_assert_cmpint(sd_event_source_get_enabled(b->service->reconnect, &armed), >=, 0);
	} while (armed != SD_EVENT_OFF);
	g_free(name);
	g_assert_cmpint(sd_bus_get_unique_name(other, &unique), >=, 0);
	name = g_strdup(unique);
	sd_bus_detach_event(other);
	sd_bus_close_unref(other);
	/* with its owner gone, the name is ours at once */
	private_bus_await_name(b, name, false);
	g_free(name);
	ask_fine(b);
	private_bus_free(b);
}

static void bad_address(void)
{
	PrivateBus *b = private_bus_new(NULL);
	Bus *bus = NULL;

	g_assert_cmpint(bus_new(&bus, b->event, b->manager, "nonsense", false), ==, -EINVAL);
	g_assert_null(bus);
	g_unsetenv("DBUS_SESSION_BUS_ADDRESS");
	g_unsetenv("XDG_RUNTIME_DIR");
	g_assert_cmpint(bus_new(&bus, b->event, b->manager, NULL, true), ==, -ENOMEDIUM);
	g_assert_null(fake_observer(b->manager));
	/* what to do about it */
	g_assert_nonnull(strstr(bus_advice(-EINVAL), "unix:path="));
	g_assert_nonnull(strstr(bus_advice(-ENOMEDIUM), "DBUS_SESSION_BUS_ADDRESS"));
	private_bus_free(b);
}

/* ---- the shipped policy ---- */

static bool may_own(PrivateBus *b, uid_t uid)
{
	sd_bus *bus = private_bus_connect(b, uid, 0);
	int r = sd_bus_request_name(bus, BUS_NAME, 0);

	sd_bus_detach_event(bus);
	sd_bus_close_unref(bus);
	return r >= 0;
}

static void policy_owner(void)
{
	PrivateBus *b;

	if (!accounts_there()) {
		g_test_skip("needs root");
		return;
	}
	b = private_bus_new(TRACER_POLICY);
	private_bus_start(b);
	g_assert_true(may_own(b, 0));
	g_assert_true(may_own(b, accounts_tracer()));
	g_assert_false(may_own(b, NOBODY));
	private_bus_free(b);
}

static void policy_calls(void)
{
	static const struct {
		const char *path, *interface, *member;
	} open[] = {
		{ BUS_PATH, BUS_MANAGER_INTERFACE, "ListSessions" },
		{ BUS_PATH, "org.freedesktop.DBus.ObjectManager", "GetManagedObjects" },
		{ BUS_PATH, "org.freedesktop.DBus.Introspectable", "Introspect" },
		{ BUS_PATH, "org.freedesktop.DBus.Peer", "Ping" },
	};
	Answer a = { 0 };
	PrivateBus *b;
	sd_bus *nobody;

	if (!accounts_there()) {
		g_test_skip("needs root");
		return;
	}
	b = private_bus_new(TRACER_POLICY);
	private_bus_start(b);
	private_bus_serve(b);
	fake_session_add(b->manager, "flight");
	nobody = private_bus_connect(b, NOBODY, 0);
	for (size_t i = 0; i < G_N_ELEMENTS(open); i++) {
		private_bus_ask(b, nobody, &a, open[i].path, open[i].interface, open[i].member, NULL);
		g_assert_cmpstr(a.error, ==, NULL);
	}
	private_bus_ask(b, nobody, &a, BUS_SESSION_PREFIX "/flight", "org.freedesktop.DBus.Properties", "GetAll", "s",
			BUS_SESSION_INTERFACE);
	g_assert_cmpstr(a.error, ==, NULL);
	/* gets through to the daemon, which refuses */
	private_bus_ask(b, nobody, &a, BUS_SESSION_PREFIX "/flight", BUS_SESSION_INTERFACE, "Start", NULL);
	g_assert_cmpstr(a.error, ==, SD_BUS_ERROR_ACCESS_DENIED);
	g_assert_nonnull(strstr(a.text, "tracing"));
	/* LogControl1 is for root */
	private_bus_ask(b, nobody, &a, "/org/freedesktop/LogControl1", "org.freedesktop.DBus.Properties", "Set", "ssv",
			"org.freedesktop.LogControl1", "LogLevel", "s", "debug");
	g_assert_cmpstr(a.error, ==, SD_BUS_ERROR_ACCESS_DENIED);
	private_bus_ask(b, NULL, &a, "/org/freedesktop/LogControl1", "org.freedesktop.DBus.Properties", "Set", "ssv",
			"org.freedesktop.LogControl1", "LogLevel", "s", "info");
	g_assert_cmpstr(a.error, ==, NULL);
	/* an interface that is not ours is stopped by the bus */
	private_bus_ask(b, nobody, &a, BUS_PATH, "com.example.Other", "Anything", NULL);
	g_assert_cmpstr(a.error, ==, SD_BUS_ERROR_ACCESS_DENIED);
	answer_clear(&a);
	sd_bus_detach_event(nobody);
	sd_bus_close_unref(nobody);
	private_bus_free(b);
}

/* A bus without our policy refuses the name; when the policy comes, the name is got. */
static void policy_comes_later(void)
{
	PrivateBus *b;
	char *empty;

	if (!accounts_there()) {
		g_test_skip("needs root");
		return;
	}
	b = private_bus_new(NULL);
	empty = g_build_filename(b->directory, "empty.conf", NULL);
	g_assert_true(g_file_set_contents(empty, "<busconfig/>", -1, NULL));
	b->policy = g_strdup(empty);
	private_bus_start(b);
	g_assert_cmpint(bus_new(&b->service, b->event, b->manager, b->address, false), >=, 0);
	/* refused by now, since answers come in order */
	for (int i = 0; i < 20; i++)
		g_assert_cmpint(sd_event_run(b->event, 50000), >=, 0);
	private_bus_stop(b);
	unlink(empty);
	g_free(empty);
	g_free(b->policy);
	b->policy = g_strdup(TRACER_POLICY);
	private_bus_start(b);
	private_bus_await_name(b, BUS_NAME, true);
	private_bus_free(b);
}

int main(int argc, char **argv)
{
	accounts_prepare();
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/bus/before-the-bus", before_the_bus);
	g_test_add_func("/bus/before-the-bus/behind-a-mount", behind_a_mount);
	g_test_add_func("/bus/before-the-bus/abstract", abstract);
	g_test_add_func("/bus/restarts", bus_restarts);
	g_test_add_func("/bus/dies-before-the-answer", bus_dies_before_the_answer);
	g_test_add_func("/bus/name-is-taken", name_is_taken);
	g_test_add_func("/bus/bad-address", bad_address);
	g_test_add_func("/bus/policy/owner", policy_owner);
	g_test_add_func("/bus/policy/calls", policy_calls);
	g_test_add_func("/bus/policy/comes-later", policy_comes_later);
	return g_test_run();
}
