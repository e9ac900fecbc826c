/* SPDX-License-Identifier: MIT */
#include "daemon/trace/file.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "daemon/bytes.h"
#include "daemon/trace/index.h"
#include "daemon/trace/packet.h"

/* ---- packets ---- */

int trace_file_packet(TraceFile *f, u64 offset, TracePacket *ret)
{
	u8 head[PACKET_HEADER];
	ssize_t n;

	if (offset >= f->size)
		return offset == f->size ? 0 : -EBADMSG;
	n = read_at(f->fd, head, sizeof(head), offset);
	if (n < 0)
		return (int)n;
	f->touched++;
	ret->offset = offset;
	if (n != sizeof(head) || packet_decode(&ret->info, head, f->size - offset, f->uuid) < 0)
		return -EBADMSG;
	return 1;
}

int trace_file_next(TraceFile *f, const TracePacket *p, TracePacket *ret)
{
	TracePacket next;
	int r = trace_file_packet(f, p->offset + p->info.packet_size, &next);

	if (r <= 0)
		return r;
	/* readers give up a trace where that is not so */
	if (next.info.begin < p->info.end || next.info.discarded < p->info.discarded ||
	    next.info.sequence <= p->info.sequence)
		return -EBADMSG;
	*ret = next;
	return 1;
}

/* ---- the index ---- */

/* Entry i, and the packet that it names, if both say the same. */
static int entry_read(TraceFile *f, u64 i, TracePacket *ret)
{
	u8 entry[INDEX_ENTRY];
	TracePacket said;
	ssize_t n = read_at(f->index_fd, entry, sizeof(entry), INDEX_HEADER + i * INDEX_ENTRY);
	int r;

	if (n != sizeof(entry))
		return n < 0 ? (int)n : -EBADMSG;
	index_decode_entry(&said.offset, &said.info, entry);
	r = trace_file_packet(f, said.offset, ret);
	if (r <= 0)
		return r < 0 ? r : -EBADMSG;
	if (ret->info.begin != said.info.begin || ret->info.end != said.info.end ||
	    ret->info.packet_size != said.info.packet_size || ret->info.sequence != said.info.sequence)
		return -EBADMSG;
	return 0;
}

