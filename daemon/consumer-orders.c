/* SPDX-License-Identifier: MIT */
/* What the loop has told a consumer to do, and how chunks end: on its thread. */
#include "daemon/consumer-private.h"

void consumer_rotated(Consumer *c, void *token, const char *path, int error)
{
	Failure f = FAILURE_NULL;

	if (!token)
		return;
	if (path) {
		consumer_tell(c, EVENT_ROTATED, strdup(path), 0, NULL, token, NULL);
		return;
	}
	(void)trouble_failure(&f, c->config->name, output_path(c->output), error);
	consumer_tell(c, EVENT_ROTATED, NULL, 0, NULL, token, &f);
}

void consumer_give_up(Consumer *c)
{
	u64 lost = 0;

	output_abandon(c->output, c->feeds, &lost);
	c->ending = false;
	if (lost) {
		(void)pthread_mutex_lock(&c->lock);
		c->unwritten += lost;
		(void)pthread_mutex_unlock(&c->lock);
	}
}

int consumer_next_chunk(Consumer *c, void *token)
{
	int r = output_rotate(c->output, c->feeds, token);

	c->ending = trouble_is(r);
	return r;
}

int consumer_end_chunk(Consumer *c, void *token)
{
	int r = 0;

	if (!c->ending) {
		r = consumer_pass(c, true);
		if (r < 0)
			return r;
	}
	return consumer_next_chunk(c, token);
}

static int configure(Consumer *c, Order *o)
{
	SessionConfig *before = c->config;
	bool moves = strcmp(output_path(c->output), o->path) != 0;
	bool same = !moves && before->io == o->config->io && before->policy == o->config->policy;
	int r = 0;

	if (!same)
		r = consumer_end_chunk(c, NULL);
	/* What is wrong there may be why it is to be otherwise: it must not keep us from it. What is in the rings goes where it can. */
	if (trouble_is(r) && !c->ending)
		r = consumer_next_chunk(c, NULL);
	if (trouble_is(r) && (moves || !trouble_is_short(r))) {
		consumer_give_up(c);
		r = 0;
	}
	if (r < 0 && r != -ENODATA)
		return r;
	r = output_configure(c->output, o->path, o->config);
	if (r < 0)
		return r;
	c->config = steal_ptr(o->config);
	(void)session_config_free(before);
	c->flush_at = 0;
	return 0;
}

static bool is_of_feed(const Order *o)
{
	return o->kind == ORDER_ADD || o->kind == ORDER_RETIRE;
}

static void obey_of_feed(Consumer *c, Order *o)
{
	Feed **at;

	if (o->kind == ORDER_RETIRE) {
		o->feed->retiring = true;
		o->feed->n_lingers = 0;
		c->flush_at = 0;
		return;
	}
	for (at = &c->feeds; *at;)
		at = &(*at)->next;
	o->feed->next = NULL;
	o->feed->retiring = false;
	*at = o->feed;
}

/* Those overtake what waits for the disk: a program that has just come needs its rings emptied now, and one that is gone gives its
 * memory back. Among themselves they keep their order. */
static void obey_of_feeds(Consumer *c)
{
	Order *taken = NULL, **end = &taken;

	(void)pthread_mutex_lock(&c->lock);
	for (Order **p = &c->orders, *o; (o = *p);) {
		if (!is_of_feed(o)) {
			p = &o->next;
			continue;
		}
		*p = o->next;
		o->next = NULL;
		*end = o;
		end = &o->next;
	}
	(void)pthread_mutex_unlock(&c->lock);
	for (Order *o = taken, *next; o; o = next) {
		next = o->next;
		obey_of_feed(c, o);
		consumer_order_free(o);
	}
}

/* 0: done with; 1: later; -errno */
static int obey(Consumer *c, Order *o)
{
	int r;

	if (o->kind == ORDER_CONFIGURE) {
		r = configure(c, o);
	} else {
		r = consumer_end_chunk(c, o->token);
		if (r == -ENODATA) {
			consumer_rotated(c, o->token, NULL, r);
			r = 0;
		}
	}
	return r == -EBUSY ? 1 : r;
}

int consumer_obey(Consumer *c)
{
	c->later = false;
	for (;;) {
		Order *o;
		int r;

		obey_of_feeds(c);
		(void)pthread_mutex_lock(&c->lock);
		o = c->orders;
		(void)pthread_mutex_unlock(&c->lock);
		if (!o)
			return 0;
		if (is_of_feed(o))
			continue; /* it has come meanwhile */
		r = obey(c, o);
		if (r == 1) {
			c->later = true;
			return 0;
		}
		if (r < 0 && o->kind != ORDER_ROTATE)
			return r;
		if (r < 0)
			consumer_rotated(c, o->token, NULL, r);
		/* only this thread takes any, and the loop adds behind it */
		(void)pthread_mutex_lock(&c->lock);
		c->orders = o->next;
		(void)pthread_mutex_unlock(&c->lock);
		consumer_order_free(o);
		if (r < 0)
			return r;
	}
}
