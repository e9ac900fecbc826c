/* SPDX-License-Identifier: MIT */
/* The manager reports every change as it happens; a burst of starting programs is a burst of reports. What a
 * person or a script acts upon (state, trouble, patterns, last snapshot and trace) is sent at the end of the turn of the loop, what
 * merely counts programs and bytes at most ten times a second. Each session remembers what was last sent, so that
 * only what differs goes out, and nothing goes out twice. */
#include "dbus/announce.h"

#include <time.h>

#include "dbus/reply.h"
#include "dbus/text.h"
#include "systemd/journal.h"

#define FLUSH_INTERVAL_USEC 100000

struct Announced {
	Announced *next;
	char *name, *path;
	char *state, *output, *snapshots, *last_snapshot, *last_trace, *trouble;
	SessionConfig *config; /* a copy */
	u64 memory;
	u32 producers, owners;
	bool dirty;
};

static Announced *announced_free(Announced *a)
{
	if (!a)
		return NULL;
	free(a->name);
	free(a->path);
	free(a->state);
	free(a->output);
	free(a->snapshots);
	free(a->last_snapshot);
	free(a->last_trace);
	free(a->trouble);
	session_config_free(a->config);
	free(a);
	return NULL;
}
DEFINE_CLEANUP(Announced *, announced_free)

static Announced *announced_find(Bus *b, const char *name)
{
	for (Announced *a = b->announced; a; a = a->next)
		if (strcmp(a->name, name) == 0)
			return a;
	return NULL;
}

/* Stores text in *known if it differs. 1: it did; 0; -ENOMEM (and *known is what it was, so that the next flush
 * tries again). */
static int text_update(char **known, const char *text)
{
	char *copy;

	if (!text)
		text = "";
	if (*known && strcmp(*known, text) == 0)
		return 0;
	copy = strdup(text);
	if (!copy)
		return -ENOMEM;
	free(*known);
	*known = copy;
	return 1;
}

static bool text_differs(const char *known, const char *text)
{
	return strcmp(known ? known : "", text ? text : "") != 0;
}

static bool number_update(u64 *known, u64 value)
{
	bool differs = *known != value;

	*known = value;
	return differs;
}

static bool count_update(u32 *known, u32 value)
{
	bool differs = *known != value;

	*known = value;
	return differs;
}

static bool strings_equal(const Strings *a, const Strings *b)
{
	if (a->n != b->n)
		return false;
	for (size_t i = 0; i < a->n; i++)
		if (strcmp(a->v[i], b->v[i]) != 0)
			return false;
	return true;
}

/* The properties that show the configuration, of those that differ; remembers the new one. */
static size_t config_update(SessionConfig **known, const SessionConfig *config, const char **names)
{
	const SessionConfig *old = *known;
	SessionConfig *copy;
	size_t n = 0;

	if (old && session_config_equal(old, config))
		return 0;
	copy = session_config_copy(config);
	if (!copy)
		return 0; /* the next flush tries again */
	if (!old || old->policy != config->policy)
		names[n++] = "Policy";
	if (!old || old->io != config->io)
		names[n++] = "IO";
	if (!old || !strings_equal(&old->events, &config->events))
		names[n++] = "Events";
	if (!old || text_differs(old->backing, config->backing))
		names[n++] = "Backing";
	names[n++] = "Settings";
	session_config_free(*known);
	*known = copy;
	return n;
}

/* Compares a session with what was sent of it, and remembers it as sent. *names gets the properties that
 * differ (room for 16). */
static size_t announced_update(Announced *a, Session *s, const char *names[16])
{
	SessionInfo info;
	size_t n = 0;

	session_info(s, &info);
	if (text_update(&a->state, info.state) > 0)
		names[n++] = "State";
	n += config_update(&a->config, info.config, names + n);
	if (text_update(&a->output, info.output) > 0)
		names[n++] = "Output";
	if (text_update(&a->snapshots, info.snapshots) > 0)
		names[n++] = "Snapshots";
	if (text_update(&a->last_snapshot, info.last_snapshot) > 0)
		names[n++] = "LastSnapshot";
	if (text_update(&a->last_trace, info.last_trace) > 0)
		names[n++] = "LastTrace";
	if (text_update(&a->trouble, info.trouble) > 0)
		names[n++] = "Trouble";
	if (number_update(&a->memory, info.memory))
		names[n++] = "Memory";
	if (count_update(&a->producers, info.n_producers))
		names[n++] = "Producers";
	if (count_update(&a->owners, info.n_owners))
		names[n++] = "Owners";
	return n;
}

