/* SPDX-License-Identifier: MIT */
/* Files of one trace. Packets are appended with one gathering write each; short writes and EINTR
 * are gone on with, and any other error ends the trace: the caller removes all of it.
 *
 * Syncing is most of the time that a snapshot takes. The disk is told to begin as bytes come, and
 * waited for at the end, once all files are written: then the first fsync commits the file system's
 * journal for all of them, and the rest find nothing to do. What is large goes to the disk in whole
 * pages and is not kept in the page cache, which the machine has other uses for; what a page has of
 * the next packet waits for it, because a page that went halfway would have to be read again. */
#include "daemon/trace/trace.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include "daemon/trace/index.h"
#include "daemon/trace/packet.h"

#ifndef RWF_DONTCACHE
#define RWF_DONTCACHE 0x80 /* Linux 6.14: written at once, and out of the page cache when it is done */
#endif

#define EARLY_BYTES (4u << 20) /* written before the disk is told to begin with them */
#define DONTCACHE_SMALLEST (128u << 10) /* smaller requests are gathered in the page cache */
#define CARRY_MAX 4096u
#define UNSYNCED_MAX 128       /* descriptors kept for the end */

struct Trace {
	int dir_fd, index_fd; /* owned */
	int unsynced[UNSYNCED_MAX]; /* owned: files that are written, and not waited for yet */
	u32 n_unsynced;
	u8 uuid[16];
	u64 bytes;

	/* the stream being written */
	int fd;
	char *name; /* owned */
	u64 offset;
	u64 begun; /* up to here the disk was told to begin */
	bool cached; /* the kernel or the file system does not know RWF_DONTCACHE */
	u8 carry[CARRY_MAX]; /* the last of what came, not written yet; what is written ends with a page */
	u32 n_carry;
	u8 *index; /* owned: header and entries so far */
	size_t index_size, index_allocated;
};

/* Behind what the file has; `cached` (may be NULL): whether to leave it in the page cache is remembered there. */
static int write_all(int fd, struct iovec *v, int n, bool *cached)
{
	while (n > 0) {
		int flags = cached && !*cached ? RWF_DONTCACHE : 0;
		ssize_t w = pwritev2(fd, v, n, -1, flags);

		if (w < 0) {
			if (errno == EINTR)
				continue;
			if (flags && (errno == EOPNOTSUPP || errno == EINVAL)) {
				*cached = true;
				continue;
			}
			return -errno;
		}
		for (; n > 0 && (size_t)w >= v->iov_len; v++, n--)
			w -= (ssize_t)v->iov_len;
		if (n > 0) {
			v->iov_base = (u8 *)v->iov_base + w;
			v->iov_len -= (size_t)w;
		}
	}
	return 0;
}

/* Modes are set, not left to the umask: who may read traces is the directory's and the group's
 * matter. */
static int make_directory(int at, const char *name, int *ret_fd)
{
	_cleanup_close_ int fd = -1;

	if (mkdirat(at, name, 0750) < 0)
		return -errno;
	fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0 || fchmod(fd, 0750) < 0)
		return -errno;
	*ret_fd = steal_fd(fd);
	return 0;
}

static int make_file(int at, const char *name, int *ret_fd)
{
	_cleanup_close_ int fd =
	    openat(at, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0640);

	if (fd < 0 || fchmod(fd, 0640) < 0)
		return -errno;
	*ret_fd = steal_fd(fd);
	return 0;
}

/* A file system that cannot begin early is waited for longer, no more. */
static void sync_begin(int fd, u64 from, u64 size)
{
	(void)sync_file_range(fd, (off_t)from, (off_t)size, SYNC_FILE_RANGE_WRITE);
}

static int sync_all(Trace *t)
{
	int r = 0;

	for (; t->n_unsynced > 0; t->n_unsynced--) {
		int fd = t->unsynced[t->n_unsynced - 1];

		if (fsync(fd) < 0 && r == 0)
			r = -errno;
		close_fd(fd);
	}
	return r;
}

