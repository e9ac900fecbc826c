/* SPDX-License-Identifier: MIT */
/* Every method, property and signal, over a socketpair. */
#include "dbus/errors.h"
#include "tests/unit/dbus/peer.h"

#define PROPERTIES "org.freedesktop.DBus.Properties"

static void call(Peer *p, const char *path, const char *interface, const char *member, const char *argument)
{
	sd_bus_message_unref(argument ? peer_call(p, path, interface, member, "s", argument) :
					peer_call(p, path, interface, member, NULL));
}

/* ---- what the client heard ---- */

typedef struct {
	GPtrArray *signals; /* "Member path-or-first-argument [changed properties]" */
	sd_bus_slot *slot;
} Ear;

static int on_signal(sd_bus_message *m, void *userdata, sd_bus_error *error)
{
	const char *member = sd_bus_message_get_member(m), *a = "", *b = "", *c = "";
	GString *s = g_string_new(member);
	GPtrArray *signals = userdata;
	u32 pid;

	if (strcmp(member, "PropertiesChanged") == 0) {
		g_assert_cmpint(sd_bus_message_read(m, "s", &a), >=, 0);
		g_string_append_printf(s, " %s", strrchr(sd_bus_message_get_path(m), '/') + 1);
		g_assert_cmpint(sd_bus_message_enter_container(m, 'a', "{sv}"), >=, 0);
		while (sd_bus_message_enter_container(m, 'e', "sv") > 0) {
			g_assert_cmpint(sd_bus_message_read(m, "s", &b), >=, 0);
			g_assert_cmpint(sd_bus_message_skip(m, "v"), >=, 0);
			g_assert_cmpint(sd_bus_message_exit_container(m), >=, 0);
			g_string_append_printf(s, " %s", b);
		}
		g_assert_cmpint(sd_bus_message_exit_container(m), >=, 0);
		g_assert_cmpint(sd_bus_message_enter_container(m, 'a', "s"), >=, 0);
		while (sd_bus_message_read(m, "s", &b) > 0)
			g_string_append_printf(s, " -%s", b);
	} else if (strcmp(member, "ProducerCrashed") == 0) {
		g_assert_cmpint(sd_bus_message_read(m, "uss", &pid, &a, &b), >=, 0);
		g_string_append_printf(s, " %u %s %s", pid, a, b);
	} else if (strcmp(member, "SnapshotCompleted") == 0) {
		g_assert_cmpint(sd_bus_message_read(m, "sss", &a, &b, &c), >=, 0);
		g_string_append_printf(s, " %s %s %s", a, b, c);
	} else if (strcmp(member, "TraceCompleted") == 0) {
		u64 n;

		g_assert_cmpint(sd_bus_message_read(m, "sst", &a, &b, &n), >=, 0);
		g_string_append_printf(s, " %s %s %" G_GUINT64_FORMAT, a, b, n);
	} else if (sd_bus_message_has_signature(m, "so")) {
		g_assert_cmpint(sd_bus_message_read(m, "so", &a, &b), >=, 0);
		g_string_append_printf(s, " %s %s", a, b);
	} else {
		g_assert_cmpint(sd_bus_message_read(m, "o", &a), >=, 0);
		g_string_append_printf(s, " %s", a);
	}
	g_ptr_array_add(signals, g_string_free(s, FALSE));
	return 0;
}

static void ear_open(Peer *p, Ear *ear)
{
	ear->signals = g_ptr_array_new_with_free_func(g_free);
	g_assert_cmpint(sd_bus_add_match(p->client, &ear->slot, "type='signal'", on_signal, ear->signals), >=, 0);
}

static void ear_close(Ear *ear)
{
	sd_bus_slot_unref(ear->slot);
	g_ptr_array_unref(ear->signals);
}

static bool heard(Ear *ear, const char *what)
{
	for (guint i = 0; i < ear->signals->len; i++)
		if (strcmp(ear->signals->pdata[i], what) == 0)
			return true;
	return false;
}

static void assert_heard(Ear *ear, const char *what)
{
	if (heard(ear, what))
		return;
	for (guint i = 0; i < ear->signals->len; i++)
		g_test_message("heard: %s", (char *)ear->signals->pdata[i]);
	g_error("not heard: %s", what);
}

/* ---- the manager ---- */

static void create_and_remove(Fixture *f, const void *unused)
{
	sd_bus_message *reply;
	const char *path;
	Session *s;
	SessionInfo info;
	Ear ear;

	ear_open(f->p, &ear);
	reply = peer_call(f->p, MANAGER, "CreateSession", "sa{sv}", "app \xc3\xbc", 2, "memory", "s", "4M",
			  "autostart", "b", 1);
	g_assert_cmpint(sd_bus_message_read(reply, "o", &path), >=, 0);
	g_assert_cmpstr(path, ==, "/org/tracer/Tracer1/session/app_20_c3_bc");
	/* whoever has the reply was told */
	assert_heard(&ear, "SessionAdded app \xc3\xbc /org/tracer/Tracer1/session/app_20_c3_bc");
	assert_heard(&ear, "InterfacesAdded /org/tracer/Tracer1/session/app_20_c3_bc");
	assert_heard(&ear, "PropertiesChanged Tracer1 Sessions");
	s = manager_find(f->p->manager, "app \xc3\xbc");
	g_assert_nonnull(s);
	session_info(s, &info);
	g_assert_cmpuint(info.config->memory, ==, 4 << 20);
	g_assert_true(info.config->autostart);
	sd_bus_message_unref(reply);

	peer_call_fails(f->p, MANAGER, "CreateSession", ERROR_SESSION_EXISTS, "app", "sa{sv}", "app \xc3\xbc", 0);
	call(f->p, MANAGER, "RemoveSession", "app \xc3\xbc");
	assert_heard(&ear, "SessionRemoved app \xc3\xbc /org/tracer/Tracer1/session/app_20_c3_bc");
	assert_heard(&ear, "InterfacesRemoved /org/tracer/Tracer1/session/app_20_c3_bc");
	g_assert_null(manager_find(f->p->manager, "app \xc3\xbc"));
	peer_call_fails(f->p, MANAGER, "RemoveSession", ERROR_NO_SUCH_SESSION, "app", "s", "app \xc3\xbc");
	ear_close(&ear);
}

static void names(Fixture *f, const void *unused)
{
	static const char *const bad[] = { "", ".x", "a/b", "a:b", "a\nb",
					   "0123456789012345678901234567890123456789012345678901234567890123x" };

	for (size_t i = 0; i < G_N_ELEMENTS(bad); i++)
		peer_call_fails(f->p, MANAGER, "CreateSession", SD_BUS_ERROR_INVALID_ARGS, "cannot name", "sa{sv}",
				bad[i], 0);
	g_assert_cmpuint(manager_n_sessions(f->p->manager), ==, 0);
}

