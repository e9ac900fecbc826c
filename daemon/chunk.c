/* SPDX-License-Identifier: MIT */
#include "daemon/chunk.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>

#include "daemon/removal.h"
#include "daemon/trace/environment.h"
#include "daemon/trace/metadata.h"
#include "lib/record.h"

/* One owner's part. Only the trace is needed once the chunk is ended. */
typedef struct ChunkPart ChunkPart;
struct ChunkPart {
	ChunkPart *next;
	char *name; /* owned */
	LiveTrace *trace;
	char *metadata; /* owned: the last word, once it is ended */
	size_t metadata_size;
};

struct Chunk {
	ChunkInfo info;
	int output_fd; /* owned: another look at the same directory */
	int fd;	       /* owned */
	char *name, *active;
	u64 realtime_offset_ns;
	u64 begun;	/* CLOCK_MONOTONIC */
	u64 begin_time; /* the trace's clock */
	ChunkPart *parts;
	u64 n_records;
};

static u64 clock_ns(clockid_t id)
{
	struct timespec ts;

	(void)clock_gettime(id, &ts);
	return (u64)ts.tv_sec * NSEC_PER_SEC + (u64)ts.tv_nsec;
}

static int chunk_names(Chunk *c, u64 usec)
{
	time_t seconds = (time_t)(usec / 1000000);
	char stamp[32];
	struct tm tm;

	free(c->name);
	free(c->active);
	c->name = c->active = NULL;
	(void)gmtime_r(&seconds, &tm);
	(void)strftime(stamp, sizeof(stamp), "%Y%m%dT%H%M%S", &tm);
	if (asprintf(&c->name, "%s.%06uZ-trace", stamp, (unsigned)(usec % 1000000)) < 0) {
		c->name = NULL;
		return -ENOMEM;
	}
	if (asprintf(&c->active, "%s" CHUNK_SUFFIX, c->name) < 0) {
		c->active = NULL;
		return -ENOMEM;
	}
	return 0;
}

int chunk_new(Chunk **ret, int output_fd, const ChunkInfo *info, u64 *last_usec)
{
	u64 now = clock_ns(CLOCK_REALTIME) / NSEC_PER_USEC, usec = MAX(now, *last_usec + 1);
	Chunk *c = calloc(1, sizeof(*c));
	struct stat st;
	int r;

	if (!c)
		return -ENOMEM;
	/* a clock that was set back by a day must not be led by the past for a day */
	if (usec - now >= 1000000)
		usec = now;
	c->info = *info;
	c->fd = -1;
	c->output_fd = openat(output_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (c->output_fd < 0) {
		r = -errno;
		goto fail;
	}
	for (;; usec++) {
		r = chunk_names(c, usec);
		if (r < 0)
			goto fail;
		if (fstatat(c->output_fd, c->name, &st, AT_SYMLINK_NOFOLLOW) == 0)
			continue;
		if (mkdirat(c->output_fd, c->active, 0750) == 0)
			break;
		r = -errno;
		if (r != -EEXIST)
			goto fail;
	}
	*last_usec = usec;
	c->fd = openat(c->output_fd, c->active, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (c->fd < 0 || fchmod(c->fd, 0750) < 0) {
		r = -errno;
		(void)unlinkat(c->output_fd, c->active, AT_REMOVEDIR);
		goto fail;
	}
	c->begun = clock_ns(CLOCK_MONOTONIC);
	c->begin_time = record_clock_now(&info->clock);
	c->realtime_offset_ns = clock_ns(CLOCK_REALTIME) - c->begin_time;
	*ret = c;
	return 0;
fail:
	(void)chunk_free(c);
	return r;
}

void chunk_configure(Chunk *c, const SessionConfig *config)
{
	c->info.config = config;
}

Chunk *chunk_free(Chunk *c)
{
	if (!c)
		return NULL;
	for (ChunkPart *p = c->parts, *next; p; p = next) {
		next = p->next;
		(void)live_trace_free(p->trace, NULL);
		free(p->name);
		free(p->metadata);
		free(p);
	}
	close_fd(c->fd);
	close_fd(c->output_fd);
	free(c->name);
	free(c->active);
	free(c);
	return NULL;
}

/* ---- what is said ---- */

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
	return r;
}

static int packet_append(FeedStream *s, const LivePacket *p)
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
	r = live_stream_append(s->live, &relative);
	if (r == 0)
		s->said = p->discarded;
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
		r = packet_append(s, &(LivePacket){
					      .records = p->records,
					      .size = p->size,
					      .n_records = p->n_records,
					      .fd = p->fd,
					      .fd_offset = p->fd_offset,
					      .begin = p->begin,
					      .end = p->end,
					      .discarded = MAX(p->discarded, s->said),
				      });
	if (r == 0)
		c->n_records += p->n_records;
	return r;
}

