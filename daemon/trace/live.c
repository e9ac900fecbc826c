/* SPDX-License-Identifier: MIT */
#include "daemon/trace/live.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "daemon/absent.h"
#include "daemon/trace/index.h"
#include "daemon/trace/packet.h"

struct LiveStream {
	LiveStream *next;
	LiveTrace *trace;
	Sink *sink; /* owned; NULL once it is ended */
	int fd;	    /* owned: the file, when the sink is done with it, until it is parked */
	char *name; /* owned */
	int index_fd;
	u32 instance, cpu;
	u64 sequence, size, discarded, mark; /* size, mark: once it is ended */
	/* entries that are not in the index file yet: what is flushed first, then what is not */
	u8 *entries; /* owned */
	size_t n_entries, n_flushed, n_allocated;
	u64 index_size;
};

struct LiveTrace {
	int parent_fd;
	char *name;	      /* owned: of its directory in there */
	int dir_fd, index_fd; /* owned; -1 once it is parked */
	SinkSet *sinks;
	u8 uuid[16];
	LiveStream *streams;
	u64 bytes; /* of streams that were ended */
};

static int directory_make(int at, const char *name, int *ret_fd)
{
	_cleanup_close_ int fd = -1;

	if (mkdirat(at, name, 0750) < 0)
		return -errno;
	fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	/* modes are set, not left to the umask */
	if (fd < 0 || fchmod(fd, 0750) < 0)
		return -errno;
	*ret_fd = steal_fd(fd);
	return 0;
}

int live_trace_new(LiveTrace **ret, int dir_fd, const char *name, SinkSet *sinks)
{
	LiveTrace *t = calloc(1, sizeof(*t));
	int r;

	if (!t)
		return -ENOMEM;
	t->parent_fd = dir_fd;
	t->dir_fd = t->index_fd = -1;
	t->sinks = sinks;
	t->name = strdup(name);
	r = t->name ? trace_draw_uuid(t->uuid) : -ENOMEM;
	if (r == 0)
		r = directory_make(dir_fd, name, &t->dir_fd);
	if (r == 0)
		r = directory_make(t->dir_fd, "index", &t->index_fd);
	if (r < 0) {
		/* nothing half is left: the next try makes it again under the same name */
		if (t->dir_fd >= 0)
			(void)unlinkat(dir_fd, name, AT_REMOVEDIR);
		(void)live_trace_free(t, NULL);
		return r;
	}
	*ret = t;
	return 0;
}

static int index_write(LiveStream *s);
static void index_name(char ret[64], const char *name);

/* An index that does not say what is in the file is worse than none: without one readers look for themselves. */
static u64 stream_abandon(LiveStream *s)
{
	u64 lost = sink_abandon(s->sink);
	char file[64];

	s->sink = NULL;
	s->n_flushed = s->n_entries;
	if (lost || index_write(s) < 0) {
		index_name(file, s->name);
		(void)unlinkat(s->trace->index_fd, file, 0);
	}
	return lost;
}

LiveTrace *live_trace_free(LiveTrace *t, u64 *ret_lost)
{
	u64 lost = 0;

	if (!t)
		return NULL;
	for (LiveStream *s = t->streams, *next; s; s = next) {
		next = s->next;
		if (s->sink)
			lost += stream_abandon(s);
		close_fd(s->fd);
		close_fd(s->index_fd);
		free(s->entries);
		free(s->name);
		free(s);
	}
	close_fd(t->index_fd);
	close_fd(t->dir_fd);
	free(t->name);
	free(t);
	if (ret_lost)
		*ret_lost += lost;
	return NULL;
}

const u8 *live_trace_uuid(const LiveTrace *t)
{
	return t->uuid;
}

/* ---- metadata ---- */

static int write_whole(int fd, const void *bytes, size_t size, u64 offset)
{
	const u8 *p = bytes;

	while (size > 0) {
		ssize_t n = pwrite(fd, p, size, (off_t)offset);

		if (n < 0) {
			if (errno == EINTR)
				continue;
			return -errno;
		}
		p += n;
		offset += (u64)n;
		size -= (size_t)n;
	}
	return 0;
}

static int metadata_replace(LiveTrace *t, const char *text, size_t size, bool sync)
{
	static const char temporary[] = ".metadata.tmp";
	_cleanup_close_ int fd = openat(t->dir_fd, temporary,
					O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0640);
	int r;

	if (fd < 0)
		return -errno;
	r = fchmod(fd, 0640) < 0 ? -errno : write_whole(fd, text, size, 0);
	if (r == 0 && sync && fsync(fd) < 0)
		r = -errno;
	if (r == 0 && renameat(t->dir_fd, temporary, t->dir_fd, "metadata") < 0)
		r = -errno;
	if (r < 0)
		(void)unlinkat(t->dir_fd, temporary, 0);
	return r;
}

