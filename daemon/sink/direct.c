/* SPDX-License-Identifier: MIT */
/* The strategy `direct`: O_DIRECT past the page cache, from buffers of the set's own, while the next packets are copied.
 *
 * A file has one request on its way at a time, of as many packets as have gathered meanwhile; the files of a set are written
 * side by side. More than one request would end in any order, and a write that ends early makes the file longer: a reader
 * would find a hole in front of it, and keep it if the earlier one fails. A file system does not write one growing file in
 * parallel either. So the file always ends at the last packet before which nothing is missing.
 *
 * A request that fails is done once more by pwritev2, whose answer counts (it is final, where the queue may be out of some
 * memory). If that fails, the packets stay where they are, and sink_flush() and the next packet try again; a file that has
 * failed takes nothing until they are out, so that it does not take the buffers away from the others. */
#include "daemon/sink/kind.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "daemon/sink/fault.h"
#include "daemon/sink/pool.h"
#include "daemon/sink/uring.h"

/* What disks and file systems ask for at most. */
#define ALIGN 4096u
/* So much goes out at once, unless it is asked for earlier: requests of a quarter of that cost more than twice as much for each
 * byte. */
#define GATHER (1u << 20)

typedef struct DirectSink DirectSink;

typedef struct {
	Pool pool;
	Uring *uring; /* NULL: none to be had, all is written at once */
	DirectSink *sinks;
} Shared;

struct DirectSink {
	Sink sink;
	DirectSink *next;
	Buffer *first, **end; /* packets that are not in the file yet */
	u32 n_queued;
	u64 whole;   /* where the first of them goes */
	u64 partial; /* ... and what of it is written */
	bool flying; /* a request is on its way */
	bool no_room; /* the file system does not allocate ahead */
	int error;   /* of the last try */
};

static Shared *shared_of(const DirectSink *d)
{
	return d->sink.set->shared;
}

/* ---- the queue of a file ---- */

static u32 queue_vectors(const DirectSink *d, struct iovec v[POOL_BUFFERS])
{
	u64 skip = d->partial;
	u32 n = 0;

	for (const Buffer *b = d->first; b; b = b->next, skip = 0)
		v[n++] = (struct iovec){b->memory + skip, b->size - skip};
	return n;
}

static void queue_drop_first(DirectSink *d)
{
	Buffer *b = d->first;

	d->first = b->next;
	if (!d->first)
		d->end = &d->first;
	d->n_queued--;
	pool_give(&shared_of(d)->pool, b);
}

/* `bytes` more are written. False: too few to go on behind them. */
static bool queue_advance(DirectSink *d, u64 bytes)
{
	u64 before = d->whole + d->partial;

	d->partial += bytes;
	while (d->first && d->partial >= d->first->size) {
		d->whole += d->first->size;
		d->partial -= d->first->size;
		if (d->first->mark)
			d->sink.mark = d->first->mark;
		queue_drop_first(d);
	}
	d->partial &= ~(u64)(ALIGN - 1);
	return d->whole + d->partial > before;
}

/* ---- requests ---- */

static void fail(DirectSink *d, int error)
{
	struct stat st;

	d->error = error;
	d->partial = 0;
	/* the size is left alone where it is right: cutting gives back what is allocated ahead */
	if (fstat(d->sink.file.fd, &st) < 0 || (u64)st.st_size > d->whole)
		(void)file_cut(&d->sink.file, d->whole);
}

static void write_now(DirectSink *d)
{
	while (d->first) {
		struct iovec v[POOL_BUFFERS];
		u32 n = queue_vectors(d, v);
		ssize_t r = file_write_some(d->sink.file.fd, v, n, d->whole + d->partial, 0);

		if (r < 0 || !queue_advance(d, (u64)r)) {
			fail(d, r < 0 ? (int)r : -EIO);
			return;
		}
	}
}

/* No other file has anything to write. A queue could only hand the request to a thread of the kernel (one that makes its file
 * longer does not begin without waiting), and two wakings cost as much as the write. */
