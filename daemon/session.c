/* SPDX-License-Identifier: MIT */
/* One named session. */
#include "daemon/session.h"

#include <stdio.h>

#include "systemd/journal.h"
#include "systemd/messages.h"

/* Rings without a living program that one session keeps for the next snapshot; the oldest go first. */
#define SESSION_MAX_IDLE 8

static u32 policy_abi(Policy p)
{
	return p == POLICY_DISCARD ? ABI_POLICY_DISCARD : ABI_POLICY_OVERWRITE;
}

static int session_plan(const SessionConfig *c, const Cpus *cpus, struct geometry *ret, Failure *f)
{
	char size[32], least[32];
	u64 minimum = 0;
	int r = geometry_plan(ret, c->memory, c->sub_buffers, cpus->n_rings, cpus->n_possible,
			      policy_abi(c->policy), c->contexts, &minimum);

	if (r == 0)
		return 0;
	format_size(c->memory, size);
	format_size(minimum, least);
	if (r == -ENOSPC)
		return failure_set(f, FAILURE_INVALID,
				   "session '%s': memory = \"%s\" is too little for %u CPUs with %u "
				   "sub-buffers each; at least \"%s\" is needed",
				   c->name, size, cpus->n_rings, c->sub_buffers, least);
	return failure_set(f, FAILURE_INVALID, "session '%s': rings of %s cannot be planned: %s",
			   c->name, size, strerror(-r));
}

int session_possible(const SessionConfig *c, const Cpus *cpus, Failure *f)
{
	struct geometry g;

	return session_plan(c, cpus, &g, f);
}

int session_set_output(Session *s)
{
	char *output;

	if (asprintf(&output, "%s/%s", s->ground->snapshot_directory, s->config->name) < 0)
		return -ENOMEM;
	free(s->output);
	s->output = output;
	return 0;
}

static int session_scope(const SessionConfig *c, Scope *ret, Failure *f)
{
	const char *unknown;

	if (scope_init(ret, c, &unknown) < 0)
		return failure_set(f, FAILURE_NO_MEMORY, "out of memory");
	if (unknown)
		log_warning("session '%s': user '%s' does not exist, recording nobody for it",
			    c->name, unknown);
	return 0;
}

int session_new(Session **ret, Ground *ground, SessionConfig *config, Failure *f)
{
	_cleanup_(session_freep) Session *s = calloc(1, sizeof(*s));
	int r;

	if (!s)
		return failure_set(f, FAILURE_NO_MEMORY, "out of memory");
	s->ground = ground;
	r = session_scope(config, &s->scope, f);
	if (r < 0)
		return r;
	s->config = config;
	if (session_set_output(s) < 0) {
		s->config = NULL;
		return failure_set(f, FAILURE_NO_MEMORY, "out of memory");
	}
	*ret = steal_ptr(s);
	return 0;
}

/* Keeps the sums of rings that go, so that counters never fall but by Clear. */
static void session_abandon(Session *s, Owner *o)
{
	for (Owner **p = &s->owners; *p; p = &(*p)->next) {
		if (*p != o)
			continue;
		*p = o->next;
		break;
	}
	s->n_owners--;
	owner_abandon(o);
}

void session_drop_owner(Session *s, Owner *o)
{
	OwnerCounters c = {};

	owner_count(o, &c);
	s->past.recorded += c.recorded;
	s->past.overwritten += c.recorded; /* none of it is in a ring any more */
	s->past.discarded += c.discarded;
	for (u32 i = 0; i < ABI_LOST_CAUSES; i++)
		s->past.lost[i] += c.lost[i];
	session_abandon(s, o);
}

static void session_abandon_all(Session *s)
{
	while (s->owners)
		session_abandon(s, s->owners);
	s->past = (OwnerCounters){};
}

Session *session_free(Session *s)
{
	if (!s)
		return NULL;
	if (s->running)
		(void)session_stop(s, NULL);
	session_abandon_all(s);
	scope_clear(&s->scope);
	(void)session_config_free(s->config);
	free(s->output);
	free(s->last_snapshot);
	free(s);
	return NULL;
}

/* ---- start and stop ---- */

