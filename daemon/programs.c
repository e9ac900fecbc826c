/* SPDX-License-Identifier: MIT */
/* What programs ask of the manager, and what becomes of them. */
#include "daemon/manager-private.h"

#include <stdio.h>

#include "daemon/state-program.h"
#include "systemd/journal.h"
#include "systemd/messages.h"

/* A program that did not get its answer in time is told to ask again, and so is every other that failed. Each of them takes its
 * time, the more the oftener it failed, so that one who never reads what it asked for costs the others little. */
#define RETRY_SOON (200 * NSEC_PER_MSEC)
#define RETRY_GAP  NSEC_PER_SEC

static void program_retire(Manager *m, Producer *p)
{
	roster_remove(&m->roster, p);
	state_program_gone(m->ground.state, p);
	(void)producer_free(p);
}

static void sessions_changed_of(Manager *m, const Producer *p)
{
	for (const Attachment *a = p->attachments; a; a = a->next_of_producer)
		if (a->owner->session)
			manager_session_changed(m, a->owner->session);
}

void manager_program_died(void *userdata, Producer *p, const Death *death)
{
	Manager *m = userdata;
	Session *s;

	if (producer_records(p))
		manager_on_death(m, p, death);
	/* Its rings and ids stay; the snapshot, which begins when this turn's deaths are all known, finds them. */
	program_retire(m, p);
	manager_release_units(m);
	for (s = m->sessions; s; s = s->next)
		manager_session_changed(m, s);
	manager_status_changed(m);
	if (m->observer.producers_changed)
		m->observer.producers_changed(m->userdata);
}

/* The program at the other end, made known if it is not. */
static int program_get(Manager *m, Exchange *x, Producer **ret, Failure *f)
{
	_cleanup_(peer_clear) Peer peer = PEER_NULL;
	const struct wire_hello *hello = exchange_hello(x);
	Producer *p;
	int r;

	r = peer_identify(&peer, exchange_fd(x));
	if (r == -ESRCH)
		return failure_set(f, FAILURE_INVALID,
				   "the process is gone, or lives in a pid namespace that this "
				   "daemon cannot see");
	if (r == -EPERM)
		return failure_set(f, FAILURE_INVALID,
				   "the process is not of the user any more that connected");
	if (r < 0)
		return failure_set(f, r == -EMFILE || r == -ENFILE ? FAILURE_LIMIT : FAILURE_IO,
				   "the process cannot be identified: %s", strerror(-r));
	p = roster_find(&m->roster, peer.pid);
	if (p && p->peer.start_time == peer.start_time && p->peer.uid == peer.uid &&
	    memcmp(p->cookie, hello->cookie, sizeof(p->cookie)) == 0) {
		/* it may have been renamed, or moved to another unit */
		memcpy(p->peer.command, peer.command, sizeof(p->peer.command));
		free(p->peer.unit);
		p->peer.unit = steal_ptr(peer.unit);
		*ret = p;
		return 0;
	}
	/* another image, another process under the same number, or one that changed its user: its old rings are not
	 * the new one's, and what the old one held locked nobody will release */
	if (p) {
		producer_ended(p, p->peer.start_time == peer.start_time ? "became another program" : "ended");
		program_retire(m, p);
	}
	r = producer_new(&p, &m->ground, m->event, &peer, roster_number(&m->roster), hello->cookie,
			 manager_program_died, m, f);
	if (r < 0)
		return r;
	roster_add(&m->roster, p);
	*ret = p;
	return 0;
}

/* A program whose library is older than `block` refuses all sessions of an answer that has it; to a ring it is discard. */
static u32 policy_for(const struct wire_hello *hello, u32 policy)
{
	return policy == ABI_POLICY_BLOCK && hello->abi_minor < 1 ? ABI_POLICY_DISCARD : policy;
}

static u32 block_timeout_us(const SessionConfig *c)
{
	if (c->policy != POLICY_BLOCK)
		return 0;
	/* 0 says "do not wait": what is not 0 must not become it */
	return (u32)MIN(c->block_timeout_ns / NSEC_PER_USEC + (c->block_timeout_ns % NSEC_PER_USEC != 0),
			(u64)UINT32_MAX);
}

