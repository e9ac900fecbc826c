/* SPDX-License-Identifier: MIT */
/* A consumer as the loop sees it: orders go in, events come out. */
#include "daemon/consumer-private.h"

#include <signal.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>

#include "systemd/journal.h"

static void event_free(Event *e)
{
	free(e->text);
	free(e);
}

void consumer_order_free(Order *o)
{
	(void)session_config_free(o->config);
	free(o->path);
	free(o);
}

void consumer_tell(Consumer *c, EventKind kind, char *text, u64 n_records, Feed *feed, void *token,
		   const Failure *failure)
{
	Event *e = calloc(1, sizeof(*e)), **at;
	u64 one = 1;

	/* Without memory for so little the daemon is about to be ended. What must not be lost is tried for ever. */
	while (!e && (kind == EVENT_STOPPED || kind == EVENT_ROTATED || kind == EVENT_RETIRED)) {
		(void)nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
		e = calloc(1, sizeof(*e));
	}
	if (!e) {
		free(text);
		return;
	}
	*e = (Event){ .kind = kind, .text = text, .n_records = n_records, .feed = feed, .token = token };
	if (failure)
		e->failure = *failure;
	(void)pthread_mutex_lock(&c->lock);
	for (at = &c->events; *at;)
		at = &(*at)->next;
	*at = e;
	(void)pthread_mutex_unlock(&c->lock);
	while (write(c->event_fd, &one, sizeof(one)) < 0 && errno == EINTR)
		;
}

/* ---- events ---- */

static void answer_rotated(Consumer *c, Token *token, const char *path, const Failure *failure)
{
	for (Token **p = &c->tokens, *t; (t = *p); p = &t->next) {
		if (t != token)
			continue;
		*p = t->next;
		t->done(t->userdata, path, path ? NULL : failure);
		free(t);
		return;
	}
}

/* Nothing will be heard of them. */
static void answer_all(Consumer *c)
{
	Failure f = FAILURE_NULL;

	(void)failure_set(&f, FAILURE_NOT_RUNNING, "the session was stopped before its trace was rotated");
	while (c->tokens)
		answer_rotated(c, c->tokens, NULL, &f);
}

static void consumer_learn(Consumer *c, Event *e)
{
	switch (e->kind) {
	case EVENT_COMPLETED:
		free(c->last_path);
		c->last_path = e->text ? strdup(e->text) : NULL;
		if (c->observer.completed && e->text)
			c->observer.completed(c->userdata, e->text, e->n_records);
		break;
	case EVENT_ROTATED:
		answer_rotated(c, e->token, e->text, &e->failure);
		break;
	case EVENT_TROUBLE:
		free(c->trouble);
		c->trouble = e->text ? strdup(e->text) : NULL;
		if (c->observer.trouble)
			c->observer.trouble(c->userdata, e->text);
		break;
	case EVENT_RETIRED:
		if (c->observer.retired)
			c->observer.retired(c->userdata, e->feed);
		break;
	case EVENT_STOPPED:
		c->stopped = true;
		if (c->observer.stopped)
			c->observer.stopped(c->userdata, e->failure.kind ? &e->failure : NULL);
		break;
	}
}

/* Whoever is told may free the consumer: then nothing of it is touched any more. */
static void consumer_dispatch(Consumer *c)
{
	bool freed = false, *outer = c->freed;

	c->freed = &freed;
	while (!freed) {
		Event *e;

		(void)pthread_mutex_lock(&c->lock);
		e = c->events;
		if (e)
			c->events = e->next;
		(void)pthread_mutex_unlock(&c->lock);
		if (!e)
			break;
		consumer_learn(c, e);
		event_free(e);
	}
	if (freed) {
		if (outer)
			*outer = true;
		return;
	}
	c->freed = outer;
}

static int consumer_on_event(sd_event_source *s, int fd, u32 revents, void *userdata)
{
	u64 n;

	(void)!read(fd, &n, sizeof(n));
	consumer_dispatch(userdata);
	return 0;
}

/* ---- birth and end ---- */