static u64 memory_available(void)
{
	FILE *file = fopen("/proc/meminfo", "re");
	unsigned long long kib = 0;
	char line[128];

	if (!file)
		return UINT64_MAX;
	while (fgets(line, sizeof(line), file))
		if (sscanf(line, "MemAvailable: %llu kB", &kib) == 1)
			break;
	(void)fclose(file);
	return kib ? kib * 1024 : UINT64_MAX;
}

/* The rings of at least one owner must be possible; they are allocated when it appears. */
static int session_reserve(const Session *s, Failure *f)
{
	const AccountLimits *l = account_limits(s->ground->account);
	u64 need = geometry_memory(&s->geometry, s->ground->cpus->n_rings), available, held;
	char a[32], b[32], c[32];

	if (s->owners)
		return 0;
	held = account_total(s->ground->account, CHARGE_MEMORY);
	format_size(need, a);
	if (l->total[CHARGE_MEMORY] && held + need > l->total[CHARGE_MEMORY]) {
		format_size(held, b);
		format_size(l->total[CHARGE_MEMORY], c);
		return failure_set(f, FAILURE_NO_MEMORY,
				   "session '%s': the rings of one owner need %s, but %s of "
				   "daemon.max_memory = \"%s\" are taken",
				   s->config->name, a, b, c);
	}
	if (l->per_user[CHARGE_MEMORY] && need > l->per_user[CHARGE_MEMORY]) {
		format_size(l->per_user[CHARGE_MEMORY], b);
		return failure_set(f, FAILURE_NO_MEMORY,
				   "session '%s': the rings of one owner need %s, more than "
				   "daemon.max_memory_per_user = \"%s\"",
				   s->config->name, a, b);
	}
	available = memory_available();
	if (need > available) {
		format_size(available, b);
		return failure_set(f, FAILURE_NO_MEMORY,
				   "session '%s': the rings of one owner need %s, but the machine "
				   "has only %s left",
				   s->config->name, a, b);
	}
	return 0;
}

int session_start(Session *s, Failure *f)
{
	u64 buckets[SCOPE_WORDS];
	int slot, r;

	if (s->running)
		return failure_set(f, FAILURE_SESSION_RUNNING, "session '%s' is already running",
				   s->config->name);
	if (!s->planned) {
		r = session_plan(s->config, s->ground->cpus, &s->geometry, f);
		if (r < 0)
			return r;
	}
	r = session_reserve(s, f);
	if (r < 0)
		return r;
	slot = board_slot_find(s->ground->board);
	if (slot < 0)
		return failure_set(f, FAILURE_LIMIT,
				   "session '%s': %d sessions are running, which is all that can; "
				   "stop one first",
				   s->config->name, ABI_MAX_SLOTS);
	s->planned = true;
	s->slot = (u32)slot;
	s->running = true;
	scope_buckets(&s->scope, buckets);
	s->generation = board_session_begin(s->ground->board, s->slot, buckets);
	journal_log(LOG_INFO,
		    &(JournalFields){ .message_id = MESSAGE_SESSION_STARTED,
				      .session = s->config->name },
		    "session '%s' started", s->config->name);
	return 0;
}

int session_stop(Session *s, Failure *f)
{
	if (!s->running)
		return failure_set(f, FAILURE_NOT_RUNNING, "session '%s' is not running",
				   s->config->name);
	board_session_end(s->ground->board, s->slot);
	s->running = false;
	for (Owner *o = s->owners; o; o = o->next)
		for (Attachment *a = o->attachments; a; a = a->next_of_owner)
			attachment_set_active(a, false);
	journal_log(LOG_INFO,
		    &(JournalFields){ .message_id = MESSAGE_SESSION_STOPPED,
				      .session = s->config->name },
		    "session '%s' stopped", s->config->name);
	return 0;
}

/* New rings: programs must be off the old ones (by the board) before those are let go. */
static void session_renew(Session *s)
{
	if (s->running)
		s->generation = board_session_renew(s->ground->board, s->slot);
	session_abandon_all(s);
}

int session_clear(Session *s, Failure *f)
{
	session_renew(s);
	s->written = s->clamped = s->corrupt = s->suppressed = 0;
	return 0;
}