/* What the rings' pinned ones are, and which is the program's, behind the ids. */
static size_t answer_more(u8 *p, const Attachment *a, const u16 *flags, u32 n)
{
	const struct geometry *g = &a->owner->region.geometry;
	const struct wire_session_more more = { .pinned_shift = g->pinned_shift,
						.pinned_sub_shift = g->pinned_sub_shift,
						.n_pinned = g->n_pinned,
						.pinned = a->pinned };

	memcpy(p, &more, sizeof(more));
	memcpy(p + sizeof(more), flags, n * sizeof(*flags));
	return sizeof(more) + n * sizeof(*flags);
}

/* Appends the SESSION message of one session; 1 if the program takes part. buffer: WIRE_MAX; flags: one per class. */
static int answer_session(Exchange *x, Session *s, Producer *p, u8 *buffer, u16 *flags, Failure *f)
{
	struct wire_session *m = (struct wire_session *)buffer;
	u16 *ids = (u16 *)(m + 1);
	size_t size = sizeof(*m) + p->n_classes * sizeof(*ids);
	const struct geometry *g;
	Attachment *a;
	int r;

	memset(buffer, 0, size);
	r = session_attach(s, p, ids, flags, &a, f);
	if (r <= 0)
		return r;
	g = &a->owner->region.geometry;
	if (g->n_pinned && exchange_hello(x)->abi_minor < 2) {
		attachment_set_active(a, false);
		return failure_set(f, FAILURE_INVALID,
				   "session '%s' has pinned events, which the library that the program runs with is "
				   "too old for; restart the program with the one that is installed now",
				   s->config->name);
	}
	if (g->n_pinned)
		size += answer_more(buffer + size, a, flags, p->n_classes);
	*m = (struct wire_session){
		.header = wire_header(WIRE_SESSION, (u32)size),
		.slot = s->slot,
		.generation = s->generation,
		.ring_shift = g->ring_shift,
		.sub_shift = g->sub_shift,
		.side_shift = g->side_shift,
		.side_sub_shift = g->side_sub_shift,
		.n_ring = g->n_ring,
		.n_side = g->n_side,
		.policy = policy_for(exchange_hello(x), g->policy),
		.contexts = g->contexts,
		.size = a->owner->region.size,
		.n_classes = p->n_classes,
		.block_timeout_us = block_timeout_us(s->config),
	};
	if (exchange_reply(x, buffer, size, a->owner) < 0) {
		attachment_set_active(a, false);
		return failure_set(f, FAILURE_NO_MEMORY, "out of memory");
	}
	return 1;
}

/* The classes of which the program is to tell when it records one. 0 or -ENOMEM. */
static int answer_triggers(Manager *m, Exchange *x, const Producer *p)
{
	struct {
		struct wire_triggers m;
		u8 bits[WIRE_MAX_CLASSES / 8];
	} t;
	size_t size = sizeof(t.m) + (p->n_classes + 7) / 8;
	bool any = false;

	if (!(exchange_hello(x)->flags & WIRE_HELLO_TRIGGERS))
		return 0;
	memset(&t, 0, sizeof(t));
	for (const Session *s = m->sessions; s; s = s->next) {
		if (s->config->snapshot.on_event.n == 0 || !session_records(s, p))
			continue;
		for (u32 i = 0; i < p->n_classes; i++)
			if (manager_is_trigger(s, p->classes[i])) {
				t.bits[i / 8] |= (u8)(1u << i % 8);
				any = true;
			}
	}
	t.m = (struct wire_triggers){ wire_header(WIRE_TRIGGERS, (u32)size), p->n_classes, 0 };
	return any ? exchange_reply(x, &t, size, NULL) : 0;
}

static int refusal_errno(int r)
{
	return r == -EDQUOT ? EDQUOT : r == -ENOMEM ? ENOMEM : r == -EBUSY ? EBUSY : EPERM;
}

