/* SPDX-License-Identifier: MIT */
/* The strategy `mmap`: blocks allocated ahead, behind the end of the file; a window of them mapped; the file made longer by
 * each packet, which is then copied into the mapping. A full disk is found when blocks are allocated, and who reads the file
 * while it is written finds nothing behind its last packet. */
#include "daemon/sink/kind.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/sink/fault.h"

/* Pages that are mapped cannot be dropped: as large as what is left behind (file.c). */
#define WINDOW (8ull << 20)

typedef struct {
	Sink sink;
	u8 *map; /* NULL: none */
	u64 map_offset, map_size;
	u64 page;
} MmapSink;

static void window_close(MmapSink *m)
{
	if (m->map)
		(void)munmap(m->map, m->map_size);
	m->map = NULL;
}

/* Maps [offset, offset + size), which is allocated, and some more behind it: what is behind the end of the file becomes
 * usable as the file grows. */
static int window_move(MmapSink *m, u64 offset, u64 size)
{
	u64 begin = offset & ~(m->page - 1), end = offset + size;
	void *p;

	if (m->map && begin >= m->map_offset && end <= m->map_offset + m->map_size)
		return 0;
	window_close(m);
	end = MAX(end, MIN(begin + WINDOW, m->sink.file.room));
	p = mmap(NULL, end - begin, PROT_READ | PROT_WRITE, MAP_SHARED, m->sink.file.fd, (off_t)begin);
	if (p == MAP_FAILED)
		return -errno;
	m->map = p;
	m->map_offset = begin;
	m->map_size = end - begin;
	return 0;
}

static int mmap_open(Sink *s)
{
	MmapSink *m = container_of(s, MmapSink, sink);
	int r = fault_install();

	if (r < 0)
		return r;
	m->page = (u64)sysconf(_SC_PAGESIZE);
	/* Asks whether the file system can, with as little as can be asked for: a full disk is no reason not to begin, it is
	 * an answer to the first packet. */
	if (fallocate(s->file.fd, FALLOC_FL_KEEP_SIZE, 0, (off_t)m->page) < 0 && (errno == EOPNOTSUPP || errno == ENOSYS))
		return -EOPNOTSUPP;
	return file_cut(&s->file, 0);
}

static int mmap_append(Sink *s, const SinkPacket *p)
{
	MmapSink *m = container_of(s, MmapSink, sink);
	u64 used = p->head_size + p->records_size;
	u8 *to;
	int r = file_make_room(&s->file, s->size + p->size);

	if (r == 0)
		r = window_move(m, s->size, p->size);
	if (r == 0)
		r = file_lengthen(&s->file, s->size + p->size);
	if (r < 0)
		return r;
	to = m->map + (s->size - m->map_offset);
	/* The head last: where the daemon is killed in between, there are zeros, which nobody takes for a packet. */
	r = fault_copy(to + p->head_size, p->records, p->records_size);
	if (r == 0)
		r = fault_copy(to + used, NULL, p->size - used);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	if (r == 0)
		r = fault_copy(to, p->head, p->head_size);
	if (r < 0) {
		/* Half a packet is there, and nothing is known any more of the blocks behind it: they are asked for anew. */
		window_close(m);
		s->file.room = s->size;
		(void)file_cut(&s->file, s->size);
		return r;
	}
	s->size += p->size;
	file_write_back(&s->file, s->size);
	return 0;
}

static void mmap_close(Sink *s, u64 *ret_whole, u64 *ret_lost)
{
	window_close(container_of(s, MmapSink, sink));
}

const SinkKind sink_mmap_kind = {
	.name = "mmap",
	.align = 8,
	.size = sizeof(MmapSink),
	.open = mmap_open,
	.append = mmap_append,
	.close = mmap_close,
};
