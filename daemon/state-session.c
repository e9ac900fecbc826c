/* SPDX-License-Identifier: MIT */
#include "daemon/state-session.h"

#include "daemon/job.h"
#include "daemon/line-rings.h"

static u64 session_unwritten(const Session *s)
{
	ConsumerInfo w;

	if (!s->writing)
		return s->unwritten;
	writing_info(s->writing, &w);
	return s->unwritten + w.unwritten - s->unwritten_before;
}

void state_session_without(const Session *s, u64 gone)
{
	State *state = s->ground->state;
	Line *l;

	if (!state_kept(state))
		return;
	l = &state->line;
	line_begin(l, "session");
	line_text(l, "name", s->config->name);
	line_number(l, "running", s->running);
	if (s->running) {
		line_number(l, "slot", s->slot);
		line_number(l, "generation", s->generation);
	}
	if (s->planned)
		line_geometry(l, &s->geometry);
	line_number(l, "draining", !s->running && s->writing);
	line_number(l, "written", s->written);
	line_number(l, "clamped", s->clamped);
	line_number(l, "corrupt", s->corrupt);
	line_number(l, "unwritten", session_unwritten(s));
	line_number(l, "renewals", s->n_renewals);
	line_bytes(l, "causes", s->triggers.of, sizeof(s->triggers.of));
	line_text(l, "last_snapshot", s->last_snapshot);
	line_text(l, "last_trace", s->last_trace);
	line_counters(l, &s->past);
	if (gone)
		line_number(l, "gone", gone);
	(void)state_say(state);
}

void state_session(const Session *s)
{
	state_session_without(s, 0);
}

void state_signs(const Session *s)
{
	State *state = s->ground->state;

	if (!state_kept(state))
		return;
	line_begin(&state->line, "signs");
	line_text(&state->line, "name", s->config->name);
	line_number(&state->line, "n", s->triggers.n);
	line_bytes(&state->line, "recent", s->triggers.recent, sizeof(s->triggers.recent));
	(void)state_say(state);
}

void state_session_config(const Session *s)
{
	State *state = s->ground->state;
	_cleanup_free_ char *text = NULL;

	if (!state_kept(state))
		return;
	text = session_config_text(s->config);
	line_begin(&state->line, "config");
	line_text(&state->line, "name", s->config->name);
	line_text(&state->line, "file", s->config->file);
	line_number(&state->line, "line", (u64)s->config->line);
	line_text(&state->line, "text", text);
	if (!text)
		state->line.failed = true;
	(void)state_say(state);
}

void state_session_said(State *s, const char *name, u64 said)
{
	if (!state_kept(s))
		return;
	line_begin(&s->line, "said");
	line_text(&s->line, "name", name);
	line_number(&s->line, "hash", said);
	(void)state_say(s);
}

void state_session_gone(State *s, const char *name)
{
	if (!state_kept(s))
		return;
	line_begin(&s->line, "session-gone");
	line_text(&s->line, "name", name);
	(void)state_say(s);
}

/* ---- snapshots that are due ---- */

/* Each with its NUL. */
static void say_strings(Line *l, const char *key, char *const *v, size_t n)
{
	_cleanup_free_ char *bytes = NULL;
	size_t size = 0, at = 0;

	for (size_t i = 0; i < n; i++)
		size += strlen(v[i]) + 1;
	bytes = malloc(MAX(size, 1u));
	if (!bytes) {
		l->failed = true;
		return;
	}
	for (size_t i = 0; i < n; i++)
		at += (size_t)(stpcpy(bytes + at, v[i]) - (bytes + at)) + 1;
	line_bytes(l, key, bytes, size);
}

void state_job(State *s, const Job *b)
{
	if (!state_kept(s) || !b->automatic)
		return;
	line_begin(&s->line, "due");
	line_number(&s->line, "usec", b->due_usec);
	line_text(&s->line, "session", b->session_name);
	line_text(&s->line, "trigger", b->trigger);
	line_text(&s->line, "reason", b->reason);
	line_text(&s->line, "path", b->due_path);
	line_text(&s->line, "coredump", b->coredump);
	line_number(&s->line, "number", b->number);
	say_strings(&s->line, "environment", b->environment, b->n_environment);
	(void)state_say(s);
}

void state_job_gone(State *s, const Job *b)
{
	if (!state_kept(s) || !b->automatic)
		return;
	line_begin(&s->line, "due-gone");
	line_number(&s->line, "usec", b->due_usec);
	line_text(&s->line, "session", b->session_name);
	(void)state_say(s);
}