static void settings_refused(Fixture *f, const void *unused)
{
	peer_call_fails(f->p, MANAGER, "CreateSession", SD_BUS_ERROR_INVALID_ARGS, "memory", "sa{sv}", "x", 1,
			"memroy", "s", "1M");
	peer_call_fails(f->p, MANAGER, "CreateSession", SD_BUS_ERROR_INVALID_ARGS, "memory", "sa{sv}", "x", 1,
			"memory", "s", "lots");
	peer_call_fails(f->p, MANAGER, "CreateSession", SD_BUS_ERROR_INVALID_ARGS, "memory", "sa{sv}", "x", 1,
			"memory", "b", 1);
	peer_call_fails(f->p, MANAGER, "CreateSession", SD_BUS_ERROR_INVALID_ARGS, "'d'", "sa{sv}", "x", 1,
			"memory", "d", 1.0);
	peer_call_fails(f->p, MANAGER, "CreateSession", SD_BUS_ERROR_INVALID_ARGS, "range", "sa{sv}", "x", 1,
			"sub_buffers", "t", UINT64_MAX);
	peer_call_fails(f->p, MANAGER, "CreateSession", SD_BUS_ERROR_INVALID_ARGS, "sub_buffers", "sa{sv}", "x", 1,
			"sub_buffers", "i", -16);
	peer_call_fails(f->p, MANAGER, "CreateSession", SD_BUS_ERROR_INVALID_ARGS, "events", "sa{sv}", "x", 1,
			"events", "as", 1, "");
	peer_call_fails(f->p, MANAGER, "CreateSession", SD_BUS_ERROR_INVALID_ARGS, "overwrite", "sa{sv}", "x", 1,
			"policy", "s", "overwrit");
	peer_call_fails(f->p, MANAGER, "CreateSession", SD_BUS_ERROR_INVALID_ARGS, "max_count", "sa{sv}", "x", 1,
			"snapshot", "a{sv}", 1, "max_cuont", "u", 1);
	/* a whole that cannot be */
	peer_call_fails(f->p, MANAGER, "CreateSession", SD_BUS_ERROR_INVALID_ARGS, "memory", "sa{sv}", "x", 2,
			"memory", "s", "256K", "sub_buffers", "u", 1024);
	g_assert_cmpuint(manager_n_sessions(f->p->manager), ==, 0);
}

static void settings_forms(Fixture *f, const void *unused)
{
	SessionInfo a, b;

	sd_bus_message_unref(peer_call(f->p, MANAGER, "CreateSession", "sa{sv}", "typed", 6, "events", "as", 2,
				       "shop:*", "libc:*", "autostart", "b", 1, "sub_buffers", "t", (u64)32,
				       "memory", "s", "32M", "level", "i", 6, "snapshot", "a{sv}", 3,
				       "max_count", "q", 7, "on_crash", "b", 0, "min_interval", "s", "2s"));
	sd_bus_message_unref(peer_call(f->p, MANAGER, "CreateSession", "sa{sv}", "text", 8, "events", "s",
				       "shop:*, libc:*", "autostart", "s", "yes", "sub_buffers", "s", "32",
				       "memory", "s", "32M", "level", "s", "6", "snapshot.max_count", "s", "7",
				       "snapshot.on_crash", "s", "false", "snapshot.min_interval", "s", "2s"));
	session_info(manager_find(f->p->manager, "typed"), &a);
	session_info(manager_find(f->p->manager, "text"), &b);
	g_assert_cmpuint(a.config->snapshot.keep.max_count, ==, 7);
	g_assert_cmpuint(a.config->events.n, ==, 2);
	g_assert_cmpstr(a.config->events.v[1], ==, "libc:*");
	g_assert_cmpint(a.config->level, ==, 6);
	free(b.config->name);
	((SessionConfig *)b.config)->name = strdup("typed");
	g_assert_true(session_config_equal(a.config, b.config));
	free(b.config->name);
	((SessionConfig *)b.config)->name = strdup("text");
}

/* The property Settings is what CreateSession takes. */
static void settings_round_trip(Fixture *f, const void *unused)
{
	sd_bus_message *properties, *call_message = NULL, *reply;
	sd_bus_error error = SD_BUS_ERROR_NULL;
	SessionInfo a, b;

	sd_bus_message_unref(peer_call(f->p, MANAGER, "CreateSession", "sa{sv}", "one", 23, "events", "as", 2, "a:*",
				       "b:c", "exclude", "as", 1, "a:d", "users", "as", 1, "0", "processes", "as",
				       1, "ngin*", "units", "as", 1, "x.service", "policy", "s", "discard",
				       "buffers", "s", "per-process", "memory", "s", "48M", "contexts", "as", 1,
				       "vtid", "pinned_memory", "s", "1M", "on_stop", "s", "snapshot", "snapshot.keep_free", "s", "17%",
				       "snapshot.duration", "s", "1500ms", "io", "s", "mmap", "output", "s",
				       "/srv/one", "flush_interval", "s", "20ms", "block_timeout", "s", "3s",
				       "file_size", "s", "5M", "file_interval", "s", "7min", "file_count", "u", 9,
				       "output_size", "s", "11G", "output_age", "s", "13d", "output_keep_free", "s",
				       "15G"));
	properties = peer_call(f->p, BUS_SESSION_PREFIX "/one", PROPERTIES, "Get", "ss", BUS_SESSION_INTERFACE,
			       "Settings");
	g_assert_cmpint(sd_bus_message_enter_container(properties, 'v', "a{sv}"), >=, 0);
	g_assert_cmpint(sd_bus_message_new_method_call(f->p->client, &call_message, NULL, MANAGER, "CreateSession"),
			>=, 0);
	g_assert_cmpint(sd_bus_message_append(call_message, "s", "two"), >=, 0);
	g_assert_cmpint(sd_bus_message_copy(call_message, properties, false), >=, 0);
	reply = peer_send(f->p, call_message, &error);
	if (!reply)
		g_error("%s", error.message);
	session_info(manager_find(f->p->manager, "one"), &a);
	session_info(manager_find(f->p->manager, "two"), &b);
	free(b.config->name);
	((SessionConfig *)b.config)->name = strdup("one");
	g_assert_true(session_config_equal(a.config, b.config));
	((SessionConfig *)b.config)->name[0] = 't';
	sd_bus_message_unref(reply);
	sd_bus_message_unref(call_message);
	sd_bus_message_unref(properties);
}

static void start_and_stop(Fixture *f, const void *unused)
{
	Ear ear;

	fake_session_add(f->p->manager, "flight");
	peer_settle(f->p);
	ear_open(f->p, &ear);
	call(f->p, MANAGER, "StartSession", "flight");
	assert_heard(&ear, "PropertiesChanged flight State Memory");
	peer_call_fails(f->p, MANAGER, "StartSession", ERROR_SESSION_RUNNING, "flight", "s", "flight");
	call(f->p, MANAGER, "StopSession", "flight");
	peer_call_fails(f->p, MANAGER, "StopSession", ERROR_NOT_RUNNING, "flight", "s", "flight");
	call(f->p, SESSION("flight"), "Start", NULL);
	call(f->p, SESSION("flight"), "Stop", NULL);
	peer_call_fails(f->p, MANAGER, "StartSession", ERROR_NO_SUCH_SESSION, "nothing", "s", "nothing");
	peer_settle(f->p);
	g_assert_cmpuint(ear.signals->len, ==, 4);
	ear_close(&ear);
}

