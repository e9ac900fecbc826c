/* SPDX-License-Identifier: MIT */
#include "daemon/line-rings.h"
#include "daemon/restore-private.h"

/* What a daemon of ours would never have more of. */
#define MAX_SESSIONS 4096u
#define MAX_DUE	     4096u
#define SNAPSHOT_NUMBER_MAX (1ull << 48)

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

void restored_sessions_free(RestoredSession *first)
{
	for (RestoredSession *next; first; first = next) {
		next = first->next;
		restored_session_free(first);
	}
}

static RestoredSession **session_at(Restored *r, const char *name)
{
	RestoredSession **at = &r->sessions;

	while (*at && strcmp((*at)->name, name) != 0)
		at = &(*at)->next;
	return at;
}

/* A session is known once its configuration is. */
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

	if (line_get_number(line, "gone", &gone))
		reading_owner_gone(g, gone);
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
	reading_owners_gone(g, name);
	return 0;
}

/* ---- snapshots that are due ---- */

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

void restored_due_free(RestoredDue *first)
{
	for (RestoredDue *next; first; first = next) {
		next = first->next;
		due_free(first);
	}
}

static RestoredDue **due_at(Restored *r, u64 usec, const char *session)
{
	RestoredDue **at = &r->due;

	while (*at && ((*at)->usec != usec || strcmp((*at)->session, session) != 0))
		at = &(*at)->next;
	return at;
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

const ReadingWord restore_session_words[] = {
	{ "config", read_config },
	{ "said", read_said },
	{ "session", read_session },
	{ "session-gone", read_session_gone },
	{ "signs", read_signs },
	{ "due", read_due },
	{ "due-gone", read_due_gone },
	{ 0 },
};
