/* SPDX-License-Identifier: MIT */
#include "daemon/state.h"

#include <signal.h>
#include <stdio.h>

#include "daemon/job.h"
#include "daemon/ledger.h"
#include "daemon/line-rings.h"
#include "systemd/journal.h"

static void state_open_marks(State *s, int fd, u32 n_stored)
{
	bool new = fd < 0;
	int r = bookmarks_new(&s->marks, fd);

	if (r < 0 && !new) {
		log_error("what was written of sessions is not known any more: %s", strerror(-r));
		new = true;
		r = bookmarks_new(&s->marks, -1);
	}
	if (r == 0 && new && n_stored)
		fdstore_remove(&s->store, "marks");
	if (r == 0 && new)
		r = fdstore_put(&s->store, "marks", bookmarks_fd(s->marks));
	if (r < 0) {
		log_warning("how far sessions have written cannot be kept over a restart: %s", strerror(-r));
		s->marks = bookmarks_free(s->marks);
	}
}

int state_new(State **ret, Ledger *ledger, int marks_fd, u32 n_stored, void (*rewrite)(void *userdata), void *userdata)
{
	State *s = calloc(1, sizeof(*s));
	int r = 0;

	if (!s) {
		(void)ledger_free(ledger);
		(void)close_fd(marks_fd);
		return -ENOMEM;
	}
	fdstore_init(&s->store, n_stored);
	s->ledger = ledger;
	s->epoch = s->last_epoch = 1;
	s->rewrite = rewrite;
	s->userdata = userdata;
	if (s->store.on && !ledger) {
		if (n_stored)
			fdstore_remove(&s->store, "state");
		r = ledger_new(&s->ledger);
		if (r == 0)
			r = fdstore_put(&s->store, "state", ledger_fd(s->ledger));
	}
	if (r < 0) {
		log_warning("nothing can be kept over a restart: %s", strerror(-r));
		s->ledger = ledger_free(s->ledger);
	}
	if (s->ledger)
		state_open_marks(s, marks_fd, n_stored);
	else
		(void)close_fd(marks_fd);
	*ret = s;
	return 0;
}

/* ---- faults ---- */

static Ledger *watched;

static void on_fault(int signal)
{
	ledger_note_fault(watched);
	/* the handler is off (SA_RESETHAND): this one ends us, with a core dump of where it happened */
	(void)raise(signal);
}

void state_watch_faults(State *s)
{
	static const int faults[] = { SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGSYS };
	struct sigaction a = { .sa_handler = on_fault, .sa_flags = SA_RESETHAND };

	if (!s || !s->ledger)
		return;
	watched = s->ledger;
	for (size_t i = 0; i < ELEMENTSOF(faults); i++) {
		struct sigaction old;

		/* sanitizers and tests have their own */
		if (sigaction(faults[i], NULL, &old) == 0 && !(old.sa_flags & SA_SIGINFO) && old.sa_handler == SIG_DFL)
			(void)sigaction(faults[i], &a, NULL);
	}
}

static void unwatch_faults(const State *s)
{
	if (watched != s->ledger)
		return;
	watched = NULL;
	for (int i = 0; i < NSIG; i++) {
		struct sigaction old;

		if (sigaction(i, NULL, &old) == 0 && !(old.sa_flags & SA_SIGINFO) && old.sa_handler == on_fault)
			(void)signal(i, SIG_DFL);
	}
}

State *state_free(State *s)
{
	if (!s)
		return NULL;
	unwatch_faults(s);
	s->ledger = ledger_free(s->ledger);
	s->marks = bookmarks_free(s->marks);
	line_clear(&s->line);
	fdstore_deinit(&s->store);
	free(s);
	return NULL;
}

void state_healthy(State *s)
{
	if (s && s->ledger)
		ledger_healthy(s->ledger);
}

void state_leave(State *s)
{
	if (s)
		s->store.on = false;
}

/* ---- lines ---- */

static bool kept(const State *s)
{
	return s && s->ledger && s->store.on && !s->quiet;
}