static void failures(Fixture *f, const void *unused)
{
	static const struct {
		FailureKind kind;
		const char *name;
	} cases[] = {
		{ FAILURE_INVALID, SD_BUS_ERROR_INVALID_ARGS },
		{ FAILURE_NO_SUCH_SESSION, ERROR_NO_SUCH_SESSION },
		{ FAILURE_SESSION_EXISTS, ERROR_SESSION_EXISTS },
		{ FAILURE_SESSION_RUNNING, ERROR_SESSION_RUNNING },
		{ FAILURE_NOT_RUNNING, ERROR_NOT_RUNNING },
		{ FAILURE_NOT_CONTINUOUS, ERROR_NOT_CONTINUOUS },
		{ FAILURE_CONFIG, ERROR_CONFIG_INVALID },
		{ FAILURE_NO_MEMORY, ERROR_NO_MEMORY },
		{ FAILURE_NO_SPACE, ERROR_NO_SPACE },
		{ FAILURE_LIMIT, ERROR_LIMIT_EXCEEDED },
		{ FAILURE_BUSY, ERROR_BUSY },
		{ FAILURE_NOTHING, ERROR_NOTHING },
		{ FAILURE_IO, ERROR_IO },
	};

	fake_session_add(f->p->manager, "x");
	for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
		fake_fail_next(f->p->manager, cases[i].kind, "do this: that", -EIO);
		peer_call_fails(f->p, MANAGER, "StartSession", cases[i].name, "do this: that", "s", "x");
		fake_fail_next(f->p->manager, cases[i].kind, "do this: that", -EIO);
		peer_call_fails(f->p, SESSION("x"), "Snapshot", cases[i].name, "do this: that", "sa{sv}", "", 0);
	}
	/* a failure without words still says where to look */
	fake_fail_next(f->p->manager, FAILURE_NONE, "", -ENOSYS);
	peer_call_fails(f->p, MANAGER, "Reload", "System.Error.ENOSYS", "journalctl", NULL);
	g_assert_cmpuint(fake_n_reloads(f->p->manager), ==, 0);
	call(f->p, MANAGER, "Reload", NULL);
	g_assert_cmpuint(fake_n_reloads(f->p->manager), ==, 1);
}

static void lists(Fixture *f, const void *unused)
{
	const char *a, *b, *c;
	sd_bus_message *reply;
	u32 pid, uid;

	fake_session_add(f->p->manager, "b");
	fake_session_add(f->p->manager, "1a");
	fake_producer_add(f->p->manager, 4711, 33, "ngi\xffnx\033[2J", "nginx.service");
	fake_event_add(f->p->manager, "shop", "order", 6);

	reply = peer_call(f->p, MANAGER, "ListSessions", NULL);
	g_assert_cmpint(sd_bus_message_enter_container(reply, 'a', "(sso)"), >, 0);
	g_assert_cmpint(sd_bus_message_read(reply, "(sso)", &a, &b, &c), >, 0);
	g_assert_cmpstr(a, ==, "1a");
	g_assert_cmpstr(b, ==, "stopped");
	g_assert_cmpstr(c, ==, BUS_SESSION_PREFIX "/_31a");
	g_assert_cmpint(sd_bus_message_read(reply, "(sso)", &a, &b, &c), >, 0);
	g_assert_cmpint(sd_bus_message_read(reply, "(sso)", &a, &b, &c), ==, 0);
	sd_bus_message_unref(reply);

	reply = peer_call(f->p, MANAGER, "ListProducers", NULL);
	g_assert_cmpint(sd_bus_message_enter_container(reply, 'a', "(uuss)"), >, 0);
	g_assert_cmpint(sd_bus_message_read(reply, "(uuss)", &pid, &uid, &a, &b), >, 0);
	g_assert_cmpuint(pid, ==, 4711);
	g_assert_cmpuint(uid, ==, 33);
	g_assert_cmpstr(a, ==, "ngi?nx?[2J");
	g_assert_cmpstr(b, ==, "nginx.service");
	sd_bus_message_unref(reply);

	reply = peer_call(f->p, MANAGER, "ListProducerDetails", NULL);
	{
		GString *all = g_string_new("");
		const char *key;
		char type;

		g_assert_cmpint(sd_bus_message_enter_container(reply, 'a', "a{sv}"), >, 0);
		g_assert_cmpint(sd_bus_message_enter_container(reply, 'a', "{sv}"), >, 0);
		while (sd_bus_message_enter_container(reply, 'e', "sv") > 0) {
			const char *text;
			u64 t = 0;
			u32 u;

			g_assert_cmpint(sd_bus_message_read_basic(reply, 's', &key), >, 0);
			g_assert_cmpint(sd_bus_message_peek_type(reply, NULL, &text), >, 0);
			type = *text;
			g_assert_cmpint(sd_bus_message_enter_container(reply, 'v', text), >, 0);
			if (type == 's') {
				g_assert_cmpint(sd_bus_message_read_basic(reply, 's', &text), >, 0);
				g_string_append_printf(all, "%s=%s ", key, text);
			} else {
				g_assert_cmpint(sd_bus_message_read_basic(reply, type, type == 'u' ? (void *)&u : &t), >, 0);
				g_string_append_printf(all, "%s=%lu ", key, type == 'u' ? (unsigned long)u : t);
			}
			g_assert_cmpint(sd_bus_message_exit_container(reply), >=, 0);
			g_assert_cmpint(sd_bus_message_exit_container(reply), >=, 0);
		}
		g_assert_cmpstr(all->str, ==,
				"pid=4711 uid=33 sessions=0 events=0 start_time=1700000000000001 start_ticks=77 missed=0 "
				"failed=0 command=ngi?nx?[2J unit=nginx.service exe=/usr/sbin/ngi?nx build_id=00ff ");
		g_string_free(all, TRUE);
	}
	sd_bus_message_unref(reply);

	reply = peer_call(f->p, MANAGER, "ListEvents", NULL);
	g_assert_cmpint(sd_bus_message_enter_container(reply, 'a', "(sss)"), >, 0);
	g_assert_cmpint(sd_bus_message_read(reply, "(sss)", &a, &b, &c), >, 0);
	g_assert_cmpstr(a, ==, "shop");
	g_assert_cmpstr(b, ==, "order");
	g_assert_cmpstr(c, ==, "info");
	sd_bus_message_unref(reply);

	reply = peer_call(f->p, MANAGER, "GetSession", "s", "1a");
	g_assert_cmpint(sd_bus_message_read(reply, "o", &a), >, 0);
	g_assert_cmpstr(a, ==, BUS_SESSION_PREFIX "/_31a");
	sd_bus_message_unref(reply);
	peer_call_fails(f->p, MANAGER, "GetSession", ERROR_NO_SUCH_SESSION, "tracerctl list", "s", "c");
}

/* ---- snapshots ---- */