/* Takes the descriptor of a file that is complete. */
static int sync_later(Trace *t, int fd)
{
	int r = t->n_unsynced == UNSYNCED_MAX ? sync_all(t) : 0;

	t->unsynced[t->n_unsynced++] = fd;
	return r;
}

static int write_file(Trace *t, int at, const char *name, const void *p, size_t size)
{
	_cleanup_close_ int fd = -1;
	struct iovec v = {(void *)p, size};
	int r = make_file(at, name, &fd);

	if (r == 0)
		r = write_all(fd, &v, 1, NULL);
	if (r < 0)
		return r;
	sync_begin(fd, 0, size);
	return sync_later(t, steal_fd(fd));
}

void trace_name(char *ret, size_t size, const char *label)
{
	size_t n = 0;

	for (; label[n] && n < size - 1; n++) {
		char c = label[n];
		bool good = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
			    (c >= '0' && c <= '9') || (c == '.' && n > 0) || strchr("_@:+-", c);

		ret[n] = good ? c : '_';
	}
	if (n == 0)
		ret[n++] = '_';
	ret[n] = '\0';
}

void trace_ring_name(char ret[40], const struct geometry *g, u32 ring, u32 cpu)
{
	if (geometry_is_pinned(g, ring))
		(void)snprintf(ret, 40, "pinned_%u", ring - g->n_ring - g->n_side);
	else if (geometry_is_side(g, ring))
		(void)snprintf(ret, 40, "side_%u", ring - g->n_ring);
	else
		(void)snprintf(ret, 40, "cpu_%u", cpu);
}

int trace_draw_uuid(u8 ret[16])
{
	/* never blocks once the kernel's pool is up, which is before any daemon */
	if (getrandom(ret, 16, 0) != 16)
		return -EIO;
	ret[6] = (ret[6] & 0x0F) | 0x40; /* RFC 4122: version 4, random */
	ret[8] = (ret[8] & 0x3F) | 0x80;
	return 0;
}

int trace_new(Trace **ret, int dir_fd, const char *name)
{
	_cleanup_(trace_freep) Trace *t = calloc(1, sizeof(*t));
	char safe[256];
	int r;

	if (!t)
		return -ENOMEM;
	t->dir_fd = t->index_fd = t->fd = -1;
	r = trace_draw_uuid(t->uuid);
	if (r < 0)
		return r;
	trace_name(safe, sizeof(safe), name);
	r = make_directory(dir_fd, safe, &t->dir_fd);
	if (r == 0)
		r = make_directory(t->dir_fd, "index", &t->index_fd);
	if (r < 0)
		return r;
	*ret = steal_ptr(t);
	return 0;
}

Trace *trace_free(Trace *t)
{
	if (!t)
		return NULL;
	for (u32 i = 0; i < t->n_unsynced; i++)
		close_fd(t->unsynced[i]);
	close_fd(t->fd);
	close_fd(t->index_fd);
	close_fd(t->dir_fd);
	free(t->name);
	free(t->index);
	free(t);
	return NULL;
}

int trace_stream_begin(Trace *t, const char *name, u64 size)
{
	int r;

	if (asprintf(&t->name, "%s.idx", name) < 0) {
		t->name = NULL;
		return -ENOMEM;
	}
	t->offset = t->begun = 0;
	t->n_carry = 0;
	t->index_size = INDEX_HEADER;
	t->index_allocated = INDEX_HEADER + 16 * INDEX_ENTRY;
	t->index = malloc(t->index_allocated);
	if (!t->index)
		return -ENOMEM;
	index_encode_header(t->index);

	r = make_file(t->dir_fd, name, &t->fd);
	if (r < 0)
		return r;
	/* only a lack of space is an answer; file systems without it say EOPNOTSUPP and are written
	 * to as is */
	while (size && fallocate(t->fd, 0, 0, (off_t)size) < 0) {
		if (errno == ENOSPC || errno == EDQUOT || errno == EFBIG)
			return -errno;
		if (errno != EINTR)
			break;
	}
	return 0;
}

