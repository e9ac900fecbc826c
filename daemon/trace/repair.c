/* SPDX-License-Identifier: MIT */
/* A header that is whole proves nothing of its records: with mmap and with several writes on their way, either may have come
 * first. So each packet is walked to its end, and the stream ends before the first one that is not what it says. */
#include "daemon/trace/repair.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "daemon/bytes.h"
#include "daemon/trace/file.h"
#include "daemon/trace/index.h"
#include "daemon/trace/packet.h"
#include "daemon/trace/text.h"

/* PADDING_MAX: packets are padded to a block of O_DIRECT at most */
enum { BLOCK = 1 << 16, PADDING_MAX = 1 << 16 };

typedef struct {
	RepairResult *result;
	TraceBuffer buffer; /* owned */
	int error;	    /* the first */
	char where[512];    /* ... and where */
} Repair;

static void repair_fail(Repair *r, int error, const char *owner, const char *name)
{
	if (r->error)
		return;
	r->error = error;
	(void)snprintf(r->where, sizeof(r->where), "%s/%s", owner, name);
}

/* ---- one stream ---- */

/* The whole packets of a stream: their index, and where they end. */
typedef struct {
	u8 *entries; /* owned */
	size_t n, allocated;
	u64 end;
} Whole;

static int whole_add(Whole *w, const TracePacket *p)
{
	if (w->n == w->allocated) {
		size_t n = w->allocated ? w->allocated * 2 : 64;
		u8 *larger = reallocarray(w->entries, n, INDEX_ENTRY);

		if (!larger)
			return -ENOMEM;
		w->entries = larger;
		w->allocated = n;
	}
	index_encode_entry(w->entries + w->n++ * INDEX_ENTRY, p->offset, &p->info);
	w->end = p->offset + p->info.packet_size;
	return 0;
}