/* A line that could not be written stays unknown until all is said anew: state_catch_up(). */
static void state_behind(State *s, int error)
{
	if (!s->behind)
		log_error("what changes now is not known after a restart: %s; recording goes on", strerror(-error));
	s->behind = true;
}

static bool state_say(State *s)
{
	int r = s->line.failed ? -ENOMEM : ledger_append(s->ledger, s->line.text);

	if (s->rewriting)
		s->spoiled |= r < 0;
	else if (r < 0)
		state_behind(s, r);
	else if (ledger_due(s->ledger))
		state_renew(s);
	return r == 0;
}

void state_renew(State *s)
{
	const u32 epoch = s ? s->epoch : 0;

	if (!kept(s) || s->rewriting)
		return;
	s->rewriting = true;
	s->spoiled = false;
	s->epoch = ++s->last_epoch;
	ledger_rewrite_begin(s->ledger);
	s->rewrite(s->userdata);
	if (ledger_rewrite_end(s->ledger, !s->spoiled) < 0) {
		s->epoch = epoch;
	} else {
		if (s->behind)
			log_notice("a restart would find all that is there again");
		s->behind = false;
		ledger_complete(s->ledger, /* running= */ false);
	}
	s->rewriting = false;
}

void state_catch_up(State *s)
{
	if (!s)
		return;
	if (s->behind)
		state_renew(s);
	fdstore_catch_up(&s->store);
}

void state_begin(State *s)
{
	state_renew(s);
	if (kept(s) && !s->behind)
		ledger_complete(s->ledger, /* running= */ true);
}

void state_end(State *s)
{
	if (s && s->ledger)
		ledger_note_end(s->ledger);
}

void state_machine(State *s, const Cpus *c, const u8 clock_uuid[16])
{
	if (!kept(s))
		return;
	line_begin(&s->line, "machine");
	line_bytes(&s->line, "of", c->cpu_of, c->n_rings * sizeof(c->cpu_of[0]));
	line_bytes(&s->line, "clock_uuid", clock_uuid, 16);
	(void)state_say(s);
}

static u64 session_unwritten(const Session *s)
{
	ConsumerInfo w;

	if (!s->writing)
		return s->unwritten;
	writing_info(s->writing, &w);
	return s->unwritten + w.unwritten - s->unwritten_before;
}

/* gone: an owner that is let go of, in the line that has what it had counted: it is in the one or the other, whoever dies when. */
static void say_session(const Session *s, u64 gone)
{
	State *state = s->ground->state;
	Line *l;

	if (!kept(state))
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
	say_session(s, 0);
}

void state_signs(const Session *s)
{
	State *state = s->ground->state;

	if (!kept(state))
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

	if (!kept(state))
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
	if (!kept(s))
		return;
	line_begin(&s->line, "said");
	line_text(&s->line, "name", name);
	line_number(&s->line, "hash", said);
	(void)state_say(s);
}

void state_units(State *s, const char *failed)
{
	if (!kept(s))
		return;
	line_begin(&s->line, "units");
	line_text(&s->line, "failed", failed);
	(void)state_say(s);
}

void state_session_gone(State *s, const char *name)
{
	if (!kept(s))
		return;
	line_begin(&s->line, "session-gone");
	line_text(&s->line, "name", name);
	(void)state_say(s);
}

/* ---- owners ---- */

static void ring_name(char ret[40], u64 number)
{
	(void)snprintf(ret, 40, "ring-%llu", (unsigned long long)number);
}

void state_owner(const Owner *o)
{
	State *s = o->ground->state;
	Line *l;

	if (!kept(s) || !o->number || !o->session)
		return;
	l = &s->line;
	line_begin(l, "owner");
	line_number(l, "number", o->number);
	line_text(l, "session", o->session->config->name);
	line_text(l, "label", o->label);
	line_number(l, "kind", o->key.kind);
	line_number(l, "uid", o->key.uid);
	line_text(l, "unit", o->key.unit);
	line_number(l, "pid", (u64)o->key.pid);
	line_number(l, "start_time", o->key.start_time);
	line_number(l, "charged", o->charged_uid);
	line_number(l, "memory", o->charged);
	line_number(l, "created", o->created);
	line_number(l, "liar", o->liar);
	line_number(l, "marks", o->marks);
	if (o->pinned.rings)
		line_bytes(l, "pinned", o->pinned.rings,
			   o->region.geometry.n_pinned * sizeof(o->pinned.rings[0]));
	line_geometry(l, &o->region.geometry);
	(void)state_say(s);
}

