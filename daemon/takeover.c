/* SPDX-License-Identifier: MIT */
#include "daemon/takeover.h"

#include <stdarg.h>
#include <stdio.h>

#include "daemon/adoption.h"
#include "daemon/manager-private.h"
#include "daemon/job.h"
#include "daemon/quarantine.h"
#include "daemon/state.h"
#include "systemd/journal.h"
#include "systemd/messages.h"

/* Bytes that one id takes in the account, at the least. */
#define ID_LEAST 4

void takeover_refuse(Takeover *t, const char *format, ...)
{
	char text[600];
	va_list ap;

	va_start(ap, format);
	(void)vsnprintf(text, sizeof(text), format, ap);
	va_end(ap);
	t->n_refused++;
	journal_log(LOG_ERR, &(JournalFields){ .message_id = MESSAGE_STATE_REFUSED },
		    "not gone on with, for what was kept of it is damaged: %s", text);
}

/* ---- reading ---- */

static bool passed_has_stored(const Passed *p, u32 *ret_n)
{
	u32 n = 0;

	for (size_t i = 0; i < p->n; i++)
		n += p->v[i].fd >= 0;
	*ret_n = n;
	return n > 0;
}

void takeover_begin(Takeover *t, Passed *passed, const char *state_directory)
{
	u32 faults;
	int fd, r;

	*t = (Takeover){ .passed = passed };
	if (!passed || !passed_has_stored(passed, &t->n_stored))
		return;
	fd = passed_take(passed, "state");
	if (fd < 0) {
		takeover_refuse(t, "there are %u descriptors, but no account of them", t->n_stored);
		return;
	}
	r = ledger_open(&t->ledger, fd);
	if (r < 0) {
		takeover_refuse(t, "the account of sessions: %s",
		       r == -EBADMSG		? "it is none" :
		       r == -EPROTONOSUPPORT ? "it is of another version" :
						    strerror(-r));
		return;
	}
	faults = ledger_faults(t->ledger);
	if (faults >= TAKEOVER_MAX_FAULTS) {
		quarantine_take(passed, ledger_fd(t->ledger), state_directory, faults);
		t->ledger = ledger_free(t->ledger);
		return;
	}
	r = restored_read(&t->restored, t->ledger);
	if (r < 0) {
		takeover_refuse(t, "the account of sessions cannot be read: %s", strerror(-r));
		t->ledger = ledger_free(t->ledger);
		return;
	}
	if (t->restored.n_damaged)
		takeover_refuse(t, "%u lines of the account of sessions", t->restored.n_damaged);
	if (ledger_missed(t->ledger))
		takeover_refuse(t, "%u meanings of event ids, which could not be noted", ledger_missed(t->ledger));
	/* As many ids of any owner, at most, have a meaning that is not known. */
	t->n_missed = (u32)MIN(ledger_missed(t->ledger) + t->restored.n_damaged + t->restored.n_damaged_bytes / ID_LEAST,
			       (u64)ABI_ID_MAX);
	t->ended = ledger_ended(t->ledger);
}

void takeover_slots(Takeover *t)
{
	memcpy(t->kept.clock_uuid, t->restored.clock_uuid, sizeof(t->kept.clock_uuid));
	for (const RestoredSession *s = t->restored.sessions; s; s = s->next) {
		if (!s->running)
			continue;
		/* two that claim one slot: neither is believed */
		if (t->kept.generation[s->slot])
			t->kept.slots &= ~(1ull << s->slot);
		else
			t->kept.slots |= 1ull << s->slot;
		t->kept.generation[s->slot] = s->generation;
	}
}

/* ---- sessions ---- */

static void session_take_numbers(Session *s, const RestoredSession *v)
{
	s->written = v->written;
	s->clamped = v->clamped;
	s->corrupt = v->corrupt;
	s->unwritten = v->unwritten;
	s->n_renewals = (u32)v->renewals;
	s->triggers = v->triggers;
	s->past = v->past;
	s->said = v->said;
	s->last_snapshot = v->last_snapshot ? strdup(v->last_snapshot) : NULL;
	s->last_trace = v->last_trace ? strdup(v->last_trace) : NULL;
}

static void session_take(Takeover *t, Manager *m, RestoredSession *v)
{
	const bool ran = v->running;
	bool running = ran && t->kept.slots >> v->slot & 1 && t->kept.generation[v->slot] == v->generation;
	_cleanup_(session_config_freep) SessionConfig *c = NULL;
	u64 buckets[SCOPE_WORDS];
	Failure f = FAILURE_NULL;
	Session *s;

	if (!v->text || session_config_from_text(&c, v->text) < 0 || strcmp(c->name, v->name) != 0) {
		takeover_refuse(t, "session '%s': its configuration", v->name);
		goto over;
	}
	c->file = v->file ? strdup(v->file) : NULL;
	c->line = (int)v->line;
	if (manager_add_session(m, c, &s, &f) < 0) {
		takeover_refuse(t, "session '%s': %s", v->name, f.text);
		goto over;
	}
	c = NULL;
	/* without damage: it was just being made */
	if (!v->told && t->restored.n_damaged)
		takeover_refuse(t, "session '%s': its numbers", v->name);
	/* or it was stopped for the end of a daemon, and that is all */
	if (!v->told || (t->ended && !v->running))
		v->again = s->config->autostart;
	session_take_numbers(s, v);
	if (v->planned) {
		s->geometry = v->geometry;
		s->planned = true;
	}
	if (running) {
		s->running = true;
		s->slot = v->slot;
		s->generation = v->generation;
		scope_buckets(&s->scope, buckets);
		board_session_keep(m->ground.board, s->slot, buckets);
		return;
	}
	v->again |= ran;
over:
	if (running)
		board_session_end(m->ground.board, v->slot);
	v->running = false;
}

