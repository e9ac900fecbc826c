/* SPDX-License-Identifier: MIT */
/* A consumer's thread. It takes whole sub-buffers as they are filled, the rest every flush_interval, and sleeps when there is
 * nothing: then, and only then, programs call it (beacon.h).
 *
 * Trouble (a full disk, a directory that is gone, a disk that fails) is a state, entered and left once each. Meanwhile nothing is
 * taken: rings fill, and their policy says what becomes of new records, which is counted where it always is. */
#include "daemon/consumer-private.h"

#include <stdio.h>
#include <sys/resource.h>
#include <time.h>

/* After a pass that found something programs need not call: as long as half of the smallest ring takes to fill at a quarter of a gigabyte
 * a second, in these bounds. What gathers meanwhile goes to the disk in one. */
#define NAP_RATE	(256ull << 20)
#define NAP_MIN_NS	NSEC_PER_MSEC
#define NAP_MAX_NS	(10 * NSEC_PER_MSEC)
#define RETRY_NS	(NSEC_PER_SEC / 5)
#define STOP_TRIES_NS	(3 * NSEC_PER_SEC)    /* how long a stop tries to write what cannot be written */
#define POLL_NS		(5 * NSEC_PER_MSEC)   /* where nobody can be relied on to call */
#define DEAF_TURNS	2000
#define PASS_ROUNDS	64		      /* then orders and the clock are looked at again */
#define LINGERS		64		      /* flushes that a ring without programs may take to be empty */

static u64 now_monotonic(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return (u64)ts.tv_sec * NSEC_PER_SEC + (u64)ts.tv_nsec;
}

/* ---- trouble ---- */

static bool is_space(int error)
{
	return error == -ENOSPC || error == -EDQUOT;
}

/* The same would do when there is more of it. */
static bool is_short(int error)
{
	return is_space(error) || error == -EDOM || error == -ENOMEM;
}

/* Of a rotation. */
static bool is_trouble(int r)
{
	return r < 0 && r != -EBUSY && r != -ENODATA;
}

static char *trouble_text(const Consumer *c, int error)
{
	const char *path = output_path(c->output), *what = strerror(-error);
	char *text;
	int r;

	switch (error) {
	case -ENOSPC:
	case -EDQUOT:
		r = asprintf(&text, "%s: %s; events stay in memory as far as they fit, and writing goes on by "
			     "itself when there is space",
			     path, what);
		break;
	case -EDOM:
		r = asprintf(&text, "%s: no more is written, so that output_keep_free stays free; events stay in "
			     "memory as far as they fit, and writing goes on by itself when there is space",
			     path);
		break;
	case -ESTALE:
		r = asprintf(&text, "%s: what was being written there was removed, or another file system took its "
			     "place",
			     path);
		break;
	case -EWOULDBLOCK:
		r = asprintf(&text, "%s: another session writes there; give one of them another output", path);
		break;
	default:
		r = asprintf(&text, "%s: cannot write: %s; events stay in memory as far as they fit, and it is "
			     "tried again",
			     path, what);
		break;
	}
	return r < 0 ? NULL : text;
}

static void trouble_begin(Consumer *c, int error)
{
	c->bad.retry_at = now_monotonic() + RETRY_NS;
	if (c->bad.on && c->bad.error == error)
		return;
	c->bad.on = true;
	c->bad.error = error;
	/* more memory will do, too: nothing is wrong with the file */
	c->bad.space = is_short(error);
	consumer_tell(c, EVENT_TROUBLE, trouble_text(c, error), 0, NULL, NULL, NULL);
}

static void trouble_end(Consumer *c)
{
	if (!c->bad.on)
		return;
	c->bad.on = false;
	c->bad.error = 0;
	consumer_tell(c, EVENT_TROUBLE, NULL, 0, NULL, NULL, NULL);
}

static void give_up_chunk(Consumer *c)
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

static void rotated(Consumer *c, void *token, const char *path, int error)
{
	Failure f = FAILURE_NULL;

	if (!token)
		return;
	if (path) {
		consumer_tell(c, EVENT_ROTATED, strdup(path), 0, NULL, token, NULL);
		return;
	}
	if (error == -ENODATA)
		(void)failure_set(&f, FAILURE_NOTHING,
				  "session '%s' has written nothing since its last trace was finished, so there "
				  "is nothing to rotate",
				  c->config->name);
	else if (is_space(error) || error == -EDOM)
		(void)failure_set(&f, FAILURE_NO_SPACE, "session '%s': %s: %s", c->config->name,
				  output_path(c->output),
				  error == -EDOM ? "no more is written, so that output_keep_free stays free" :
						   strerror(-error));
	else
		(void)failure_set(&f, FAILURE_IO, "session '%s': %s: %s", c->config->name,
				  output_path(c->output), strerror(-error));
	consumer_tell(c, EVENT_ROTATED, NULL, 0, NULL, token, &f);
}

