/* SPDX-License-Identifier: MIT */
#include "tests/unit/dbus/fake-manager.h"

#include <stdarg.h>
#include <stdio.h>

#include "lib/pattern.h"
#include "lib/tracer.h"
#include "systemd/journal.h"

struct Session {
	Session *next;
	SessionConfig *config;
	SessionInfo info;
	char *last_snapshot, *last_trace, *trouble, *snapshots, *output;
};

typedef struct {
	char *session, *reason, *path;
	SnapshotDone done;
	void *userdata;
} Running;

/* A stop or a rotation that has not ended. */
typedef struct {
	char *session;
	SessionDone stopped;
	RotateDone rotated;
	void *userdata;
} Waiting;

struct Manager {
	Session *sessions;
	const ManagerObserver *observer;
	void *userdata;
	ProducerInfo producers[64];
	u32 n_producers;
	EventInfo events[64];
	u32 n_events;
	Failure failure;
	int failure_r;
	bool fails;
	Running running[256];
	unsigned n_running, n_snapshots, n_reloads;
	Waiting waiting[256];
	unsigned n_waiting, n_traces;
	bool held;
	SnapshotOptions options;
	char reason[2048];
	sd_event_source *finish;
};

/* ---- what other rooms would give ---- */

int failure_set(Failure *f, FailureKind kind, const char *format, ...)
{
	va_list ap;

	if (f) {
		f->kind = kind;
		va_start(ap, format);
		(void)vsnprintf(f->text, sizeof(f->text), format, ap);
		va_end(ap);
	}
	return -EINVAL;
}

const char *level_name(int level)
{
	return level == TRACER_INFO ? "info" : level == TRACER_DEBUG ? "debug" : NULL;
}

static int log_level = LOG_INFO;

void journal_log(int priority, const JournalFields *fields, const char *format, ...)
{
	va_list ap;

	if (priority > log_level)
		return;
	(void)fprintf(stderr, "# ");
	va_start(ap, format);
	(void)vfprintf(stderr, format, ap);
	va_end(ap);
	(void)fputc('\n', stderr);
}

void journal_set_level(int priority)
{
	log_level = priority;
}

int journal_level(void)
{
	return log_level;
}

/* ---- the manager ---- */

Manager *fake_manager_new(void)
{
	return calloc(1, sizeof(Manager));
}

static void session_free(Session *s)
{
	session_config_free(s->config);
	free(s->last_snapshot);
	free(s->last_trace);
	free(s->trouble);
	free(s->snapshots);
	free(s->output);
	free(s);
}

static void running_clear(Running *r)
{
	free(r->session);
	free(r->reason);
	free(r->path);
}

Manager *manager_free(Manager *m)
{
	if (!m)
		return NULL;
	while (m->sessions) {
		Session *s = m->sessions;

		m->sessions = s->next;
		session_free(s);
	}
	while (m->n_running > 0) {
		Failure f = FAILURE_NULL;

		(void)failure_set(&f, FAILURE_BUSY, "the end");
		fake_snapshot_finish(m, &f);
	}
	while (m->n_waiting > 0) {
		Failure f = FAILURE_NULL;

		(void)failure_set(&f, FAILURE_BUSY, "the end");
		fake_writing_finish(m, &f);
	}
	fake_producers_clear(m);
	sd_event_source_disable_unref(m->finish);
	free(m);
	return NULL;
}

void manager_observe(Manager *m, const ManagerObserver *observer, void *userdata)
{
	m->observer = observer;
	m->userdata = userdata;
}

const ManagerObserver *fake_observer(Manager *m)
{
	return m->observer;
}

static int fail(Manager *m, Failure *f)
{
	if (!m->fails)
		return 0;
	m->fails = false;
	*f = m->failure;
	return m->failure_r;
}

void fake_fail_next(Manager *m, FailureKind kind, const char *text, int r)
{
	m->fails = true;
	m->failure.kind = kind;
	(void)snprintf(m->failure.text, sizeof(m->failure.text), "%s", text);
	m->failure_r = r;
}

static int no_such(Failure *f, const char *name)
{
	(void)failure_set(f, FAILURE_NO_SUCH_SESSION, "There is no session '%s'", name);
	return -ENOENT;
}