static void snapshot(Fixture *f, const void *unused)
{
	sd_bus_message *m = NULL, *reply = NULL, *other;
	const char *path;
	Ear ear;

	fake_session_add(f->p->manager, "flight");
	call(f->p, MANAGER, "StartSession", "flight");
	ear_open(f->p, &ear);
	g_assert_cmpint(sd_bus_message_new_method_call(f->p->client, &m, NULL, MANAGER, "SnapshotSession"), >=, 0);
	g_assert_cmpint(sd_bus_message_append(m, "ssa{sv}", "flight", "slow", 2, "duration", "s", "10s", "max_size",
					      "s", "1M"),
			>=, 0);
	g_assert_cmpint(sd_bus_call_async(f->p->client, NULL, m, NULL, NULL, 0), >=, 0);
	peer_settle(f->p);
	g_assert_cmpuint(fake_n_snapshots(f->p->manager), ==, 1);
	g_assert_cmpuint(fake_snapshot_options(f->p->manager).duration_ns, ==, 10 * NSEC_PER_SEC);
	g_assert_cmpuint(fake_snapshot_options(f->p->manager).max_size, ==, 1 << 20);
	g_assert_cmpstr(fake_snapshot_reason(f->p->manager), ==, "slow");
	/* meanwhile everybody else is served */
	other = peer_call(f->p, MANAGER, "ListSessions", NULL);
	sd_bus_message_unref(other);
	g_assert_cmpuint(ear.signals->len, ==, 0);
	fake_snapshot_finish(f->p->manager, NULL);
	peer_settle(f->p);
	assert_heard(&ear, "PropertiesChanged flight LastSnapshot");
	assert_heard(&ear, "SnapshotCompleted flight slow /var/lib/tracer/snapshots/flight/1-manual");
	sd_bus_message_unref(m);

	/* at once */
	reply = peer_call(f->p, SESSION("flight"), "Snapshot", "sa{sv}", "quick", 1, "wait", "b", 0);
	g_assert_cmpint(sd_bus_message_read(reply, "s", &path), >, 0);
	g_assert_cmpstr(path, ==, "/var/lib/tracer/snapshots/flight/2-manual");
	g_assert_cmpuint(fake_n_snapshots(f->p->manager), ==, 1);
	fake_snapshot_finish(f->p->manager, NULL);
	sd_bus_message_unref(reply);
	ear_close(&ear);
}

static void snapshot_waits(Fixture *f, const void *unused)
{
	sd_bus_message *reply;
	const char *path;

	fake_snapshots_at_once(f->p->manager, f->p->event);
	fake_session_add(f->p->manager, "flight");
	call(f->p, MANAGER, "StartSession", "flight");
	reply = peer_call(f->p, MANAGER, "SnapshotSession", "ssa{sv}", "flight", "", 1, "wait", "b", 1);
	g_assert_cmpint(sd_bus_message_read(reply, "s", &path), >, 0);
	g_assert_cmpstr(path, ==, "/var/lib/tracer/snapshots/flight/1-manual");
	sd_bus_message_unref(reply);
}

/* "error: text", or "none: text" */
static int on_error(sd_bus_message *m, void *userdata, sd_bus_error *error)
{
	const sd_bus_error *e = sd_bus_message_get_error(m);

	*(char **)userdata = g_strdup_printf("%s: %s", e ? e->name : "none", e ? e->message : "");
	return 1;
}

static void snapshot_fails_late(Fixture *f, const void *unused)
{
	Failure failure = { .kind = FAILURE_NO_SPACE, .text = "The disk is full" };
	char *text = NULL;

	fake_session_add(f->p->manager, "flight");
	call(f->p, MANAGER, "StartSession", "flight");
	g_assert_cmpint(sd_bus_call_method_async(f->p->client, NULL, NULL, SESSION("flight"), "Snapshot", on_error,
						 &text, "sa{sv}", "why", 0),
			>=, 0);
	peer_settle(f->p);
	g_assert_null(text);
	fake_snapshot_finish(f->p->manager, &failure);
	peer_settle(f->p);
	g_assert_cmpstr(text, ==, ERROR_NO_SPACE ": The disk is full");
	g_free(text);
}

static void snapshot_of_the_dead(Fixture *f, const void *unused)
{
	char *text = NULL;

	fake_session_add(f->p->manager, "flight");
	call(f->p, MANAGER, "StartSession", "flight");
	g_assert_cmpint(sd_bus_call_method_async(f->p->client, NULL, NULL, SESSION("flight"), "Snapshot", on_error,
						 &text, "sa{sv}", "why", 0),
			>=, 0);
	peer_settle(f->p);
	/* the session goes, and then the service, while the caller waits */
	call(f->p, MANAGER, "RemoveSession", "flight");
	f->p->service = bus_free(f->p->service);
	peer_settle(f->p);
	fake_snapshot_finish(f->p->manager, NULL);
	g_assert_true(g_str_has_prefix(text, SD_BUS_ERROR_NO_REPLY));
	g_free(text);
}

static void snapshot_options(Fixture *f, const void *unused)
{
	fake_session_add(f->p->manager, "flight");
	peer_call_fails(f->p, MANAGER, "SnapshotSession", SD_BUS_ERROR_INVALID_ARGS, "'lenght'", "ssa{sv}", "flight",
			"", 1, "lenght", "s", "1s");
	peer_call_fails(f->p, MANAGER, "SnapshotSession", SD_BUS_ERROR_INVALID_ARGS, "'wait'", "ssa{sv}", "flight",
			"", 1, "wait", "s", "yes");
	peer_call_fails(f->p, MANAGER, "SnapshotSession", SD_BUS_ERROR_INVALID_ARGS, "'duration'", "ssa{sv}",
			"flight", "", 1, "duration", "t", (u64)1);
	peer_call_fails(f->p, MANAGER, "SnapshotSession", SD_BUS_ERROR_INVALID_ARGS, "10s", "ssa{sv}", "flight", "",
			1, "duration", "s", "soon");
	peer_call_fails(f->p, MANAGER, "SnapshotSession", SD_BUS_ERROR_INVALID_ARGS, "16M", "ssa{sv}", "flight", "",
			1, "max_size", "s", "0");
	peer_call_fails(f->p, MANAGER, "SnapshotSession", SD_BUS_ERROR_INVALID_ARGS, "64K or more", "ssa{sv}",
			"flight", "", 1, "max_size", "s", "65535");
	/* read, and found good: the next question is whether there is anything to save */
	peer_call_fails(f->p, MANAGER, "SnapshotSession", ERROR_NOT_RUNNING, "flight", "ssa{sv}", "flight", "", 1,
			"max_size", "s", "64K");
	peer_call_fails(f->p, MANAGER, "SnapshotSession", ERROR_NOT_RUNNING, "flight", "ssa{sv}", "flight", "", 0);
	peer_call_fails(f->p, MANAGER, "SnapshotSession", ERROR_NO_SUCH_SESSION, "no", "ssa{sv}", "no", "", 0);
}

static void snapshot_unit(Fixture *f, const void *unused)
{
	sd_bus_message *reply;
	const char *session, *path;

	fake_session_add(f->p->manager, "a");
	fake_session_add(f->p->manager, "idle");
	call(f->p, MANAGER, "StartSession", "a");
	reply = peer_call(f->p, MANAGER, "SnapshotUnit", "ss", "nginx.service", "why");
	g_assert_cmpint(sd_bus_message_enter_container(reply, 'a', "(ss)"), >, 0);
	g_assert_cmpint(sd_bus_message_read(reply, "(ss)", &session, &path), >, 0);
	g_assert_cmpstr(session, ==, "a");
	g_assert_cmpstr(path, ==, "/nginx.service/why");
	g_assert_cmpint(sd_bus_message_read(reply, "(ss)", &session, &path), ==, 0);
	sd_bus_message_unref(reply);
	peer_call_fails(f->p, MANAGER, "SnapshotUnit", SD_BUS_ERROR_INVALID_ARGS, "is no unit", "ss", "", "why");
}