void consumer_on_closed(void *userdata, const char *path, u64 n_records, int error, void *token)
{
	Consumer *c = userdata;

	if (error == 0) {
		consumer_tell(c, EVENT_COMPLETED, strdup(path), n_records, NULL, NULL, NULL);
		rotated(c, token, path, 0);
		return;
	}
	rotated(c, token, NULL, error);
	if (error == -ENODATA)
		return;
	c->close_error = error;
	/* written, but not known to be on the disk or under its name: said, and gone on with */
	trouble_begin(c, error);
}

/* ---- taking ---- */

/* Writers may have the memory whose records are in files. */
static void give(Consumer *c)
{
	bool more = false;

	for (Feed *f = c->feeds; f; f = f->next)
		more |= feed_give(f);
	if (more && c->config->policy == POLICY_BLOCK)
		beacon_progress(&c->beacon);
}

/* One packet of one stream: 1, 0, or -errno of the output. */
static int take(Consumer *c, Feed *f, u32 i, bool partial)
{
	StreamPacket p;
	int r;

	if (!stream_ready(&f->streams[i].stream, partial))
		return 0;
	r = feed_take(f, i, partial, &p);
	if (r == 1)
		r = output_append(c->output, f, i, &p);
	else
		return r;
	if (r < 0)
		return r;
	stream_release(&f->streams[i].stream);
	return 1;
}

/* Every stream in turn, a packet at a time, so that none waits for all of another. How many; or -errno. */
static int pass(Consumer *c, bool partial)
{
	int n = 0;

	for (u32 round = 0; round < PASS_ROUNDS; round++) {
		int before = n;

		if (!output_has_room(c->output))
			return -EDOM;
		for (Feed *f = c->feeds; f; f = f->next) {
			for (u32 i = 0; i < f->n_streams; i++) {
				int r = take(c, f, i, partial);

				if (r < 0)
					return r;
				n += r;
			}
		}
		if (n == before)
			break;
		give(c);
	}
	return n;
}

/* Who rests or naps must not keep memory that is on its way: waits for the disk, as it would to write more. */
static void settle(Consumer *c)
{
	output_settle(c->output);
	give(c);
}

static void publish(Consumer *c)
{
	for (Feed *f = c->feeds; f; f = f->next)
		feed_publish(f);
	(void)pthread_mutex_lock(&c->lock);
	c->strategy = output_strategy(c->output);
	(void)pthread_mutex_unlock(&c->lock);
}

/* A program that has the memory can write there for ever; it must not keep its rings, beside the new ones, for as long. */
static bool lingers(Feed *f)
{
	return feed_ready(f, true) && ++f->n_lingers < LINGERS;
}

/* Feeds that nobody writes to any more and that are empty. */
static int let_go(Consumer *c)
{
	for (Feed **p = &c->feeds, *f; (f = *p);) {
		int r;

		if (!f->retiring || lingers(f)) {
			p = &f->next;
			continue;
		}
		r = output_leave(c->output, f);
		if (r < 0)
			return r;
		*p = f->next;
		f->next = NULL;
		feed_publish(f);
		consumer_tell(c, EVENT_RETIRED, NULL, 0, f, NULL, NULL);
	}
	return 0;
}

/* With what was taken up to now. */
static int rotate_taken(Consumer *c, void *token)
{
	int r = output_rotate(c->output, c->feeds, token);

	c->ending = is_trouble(r);
	return r;
}

/* Everything up to now goes into this chunk. 0, -EBUSY: later; -errno. */
static int rotate(Consumer *c, void *token)
{
	int r = 0;

	if (!c->ending) {
		r = pass(c, true);
		if (r < 0)
			return r;
	}
	return rotate_taken(c, token);
}

/* ---- orders ---- */

