/* SPDX-License-Identifier: MIT */
#include "daemon/feed.h"

#include "lib/atomic.h"

int feed_new(Feed **ret, const char *label, u8 *map, int fd, const struct geometry *g,
	     const struct record_clock *clock, const Cpus *cpus)
{
	Feed *f = calloc(1, sizeof(*f));

	if (!f)
		return -ENOMEM;
	f->lock = malloc(sizeof(*f->lock));
	if (!f->lock) {
		free(f);
		return -ENOMEM;
	}
	(void)pthread_mutex_init(f->lock, NULL);
	f->label = strdup(label);
	f->cpus = cpus;
	f->geometry = *g;
	f->streams = calloc(geometry_rings(g), sizeof(*f->streams));
	if (!f->label || !f->streams) {
		(void)feed_free(f);
		return -ENOMEM;
	}
	f->n_streams = geometry_rings(g);
	for (u32 i = 0; i < f->n_streams; i++)
		stream_init(&f->streams[i].stream, map, fd, g, i, clock);
	*ret = f;
	return 0;
}

Feed *feed_free(Feed *f)
{
	if (!f)
		return NULL;
	for (u32 i = 0; f->streams && i < f->n_streams; i++)
		stream_clear(&f->streams[i].stream);
	bookmarks_unmap(f->pages, f->n_streams);
	(void)class_table_free(f->table);
	(void)pthread_mutex_destroy(f->lock);
	free(f->lock);
	free(f->classes.v);
	free(f->newer.v);
	descriptions_clear(&f->programs);
	free(f->streams);
	free(f->label);
	free(f);
	return NULL;
}

void feed_mark(Feed *f, BookmarkPage *pages)
{
	f->pages = pages;
	for (u32 i = 0; i < f->n_streams; i++)
		f->streams[i].page = bookmarks_at(pages, i);
}

void feed_look_back(Feed *f)
{
	for (u32 i = 0; i < f->n_streams; i++)
		f->streams[i].skipped = stream_before(&f->streams[i].stream);
}

void stream_counters_add(StreamCounters *sum, const StreamCounters *more)
{
	sum->kept += more->kept;
	sum->overwritten += more->overwritten;
	sum->corrupt += more->corrupt;
	sum->corrupt_subs += more->corrupt_subs;
	sum->clamped += more->clamped;
	sum->lost += more->lost;
}

/* ---- the loop's side ---- */

void feed_set_classes(Feed *f, TraceClass *v, size_t n)
{
	TraceClass *before;

	(void)pthread_mutex_lock(f->lock);
	before = f->newer.v;
	f->newer = (FeedClasses){ v, n };
	(void)pthread_mutex_unlock(f->lock);
	free(before);
}

void feed_set_programs(Feed *f, Descriptions *programs)
{
	Descriptions before;

	(void)pthread_mutex_lock(f->lock);
	before = f->programs;
	f->programs = *programs;
	(void)pthread_mutex_unlock(f->lock);
	descriptions_clear(&before);
	*programs = (Descriptions){ 0 };
}

void feed_sums(const Feed *f, StreamCounters *ret, double *ret_fill)
{
	(void)pthread_mutex_lock(f->lock);
	*ret = f->sums;
	*ret_fill = f->fill;
	(void)pthread_mutex_unlock(f->lock);
}

/* ---- the thread's ---- */

int feed_refresh(Feed *f)
{
	FeedClasses newer;
	ClassTable *table;
	int r;

	(void)pthread_mutex_lock(f->lock);
	newer = f->newer;
	f->newer = (FeedClasses){ NULL, 0 };
	(void)pthread_mutex_unlock(f->lock);
	if (!newer.v)
		return 0;
	r = class_table_new(&table, newer.v, newer.n, f->geometry.contexts);
	if (r < 0) {
		/* back, unless there are still newer ones: the next turn tries again */
		(void)pthread_mutex_lock(f->lock);
		if (!f->newer.v) {
			f->newer = newer;
			newer.v = NULL;
		}
		(void)pthread_mutex_unlock(f->lock);
		free(newer.v);
		return r;
	}
	(void)class_table_free(f->table);
	free(f->classes.v);
	f->table = table;
	f->classes = newer;
	return 1;
}

int feed_take(Feed *f, u32 i, bool partial, StreamPacket *ret)
{
	Stream *s = &f->streams[i].stream;
	unsigned flags = partial ? STREAM_PARTIAL : 0;
	int r;

	if (!f->table) {
		r = feed_refresh(f);
		if (r <= 0)
			return r;
	}
	r = stream_take(s, f->table, flags, ret);
	if (r != -ENOENT)
		return r;
	/* Classes come before their ids are told, so who wrote an honest one has made them newer by now. */
	r = feed_refresh(f);
	if (r < 0)
		return r;
	return stream_take(s, f->table, flags | STREAM_JUDGE, ret);
}

void feed_say_programs(const Feed *f, u64 since, Environment *e)
{
	(void)pthread_mutex_lock(f->lock);
	descriptions_say(&f->programs, since, e);
	(void)pthread_mutex_unlock(f->lock);
}

bool feed_ready(const Feed *f, bool partial)
{
	for (u32 i = 0; i < f->n_streams; i++)
		if (stream_ready(&f->streams[i].stream, partial))
			return true;
	return false;
}

bool feed_give(Feed *f)
{
	bool more = false;

	for (u32 i = 0; i < f->n_streams; i++) {
		FeedStream *s = &f->streams[i];

		if (s->live)
			stream_give(&s->stream, live_stream_mark(s->live));
		more |= s->given != stream_given(&s->stream);
		s->given = stream_given(&s->stream);
	}
	return more;
}

void feed_publish(Feed *f)
{
	StreamCounters sums = { 0 };
	double fill = 0;

	for (u32 i = 0; i < f->n_streams; i++) {
		stream_counters_add(&sums, &f->streams[i].stream.counters);
		fill = MAX(fill, stream_fill(&f->streams[i].stream));
	}
	(void)pthread_mutex_lock(f->lock);
	f->sums = sums;
	f->fill = fill;
	(void)pthread_mutex_unlock(f->lock);
}

void feed_stream_name(const Feed *f, u32 i, char ret[40], u32 *ret_cpu)
{
	u32 n_ring = f->geometry.n_ring, side = n_ring;

	/* A ring that has a record has its CPU: the loop wrote cpu_of before the ring's number went into the control page,
	 * where the program's sequence found it. Relaxed: pairs with cpus_add() in the loop; others' may be just being written,
	 * and are then missed or not. */
	if (i < n_ring) {
		*ret_cpu = load_relaxed_u32(&f->cpus->cpu_of[i]);
	} else {
		/* behind every CPU, so that no reader takes two streams for one CPU's */
		for (u32 k = 0; k < n_ring; k++)
			side = MAX(side, load_relaxed_u32(&f->cpus->cpu_of[k]) + 1);
		*ret_cpu = side + i - n_ring;
	}
	trace_ring_name(ret, &f->geometry, i, *ret_cpu);
}
