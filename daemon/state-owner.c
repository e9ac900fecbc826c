/* SPDX-License-Identifier: MIT */
#include "daemon/state-owner.h"

#include <stdio.h>

#include "daemon/ledger.h"
#include "daemon/line-rings.h"
#include "daemon/state-session.h"
#include "systemd/journal.h"

void state_ring_name(char ret[40], u64 number)
{
	(void)snprintf(ret, 40, "ring-%llu", (unsigned long long)number);
}

void state_owner(const Owner *o)
{
	State *s = o->ground->state;
	Line *l;

	if (!state_kept(s) || !o->number || !o->session)
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

	if (!state_kept(s))
		return 0;
	if (fdstore_full(&s->store))
		return failure_set(f, FAILURE_LIMIT,
				   "session '%s': there are rings and programs enough for the %u descriptors that "
				   "systemd keeps for tracerd (FileDescriptorStoreMax=), and what it does not keep "
				   "would be lost with tracerd; use fewer sessions, or buffers = \"per-user\"",
				   o->session->config->name, s->store.max);
	o->number = ++s->last_number;
	state_ring_name(name, o->number);
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

	if (!state_kept(s) || !o->number)
		return;
	state_session_without(o->session, o->number);
	state_ring_name(name, o->number);
	fdstore_remove(&s->store, name);
}

/* ---- what is written of it ---- */

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

/* ---- what is in its rings ---- */

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

	if (!state_kept(s) || !o->number)
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

	if (!state_kept(s) || !o->number || !o->session)
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