static int consumer_start(Consumer *c)
{
	sigset_t all, saved;
	int r;

	/* signals are the loop's; but a fault of its own is the thread's (sinks map files) */
	(void)sigfillset(&all);
	(void)sigdelset(&all, SIGBUS);
	(void)sigdelset(&all, SIGSEGV);
	(void)pthread_sigmask(SIG_SETMASK, &all, &saved);
	r = pthread_create(&c->thread, NULL, consumer_thread, c);
	(void)pthread_sigmask(SIG_SETMASK, &saved, NULL);
	c->has_thread = r == 0;
	return -r;
}

int consumer_new(Consumer **ret, const ConsumerOptions *o, Failure *f, Failure *ret_trouble)
{
	Consumer *c = calloc(1, sizeof(*c));
	pthread_condattr_t attributes;
	int r = -ENOMEM;

	if (!c)
		return failure_set(f, FAILURE_NO_MEMORY, "out of memory");
	c->observer = o->observer;
	c->userdata = o->userdata;
	c->beacon = o->beacon;
	(void)pthread_mutex_init(&c->lock, NULL);
	(void)pthread_condattr_init(&attributes);
	(void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	(void)pthread_cond_init(&c->wake, &attributes);
	(void)pthread_condattr_destroy(&attributes);
	c->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (c->event_fd < 0) {
		r = -errno;
		goto fail;
	}
	c->config = session_config_copy(o->config);
	if (!c->config)
		goto fail;
	r = output_new(&c->output, o->path, c->config, &o->clock, o->clock_uuid, consumer_on_closed, c);
	if (r == 0)
		r = sd_event_add_io(o->event, &c->source, c->event_fd, EPOLLIN, consumer_on_event, c);
	if (r < 0)
		goto fail;
	if (ret_trouble) {
		*ret_trouble = FAILURE_NULL;
		r = output_open(c->output);
		if (r == -EWOULDBLOCK)
			(void)failure_set(ret_trouble, FAILURE_BUSY,
					  "session '%s': another session writes to %s, or finishes a trace there; "
					  "give one of them another output, or try again when that is done",
					  c->config->name, o->path);
		else if (r < 0)
			(void)failure_set(ret_trouble, FAILURE_IO, "session '%s': cannot write to %s: %s",
					  c->config->name, o->path, strerror(-r));
	}
	r = consumer_start(c);
	if (r < 0)
		goto fail;
	*ret = c;
	return 0;
fail:
	(void)consumer_free(c, 0);
	return failure_set(f, r == -ENOMEM || r == -EAGAIN ? FAILURE_NO_MEMORY : FAILURE_IO,
			   "session '%s': its thread cannot be had: %s", o->config->name, strerror(-r));
}

static void consumer_order(Consumer *c, Order *o)
{
	Order **at;

	(void)pthread_mutex_lock(&c->lock);
	for (at = &c->orders; *at;)
		at = &(*at)->next;
	*at = o;
	(void)pthread_cond_signal(&c->wake);
	(void)pthread_mutex_unlock(&c->lock);
	beacon_call(&c->beacon);
}

/* False: the thread does not end in time. */
static bool consumer_join(Consumer *c, u64 timeout_ns)
{
	struct timespec until;
	u64 by;

	if (!c->has_thread)
		return true;
	(void)clock_gettime(CLOCK_MONOTONIC, &until);
	by = (u64)until.tv_sec * NSEC_PER_SEC + (u64)until.tv_nsec + timeout_ns;
	until = (struct timespec){ (time_t)(by / NSEC_PER_SEC), (long)(by % NSEC_PER_SEC) };
	/* one that has said its last word ends at once */
	if (c->stopped)
		(void)pthread_join(c->thread, NULL);
	else if (pthread_clockjoin_np(c->thread, NULL, CLOCK_MONOTONIC, &until) != 0)
		return false;
	c->has_thread = false;
	return true;
}

bool consumer_wait(Consumer *c, u64 timeout_ns)
{
	if (!consumer_join(c, timeout_ns))
		return false;
	consumer_dispatch(c);
	return true;
}

Consumer *consumer_free(Consumer *c, u64 timeout_ns)
{
	if (!c)
		return NULL;
	c->observer = (ConsumerObserver){ 0 };
	if (c->has_thread) {
		if (!c->stopping)
			consumer_stop(c);
		if (!consumer_join(c, timeout_ns)) {
			/* A disk that hangs hangs this thread, which nothing can end. It is told to give up when it
			 * comes back, and left alone: the process is about to end. */
			(void)pthread_mutex_lock(&c->lock);
			c->quit = true;
			(void)pthread_mutex_unlock(&c->lock);
			c->source = sd_event_source_disable_unref(c->source);
			answer_all(c);
			if (c->freed)
				*c->freed = true;
			return c;
		}
		consumer_dispatch(c); /* rotations that wait for an answer */
	}
	answer_all(c);
	c->source = sd_event_source_disable_unref(c->source);
	(void)output_free(c->output);
	for (Event *e = c->events, *next; e; e = next) {
		next = e->next;
		event_free(e);
	}
	for (Order *o = c->orders, *next; o; o = next) {
		next = o->next;
		consumer_order_free(o);
	}
	c->event_fd = close_fd(c->event_fd);
	(void)pthread_cond_destroy(&c->wake);
	(void)pthread_mutex_destroy(&c->lock);
	(void)session_config_free(c->config);
	free(c->last_path);
	free(c->trouble);
	if (c->freed)
		*c->freed = true;
	free(c);
	return NULL;
}

/* ---- orders ---- */

static Order *order_new(OrderKind kind)
{
	Order *o = calloc(1, sizeof(*o));

	if (o)
		o->kind = kind;
	return o;
}

int consumer_add(Consumer *c, Feed *f)
{
	Order *o = order_new(ORDER_ADD);

	if (!o)
		return -ENOMEM;
	o->feed = f;
	consumer_order(c, o);
	return 0;
}

int consumer_retire(Consumer *c, Feed *f)
{
	Order *o = order_new(ORDER_RETIRE);

	if (!o)
		return -ENOMEM;
	o->feed = f;
	consumer_order(c, o);
	return 0;
}

int consumer_configure(Consumer *c, const SessionConfig *config, const char *path)
{
	Order *o = order_new(ORDER_CONFIGURE);

	if (!o)
		return -ENOMEM;
	o->config = session_config_copy(config);
	o->path = strdup(path);
	if (!o->config || !o->path) {
		consumer_order_free(o);
		return -ENOMEM;
	}
	consumer_order(c, o);
	return 0;
}

int consumer_rotate(Consumer *c, ConsumerRotated done, void *userdata)
{
	Order *o = order_new(ORDER_ROTATE);
	Token *t = calloc(1, sizeof(*t));

	if (!o || !t) {
		free(o);
		free(t);
		return -ENOMEM;
	}
	*t = (Token){ c->tokens, done, userdata };
	c->tokens = t;
	o->token = t;
	consumer_order(c, o);
	return 0;
}

void consumer_leave(Consumer *c)
{
	(void)pthread_mutex_lock(&c->lock);
	c->leaves = true;
	(void)pthread_mutex_unlock(&c->lock);
}

void consumer_stop(Consumer *c)
{
	c->stopping = true;
	(void)pthread_mutex_lock(&c->lock);
	c->ordered_stop = true;
	(void)pthread_cond_signal(&c->wake);
	(void)pthread_mutex_unlock(&c->lock);
	beacon_call(&c->beacon);
}

void consumer_observe(Consumer *c, const ConsumerObserver *observer, void *userdata)
{
	c->observer = *observer;
	c->userdata = userdata;
}

void consumer_info(Consumer *c, ConsumerInfo *ret)
{
	*ret = (ConsumerInfo){ .trouble = c->trouble ? c->trouble : "",
			       .last_path = c->last_path ? c->last_path : "",
			       .stopping = c->stopping };
	(void)pthread_mutex_lock(&c->lock);
	ret->unwritten = c->unwritten;
	(void)snprintf(ret->strategy, sizeof(ret->strategy), "%s", c->strategy ? c->strategy : "");
	(void)pthread_mutex_unlock(&c->lock);
}
