/* SPDX-License-Identifier: MIT */
/* The file under a sink: whole writes, room ahead, cutting back, and a page cache that stays small. Knows no strategy.
 * Errors are negative errno. */
#pragma once

#include <sys/uio.h>

#include "daemon/sink/sink.h"

/* Room is asked for in steps of so much: seldom enough not to be felt, and what is left over at the end is given back. */
#define FILE_STEP (64ull << 20)

typedef struct {
	int fd;		/* owned */
	u64 room;	/* blocks below are there, as far as file_make_room() was asked */
	u64 started;	/* write-back was begun below, ... */
	u64 dropped;	/* ... and is done and out of the page cache below */
	int late_error;	/* of write-back: said once, by file_take_error() */
	bool torn;	/* cutting back failed: there may be something behind the last packet */
	bool cached;	/* the file system or the kernel does not know RWF_DONTCACHE */
} File;

#define FILE_INIT                                                                                  \
	(File)                                                                                     \
	{                                                                                          \
		.fd = -1                                                                           \
	}

/* What is left of a packet behind its byte `from`, as far as fits into `v`: returns how many. */
#define FILE_VECTORS 16
u32 file_vectors(const SinkPacket *p, u64 from, struct iovec v[FILE_VECTORS]);

/* One pwritev2, EINTR gone on with. Bytes written (never 0), or negative errno. */
ssize_t file_write_some(int fd, const struct iovec *v, u32 n, u64 offset, int flags);

/* The size of the file becomes `size`. On failure `torn` is set, else it is cleared. */
int file_cut(File *f, u64 size);

/* Longer than it is, with zeros; blocks behind the end stay. */
int file_lengthen(File *f, u64 size);

/* Allocates blocks up to `end` or further; the size stays. -ENOSPC only when there is no room for what is needed; what was
 * allocated on the way is then given back. -EOPNOTSUPP: the file system cannot. */
int file_make_room(File *f, u64 end);

/* Bytes below `size` are written: begins their write-back early, and drops what is some way behind, waiting for the disk if
 * it is not done. Errors of the disk come out of file_take_error(). */
void file_write_back(File *f, u64 size);
int file_take_error(File *f);