int live_trace_metadata(LiveTrace *t, const char *text, size_t size)
{
	return metadata_replace(t, text, size, false);
}

/* ---- streams ---- */

static void index_name(char ret[64], const char *name)
{
	(void)snprintf(ret, 64, "%.50s.idx", name);
}

static int index_make(LiveTrace *t, const char *name, int *ret_fd)
{
	_cleanup_close_ int fd = -1;
	u8 head[INDEX_HEADER];
	char file[64];
	int r;

	index_name(file, name);
	fd = openat(t->index_fd, file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0640);
	if (fd < 0 || fchmod(fd, 0640) < 0)
		return -errno;
	index_encode_header(head);
	r = write_whole(fd, head, sizeof(head), 0);
	if (r == 0)
		*ret_fd = steal_fd(fd);
	return r;
}

int live_stream_new(LiveStream **ret, LiveTrace *t, const char *name, u32 instance, u32 cpu)
{
	LiveStream *s = calloc(1, sizeof(*s));
	int r;

	if (!s)
		return -ENOMEM;
	*s = (LiveStream){ .trace = t,
			   .fd = -1,
			   .index_fd = -1,
			   .instance = instance,
			   .cpu = cpu,
			   .index_size = INDEX_HEADER };
	s->name = strdup(name);
	r = s->name ? index_make(t, name, &s->index_fd) : -ENOMEM;
	if (r == 0)
		r = sink_open(&s->sink, t->sinks, t->dir_fd, name);
	if (r < 0) {
		close_fd(s->index_fd);
		free(s->name);
		free(s);
		return r;
	}
	s->next = t->streams;
	t->streams = s;
	*ret = s;
	return 0;
}

static int entries_reserve(LiveStream *s)
{
	size_t n = s->n_allocated ? s->n_allocated * 2 : 16;
	u8 *p;

	if (s->n_entries < s->n_allocated)
		return 0;
	p = reallocarray(s->entries, n, INDEX_ENTRY);
	if (!p)
		return -ENOMEM;
	s->entries = p;
	s->n_allocated = n;
	return 0;
}

int live_stream_append(LiveStream *s, const LivePacket *p)
{
	u32 align = sink_align(s->trace->sinks);
	PacketInfo info = {
		.begin = p->begin,
		.end = p->end,
		.content_size = PACKET_HEADER + p->size,
		.packet_size = ALIGN_UP(packet_size(p->size), (u64)align),
		.sequence = s->sequence,
		.discarded = MAX(p->discarded, s->discarded),
		.cpu = s->cpu,
		.stream_instance = s->instance,
	};
	u8 head[PACKET_HEADER];
	u64 offset = live_stream_size(s);
	int r = entries_reserve(s);

	if (r < 0)
		return r;
	if (!s->sink)
		return -EBADF; /* it was ended */
	packet_encode(head, s->trace->uuid, &info);
	r = sink_append(s->sink, &(SinkPacket){
					 .head = head,
					 .head_size = sizeof(head),
					 .records = p->records,
					 .records_size = p->size,
					 .size = info.packet_size,
					 .fd = p->fd,
					 .fd_offset = p->fd_offset,
					 .n_records = p->n_records,
					 .mark = p->mark,
				 });
	if (r < 0)
		return r;
	index_encode_entry(s->entries + s->n_entries++ * INDEX_ENTRY, offset, &info);
	s->sequence++;
	s->discarded = info.discarded;
	return 0;
}

u64 live_stream_size(const LiveStream *s)
{
	return s->sink ? sink_size(s->sink) : s->size;
}

u64 live_stream_end(const LiveStream *s, u64 size)
{
	return live_stream_size(s) + ALIGN_UP(packet_size(size), (u64)sink_align(s->trace->sinks));
}

u64 live_stream_mark(const LiveStream *s)
{
	return s->sink ? sink_mark(s->sink) : s->mark;
}

bool live_stream_ended(const LiveStream *s)
{
	return !s->sink;
}

/* Writes the entries of packets that are in the stream's file. */
static int index_write(LiveStream *s)
{
	size_t bytes = s->n_flushed * INDEX_ENTRY;
	int r;

	if (s->n_flushed == 0)
		return 0;
	r = write_whole(s->index_fd, s->entries, bytes, s->index_size);
	if (r < 0)
		return r;
	s->index_size += bytes;
	s->n_entries -= s->n_flushed;
	memmove(s->entries, s->entries + bytes, s->n_entries * INDEX_ENTRY);
	s->n_flushed = 0;
	return 0;
}