static bool same_rings(const SessionConfig *a, const SessionConfig *b)
{
	return a->policy == b->policy && a->buffers == b->buffers && a->memory == b->memory &&
	       a->sub_buffers == b->sub_buffers && a->contexts == b->contexts && a->io == b->io;
}

int session_configure(Session *s, SessionConfig *config, Failure *f)
{
	bool rings = !same_rings(s->config, config);
	struct geometry g = s->geometry;
	u64 buckets[SCOPE_WORDS];
	Scope scope;
	int r;

	if (rings) {
		r = session_plan(config, s->ground->cpus, &g, f);
		if (r < 0)
			return r;
	}
	r = session_scope(config, &scope, f);
	if (r < 0)
		return r;
	/* nothing fails from here */
	scope_clear(&s->scope);
	s->scope = scope;
	(void)session_config_free(s->config);
	s->config = config;
	if (rings) {
		s->geometry = g;
		s->planned = true;
		session_renew(s);
	}
	if (s->running) {
		scope_buckets(&s->scope, buckets);
		board_session_change(s->ground->board, s->slot, buckets);
	}
	return 0;
}

/* ---- programs ---- */

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

void session_drop_idle(Session *s, u32 keep)
{
	for (;;) {
		Owner *oldest = NULL;
		u32 n = 0;

		for (Owner *o = s->owners; o; o = o->next) {
			if (o->n_attachments)
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
		if (owner_key_equal(&o->key, &key)) {
			*ret = o;
			return 0;
		}
	}
	session_drop_idle(s, SESSION_MAX_IDLE);
	session_label(s, &key, p, label, sizeof(label));
	r = owner_new(&o, s->ground, s, s->config->name, &key, label, p->peer.uid, &s->geometry,
		      s->slot, s->generation, f);
	if (r < 0) {
		/* the living before the dead */
		session_drop_idle(s, 0);
		r = owner_new(&o, s->ground, s, s->config->name, &key, label, p->peer.uid,
			      &s->geometry, s->slot, s->generation, f);
		if (r < 0)
			return r;
	}
	o->next = s->owners;
	s->owners = o;
	s->n_owners++;
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
	return 0;
}

int session_attach(Session *s, Producer *p, u16 *ids, Attachment **ret, Failure *f)
{
	bool wanted = false;
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
			const struct event_class *c = p->classes[i]->class;

			ids[i] = scope_wants_event(&s->scope, c->provider, c->name, c->level);
			wanted |= ids[i];
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
	attachment_set_active(a, true);
	*ret = a;
	return 1;
}

bool session_records(const Session *s, const Producer *p)
{
	for (const Attachment *a = p->attachments; a; a = a->next_of_producer)
		if (a->active && a->owner->session == s)
			return s->running;
	return false;
}

u32 session_n_producers(const Session *s)
{
	u32 n = 0;

	for (const Owner *o = s->owners; o; o = o->next)
		n += o->n_active;
	return n;
}

int session_add_ring(Session *s, u32 ring)
{
	int first = 0;

	for (Owner *o = s->owners; o; o = o->next) {
		int r = owner_add_ring(o, ring);

		if (r < 0 && first == 0)
			first = r;
	}
	return first;
}

void session_info(Session *s, SessionInfo *ret)
{
	OwnerCounters c = s->past;

	*ret = (SessionInfo){
		.name = s->config->name,
		.state = s->running ? "running" : "stopped",
		.config = s->config,
		.output = s->output,
		.last_snapshot = s->last_snapshot ? s->last_snapshot : "",
		.n_producers = session_n_producers(s),
		.n_owners = s->n_owners,
		.written = s->written,
		.suppressed = s->suppressed,
		.clamped = s->clamped,
		.corrupt = s->corrupt,
	};
	for (const Owner *o = s->owners; o; o = o->next) {
		ret->memory += o->charged;
		owner_count(o, &c);
	}
	ret->recorded = c.recorded;
	ret->overwritten = c.overwritten;
	ret->discarded = c.discarded;
	memcpy(ret->lost, c.lost, sizeof(ret->lost));
	ret->fill = c.fill;
}
