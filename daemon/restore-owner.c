/* SPDX-License-Identifier: MIT */
#include <stdio.h>

#include "daemon/line-rings.h"
#include "daemon/restore-private.h"

/* ---- classes ---- */

void restored_classes_free(RestoredClass *first)
{
	for (RestoredClass *next; first; first = next) {
		next = first->next;
		free(first->class);
		free(first);
	}
}

static RestoredClass **class_at(Reading *g, u64 number)
{
	RestoredClass **at = &g->classes[number % READING_BUCKETS];

	while (*at && (*at)->number != number)
		at = &(*at)->next;
	return at;
}

static int read_class(Reading *g, const char *line)
{
	_cleanup_free_ struct event_class *class = NULL;
	_cleanup_free_ u8 *bytes = NULL;
	RestoredClass **at;
	u64 number;
	size_t n;
	u32 uid;

	if (!line_get_number(line, "number", &number) || !number || !line_get_u32(line, "uid", UINT32_MAX, &uid))
		return -EBADMSG;
	bytes = line_get_bytes(line, "class", &n);
	if (!bytes || class_decode(&class, bytes, n) != (int)n)
		return -EBADMSG;
	at = class_at(g, number);
	/* a number has one meaning, ever */
	if (*at)
		return class_equal((*at)->class, class) ? 0 : -EBADMSG;
	*at = calloc(1, sizeof(**at));
	if (!*at)
		return -ENOMEM;
	**at = (RestoredClass){ .number = number, .uid = uid, .class = steal_ptr(class) };
	g->r->last_class = MAX(g->r->last_class, number);
	return 0;
}

/* ---- owners ---- */

static void owner_free(RestoredOwner *o)
{
	for (RestoredId *i = o->ids, *next; i; i = next) {
		next = i->next;
		free(i);
	}
	for (RestoredDead *d = o->dead, *next; d; d = next) {
		next = d->next;
		free(d);
	}
	free(o->pinned);
	free(o->session);
	free(o->label);
	free((char *)o->remains.key.unit);
	free(o);
}

void restored_owners_free(RestoredOwner *first)
{
	for (RestoredOwner *next; first; first = next) {
		next = first->next;
		owner_free(first);
	}
}

static RestoredOwner **owner_at(Reading *g, u64 number)
{
	RestoredOwner **at = &g->owners[number % READING_BUCKETS];

	while (*at && (*at)->remains.number != number)
		at = &(*at)->next;
	return at;
}

static void owner_remove(RestoredOwner **at)
{
	RestoredOwner *o = *at;

	if (!o)
		return;
	*at = o->next;
	owner_free(o);
}

void reading_owner_gone(Reading *g, u64 number)
{
	g->r->last_number = MAX(g->r->last_number, number);
	owner_remove(owner_at(g, number));
}

void reading_owners_gone(Reading *g, const char *session)
{
	for (u32 i = 0; i < READING_BUCKETS; i++)
		for (RestoredOwner **o = &g->owners[i]; *o;)
			if (strcmp((*o)->session, session) == 0)
				owner_remove(o);
			else
				o = &(*o)->next;
}

