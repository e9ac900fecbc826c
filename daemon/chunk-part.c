/* SPDX-License-Identifier: MIT */
/* One owner's part of a chunk: its trace, begun with the first packet, and what its metadata says. */
#include "daemon/chunk-private.h"

#include <inttypes.h>
#include <stdio.h>

#include "daemon/trace/environment.h"
#include "daemon/trace/metadata.h"
#include "lib/record.h"

static void say_stream(Environment *e, const Feed *f, u32 i)
{
	const StreamCounters *is = &f->streams[i].stream.counters, *was = &f->streams[i].before;
	char name[40], key[64];
	u32 cpu;

	if (!f->streams[i].live)
		return;
	feed_stream_name(f, i, name, &cpu);
	(void)snprintf(key, sizeof(key), "ring_%s", name);
	environment_add(e, key,
			"kept=%" PRIu64 " overwritten=%" PRIu64 " corrupt=%" PRIu64 " clamped=%" PRIu64
			" corrupt_sub_buffers=%" PRIu64 " lost=%" PRIu64,
			(uint64_t)(is->kept - was->kept), (uint64_t)(is->overwritten - was->overwritten),
			(uint64_t)(is->corrupt - was->corrupt), (uint64_t)(is->clamped - was->clamped),
			(uint64_t)(is->corrupt_subs - was->corrupt_subs),
			(uint64_t)(is->lost - was->lost));
}

static int chunk_metadata(const Chunk *c, const Feed *f, bool final, char **ret, size_t *ret_size)
{
	_cleanup_(environment_clear) Environment e = { 0 };
	TraceClock clock = { .realtime_offset_ns = c->realtime_offset_ns,
			     .description = c->info.clock.kind == ABI_CLOCK_COUNTER ?
						    "CPU counter, in nanoseconds" :
						    "CLOCK_MONOTONIC" };

	memcpy(clock.uuid, c->info.clock_uuid, sizeof(clock.uuid));
	environment_add_host(&e);
	environment_add(&e, "session", "%s", c->info.config->name);
	environment_add(&e, "owner", "%s", f->label);
	environment_add(&e, "trigger", "%s", c->info.trigger);
	environment_add(&e, "trace", "%s", c->name);
	environment_add(&e, "policy", "%s", policy_name(c->info.config->policy));
	environment_add(&e, "buffers", "%s", buffers_name(c->info.config->buffers));
	environment_add(&e, "io", "%s", sink_set_name(c->info.sinks));
	/* a program can have ended before this trace began, and have left records in the rings that are in it */
	feed_say_programs(f, f->first == UINT64_MAX ? 0 : f->first + c->realtime_offset_ns, &e);
	environment_add_time(&e, "covers_from", c->begin_time + c->realtime_offset_ns);
	environment_add(&e, "complete", "%s", final ? "yes" : "no");
	if (final) {
		environment_add_time(&e, "covers_until",
				     record_clock_now(&c->info.clock) + c->realtime_offset_ns);
		for (u32 i = 0; i < f->n_streams; i++)
			say_stream(&e, f, i);
	}
	if (e.failed)
		return -ENOMEM;
	return metadata_write(ret, ret_size,
			      &(Metadata){
				      .uuid = live_trace_uuid(f->trace),
				      .clock = &clock,
				      .contexts = f->geometry.contexts,
				      .environment = e.v,
				      .n_environment = e.n,
				      .classes = f->classes.v,
				      .n_classes = f->classes.n,
			      });
}

/* ---- writing ---- */

/* Directories of owners must differ, also once their labels are made file names, and when an owner comes again. */
static int part_name(const Chunk *c, const Feed *f, char **ret)
{
	char safe[200];

	trace_name(safe, sizeof(safe), f->label);
	for (u32 turn = 1;; turn++) {
		const ChunkPart *p = c->parts;

		if ((turn == 1 ? asprintf(ret, "%s", safe) : asprintf(ret, "%s+%u", safe, turn)) < 0)
			return -ENOMEM;
		while (p && strcmp(p->name, *ret) != 0)
			p = p->next;
		if (!p)
			return 0;
		free(*ret);
	}
}

static int part_begin(Chunk *c, Feed *f)
{
	ChunkPart *p = calloc(1, sizeof(*p));
	int r;

	if (!p)
		return -ENOMEM;
	r = part_name(c, f, &p->name);
	if (r == 0)
		r = live_trace_new(&p->trace, c->fd, p->name, c->info.sinks);
	if (r < 0) {
		free(p->name);
		free(p);
		return r;
	}
	p->next = c->parts;
	c->parts = p;
	f->trace = p->trace;
	f->chunk = bookmark_chunk(c->active, p->name);
	f->n_told = 0;
	f->first = UINT64_MAX;
	for (u32 i = 0; i < f->n_streams; i++) {
		f->streams[i].live = NULL;
		f->streams[i].before = f->streams[i].stream.counters;
	}
	return 0;
}