static u64 now_usec(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return (u64)ts.tv_sec * 1000000u + (u64)ts.tv_nsec / 1000u;
}

static void complain(int r, const char *what)
{
	/* Without a connection nobody is there to be told, and whoever connects later reads afresh. */
	if (r < 0 && r != -ENOTCONN && r != -ESTALE && r != -ECONNRESET && r != -EPIPE)
		log_warning("Could not announce %s on the bus: %s", what, strerror(-r));
}

static void flush_session(Bus *b, Announced *a)
{
	const char *names[17] = { NULL };
	Session *s = manager_find(b->manager, a->name);
	size_t n;

	a->dirty = false;
	if (!s)
		return;
	n = announced_update(a, s, names);
	names[n] = NULL;
	if (n > 0 && b->bus)
		complain(sd_bus_emit_properties_changed_strv(b->bus, a->path, BUS_SESSION_INTERFACE,
							     (char **)names),
			 "a change of a session");
}

void announce_session(Bus *b, const char *name)
{
	Announced *a = announced_find(b, name);

	if (a)
		a->dirty = true;
}

void announce_flush(Bus *b)
{
	const char *names[3] = { NULL };
	size_t n = 0;

	if (b->flush)
		(void)sd_event_source_set_enabled(b->flush, SD_EVENT_OFF);
	if (b->flush_later)
		(void)sd_event_source_set_enabled(b->flush_later, SD_EVENT_OFF);
	b->flushed_usec = now_usec();
	for (Announced *a = b->announced; a; a = a->next)
		if (a->dirty)
			flush_session(b, a);
	if (count_update(&b->announced_sessions, manager_n_sessions(b->manager)))
		names[n++] = "Sessions";
	if (count_update(&b->announced_producers, manager_n_producers(b->manager)))
		names[n++] = "Producers";
	if (n > 0 && b->bus)
		complain(sd_bus_emit_properties_changed_strv(b->bus, BUS_PATH, BUS_MANAGER_INTERFACE,
							     (char **)names),
			 "the number of sessions or producers");
}

int announce_reply(Bus *b, sd_bus_message *m)
{
	announce_flush(b);
	return reply_to(m, NULL);
}

static int on_flush(sd_event_source *source, void *userdata)
{
	announce_flush(userdata);
	return 0;
}

static int on_flush_later(sd_event_source *source, uint64_t usec, void *userdata)
{
	announce_flush(userdata);
	return 0;
}

static void flush_soon(Bus *b)
{
	(void)sd_event_source_set_enabled(b->flush, SD_EVENT_ONESHOT);
}

static void flush_eventually(Bus *b)
{
	int on = SD_EVENT_OFF;
	u64 now = now_usec();

	if (now - b->flushed_usec >= FLUSH_INTERVAL_USEC) {
		flush_soon(b);
		return;
	}
	(void)sd_event_source_get_enabled(b->flush_later, &on);
	if (on != SD_EVENT_OFF)
		return;
	(void)sd_event_source_set_time(b->flush_later, b->flushed_usec + FLUSH_INTERVAL_USEC);
	(void)sd_event_source_set_enabled(b->flush_later, SD_EVENT_ONESHOT);
}

/* Puts a session on the list, with its present properties as known. */
static int announced_add(Bus *b, Session *s, Announced **ret)
{
	_cleanup_(announced_freep) Announced *a = NULL;
	const char *names[16];
	SessionInfo info;
	int r;

	session_info(s, &info);
	a = calloc(1, sizeof(*a));
	if (!a)
		return -ENOMEM;
	a->name = strdup(info.name);
	if (!a->name)
		return -ENOMEM;
	r = session_path(info.name, &a->path);
	if (r < 0)
		return r;
	(void)announced_update(a, s, names);
	a->next = b->announced;
	*ret = b->announced = steal_ptr(a);
	return 0;
}

static void on_session_added(void *userdata, Session *s)
{
	Bus *b = userdata;
	Announced *a;

	if (announced_add(b, s, &a) < 0)
		return;
	flush_soon(b);
	if (!b->bus)
		return;
	complain(sd_bus_emit_object_added(b->bus, a->path), "a new session");
	complain(sd_bus_emit_signal(b->bus, BUS_PATH, BUS_MANAGER_INTERFACE, "SessionAdded", "so", a->name,
				    a->path),
		 "a new session");
}