static void index_open(TraceFile *f, int dir_fd, const char *name)
{
	_cleanup_free_ char *path = NULL;
	u8 head[INDEX_HEADER];
	TracePacket first, last;
	struct stat st;
	size_t n;

	if (asprintf(&path, "index/%s.idx", name) < 0) {
		path = NULL;
		return;
	}
	f->index_fd = openat(dir_fd, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (f->index_fd < 0 || fstat(f->index_fd, &st) < 0 || !S_ISREG(st.st_mode) ||
	    read_at(f->index_fd, head, sizeof(head), 0) != sizeof(head) ||
	    index_check(head, sizeof(head), &n) < 0)
		return;
	/* one that is written as we look may end in half an entry */
	f->n_entries = ((u64)st.st_size - INDEX_HEADER) / INDEX_ENTRY;
	if (f->n_entries == 0)
		return;
	if (entry_read(f, 0, &first) < 0 || first.offset != 0 || entry_read(f, f->n_entries - 1, &last) < 0) {
		f->n_entries = 0;
		return;
	}
}

int trace_file_open(TraceFile *ret, int dir_fd, const char *name, const u8 uuid[16])
{
	TraceFile f = TRACE_FILE_NULL;
	struct stat st;
	int r = 0;

	memcpy(f.uuid, uuid, sizeof(f.uuid));
	f.fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (f.fd < 0)
		return errno == ELOOP ? -EBADMSG : -errno;
	if (fstat(f.fd, &st) < 0)
		r = -errno;
	else if (!S_ISREG(st.st_mode))
		r = -EBADMSG;
	if (r < 0) {
		trace_file_close(&f);
		return r;
	}
	f.size = (u64)st.st_size;
	index_open(&f, dir_fd, name);
	*ret = f;
	return 0;
}

void trace_file_close(TraceFile *f)
{
	close_fd(f->fd);
	close_fd(f->index_fd);
	*f = TRACE_FILE_NULL;
}

/* ---- searching ---- */

/* From the packet *at on, which ends too early. */
static int walk_find(TraceFile *f, u64 time, TracePacket at, TracePacket *ret, TracePacket *ret_before)
{
	for (;;) {
		TracePacket next;
		int r = trace_file_next(f, &at, &next);

		if (r <= 0)
			return r;
		if (next.info.end >= time) {
			*ret = next;
			*ret_before = at;
			return 1;
		}
		at = next;
	}
}

static int walk_from_start(TraceFile *f, u64 time, TracePacket *ret, TracePacket *ret_before)
{
	TracePacket first;
	int r = trace_file_packet(f, 0, &first);

	if (r <= 0)
		return r;
	if (first.info.end >= time) {
		*ret = first;
		*ret_before = (TracePacket){ .offset = UINT64_MAX };
		return 1;
	}
	return walk_find(f, time, first, ret, ret_before);
}

/* The same by the index: -ESTALE if it contradicts the file or itself. Where times never go back in the file, what is found
 * is right whatever the rest of the index says: the packet ends late enough, and the one in front of it, which touches it,
 * does not. */
static int index_find(TraceFile *f, u64 time, TracePacket *ret, TracePacket *ret_before)
{
	u64 low = 0, high = f->n_entries; /* the first that ends late enough is in [low, high] */
	TracePacket last = { 0 };

	while (low < high) {
		u64 middle = low + (high - low) / 2;
		TracePacket p;
		int r = entry_read(f, middle, &p);

		if (r < 0)
			return r == -EBADMSG ? -ESTALE : r;
		if (p.info.end < time) {
			low = middle + 1;
		} else {
			high = middle;
			*ret = p;
		}
	}
	*ret_before = (TracePacket){ .offset = UINT64_MAX };
	if (low > 0) {
		int r = entry_read(f, low - 1, &last);

		if (r < 0)
			return r == -EBADMSG ? -ESTALE : r;
		*ret_before = last;
		if (last.info.end >= time)
			return -ESTALE;
	}
	if (low == f->n_entries) /* behind all that the index has: a file that it has not caught up with */
		return walk_find(f, time, *ret_before, ret, ret_before);
	if (low == 0 ? ret->offset != 0 : ret->offset != last.offset + last.info.packet_size)
		return -ESTALE;
	return 1;
}

int trace_file_find(TraceFile *f, u64 time, TracePacket *ret, TracePacket *ret_before)
{
	if (f->n_entries > 0) {
		int r = index_find(f, time, ret, ret_before);

		if (r != -ESTALE)
			return r;
		f->n_entries = 0;
	}
	return walk_from_start(f, time, ret, ret_before);
}

int trace_file_last(TraceFile *f, TracePacket *ret, bool *ret_broken)
{
	TracePacket p;
	int r;

	if (f->n_entries == 0 || entry_read(f, f->n_entries - 1, &p) < 0) {
		r = trace_file_packet(f, 0, &p);
		if (r <= 0) {
			if (ret_broken)
				*ret_broken = r == -EBADMSG;
			return r == -EBADMSG ? 0 : r;
		}
	}
	do {
		*ret = p;
		r = trace_file_next(f, ret, &p);
	} while (r > 0);
	if (ret_broken)
		*ret_broken = r == -EBADMSG;
	return r < 0 && r != -EBADMSG ? r : 1;
}

/* ---- records ---- */

int trace_file_records(TraceFile *f, const TracePacket *p, TraceBuffer *buffer)
{
	u64 size = p->info.content_size - PACKET_HEADER, room = ALIGN_UP(size, 4ull);
	ssize_t n;

	/* no ring has sub-buffers as large; a file that says so would only cost memory */
	if (room >= UINT32_MAX)
		return -EBADMSG;
	if (room > buffer->allocated) {
		u8 *larger = realloc(buffer->p, room);

		if (!larger)
			return -ENOMEM;
		buffer->p = larger;
		buffer->allocated = room;
	}
	if (size == 0)
		return 0;
	n = read_at(f->fd, buffer->p, size, p->offset + PACKET_HEADER);
	if (n < 0)
		return (int)n;
	if ((u64)n != size)
		return -EBADMSG;
	memset(buffer->p + size, 0, room - size);
	return 0;
}

void trace_buffer_clear(TraceBuffer *b)
{
	free(b->p);
	*b = (TraceBuffer){ 0 };
}

int trace_records_within(const u8 *p, const PacketInfo *info, u64 from, u64 to, u64 *ret_first, u64 *ret_end,
			 u64 *ret_n)
{
	u64 at = 0, clock = info->begin, before = info->begin, size = info->content_size - PACKET_HEADER;

	*ret_first = *ret_end = *ret_n = 0;
	while (at < size) {
		struct record r;
		u32 step = record_parse(p + at, ALIGN_UP(size, 4ull) - at, &clock, &r);

		/* the content ends with its last record, without the padding of that */
		if (step == 0 || at + r.length > size || r.time < before || r.time > info->end)
			return -EBADMSG;
		before = r.time;
		if (r.time > to)
			return 0;
		if (r.time >= from) {
			if ((*ret_n)++ == 0)
				*ret_first = at;
			*ret_end = at + r.length;
		}
		at += step;
	}
	return 0;
}