static int configure(Consumer *c, Order *o)
{
	SessionConfig *before = c->config;
	bool moves = strcmp(output_path(c->output), o->path) != 0;
	bool same = !moves && before->io == o->config->io && before->policy == o->config->policy;
	int r = 0;

	if (!same)
		r = rotate(c, NULL);
	/* What is wrong there may be why it is to be otherwise: it must not keep us from it. What is in the rings goes where it can. */
	if (is_trouble(r) && !c->ending)
		r = rotate_taken(c, NULL);
	if (is_trouble(r) && (moves || !is_short(r))) {
		give_up_chunk(c);
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

/* 0: done with; 1: later; -errno */
static int obey(Consumer *c, Order *o)
{
	Feed **at;
	int r = 0;

	switch (o->kind) {
	case ORDER_ADD:
		for (at = &c->feeds; *at;)
			at = &(*at)->next;
		o->feed->next = NULL;
		o->feed->retiring = false;
		*at = o->feed;
		break;
	case ORDER_RETIRE:
		o->feed->retiring = true;
		o->feed->n_lingers = 0;
		c->flush_at = 0;
		break;
	case ORDER_CONFIGURE:
		r = configure(c, o);
		break;
	case ORDER_ROTATE:
		r = rotate(c, o->token);
		if (r == -ENODATA) {
			rotated(c, o->token, NULL, r);
			r = 0;
		}
		break;
	}
	return r == -EBUSY ? 1 : r;
}

/* In their order. One that cannot be obeyed now is the first again next time, except that who rotates hears of trouble. */
static int obey_all(Consumer *c)
{
	c->later = false;
	for (;;) {
		Order *o;
		int r;

		(void)pthread_mutex_lock(&c->lock);
		o = c->orders;
		(void)pthread_mutex_unlock(&c->lock);
		if (!o)
			return 0;
		r = obey(c, o);
		if (r == 1) {
			c->later = true;
			return 0;
		}
		if (r < 0 && o->kind != ORDER_ROTATE)
			return r;
		if (r < 0)
			rotated(c, o->token, NULL, r);
		/* only this thread takes from the front, and the loop adds behind it */
		(void)pthread_mutex_lock(&c->lock);
		c->orders = o->next;
		(void)pthread_mutex_unlock(&c->lock);
		(void)session_config_free(o->config);
		free(o->path);
		free(o);
		if (r < 0)
			return r;
	}
}

/* ---- turns ---- */

/* All that is due. What was taken, or -errno. */
static int work(Consumer *c)
{
	u64 now = now_monotonic();
	int n, r;

	output_reap(c->output, false);
	/* first: an order may be the way out of what follows */
	r = obey_all(c);
	if (r == 0 && c->ending)
		r = rotate(c, NULL);
	if (is_trouble(r))
		return r;
	n = pass(c, now >= c->flush_at);
	if (n < 0)
		return n;
	output_push(c->output);
	if (now >= c->flush_at) {
		c->flush_at = now + c->config->flush_interval_ns;
		if (output_lost(c->output))
			return -ESTALE;
		r = output_flush(c->output);
		if (r == 0)
			r = let_go(c);
		if (r < 0)
			return r;
	}
	if (output_due(c->output, now)) {
		r = rotate(c, NULL);
		if (r < 0 && r != -EBUSY && r != -ENODATA)
			return r;
	}
	return n;
}

static bool ordered(Consumer *c)
{
	bool any;

	(void)pthread_mutex_lock(&c->lock);
	any = (c->orders && !c->later) || c->quit || (c->ordered_stop && !c->stop_by);
	(void)pthread_mutex_unlock(&c->lock);
	return any;
}

/* Until an order comes, where those can be obeyed, or the end. */
static void nap(Consumer *c, u64 ns, bool orders)
{
	struct timespec until;
	u64 by = now_monotonic() + ns;

	until = (struct timespec){ (time_t)(by / NSEC_PER_SEC), (long)(by % NSEC_PER_SEC) };
	(void)pthread_mutex_lock(&c->lock);
	if (!(orders && c->orders && !c->later) && !c->quit && !(c->ordered_stop && !c->stop_by))
		(void)pthread_cond_timedwait(&c->wake, &c->lock, &until);
	(void)pthread_mutex_unlock(&c->lock);
}

static u64 nap_time(const Consumer *c)
{
	u64 least = UINT64_MAX;

	for (const Feed *f = c->feeds; f; f = f->next)
		least = MIN(least, 1ull << f->geometry.ring_shift);
	return MAX(NAP_MIN_NS, MIN(NAP_MAX_NS, MIN(least, 1ull << 32) / 2 * NSEC_PER_SEC / NAP_RATE));
}

static bool any_ready(const Consumer *c)
{
	for (const Feed *f = c->feeds; f; f = f->next)
		if (feed_ready(f, false))
			return true;
	return false;
}

/* Until a program calls, an order comes, or something is due. */
static void rest(Consumer *c)
{
	u64 now = now_monotonic(), until = MIN(c->flush_at, output_due_at(c->output));
	bool armed, ready;

	if (c->later)
		until = MIN(until, now + NAP_MAX_NS);
	if (until <= now)
		return;
	armed = beacon_arm(&c->beacon) == 0;
	ready = any_ready(c);
	if (!ready && !ordered(c)) {
		bool trusted = armed && c->deaf == 0;
		bool called = beacon_wait(&c->beacon, trusted ? until - now : MIN(until - now, POLL_NS));

		if (c->deaf)
			c->deaf--;
		/* Time is over and a sub-buffer is full: whoever filled it should have called. Perhaps somebody moved us to
		 * where calls are not heard. */
		else if (!called && any_ready(c))
			c->deaf = DEAF_TURNS;
	}
	beacon_disarm(&c->beacon);
	/* A pass has just found nothing: what is there now can wait for so long, and a ring that lies about it for ever must not keep
	 * us awake. */
	if (ready)
		nap(c, NAP_MIN_NS, true);
}

/* A way out of trouble. */
static void trouble_turn(Consumer *c)
{
	bool space = c->bad.space;
	int r;

	/* What is wrong with more than space is left behind, with the file or the directory that it happened to. */
	if (!space)
		give_up_chunk(c);
	/* who waits for a rotation hears of it, and another output may be the way out */
	r = obey_all(c);
	if (r == 0)
		r = output_open(c->output);
	if (r == 0)
		r = output_flush(c->output);
	if (r == 0)
		r = work(c);
	if (r < 0)
		trouble_begin(c, r);
	else
		trouble_end(c);
}

static bool over(Consumer *c)
{
	bool quit;

	(void)pthread_mutex_lock(&c->lock);
	quit = c->quit;
	if (c->ordered_stop && !c->stop_by)
		c->stop_by = now_monotonic() + STOP_TRIES_NS;
	(void)pthread_mutex_unlock(&c->lock);
	return quit;
}

/* The end: all that is there, the chunk, the disk. True when that is done, or will not be. */
static bool finish(Consumer *c, Failure *f)
{
	int r = obey_all(c), n;

	if (r == 0 && c->later) {
		output_reap(c->output, true);
		r = obey_all(c);
	}
	/* writers have been told to stay away; one that does not is not waited for */
	do {
		n = r == 0 && !c->ending ? pass(c, true) : 0;
	} while (n > 0 && now_monotonic() < c->stop_by);
	if (r == 0)
		r = n < 0 ? n : rotate(c, NULL);
	if (r == -EBUSY) {
		output_reap(c->output, true);
		r = rotate(c, NULL);
	}
	if (r == 0 || r == -ENODATA)
		return true;
	trouble_begin(c, r);
	if (now_monotonic() < c->stop_by) {
		nap(c, RETRY_NS, false);
		if (!c->bad.space)
			give_up_chunk(c);
		return false;
	}
	give_up_chunk(c);
	(void)failure_set(f, is_space(r) || r == -EDOM ? FAILURE_NO_SPACE : FAILURE_IO,
			  "session '%s' is stopped, but not all of its events could be written to %s: %s; those "
			  "stay in memory, and are written when it is started again",
			  c->config->name, output_path(c->output), strerror(r == -EDOM ? ENOSPC : -r));
	return true;
}

void *consumer_thread(void *userdata)
{
	Failure failure = FAILURE_NULL;
	Consumer *c = userdata;

	/* Linux: of this thread. One that waits for its turn behind the programs it records loses their events. */
	(void)setpriority(PRIO_PROCESS, 0, -10);
	while (!over(c)) {
		int n;

		if (c->stop_by) {
			if (finish(c, &failure))
				break;
			continue;
		}
		if (c->bad.on) {
			u64 now = now_monotonic();

			output_reap(c->output, false);
			if (now < c->bad.retry_at)
				nap(c, c->bad.retry_at - now, false);
			else
				trouble_turn(c);
			settle(c);
			publish(c);
			continue;
		}
		n = work(c);
		settle(c);
		publish(c);
		if (n < 0)
			trouble_begin(c, n);
		else if (n > 0)
			nap(c, nap_time(c), true);
		else
			rest(c);
	}
	c->close_error = 0;
	output_reap(c->output, true);
	if (c->close_error && failure.kind == FAILURE_NONE)
		(void)failure_set(&failure, is_space(c->close_error) ? FAILURE_NO_SPACE : FAILURE_IO,
				  "session '%s' is stopped, but its last trace in %s could not be finished: %s",
				  c->config->name, output_path(c->output), strerror(-c->close_error));
	publish(c);
	c->feeds = NULL;
	consumer_tell(c, EVENT_STOPPED, NULL, 0, NULL, NULL, &failure);
	return NULL;
}
