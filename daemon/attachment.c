/* SPDX-License-Identifier: MIT */
/* How a session takes a program in: whose rings, which ids. */
#include "daemon/session.h"
#include "daemon/state-owner.h"

#include <stdio.h>

#include "daemon/backing/backing.h"
#include "lib/wire.h"
#include "systemd/journal.h"

/* Rings without a living program that one session keeps of each user for the next snapshot; the oldest go first. */
#define SESSION_MAX_IDLE 8

static void label_sanitize(char *label)
{
	for (char *p = label; *p; p++)
		if (*p == '/' || (unsigned char)*p <= ' ' || *p == 0x7f || (unsigned char)*p >= 0x80)
			*p = '_';
}

/* What its owner is called: the name of a directory, so made of plain bytes only, and unique in the session. */
static void session_label(const Session *s, const OwnerKey *key, const Producer *p, char *ret,
			  size_t size)
{
	size_t n;

	switch (key->kind) {
	case BUFFERS_PER_USER:
		(void)snprintf(ret, size, "user-%u", (unsigned)key->uid);
		break;
	case BUFFERS_PER_UNIT:
		(void)snprintf(ret, size, "unit-%.180s", key->unit);
		break;
	case BUFFERS_PER_PROCESS:
		(void)snprintf(ret, size, "process-%d-%.64s", (int)key->pid, p->peer.command);
		break;
	}
	label_sanitize(ret);
	n = strlen(ret);
	for (u32 i = 2;; i++) {
		const Owner *o = s->owners;

		while (o && strcmp(o->label, ret) != 0)
			o = o->next;
		if (!o)
			return;
		(void)snprintf(ret + n, size - n, ".%u", i);
	}
}

void session_drop_idle(Session *s, uid_t uid, u32 keep)
{
	/* a snapshot that has not begun is about to want them */
	while (s->n_waiting == 0) {
		Owner *oldest = NULL;
		u32 n = 0;

		for (Owner *o = s->owners; o; o = o->next) {
			if (o->n_attachments || o->charged_uid != uid || o->leaving)
				continue;
			n++;
			if (!oldest || o->idle_since < oldest->idle_since)
				oldest = o;
		}
		if (n <= keep || !oldest)
			return;
		session_drop_owner(s, oldest);
	}
}

/* New ones, which whoever comes after us knows of. */
static int session_rings(Session *s, const OwnerKey *key, const char *label, uid_t uid, Owner **ret, Failure *f)
{
	Owner *o;
	int r = owner_new(&o, s->ground, s, s->config->name, key, label, uid, &s->geometry, s->slot, s->generation, f);

	if (r < 0)
		return r;
	r = state_owner_add(s->ground->state, o, f);
	if (r < 0) {
		(void)owner_unref(o);
		return r;
	}
	*ret = o;
	return 0;
}

static u32 session_n_idle(const Session *s, uid_t uid)
{
	u32 n = 0;

	for (const Owner *o = s->owners; o; o = o->next)
		n += !o->n_attachments && !o->leaving && o->charged_uid == uid;
	return n;
}

void session_sweep(Session *s)
{
	/* what their rings hold is all that there is of them: they stay until somebody needs the room */
	if (!s->writing || s->n_waiting)
		return;
	for (Owner *o = s->owners; o;) {
		uid_t uid = o->charged_uid;

		if (o->n_attachments || o->leaving || session_n_idle(s, uid) <= SESSION_MAX_IDLE) {
			o = o->next;
			continue;
		}
		session_drop_idle(s, uid, SESSION_MAX_IDLE);
		o = s->owners;
	}
}

static int session_owner(Session *s, const Producer *p, Owner **ret, Failure *f)
{
	OwnerKey key = { .kind = s->config->buffers, .uid = p->peer.uid };
	char label[256];
	Owner *o;
	int r;

	if (key.kind == BUFFERS_PER_UNIT) {
		if (p->peer.unit[0])
			key.unit = p->peer.unit;
		else
			key.kind = BUFFERS_PER_USER;
	} else if (key.kind == BUFFERS_PER_PROCESS) {
		key.pid = p->peer.pid;
		key.start_time = p->peer.start_time;
	}
	for (o = s->owners; o; o = o->next) {
		if (owner_key_equal(&o->key, &key) && !o->leaving) {
			*ret = o;
			return 0;
		}
	}
	session_drop_idle(s, p->peer.uid, SESSION_MAX_IDLE);
	session_label(s, &key, p, label, sizeof(label));
	r = session_rings(s, &key, label, p->peer.uid, &o, f);
	if (r < 0) {
		/* the living before the dead, of this user: nobody else pays for it */
		session_drop_idle(s, p->peer.uid, 0);
		r = session_rings(s, &key, label, p->peer.uid, &o, f);
		if (r < 0)
			return r;
	}
	o->next = s->owners;
	s->owners = o;
	s->n_owners++;
	/* a writing that ends takes no more; the next one takes all there are */
	if (s->writing && !writing_stopping(s->writing) && writing_add(s->writing, o) < 0) {
		session_drop_owner(s, o);
		return failure_set(f, FAILURE_NO_MEMORY, "out of memory");
	}
	/* without it the program records all the same */
	if (s->backing && (r = backing_add(s->backing, o)) < 0) {
		s->unbacked = true;
		log_error("session '%s': the rings of %s are not kept on disk: %s; it is tried again", s->config->name,
			  o->label, strerror(-r));
	}
	*ret = o;
	return 0;
}

