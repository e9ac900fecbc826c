/* SPDX-License-Identifier: MIT */
/* A consumer's thread. It takes whole sub-buffers as they are filled, the rest every flush_interval, and sleeps when there is
 * nothing: then, and only then, programs call it (beacon.h).
 *
 * Trouble (a full disk, a directory that is gone, a disk that fails) is a state, entered and left once each. Meanwhile nothing is
 * taken: rings fill, and their policy says what becomes of new records, which is counted where it always is. */
#include "daemon/consumer-private.h"
#include "daemon/priority.h"

#include <stdio.h>
#include <time.h>

/* After a pass that found something programs need not call: as long as half of the smallest ring takes to fill at a quarter of a gigabyte
 * a second, in these bounds. What gathers meanwhile goes to the disk in one. */
#define NAP_RATE	(256ull << 20)
#define NAP_MIN_NS	NSEC_PER_MSEC
#define NAP_MAX_NS	(10 * NSEC_PER_MSEC)
#define STOP_TRIES_NS	(3 * NSEC_PER_SEC)    /* how long a stop tries to write what cannot be written */
#define POLL_NS		(5 * NSEC_PER_MSEC)   /* where nobody can be relied on to call */
#define DEAF_TURNS	2000
#define PASS_ROUNDS	64		      /* then orders and the clock are looked at again */
#define LINGERS		64		      /* flushes that a ring without programs may take to be empty */

static void trouble(Consumer *c, int error)
{
	if (trouble_begin(&c->bad, error))
		consumer_tell(c, EVENT_TROUBLE, trouble_text(output_path(c->output), error), 0, NULL, NULL, NULL);
}

static void no_trouble(Consumer *c)
{
	if (trouble_end(&c->bad))
		consumer_tell(c, EVENT_TROUBLE, NULL, 0, NULL, NULL, NULL);
}

static bool is_below(const char *path, const char *directory)
{
	size_t n = strlen(directory);

	return strncmp(path, directory, n) == 0 && path[n] == '/' && !strchr(path + n + 1, '/');
}

void consumer_on_closed(void *userdata, const char *path, u64 n_records, int error, void *token)
{
	Consumer *c = userdata;

	if (error == 0) {
		consumer_tell(c, EVENT_COMPLETED, strdup(path), n_records, NULL, NULL, NULL);
		consumer_rotated(c, token, path, 0);
		return;
	}
	consumer_rotated(c, token, NULL, error);
	if (error == -ENODATA)
		return;
	/* written, but not known to be on the disk or under its name: said, and gone on with */
	if (is_below(path, output_path(c->output))) {
		c->close_error = error;
		trouble(c, error);
		return;
	}
	/* where nothing is written any more: that is not what keeps us from writing now */
	consumer_tell(c, EVENT_TROUBLE, trouble_text_unfinished(path, error), 0, NULL, NULL, NULL);
	if (!c->bad.on)
		consumer_tell(c, EVENT_TROUBLE, NULL, 0, NULL, NULL, NULL);
}

/* ---- taking ---- */

/* By their rings, which may be ahead of our configuration: that one may wait for the disk. */
static bool anybody_blocks(const Consumer *c)
{
	for (const Feed *f = c->feeds; f; f = f->next)
		if (f->geometry.policy == ABI_POLICY_BLOCK)
			return true;
	return false;
}

/* Writers may have the memory whose records are in files. */
static void give(Consumer *c)
{
	bool more = false;

	for (Feed *f = c->feeds; f; f = f->next)
		more |= feed_give(f);
	if (more && anybody_blocks(c))
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
	if (r == CHUNK_FULL) {
		r = consumer_next_chunk(c, NULL);
		c->crowded |= r == -EBUSY;
		if (r < 0)
			return r == -EBUSY ? 0 : r;
		/* not twice: what does not fit into an empty file is an error */
		return take(c, f, i, partial);
	}
	if (r < 0)
		return r;
	stream_release(&f->streams[i].stream);
	return 1;
}

