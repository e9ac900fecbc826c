/* SPDX-License-Identifier: MIT */
#include "dbus/manager-object.h"

#include "dbus/announce.h"
#include "dbus/errors.h"
#include "dbus/reply.h"
#include "dbus/settings.h"
#include "dbus/snapshot-call.h"
#include "dbus/text.h"
#include "dbus/writing-call.h"
#include "lib/pattern.h"
#include "systemd/journal.h"

/* Replies with a list that is built entry by entry. */
typedef struct {
	sd_bus_message *reply;
	size_t bytes;
} List;

static void list_clear(List *l)
{
	l->reply = sd_bus_message_unref(l->reply);
}

static int list_begin(List *l, sd_bus_message *m, const char *entry)
{
	int r = sd_bus_message_new_method_return(m, &l->reply);

	return r < 0 ? r : sd_bus_message_open_container(l->reply, 'a', entry);
}

/* Room for an entry with so many bytes of text? Says so in the log if not, for the reply then lacks something. */
static bool list_room(List *l, size_t text)
{
	l->bytes += text + 64;
	if (l->bytes <= LIST_BYTES_MAX)
		return true;
	log_warning("A list is too long for one message on the bus; its end is left out");
	return false;
}

static int list_send(List *l)
{
	int r = sd_bus_message_close_container(l->reply);

	if (r >= 0)
		r = reply_send(l->reply);
	return r < 0 ? r : 1;
}

static int method_create_session(sd_bus_message *m, void *userdata, sd_bus_error *error)
{
	_cleanup_(session_config_freep) SessionConfig *config = NULL;
	_cleanup_free_ char *path = NULL;
	Failure f = FAILURE_NULL;
	Bus *b = userdata;
	Session *s = NULL;
	const char *name;
	int r;

	r = sd_bus_message_read(m, "s", &name);
	if (r < 0)
		return r;
	r = session_config_new(&config, name);
	if (r == -EINVAL)
		return sd_bus_error_setf(error, SD_BUS_ERROR_INVALID_ARGS,
					 "'%s' cannot name a session: 1 to 64 bytes of UTF-8, not beginning with "
					 "'.', without '/', ':' and control characters",
					 name);
	if (r < 0)
		return r;
	r = settings_read(m, config, error);
	if (r < 0)
		return r;
	r = bus_authorize(b, m, ACTION_MANAGE, name, error);
	if (r <= 0)
		return r < 0 ? r : 1;
	r = session_path(name, &path);
	if (r < 0)
		return r;
	r = manager_create_session(b->manager, config, &s, &f);
	if (r < 0)
		return error_from_failure(error, &f, r);
	(void)steal_ptr(config);
	announce_flush(b);
	return reply_to(m, "o", path);
}

typedef int (*SessionVerb)(Manager *m, const char *name, Failure *f);

static int method_verb(Bus *b, sd_bus_message *m, SessionVerb verb, sd_bus_error *error)
{
	Failure f = FAILURE_NULL;
	const char *name;
	int r;

	r = sd_bus_message_read(m, "s", &name);
	if (r < 0)
		return r;
	r = bus_authorize(b, m, ACTION_MANAGE, name, error);
	if (r <= 0)
		return r < 0 ? r : 1;
	r = verb(b->manager, name, &f);
	if (r < 0)
		return error_from_failure(error, &f, r);
	return announce_reply(b, m);
}

static int method_remove_session(sd_bus_message *m, void *userdata, sd_bus_error *error)
{
	return method_verb(userdata, m, manager_remove_session, error);
}

static int method_start_session(sd_bus_message *m, void *userdata, sd_bus_error *error)
{
	return method_verb(userdata, m, manager_start_session, error);
}

static int method_stop_session(sd_bus_message *m, void *userdata, sd_bus_error *error)
{
	const char *name;
	int r = sd_bus_message_read(m, "s", &name);

	return r < 0 ? r : writing_call_stop(userdata, m, name, error);
}

static int method_rotate_session(sd_bus_message *m, void *userdata, sd_bus_error *error)
{
	const char *name;
	int r = sd_bus_message_read(m, "s", &name);

	return r < 0 ? r : writing_call_rotate(userdata, m, name, error);
}