/* ---- snapshots that were due ---- */

/* Pairs of strings, and what they say of a name; NULL: nothing. */
static const char *due_environment(const RestoredDue *v, const char *ret[2 * JOB_ENVIRONMENT_MAX + 1], const char *key)
{
	const char *at = (const char *)v->environment, *end = at + v->n_environment, *found = NULL;
	size_t n = 0;

	ret[0] = NULL;
	if (!at || !v->n_environment || end[-1])
		return NULL;
	while (at < end && n < (size_t)2 * JOB_ENVIRONMENT_MAX) {
		if (n % 2 && strcmp(ret[n - 1], key) == 0)
			found = at;
		ret[n++] = at;
		at += strlen(at) + 1;
	}
	ret[n & ~(size_t)1] = NULL;
	return found;
}

/* On disk, whole, and nobody lived to note it, or to say so: twice is better than never. */
static void due_say(Session *s, const RestoredDue *v)
{
	const char *environment[2 * JOB_ENVIRONMENT_MAX + 1];
	const char *pid = due_environment(v, environment, "pid");

	journal_log(LOG_NOTICE,
		    &(JournalFields){ .message_id = MESSAGE_SNAPSHOT_WRITTEN,
				      .session = v->session,
				      .path = v->path,
				      .trigger = v->trigger,
				      .reason = v->reason,
				      .unit = due_environment(v, environment, "unit"),
				      .pid = pid ? (pid_t)atoi(pid) : 0,
				      .coredump = v->coredump },
		    "session '%s': snapshot %s (%s): it was complete when tracerd died", v->session, v->path, v->reason);
	if (!s)
		return;
	free(s->last_snapshot);
	s->last_snapshot = strdup(v->path);
}

static void due_take(Manager *m, const RestoredDue *v)
{
	const char *environment[2 * JOB_ENVIRONMENT_MAX + 1];
	Session *s = manager_find(m, v->session);
	Failure f = FAILURE_NULL;
	u64 number;

	if (access(v->path, F_OK) == 0) {
		due_say(s, v);
		return;
	}
	if (!s)
		return;
	(void)due_environment(v, environment, "");
	/* under the same name: who is killed over it again leaves one that is due, not two */
	if (jobs_again(m->jobs, s, v->usec, v->trigger, v->reason, environment, &f) < 0) {
		log_error("session '%s': no snapshot (%s), which was due when tracerd died: %s", v->session,
			  v->reason, f.text);
		return;
	}
	number = jobs_number(m->jobs);
	if (v->coredump)
		jobs_explain(m->jobs, number, NULL, v->coredump);
	/* what else is heard of the same death explains this one */
	for (u32 i = 0; i < TRIGGER_RECENT; i++)
		if (v->number && s->triggers.recent[i].snapshot == v->number)
			s->triggers.recent[i].snapshot = number;
}

/* ---- all ---- */

void takeover_apply(Takeover *t, Manager *m)
{
	u32 n_programs;

	if (!t->restored.sessions)
		return;
	m->ground.state->last_number = t->restored.last_number;
	m->ground.state->last_class = t->restored.last_class;
	m->roster.last_number = t->restored.last_program;
	for (RestoredSession *s = t->restored.sessions; s; s = s->next)
		session_take(t, m, s);
	/* stamps of another clock mean nothing here */
	if (memcmp(t->restored.clock_uuid, board_clock_uuid(m->ground.board), 16) != 0)
		takeover_refuse(t, "all rings: the clock is another one");
	else
		adoption_rings(t, m);
	n_programs = adoption_programs(t, m);
	for (RestoredSession *v = t->restored.sessions; v; v = v->next) {
		Session *s = manager_find(m, v->name);

		if (s)
			/* Of rings that are left out the backing has the only copy. Whose they were may be what is damaged. */
			session_resume(s, v->draining, v->again, t->n_refused == 0);
	}
	journal_log(LOG_NOTICE, &(JournalFields){ .message_id = MESSAGE_STATE_RESTORED },
		    "goes on where the last tracerd was: %u sessions, %u programs, %u pieces left out",
		    m->n_sessions, n_programs, t->n_refused);
}

void takeover_mourn(Takeover *t, Manager *m)
{
	jobs_number_from(m->jobs, t->restored.last_snapshot);
	/* first: who has died since may be whom they are of */
	for (const RestoredDue *d = t->restored.due; d; d = d->next)
		due_take(m, d);
	/* they are due under new names */
	if (t->restored.due)
		state_renew(m->ground.state);
	for (Producer *p = roster_next(&m->roster, NULL), *next; p; p = next) {
		next = roster_next(&m->roster, p);
		(void)producer_check(p);
	}
}

void takeover_end(Takeover *t, Manager *m)
{
	State *s = m->ground.state;

	for (size_t i = 0; t->passed && i < t->passed->n; i++)
		if (t->passed->v[i].fd >= 0 && s)
			fdstore_remove(&s->store, t->passed->v[i].name);
	t->ledger = ledger_free(t->ledger);
	restored_clear(&t->restored);
}
