/* SPDX-License-Identifier: MIT */
#include "daemon/writing.h"

#include <stdio.h>
#include <time.h>

#include "daemon/chunk.h"
#include "daemon/resume.h"
#include "daemon/session.h"
#include "daemon/state-owner.h"
#include "daemon/state-session.h"
#include "systemd/journal.h"
#include "systemd/messages.h"

/* Rings that the consumer reads. Holds a reference on the owner, whose ids are pinned as long as it has a feed. */
typedef struct Given Given;
struct Given {
	Given *next;
	Owner *owner;
	bool retired, drop;
};

typedef struct Waiter Waiter;
struct Waiter {
	Waiter *next;
	WritingDone done;
	void *userdata;
};

struct Writing {
	Writing *next;
	Writings *set;
	Session *session; /* NULL: removed */
	char *name;
	Consumer *consumer;
	Given *given;
	Waiter *waiters;
	bool stopping;
	char *output; /* of a session that is gone: where it still writes */
};

/* The consumer has let go of it. drop: and the session does. */
static void given_free(Given *g, bool drop)
{
	Owner *o = g->owner;

	o->leaving = o->given = false;
	if (drop && o->session)
		session_drop_owner(o->session, o);
	(void)owner_unref(o);
	free(g);
}

/* all: everything is written. */
static Writing *writing_free(Writing *w, u64 timeout_ns, bool all)
{
	bool hang;

	for (Writing **p = &w->set->first; *p; p = &(*p)->next) {
		if (*p != w)
			continue;
		*p = w->next;
		break;
	}
	if (w->session)
		w->session->writing = NULL;
	hang = consumer_free(w->consumer, timeout_ns);
	if (hang) {
		log_error("session '%s': its output does not answer; what is not written yet is lost", w->name);
		w->set->hang = true;
	}
	/* those of a thread that hangs are left to it, with our references */
	for (Given *g; (g = w->given) && !hang;) {
		w->given = g->next;
		given_free(g, g->drop && all);
	}
	/* the daemon ends, and did not wait to hear */
	for (Waiter *x = w->waiters, *next; x; x = next) {
		Failure f = FAILURE_NULL;

		next = x->next;
		(void)failure_set(&f, FAILURE_IO,
				  "session '%s': tracerd ended; whether all of its events were written is in the journal",
				  w->name);
		x->done(x->userdata, &f);
		free(x);
	}
	free(w->output);
	free(w->name);
	free(w);
	return NULL;
}

/* ---- what the consumer tells ---- */

static void on_completed(void *userdata, const char *path, u64 n_records)
{
	Writing *w = userdata;

	char what[64] = "left by a daemon that was killed, and put right";

	if (n_records != CHUNK_UNCOUNTED)
		(void)snprintf(what, sizeof(what), "%llu records", (unsigned long long)n_records);
	else
		n_records = 0;
	journal_log(LOG_INFO,
		    &(JournalFields){ .message_id = MESSAGE_TRACE_WRITTEN, .session = w->name, .path = path },
		    "session '%s': trace %s: %s", w->name, path, what);
	if (w->session) {
		free(w->session->last_trace);
		w->session->last_trace = strdup(path);
		state_session(w->session);
	}
	if (w->set->observer.completed)
		w->set->observer.completed(w->set->userdata, w->session, w->name, path, n_records);
}

static void on_trouble(void *userdata, const char *text)
{
	Writing *w = userdata;

	if (text)
		journal_log(LOG_ERR,
			    &(JournalFields){ .message_id = MESSAGE_OUTPUT_FAILED, .session = w->name },
			    "session '%s': %s", w->name, text);
	else
		journal_log(LOG_NOTICE,
			    &(JournalFields){ .message_id = MESSAGE_OUTPUT_RESUMED, .session = w->name },
			    "session '%s': writing goes on", w->name);
	/* what was given up is in no file, and the next daemon does not find it anywhere */
	if (w->session)
		state_session(w->session);
	if (w->session && w->set->observer.changed)
		w->set->observer.changed(w->set->userdata, w->session);
}

static void on_retired(void *userdata, Feed *f)
{
	Writing *w = userdata;

	for (Given **p = &w->given, *g; (g = *p); p = &g->next) {
		Owner *o = g->owner;

		if (o->feed != f)
			continue;
		*p = g->next;
		given_free(g, g->drop);
		return;
	}
}

static void on_stopped(void *userdata, const Failure *failure)
{
	Writing *w = userdata;
	Session *s = w->session;
	Writings *set = w->set;
	Waiter *waiters = w->waiters;

	if (failure)
		log_error("%s", failure->text);
	if (s) {
		ConsumerInfo info;

		consumer_info(w->consumer, &info);
		s->unwritten += info.unwritten - s->unwritten_before;
		s->unwritten_before = 0;
	}
	w->waiters = NULL;
	(void)writing_free(w, 0, !failure);
	if (s)
		session_writing_ended(s);
	for (Waiter *x = waiters, *next; x; x = next) {
		next = x->next;
		x->done(x->userdata, failure);
		free(x);
	}
	if (s && set->observer.changed)
		set->observer.changed(set->userdata, s);
}

/* ---- what the session tells ---- */

static bool removed_writes(const Writings *set, const char *output)
{
	for (const Writing *w = set->first; w; w = w->next)
		if (w->output && strcmp(w->output, output) == 0)
			return true;
	return false;
}

