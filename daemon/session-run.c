/* SPDX-License-Identifier: MIT */
/* A session begins, ends, and becomes another while it runs. */
#include "daemon/session-private.h"

#include <stdio.h>

#include "daemon/backing/backing.h"
#include "daemon/backing/leftovers.h"
#include "daemon/output.h"
#include "daemon/state-session.h"
#include "systemd/journal.h"
#include "systemd/messages.h"

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

static int session_back_all(Session *s)
{
	const SessionConfig *c = s->config;
	int r = 0;

	if (!s->backing)
		r = backing_new(&s->backing, s->ground->backings, s, c->backing, c->sync_interval_ns, s->back_goes_on);
	for (Owner *o = s->owners; o && r == 0; o = o->next)
		if (!backing_has(s->backing, o))
			r = backing_add(s->backing, o);
	return r;
}

/* Its rings on disk, as the configuration has it. */
static void session_back(Session *s, bool goes_on)
{
	const SessionConfig *c = s->config;
	int r;

	if (s->backing && (!c->backing || strcmp(c->backing, backing_path(s->backing)) != 0))
		backing_drop(s->backing);
	if (!s->backing)
		s->unbacked = false;
	if (!c->backing)
		return;
	if (s->backing) {
		backing_set_interval(s->backing, c->sync_interval_ns);
		return;
	}
	s->back_goes_on = goes_on;
	r = session_back_all(s);
	s->unbacked = r < 0;
	/* no reason not to record */
	if (r < 0)
		log_error("session '%s': its rings are not kept below %s: %s; it is tried again", c->name, c->backing,
			  strerror(-r));
}

bool session_back_again(Session *s)
{
	if (!s->unbacked || !s->running || !s->config->backing || session_back_all(s) < 0)
		return false;
	s->unbacked = false;
	log_notice("session '%s': its rings are kept below %s", s->config->name, s->config->backing);
	return true;
}

void session_look_back(const Session *s)
{
	const SessionConfig *c = s->config;

	if (c->backing && s->ground->leftovers &&
	    leftovers_look(s->ground->leftovers, c->backing, c->name, s->snapshots, &c->snapshot.keep) < 0)
		log_error("session '%s': what was left in %s is not looked at: out of memory", c->name, c->backing);
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
	session_back(s, false);
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
	triggers_reset(&s->triggers);
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

/* Which events are pinned is told to programs; that any are makes room for them. */
static u64 pinned_memory(const SessionConfig *c)
{
	return c->pinned.n ? c->pinned_memory : 0;
}

static bool same_rings(const SessionConfig *a, const SessionConfig *b)
{
	return pinned_memory(a) == pinned_memory(b) && a->policy == b->policy && a->buffers == b->buffers && a->memory == b->memory &&
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

void session_resume(Session *s, bool draining, bool again, bool whole)
{
	Failure f = FAILURE_NULL;
	int r = 0;

	/* with all its rings, what is on disk of them is no leftover */
	if (!s->running || !whole)
		session_look_back(s);
	if (s->running)
		session_back(s, whole);

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
	/* the next daemon writes what its programs record on */
	if (s->ground->leaving)
		return;
	if (s->running) {
		session_rewrite(s);
	} else if (s->start_wanted) {
		s->start_wanted = false;
		if (session_begin(s, false, &f) < 0)
			log_error("%s", f.text);
	}
}

/* Only of another place, and one that was named: who is in trouble where it is must not be kept from anything by that. */
int session_can_move(const Session *s, const SessionConfig *config, Failure *f)
{
	int r;

	if (!s->running || config->io == IO_NONE || !config->output)
		return 0;
	if (s->writing && strcmp(config->output, s->output) == 0)
		return 0;
	r = output_try(config->output);
	return r < 0 ? failure_set(f, FAILURE_IO, "session '%s': cannot write to %s: %s; nothing is changed", config->name,
				   config->output, strerror(-r))
		     : 0;
}

int session_configure(Session *s, SessionConfig *config, Failure *f)
{
	bool rings = !same_rings(s->config, config), moved;
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
	moved = config->backing && (!s->config->backing || strcmp(config->backing, s->config->backing) != 0);
	scope_clear(&s->scope);
	s->scope = scope;
	(void)session_config_free(s->config);
	s->config = config;
	s->start_wanted &= config->autostart;
	(void)session_set_directories(s);
	state_session_config(s);
	if (moved)
		session_look_back(s);
	if (rings) {
		s->geometry = g;
		s->planned = true;
		session_renew(s);
	}
	if (s->running)
		session_rewrite(s);
	if (s->running || s->backing)
		session_back(s, false);
	if (s->running) {
		scope_buckets(&s->scope, buckets);
		board_session_change(s->ground->board, s->slot, buckets);
	}
	return 0;
}