int state_owner_add(State *s, Owner *o, Failure *f)
{
	char name[40];
	int r;

	if (!kept(s))
		return 0;
	if (fdstore_full(&s->store))
		return failure_set(f, FAILURE_LIMIT,
				   "session '%s': there are rings and programs enough for the %u descriptors that "
				   "systemd keeps for tracerd (FileDescriptorStoreMax=), and what it does not keep "
				   "would be lost with tracerd; use fewer sessions, or buffers = \"per-user\"",
				   o->session->config->name, s->store.max);
	o->number = ++s->last_number;
	ring_name(name, o->number);
	r = fdstore_put(&s->store, name, o->region.fd);
	if (r < 0) {
		/* nobody keeps them, and they are recorded into all the same */
		o->number = 0;
		if (!s->refused)
			log_warning("session '%s': systemd cannot be given the rings of %s to keep (%s): they will not outlive "
				    "tracerd",
				    o->session->config->name, o->label, strerror(-r));
		s->refused = true;
		return 0;
	}
	s->refused = false;
	state_owner(o);
	return 0;
}

void state_owner_gone(const Owner *o)
{
	State *s = o->ground->state;
	char name[40];

	if (!kept(s) || !o->number)
		return;
	say_session(o->session, o->number);
	ring_name(name, o->number);
	fdstore_remove(&s->store, name);
}

static u32 n_marks(const Owner *o)
{
	return geometry_rings(&o->region.geometry);
}

void state_marks_reserve(Owner *o)
{
	State *s = o->ground->state;
	BookmarkPage *pages;
	u32 first;

	/* also while the rest is taken over: it is known to nobody yet */
	const bool quiet = s && s->quiet;

	if (!s || !s->ledger || !s->store.on || !s->marks || !o->number || o->marks ||
	    bookmarks_reserve(s->marks, n_marks(o), &first) < 0)
		return;
	pages = bookmarks_map(s->marks, first, n_marks(o));
	if (!pages) {
		bookmarks_release(s->marks, first, n_marks(o));
		return;
	}
	o->marks = first;
	feed_mark(o->feed, pages);
	s->quiet = false;
	state_owner(o);
	s->quiet = quiet;
}

bool state_marks_claim(Owner *o, u32 first)
{
	State *s = o->ground->state;
	BookmarkPage *pages;

	if (!s || !s->marks || bookmarks_claim(s->marks, first, n_marks(o)) < 0)
		return false;
	pages = bookmarks_map(s->marks, first, n_marks(o));
	if (!pages)
		return false; /* claimed all the same: what is there is not for others */
	o->marks = first;
	feed_mark(o->feed, pages);
	return true;
}

void state_marks_release(Owner *o)
{
	State *s = o->ground->state;

	if (o->marks && s && s->marks && !o->ground->leaving)
		bookmarks_release(s->marks, o->marks, n_marks(o));
	o->marks = 0;
}

/* A class has a line of its own, for it may be in the rings of a thousand programs. */
static void say_class(State *s, Class *class)
{
	const u32 epoch = s->epoch;
	u8 bytes[CLASS_MAX_BYTES];

	if (!class->number)
		class->number = ++s->last_class;
	line_begin(&s->line, "class");
	line_number(&s->line, "number", class->number);
	line_number(&s->line, "uid", class->uid);
	line_bytes(&s->line, "class", bytes, class_encode(class->class, bytes, sizeof(bytes)));
	if (state_say(s) && s->epoch == epoch)
		class->said = epoch;
}

static bool id_unsaid(const State *s, const IdEntry *e)
{
	return e->class && e->said != s->epoch;
}