void live_trace_push(LiveTrace *t)
{
	for (LiveStream *s = t->streams; s; s = s->next)
		if (s->sink)
			sink_push(s->sink);
}

int live_trace_flush(LiveTrace *t)
{
	int first = 0;

	for (LiveStream *s = t->streams; s; s = s->next) {
		int r = s->sink ? sink_flush(s->sink) : 0;

		if (r == 0) {
			s->n_flushed = s->n_entries;
			r = index_write(s);
		}
		if (r < 0 && first == 0)
			first = r;
	}
	return first;
}

bool live_trace_present(const LiveTrace *t)
{
	struct stat st;

	if (t->dir_fd < 0) /* parked */
		return fstatat(t->parent_fd, t->name, &st, AT_SYMLINK_NOFOLLOW) == 0 || !error_is_absence(errno);
	if (fstat(t->dir_fd, &st) < 0)
		return !error_is_absence(errno);
	if (st.st_nlink == 0)
		return false;
	for (const LiveStream *s = t->streams; s; s = s->next)
		if (s->sink && !sink_present(s->sink))
			return false;
	return true;
}

/* ---- the end ---- */

int live_trace_end(LiveTrace *t)
{
	int first = 0;

	for (LiveStream *s = t->streams; s; s = s->next) {
		u64 size;
		int r;

		if (!s->sink)
			continue;
		size = sink_size(s->sink);
		r = sink_flush(s->sink);
		s->mark = sink_mark(s->sink);
		if (r == 0)
			r = sink_finish(s->sink, &s->fd);
		if (r < 0) {
			first = first ? first : r;
			continue;
		}
		s->sink = NULL;
		s->size = size;
		s->n_flushed = s->n_entries;
		t->bytes += size;
	}
	return first;
}

int live_trace_park(LiveTrace *t)
{
	int first = 0;

	for (LiveStream *s = t->streams; s; s = s->next) {
		int r = index_write(s);

		if (r < 0) {
			first = first ? first : r;
			continue;
		}
		/* the disk may begin: whoever syncs it waits less */
		if (s->fd >= 0)
			(void)sync_file_range(s->fd, 0, 0, SYNC_FILE_RANGE_WRITE);
		s->fd = close_fd(s->fd);
		s->index_fd = close_fd(s->index_fd);
	}
	if (first == 0) {
		t->index_fd = close_fd(t->index_fd);
		t->dir_fd = close_fd(t->dir_fd);
	}
	return first;
}

static int directories_open(LiveTrace *t)
{
	const int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW;

	if (t->dir_fd < 0)
		t->dir_fd = openat(t->parent_fd, t->name, flags);
	if (t->dir_fd >= 0 && t->index_fd < 0)
		t->index_fd = openat(t->dir_fd, "index", flags);
	return t->dir_fd < 0 || t->index_fd < 0 ? -errno : 0;
}

static int file_sync(int at, const char *name)
{
	_cleanup_close_ int fd = openat(at, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

	if (fd < 0 || fsync(fd) < 0)
		return -errno;
	/* nobody reads it soon: what is left of it in the page cache makes room */
	(void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	return 0;
}

int live_trace_sync(LiveTrace *t, const char *metadata, size_t size)
{
	int first = 0, r = directories_open(t);

	if (r < 0)
		return r;
	for (LiveStream *s = t->streams; s; s = s->next) {
		char index[64];

		index_name(index, s->name);
		r = file_sync(t->dir_fd, s->name);
		if (r == 0)
			r = file_sync(t->index_fd, index);
		first = first ? first : r;
	}
	r = metadata ? metadata_replace(t, metadata, size, true) : 0;
	if (r == 0 && (fsync(t->index_fd) < 0 || fsync(t->dir_fd) < 0))
		r = -errno;
	/* so that who syncs thousands holds one at a time */
	t->index_fd = close_fd(t->index_fd);
	t->dir_fd = close_fd(t->dir_fd);
	return first ? first : r;
}

u64 live_trace_bytes(const LiveTrace *t)
{
	u64 bytes = t->bytes;

	for (const LiveStream *s = t->streams; s; s = s->next)
		if (s->sink)
			bytes += sink_size(s->sink);
	return bytes;
}

u64 live_trace_largest(const LiveTrace *t)
{
	u64 bytes = 0;

	for (const LiveStream *s = t->streams; s; s = s->next)
		bytes = MAX(bytes, live_stream_size(s));
	return bytes;
}