static int read_owner(Reading *g, const char *line)
{
	OwnerRemains v = { 0 };
	_cleanup_free_ char *session = line_get_text(line, "session"), *label = line_get_text(line, "label");
	_cleanup_free_ char *unit = line_get_text(line, "unit");
	u32 kind, uid, charged, pid;
	size_t n_pinned = 0;
	RestoredOwner **at, *o;

	if (!session || !label || !*label || strchr(label, '/') || label[0] == '.' || strlen(label) > 255 ||
	    !line_get_number(line, "number", &v.number) || !v.number ||
	    !line_get_u32(line, "kind", BUFFERS_PER_PROCESS, &kind) || !line_get_u32(line, "uid", UINT32_MAX, &uid) ||
	    !line_get_u32(line, "charged", UINT32_MAX, &charged) || !line_get_u32(line, "pid", INT32_MAX, &pid) ||
	    !line_get_number(line, "start_time", &v.key.start_time) || !line_get_number(line, "memory", &v.memory) ||
	    !line_get_number(line, "created", &v.created) || !line_get_geometry(line, &v.geometry) ||
	    (kind == BUFFERS_PER_UNIT && !unit))
		return -EBADMSG;
	v.key.kind = (Buffers)kind;
	v.key.uid = uid;
	v.key.pid = (pid_t)pid;
	v.charged_uid = charged;
	v.liar = line_get_bool(line, "liar");
	(void)line_get_u32(line, "marks", UINT32_MAX, &v.marks);
	at = owner_at(g, v.number);
	if (!*at) {
		*at = calloc(1, sizeof(*o));
		if (*at)
			(*at)->last_dead = &(*at)->dead;
	}
	o = *at;
	if (!o)
		return -ENOMEM;
	free(o->session);
	free(o->label);
	free((char *)o->remains.key.unit);
	o->remains = v;
	o->remains.key.unit = steal_ptr(unit);
	o->session = steal_ptr(session);
	o->label = steal_ptr(label);
	o->remains.label = o->label;
	free(o->pinned);
	o->pinned = (PinnedRing *)(void *)line_get_bytes(line, "pinned", &n_pinned);
	if (o->pinned && n_pinned != v.geometry.n_pinned * sizeof(*o->pinned)) {
		free(o->pinned);
		o->pinned = NULL;
	}
	g->r->last_number = MAX(g->r->last_number, v.number);
	return 0;
}

/* ---- what is in their rings ---- */

static void get_words(const char *line, const char *key, char *ret, size_t size)
{
	_cleanup_free_ char *text = line_get_text(line, key);

	(void)snprintf(ret, size, "%s", text ? text : "");
}

static int read_dead(Reading *g, const char *line)
{
	Description v = { 0 };
	RestoredOwner *o;
	RestoredDead *d;
	u64 number;
	u32 pid, uid;

	if (!line_get_number(line, "owner", &number) || !line_get_u32(line, "pid", INT32_MAX, &pid) ||
	    !line_get_u32(line, "uid", UINT32_MAX, &uid) || !line_get_number(line, "ended", &v.ended) || !v.ended)
		return -EBADMSG;
	o = *owner_at(g, number);
	/* its end may have been said before, or it was never whole */
	if (!o)
		return 0;
	v.pid = (pid_t)pid;
	v.uid = uid;
	(void)line_get_number(line, "start_time", &v.start_ticks);
	(void)line_get_number(line, "started", &v.started);
	(void)line_get_u32(line, "vpid", UINT32_MAX, &v.vpid);
	get_words(line, "how", v.how, sizeof(v.how));
	get_words(line, "command", v.command, sizeof(v.command));
	get_words(line, "unit", v.unit, sizeof(v.unit));
	get_words(line, "exe", v.exe, sizeof(v.exe));
	get_words(line, "build_id", v.build_id, sizeof(v.build_id));
	d = calloc(1, sizeof(*d));
	if (!d)
		return -ENOMEM;
	d->what = v;
	*o->last_dead = d;
	o->last_dead = &d->next;
	return 0;
}

static int read_ids(Reading *g, const char *line)
{
	const char *at = NULL;
	RestoredOwner *o;
	u64 number, id, of;
	bool good = true;

	if (!line_get_number(line, "owner", &number))
		return -EBADMSG;
	o = *owner_at(g, number);
	/* its end may have been said before, or it was never whole */
	if (!o)
		return 0;
	while (line_list_next(line, "list", &at, &id)) {
		RestoredId *i;
		RestoredClass *c;

		if (!line_list_next(line, "list", &at, &of))
			return -EBADMSG;
		c = *class_at(g, of);
		if (!c || id == 0 || id > ABI_ID_MAX) {
			good = false;
			continue;
		}
		/* one that was given to another class since: the newest is first, and wins */
		i = calloc(1, sizeof(*i));
		if (!i)
			return -ENOMEM;
		*i = (RestoredId){ .next = o->ids, .id = (u32)id, .class = c };
		o->ids = i;
	}
	return good ? 0 : -EBADMSG;
}

const ReadingWord restore_owner_words[] = {
	{ "owner", read_owner },
	{ "class", read_class },
	{ "ids", read_ids },
	{ "dead", read_dead },
	{ 0 },
};