int manager_create_session(Manager *m, SessionConfig *config, Session **ret, Failure *f)
{
	Session *s, **p = &m->sessions;
	int r = fail(m, f);

	if (r < 0)
		return r;
	if (manager_find(m, config->name)) {
		(void)failure_set(f, FAILURE_SESSION_EXISTS, "There is a session '%s' already", config->name);
		return -EEXIST;
	}
	s = calloc(1, sizeof(*s));
	s->config = config;
	s->last_snapshot = strdup("");
	s->last_trace = strdup("");
	s->trouble = strdup("");
	if (asprintf(&s->snapshots, "/var/lib/tracer/snapshots/%s", config->name) < 0 ||
	    asprintf(&s->output, "/var/lib/tracer/traces/%s", config->name) < 0)
		abort();
	s->info.state = "stopped";
	while (*p && strcmp((*p)->config->name, config->name) < 0)
		p = &(*p)->next;
	s->next = *p;
	*p = s;
	if (m->observer && m->observer->session_added)
		m->observer->session_added(m->userdata, s);
	*ret = s;
	return 0;
}

Session *fake_session_add(Manager *m, const char *name)
{
	SessionConfig *c = NULL;
	Failure f = FAILURE_NULL;
	Session *s = NULL;

	if (session_config_new(&c, name) < 0 || manager_create_session(m, c, &s, &f) < 0)
		abort();
	return s;
}

SessionInfo *fake_session_info(Session *s)
{
	return &s->info;
}

void fake_session_changed(Manager *m, Session *s)
{
	if (m->observer && m->observer->session_changed)
		m->observer->session_changed(m->userdata, s);
}

void fake_session_set_last_snapshot(Session *s, const char *path)
{
	free(s->last_snapshot);
	s->last_snapshot = strdup(path);
}

static void text_set(char **to, const char *text)
{
	free(*to);
	*to = strdup(text);
}

void fake_session_set_last_trace(Session *s, const char *path)
{
	text_set(&s->last_trace, path);
}

void fake_session_set_output(Session *s, const char *path)
{
	text_set(&s->output, path);
}

void fake_session_set_trouble(Manager *m, Session *s, const char *text)
{
	text_set(&s->trouble, text);
	fake_session_changed(m, s);
}

int manager_remove_session(Manager *m, const char *name, Failure *f)
{
	int r = fail(m, f);

	if (r < 0)
		return r;
	for (Session **p = &m->sessions; *p; p = &(*p)->next)
		if (strcmp((*p)->config->name, name) == 0) {
			Session *s = *p;

			*p = s->next;
			/* the name is gone with the session: whoever is told must not keep a pointer into it */
			session_free(s);
			if (m->observer && m->observer->session_removed)
				m->observer->session_removed(m->userdata, name);
			return 0;
		}
	return no_such(f, name);
}

static int session_turn(Manager *m, const char *name, bool on, Failure *f)
{
	Session *s = manager_find(m, name);
	int r = fail(m, f);

	if (r < 0)
		return r;
	if (!s)
		return no_such(f, name);
	if (on == (strcmp(s->info.state, "running") == 0)) {
		(void)failure_set(f, on ? FAILURE_SESSION_RUNNING : FAILURE_NOT_RUNNING,
				  "Session '%s' is %s", name, s->info.state);
		return -EALREADY;
	}
	s->info.state = on ? "running" : "stopped";
	s->info.memory = on ? 16 << 20 : 0;
	fake_session_changed(m, s);
	return 0;
}

int manager_start_session(Manager *m, const char *name, Failure *f)
{
	return session_turn(m, name, true, f);
}

/* ---- sessions that write ---- */

static void wait_for_it(Manager *m, const char *name, SessionDone stopped, RotateDone rotated, void *userdata)
{
	m->waiting[m->n_waiting++] = (Waiting){ strdup(name), stopped, rotated, userdata };
	if (m->finish)
		(void)sd_event_source_set_enabled(m->finish, SD_EVENT_ONESHOT);
}

void fake_hold_writings(Manager *m, bool held)
{
	m->held = held;
}

unsigned fake_n_writings(Manager *m)
{
	return m->n_waiting;
}