void chunk_push(Chunk *c)
{
	for (ChunkPart *p = c->parts; p; p = p->next)
		live_trace_push(p->trace);
}

int chunk_flush(Chunk *c)
{
	int first = 0;

	for (ChunkPart *p = c->parts; p; p = p->next) {
		int r = live_trace_flush(p->trace);

		if (r < 0 && first == 0)
			first = r;
	}
	return first;
}

bool chunk_present(const Chunk *c, const char *output)
{
	_cleanup_close_ int fd = open(output, O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct stat is, at;

	if (fd < 0 || fstat(c->fd, &is) < 0 || is.st_nlink == 0 ||
	    fstatat(fd, c->active, &at, AT_SYMLINK_NOFOLLOW) < 0 || at.st_dev != is.st_dev ||
	    at.st_ino != is.st_ino)
		return false;
	for (const ChunkPart *p = c->parts; p; p = p->next)
		if (!live_trace_present(p->trace))
			return false;
	return true;
}

/* ---- the end ---- */

static ChunkPart *part_of(const Chunk *c, const Feed *f)
{
	ChunkPart *p = c->parts;

	while (p && p->trace != f->trace)
		p = p->next;
	return p;
}

static void feed_forget(Feed *f)
{
	f->trace = NULL;
	for (u32 i = 0; i < f->n_streams; i++)
		f->streams[i].live = NULL;
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
			r = packet_append(s, &(LivePacket){ .fd = -1,
							    .begin = MAX(now, s->stream.clock),
							    .end = MAX(now, s->stream.clock),
							    .discarded = discarded });
		if (r < 0)
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
		feed_forget(f);
	return r;
}

int chunk_end(Chunk *c, Feed *feeds)
{
	for (Feed *f = feeds; f; f = f->next) {
		int r = chunk_leave(c, f);

		if (r < 0)
			return r;
	}
	return 0;
}

static int chunk_rename(const Chunk *c)
{
	if (renameat2(c->output_fd, c->active, c->output_fd, c->name, RENAME_NOREPLACE) == 0)
		return 0;
	if (errno != EINVAL && errno != ENOSYS)
		return -errno;
	/* a file system without that: a directory in the way that is not empty still makes it fail */
	return renameat(c->output_fd, c->active, c->output_fd, c->name) < 0 ? -errno : 0;
}

/* Begun, and then no file could be made, say. */
static bool chunk_empty(const Chunk *c)
{
	return c->n_records == 0 && chunk_bytes(c) == 0;
}

int chunk_close(Chunk *c)
{
	int first = 0;

	/* readers take a directory without any trace for a mistake */
	if (chunk_empty(c)) {
		first = removal_run(c->output_fd, c->active, NULL);
		return first < 0 ? first : -ENODATA;
	}
	for (ChunkPart *p = c->parts; p; p = p->next) {
		int r = live_trace_sync(p->trace, p->metadata, p->metadata_size);

		if (r < 0 && first == 0)
			first = r;
	}
	if (first == 0 && fsync(c->fd) < 0)
		first = -errno;
	if (first == 0)
		first = chunk_rename(c);
	(void)fsync(c->output_fd);
	return first;
}

void chunk_abandon(Chunk *c, Feed *feeds, u64 *ret_lost)
{
	bool empty = chunk_empty(c);

	for (Feed *f = feeds; f; f = f->next)
		feed_forget(f);
	for (ChunkPart *p = c->parts; p; p = p->next)
		p->trace = live_trace_free(p->trace, ret_lost);
	/* where no file can be made at all it is tried again and again, and what is left each time would push good traces out */
	if (empty)
		(void)removal_run(c->output_fd, c->active, NULL);
	else
		(void)chunk_rename(c);
}

const char *chunk_name(const Chunk *c)
{
	return c->name;
}

const char *chunk_active_name(const Chunk *c)
{
	return c->active;
}

u64 chunk_bytes(const Chunk *c)
{
	u64 bytes = 0;

	for (const ChunkPart *p = c->parts; p; p = p->next)
		bytes += live_trace_bytes(p->trace);
	return bytes;
}

u64 chunk_largest(const Chunk *c)
{
	u64 bytes = 0;

	for (const ChunkPart *p = c->parts; p; p = p->next)
		bytes = MAX(bytes, live_trace_largest(p->trace));
	return bytes;
}

u64 chunk_records(const Chunk *c)
{
	return c->n_records;
}

u64 chunk_begun(const Chunk *c)
{
	return c->begun;
}
