/* SPDX-License-Identifier: MIT */
/* Rings and programs that an earlier daemon had. */
#include "daemon/adoption.h"

#include "daemon/manager-private.h"
#include "daemon/state-owner.h"
#include "daemon/state-program.h"

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
		takeover_refuse(t, "session '%s': %u events of %s: their records cannot be read", v->session, n, v->label);
	/* Records in the rings may have ids whose meaning is lost. They must not get another one. */
	if (t->n_missed && ids_skip(&o->ids, t->n_missed) < 0)
		takeover_refuse(t, "session '%s': the ids of %s", v->session, v->label);
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
		takeover_refuse(t, "session '%s': the rings of %s are not there", v->session, v->label);
		return;
	}
	if (!s) {
		takeover_refuse(t, "the rings of %s are of session '%s', which is not there", v->label, v->session);
		(void)close_fd(fd);
		let_go(m, name);
		return;
	}
	/* rings of a shape that the session does not have are of before it was changed */
	if (!s->planned || memcmp(&s->geometry, &v->remains.geometry, sizeof(s->geometry)) != 0) {
		(void)close_fd(fd);
		let_go(m, name);
		takeover_refuse(t, "session '%s': the rings of %s have another shape", v->session, v->label);
		return;
	}
	if (owner_adopt(&o, &m->ground, s, &v->remains, fd, &f) < 0) {
		takeover_refuse(t, "%s", f.text);
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
		takeover_refuse(t, "session '%s': how far %s was written", v->session, v->label);
}

void adoption_rings(Takeover *t, Manager *m)
{
	for (RestoredOwner *o = t->restored.owners; o; o = o->next)
		owner_take(t, m, o);
	for (RestoredClass *c = t->restored.classes; c; c = c->next)
		c->taken = class_unref(c->taken);
}

/* ---- programs ---- */

static Owner *owner_by_number(Manager *m, u64 number)
{
	for (Session *s = m->sessions; s; s = s->next)
		for (Owner *o = s->owners; o; o = o->next)
			if (o->number == number)
				return o;
	return NULL;
}

static void place_take(Takeover *t, Producer *p, Owner *o, bool active)
{
	const struct geometry *g = &o->region.geometry;
	Attachment *a;

	if (owner_attach(o, p, &a) < 0) {
		takeover_refuse(t, "session '%s': the place of process %d", o->session->config->name, (int)p->peer.pid);
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
		takeover_refuse(t, "process %u: %s", v->pid, *f.text ? f.text : "no memory, or no descriptor, for it");
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

u32 adoption_programs(Takeover *t, Manager *m)
{
	u32 n = 0;

	for (RestoredProgram *p = t->restored.programs; p; p = p->next, n++)
		program_take(t, m, p);
	for (Session *s = m->sessions; s; s = s->next) {
		for (Owner *o = s->owners; o; o = o->next) {
			pinned_settle(o);
			owner_settle(o);
		}
	}
	return n;
}