static void snapshot_all(Fixture *f, const void *unused)
{
	sd_bus_message *reply;
	const char *session, *path;

	/* nothing runs: nothing to save */
	fake_session_add(f->p->manager, "idle");
	reply = peer_call(f->p, MANAGER, "SnapshotAll", "s", "x");
	g_assert_cmpint(sd_bus_message_enter_container(reply, 'a', "(ss)"), >, 0);
	g_assert_cmpint(sd_bus_message_at_end(reply, false), >, 0);
	sd_bus_message_unref(reply);

	fake_snapshots_at_once(f->p->manager, f->p->event);
	fake_session_add(f->p->manager, "a");
	fake_session_add(f->p->manager, "b");
	call(f->p, MANAGER, "StartSession", "a");
	call(f->p, MANAGER, "StartSession", "b");
	fake_fail_next(f->p->manager, FAILURE_BUSY, "not now", -EBUSY);
	reply = peer_call(f->p, MANAGER, "SnapshotAll", "s", "x");
	g_assert_cmpint(sd_bus_message_enter_container(reply, 'a', "(ss)"), >, 0);
	g_assert_cmpint(sd_bus_message_read(reply, "(ss)", &session, &path), >, 0);
	g_assert_cmpstr(session, ==, "a");
	g_assert_cmpstr(path, ==, "error: not now");
	g_assert_cmpint(sd_bus_message_read(reply, "(ss)", &session, &path), >, 0);
	g_assert_cmpstr(session, ==, "b");
	g_assert_cmpstr(path, ==, "/var/lib/tracer/snapshots/b/1-manual");
	g_assert_cmpint(sd_bus_message_read(reply, "(ss)", &session, &path), ==, 0);
	sd_bus_message_unref(reply);

	/* one that has nothing to save is no failure, as long as another has */
	fake_fail_next(f->p->manager, FAILURE_NOTHING, "empty", -ENODATA);
	reply = peer_call(f->p, MANAGER, "SnapshotAll", "s", "x");
	g_assert_cmpint(sd_bus_message_enter_container(reply, 'a', "(ss)"), >, 0);
	g_assert_cmpint(sd_bus_message_read(reply, "(ss)", &session, &path), >, 0);
	g_assert_cmpstr(session, ==, "b");
	g_assert_cmpint(path[0], ==, '/');
	g_assert_cmpint(sd_bus_message_read(reply, "(ss)", &session, &path), ==, 0);
	sd_bus_message_unref(reply);
	call(f->p, MANAGER, "StopSession", "b");
	fake_fail_next(f->p->manager, FAILURE_NOTHING, "empty", -ENODATA);
	peer_call_fails(f->p, MANAGER, "SnapshotAll", ERROR_NOTHING, "empty", "s", "x");
	fake_fail_next(f->p->manager, FAILURE_BUSY, "not now", -EBUSY);
	peer_call_fails(f->p, MANAGER, "SnapshotAll", ERROR_BUSY, "not now", "s", "x");
}

/* ---- a session ---- */

static double read_double(Peer *p, const char *property)
{
	sd_bus_message *m = peer_call(p, BUS_SESSION_PREFIX "/flight", PROPERTIES, "Get", "ss", BUS_SESSION_INTERFACE,
				      property);
	double d;

	g_assert_cmpint(sd_bus_message_read(m, "v", "d", &d), >=, 0);
	sd_bus_message_unref(m);
	return d;
}

static u64 read_number(Peer *p, const char *property, const char *type)
{
	sd_bus_message *m = peer_call(p, BUS_SESSION_PREFIX "/flight", PROPERTIES, "Get", "ss", BUS_SESSION_INTERFACE,
				      property);
	union {
		u32 u;
		u64 t;
	} v = { .t = 0 };

	g_assert_cmpint(sd_bus_message_read(m, "v", type, &v), >=, 0);
	sd_bus_message_unref(m);
	return *type == 'u' ? v.u : v.t;
}

static char *read_text(Peer *p, const char *property)
{
	sd_bus_message *m = peer_call(p, BUS_SESSION_PREFIX "/flight", PROPERTIES, "Get", "ss", BUS_SESSION_INTERFACE,
				      property);
	const char *s;
	char *copy;

	g_assert_cmpint(sd_bus_message_read(m, "v", "s", &s), >=, 0);
	copy = g_strdup(s);
	sd_bus_message_unref(m);
	return copy;
}

