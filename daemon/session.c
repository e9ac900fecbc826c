/* SPDX-License-Identifier: MIT */
/* One named session. */
#include "daemon/session.h"

#include <stdio.h>

#include "daemon/state.h"
#include "systemd/journal.h"
#include "systemd/messages.h"

static u32 policy_abi(Policy p)
{
	switch (p) {
	case POLICY_DISCARD:
		return ABI_POLICY_DISCARD;
	case POLICY_BLOCK:
		return ABI_POLICY_BLOCK;
	default:
		return ABI_POLICY_OVERWRITE;
	}
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

int session_set_directories(Session *s)
{
	_cleanup_free_ char *snapshots = NULL, *output = NULL;

	if (asprintf(&snapshots, "%s/%s", s->ground->snapshot_directory, s->config->name) < 0) {
		snapshots = NULL;
		return -ENOMEM;
	}
	if (s->config->output)
		output = strdup(s->config->output);
	else if (asprintf(&output, "%s/%s", s->ground->trace_directory, s->config->name) < 0)
		output = NULL;
	if (!output)
		return -ENOMEM;
	free(s->snapshots);
	free(s->output);
	s->snapshots = steal_ptr(snapshots);
	s->output = steal_ptr(output);
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
	if (session_set_directories(s) < 0) {
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
	if (s->writing && o->feed)
		(void)writing_retire(s->writing, o, false);
	state_owner_gone(o);
	owner_abandon(o);
}

static void session_count(Session *s, Owner *o, OwnerCounters *sum)
{
	if (!owner_count(o, sum))
		return;
	s->corrupt++;
	log_warning("session '%s': the counters of %s were written over by a program and are believed no "
		    "more; they stand still until the session is cleared",
		    s->config->name, o->label);
}

void session_drop_owner(Session *s, Owner *o)
{
	OwnerCounters c = {};

	/* not before its consumer has emptied it: what it has counted would be nowhere */
	if (s->writing && o->feed && writing_retire(s->writing, o, true))
		return;
	session_count(s, o, &c);
	/* what nobody has taken is in no ring any more */
	if (o->feed)
		c.overwritten = MAX(c.overwritten, c.recorded - MIN(c.recorded, c.written + c.corrupt));
	else
		c.overwritten = c.recorded;
	c.fill = 0;
	counters_add(&s->past, &c);
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
	if (s->running && !s->ground->leaving)
		(void)session_stop(s, NULL, NULL, NULL);
	/* what its rings hold is still written; nothing of this is touched for it */
	if (s->writing)
		writing_forget(s->writing);
	session_abandon_all(s);
	scope_clear(&s->scope);
	(void)session_config_free(s->config);
	free(s->snapshots);
	free(s->output);
	free(s->last_snapshot);
	free(s->last_trace);
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

/* The consumer, with the rings that were there before. */
static int session_write(Session *s, bool strict, Failure *f)
{
	int r;

	if (!session_is_continuous(s))
		return 0;
	r = writing_new(&s->writing, s->ground->writings, s, strict, f);
	for (Owner *o = s->owners; o && r == 0; o = o->next) {
		r = writing_add(s->writing, o);
		if (r < 0) {
			/* it has some of the rings, which nobody else may have before it is done */
			writing_stop(s->writing);
			return failure_set(f, FAILURE_NO_MEMORY, "out of memory");
		}
	}
	return r;
}

static int session_begin(Session *s, bool strict, Failure *f)
{
	u64 buckets[SCOPE_WORDS];
	int slot, r;

	if (s->running)
		return failure_set(f, FAILURE_SESSION_RUNNING, "session '%s' is already running",
				   s->config->name);
	if (s->writing)
		return failure_set(f, FAILURE_BUSY,
				   "session '%s' was stopped and is still writing what it recorded; wait "
				   "until its state is \"stopped\"",
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
	r = session_write(s, strict, f);
	if (r < 0)
		return r;
	s->running = true;
	s->start_wanted = false;
	scope_buckets(&s->scope, buckets);
	s->generation = board_session_begin(s->ground->board, s->slot, buckets);
	state_session(s);
	journal_log(LOG_INFO,
		    &(JournalFields){ .message_id = MESSAGE_SESSION_STARTED,
				      .session = s->config->name },
		    "session '%s' started", s->config->name);
	return 0;
}

int session_start(Session *s, Failure *f)
{
	return session_begin(s, true, f);
}

int session_start_anyway(Session *s, Failure *f)
{
	/* nobody is there who could try again */
	if (s->writing && !s->running) {
		s->start_wanted = true;
		log_info("session '%s' starts when what it recorded is written", s->config->name);
		return 0;
	}
	return session_begin(s, false, f);
}

int session_stop(Session *s, WritingDone done, void *userdata, Failure *f)
{
	if (!s->running && !s->start_wanted)
		return failure_set(f, FAILURE_NOT_RUNNING, "session '%s' is not running",
				   s->config->name);
	if (s->writing && done && writing_wait(s->writing, done, userdata) < 0)
		return failure_set(f, FAILURE_NO_MEMORY, "out of memory");
	if (!s->running) {
		s->start_wanted = false;
		return 0;
	}
	board_session_end(s->ground->board, s->slot);
	s->running = false;
	for (Owner *o = s->owners; o; o = o->next)
		for (Attachment *a = o->attachments; a; a = a->next_of_owner)
			attachment_set_active(a, false);
	journal_log(LOG_INFO,
		    &(JournalFields){ .message_id = MESSAGE_SESSION_STOPPED,
				      .session = s->config->name },
		    "session '%s' stopped", s->config->name);
	state_session(s);
	if (s->writing)
		writing_stop(s->writing);
	else if (done)
		done(userdata, NULL);
	return 0;
}

/* New rings: programs must be off the old ones (by the board) before those are let go. */
static void session_renew(Session *s)
{
	if (s->running)
		s->generation = board_session_renew(s->ground->board, s->slot);
	session_abandon_all(s);
	s->n_renewals++;
	s->written = s->clamped = s->corrupt = s->unwritten = 0; /* of the old rings, as Recorded was */
	if (s->writing) {
		ConsumerInfo w;

		writing_info(s->writing, &w);
		s->unwritten_before = w.unwritten;
	}
	state_session(s);
}

int session_clear(Session *s, Failure *f)
{
	s->suppressed = 0;
	session_renew(s);
	return 0;
}

int session_nothing(const Session *s, Failure *f)
{
	const char *name = s->config->name;

	if (!s->running)
		return failure_set(f, FAILURE_NOTHING,
				   "session '%s' has recorded nothing, so there is nothing to save; "
				   "start it first (tracerctl start %s)",
				   name, name);
	return failure_set(f, FAILURE_NOTHING,
			   "session '%s': no program has recorded anything yet, so there is nothing to "
			   "save; tracerctl producers lists the programs that are instrumented, "
			   "tracerctl show %s what is recorded of which",
			   name, name);
}

static bool same_rings(const SessionConfig *a, const SessionConfig *b)
{
	return a->policy == b->policy && a->buffers == b->buffers && a->memory == b->memory &&
	       a->sub_buffers == b->sub_buffers && a->contexts == b->contexts;
}

/* A running session whose configuration has changed: begins to write, ends it, or does it otherwise. */
static void session_rewrite(Session *s)
{
	Failure f = FAILURE_NULL;
	int r = 0;

	if (s->writing && writing_stopping(s->writing))
		return; /* its rings are in use until session_writing_ended() */
	if (s->writing && session_is_continuous(s))
		r = writing_configure(s->writing, s->config, s->output);
	else if (s->writing)
		writing_stop(s->writing);
	else
		r = session_write(s, false, &f);
	if (r < 0)
		log_error("session '%s': %s", s->config->name, f.text[0] ? f.text : strerror(-r));
}

void session_resume(Session *s, bool draining, bool again)
{
	Failure f = FAILURE_NULL;
	int r = 0;

	if (s->running || draining)
		r = session_write(s, false, &f);
	if (r == 0 && draining && s->writing)
		writing_stop(s->writing);
	if (r == 0 && again)
		r = session_start_anyway(s, &f);
	if (r < 0)
		log_error("session '%s': %s", s->config->name, f.text[0] ? f.text : strerror(-r));
}

void session_writing_ended(Session *s)
{
	Failure f = FAILURE_NULL;

	state_session(s);
	if (s->running) {
		session_rewrite(s);
	} else if (s->start_wanted) {
		s->start_wanted = false;
		if (session_begin(s, false, &f) < 0)
			log_error("%s", f.text);
	}
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
	/* nothing that cannot be gone on from fails from here */
	scope_clear(&s->scope);
	s->scope = scope;
	(void)session_config_free(s->config);
	s->config = config;
	s->start_wanted &= config->autostart;
	(void)session_set_directories(s);
	state_session_config(s);
	if (rings) {
		s->geometry = g;
		s->planned = true;
		session_renew(s);
	}
	if (s->running)
		session_rewrite(s);
	if (s->running) {
		scope_buckets(&s->scope, buckets);
		board_session_change(s->ground->board, s->slot, buckets);
	}
	return 0;
}

/* ---- looking ---- */

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

		state_owner(o);
		if (r < 0 && first == 0)
			first = r;
	}
	return first;
}

void session_info(Session *s, SessionInfo *ret)
{
	OwnerCounters c = s->past;

	/* first: it may find out that there is more that is corrupt */
	for (Owner *o = s->owners; o; o = o->next)
		session_count(s, o, &c);
	*ret = (SessionInfo){
		.name = s->config->name,
		.state = s->running ? "running" : s->writing ? "stopping" : "stopped",
		.config = s->config,
		.output = session_is_continuous(s) ? s->output : s->snapshots,
		.snapshots = s->snapshots,
		.last_trace = s->last_trace ? s->last_trace : "",
		.unwritten = s->unwritten,
		.trouble = "",
		.last_snapshot = s->last_snapshot ? s->last_snapshot : "",
		.n_producers = session_n_producers(s),
		.n_owners = s->n_owners,
		.written = s->written,
		.suppressed = s->suppressed,
		.clamped = s->clamped,
		.corrupt = s->corrupt,
	};
	for (const Owner *o = s->owners; o; o = o->next)
		ret->memory += o->charged;
	ret->recorded = c.recorded;
	ret->overwritten = c.overwritten;
	ret->discarded = c.discarded;
	memcpy(ret->lost, c.lost, sizeof(ret->lost));
	ret->fill = c.fill;
	ret->clamped += c.clamped;
	ret->corrupt += c.corrupt_subs;
	ret->unreadable = c.corrupt;
	if (s->writing) {
		ConsumerInfo w;

		writing_info(s->writing, &w);
		ret->trouble = w.trouble;
		ret->unwritten += w.unwritten - s->unwritten_before;
		memcpy(ret->strategy, w.strategy, sizeof(ret->strategy));
	}
	ret->written += c.written > ret->unwritten ? c.written - ret->unwritten : 0;
}