static void programs_synchronise(void *userdata, Exchange *x)
{
	Manager *m = userdata;
	const struct wire_hello *hello = exchange_hello(x);
	Failure f = FAILURE_NULL;
	struct wire_done done;
	u32 n_sessions = 0, n_failed = 0, n;
	Producer *p = NULL;
	Class **classes;
	u8 *buffer;
	int r, first = 0;

	r = program_get(m, x, &p, &f);
	if (r < 0) {
		exchange_refuse(x, refusal_errno(r), f.text);
		exchange_complain(x, "%s; refused", f.text);
		return;
	}
	producer_describe(p, hello->vpid, exchange_exe(x), exchange_build_id(x));
	classes = exchange_take_classes(x, &n);
	producer_set_classes(p, classes, n);
	/* its own claims: kept from wrapping, believed no further */
	p->missed = add_bounded(p->missed, hello->missed);
	p->failed = add_bounded(p->failed, hello->failed);
	/* the message, and flags of all classes behind it */
	buffer = calloc(1, WIRE_MAX + (size_t)n * sizeof(u16));
	if (!buffer) {
		exchange_refuse(x, ENOMEM, "out of memory");
		return;
	}
	for (Session *s = m->sessions; s; s = s->next) {
		r = answer_session(x, s, p, buffer, (u16 *)(buffer + WIRE_MAX), &f);
		if (r < 0) {
			first = first ? first : r;
			n_failed++;
			exchange_complain(x, "%s", f.text);
		} else {
			n_sessions += (u32)r;
		}
	}
	free(buffer);
	done = (struct wire_done){ .header = wire_header(WIRE_DONE, sizeof(done)),
				   .generation = board_generation(m->ground.board),
				   .producer = p->number,
				   .n_sessions = n_sessions };
	/* one session without memory does not cost the others; all of them do say why */
	if (n_failed && n_sessions == 0)
		exchange_refuse(x, refusal_errno(first), f.text);
	else if (answer_triggers(m, x, p) < 0 || exchange_reply(x, &done, sizeof(done), NULL) < 0)
		exchange_refuse(x, ENOMEM, "out of memory");
	state_program(m->ground.state, p);
	sessions_changed_of(m, p);
	manager_status_changed(m);
	if (m->observer.producers_changed)
		m->observer.producers_changed(m->userdata);
}

static void programs_snapshot(void *userdata, Exchange *x, const u64 cookie[2], const char *reason)
{
	Manager *m = userdata;
	_cleanup_(peer_clear) Peer peer = PEER_NULL;
	struct wire_accepted accepted = { .header = wire_header(WIRE_ACCEPTED, sizeof(accepted)) };
	u32 suppressed = 0;
	Producer *p = NULL;

	if (peer_identify(&peer, exchange_fd(x)) == 0) {
		p = roster_find(&m->roster, peer.pid);
		if (p && (p->peer.start_time != peer.start_time || p->peer.uid != peer.uid ||
			  memcmp(p->cookie, cookie, sizeof(p->cookie)) != 0))
			p = NULL;
	}
	if (p)
		accepted.n_sessions = manager_on_request(m, p, reason, &suppressed);
	if (accepted.n_sessions == 0 && suppressed) {
		exchange_refuse(x, EBUSY,
				"the last automatic snapshot is too recent (snapshot.min_interval)");
		return;
	}
	if (accepted.n_sessions == 0) {
		exchange_refuse(x, ENODATA, "no session records this program");
		return;
	}
	if (exchange_reply(x, &accepted, sizeof(accepted), NULL) < 0)
		exchange_refuse(x, ENOMEM, "out of memory");
}

/* Who sent a notice. It may be gone, and even its number another's, whose image has another cookie; what the notice leads to
 * is done to the producer that is known. */
static Producer *program_speaking(Manager *m, Exchange *x, const u64 cookie[2])
{
	Producer *p = roster_find(&m->roster, exchange_pid(x));

	if (!p || p->peer.uid != exchange_uid(x) || memcmp(p->cookie, cookie, sizeof(p->cookie)) != 0)
		return NULL;
	return p;
}

static void programs_crashed(void *userdata, Exchange *x, const struct wire_crash *notice)
{
	Manager *m = userdata;
	Producer *p = program_speaking(m, x, notice->cookie);
	Dead *dead = p ? NULL : deaths_of_pid(&m->deaths, exchange_pid(x), manager_now());

	if (dead && (dead->uid != exchange_uid(x) || memcmp(dead->cookie, notice->cookie, sizeof(dead->cookie)) != 0))
		dead = NULL;
	if (dead || (p && producer_records(p)))
		manager_on_notice(m, p, dead, notice);
}

