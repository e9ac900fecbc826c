/* SPDX-License-Identifier: MIT */
#include "daemon/restore.h"

#include <stdio.h>

#include "daemon/line-rings.h"

/* What a daemon of ours would never have more of. */
#define MAX_SESSIONS 4096u
#define MAX_DUE	     4096u
#define BUCKETS	     4096u /* numbers are given in turn, so that the lowest bits are as good as any */
#define SNAPSHOT_NUMBER_MAX (1ull << 48)

/* While lines are read, what has a number is found by it. */
typedef struct {
	Restored *r;
	u32 n_sessions, n_due;
	RestoredClass *classes[BUCKETS];
	RestoredOwner *owners[BUCKETS];
	RestoredProgram *programs[BUCKETS];
} Reading;

static void class_free(RestoredClass *c)
{
	free(c->class);
	free(c);
}

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

static void session_clear_numbers(RestoredSession *s)
{
	free(s->last_snapshot);
	free(s->last_trace);
	s->last_snapshot = s->last_trace = NULL;
}

static void restored_session_free(RestoredSession *s)
{
	session_clear_numbers(s);
	free(s->name);
	free(s->text);
	free(s->file);
	free(s);
}

static void program_clear(RestoredProgram *p)
{
	free(p->command);
	free(p->exe);
	free(p->build_id);
	free(p->unit);
	free(p->places);
}

static void due_free(RestoredDue *d)
{
	free(d->session);
	free(d->trigger);
	free(d->reason);
	free(d->path);
	free(d->coredump);
	free(d->environment);
	free(d);
}

/* ---- finding ---- */

static RestoredSession **session_at(Restored *r, const char *name)
{
	RestoredSession **at = &r->sessions;

	while (*at && strcmp((*at)->name, name) != 0)
		at = &(*at)->next;
	return at;
}

static RestoredClass **class_at(Reading *g, u64 number)
{
	RestoredClass **at = &g->classes[number % BUCKETS];

	while (*at && (*at)->number != number)
		at = &(*at)->next;
	return at;
}

static RestoredOwner **owner_at(Reading *g, u64 number)
{
	RestoredOwner **at = &g->owners[number % BUCKETS];

	while (*at && (*at)->remains.number != number)
		at = &(*at)->next;
	return at;
}

