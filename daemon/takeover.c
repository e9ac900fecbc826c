/* SPDX-License-Identifier: MIT */
#include "daemon/takeover.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>

#include "daemon/manager-private.h"
#include "daemon/job.h"
#include "daemon/quarantine.h"
#include "daemon/state-owner.h"
#include "daemon/state-program.h"
#include "daemon/state.h"
#include "systemd/journal.h"
#include "systemd/messages.h"

/* Bytes that one id takes in the account, at the least. */
#define ID_LEAST 4

static void refuse(Takeover *t, const char *format, ...) _printf_(2, 3);
static void refuse(Takeover *t, const char *format, ...)
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
		refuse(t, "there are %u descriptors, but no account of them", t->n_stored);
		return;
	}
	r = ledger_open(&t->ledger, fd);
	if (r < 0) {
		refuse(t, "the account of sessions: %s",
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
		refuse(t, "the account of sessions cannot be read: %s", strerror(-r));
		t->ledger = ledger_free(t->ledger);
		return;
	}
	if (t->restored.n_damaged)
		refuse(t, "%u lines of the account of sessions", t->restored.n_damaged);
	if (ledger_missed(t->ledger))
		refuse(t, "%u meanings of event ids, which could not be noted", ledger_missed(t->ledger));
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
		refuse(t, "session '%s': its configuration", v->name);
		goto over;
	}
	c->file = v->file ? strdup(v->file) : NULL;
	c->line = (int)v->line;
	if (manager_add_session(m, c, &s, &f) < 0) {
		refuse(t, "session '%s': %s", v->name, f.text);
		goto over;
	}
	c = NULL;
	/* without damage: it was just being made */
	if (!v->told && t->restored.n_damaged)
		refuse(t, "session '%s': its numbers", v->name);
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

/* ---- rings ---- */

static int class_take(Manager *m, RestoredClass *c, Class **ret)
{
	int r = 0;

	if (!c->taken && !c->class)
		return -ENOMEM; /* tried before */
	if (!c->taken)
		r = classes_intern(m->ground.classes, c->uid, steal_ptr(c->class), &c->taken, NULL);
	if (r == 0 && !c->taken->number)
		c->taken->number = c->number;
	*ret = c->taken;
	return r;
}

static void classes_let_go(Takeover *t)
{
	for (RestoredClass *c = t->restored.classes; c; c = c->next)
		c->taken = class_unref(c->taken);
}

static void ids_take(Takeover *t, Manager *m, Owner *o, RestoredOwner *v)
{
	u32 n = 0;

	for (RestoredId *i = v->ids; i; i = i->next) {
		Class *class;
		int r = class_take(m, i->class, &class);

		if (r == 0)
			r = ids_put(&o->ids, class, (u16)i->id);
		/* -EEXIST: an older meaning of the id, which nothing in the rings has any more */
		n += r < 0 && r != -EEXIST;
	}
	if (n)
		refuse(t, "session '%s': %u events of %s: their records cannot be read", v->session, n, v->label);
	/* Records in the rings may have ids whose meaning is lost. They must not get another one. */
	if (t->n_missed && ids_skip(&o->ids, t->n_missed) < 0)
		refuse(t, "session '%s': the ids of %s", v->session, v->label);
}

/* What was taken out of what was passed is not used after all. */
static void let_go(Manager *m, const char *name)
{
	fdstore_remove(&m->ground.state->store, name);
}

/* Rings of programs that are not there any more are given on, the one that is longest gone first. */
static void pinned_adopt(Owner *o, RestoredOwner *v)
{
	if (!v->pinned)
		return;
	o->pinned.rings = steal_ptr(v->pinned);
	for (u32 i = 0; i < o->region.geometry.n_pinned; i++)
		o->pinned.n_left = MAX(o->pinned.n_left, o->pinned.rings[i].left);
}

static void dead_take(Owner *o, const RestoredOwner *v)
{
	for (const RestoredDead *d = v->dead; d; d = d->next) {
		_cleanup_(description_unrefp) Description *what = description_new();
		Described *described;

		if (!what)
			return;
		*what = d->what;
		what->n_refs = 1;
		if (described_add(&o->described, what, &described) < 0)
			return;
		described_end(&o->described, described, NULL, 0);
	}
}

static void owner_take(Takeover *t, Manager *m, RestoredOwner *v)
{
	Session *s = manager_find(m, v->session);
	Failure f = FAILURE_NULL;
	char name[40];
	Owner *o;
	int fd;

	state_ring_name(name, v->remains.number);
	fd = passed_take(t->passed, name);
	if (fd < 0) {
		refuse(t, "session '%s': the rings of %s are not there", v->session, v->label);
		return;
	}
	if (!s) {
		refuse(t, "the rings of %s are of session '%s', which is not there", v->label, v->session);
		(void)close_fd(fd);
		let_go(m, name);
		return;
	}
	/* rings of a shape that the session does not have are of before it was changed */
	if (!s->planned || memcmp(&s->geometry, &v->remains.geometry, sizeof(s->geometry)) != 0) {
		(void)close_fd(fd);
		let_go(m, name);
		refuse(t, "session '%s': the rings of %s have another shape", v->session, v->label);
		return;
	}
	if (owner_adopt(&o, &m->ground, s, &v->remains, fd, &f) < 0) {
		refuse(t, "%s", f.text);
		let_go(m, name);
		return;
	}
	o->next = s->owners;
	s->owners = o;
	s->n_owners++;
	ids_take(t, m, o, v);
	pinned_adopt(o, v);
	dead_take(o, v);
	/* before its session opens that output, where what is unfinished would be finished */
	if (v->remains.marks && writing_feed(o, v->remains.marks, s->output) < 0)
		refuse(t, "session '%s': how far %s was written", v->session, v->label);
}

