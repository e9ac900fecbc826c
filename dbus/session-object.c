/* SPDX-License-Identifier: MIT */
#include "dbus/session-object.h"

#include "daemon/triggers.h"
#include "dbus/announce.h"
#include "dbus/errors.h"
#include "dbus/settings.h"
#include "dbus/snapshot-call.h"
#include "dbus/writing-call.h"
#include "lib/abi.h"

static void view_fill(SessionView *v, Session *s)
{
	v->session = s;
	session_info(s, &v->info);
	v->policy = policy_name(v->info.config->policy);
	v->io = io_name(v->info.config->io);
	v->strategy = v->info.strategy;
}

/* sd-bus asks this for every message to a path below the prefix, and then reads all properties that the message
 * is about: so the counters of one GetAll were taken together. */
static int session_object_find(sd_bus *bus, const char *path, const char *interface, void *userdata,
			       void **ret_found, sd_bus_error *error)
{
	_cleanup_free_ char *name = NULL;
	Bus *b = userdata;
	Session *s;
	int r;

	r = session_path_name(path, &name);
	if (r <= 0)
		return r;
	s = manager_find(b->manager, name);
	if (!s)
		return 0;
	view_fill(&b->view, s);
	*ret_found = &b->view;
	return 1;
}

static void strv_free(char **v)
{
	for (char **p = v; p && *p; p++)
		free(*p);
	free(v);
}

static int session_object_enumerate(sd_bus *bus, const char *prefix, void *userdata, char ***ret_nodes,
				    sd_bus_error *error)
{
	Bus *b = userdata;
	size_t n = 0, room = manager_n_sessions(b->manager);
	char **nodes = calloc(room + 1, sizeof(*nodes));
	int r;

	if (!nodes)
		return -ENOMEM;
	for (Session *s = manager_first(b->manager); s && n < room; s = manager_next(b->manager, s)) {
		SessionInfo info;

		session_info(s, &info);
		r = session_path(info.name, &nodes[n]);
		if (r < 0) {
			strv_free(nodes);
			return r;
		}
		n++;
	}
	*ret_nodes = nodes;
	return 0;
}

typedef int (*SessionVerb)(Manager *m, const char *name, Failure *f);

static int method_verb(SessionView *v, sd_bus_message *m, SessionVerb verb, sd_bus_error *error)
{
	Bus *b = v->bus;
	Failure f = FAILURE_NULL;
	int r;

	r = bus_authorize(b, m, ACTION_MANAGE, v->info.name, error);
	if (r <= 0)
		return r < 0 ? r : 1;
	r = verb(b->manager, v->info.name, &f);
	if (r < 0)
		return error_from_failure(error, &f, r);
	return announce_reply(b, m);
}

static int method_start(sd_bus_message *m, void *userdata, sd_bus_error *error)
{
	return method_verb(userdata, m, manager_start_session, error);
}

static int method_stop(sd_bus_message *m, void *userdata, sd_bus_error *error)
{
	SessionView *v = userdata;

	return writing_call_stop(v->bus, m, v->info.name, error);
}

static int method_clear(sd_bus_message *m, void *userdata, sd_bus_error *error)
{
	return method_verb(userdata, m, manager_clear_session, error);
}

static int method_snapshot(sd_bus_message *m, void *userdata, sd_bus_error *error)
{
	SessionView *v = userdata;
	const char *reason;
	int r = sd_bus_message_read(m, "s", &reason);

	return r < 0 ? r : snapshot_call(v->bus, m, v->info.name, reason, error);
}

static int method_rotate(sd_bus_message *m, void *userdata, sd_bus_error *error)
{
	SessionView *v = userdata;

	return writing_call_rotate(v->bus, m, v->info.name, error);
}

static int method_configure(sd_bus_message *m, void *userdata, sd_bus_error *error)
{
	SessionView *v = userdata;

	return writing_call_configure(v->bus, m, v->info.name, error);
}

static int method_set_events(sd_bus_message *m, void *userdata, sd_bus_error *error)
{
	SessionView *v = userdata;
	Bus *b = v->bus;
	Failure f = FAILURE_NULL;
	Strings events = { NULL, 0 };
	int r;

	r = sd_bus_message_read_strv(m, &events.v);
	if (r < 0)
		return r;
	while (events.v && events.v[events.n])
		events.n++;
	r = bus_authorize(b, m, ACTION_MANAGE, v->info.name, error);
	if (r > 0) {
		r = manager_set_events(b->manager, v->info.name, &events, &f);
		r = r < 0 ? error_from_failure(error, &f, r) : announce_reply(b, m);
	} else if (r == 0) {
		r = 1;
	}
	strv_free(events.v);
	return r;
}