void fake_writing_finish(Manager *m, const Failure *failure)
{
	Waiting w = m->waiting[0];
	Session *s = manager_find(m, w.session);
	char *path = NULL;

	m->n_waiting--;
	memmove(m->waiting, m->waiting + 1, m->n_waiting * sizeof(*m->waiting));
	if (!failure && s) {
		if (asprintf(&path, "%s/%u-trace", s->output, ++m->n_traces) < 0)
			abort();
		fake_session_set_last_trace(s, path);
		fake_session_changed(m, s);
		if (m->observer && m->observer->trace_completed)
			m->observer->trace_completed(m->userdata, w.session, path, 1000);
	}
	if (s && w.stopped)
		s->info.state = "stopped";
	/* the order of the real one: whoever waits hears of it first */
	if (w.stopped)
		w.stopped(w.userdata, failure);
	if (w.rotated)
		w.rotated(w.userdata, path, failure);
	if (s && w.stopped)
		fake_session_changed(m, s);
	free(w.session);
	free(path);
}

int manager_stop_session(Manager *m, const char *name, SessionDone done, void *userdata, Failure *f)
{
	Session *s;
	int r = session_turn(m, name, false, f);

	if (r < 0)
		return r;
	s = manager_find(m, name);
	if (s->config->io == IO_NONE) {
		if (done)
			done(userdata, NULL);
		return 0;
	}
	s->info.state = "stopping";
	fake_session_changed(m, s);
	wait_for_it(m, name, done, NULL, userdata);
	return 0;
}

int manager_rotate_session(Manager *m, const char *name, RotateDone done, void *userdata, Failure *f)
{
	Session *s = manager_find(m, name);
	int r = fail(m, f);

	if (r < 0)
		return r;
	if (!s)
		return no_such(f, name);
	if (s->config->io == IO_NONE)
		return failure_set(f, FAILURE_NOT_CONTINUOUS, "session '%s' keeps its events in memory: take a snapshot",
				   name);
	wait_for_it(m, name, NULL, done, userdata);
	return 0;
}

int manager_configure_session(Manager *m, SessionConfig *config, Failure *f)
{
	Session *s = manager_find(m, config->name);
	int r = fail(m, f);

	if (r < 0)
		return r;
	if (!s)
		return no_such(f, config->name);
	session_config_free(s->config);
	s->config = config;
	fake_session_changed(m, s);
	return 0;
}

int manager_clear_session(Manager *m, const char *name, Failure *f)
{
	Session *s = manager_find(m, name);
	int r = fail(m, f);

	if (r < 0)
		return r;
	if (!s)
		return no_such(f, name);
	s->info.recorded = s->info.overwritten = s->info.discarded = 0;
	fake_session_changed(m, s);
	return 0;
}

int manager_set_events(Manager *m, const char *name, const Strings *events, Failure *f)
{
	ConfigValue v = { .type = CONFIG_STRINGS, .strings = *events };
	Session *s = manager_find(m, name);
	_cleanup_free_ char *text = NULL;
	int r = fail(m, f);

	if (r < 0)
		return r;
	if (!s)
		return no_such(f, name);
	r = session_config_set(s->config, "events", &v, &text);
	if (r < 0) {
		(void)failure_set(f, FAILURE_INVALID, "%s", text);
		return r;
	}
	fake_session_changed(m, s);
	return 0;
}

int manager_reload(Manager *m, Failure *f)
{
	int r = fail(m, f);

	if (r >= 0)
		m->n_reloads++;
	return r;
}

unsigned fake_n_reloads(Manager *m)
{
	return m->n_reloads;
}

static int on_finish(sd_event_source *source, void *userdata)
{
	Manager *m = userdata;

	while (m->n_running > 0)
		fake_snapshot_finish(m, NULL);
	while (m->n_waiting > 0 && !m->held)
		fake_writing_finish(m, NULL);
	return 0;
}

void fake_snapshots_at_once(Manager *m, sd_event *event)
{
	if (sd_event_add_defer(event, &m->finish, on_finish, m) < 0 ||
	    sd_event_source_set_enabled(m->finish, SD_EVENT_OFF) < 0)
		abort();
}

int manager_snapshot(Manager *m, const char *name, const char *trigger, const char *reason,
		     const SnapshotOptions *options, SnapshotDone done, void *userdata, char **ret_path,
		     Failure *f)
{
	Session *s = manager_find(m, name);
	Running *n = &m->running[m->n_running];
	int r = fail(m, f);

	if (r < 0)
		return r;
	if (!s)
		return no_such(f, name);
	if (strcmp(s->info.state, "running") != 0) {
		(void)failure_set(f, FAILURE_NOT_RUNNING, "Session '%s' is not running", name);
		return -ENOTCONN;
	}
	m->options = *options;
	(void)snprintf(m->reason, sizeof(m->reason), "%s", reason);
	*n = (Running){ .session = strdup(name), .reason = strdup(reason), .done = done, .userdata = userdata };
	if (asprintf(&n->path, "%s/%u-%s", s->snapshots, ++m->n_snapshots, trigger) < 0)
		abort();
	if (ret_path)
		*ret_path = strdup(n->path);
	m->n_running++;
	if (m->finish)
		(void)sd_event_source_set_enabled(m->finish, SD_EVENT_ONESHOT);
	return 0;
}

