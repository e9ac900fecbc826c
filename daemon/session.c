/* SPDX-License-Identifier: MIT */
/* One named session. */
#include "daemon/session-private.h"

#include <stdio.h>

#include "daemon/backing/backing.h"
#include "daemon/backing/leftovers.h"
#include "daemon/state-owner.h"
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

/* Programs of one owner that can have a pinned ring at a time. Where that is one process there are more than one all the same: a
 * wrapper that becomes the service by exec is another program. */
#define PINNED_PROGRAMS	       16
#define PINNED_PROGRAMS_SINGLE 4

static int session_plan_pinned(const SessionConfig *c, struct geometry *g, Failure *f)
{
	u32 n = c->buffers == BUFFERS_PER_PROCESS ? PINNED_PROGRAMS_SINGLE : PINNED_PROGRAMS;
	char size[32], least[32];
	u64 minimum = 0;

	if (!c->pinned.n || geometry_plan_pinned(g, c->pinned_memory, n, &minimum) == 0)
		return 0;
	format_size(c->pinned_memory, size);
	format_size(minimum, least);
	return failure_set(f, FAILURE_INVALID,
			   "session '%s': pinned_memory = \"%s\" is too little; at least \"%s\" is needed",
			   c->name, size, least);
}

int session_plan(const SessionConfig *c, const Cpus *cpus, struct geometry *ret, Failure *f)
{
	char size[32], least[32];
	u64 minimum = 0;
	int r = geometry_plan(ret, c->memory, c->sub_buffers, cpus->n_rings, cpus->n_possible,
			      policy_abi(c->policy), c->contexts, &minimum);

	if (r == 0)
		return session_plan_pinned(c, ret, f);
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

int session_scope(const SessionConfig *c, Scope *ret, Failure *f)
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
	if (s->backing)
		backing_retire(s->backing, o);
	state_owner_gone(o);
	owner_abandon(o);
}

void session_count(Session *s, Owner *o, OwnerCounters *sum)
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
	c.pinned = 0;
	counters_add(&s->past, &c);
	session_abandon(s, o);
}

void session_abandon_all(Session *s)
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
	if (s->backing)
		backing_drop(s->backing);
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
