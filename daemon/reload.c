/* SPDX-License-Identifier: MIT */
/* Reads the configuration again and applies the difference, or changes nothing. */
#include "daemon/manager-private.h"

#include <stdio.h>

#include "daemon/state-session.h"
#include "systemd/journal.h"
#include "systemd/messages.h"

/* All problems into one text; what does not fit is counted. */
static int problems_fail(const ConfigProblems *problems, Failure *f)
{
	char text[sizeof(f->text)] = "";
	size_t at = 0, left = 0;

	for (size_t i = 0; i < problems->n; i++) {
		_cleanup_free_ char *line = NULL;
		int n;

		if (problems->v[i].warning)
			continue;
		line = config_problem_text(&problems->v[i]);
		if (!line)
			continue;
		journal_log(LOG_ERR,
			    &(JournalFields){ .message_id = MESSAGE_CONFIG_REJECTED,
					      .path = problems->v[i].file },
			    "%s", line);
		n = snprintf(NULL, 0, "%s%s", at ? "\n" : "", line);
		if (at + (size_t)n + 40 >= sizeof(text)) {
			left++;
			continue;
		}
		(void)snprintf(text + at, sizeof(text) - at, "%s%s", at ? "\n" : "", line);
		at += (size_t)n;
	}
	if (left)
		(void)snprintf(text + at, sizeof(text) - at, "\n(and %zu more)", left);
	return failure_set(f, FAILURE_CONFIG, "%s", text);
}

/* new: nobody has come to start it yet. */
static void session_reload(Manager *m, Session *s, SessionConfig *config, bool new)
{
	bool start = config->autostart && (new || !s->config->autostart) && !s->running;
	Failure f = FAILURE_NULL;

	if (session_configure(s, config, &f) < 0) {
		log_error("%s", f.text);
		(void)session_config_free(config);
		return;
	}
	if (start && session_start_anyway(s, &f) < 0)
		log_error("%s", f.text);
	manager_session_changed(m, s);
}

static void sessions_remove(Manager *m, const Config *config)
{
	for (Session *s = m->sessions, *next; s; s = next) {
		next = s->next;
		if (s->config->file && !config_find(config, s->config->name)) {
			log_info("session '%s' is no longer configured", s->config->name);
			manager_drop_session(m, s);
		}
	}
}

static void session_appear(Manager *m, SessionConfig *config)
{
	Failure f = FAILURE_NULL;
	Session *s;

	if (manager_add_session(m, config, &s, &f) < 0) {
		log_error("%s", f.text);
		(void)session_config_free(config);
		return;
	}
	if (config->autostart && session_start_anyway(s, &f) < 0)
		log_error("%s", f.text);
	manager_session_changed(m, s);
}

/* What files say of a session, as a number: FNV-1a of its text. Never 0. */
static u64 config_hash(const SessionConfig *c)
{
	_cleanup_free_ char *text = session_config_text(c);
	u64 h = 0xcbf29ce484222325ull;

	for (const char *p = text; p && *p; p++)
		h = (h ^ (u8)*p) * 0x100000001b3ull;
	return h ? h : 1;
}

/* Nothing to do: it is as the files say; or, taken over, they say what they said before, and what was changed since over D-Bus
 * stays changed. */
static bool session_unchanged(Session *s, const SessionConfig *c, u64 said, bool restoring)
{
	if (session_set_directories(s) < 0)
		return false;
	return restoring ? s->said == said : session_config_equal(s->config, c);
}

void manager_apply_sessions(Manager *m, Config *config, bool restoring)
{
	size_t n = 0;

	sessions_remove(m, config);
	for (size_t i = 0; i < config->n_sessions; i++) {
		SessionConfig *c = config->sessions[i];
		u64 said = config_hash(c);
		_cleanup_free_ char *name = strdup(c->name);
		Session *s = manager_find(m, c->name);

		if (s && !s->config->file) {
			log_warning("session '%s' was made over D-Bus and stays; its configuration "
				    "in %s:%d takes effect when that one is removed",
				    c->name, c->file ? c->file : "?", c->line);
			continue;
		}
		if (!s || !session_unchanged(s, c, said, restoring)) {
			config->sessions[i] = NULL;
			if (s)
				/* what files say is noted behind the start: one without that was not come to */
				session_reload(m, s, c, restoring && !s->said);
			else
				session_appear(m, c);
		}
		s = name ? manager_find(m, name) : NULL;
		if (s && s->said != said) {
			s->said = said;
			state_session_said(m->ground.state, name, said);
		}
	}
	/* what was not taken goes with the configuration, which wants no holes */
	for (size_t i = 0; i < config->n_sessions; i++)
		if (config->sessions[i])
			config->sessions[n++] = config->sessions[i];
	config->n_sessions = n;
	manager_watch(m);
}

/* Whether every new or changed session could be made at all, before anything is changed. */
static int config_possible(Manager *m, const Config *config, Failure *f)
{
	for (size_t i = 0; i < config->n_sessions; i++) {
		int r = session_possible(config->sessions[i], m->cpus, f);

		if (r < 0)
			return r;
	}
	return 0;
}

int manager_reload(Manager *m, Failure *f)
{
	_cleanup_(config_freep) Config *config = NULL;
	ConfigProblems problems = {};
	u32 clock = m->daemon.clock;
	int r;

	if (m->config_file)
		r = config_read_file(m->config_file, &config, &problems);
	else
		r = config_read(m->config_directories ? (const char *const *)m->config_directories :
							config_default_directories,
				&config, &problems);
	if (r < 0 || !config) {
		r = problems.n ? problems_fail(&problems, f) :
				 failure_set(f, FAILURE_CONFIG, "the configuration cannot be read: %s",
					     strerror(-r));
		config_problems_clear(&problems);
		return r;
	}
	for (size_t i = 0; i < problems.n; i++) {
		_cleanup_free_ char *text = config_problem_text(&problems.v[i]);

		log_warning("%s", text ? text : problems.v[i].text);
	}
	config_problems_clear(&problems);
	r = config_possible(m, config, f);
	if (r < 0)
		return r;
	r = manager_apply_daemon(m, &config->daemon);
	if (r < 0)
		return failure_set(f, FAILURE_NO_MEMORY, "out of memory");
	if (m->daemon.clock != clock)
		log_notice("daemon.clock changed; it takes effect at the next start of tracerd");
	manager_apply_sessions(m, config, false);
	return 0;
}