/* A reader must never meet a packet whose ids the metadata does not tell. */
static int part_tell(Chunk *c, Feed *f)
{
	_cleanup_free_ char *text = NULL;
	size_t size;
	int r;

	if (f->n_told == f->classes.n + 1)
		return 0;
	r = chunk_metadata(c, f, false, &text, &size);
	if (r == 0)
		r = live_trace_metadata(f->trace, text, size);
	if (r == 0)
		f->n_told = f->classes.n + 1; /* ids are only ever added; 0: nothing was told at all */
	return r;
}

static int stream_begin(Feed *f, u32 i)
{
	FeedStream *s = &f->streams[i];
	char name[40];
	u32 cpu;
	int r;

	feed_stream_name(f, i, name, &cpu);
	r = live_stream_new(&s->live, f->trace, name, i, cpu);
	if (r < 0)
		s->live = NULL;
	s->base = s->said;
	s->n_records = 0;
	return r;
}

/* What the file of the next packet says decides whether the next daemon goes on behind it. */
static void mark(const Feed *f, FeedStream *s, const LivePacket *p)
{
	Bookmark b = { .chunk = f->chunk,
		       .start = live_stream_size(s->live),
		       .end = live_stream_end(s->live, p->size),
		       .progress = stream_progress(&s->stream) };

	b.progress.said = MAX(b.progress.said, p->discarded);
	bookmark_put(s->page, &b);
}

static int packet_append(const Feed *f, FeedStream *s, const LivePacket *p)
{
	LivePacket relative = *p;
	int r;

	relative.discarded = p->discarded - s->base;
	/* A loss is said as the difference between two packets: one that falls before the first needs another before it, an
	 * empty one, at its begin. */
	if (relative.discarded && live_stream_size(s->live) == 0) {
		r = live_stream_append(s->live, &(LivePacket){ .fd = -1, .begin = p->begin, .end = p->begin });
		if (r < 0)
			return r;
	}
	if (s->page)
		mark(f, s, p);
	r = live_stream_append(s->live, &relative);
	if (r == 0)
		s->said = p->discarded;
	else if (s->page)
		bookmark_take_back(s->page);
	return r;
}

int chunk_append(Chunk *c, Feed *f, u32 stream, const StreamPacket *p)
{
	FeedStream *s = &f->streams[stream];
	int r = f->trace ? 0 : part_begin(c, f);

	if (r == 0)
		f->first = MIN(f->first, p->begin);
	if (r == 0)
		r = part_tell(c, f);
	if (r == 0 && !s->live)
		r = stream_begin(f, stream);
	if (r == 0)
		r = packet_append(f, s, &(LivePacket){
					      .records = p->records,
					      .size = p->size,
					      .n_records = p->n_records,
					      .fd = p->fd,
					      .fd_offset = p->fd_offset,
					      .begin = p->begin,
					      .end = p->end,
					      .discarded = MAX(p->discarded, s->said),
					      .mark = p->position,
				      });
	if (r == -EFBIG && s->live && s->n_records > 0)
		return CHUNK_FULL;
	if (r == 0) {
		c->n_records += p->n_records;
		s->n_records += p->n_records;
	}
	return r;
}

/* ---- the end ---- */

static ChunkPart *part_of(const Chunk *c, const Feed *f)
{
	ChunkPart *p = c->parts;

	while (p && p->trace != f->trace)
		p = p->next;
	return p;
}

void chunk_forget(Feed *f)
{
	f->trace = NULL;
	for (u32 i = 0; i < f->n_streams; i++) {
		stream_give(&f->streams[i].stream, f->streams[i].stream.last);
		f->streams[i].live = NULL;
	}
}

/* Losses behind the last packet, in one that has no records. */
static int feed_say(Chunk *c, Feed *f)
{
	for (u32 i = 0; i < f->n_streams; i++) {
		FeedStream *s = &f->streams[i];
		u64 now = record_clock_now(&c->info.clock), discarded;
		int r;

		(void)stream_unsaid(&s->stream, &discarded);
		/* said in the next chunk, if this stream was ended by a try that failed behind it */
		if (discarded <= s->said || (s->live && live_stream_ended(s->live)))
			continue;
		r = f->trace ? 0 : part_begin(c, f);
		if (r == 0)
			r = part_tell(c, f);
		if (r == 0 && !s->live)
			r = stream_begin(f, i);
		if (r == 0)
			r = packet_append(f, s, &(LivePacket){ .fd = -1,
							    .begin = MAX(now, s->stream.clock),
							    .end = MAX(now, s->stream.clock),
							    .discarded = discarded });
		/* a file at its limit, which must not keep the chunk from its end: said in the next one as well */
		if (r < 0 && r != -EFBIG)
			return r;
	}
	return 0;
}

int chunk_leave(Chunk *c, Feed *f)
{
	int r = feed_say(c, f);
	ChunkPart *p;

	if (r < 0 || !f->trace)
		return r;
	p = part_of(c, f);
	free(p->metadata);
	p->metadata = NULL;
	r = chunk_metadata(c, f, true, &p->metadata, &p->metadata_size);
	if (r == 0)
		r = live_trace_end(p->trace);
	if (r == 0)
		r = live_trace_park(p->trace);
	if (r == 0)
		chunk_forget(f);
	return r;
}