static int method_configure_session(sd_bus_message *m, void *userdata, sd_bus_error *error)
{
	const char *name;
	int r = sd_bus_message_read(m, "s", &name);

	return r < 0 ? r : writing_call_configure(userdata, m, name, error);
}

static int method_snapshot_session(sd_bus_message *m, void *userdata, sd_bus_error *error)
{
	const char *name, *reason;
	int r = sd_bus_message_read(m, "ss", &name, &reason);

	return r < 0 ? r : snapshot_call(userdata, m, name, reason, error);
}

static int method_snapshot_all(sd_bus_message *m, void *userdata, sd_bus_error *error)
{
	const char *reason;
	int r = sd_bus_message_read(m, "s", &reason);

	return r < 0 ? r : snapshot_call_all(userdata, m, reason, error);
}

static int method_snapshot_unit(sd_bus_message *m, void *userdata, sd_bus_error *error)
{
	const char *unit, *reason;
	int r = sd_bus_message_read(m, "ss", &unit, &reason);

	return r < 0 ? r : snapshot_call_unit(userdata, m, unit, reason, error);
}

static int method_get_session(sd_bus_message *m, void *userdata, sd_bus_error *error)
{
	_cleanup_free_ char *path = NULL;
	Bus *b = userdata;
	const char *name;
	int r;

	r = sd_bus_message_read(m, "s", &name);
	if (r < 0)
		return r;
	if (!manager_find(b->manager, name))
		return sd_bus_error_setf(error, ERROR_NO_SUCH_SESSION,
					 "There is no session '%s'; 'tracerctl list' shows those there are", name);
	r = session_path(name, &path);
	return r < 0 ? r : reply_to(m, "o", path);
}

static int method_list_sessions(sd_bus_message *m, void *userdata, sd_bus_error *error)
{
	_cleanup_(list_clear) List l = { 0 };
	Bus *b = userdata;
	int r = list_begin(&l, m, "(sso)");

	for (Session *s = manager_first(b->manager); r >= 0 && s; s = manager_next(b->manager, s)) {
		_cleanup_free_ char *path = NULL;
		SessionInfo info;

		session_info(s, &info);
		r = session_path(info.name, &path);
		if (r >= 0 && !list_room(&l, strlen(info.name) + strlen(path)))
			break;
		if (r >= 0)
			r = sd_bus_message_append(l.reply, "(sso)", info.name, info.state, path);
	}
	return r < 0 ? r : list_send(&l);
}

static int method_list_producers(sd_bus_message *m, void *userdata, sd_bus_error *error)
{
	_cleanup_(list_clear) List l = { 0 };
	char command[256], unit[256];
	ProducerInfo p;
	Bus *b = userdata;
	int r = list_begin(&l, m, "(uuss)");

	for (u32 i = 0; r >= 0 && manager_producer(b->manager, i, &p); i++) {
		text_clean(p.command, command, sizeof(command));
		text_clean(p.unit, unit, sizeof(unit));
		if (!list_room(&l, strlen(command) + strlen(unit)))
			break;
		r = sd_bus_message_append(l.reply, "(uuss)", (u32)p.pid, (u32)p.uid, command, unit);
	}
	return r < 0 ? r : list_send(&l);
}

static int append_number(sd_bus_message *m, const char *key, char type, u64 value)
{
	u32 small = (u32)value;
	const char text[] = { type, 0 };
	int r = sd_bus_message_open_container(m, 'e', "sv");

	if (r >= 0)
		r = sd_bus_message_append_basic(m, 's', key);
	if (r >= 0)
		r = sd_bus_message_open_container(m, 'v', text);
	if (r >= 0)
		r = sd_bus_message_append_basic(m, type, type == 'u' ? (const void *)&small : &value);
	if (r >= 0)
		r = sd_bus_message_close_container(m);
	return r < 0 ? r : sd_bus_message_close_container(m);
}