int writing_new(Writing **ret, Writings *set, Session *s, bool strict, Failure *f)
{
	const Ground *ground = s->ground;
	Writing *w = calloc(1, sizeof(*w));
	Failure trouble = FAILURE_NULL;
	int r;

	if (w)
		w->name = strdup(s->config->name);
	if (!w || !w->name) {
		free(w);
		return failure_set(f, FAILURE_NO_MEMORY, "out of memory");
	}
	w->set = set;
	w->session = s;
	w->next = set->first;
	set->first = w;
	r = consumer_new(&w->consumer,
			 &(ConsumerOptions){
				 .event = set->event,
				 .config = s->config,
				 .path = s->output,
				 .clock = board_clock(ground->board),
				 .clock_uuid = board_clock_uuid(ground->board),
				 .beacon = board_beacon(ground->board, s->slot),
				 .observer = { on_completed, on_trouble, on_retired, on_stopped },
				 .userdata = w,
			 },
			 f, &trouble);
	if (r == 0 && trouble.kind == FAILURE_BUSY && removed_writes(set, s->output))
		(void)failure_set(&trouble, FAILURE_BUSY,
				  "session '%s': a session that was removed is still writing what it recorded to %s; "
				  "try again in a moment",
				  s->config->name, s->output);
	if (r == 0 && trouble.kind != FAILURE_NONE) {
		if (strict)
			r = failure_set(f, trouble.kind, "%s", trouble.text);
		else
			log_error("%s; it is tried again", trouble.text);
	}
	if (r < 0) {
		w->session = NULL;
		(void)writing_free(w, NSEC_PER_SEC, false);
		return r;
	}
	*ret = w;
	return 0;
}

int writing_tell(Owner *o)
{
	TraceClass *v;
	size_t n = 0;

	/* ids are only ever added; when there are no more of them, any of them may have been */
	if (o->n_told == o->ids.n && o->ids.n <= ABI_ID_MAX)
		return 0;
	v = calloc(o->ids.n + 1, sizeof(*v));
	if (!v)
		return -ENOMEM;
	for (u32 id = 1; id < o->ids.n; id++) {
		const IdEntry *e = ids_entry(&o->ids, id);

		if (e)
			v[n++] = (TraceClass){ .id = id, .class = e->class->class };
	}
	feed_set_classes(o->feed, v, n);
	o->n_told = o->ids.n;
	return 0;
}

int writing_feed(Owner *o, u32 marks, const char *output)
{
	const struct record_clock clock = board_clock(o->ground->board);
	int r = feed_new(&o->feed, o->label, o->region.map, o->region.fd, &o->region.geometry, &clock, o->ground->cpus);

	if (r < 0)
		return r;
	/* every id keeps its meaning: it may be in a trace that is open still */
	owner_pin(o);
	if (marks == 0)
		state_marks_reserve(o);
	else if (!state_marks_claim(o, marks))
		r = -EBADMSG;
	else
		r = resume_feed(o->feed, output);
	feed_look_back(o->feed);
	return r;
}

int writing_add(Writing *w, Owner *o)
{
	Given *g = calloc(1, sizeof(*g));
	int r = g ? 0 : -ENOMEM;

	if (r == 0 && !o->feed)
		r = writing_feed(o, 0, NULL);
	if (r == 0)
		r = writing_tell(o);
	if (r == 0)
		r = consumer_add(w->consumer, o->feed);
	if (r < 0) {
		free(g);
		return r;
	}
	g->owner = owner_ref(o);
	o->given = true;
	g->next = w->given;
	w->given = g;
	return 0;
}

bool writing_retire(Writing *w, Owner *o, bool drop)
{
	for (Given *g = w->given; g; g = g->next) {
		if (g->owner != o)
			continue;
		g->drop |= drop;
		o->leaving = true;
		/* out of memory: the rings are only kept until the session stops */
		if (!g->retired)
			g->retired = consumer_retire(w->consumer, o->feed) == 0;
		return true;
	}
	return false;
}

int writing_configure(Writing *w, const SessionConfig *config, const char *path)
{
	return consumer_configure(w->consumer, config, path);
}

int writing_rotate(Writing *w, ConsumerRotated done, void *userdata)
{
	return consumer_rotate(w->consumer, done, userdata);
}

int writing_wait(Writing *w, WritingDone done, void *userdata)
{
	Waiter *x = calloc(1, sizeof(*x));

	if (!x)
		return -ENOMEM;
	*x = (Waiter){ w->waiters, done, userdata };
	w->waiters = x;
	return 0;
}

void writing_stop(Writing *w)
{
	if (!w->stopping)
		consumer_stop(w->consumer);
	w->stopping = true;
}

bool writing_stopping(const Writing *w)
{
	return w->stopping;
}

void writing_forget(Writing *w)
{
	w->output = strdup(w->session->output); /* only for words */
	w->session->writing = NULL;
	w->session = NULL;
	writing_stop(w);
}

void writing_info(const Writing *w, ConsumerInfo *ret)
{
	consumer_info(w->consumer, ret);
}

static void end_all(Writings *set, u64 timeout_ns, bool leave)
{
	u64 now = monotonic_ns(), until = now + timeout_ns;

	for (Writing *w = set->first; w; w = w->next) {
		if (leave)
			consumer_leave(w->consumer);
		writing_stop(w);
	}
	for (Writing *w; (w = set->first);) {
		if (!consumer_wait(w->consumer, until > now ? until - now : 0))
			(void)writing_free(w, 0, false);
		now = monotonic_ns();
	}
}

void writings_end(Writings *set, u64 timeout_ns)
{
	end_all(set, timeout_ns, false);
}

void writings_leave(Writings *set, u64 timeout_ns)
{
	end_all(set, timeout_ns, true);
}