static bool is_alone(const DirectSink *d)
{
	for (const DirectSink *other = shared_of(d)->sinks; other; other = other->next)
		if (other != d && other->first)
			return false;
	return true;
}

static void start(DirectSink *d)
{
	Shared *shared = shared_of(d);
	struct iovec v[POOL_BUFFERS];

	if (d->flying || !d->first || d->error)
		return;
	if (shared->uring && !is_alone(d) && uring_write(shared->uring, d->sink.file.fd, v, queue_vectors(d, v),
					 d->whole + d->partial, d) == 0)
		d->flying = true;
	else
		write_now(d);
}

/* Takes in what is done; with `wait`, one at least. False: there was nothing. */
static bool reap(Shared *shared, bool wait)
{
	bool any = false;
	ssize_t result;
	void *tag;

	while (shared->uring && uring_reap(shared->uring, wait && !any, &tag, &result)) {
		DirectSink *d = tag;

		any = true;
		d->flying = false;
		if (result > 0 && queue_advance(d, (u64)result))
			start(d);
		else
			write_now(d);
	}
	return any;
}

static void settle(DirectSink *d)
{
	while (d->flying)
		(void)reap(shared_of(d), true);
}

/* ---- room and trying again ---- */

/* Nothing is on its way: what is cut off in here must not be what a request has just written. */
static int make_room(DirectSink *d, u64 end)
{
	int r = d->no_room ? 0 : file_make_room(&d->sink.file, end);

	return r == -EOPNOTSUPP ? 0 : r;
}

static int retry(DirectSink *d)
{
	if (d->error) {
		d->error = make_room(d, d->sink.size);
		start(d);
		settle(d);
	}
	return d->error;
}

/* No buffer is free, and none on its way. 0: there are now. */
static int retry_all(Shared *shared)
{
	int first = -ENOMEM;
	bool any = false;

	for (DirectSink *d = shared->sinks; d; d = d->next) {
		if (!d->error)
			continue;
		if (retry(d) == 0)
			any = true;
		else if (first == -ENOMEM)
			first = d->error;
	}
	return any ? 0 : first;
}

static int take_buffer(DirectSink *d, u64 size, Buffer **ret)
{
	Shared *shared = shared_of(d);
	/* who is not alone leaves some to the others, whatever becomes of him */
	u32 most = shared->sinks->next ? POOL_BUFFERS / 2 : POOL_BUFFERS;

	for (;;) {
		int r = d->n_queued < most ? pool_take(&shared->pool, size, ret) : -EBUSY;

		if (r != -EBUSY)
			return r;
		/* what has only gathered gives its buffers back too */
		for (DirectSink *other = shared->sinks; other; other = other->next)
			start(other);
		if (!reap(shared, true)) {
			/* without a queue it was written on the spot */
			r = d->n_queued < most ? pool_take(&shared->pool, size, ret) : -EBUSY;
			if (r != -EBUSY)
				return r;
			r = retry_all(shared);
			if (r < 0)
				return r;
		}
		if (d->error)
			return d->error;
	}
}

/* ---- the table ---- */

static int direct_set_up(SinkSet *set)
{
	Shared *shared = calloc(1, sizeof(*shared));
	int r = shared ? fault_install() : -ENOMEM;

	if (r < 0) {
		free(shared);
		return r;
	}
	/* Without it all works, one write after the other. */
	if (uring_new(&shared->uring, POOL_BUFFERS) < 0)
		shared->uring = NULL;
	set->shared = shared;
	return 0;
}

static void direct_tear_down(SinkSet *set)
{
	Shared *shared = set->shared;

	shared->uring = uring_free(shared->uring);
	pool_clear(&shared->pool);
	free(shared);
	set->shared = NULL;
}

static void direct_settle(SinkSet *set)
{
	while (reap(set->shared, true))
		;
}

