/* SPDX-License-Identifier: MIT */
/* The strategy `splice`: the ring's pages go through a pipe into the file, and no byte of them through the daemon. Returned
 * memory is the caller's: the file takes a copy of a page when it leaves the pipe. */
#include "daemon/sink/kind.h"

#include <fcntl.h>
#include <unistd.h>

/* What a process without privileges may ask for by default; less only means more calls. */
#define PIPE_WANTED (1 << 20)
#define DRAIN	    4096

/* Owned by the set: it is empty between two packets. */
typedef struct {
	int in, out;
} Pipe;

static int pipe_open(Pipe *p)
{
	int fd[2];

	if (pipe2(fd, O_CLOEXEC | O_NONBLOCK) < 0)
		return -errno;
	*p = (Pipe){.in = fd[1], .out = fd[0]};
	for (int size = PIPE_WANTED; size > 65536 && fcntl(p->in, F_SETPIPE_SZ, size) < 0;)
		size /= 2;
	return 0;
}

static void pipe_close(Pipe *p)
{
	p->in = close_fd(p->in);
	p->out = close_fd(p->out);
}

static int splice_set_up(SinkSet *set)
{
	Pipe *p = malloc(sizeof(*p));
	int r = p ? pipe_open(p) : -ENOMEM;

	if (r < 0) {
		free(p);
		return r;
	}
	set->shared = p;
	return 0;
}

static void splice_tear_down(SinkSet *set)
{
	pipe_close(set->shared);
	free(set->shared);
	set->shared = NULL;
}

/* Throws away `n` bytes that no file will have. */
static void pipe_drain(Pipe *p, u64 n)
{
	u8 bytes[DRAIN];

	while (n > 0) {
		ssize_t r = read(p->out, bytes, MIN(n, sizeof(bytes)));

		if (r < 0 && errno == EINTR)
			continue;
		if (r <= 0)
			return;
		n -= (u64)r;
	}
}

/* Moves up to `n` bytes of what comes next of the packet (from: its byte) into the pipe. Bytes moved; 0: it is full. */
static ssize_t pipe_fill(Pipe *pipe, const SinkPacket *p, u64 from)
{
	u64 end = p->head_size + p->records_size;
	ssize_t r;

	do {
		if (from < p->head_size) {
			r = write(pipe->in, (const u8 *)p->head + from, p->head_size - from);
		} else {
			loff_t at = (loff_t)(p->fd_offset + from - p->head_size);

			r = splice(p->fd, &at, pipe->in, NULL, end - from, SPLICE_F_NONBLOCK | SPLICE_F_MOVE);
		}
	} while (r < 0 && errno == EINTR);
	if (r < 0)
		return errno == EAGAIN ? 0 : -errno;
	/* the memory of a ring does not end before its records: whoever says so cannot be spliced from */
	return r == 0 ? -EINVAL : r;
}

/* Moves n bytes out of the pipe into the file; *ret: how far it came. */
static int pipe_empty(Pipe *pipe, File *f, u64 offset, u64 n, u64 *ret)
{
	*ret = 0;
	while (*ret < n) {
		loff_t at = (loff_t)(offset + *ret);
		ssize_t r = splice(pipe->out, NULL, f->fd, &at, n - *ret, SPLICE_F_MOVE);

		if (r < 0 && errno == EINTR)
			continue;
		if (r <= 0)
			return r < 0 ? -errno : -EIO;
		*ret += (u64)r;
	}
	return 0;
}

static int splice_append(Sink *s, const SinkPacket *p)
{
	Pipe *pipe = s->set->shared;
	u64 end = p->head_size + p->records_size, from = 0;

	while (p->fd >= 0 && from < end) {
		u64 filled = 0, emptied;
		ssize_t n = 0;
		int r;

		/* as much as it holds: a partial splice is gone on with */
		while (from + filled < end && (n = pipe_fill(pipe, p, from + filled)) > 0)
			filled += (u64)n;
		r = pipe_empty(pipe, &s->file, s->size + from, filled, &emptied);
		from += emptied;
		if (r == 0 && n < 0)
			r = (int)n;
		if (r == 0 && filled == 0)
			r = -EINVAL; /* empty and full: somebody else has written into it */
		if (r < 0)
			pipe_drain(pipe, filled - emptied);
		/* memory that cannot be spliced can still be read */
		if (r == -EINVAL || r == -EBADF || r == -EFAULT || r == -ENOSYS)
			break;
		if (r < 0) {
			(void)file_cut(&s->file, s->size);
			return r;
		}
	}
	return sink_write_packet(s, p, from);
}

static int splice_open(Sink *s)
{
	Pipe *pipe = s->set->shared;
	u64 emptied;
	int r;

	/* Whether the file system takes pages: asked with one byte. A full disk is no reason not to begin. */
	if (write(pipe->in, "", 1) != 1)
		return -EIO;
	r = pipe_empty(pipe, &s->file, 0, 1, &emptied);
	pipe_drain(pipe, 1 - emptied);
	if (r == -EINVAL || r == -ENOSYS)
		r = -EOPNOTSUPP;
	if (r == -EOPNOTSUPP)
		return r;
	return file_cut(&s->file, 0);
}

const SinkKind sink_splice_kind = {
	.name = "splice",
	.align = 8,
	.size = sizeof(Sink),
	.set_up = splice_set_up,
	.tear_down = splice_tear_down,
	.open = splice_open,
	.append = splice_append,
};