static void properties(Fixture *f, const void *unused)
{
	static const struct {
		const char *property, *value;
	} texts[] = {
		{ "Name", "flight" },	{ "State", "stopped" },
		{ "Policy", "overwrite" }, { "IO", "none" },
		{ "Output", "/var/lib/tracer/snapshots/flight" }, { "LastSnapshot", "/there" },
		{ "Snapshots", "/var/lib/tracer/snapshots/flight" }, { "LastTrace", "/trace" },
		{ "Trouble", "no space" }, { "Strategy", "direct" },
		{ "Backing", "/backing" },
	};
	Session *s = fake_session_add(f->p->manager, "flight");
	SessionInfo *info = fake_session_info(s);
	sd_bus_message *m;
	const char *cause;
	u64 n;

	fake_session_set_last_snapshot(s, "/there");
	fake_session_set_last_trace(s, "/trace");
	fake_session_set_trouble(f->p->manager, s, "no space");
	(void)snprintf(info->strategy, sizeof(info->strategy), "direct");
	info->backing = "/backing";
	info->synced_usec = 14;
	info->backing_written = 15;
	info->backing_missed = 16;
	info->unwritten = 12;
	info->unreadable = 13;
	info->memory = 1;
	info->n_producers = 2;
	info->n_owners = 3;
	info->recorded = UINT64_MAX;
	info->overwritten = 5;
	info->pinned = 13;
	info->unpinned = 14;
	info->discarded = 6;
	info->written = 7;
	info->suppressed = 8;
	info->suppressed_by[5] = 14;
	info->clamped = 9;
	info->corrupt = 10;
	info->fill = 0.25;
	info->lost[1] = 11;
	for (size_t i = 0; i < G_N_ELEMENTS(texts); i++) {
		char *text = read_text(f->p, texts[i].property);

		g_assert_cmpstr(text, ==, texts[i].value);
		g_free(text);
	}
	g_assert_cmpuint(read_number(f->p, "Memory", "t"), ==, 1);
	g_assert_cmpuint(read_number(f->p, "Producers", "u"), ==, 2);
	g_assert_cmpuint(read_number(f->p, "Owners", "u"), ==, 3);
	g_assert_cmpuint(read_number(f->p, "Recorded", "t"), ==, UINT64_MAX);
	g_assert_cmpuint(read_number(f->p, "Overwritten", "t"), ==, 5);
	g_assert_cmpuint(read_number(f->p, "Pinned", "t"), ==, 13);
	g_assert_cmpuint(read_number(f->p, "Unpinned", "t"), ==, 14);
	g_assert_cmpuint(read_number(f->p, "Discarded", "t"), ==, 6);
	g_assert_cmpuint(read_number(f->p, "Written", "t"), ==, 7);
	g_assert_cmpuint(read_number(f->p, "Suppressed", "t"), ==, 8);
	g_assert_cmpuint(read_number(f->p, "Clamped", "t"), ==, 9);
	g_assert_cmpuint(read_number(f->p, "Corrupt", "t"), ==, 10);
	g_assert_cmpuint(read_number(f->p, "Unwritten", "t"), ==, 12);
	g_assert_cmpuint(read_number(f->p, "Unreadable", "t"), ==, 13);
	g_assert_cmpuint(read_number(f->p, "SyncedUntil", "t"), ==, 14);
	g_assert_cmpuint(read_number(f->p, "SyncedBytes", "t"), ==, 15);
	g_assert_cmpuint(read_number(f->p, "SyncMissed", "t"), ==, 16);
	g_assert_cmpfloat(read_double(f->p, "Fill"), ==, 0.25);
	m = peer_call(f->p, BUS_SESSION_PREFIX "/flight", PROPERTIES, "Get", "ss", BUS_SESSION_INTERFACE, "SuppressedBy");
	g_assert_cmpint(sd_bus_message_enter_container(m, 'v', "a{st}"), >, 0);
	g_assert_cmpint(sd_bus_message_enter_container(m, 'a', "{st}"), >, 0);
	for (u32 i = 0; i < 7; i++) {
		g_assert_cmpint(sd_bus_message_read(m, "{st}", &cause, &n), >, 0);
		g_assert_cmpuint(n, ==, strcmp(cause, "event") == 0 ? 14 : 0);
	}
	g_assert_cmpint(sd_bus_message_at_end(m, false), >, 0);
	sd_bus_message_unref(m);
	/* live */
	info->recorded = 12;
	g_assert_cmpuint(read_number(f->p, "Recorded", "t"), ==, 12);
	m = peer_call(f->p, BUS_SESSION_PREFIX "/flight", PROPERTIES, "Get", "ss", BUS_SESSION_INTERFACE, "Lost");
	g_assert_cmpint(sd_bus_message_enter_container(m, 'v', "a{st}"), >, 0);
	g_assert_cmpint(sd_bus_message_enter_container(m, 'a', "{st}"), >, 0);
	g_assert_cmpint(sd_bus_message_read(m, "{st}", &cause, &n), >, 0);
	g_assert_cmpstr(cause, ==, "full");
	g_assert_cmpuint(n, ==, 0);
	g_assert_cmpint(sd_bus_message_read(m, "{st}", &cause, &n), >, 0);
	g_assert_cmpstr(cause, ==, "held");
	g_assert_cmpuint(n, ==, 11);
	sd_bus_message_unref(m);
	m = peer_call(f->p, BUS_PATH, PROPERTIES, "Get", "ss", BUS_MANAGER_INTERFACE, "Version");
	g_assert_cmpint(sd_bus_message_read(m, "v", "s", &cause), >, 0);
	g_assert_cmpstr(cause, ==, PROJECT_VERSION);
	sd_bus_message_unref(m);
}

static void set_events(Fixture *f, const void *unused)
{
	Session *s = fake_session_add(f->p->manager, "flight");
	SessionInfo info;
	Ear ear;

	peer_settle(f->p);
	ear_open(f->p, &ear);
	sd_bus_message_unref(peer_call(f->p, SESSION("flight"), "SetEvents", "as", 2, "a:*", "b"));
	session_info(s, &info);
	g_assert_cmpuint(info.config->events.n, ==, 2);
	assert_heard(&ear, "PropertiesChanged flight Events -Settings");
	peer_call_fails(f->p, SESSION("flight"), "SetEvents", SD_BUS_ERROR_INVALID_ARGS, "events", "as", 1, "a:b:c");
	/* the same again is no change */
	sd_bus_message_unref(peer_call(f->p, SESSION("flight"), "SetEvents", "as", 2, "a:*", "b"));
	peer_settle(f->p);
	g_assert_cmpuint(ear.signals->len, ==, 1);
	ear_close(&ear);
}

static void clear_and_rotate(Fixture *f, const void *unused)
{
	fake_session_info(fake_session_add(f->p->manager, "flight"))->recorded = 5;
	call(f->p, SESSION("flight"), "Clear", NULL);
	g_assert_cmpuint(read_number(f->p, "Recorded", "t"), ==, 0);
	peer_call_fails(f->p, SESSION("flight"), "Rotate", ERROR_NOT_CONTINUOUS, "snapshot", NULL);
}

static void paths(Fixture *f, const void *unused)
{
	fake_session_add(f->p->manager, "a");
	call(f->p, SESSION("a"), "Start", NULL);
	/* another spelling of the same name, the prefix itself, no such session, and one that is below one */
	peer_call_fails(f->p, SESSION("_61"), "Stop", SD_BUS_ERROR_UNKNOWN_OBJECT, NULL, NULL);
	peer_call_fails(f->p, BUS_SESSION_PREFIX, BUS_SESSION_INTERFACE, "Stop", SD_BUS_ERROR_UNKNOWN_METHOD, NULL, NULL);
	peer_call_fails(f->p, SESSION("b"), "Stop", SD_BUS_ERROR_UNKNOWN_OBJECT, NULL, NULL);
	peer_call_fails(f->p, SESSION("a/b"), "Stop", SD_BUS_ERROR_UNKNOWN_OBJECT, NULL, NULL);
}

/* Counts of programs go out at most ten times a second, however many there are. */
static void burst(Fixture *f, const void *unused)
{
	gint64 begin = g_get_monotonic_time();
	unsigned n = 0;
	Ear ear;

	ear_open(f->p, &ear);
	while (g_get_monotonic_time() - begin < 350000) {
		fake_producer_add(f->p->manager, 1, 1, "x", "");
		fake_producers_clear(f->p->manager);
		fake_producer_add(f->p->manager, 1, 1, "x", "");
		peer_settle(f->p);
		fake_producers_clear(f->p->manager);
		peer_settle(f->p);
		n++;
	}
	g_test_message("%u turns, %u signals", n, ear.signals->len);
	g_assert_cmpuint(n, >, 10);
	g_assert_cmpuint(ear.signals->len, <=, 5);
	ear_close(&ear);
}

static void crash(Fixture *f, const void *unused)
{
	Ear ear;

	ear_open(f->p, &ear);
	peer_settle(f->p);
	fake_crash(f->p->manager, 4711, "bad\xfe", "x.service");
	peer_settle(f->p);
	assert_heard(&ear, "ProducerCrashed 4711 bad? x.service");
	ear_close(&ear);
}