/* Turns wanted classes into ids, and notes that the program knows them. */
static int attachment_fill(Session *s, Attachment *a, u16 *ids, Failure *f)
{
	Owner *o = a->owner;
	Producer *p = a->producer;

	owner_prune(o);
	for (u32 i = 0; i < p->n_classes; i++) {
		int r;

		if (!ids[i])
			continue;
		r = ids_get(&o->ids, p->classes[i], &ids[i]);
		if (r == 0)
			r = ids_hold(&o->ids, &a->ids, ids[i]);
		if (r == -ENOSPC)
			return failure_set(f, FAILURE_LIMIT,
					   "session '%s': the rings of %s name %u event classes, "
					   "which is all they can; clear the session",
					   s->config->name, o->label, ABI_ID_MAX);
		if (r < 0)
			return failure_set(f, FAILURE_NO_MEMORY, "out of memory");
	}
	/* before the program is told: who meets such an id in a ring shall know it */
	state_ids(o);
	if (o->feed && writing_tell(o) < 0)
		return failure_set(f, FAILURE_NO_MEMORY, "out of memory");
	if (s->backing && backing_tell(s->backing, o) < 0)
		return failure_set(f, FAILURE_NO_MEMORY, "out of memory");
	return 0;
}

static bool session_wants(const Session *s, Class *class)
{
	u32 generation = board_generation(s->ground->board);
	u64 bit = 1ull << s->slot;

	if (class->judged_at != generation) {
		class->judged = class->wanted = class->pinned = 0;
		class->judged_at = generation;
	}
	if (!(class->judged & bit)) {
		const struct event_class *c = class->class;

		class->judged |= bit;
		if (scope_wants_event(&s->scope, c->provider, c->name, c->level))
			class->wanted |= bit;
		if (scope_pins_event(&s->scope, c->provider, c->name))
			class->pinned |= bit;
	}
	return class->wanted & bit;
}

/* What else is said of a class that the session wants. */
static u16 session_flags(const Session *s, const Class *class)
{
	return class->pinned & 1ull << s->slot ? WIRE_FLAG_PINNED : 0;
}

int session_attach(Session *s, Producer *p, u16 *ids, u16 *flags, Attachment **ret, Failure *f)
{
	bool wanted = false, pinned = false;
	Attachment *a;
	Owner *o;
	int r;

	/* What it was before this answer ends with it. A program may also be in another owner than before: it was
	 * moved to another unit. The ids it was told stay held there until it ends. */
	for (a = p->attachments; a; a = a->next_of_producer)
		if (a->owner->session == s)
			attachment_set_active(a, false);
	if (s->running &&
	    scope_wants_program(&s->scope, p->peer.uid, p->peer.command, p->peer.unit)) {
		for (u32 i = 0; i < p->n_classes; i++) {
			ids[i] = session_wants(s, p->classes[i]);
			flags[i] = ids[i] ? session_flags(s, p->classes[i]) : 0;
			wanted |= ids[i];
			pinned |= flags[i] & WIRE_FLAG_PINNED;
		}
	}
	if (!wanted)
		return 0;
	r = session_owner(s, p, &o, f);
	if (r < 0)
		return r;
	r = owner_attach(o, p, &a);
	if (r < 0)
		return failure_set(f, FAILURE_NO_MEMORY, "out of memory");
	r = attachment_fill(s, a, ids, f);
	if (r < 0)
		return r;
	if (pinned) {
		a->pinned = pinned_take(&o->pinned, o->region.map, &o->region.geometry, p->number);
		state_owner(o);
	}
	attachment_set_active(a, true);
	*ret = a;
	return 1;
}
