/* SPDX-License-Identifier: MIT */
/* The whole daemon behind the bus: its sessions, as the bus asks for them. */
#include "daemon/manager-private.h"


#include "daemon/state-session.h"
#include "systemd/journal.h"

#define SESSIONS_MAX 1024

u64 manager_now(void)
{
	return monotonic_ns();
}

void manager_session_changed(Manager *m, Session *s)
{
	manager_status_changed(m);
	if (m->observer.session_changed)
		m->observer.session_changed(m->userdata, s);
}

/* ---- sessions ---- */

Session *manager_find(Manager *m, const char *name)
{
	Session *s = m->sessions;

	while (s && strcmp(s->config->name, name) != 0)
		s = s->next;
	return s;
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
	return m->n_sessions;
}

int manager_add_session(Manager *m, SessionConfig *config, Session **ret, Failure *f)
{
	Session *s, **at;
	int r;

	if (manager_find(m, config->name))
		return failure_set(f, FAILURE_SESSION_EXISTS,
				   "session '%s' exists; remove it first, or use another name",
				   config->name);
	if (m->n_sessions >= SESSIONS_MAX)
		return failure_set(f, FAILURE_LIMIT, "there are %u sessions, which is all there can be",
				   m->n_sessions);
	r = session_new(&s, &m->ground, config, f);
	if (r < 0)
		return r;
	for (at = &m->sessions; *at && strcmp((*at)->config->name, config->name) < 0;)
		at = &(*at)->next;
	s->next = *at;
	*at = s;
	m->n_sessions++;
	state_session_config(s);
	state_session(s);
	manager_watch(m);
	manager_status_changed(m);
	if (m->observer.session_added)
		m->observer.session_added(m->userdata, s);
	/* of one that is taken over, nobody knows yet what is a leftover */
	if (!m->ground.state || !m->ground.state->quiet)
		session_look_back(s);
	*ret = s;
	return 0;
}

void manager_drop_session(Manager *m, Session *s)
{
	_cleanup_free_ char *name = strdup(s->config->name);

	jobs_forget(m->jobs, s);
	for (Session **at = &m->sessions; *at; at = &(*at)->next) {
		if (*at != s)
			continue;
		*at = s->next;
		break;
	}
	m->n_sessions--;
	/* no sooner: all may be said anew by it. No later: of it there is to be all or nothing */
	state_session_gone(m->ground.state, s->config->name);
	(void)session_free(s);
	manager_status_changed(m);
	if (name && m->observer.session_removed)
		m->observer.session_removed(m->userdata, name);
	manager_watch(m);
}

static int manager_get(Manager *m, const char *name, Session **ret, Failure *f)
{
	*ret = manager_find(m, name);
	if (*ret)
		return 0;
	return failure_set(f, FAILURE_NO_SUCH_SESSION,
			   "there is no session '%s'; ListSessions (tracerctl list) names those "
			   "there are",
			   name);
}

int manager_create_session(Manager *m, SessionConfig *config, Session **ret, Failure *f)
{
	_cleanup_(session_config_freep) SessionConfig *copy = NULL;
	_cleanup_free_ char *text = NULL;
	Session *s;
	int r;

	if (!config_session_name_valid(config->name))
		return failure_set(f, FAILURE_INVALID,
				   "a session's name has 1 to 64 bytes of UTF-8, none of them '/', "
				   "':' or a control character, and does not begin with '.'");
	r = session_config_check(config, &text);
	if (r < 0)
		return failure_set(f, r == -ENOMEM ? FAILURE_NO_MEMORY : FAILURE_INVALID, "%s",
				   text ? text : strerror(-r));
	/* a copy, so that the caller's is its own until nothing can fail */
	copy = session_config_copy(config);
	if (!copy)
		return failure_set(f, FAILURE_NO_MEMORY, "out of memory");
	r = manager_add_session(m, copy, &s, f);
	if (r < 0)
		return r;
	copy = NULL;
	if (config->autostart) {
		r = session_start(s, f);
		if (r < 0) {
			manager_drop_session(m, s);
			return r;
		}
		manager_session_changed(m, s);
	}
	(void)session_config_free(config);
	if (ret)
		*ret = s;
	return 0;
}

int manager_remove_session(Manager *m, const char *name, Failure *f)
{
	Session *s;
	int r = manager_get(m, name, &s, f);

	if (r < 0)
		return r;
	manager_drop_session(m, s);
	return 0;
}

int manager_start_session(Manager *m, const char *name, Failure *f)
{
	Session *s;
	int r = manager_get(m, name, &s, f);

	if (r == 0)
		r = session_start(s, f);
	if (r == 0)
		manager_session_changed(m, s);
	return r;
}