int consumer_pass(Consumer *c, bool partial)
{
	int n = 0;

	c->crowded = false;
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

/* ---- turns ---- */

/* All that is due. What was taken, or -errno. */
static int work(Consumer *c)
{
	u64 now = monotonic_ns();
	int n, r;

	output_reap(c->output, false);
	/* first: an order may be the way out of what follows */
	r = consumer_obey(c);
	if (r == 0 && c->ending)
		r = consumer_end_chunk(c, NULL);
	if (trouble_is(r))
		return r;
	n = consumer_pass(c, now >= c->flush_at);
	if (n < 0)
		return n;
	output_push(c->output);
	if (now >= c->flush_at) {
		c->flush_at = now + c->config->flush_interval_ns;
		output_limit_age(c->output, now);
		if (output_lost(c->output))
			return -ESTALE;
		r = output_flush(c->output);
		if (r == 0)
			r = let_go(c);
		if (r < 0)
			return r;
	}
	if (output_due(c->output, now)) {
		r = consumer_end_chunk(c, NULL);
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
	u64 by = monotonic_ns() + ns;

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
	u64 now = monotonic_ns(), until = MIN(c->flush_at, output_due_at(c->output));
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
	bool space = c->bad.space, dead = c->bad.error == -EIO || c->bad.error == -EROFS;
	int r;

	/* What is wrong with more than space is left behind, with the file or the directory that it happened to. */
	if (!space)
		consumer_give_up(c);
	/* who waits for a rotation hears of it, and another output may be the way out */
	r = consumer_obey(c);
	/* What a page cache takes may never get to a disk that fails, and with nothing to write all goes well on one that may not
	 * be written to: it is found out with nothing of anybody's. */
	if (r == 0)
		r = dead ? output_probe(c->output) : output_open(c->output);
	if (r == 0)
		r = output_flush(c->output);
	if (r == 0)
		r = work(c);
	if (r < 0)
		trouble(c, r);
	else
		no_trouble(c);
	/* until the next try nothing of it is open: it may have to be unmounted to be put right */
	if (c->bad.on && !c->bad.space)
		consumer_give_up(c);
}

static bool over(Consumer *c)
{
	bool quit;

	(void)pthread_mutex_lock(&c->lock);
	quit = c->quit;
	c->leaving = c->leaves;
	if (c->ordered_stop && !c->stop_by)
		c->stop_by = monotonic_ns() + STOP_TRIES_NS;
	(void)pthread_mutex_unlock(&c->lock);
	return quit;
}

/* With all that is there; or, where the next daemon goes on with that, what was taken of it. */
static int end_chunk(Consumer *c)
{
	return c->leaving ? consumer_next_chunk(c, NULL) : consumer_end_chunk(c, NULL);
}

/* The end: all that is there, the chunk, the disk. True when that is done, or will not be. */
static bool finish(Consumer *c, Failure *f)
{
	int r = consumer_obey(c), n;

	if (r == 0 && c->later) {
		output_reap(c->output, true);
		r = consumer_obey(c);
	}
	/* writers have been told to stay away; one that does not is not waited for */
	do {
		n = r == 0 && !c->ending && !c->leaving ? consumer_pass(c, true) : 0;
	} while (n > 0 && monotonic_ns() < c->stop_by);
	if (r == 0)
		r = n < 0 ? n : end_chunk(c);
	/* more than once where files are full before all is taken */
	while (r == -EBUSY && monotonic_ns() < c->stop_by) {
		output_reap(c->output, true);
		r = end_chunk(c);
	}
	if (r == 0 || r == -ENODATA)
		return true;
	trouble(c, r);
	if (monotonic_ns() < c->stop_by) {
		nap(c, TROUBLE_RETRY_NS, false);
		if (!c->bad.space)
			consumer_give_up(c);
		return false;
	}
	consumer_give_up(c);
	(void)failure_set(f, trouble_is_space(r) || r == -EDOM ? FAILURE_NO_SPACE : FAILURE_IO,
			  "session '%s' is stopped, but not all of its events could be written to %s: %s; those "
			  "stay in memory, and are written when it is started again",
			  c->config->name, output_path(c->output), strerror(r == -EDOM ? ENOSPC : -r));
	return true;
}

void *consumer_thread(void *userdata)
{
	Failure failure = FAILURE_NULL;
	Consumer *c = userdata;

	priority_consumer();
	while (!over(c)) {
		int n;

		if (c->stop_by) {
			if (finish(c, &failure))
				break;
			continue;
		}
		if (c->bad.on) {
			u64 now = monotonic_ns();

			output_reap(c->output, false);
			/* what is done with the directory lets go of it soon */
			if (now < c->bad.retry_at)
				nap(c, output_waits(c->output) ? MIN(c->bad.retry_at - now, NAP_MAX_NS) : c->bad.retry_at - now,
				    false);
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
			trouble(c, n);
		else if (n > 0)
			nap(c, nap_time(c), true);
		else
			rest(c);
	}
	c->close_error = 0;
	output_reap(c->output, true);
	if (c->close_error && failure.kind == FAILURE_NONE)
		(void)failure_set(&failure, trouble_is_space(c->close_error) ? FAILURE_NO_SPACE : FAILURE_IO,
				  "session '%s' is stopped, but its last trace in %s could not be finished: %s",
				  c->config->name, output_path(c->output), strerror(-c->close_error));
	publish(c);
	c->feeds = NULL;
	consumer_tell(c, EVENT_STOPPED, NULL, 0, NULL, NULL, &failure);
	return NULL;
}