static int append_details(sd_bus_message *m, const ProducerInfo *p, const char *command, const char *unit,
			  const char *exe)
{
	const struct {
		const char *key;
		char type;
		u64 value;
	} numbers[] = {
		{ "pid", 'u', (u64)p->pid },
		{ "uid", 'u', p->uid },
		{ "sessions", 'u', p->n_sessions },
		{ "events", 'u', p->n_classes },
		{ "start_time", 't', p->started / NSEC_PER_USEC },
		{ "start_ticks", 't', p->start_ticks },
		{ "missed", 't', p->missed },
		{ "failed", 't', p->failed },
	};
	int r = sd_bus_message_open_container(m, 'a', "{sv}");

	for (size_t i = 0; r >= 0 && i < ELEMENTSOF(numbers); i++)
		r = append_number(m, numbers[i].key, numbers[i].type, numbers[i].value);
	if (r >= 0)
		r = sd_bus_message_append(m, "{sv}{sv}{sv}{sv}", "command", "s", command, "unit", "s", unit, "exe",
					  "s", exe, "build_id", "s", p->build_id ? p->build_id : "");
	return r < 0 ? r : sd_bus_message_close_container(m);
}

static int method_list_producer_details(sd_bus_message *m, void *userdata, sd_bus_error *error)
{
	_cleanup_(list_clear) List l = { 0 };
	char command[256], unit[256], exe[1024];
	ProducerInfo p;
	Bus *b = userdata;
	int r = list_begin(&l, m, "a{sv}");

	for (u32 i = 0; r >= 0 && manager_producer(b->manager, i, &p); i++) {
		text_clean(p.command, command, sizeof(command));
		text_clean(p.unit, unit, sizeof(unit));
		text_clean(p.exe, exe, sizeof(exe));
		/* names and types of what there is take that much */
		if (!list_room(&l, strlen(command) + strlen(unit) + strlen(exe) + 512))
			break;
		r = append_details(l.reply, &p, command, unit, exe);
	}
	return r < 0 ? r : list_send(&l);
}

static int method_list_events(sd_bus_message *m, void *userdata, sd_bus_error *error)
{
	_cleanup_(list_clear) List l = { 0 };
	char provider[256], event[256];
	EventInfo e;
	Bus *b = userdata;
	int r = list_begin(&l, m, "(sss)");

	for (u32 i = 0; r >= 0 && manager_event(b->manager, i, &e); i++) {
		const char *level = level_name(e.level);

		text_clean(e.provider, provider, sizeof(provider));
		text_clean(e.event, event, sizeof(event));
		if (!list_room(&l, strlen(provider) + strlen(event)))
			break;
		r = sd_bus_message_append(l.reply, "(sss)", provider, event, level ? level : "");
	}
	return r < 0 ? r : list_send(&l);
}

static int method_reload(sd_bus_message *m, void *userdata, sd_bus_error *error)
{
	Failure f = FAILURE_NULL;
	Bus *b = userdata;
	int r;

	r = bus_authorize(b, m, ACTION_MANAGE, NULL, error);
	if (r <= 0)
		return r < 0 ? r : 1;
	r = manager_reload(b->manager, &f);
	if (r < 0)
		return error_from_failure(error, &f, r);
	return announce_reply(b, m);
}

static int get_version(sd_bus *bus, const char *path, const char *interface, const char *property,
		       sd_bus_message *reply, void *userdata, sd_bus_error *error)
{
	return sd_bus_message_append(reply, "s", PROJECT_VERSION);
}

static int get_sessions(sd_bus *bus, const char *path, const char *interface, const char *property,
			sd_bus_message *reply, void *userdata, sd_bus_error *error)
{
	Bus *b = userdata;

	return sd_bus_message_append(reply, "u", manager_n_sessions(b->manager));
}

static int get_producers(sd_bus *bus, const char *path, const char *interface, const char *property,
			 sd_bus_message *reply, void *userdata, sd_bus_error *error)
{
	Bus *b = userdata;

	return sd_bus_message_append(reply, "u", manager_n_producers(b->manager));
}

/* Unprivileged in the eyes of sd-bus: each method that changes something asks bus_authorize() itself. */
#define OPEN SD_BUS_VTABLE_UNPRIVILEGED