/* Pinned rings whose program was not found again. */
static void pinned_settle(Owner *o)
{
	const struct geometry *g = &o->region.geometry;

	for (u32 i = 0; o->pinned.rings && i < g->n_pinned; i++) {
		u32 holder = o->pinned.rings[i].holder;
		const Attachment *a = o->attachments;

		while (a && a->producer->number != holder)
			a = a->next_of_owner;
		if (holder && !a)
			pinned_leave(&o->pinned, g, holder);
	}
}

static Owner *owner_by_number(Manager *m, u64 number)
{
	for (Session *s = m->sessions; s; s = s->next)
		for (Owner *o = s->owners; o; o = o->next)
			if (o->number == number)
				return o;
	return NULL;
}

/* ---- programs ---- */

static void place_take(Takeover *t, Producer *p, Owner *o, bool active)
{
	const struct geometry *g = &o->region.geometry;
	Attachment *a;

	if (owner_attach(o, p, &a) < 0) {
		refuse(t, "session '%s': the place of process %d", o->session->config->name, (int)p->peer.pid);
		return;
	}
	/* which ones it was told is not known: all of them, until it ends */
	for (u32 id = 1; id < o->ids.n; id++)
		if (ids_entry(&o->ids, id))
			(void)ids_hold(&o->ids, &a->ids, (u16)id);
	for (u32 i = 0; o->pinned.rings && i < g->n_pinned; i++)
		if (o->pinned.rings[i].holder == p->number)
			a->pinned = g->n_ring + g->n_side + i;
	attachment_set_active(a, active && o->session->running);
}

/* Classes that it has, as far as that is known: those of its rings, until it asks again. */
static void classes_take(Producer *p)
{
	Class **v;
	u32 n = 0;

	for (const Attachment *a = p->attachments; a; a = a->next_of_producer)
		n += a->owner->ids.n;
	v = calloc(MAX(n, 1u), sizeof(*v));
	if (!v)
		return;
	n = 0;
	for (const Attachment *a = p->attachments; a; a = a->next_of_producer)
		for (u32 id = 1; id < a->owner->ids.n; id++)
			if (ids_entry(&a->owner->ids, id))
				v[n++] = class_ref(a->owner->ids.entries[id].class);
	producer_set_classes(p, v, n);
}

static void program_take(Takeover *t, Manager *m, RestoredProgram *v)
{
	_cleanup_(peer_clear) Peer peer = PEER_NULL;
	Failure f = FAILURE_NULL;
	Producer *p;
	char name[40];
	int fd;

	state_program_name(name, v->number);
	fd = passed_take(t->passed, name);
	/* also of one that is not known from here: it has the number until it asks again */
	m->roster.last_number = MAX(m->roster.last_number, v->number);
	if (peer_reopen(&peer, (pid_t)v->pid, (uid_t)v->uid, v->start_time, v->command, v->unit, fd) < 0 ||
	    producer_new(&p, &m->ground, m->event, &peer, v->number, v->cookie, manager_program_died, m, &f) < 0) {
		refuse(t, "process %u: %s", v->pid, f.text);
		if (fd >= 0)
			let_go(m, name);
		return;
	}
	producer_describe(p, v->vpid, v->exe ? v->exe : "", v->build_id ? v->build_id : "");
	p->missed = v->missed;
	p->failed = v->failed;
	p->kept = fd >= 0;
	m->ground.state->n_programs += p->kept;
	roster_add(&m->roster, p);
	for (size_t i = 0; i < v->n_places; i++) {
		Owner *o = owner_by_number(m, v->places[i].owner);

		/* of rings that were let go since, say */
		if (o)
			place_take(t, p, o, v->places[i].active);
	}
	classes_take(p);
}

/* ---- all ---- */

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

void takeover_apply(Takeover *t, Manager *m)
{
	u32 n_programs = 0;

	if (!t->restored.sessions)
		return;
	m->ground.state->last_number = t->restored.last_number;
	m->ground.state->last_class = t->restored.last_class;
	m->roster.last_number = t->restored.last_program;
	for (RestoredSession *s = t->restored.sessions; s; s = s->next)
		session_take(t, m, s);
	/* stamps of another clock mean nothing here */
	if (memcmp(t->restored.clock_uuid, board_clock_uuid(m->ground.board), 16) != 0)
		refuse(t, "all rings: the clock is another one");
	else
		for (RestoredOwner *o = t->restored.owners; o; o = o->next)
			owner_take(t, m, o);
	classes_let_go(t);
	for (RestoredProgram *p = t->restored.programs; p; p = p->next) {
		program_take(t, m, p);
		n_programs++;
	}
	for (Session *s = m->sessions; s; s = s->next) {
		for (Owner *o = s->owners; o; o = o->next) {
			pinned_settle(o);
			owner_settle(o);
		}
	}
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