u32 manager_report_unit(Manager *m, const char *unit, const char *reason, UnitSaved saved, void *userdata)
{
	u32 n = 0;

	for (Session *s = manager_first(m); s; s = manager_next(m, s)) {
		_cleanup_free_ char *path = NULL;
		SessionInfo info;

		session_info(s, &info);
		if (strcmp(info.state, "running") != 0)
			continue;
		if (asprintf(&path, "/%s/%s", unit, reason) < 0)
			abort();
		saved(userdata, info.name, path);
		n++;
	}
	return n;
}

unsigned fake_n_snapshots(Manager *m)
{
	return m->n_running;
}

SnapshotOptions fake_snapshot_options(Manager *m)
{
	return m->options;
}

const char *fake_snapshot_reason(Manager *m)
{
	return m->reason;
}

void fake_snapshot_finish(Manager *m, const Failure *failure)
{
	Running n = m->running[0];
	Session *s = manager_find(m, n.session);

	m->n_running--;
	memmove(m->running, m->running + 1, m->n_running * sizeof(*m->running));
	if (!failure && s) {
		fake_session_set_last_snapshot(s, n.path);
		fake_session_changed(m, s);
	}
	if (n.done)
		n.done(n.userdata, failure ? NULL : n.path, failure);
	if (!failure && m->observer && m->observer->snapshot_completed)
		m->observer->snapshot_completed(m->userdata, n.session, n.reason, n.path);
	running_clear(&n);
}

Session *manager_find(Manager *m, const char *name)
{
	for (Session *s = m->sessions; s; s = s->next)
		if (strcmp(s->config->name, name) == 0)
			return s;
	return NULL;
}

Session *manager_first(Manager *m)
{
	return m->sessions;
}

Session *manager_next(Manager *m, Session *s)
{
	return s->next;
}

u32 manager_n_sessions(Manager *m)
{
	u32 n = 0;

	for (Session *s = m->sessions; s; s = s->next)
		n++;
	return n;
}

u32 manager_n_producers(Manager *m)
{
	return m->n_producers;
}

void fake_producer_add(Manager *m, pid_t pid, uid_t uid, const char *command, const char *unit)
{
	m->producers[m->n_producers++] = (ProducerInfo){ .pid = pid,
							       .uid = uid,
							       .command = command,
							       .unit = unit,
							       .exe = "/usr/sbin/ngi\x1bnx",
							       .build_id = "00ff",
							       .started = 1700000000000001999,
							       .start_ticks = 77 };
	if (m->observer && m->observer->producers_changed)
		m->observer->producers_changed(m->userdata);
}

void fake_producers_clear(Manager *m)
{
	m->n_producers = 0;
	if (m->observer && m->observer->producers_changed)
		m->observer->producers_changed(m->userdata);
}

bool manager_producer(Manager *m, u32 i, ProducerInfo *ret)
{
	if (i >= m->n_producers)
		return false;
	*ret = m->producers[i];
	return true;
}

void fake_event_add(Manager *m, const char *provider, const char *event, int level)
{
	m->events[m->n_events++] = (EventInfo){ provider, event, level };
}

bool manager_event(Manager *m, u32 i, EventInfo *ret)
{
	if (i >= m->n_events)
		return false;
	*ret = m->events[i];
	return true;
}

void fake_crash(Manager *m, pid_t pid, const char *command, const char *unit)
{
	m->observer->producer_crashed(m->userdata, pid, command, unit);
}

void session_info(Session *s, SessionInfo *ret)
{
	*ret = s->info;
	ret->name = s->config->name;
	ret->config = s->config;
	ret->output = s->config->io == IO_NONE ? s->snapshots : s->output;
	ret->snapshots = s->snapshots;
	ret->last_snapshot = s->last_snapshot;
	ret->last_trace = s->last_trace;
	ret->trouble = s->trouble;
}