static void object_manager(Fixture *f, const void *unused)
{
	sd_bus_message *m;
	const char *path;
	unsigned n = 0;

	fake_session_add(f->p->manager, "a");
	fake_session_add(f->p->manager, "b");
	m = peer_call(f->p, BUS_PATH, "org.freedesktop.DBus.ObjectManager", "GetManagedObjects", NULL);
	g_assert_cmpint(sd_bus_message_enter_container(m, 'a', "{oa{sa{sv}}}"), >, 0);
	while (sd_bus_message_enter_container(m, 'e', "oa{sa{sv}}") > 0) {
		g_assert_cmpint(sd_bus_message_read(m, "o", &path), >, 0);
		g_assert_true(g_str_has_prefix(path, BUS_SESSION_PREFIX "/"));
		g_assert_cmpint(sd_bus_message_skip(m, "a{sa{sv}}"), >=, 0);
		g_assert_cmpint(sd_bus_message_exit_container(m), >=, 0);
		n++;
	}
	g_assert_cmpuint(n, ==, 2);
	sd_bus_message_unref(m);
}

static void log_control(Fixture *f, const void *unused)
{
	sd_bus_message *m;
	const char *s;
	static const char path[] = "/org/freedesktop/LogControl1", interface[] = "org.freedesktop.LogControl1";

	sd_bus_message_unref(peer_call(f->p, path, PROPERTIES, "Set", "ssv", interface, "LogLevel", "s", "debug"));
	m = peer_call(f->p, path, PROPERTIES, "Get", "ss", interface, "LogLevel");
	g_assert_cmpint(sd_bus_message_read(m, "v", "s", &s), >, 0);
	g_assert_cmpstr(s, ==, "debug");
	sd_bus_message_unref(m);
	peer_call_fails(f->p, path, PROPERTIES, "Set", SD_BUS_ERROR_INVALID_ARGS, "warning", "ssv", interface,
			"LogLevel", "s", "loud");
	peer_call_fails(f->p, path, PROPERTIES, "Set", SD_BUS_ERROR_INVALID_ARGS, "auto", "ssv", interface,
			"LogTarget", "s", "kmsg");
	sd_bus_message_unref(peer_call(f->p, path, PROPERTIES, "Set", "ssv", interface, "LogLevel", "s", "info"));
	m = peer_call(f->p, path, PROPERTIES, "Get", "ss", interface, "SyslogIdentifier");
	g_assert_cmpint(sd_bus_message_read(m, "v", "s", &s), >, 0);
	g_assert_cmpstr(s, ==, "tracerd");
	sd_bus_message_unref(m);
}

/* ---- sessions that write ---- */

static void begin_to_write(Fixture *f, Ear *ear)
{
	sd_bus_message_unref(peer_call(f->p, MANAGER, "CreateSession", "sa{sv}", "audit", 2, "policy", "s", "discard",
				       "io", "s", "write"));
	call(f->p, MANAGER, "StartSession", "audit");
	peer_settle(f->p);
	ear_open(f->p, ear);
}

static int on_reply(sd_bus_message *m, void *userdata, sd_bus_error *error)
{
	const sd_bus_error *e = sd_bus_message_get_error(m);
	const char *path = "";

	g_assert_null(*(char **)userdata); /* one answer each */
	if (!e && sd_bus_message_has_signature(m, "s"))
		g_assert_cmpint(sd_bus_message_read(m, "s", &path), >, 0);
	*(char **)userdata = e ? g_strdup_printf("%s: %s", e->name, e->message) : g_strdup_printf("done %s", path);
	return 1;
}

static void later(Fixture *f, const char *path, const char *interface, const char *member, const char *argument,
		  char **text)
{
	g_clear_pointer(text, g_free);
	g_assert_cmpint(sd_bus_call_method_async(f->p->client, NULL, NULL, path, interface, member, on_reply, text,
						 argument ? "s" : NULL, argument),
			>=, 0);
	peer_settle(f->p);
}

static void stop_waits(Fixture *f, const void *unused)
{
	Failure full = { .kind = FAILURE_NO_SPACE, .text = "The disk is full: 7 events stay in memory" };
	char *text = NULL, *second = NULL;
	Ear ear;

	begin_to_write(f, &ear);
	later(f, MANAGER, "StopSession", "audit", &text);
	/* it has stopped, and is not done; everybody else is served, and may not start it */
	assert_heard(&ear, "PropertiesChanged audit State Memory");
	g_assert_null(text);
	g_assert_cmpuint(fake_n_writings(f->p->manager), ==, 1);
	sd_bus_message_unref(peer_call(f->p, MANAGER, "ListSessions", NULL));
	g_ptr_array_set_size(ear.signals, 0);
	fake_writing_finish(f->p->manager, NULL);
	peer_settle(f->p);
	g_assert_cmpstr(text, ==, "done ");
	assert_heard(&ear, "TraceCompleted audit /var/lib/tracer/traces/audit/1-trace 1000");
	assert_heard(&ear, "PropertiesChanged audit LastTrace");
	assert_heard(&ear, "PropertiesChanged audit State");
	g_assert_cmpuint(ear.signals->len, ==, 3);

	/* what is not written is said, whichever object was asked */
	call(f->p, MANAGER, "StartSession", "audit");
	later(f, SESSION("audit"), "Stop", NULL, &text);
	g_assert_null(text);
	fake_writing_finish(f->p->manager, &full);
	peer_settle(f->p);
	g_assert_cmpstr(text, ==, ERROR_NO_SPACE ": The disk is full: 7 events stay in memory");
	peer_call_fails(f->p, MANAGER, "StopSession", ERROR_NOT_RUNNING, "audit", "s", "audit");

	/* two who wait are answered one by one */
	call(f->p, MANAGER, "StartSession", "audit");
	later(f, MANAGER, "RotateSession", "audit", &second);
	later(f, MANAGER, "StopSession", "audit", &text);
	fake_writing_finish(f->p->manager, NULL);
	peer_settle(f->p);
	g_assert_cmpstr(second, ==, "done /var/lib/tracer/traces/audit/2-trace");
	g_assert_null(text);
	fake_writing_finish(f->p->manager, NULL);
	peer_settle(f->p);
	g_assert_cmpstr(text, ==, "done ");
	ear_close(&ear);
	g_free(text);
	g_free(second);
}

static void rotate(Fixture *f, const void *unused)
{
	Failure nothing = { .kind = FAILURE_NOTHING, .text = "nothing to rotate" };
	char *text = NULL;
	Ear ear;

	begin_to_write(f, &ear);
	later(f, SESSION("audit"), "Rotate", NULL, &text);
	g_assert_null(text);
	fake_writing_finish(f->p->manager, NULL);
	peer_settle(f->p);
	g_assert_cmpstr(text, ==, "done /var/lib/tracer/traces/audit/1-trace");
	/* before the answer */
	assert_heard(&ear, "TraceCompleted audit /var/lib/tracer/traces/audit/1-trace 1000");
	assert_heard(&ear, "PropertiesChanged audit LastTrace");
	later(f, MANAGER, "RotateSession", "audit", &text);
	fake_writing_finish(f->p->manager, &nothing);
	peer_settle(f->p);
	g_assert_cmpstr(text, ==, ERROR_NOTHING ": nothing to rotate");
	peer_call_fails(f->p, MANAGER, "RotateSession", ERROR_NO_SUCH_SESSION, "none", "s", "none");
	fake_session_add(f->p->manager, "flight");
	peer_call_fails(f->p, MANAGER, "RotateSession", ERROR_NOT_CONTINUOUS, "snapshot", "s", "flight");
	g_assert_cmpuint(fake_n_writings(f->p->manager), ==, 0);
	ear_close(&ear);
	g_free(text);
}