/* Appends the bytes, but for those behind the last whole page. */
static int stream_append(Trace *t, struct iovec *v, int n, u64 size)
{
	u32 keep = (u32)(size % CARRY_MAX), at = keep;
	u8 kept[CARRY_MAX];
	int r;

	/* from the end: they are taken off before the rest is written */
	for (int i = n - 1; i >= 0 && at > 0; i--) {
		size_t part = MIN((size_t)at, v[i].iov_len);

		if (part == 0)
			continue;
		v[i].iov_len -= part;
		at -= (u32)part;
		memcpy(kept + at, (u8 *)v[i].iov_base + v[i].iov_len, part);
	}
	r = size > keep ? write_all(t->fd, v, n, size < DONTCACHE_SMALLEST ? NULL : &t->cached) : 0;
	if (r == 0) {
		memcpy(t->carry, kept, keep);
		t->n_carry = keep;
	}
	return r;
}

int trace_stream_packet(Trace *t, const PacketInfo *info, const void *records, size_t size)
{
	static const u8 zeros[PACKET_ALIGN];
	u8 head[PACKET_HEADER];
	PacketInfo full = *info;
	int r;

	full.content_size = PACKET_HEADER + size;
	full.packet_size = packet_size(size);
	packet_encode(head, t->uuid, &full);

	if (t->index_size + INDEX_ENTRY > t->index_allocated) {
		u8 *p = realloc(t->index, t->index_allocated * 2);

		if (!p)
			return -ENOMEM;
		t->index = p;
		t->index_allocated *= 2;
	}

	struct iovec v[] = {
	    {t->carry, t->n_carry},
	    {head, sizeof(head)},
	    {(void *)records, size},
	    {(void *)zeros, full.packet_size - full.content_size},
	};
	r = stream_append(t, v, ELEMENTSOF(v), t->n_carry + full.packet_size);
	if (r < 0)
		return r;
	index_encode_entry(t->index + t->index_size, t->offset, &full);
	t->index_size += INDEX_ENTRY;
	t->offset += full.packet_size;
	if (t->offset - t->begun >= EARLY_BYTES) {
		sync_begin(t->fd, t->begun, t->offset - t->begun);
		t->begun = t->offset;
	}
	return 0;
}

int trace_stream_end(Trace *t)
{
	struct iovec rest = {t->carry, t->n_carry};
	int r = t->n_carry ? write_all(t->fd, &rest, 1, NULL) : 0;

	if (r < 0)
		return r;
	/* `size` of the beginning may have been an estimate: a zero tail would spoil the whole
	 * trace */
	if (ftruncate(t->fd, (off_t)t->offset) < 0)
		return -errno;
	sync_begin(t->fd, t->begun, t->offset - t->begun);
	r = sync_later(t, steal_fd(t->fd));
	if (r == 0)
		r = write_file(t, t->index_fd, t->name, t->index, t->index_size);
	t->bytes += t->offset + t->index_size;
	free(t->index);
	free(t->name);
	t->index = NULL;
	t->name = NULL;
	return r;
}

int trace_finish(Trace *t, const char *metadata, size_t size)
{
	int r = write_file(t, t->dir_fd, "metadata", metadata, size);

	if (r == 0)
		r = sync_all(t);
	if (r < 0)
		return r;
	t->bytes += size;
	if (fsync(t->index_fd) < 0 || fsync(t->dir_fd) < 0)
		return -errno;
	return 0;
}

const u8 *trace_uuid(const Trace *t)
{
	return t->uuid;
}

u64 trace_bytes(const Trace *t)
{
	return t->bytes;
}