static RestoredProgram **program_at(Reading *g, u32 number)
{
	RestoredProgram **at = &g->programs[number % BUCKETS];

	while (*at && (*at)->number != number)
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

static RestoredDue **due_at(Restored *r, u64 usec, const char *session)
{
	RestoredDue **at = &r->due;

	while (*at && ((*at)->usec != usec || strcmp((*at)->session, session) != 0))
		at = &(*at)->next;
	return at;
}

/* ---- lines ---- */

/* A session is known once its configuration is; -EBADMSG for what cannot be. */
static int read_config(Reading *g, const char *line)
{
	_cleanup_free_ char *name = line_get_text(line, "name"), *text = line_get_text(line, "text");
	RestoredSession **at, *s;

	if (!name || !text || !config_session_name_valid(name))
		return -EBADMSG;
	at = session_at(g->r, name);
	if (!*at) {
		if (g->n_sessions >= MAX_SESSIONS)
			return -EBADMSG;
		*at = calloc(1, sizeof(**at));
		if (!*at)
			return -ENOMEM;
		(*at)->name = steal_ptr(name);
		g->n_sessions++;
	}
	s = *at;
	free(s->text);
	free(s->file);
	s->text = steal_ptr(text);
	s->file = line_get_text(line, "file");
	s->line = 0;
	(void)line_get_u32(line, "line", INT32_MAX, &s->line);
	return 0;
}

/* Of a session whose end was said already nothing more counts. */
static int read_said(Reading *g, const char *line)
{
	_cleanup_free_ char *name = line_get_text(line, "name");
	RestoredSession *s = name ? *session_at(g->r, name) : NULL;

	return name && (!s || line_get_number(line, "hash", &s->said)) ? 0 : -EBADMSG;
}

/* As long as it was written by a daemon that has as many of them; else it stays as it is. */
static void get_array(const char *line, const char *key, void *ret, size_t size)
{
	size_t n = 0;
	_cleanup_free_ u8 *bytes = line_get_bytes(line, key, &n);

	if (bytes && n == size)
		memcpy(ret, bytes, size);
}

static int read_signs(Reading *g, const char *line)
{
	_cleanup_free_ char *name = line_get_text(line, "name");
	RestoredSession *s = name ? *session_at(g->r, name) : NULL;

	/* of a session whose end was said already */
	if (name && !s)
		return 0;
	if (!s || !line_get_u32(line, "n", UINT32_MAX, &s->triggers.n))
		return -EBADMSG;
	get_array(line, "recent", s->triggers.recent, sizeof(s->triggers.recent));
	for (u32 i = 0; i < TRIGGER_RECENT; i++) {
		Sign *sign = &s->triggers.recent[i];

		sign->unit[sizeof(sign->unit) - 1] = 0;
		sign->kind = MIN(sign->kind, CAUSE_KINDS - 1);
		/* numbers of jobs go on from there */
		if (sign->snapshot > SNAPSHOT_NUMBER_MAX)
			sign->snapshot = 0;
		g->r->last_snapshot = MAX(g->r->last_snapshot, sign->snapshot);
	}
	return 0;
}

static int read_session(Reading *g, const char *line)
{
	_cleanup_free_ char *name = line_get_text(line, "name");
	RestoredSession *s = name ? *session_at(g->r, name) : NULL;
	u64 gone;

	if (line_get_number(line, "gone", &gone)) {
		g->r->last_number = MAX(g->r->last_number, gone);
		owner_remove(owner_at(g, gone));
	}
	if (!s)
		return name ? 0 : -EBADMSG;
	session_clear_numbers(s);
	s->told = true;
	s->planned = line_get_geometry(line, &s->geometry);
	s->draining = line_get_bool(line, "draining");
	s->running = line_get_bool(line, "running") && s->planned &&
		     line_get_u32(line, "slot", ABI_MAX_SLOTS - 1, &s->slot) &&
		     line_get_u32(line, "generation", UINT32_MAX, &s->generation) && s->generation;
	(void)line_get_number(line, "written", &s->written);
	(void)line_get_number(line, "clamped", &s->clamped);
	(void)line_get_number(line, "corrupt", &s->corrupt);
	(void)line_get_number(line, "unwritten", &s->unwritten);
	(void)line_get_number(line, "renewals", &s->renewals);
	get_array(line, "causes", s->triggers.of, sizeof(s->triggers.of));
	s->last_snapshot = line_get_text(line, "last_snapshot");
	s->last_trace = line_get_text(line, "last_trace");
	line_get_counters(line, &s->past);
	return 0;
}

/* With all its rings. */
static int read_session_gone(Reading *g, const char *line)
{
	_cleanup_free_ char *name = line_get_text(line, "name");
	RestoredSession **at = name ? session_at(g->r, name) : NULL, *s;

	if (!at || !*at)
		return name ? 0 : -EBADMSG;
	s = *at;
	*at = s->next;
	g->n_sessions--;
	restored_session_free(s);
	for (u32 i = 0; i < BUCKETS; i++)
		for (RestoredOwner **o = &g->owners[i]; *o;)
			if (strcmp((*o)->session, name) == 0)
				owner_remove(o);
			else
				o = &(*o)->next;
	return 0;
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

/* Every "active=" and "in=" of the line. */
static int get_places(const char *line, RestoredProgram *p)
{
	for (const char *at = strchr(line, ' '); at; at = strchr(at, ' ')) {
		bool active = strncmp(++at, "active=", 7) == 0;
		RestoredPlace *v;

		if (!active && strncmp(at, "in=", 3) != 0)
			continue;
		v = reallocarray(p->places, p->n_places + 1, sizeof(*v));
		if (!v)
			return -ENOMEM;
		p->places = v;
		v[p->n_places++] = (RestoredPlace){ strtoull(at + (active ? 7 : 3), NULL, 10), active };
	}
	return 0;
}

static int read_program(Reading *g, const char *line)
{
	RestoredProgram v = { 0 }, **at;
	_cleanup_free_ u8 *cookie = NULL;
	size_t n = 0;
	int error;

	cookie = line_get_bytes(line, "cookie", &n);
	if (!cookie || n != sizeof(v.cookie) || !line_get_u32(line, "number", UINT32_MAX, &v.number) || !v.number ||
	    !line_get_u32(line, "pid", INT32_MAX, &v.pid) || !v.pid || !line_get_u32(line, "uid", UINT32_MAX, &v.uid) ||
	    !line_get_number(line, "start_time", &v.start_time))
		return -EBADMSG;
	memcpy(v.cookie, cookie, sizeof(v.cookie));
	(void)line_get_number(line, "missed", &v.missed);
	(void)line_get_number(line, "failed", &v.failed);
	v.command = line_get_text(line, "command");
	v.unit = line_get_text(line, "unit");
	v.exe = line_get_text(line, "exe");
	v.build_id = line_get_text(line, "build_id");
	(void)line_get_u32(line, "vpid", UINT32_MAX, &v.vpid);
	error = get_places(line, &v);
	if (error < 0 || !v.command || !v.unit) {
		program_clear(&v);
		return error < 0 ? error : -EBADMSG;
	}
	g->r->last_program = MAX(g->r->last_program, v.number);
	at = program_at(g, v.number);
	if (!*at) {
		*at = calloc(1, sizeof(**at));
		if (!*at) {
			program_clear(&v);
			return -ENOMEM;
		}
	} else {
		v.next = (*at)->next;
		program_clear(*at);
	}
	**at = v;
	return 0;
}

static int read_program_gone(Reading *g, const char *line)
{
	RestoredProgram **at, *p;
	u32 number;

	if (!line_get_u32(line, "number", UINT32_MAX, &number))
		return -EBADMSG;
	g->r->last_program = MAX(g->r->last_program, number);
	at = program_at(g, number);
	p = *at;
	if (!p)
		return 0; /* it was never in a session, and never said */
	*at = p->next;
	program_clear(p);
	free(p);
	return 0;
}

static int read_due(Reading *g, const char *line)
{
	_cleanup_free_ char *session = line_get_text(line, "session"), *trigger = line_get_text(line, "trigger");
	_cleanup_free_ char *reason = line_get_text(line, "reason"), *path = line_get_text(line, "path");
	RestoredDue **at;
	u64 usec;

	if (!session || !trigger || !reason || !path || !line_get_number(line, "usec", &usec))
		return -EBADMSG;
	at = due_at(g->r, usec, session);
	if (!*at) {
		if (g->n_due >= MAX_DUE)
			return -EBADMSG;
		*at = calloc(1, sizeof(**at));
		if (!*at)
			return -ENOMEM;
		g->n_due++;
		(*at)->usec = usec;
		(*at)->session = steal_ptr(session);
	}
	free((*at)->trigger);
	free((*at)->reason);
	free((*at)->path);
	(*at)->trigger = steal_ptr(trigger);
	(*at)->reason = steal_ptr(reason);
	(*at)->path = steal_ptr(path);
	free((*at)->coredump);
	(*at)->coredump = line_get_text(line, "coredump");
	free((*at)->environment);
	(*at)->environment = line_get_bytes(line, "environment", &(*at)->n_environment);
	(*at)->number = 0;
	(void)line_get_number(line, "number", &(*at)->number);
	return 0;
}

static int read_due_gone(Reading *g, const char *line)
{
	_cleanup_free_ char *session = line_get_text(line, "session");
	RestoredDue **at, *d;
	u64 usec;

	if (!session || !line_get_number(line, "usec", &usec))
		return -EBADMSG;
	at = due_at(g->r, usec, session);
	d = *at;
	if (!d)
		return 0;
	*at = d->next;
	g->n_due--;
	due_free(d);
	return 0;
}

static int read_units(Reading *g, const char *line)
{
	char *failed = line_get_text(line, "failed");

	if (!failed)
		return -EBADMSG;
	free(g->r->units_failed);
	g->r->units_failed = failed;
	return 0;
}

static int read_machine(Reading *g, const char *line)
{
	Restored *r = g->r;
	_cleanup_free_ u8 *of = NULL, *uuid = NULL;
	size_t n_of = 0, n_uuid = 0;

	of = line_get_bytes(line, "of", &n_of);
	uuid = line_get_bytes(line, "clock_uuid", &n_uuid);
	if (!of || !uuid || n_of % sizeof(u32) || n_of / sizeof(u32) > ABI_MAX_CPUS || n_uuid != sizeof(r->clock_uuid))
		return -EBADMSG;
	memcpy(r->clock_uuid, uuid, n_uuid);
	free(r->cpu_of);
	r->cpu_of = (u32 *)(void *)steal_ptr(of);
	r->n_cpus = (u32)(n_of / sizeof(u32));
	return 0;
}

static int read_line(void *userdata, const char *line)
{
	static const struct {
		const char *word;
		int (*read)(Reading *g, const char *line);
	} words[] = {
		{ "machine", read_machine },
		{ "units", read_units },
		{ "config", read_config },
		{ "said", read_said },
		{ "session", read_session },
		{ "session-gone", read_session_gone },
		{ "signs", read_signs },
		{ "owner", read_owner },
		{ "class", read_class },
		{ "ids", read_ids },
		{ "dead", read_dead },
		{ "program", read_program },
		{ "program-gone", read_program_gone },
		{ "due", read_due },
		{ "due-gone", read_due_gone },
	};
	Reading *g = userdata;

	for (size_t i = 0; i < ELEMENTSOF(words); i++) {
		int error;

		if (!line_is(line, words[i].word))
			continue;
		error = words[i].read(g, line);
		if (error != -EBADMSG)
			return error;
		g->r->n_damaged++;
		g->r->n_damaged_bytes += strlen(line);
		return 0;
	}
	return 0; /* a newer daemon's */
}

/* Buckets become lists: in the order of their numbers, nearly. */
#define COLLECT(list, buckets)                             \
	for (u32 i = BUCKETS; i-- > 0;)                    \
		for (void *v; (v = (buckets)[i]);) {       \
			(buckets)[i] = (buckets)[i]->next; \
			(*(__typeof__(list))v).next = (list);\
			(list) = v;                        \
		}

int restored_read(Restored *ret, Ledger *l)
{
	_cleanup_free_ Reading *g = calloc(1, sizeof(*g));
	LedgerDamage damage;
	int r;

	*ret = (Restored){ 0 };
	if (!g)
		return -ENOMEM;
	g->r = ret;
	r = ledger_read(l, read_line, g, &damage);
	ret->n_damaged += damage.n_lines;
	ret->n_damaged_bytes += damage.n_bytes;
	COLLECT(ret->classes, g->classes);
	COLLECT(ret->owners, g->owners);
	COLLECT(ret->programs, g->programs);
	if (r < 0)
		restored_clear(ret);
	return r;
}

void restored_clear(Restored *r)
{
	for (RestoredSession *s = r->sessions, *next; s; s = next) {
		next = s->next;
		restored_session_free(s);
	}
	for (RestoredOwner *o = r->owners, *next; o; o = next) {
		next = o->next;
		owner_free(o);
	}
	for (RestoredClass *c = r->classes, *next; c; c = next) {
		next = c->next;
		class_free(c);
	}
	for (RestoredProgram *p = r->programs, *next; p; p = next) {
		next = p->next;
		program_clear(p);
		free(p);
	}
	for (RestoredDue *d = r->due, *next; d; d = next) {
		next = d->next;
		due_free(d);
	}
	free(r->cpu_of);
	free(r->units_failed);
	*r = (Restored){ 0 };
}