/* The session goes, then the service, while somebody waits. */
static void wait_of_the_dead(Fixture *f, const void *unused)
{
	char *stopped = NULL, *rotated = NULL;
	Ear ear;

	begin_to_write(f, &ear);
	ear_close(&ear);
	later(f, MANAGER, "RotateSession", "audit", &rotated);
	later(f, MANAGER, "StopSession", "audit", &stopped);
	call(f->p, MANAGER, "RemoveSession", "audit");
	g_assert_null(rotated);
	fake_writing_finish(f->p->manager, &(Failure){ .kind = FAILURE_NOT_RUNNING, .text = "gone" });
	peer_settle(f->p);
	g_assert_cmpstr(rotated, ==, ERROR_NOT_RUNNING ": gone");
	f->p->service = bus_free(f->p->service);
	peer_settle(f->p);
	g_assert_true(g_str_has_prefix(stopped, SD_BUS_ERROR_NO_REPLY));
	/* nobody is told twice */
	fake_writing_finish(f->p->manager, NULL);
	peer_settle(f->p);
	g_free(stopped);
	g_free(rotated);
}

static void configure(Fixture *f, const void *unused)
{
	SessionInfo info;
	Session *s;
	Ear ear;

	begin_to_write(f, &ear);
	s = manager_find(f->p->manager, "audit");
	sd_bus_message_unref(peer_call(f->p, SESSION("audit"), "Configure", "a{sv}", 3, "io", "s", "direct", "events",
				       "as", 1, "shop:*", "file_size", "s", "64M"));
	assert_heard(&ear, "PropertiesChanged audit IO Events -Settings");
	session_info(s, &info);
	g_assert_cmpint(info.config->io, ==, IO_DIRECT);
	g_assert_cmpuint(info.config->file_size, ==, 64 << 20);
	g_assert_cmpint(info.config->policy, ==, POLICY_DISCARD); /* the others stay */
	sd_bus_message_unref(peer_call(f->p, MANAGER, "ConfigureSession", "sa{sv}", "audit", 1, "level", "s", "6"));
	session_info(s, &info);
	g_assert_cmpint(info.config->level, ==, 6);
	g_assert_cmpint(info.config->io, ==, IO_DIRECT);
	/* nothing is changed by halves */
	peer_call_fails(f->p, SESSION("audit"), "Configure", SD_BUS_ERROR_INVALID_ARGS, "memory", "a{sv}", 2, "level",
			"i", 3, "memroy", "s", "1M");
	peer_call_fails(f->p, SESSION("audit"), "Configure", SD_BUS_ERROR_INVALID_ARGS, "file_size", "a{sv}", 1, "io",
			"s", "none");
	fake_fail_next(f->p->manager, FAILURE_NO_MEMORY, "out of memory", -ENOMEM);
	peer_call_fails(f->p, SESSION("audit"), "Configure", ERROR_NO_MEMORY, "out", "a{sv}", 1, "level", "i", 3);
	session_info(s, &info);
	g_assert_cmpint(info.config->level, ==, 6);
	peer_call_fails(f->p, MANAGER, "ConfigureSession", ERROR_NO_SUCH_SESSION, "none", "sa{sv}", "none", 0);
	/* no settings are no change */
	g_ptr_array_set_size(ear.signals, 0);
	sd_bus_message_unref(peer_call(f->p, SESSION("audit"), "Configure", "a{sv}", 0));
	peer_settle(f->p);
	g_assert_cmpuint(ear.signals->len, ==, 0);
	ear_close(&ear);
}

static void trouble(Fixture *f, const void *unused)
{
	Session *s;
	Ear ear;

	begin_to_write(f, &ear);
	s = manager_find(f->p->manager, "audit");
	fake_session_set_trouble(f->p->manager, s, "the disk is full");
	peer_settle(f->p);
	fake_session_set_trouble(f->p->manager, s, "the disk is full");
	fake_session_set_trouble(f->p->manager, s, "");
	peer_settle(f->p);
	g_assert_cmpuint(ear.signals->len, ==, 2);
	assert_heard(&ear, "PropertiesChanged audit Trouble");
	ear_close(&ear);
}

/* Who waits, for whatever it is, is counted. */
static void snapshot_limit(Fixture *f, const void *unused)
{
	fake_session_add(f->p->manager, "flight");
	call(f->p, MANAGER, "StartSession", "flight");
	for (int i = 0; i < 64; i++)
		g_assert_cmpint(sd_bus_call_method_async(f->p->client, NULL, NULL, SESSION("flight"), "Snapshot",
							 NULL, NULL, "sa{sv}", "why", 0),
				>=, 0);
	peer_settle(f->p);
	g_assert_cmpuint(fake_n_snapshots(f->p->manager), ==, 64);
	peer_call_fails(f->p, SESSION("flight"), "Snapshot", SD_BUS_ERROR_LIMITS_EXCEEDED, "64", "sa{sv}", "", 0);
	while (fake_n_snapshots(f->p->manager) > 0)
		fake_snapshot_finish(f->p->manager, NULL);
	fake_snapshots_at_once(f->p->manager, f->p->event);
	sd_bus_message_unref(peer_call(f->p, SESSION("flight"), "Snapshot", "sa{sv}", "", 0));
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	TEST("/dbus/create-and-remove", create_and_remove);
	TEST("/dbus/names", names);
	TEST("/dbus/settings/refused", settings_refused);
	TEST("/dbus/settings/forms", settings_forms);
	TEST("/dbus/settings/round-trip", settings_round_trip);
	TEST("/dbus/start-and-stop", start_and_stop);
	TEST("/dbus/failures", failures);
	TEST("/dbus/lists", lists);
	TEST("/dbus/snapshot/later", snapshot);
	TEST("/dbus/snapshot/waits", snapshot_waits);
	TEST("/dbus/snapshot/fails-late", snapshot_fails_late);
	TEST("/dbus/snapshot/of-the-dead", snapshot_of_the_dead);
	TEST("/dbus/snapshot/options", snapshot_options);
	TEST("/dbus/snapshot/all", snapshot_all);
	TEST("/dbus/snapshot/unit", snapshot_unit);
	TEST("/dbus/snapshot/limit", snapshot_limit);
	TEST("/dbus/session/properties", properties);
	TEST("/dbus/session/set-events", set_events);
	TEST("/dbus/session/clear-and-rotate", clear_and_rotate);
	TEST("/dbus/session/paths", paths);
	TEST("/dbus/writing/stop-waits", stop_waits);
	TEST("/dbus/writing/rotate", rotate);
	TEST("/dbus/writing/of-the-dead", wait_of_the_dead);
	TEST("/dbus/writing/configure", configure);
	TEST("/dbus/writing/trouble", trouble);
	TEST("/dbus/announce/burst", burst);
	TEST("/dbus/announce/crash", crash);
	TEST("/dbus/object-manager", object_manager);
	TEST("/dbus/log-control", log_control);
	return g_test_run();
}