static void on_session_removed(void *userdata, const char *name)
{
	Bus *b = userdata;
	_cleanup_(announced_freep) Announced *a = NULL;

	for (Announced **p = &b->announced; *p; p = &(*p)->next)
		if (strcmp((*p)->name, name) == 0) {
			a = *p;
			*p = a->next;
			break;
		}
	if (!a)
		return;
	flush_soon(b);
	if (!b->bus)
		return;
	complain(sd_bus_emit_signal(b->bus, BUS_PATH, BUS_MANAGER_INTERFACE, "SessionRemoved", "so", a->name,
				    a->path),
		 "a session that is gone");
	/* not sd_bus_emit_object_removed(), which asks for an object that is still there */
	complain(sd_bus_emit_interfaces_removed(b->bus, a->path, "org.freedesktop.DBus.Peer",
						"org.freedesktop.DBus.Introspectable",
						"org.freedesktop.DBus.Properties", BUS_SESSION_INTERFACE, NULL),
		 "a session that is gone");
}

static void on_session_changed(void *userdata, Session *s)
{
	Bus *b = userdata;
	SessionInfo info;
	Announced *a;

	session_info(s, &info);
	a = announced_find(b, info.name);
	if (!a)
		return;
	a->dirty = true;
	/* Events are compared at the flush; who changes them by a method is flushed by that method. */
	if (text_differs(a->state, info.state) || text_differs(a->last_snapshot, info.last_snapshot) ||
	    text_differs(a->last_trace, info.last_trace) || text_differs(a->trouble, info.trouble))
		flush_soon(b);
	else
		flush_eventually(b);
}

static void on_producers_changed(void *userdata)
{
	flush_eventually(userdata);
}

static void on_producer_crashed(void *userdata, pid_t pid, const char *command, const char *unit)
{
	Bus *b = userdata;
	char c[256], u[256];

	if (b->bus)
		complain(sd_bus_emit_signal(b->bus, BUS_PATH, BUS_MANAGER_INTERFACE, "ProducerCrashed", "uss",
					    (u32)pid, text_clean(command, c, sizeof(c)),
					    text_clean(unit, u, sizeof(u))),
			 "a crash");
}

static void on_snapshot_completed(void *userdata, const char *session, const char *reason, const char *path)
{
	Bus *b = userdata;
	char text[1024];

	if (!b->bus)
		return;
	announce_flush(b);
	/* a reason may be a program's own words */
	complain(sd_bus_emit_signal(b->bus, BUS_PATH, BUS_MANAGER_INTERFACE, "SnapshotCompleted", "sss",
				    session, text_clean(reason, text, sizeof(text)), path),
		 "a snapshot");
}

static void on_trace_completed(void *userdata, const char *session, const char *path, u64 n_records)
{
	Bus *b = userdata;

	if (!b->bus)
		return;
	announce_flush(b);
	complain(sd_bus_emit_signal(b->bus, BUS_PATH, BUS_MANAGER_INTERFACE, "TraceCompleted", "sst", session, path,
				    n_records),
		 "a trace");
}

static const ManagerObserver observer = {
	.session_added = on_session_added,
	.session_removed = on_session_removed,
	.session_changed = on_session_changed,
	.producers_changed = on_producers_changed,
	.producer_crashed = on_producer_crashed,
	.snapshot_completed = on_snapshot_completed,
	.trace_completed = on_trace_completed,
};

int announce_start(Bus *b)
{
	Announced *a;
	int r;

	r = sd_event_add_defer(b->event, &b->flush, on_flush, b);
	if (r < 0)
		return r;
	(void)sd_event_source_set_description(b->flush, "bus-flush");
	r = sd_event_source_set_enabled(b->flush, SD_EVENT_OFF);
	if (r < 0)
		return r;
	r = sd_event_add_time(b->event, &b->flush_later, CLOCK_MONOTONIC, 0, 10000, on_flush_later, b);
	if (r < 0)
		return r;
	(void)sd_event_source_set_description(b->flush_later, "bus-flush-later");
	r = sd_event_source_set_enabled(b->flush_later, SD_EVENT_OFF);
	if (r < 0)
		return r;
	for (Session *s = manager_first(b->manager); s; s = manager_next(b->manager, s)) {
		r = announced_add(b, s, &a);
		if (r < 0)
			return r;
	}
	b->announced_sessions = manager_n_sessions(b->manager);
	b->announced_producers = manager_n_producers(b->manager);
	manager_observe(b->manager, &observer, b);
	return 0;
}

void announce_stop(Bus *b)
{
	manager_observe(b->manager, NULL, NULL);
	b->flush = sd_event_source_disable_unref(b->flush);
	b->flush_later = sd_event_source_disable_unref(b->flush_later);
	while (b->announced) {
		Announced *a = b->announced;

		b->announced = a->next;
		announced_free(a);
	}
}
