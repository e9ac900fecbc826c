/* SPDX-License-Identifier: MIT */
/* The strategy `write`: whole packets by pwritev2 through the page cache, which is kept small. Works on every file system, and
 * is what the others fall back to. */
#include "daemon/sink/kind.h"

#include <fcntl.h>

#ifndef RWF_DONTCACHE
#define RWF_DONTCACHE 0x80 /* Linux 6.14: written at once, and out of the page cache when it is done */
#endif

/* Smaller packets would make many small requests to the disk, and have pages that they share read again: they are gathered in
 * the page cache, and written back early. */
#define DONTCACHE_SMALLEST (128u << 10)

int sink_write_packet(Sink *s, const SinkPacket *p, u64 from)
{
	File *f = &s->file;
	int flags = !f->cached && p->size >= DONTCACHE_SMALLEST ? RWF_DONTCACHE : 0;

	while (from < p->size) {
		struct iovec v[FILE_VECTORS];
		u32 n = file_vectors(p, from, v);
		ssize_t done = file_write_some(f->fd, v, n, s->size + from, flags);

		if (done < 0 && flags && (done == -EOPNOTSUPP || done == -EINVAL)) {
			f->cached = true;
			flags = 0;
			continue;
		}
		if (done < 0) {
			/* what is there of it would be read as a packet */
			(void)file_cut(f, s->size);
			return (int)done;
		}
		from += (u64)done;
	}
	s->size += p->size;
	/* half a packet that could not be cut off is overwritten now, but may have been the longer one */
	if (f->torn)
		(void)file_cut(f, s->size);
	file_write_back(f, s->size);
	return 0;
}

static int write_append(Sink *s, const SinkPacket *p)
{
	return sink_write_packet(s, p, 0);
}

const SinkKind sink_write_kind = {
	.name = "write",
	.align = 8,
	.size = sizeof(Sink),
	.append = write_append,
};