static int get_events(sd_bus *bus, const char *path, const char *interface, const char *property,
		      sd_bus_message *reply, void *userdata, sd_bus_error *error)
{
	const Strings *events = &((SessionView *)userdata)->info.config->events;
	int r = sd_bus_message_open_container(reply, 'a', "s");

	for (size_t i = 0; r >= 0 && i < events->n; i++)
		r = sd_bus_message_append_basic(reply, 's', events->v[i]);
	return r < 0 ? r : sd_bus_message_close_container(reply);
}

static int get_settings(sd_bus *bus, const char *path, const char *interface, const char *property,
			sd_bus_message *reply, void *userdata, sd_bus_error *error)
{
	return settings_append(reply, ((SessionView *)userdata)->info.config);
}

static const char *const loss_names[ABI_LOST_CAUSES] = {
	[ABI_LOST_FULL] = "full", [ABI_LOST_HELD] = "held",	  [ABI_LOST_BIG] = "big",
	[ABI_LOST_BUSY] = "busy", [ABI_LOST_VFORK] = "vfork",
};

static int get_lost(sd_bus *bus, const char *path, const char *interface, const char *property,
		    sd_bus_message *reply, void *userdata, sd_bus_error *error)
{
	const SessionInfo *info = &((SessionView *)userdata)->info;
	int r = sd_bus_message_open_container(reply, 'a', "{st}");

	for (size_t i = 0; r >= 0 && i < ELEMENTSOF(info->lost); i++) {
		if (loss_names[i])
			r = sd_bus_message_append(reply, "{st}", loss_names[i], info->lost[i]);
	}
	return r < 0 ? r : sd_bus_message_close_container(reply);
}

static const char *const cause_names[CAUSE_KINDS] = {
	[CAUSE_CRASH] = "crash",       [CAUSE_EXIT] = "exit", [CAUSE_DEATH] = "death",
	[CAUSE_COREDUMP] = "coredump", [CAUSE_UNIT] = "unit", [CAUSE_EVENT] = "event",
	[CAUSE_PROGRAM] = "program",
};

static int get_suppressed_by(sd_bus *bus, const char *path, const char *interface, const char *property,
			     sd_bus_message *reply, void *userdata, sd_bus_error *error)
{
	const SessionInfo *info = &((SessionView *)userdata)->info;
	int r = sd_bus_message_open_container(reply, 'a', "{st}");

	for (u32 i = 0; r >= 0 && i < CAUSE_KINDS; i++)
		r = sd_bus_message_append(reply, "{st}", cause_names[i], info->suppressed_by[i]);
	return r < 0 ? r : sd_bus_message_close_container(reply);
}

#define OPEN	     SD_BUS_VTABLE_UNPRIVILEGED
#define CONSTANT     SD_BUS_VTABLE_PROPERTY_CONST
#define EMITS	     SD_BUS_VTABLE_PROPERTY_EMITS_CHANGE
#define INFO(member) offsetof(SessionView, info.member)