int manager_stop_session(Manager *m, const char *name, SessionDone done, void *userdata, Failure *f)
{
	Session *s;
	int r = manager_get(m, name, &s, f);
	bool ran;

	if (r < 0)
		return r;
	ran = s->running;
	r = session_stop(s, done, userdata, f);
	if (r < 0)
		return r;
	/* the mask is down, so the snapshot has all of it */
	if (ran && s->config->on_stop == ON_STOP_SNAPSHOT && s->n_owners) {
		Failure ignored = FAILURE_NULL;

		if (jobs_add(m->jobs, s, "stop", "session stopped", false, NULL, NULL, NULL, NULL,
			     NULL, &ignored) < 0)
			log_error("session '%s': no snapshot at its stop: %s", name, ignored.text);
	}
	manager_session_changed(m, s);
	return 0;
}

int manager_clear_session(Manager *m, const char *name, Failure *f)
{
	Session *s;
	int r = manager_get(m, name, &s, f);

	if (r == 0)
		r = session_clear(s, f);
	if (r == 0)
		manager_session_changed(m, s);
	return r;
}

int manager_rotate_session(Manager *m, const char *name, RotateDone done, void *userdata, Failure *f)
{
	Session *s;
	int r = manager_get(m, name, &s, f);

	if (r < 0)
		return r;
	if (!session_is_continuous(s))
		return failure_set(f, FAILURE_NOT_CONTINUOUS,
				   "session '%s' keeps its events in memory (io = \"none\") and writes no file "
				   "that could be rotated; take a snapshot instead",
				   name);
	if (!s->running || !s->writing || writing_stopping(s->writing))
		return failure_set(f, FAILURE_NOT_RUNNING,
				   "session '%s' is not running, so its last trace is finished", name);
	r = writing_rotate(s->writing, done, userdata);
	return r < 0 ? failure_set(f, FAILURE_NO_MEMORY, "out of memory") : 0;
}

int manager_configure_session(Manager *m, SessionConfig *config, Failure *f)
{
	_cleanup_free_ char *text = NULL;
	Session *s;
	int r = manager_get(m, config->name, &s, f);

	if (r < 0)
		return r;
	r = session_config_check(config, &text);
	if (r < 0)
		return failure_set(f, r == -ENOMEM ? FAILURE_NO_MEMORY : FAILURE_INVALID, "%s",
				   text ? text : strerror(-r));
	/* A mistake in a word over the bus costs no record; of a file, which is applied as a whole, it is said as trouble. */
	r = session_can_move(s, config, f);
	if (r == 0)
		r = session_configure(s, config, f);
	if (r < 0)
		return r;
	manager_watch(m);
	manager_session_changed(m, s);
	return 0;
}

int manager_set_events(Manager *m, const char *name, const Strings *events, Failure *f)
{
	_cleanup_(session_config_freep) SessionConfig *config = NULL;
	_cleanup_free_ char *text = NULL;
	ConfigValue value = { .type = CONFIG_STRINGS, .strings = *events };
	Session *s;
	int r = manager_get(m, name, &s, f);

	if (r < 0)
		return r;
	config = session_config_copy(s->config);
	if (!config)
		return failure_set(f, FAILURE_NO_MEMORY, "out of memory");
	r = session_config_set(config, "events", &value, &text);
	if (r == 0)
		r = session_config_check(config, &text);
	if (r < 0)
		return failure_set(f, r == -ENOMEM ? FAILURE_NO_MEMORY : FAILURE_INVALID, "%s",
				   text ? text : strerror(-r));
	r = session_configure(s, config, f);
	if (r < 0)
		return r;
	config = NULL;
	manager_session_changed(m, s);
	return 0;
}

int manager_snapshot(Manager *m, const char *name, const char *trigger, const char *reason,
		     const SnapshotOptions *options, SnapshotDone done, void *userdata, char **ret_path,
		     Failure *f)
{
	Session *s;
	int r = manager_get(m, name, &s, f);

	if (r < 0)
		return r;
	for (const char *p = trigger; *p; p++)
		if (!((*p >= 'a' && *p <= 'z') || (*p >= '0' && *p <= '9') || *p == '-') ||
		    p - trigger >= 32)
			return failure_set(f, FAILURE_INVALID,
					   "a trigger is a word of at most 32 of a-z, 0-9 and '-'");
	return jobs_add(m->jobs, s, trigger, reason, false, options, NULL, done, userdata, ret_path, f);
}

void manager_observe(Manager *m, const ManagerObserver *observer, void *userdata)
{
	m->observer = observer ? *observer : (ManagerObserver){};
	m->userdata = userdata;
}