static void programs_recorded(void *userdata, Exchange *x, const struct wire_event *m)
{
	Producer *p = program_speaking(userdata, x, m->cookie);

	if (p && m->class < p->n_classes)
		manager_on_event(userdata, p, p->classes[m->class]);
}

static int retry_on_time(sd_event_source *s, u64 usec, void *userdata)
{
	Manager *m = userdata;

	m->retry = sd_event_source_disable_unref(m->retry);
	m->retry_last = manager_now();
	board_retry(m->ground.board);
	return 0;
}

static void programs_late(void *userdata)
{
	Manager *m = userdata;
	u64 since = manager_now() - m->retry_last;

	if (m->retry)
		return;
	/* not at once: where one was late, the others of its crowd are still on their way */
	(void)sd_event_add_time_relative(m->event, &m->retry, CLOCK_MONOTONIC,
					 MAX(since >= RETRY_GAP ? 0 : RETRY_GAP - since, RETRY_SOON) / NSEC_PER_USEC, 10000,
					 retry_on_time, m);
}

const ExchangeHandler manager_programs = {
	.synchronise = programs_synchronise,
	.snapshot = programs_snapshot,
	.crashed = programs_crashed,
	.recorded = programs_recorded,
	.late = programs_late,
};

void manager_forget_programs(Manager *m)
{
	for (Producer *p; (p = roster_next(&m->roster, NULL));)
		program_retire(m, p);
}

/* ---- looking ---- */

u32 manager_n_producers(Manager *m)
{
	return m->roster.n;
}

static int producer_compare(const void *a, const void *b)
{
	const Producer *x = *(const Producer *const *)a, *y = *(const Producer *const *)b;

	return x->peer.pid < y->peer.pid ? -1 : x->peer.pid > y->peer.pid;
}

bool manager_producer(Manager *m, u32 i, ProducerInfo *ret)
{
	const Producer *p = NULL;

	if (i == 0) {
		free(m->listed);
		m->n_listed = 0;
		m->listed = calloc(MAX(m->roster.n, 1u), sizeof(*m->listed));
		if (!m->listed)
			return false;
		while ((p = roster_next(&m->roster, p)))
			m->listed[m->n_listed++] = p;
		qsort(m->listed, m->n_listed, sizeof(*m->listed), producer_compare);
	}
	if (i >= m->n_listed)
		return false;
	p = m->listed[i];
	*ret = (ProducerInfo){ .pid = p->peer.pid,
			       .uid = p->peer.uid,
			       .command = p->peer.command,
			       .unit = p->peer.unit,
			       .exe = p->description->exe,
			       .build_id = p->description->build_id,
			       .started = p->description->started,
			       .start_ticks = p->peer.start_time,
			       .n_classes = p->n_classes,
			       .missed = p->missed,
			       .failed = p->failed,
			       .n_sessions = producer_n_active(p) };
	return true;
}

static void event_gather(void *userdata, const Class *class)
{
	Manager *m = userdata;

	if (class->n_producers)
		m->events[m->n_events++] = (EventInfo){ .provider = class->class->provider,
							.event = class->class->name,
							.level = class->class->level };
}

static int event_compare(const void *a, const void *b)
{
	const EventInfo *x = a, *y = b;
	int r = strcmp(x->provider, y->provider);

	if (r == 0)
		r = strcmp(x->event, y->event);
	return r ? r : x->level - y->level;
}

bool manager_event(Manager *m, u32 i, EventInfo *ret)
{
	if (i == 0) {
		u32 n = 0;

		free(m->events);
		m->n_events = 0;
		m->events = calloc(MAX(classes_n(m->ground.classes), 1u), sizeof(*m->events));
		if (!m->events)
			return false;
		classes_each(m->ground.classes, event_gather, m);
		qsort(m->events, m->n_events, sizeof(*m->events), event_compare);
		/* the same of several users, or with other fields, is one to a reader */
		for (u32 k = 0; k < m->n_events; k++)
			if (n == 0 || event_compare(&m->events[n - 1], &m->events[k]) != 0)
				m->events[n++] = m->events[k];
		m->n_events = n;
	}
	if (i >= m->n_events)
		return false;
	*ret = m->events[i];
	return true;
}