/* Whether the file takes aligned writes past the page cache; sets O_DIRECT. */
static int make_direct(int fd)
{
	struct statfs fs;
	struct statx x;
	int flags = fcntl(fd, F_GETFL);

	if (fstatfs(fd, &fs) < 0 || flags < 0)
		return -errno;
	/* Memory takes the flag since Linux 6.6, and is nothing but page cache. */
	if (fs.f_type == TMPFS_MAGIC || fs.f_type == RAMFS_MAGIC)
		return -EOPNOTSUPP;
	/* Not at creation: a file system that refuses it there has made the file nevertheless. */
	if (fcntl(fd, F_SETFL, flags | O_DIRECT) < 0)
		return errno == EINVAL ? -EOPNOTSUPP : -errno;
	if (statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &x) == 0 && (x.stx_mask & STATX_DIOALIGN) &&
	    (x.stx_dio_offset_align == 0 || x.stx_dio_offset_align > ALIGN || x.stx_dio_mem_align > ALIGN))
		return -EOPNOTSUPP;
	return 0;
}

static int direct_open(Sink *s)
{
	DirectSink *d = container_of(s, DirectSink, sink);
	int r = make_direct(s->file.fd);

	if (r < 0)
		return r;
	/* A full disk is no reason not to begin: it is an answer to the first packet. */
	if (fallocate(s->file.fd, FALLOC_FL_KEEP_SIZE, 0, ALIGN) < 0 && (errno == EOPNOTSUPP || errno == ENOSYS)) {
		/* growing block by block, it would be slower than the page cache */
		if (s->set->io == IO_AUTO)
			return -EOPNOTSUPP;
		d->no_room = true;
	}
	d->end = &d->first;
	d->next = shared_of(d)->sinks;
	shared_of(d)->sinks = d;
	return 0;
}

static int direct_append(Sink *s, const SinkPacket *p)
{
	DirectSink *d = container_of(s, DirectSink, sink);
	u64 used = p->head_size + p->records_size;
	Buffer *b;
	int r;

	(void)reap(shared_of(d), false);
	r = retry(d);
	if (r == 0 && s->size + p->size > s->file.room && !d->no_room) {
		settle(d);
		r = d->error ? d->error : make_room(d, s->size + p->size);
	}
	if (r == 0)
		r = take_buffer(d, p->size, &b);
	if (r < 0)
		return r;
	if (p->head_size > 0)
		memcpy(b->memory, p->head, p->head_size);
	r = fault_copy(b->memory + p->head_size, p->records, p->records_size);
	if (r < 0) {
		pool_give(&shared_of(d)->pool, b);
		return r;
	}
	memset(b->memory + used, 0, p->size - used);
	b->size = p->size;
	b->n_records = p->n_records;
	b->mark = p->mark;
	*d->end = b;
	d->end = &b->next;
	d->n_queued++;
	s->size += p->size;
	if (s->size - d->whole >= GATHER)
		start(d);
	return 0;
}

static void direct_push(Sink *s)
{
	start(container_of(s, DirectSink, sink));
}

static int direct_flush(Sink *s)
{
	DirectSink *d = container_of(s, DirectSink, sink);
	int r;

	r = retry(d);
	do {
		start(d);
		settle(d);
	} while (d->first && !d->error);
	return r < 0 ? r : d->error;
}

static void direct_close(Sink *s, u64 *ret_whole, u64 *ret_lost)
{
	DirectSink *d = container_of(s, DirectSink, sink), **at;

	settle(d);
	*ret_whole = d->whole;
	*ret_lost = 0;
	while (d->first) {
		*ret_lost += d->first->n_records;
		queue_drop_first(d);
	}
	for (at = &shared_of(d)->sinks; *at != d;)
		at = &(*at)->next;
	*at = d->next;
}

const SinkKind sink_direct_kind = {
	.name = "direct",
	.align = ALIGN,
	.size = sizeof(DirectSink),
	.set_up = direct_set_up,
	.tear_down = direct_tear_down,
	.settle = direct_settle,
	.open = direct_open,
	.append = direct_append,
	.push = direct_push,
	.flush = direct_flush,
	.close = direct_close,
};