static const sd_bus_vtable manager_vtable[] = {
	SD_BUS_VTABLE_START(0),
	SD_BUS_METHOD_WITH_ARGS("CreateSession", SD_BUS_ARGS("s", name, "a{sv}", settings),
				SD_BUS_RESULT("o", session), method_create_session, OPEN),
	SD_BUS_METHOD_WITH_ARGS("RemoveSession", SD_BUS_ARGS("s", name), SD_BUS_NO_RESULT, method_remove_session,
				OPEN),
	SD_BUS_METHOD_WITH_ARGS("StartSession", SD_BUS_ARGS("s", name), SD_BUS_NO_RESULT, method_start_session,
				OPEN),
	SD_BUS_METHOD_WITH_ARGS("StopSession", SD_BUS_ARGS("s", name), SD_BUS_NO_RESULT, method_stop_session,
				OPEN),
	SD_BUS_METHOD_WITH_ARGS("RotateSession", SD_BUS_ARGS("s", name), SD_BUS_RESULT("s", path),
				method_rotate_session, OPEN),
	SD_BUS_METHOD_WITH_ARGS("ConfigureSession", SD_BUS_ARGS("s", name, "a{sv}", settings), SD_BUS_NO_RESULT,
				method_configure_session, OPEN),
	SD_BUS_METHOD_WITH_ARGS("SnapshotSession", SD_BUS_ARGS("s", name, "s", reason, "a{sv}", options),
				SD_BUS_RESULT("s", path), method_snapshot_session, OPEN),
	SD_BUS_METHOD_WITH_ARGS("SnapshotAll", SD_BUS_ARGS("s", reason), SD_BUS_RESULT("a(ss)", snapshots),
				method_snapshot_all, OPEN),
	SD_BUS_METHOD_WITH_ARGS("SnapshotUnit", SD_BUS_ARGS("s", unit, "s", reason), SD_BUS_RESULT("a(ss)", snapshots),
				method_snapshot_unit, OPEN),
	SD_BUS_METHOD_WITH_ARGS("GetSession", SD_BUS_ARGS("s", name), SD_BUS_RESULT("o", session),
				method_get_session, OPEN),
	SD_BUS_METHOD_WITH_ARGS("ListSessions", SD_BUS_NO_ARGS, SD_BUS_RESULT("a(sso)", sessions),
				method_list_sessions, OPEN),
	SD_BUS_METHOD_WITH_ARGS("ListProducers", SD_BUS_NO_ARGS, SD_BUS_RESULT("a(uuss)", producers),
				method_list_producers, OPEN),
	SD_BUS_METHOD_WITH_ARGS("ListProducerDetails", SD_BUS_NO_ARGS, SD_BUS_RESULT("aa{sv}", producers),
				method_list_producer_details, OPEN),
	SD_BUS_METHOD_WITH_ARGS("ListEvents", SD_BUS_NO_ARGS, SD_BUS_RESULT("a(sss)", events),
				method_list_events, OPEN),
	SD_BUS_METHOD_WITH_ARGS("Reload", SD_BUS_NO_ARGS, SD_BUS_NO_RESULT, method_reload, OPEN),
	SD_BUS_SIGNAL_WITH_ARGS("SessionAdded", SD_BUS_ARGS("s", name, "o", session), 0),
	SD_BUS_SIGNAL_WITH_ARGS("SessionRemoved", SD_BUS_ARGS("s", name, "o", session), 0),
	SD_BUS_SIGNAL_WITH_ARGS("ProducerCrashed", SD_BUS_ARGS("u", pid, "s", command, "s", unit), 0),
	SD_BUS_SIGNAL_WITH_ARGS("SnapshotCompleted", SD_BUS_ARGS("s", session, "s", reason, "s", path), 0),
	SD_BUS_SIGNAL_WITH_ARGS("TraceCompleted", SD_BUS_ARGS("s", session, "s", path, "t", records), 0),
	SD_BUS_PROPERTY("Version", "s", get_version, 0, SD_BUS_VTABLE_PROPERTY_CONST),
	SD_BUS_PROPERTY("Sessions", "u", get_sessions, 0, SD_BUS_VTABLE_PROPERTY_EMITS_CHANGE),
	SD_BUS_PROPERTY("Producers", "u", get_producers, 0, SD_BUS_VTABLE_PROPERTY_EMITS_CHANGE),
	SD_BUS_VTABLE_END,
};

int manager_object_add(Bus *b)
{
	int r = sd_bus_add_object_vtable(b->bus, NULL, BUS_PATH, BUS_MANAGER_INTERFACE, manager_vtable, b);

	return r < 0 ? r : sd_bus_add_object_manager(b->bus, NULL, BUS_PATH);
}