void state_ids(Owner *o)
{
	State *s = o->ground->state;
	u32 n = 0, epoch;

	if (!kept(s) || !o->number)
		return;
	for (u32 id = 1; id < o->ids.n; id++) {
		IdEntry *e = &o->ids.entries[id];

		if (id_unsaid(s, e) && e->class->said != s->epoch)
			say_class(s, e->class);
		n += id_unsaid(s, e);
	}
	if (n == 0)
		return;
	epoch = s->epoch;
	line_begin(&s->line, "ids");
	line_number(&s->line, "owner", o->number);
	line_list_begin(&s->line, "list");
	for (u32 id = 1; id < o->ids.n; id++)
		if (id_unsaid(s, &o->ids.entries[id])) {
			line_list_add(&s->line, id);
			line_list_add(&s->line, o->ids.entries[id].class->number);
		}
	if (!state_say(s)) {
		if (!s->rewriting)
			ledger_note_missed(s->ledger, n);
		return;
	}
	/* written anew in between: said again by that */
	if (s->epoch != epoch)
		return;
	for (u32 id = 1; id < o->ids.n; id++)
		if (o->ids.entries[id].class)
			o->ids.entries[id].said = epoch;
}

void state_dead(const Owner *o, const Description *d)
{
	State *s = o->ground->state;
	Line *l;

	if (!kept(s) || !o->number || !o->session)
		return;
	l = &s->line;
	line_begin(l, "dead");
	line_number(l, "owner", o->number);
	line_number(l, "pid", (u64)d->pid);
	line_number(l, "uid", d->uid);
	line_number(l, "start_time", d->start_ticks);
	line_number(l, "started", d->started);
	line_number(l, "ended", d->ended);
	line_text(l, "how", d->how);
	line_text(l, "command", d->command);
	line_text(l, "unit", d->unit);
	line_number(l, "vpid", d->vpid);
	line_text(l, "exe", d->exe);
	line_text(l, "build_id", d->build_id);
	(void)state_say(s);
}

/* ---- programs ---- */

static void program_name(char ret[40], u32 number)
{
	(void)snprintf(ret, 40, "program-%u", number);
}

void state_program(State *s, Producer *p)
{
	char name[40];
	Line *l;

	if (!kept(s))
		return;
	l = &s->line;
	line_begin(l, "program");
	line_number(l, "number", p->number);
	line_number(l, "pid", (u64)p->peer.pid);
	line_number(l, "uid", p->peer.uid);
	line_number(l, "start_time", p->peer.start_time);
	line_text(l, "command", p->peer.command);
	line_text(l, "unit", p->peer.unit);
	line_number(l, "vpid", p->description->vpid);
	line_text(l, "exe", p->description->exe);
	line_text(l, "build_id", p->description->build_id);
	line_bytes(l, "cookie", p->cookie, sizeof(p->cookie));
	line_number(l, "missed", p->missed);
	line_number(l, "failed", p->failed);
	for (const Attachment *a = p->attachments; a; a = a->next_of_producer)
		if (a->owner->session)
			line_number(l, a->active ? "active" : "in", a->owner->number);
	(void)state_say(s);
	/* How it ends while nobody is here is known to who has its pidfd, and to nobody else. For as many as there is room. */
	if (p->kept || !p->attachments || p->peer.pidfd < 0 || s->n_programs >= STATE_MAX_PROGRAMS ||
	    s->store.n + 16 >= s->store.max)
		return;
	program_name(name, p->number);
	if (fdstore_put(&s->store, name, p->peer.pidfd) == 0) {
		p->kept = true;
		s->n_programs++;
	}
}

void state_program_gone(State *s, Producer *p)
{
	char name[40];

	if (!kept(s))
		return;
	line_begin(&s->line, "program-gone");
	line_number(&s->line, "number", p->number);
	(void)state_say(s);
	if (!p->kept)
		return;
	program_name(name, p->number);
	fdstore_remove(&s->store, name);
	p->kept = false;
	s->n_programs--;
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
	if (!kept(s) || !b->automatic)
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
	if (!kept(s) || !b->automatic)
		return;
	line_begin(&s->line, "due-gone");
	line_number(&s->line, "usec", b->due_usec);
	line_text(&s->line, "session", b->session_name);
	(void)state_say(s);
}