static const sd_bus_vtable session_vtable[] = {
	SD_BUS_VTABLE_START(0),
	SD_BUS_METHOD_WITH_ARGS("Start", SD_BUS_NO_ARGS, SD_BUS_NO_RESULT, method_start, OPEN),
	SD_BUS_METHOD_WITH_ARGS("Stop", SD_BUS_NO_ARGS, SD_BUS_NO_RESULT, method_stop, OPEN),
	SD_BUS_METHOD_WITH_ARGS("Snapshot", SD_BUS_ARGS("s", reason, "a{sv}", options), SD_BUS_RESULT("s", path),
				method_snapshot, OPEN),
	SD_BUS_METHOD_WITH_ARGS("Rotate", SD_BUS_NO_ARGS, SD_BUS_RESULT("s", path), method_rotate, OPEN),
	SD_BUS_METHOD_WITH_ARGS("Clear", SD_BUS_NO_ARGS, SD_BUS_NO_RESULT, method_clear, OPEN),
	SD_BUS_METHOD_WITH_ARGS("SetEvents", SD_BUS_ARGS("as", events), SD_BUS_NO_RESULT, method_set_events,
				OPEN),
	SD_BUS_METHOD_WITH_ARGS("Configure", SD_BUS_ARGS("a{sv}", settings), SD_BUS_NO_RESULT, method_configure,
				OPEN),
	SD_BUS_PROPERTY("Name", "s", NULL, INFO(name), CONSTANT),
	SD_BUS_PROPERTY("State", "s", NULL, INFO(state), EMITS),
	SD_BUS_PROPERTY("Policy", "s", NULL, offsetof(SessionView, policy), EMITS),
	SD_BUS_PROPERTY("IO", "s", NULL, offsetof(SessionView, io), EMITS),
	SD_BUS_PROPERTY("Memory", "t", NULL, INFO(memory), EMITS),
	SD_BUS_PROPERTY("Events", "as", get_events, 0, EMITS),
	SD_BUS_PROPERTY("Output", "s", NULL, INFO(output), EMITS),
	SD_BUS_PROPERTY("Snapshots", "s", NULL, INFO(snapshots), EMITS),
	SD_BUS_PROPERTY("LastSnapshot", "s", NULL, INFO(last_snapshot), EMITS),
	SD_BUS_PROPERTY("LastTrace", "s", NULL, INFO(last_trace), EMITS),
	SD_BUS_PROPERTY("Trouble", "s", NULL, INFO(trouble), EMITS),
	SD_BUS_PROPERTY("Backing", "s", NULL, INFO(backing), EMITS),
	SD_BUS_PROPERTY("Producers", "u", NULL, INFO(n_producers), EMITS),
	SD_BUS_PROPERTY("Owners", "u", NULL, INFO(n_owners), EMITS),
	/* These move with every event, or are found out by the thread that writes, and are read live. */
	SD_BUS_PROPERTY("Strategy", "s", NULL, offsetof(SessionView, strategy), 0),
	SD_BUS_PROPERTY("Recorded", "t", NULL, INFO(recorded), 0),
	SD_BUS_PROPERTY("Overwritten", "t", NULL, INFO(overwritten), 0),
	SD_BUS_PROPERTY("Pinned", "t", NULL, INFO(pinned), 0),
	SD_BUS_PROPERTY("Unpinned", "t", NULL, INFO(unpinned), 0),
	SD_BUS_PROPERTY("Discarded", "t", NULL, INFO(discarded), 0),
	SD_BUS_PROPERTY("Written", "t", NULL, INFO(written), 0),
	SD_BUS_PROPERTY("Unwritten", "t", NULL, INFO(unwritten), 0),
	SD_BUS_PROPERTY("Unreadable", "t", NULL, INFO(unreadable), 0),
	SD_BUS_PROPERTY("SyncedUntil", "t", NULL, INFO(synced_usec), 0),
	SD_BUS_PROPERTY("SyncedBytes", "t", NULL, INFO(backing_written), 0),
	SD_BUS_PROPERTY("SyncMissed", "t", NULL, INFO(backing_missed), 0),
	SD_BUS_PROPERTY("Lost", "a{st}", get_lost, 0, 0),
	SD_BUS_PROPERTY("Fill", "d", NULL, INFO(fill), 0),
	SD_BUS_PROPERTY("Suppressed", "t", NULL, INFO(suppressed), 0),
	SD_BUS_PROPERTY("SuppressedBy", "a{st}", get_suppressed_by, 0, 0),
	SD_BUS_PROPERTY("Clamped", "t", NULL, INFO(clamped), 0),
	SD_BUS_PROPERTY("Corrupt", "t", NULL, INFO(corrupt), 0),
	/* Long, and seldom wanted: given to who asks for it by name, not in GetAll. */
	SD_BUS_PROPERTY("Settings", "a{sv}", get_settings, 0,
			SD_BUS_VTABLE_PROPERTY_EMITS_INVALIDATION | SD_BUS_VTABLE_PROPERTY_EXPLICIT),
	SD_BUS_VTABLE_END,
};

int session_object_add(Bus *b)
{
	int r = sd_bus_add_fallback_vtable(b->bus, NULL, BUS_SESSION_PREFIX, BUS_SESSION_INTERFACE, session_vtable,
					   session_object_find, b);

	return r < 0 ? r : sd_bus_add_node_enumerator(b->bus, NULL, BUS_SESSION_PREFIX,
						      session_object_enumerate, b);
}