/* Makes the file of a stream `size` bytes long. */
static int stream_cut(int fd, const char *name, u64 size)
{
	_cleanup_close_ int file = openat(fd, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

	if (file < 0 || ftruncate(file, (off_t)size) < 0 || fsync(file) < 0)
		return -errno;
	return 0;
}

/* A packet that lacks nothing but zeros at its end gets them: its records are all there. 0, -EBADMSG: it is none of those. */
static int padding_add(TraceFile *f, int fd, const char *name, u64 offset)
{
	u8 head[PACKET_HEADER];
	PacketInfo info;
	u64 room = f->size - offset;
	int r;

	if (room < sizeof(head) || read_at(f->fd, head, sizeof(head), offset) != sizeof(head) ||
	    packet_decode(&info, head, room + PADDING_MAX, f->uuid) < 0 || info.packet_size <= room ||
	    info.content_size > room)
		return -EBADMSG;
	r = stream_cut(fd, name, offset + info.packet_size);
	if (r == 0)
		f->size = offset + info.packet_size;
	return r;
}

/* The packet behind what is whole so far. As trace_file_next(). */
static int whole_next(TraceFile *f, const Whole *w, const TracePacket *p, TracePacket *ret)
{
	return w->n == 0 ? trace_file_packet(f, 0, ret) : trace_file_next(f, p, ret);
}

static int whole_find(Repair *repair, TraceFile *f, int fd, const char *name, Whole *ret)
{
	TracePacket p = { 0 }, next;
	u64 first, end, n;
	int r;

	for (;;) {
		r = whole_next(f, ret, &p, &next);
		if (r == -EBADMSG && padding_add(f, fd, name, ret->end) == 0)
			r = whole_next(f, ret, &p, &next);
		if (r <= 0)
			break;
		r = trace_file_records(f, &next, &repair->buffer);
		if (r == 0)
			r = trace_records_within(repair->buffer.p, &next.info, 0, UINT64_MAX, &first, &end, &n);
		if (r == 0)
			r = whole_add(ret, &next);
		if (r < 0)
			break;
		p = next;
	}
	return r == -EBADMSG ? 0 : r;
}

/* Behind `from`: up to the last byte that is not 0. */
static int torn_measure(int fd, u64 from, u64 size, u64 *ret)
{
	u8 block[BLOCK];

	*ret = 0;
	for (u64 at = from; at < size; at += BLOCK) {
		ssize_t n = read_at(fd, block, MIN(size - at, (u64)BLOCK), at);

		if (n < 0)
			return (int)n;
		for (; n > 0; n--) {
			if (!block[n - 1])
				continue;
			*ret = at + (u64)n - from;
			break;
		}
	}
	return 0;
}

/* True if the index is what it has to be. */
static bool index_right(const TraceFile *f, const Whole *w)
{
	u64 size = INDEX_HEADER + (u64)w->n * INDEX_ENTRY;
	_cleanup_free_ u8 *have = malloc(size);
	struct stat st;

	return have && f->n_entries == w->n && fstat(f->index_fd, &st) == 0 && (u64)st.st_size == size &&
	       read_at(f->index_fd, have, size, 0) == (ssize_t)size &&
	       memcmp(have + INDEX_HEADER, w->entries, size - INDEX_HEADER) == 0;
}

static int write_whole(int fd, const u8 *p, size_t size)
{
	while (size > 0) {
		ssize_t n = write(fd, p, size);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		p += n;
		size -= (size_t)n;
	}
	return 0;
}

static int index_replace(int index_fd, const char *name, const Whole *w)
{
	_cleanup_free_ char *file = NULL, *temporary = NULL;
	_cleanup_close_ int fd = -1;
	u8 head[INDEX_HEADER];
	int r;

	if (asprintf(&file, "%s.idx", name) < 0) {
		file = NULL;
		return -ENOMEM;
	}
	if (asprintf(&temporary, ".%s.idx.tmp", name) < 0) {
		temporary = NULL;
		return -ENOMEM;
	}
	fd = openat(index_fd, temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0640);
	if (fd < 0 || fchmod(fd, 0640) < 0)
		return -errno;
	index_encode_header(head);
	r = write_whole(fd, head, sizeof(head));
	if (r == 0)
		r = write_whole(fd, w->entries, w->n * INDEX_ENTRY);
	if (r == 0 && (fsync(fd) < 0 || renameat(index_fd, temporary, index_fd, file) < 0))
		r = -errno;
	if (r < 0)
		(void)unlinkat(index_fd, temporary, 0);
	return r;
}

/* A stream without any packet is no stream: readers want one in each file. */
static int stream_remove(int fd, int index_fd, const char *name)
{
	_cleanup_free_ char *file = NULL;

	if (asprintf(&file, "%s.idx", name) < 0) {
		file = NULL;
		return -ENOMEM;
	}
	if (unlinkat(fd, name, 0) < 0 || (unlinkat(index_fd, file, 0) < 0 && errno != ENOENT))
		return -errno;
	return 0;
}

static int repair_stream(Repair *repair, int fd, int index_fd, const char *name, const u8 uuid[16])
{
	TraceFile f = TRACE_FILE_NULL;
	Whole w = { 0 };
	u64 torn = 0;
	int r = trace_file_open(&f, fd, name, uuid);

	if (r == 0)
		r = whole_find(repair, &f, fd, name, &w);
	if (r == 0 && w.end < f.size)
		r = torn_measure(f.fd, w.end, f.size, &torn);
	if (r == 0 && w.end < f.size) {
		if (w.n > 0)
			r = stream_cut(fd, name, w.end);
		if (r == 0) {
			repair->result->n_cut++;
			repair->result->bytes_cut += f.size - w.end;
			repair->result->bytes_torn += torn;
		}
	}
	if (r == 0 && w.n == 0)
		r = stream_remove(fd, index_fd, name);
	else if (r == 0 && !index_right(&f, &w))
		r = index_replace(index_fd, name, &w);
	if (r == 0 && w.n > 0) {
		repair->result->n_streams++;
		repair->result->n_packets += (u32)w.n;
	}
	trace_file_close(&f);
	free(w.entries);
	return r;
}

/* ---- one owner ---- */

static bool is_temporary(const char *name)
{
	size_t n = strlen(name);

	return name[0] == '.' && n > 5 && strcmp(name + n - 4, ".tmp") == 0;
}

static DIR *list_open(int at, const char *name)
{
	int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);

	if (!d)
		close_fd(fd);
	return d;
}

static bool is_directory(int at, const char *name)
{
	struct stat st;

	return fstatat(at, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode);
}

/* Indexes of no stream, and temporary ones: readers would look for what they belong to. */
static int index_sweep(int fd, int index_fd)
{
	DIR *d = list_open(index_fd, ".");

	if (!d)
		return -errno;
	for (struct dirent *e = readdir(d); e; e = readdir(d)) {
		size_t n = strlen(e->d_name);
		char name[256];
		struct stat st;

		if (is_temporary(e->d_name)) {
			(void)unlinkat(index_fd, e->d_name, 0);
			continue;
		}
		if (n < 5 || strcmp(e->d_name + n - 4, ".idx") != 0)
			continue;
		(void)snprintf(name, sizeof(name), "%.*s", (int)(n - 4), e->d_name);
		if (fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT)
			(void)unlinkat(index_fd, e->d_name, 0);
	}
	(void)closedir(d);
	return 0;
}

static void repair_streams(Repair *repair, DIR *d, int index_fd, const char *owner, const u8 uuid[16])
{
	int fd = dirfd(d);

	for (struct dirent *e = readdir(d); e; e = readdir(d)) {
		int r = 0;

		if (is_temporary(e->d_name))
			r = unlinkat(fd, e->d_name, 0) < 0 ? -errno : 0;
		else if (e->d_name[0] != '.' && strcmp(e->d_name, "metadata") != 0 && !is_directory(fd, e->d_name))
			r = repair_stream(repair, fd, index_fd, e->d_name, uuid);
		if (r < 0 && r != -EBADMSG) /* something that is no file: not ours */
			repair_fail(repair, r, owner, e->d_name);
	}
}

static int repair_owner(Repair *repair, int at, const char *owner)
{
	MetadataText text = { 0 };
	_cleanup_close_ int index_fd = -1;
	DIR *d = list_open(at, owner);
	int r;

	if (!d)
		return -errno;
	r = metadata_text_read(&text, dirfd(d));
	if (r == -ENOENT || r == -EBADMSG) {
		if (repair->result->n_unusable++ == 0)
			(void)snprintf(repair->result->unusable, sizeof(repair->result->unusable), "%s", owner);
		(void)closedir(d);
		return 0;
	}
	if (r == 0 && mkdirat(dirfd(d), "index", 0750) < 0 && errno != EEXIST)
		r = -errno;
	if (r == 0) {
		index_fd = openat(dirfd(d), "index", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
		r = index_fd < 0 ? -errno : 0;
	}
	if (r == 0) {
		repair_streams(repair, d, index_fd, owner, text.uuid);
		r = index_sweep(dirfd(d), index_fd);
	}
	if (r == 0 && (fsync(index_fd) < 0 || fsync(dirfd(d)) < 0))
		r = -errno;
	if (r == 0)
		repair->result->n_owners++;
	metadata_text_clear(&text);
	(void)closedir(d);
	return r;
}

int trace_repair(int dir_fd, const char *name, RepairResult *ret, Failure *f)
{
	RepairResult result = { 0 };
	Repair repair = { .result = &result };
	DIR *d = list_open(dir_fd, name);

	*ret = result;
	if (!d)
		return failure_set(f, FAILURE_IO, "%s: cannot be repaired: %s", name, strerror(errno));
	for (struct dirent *e = readdir(d); e; e = readdir(d)) {
		int r;

		if (e->d_name[0] == '.' || !is_directory(dirfd(d), e->d_name))
			continue;
		r = repair_owner(&repair, dirfd(d), e->d_name);
		if (r < 0)
			repair_fail(&repair, r, e->d_name, "");
	}
	(void)closedir(d);
	trace_buffer_clear(&repair.buffer);
	*ret = result;
	if (repair.error == -ENOMEM)
		return failure_set(f, FAILURE_NO_MEMORY, "%s/%s: cannot be repaired: out of memory", name,
				   repair.where);
	if (repair.error)
		return failure_set(f, FAILURE_IO, "%s/%s: cannot be repaired: %s", name, repair.where,
				   strerror(-repair.error));
	return 0;
}
