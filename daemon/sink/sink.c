/* SPDX-License-Identifier: MIT */
#include "daemon/sink/sink.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "daemon/absent.h"
#include "daemon/sink/kind.h"

static const SinkKind *const kinds[] = {
	[IO_WRITE] = &sink_write_kind,
	[IO_MMAP] = &sink_mmap_kind,
	[IO_SPLICE] = &sink_splice_kind,
	[IO_DIRECT] = &sink_direct_kind,
};

/* A file that would grow beyond RLIMIT_FSIZE is an error like a full disk; what the kernel sends with it by default ends the
 * process. Who has a handler keeps it. */
static void ignore_sigxfsz(void)
{
	struct sigaction old;

	if (sigaction(SIGXFSZ, NULL, &old) == 0 && !(old.sa_flags & SA_SIGINFO) && old.sa_handler == SIG_DFL)
		(void)signal(SIGXFSZ, SIG_IGN);
}

/* ---- the set ---- */

static int set_choose(SinkSet *s, const SinkKind *kind)
{
	int r = kind->set_up ? kind->set_up(s) : 0;

	if (r == 0)
		s->kind = kind;
	return r;
}

static void set_unchoose(SinkSet *s)
{
	if (s->kind && s->kind->tear_down)
		s->kind->tear_down(s);
	s->kind = NULL;
}

int sink_set_new(SinkSet **ret, Io io)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	_cleanup_(sink_set_freep) SinkSet *s = calloc(1, sizeof(*s));
	int r;

	if (!s)
		return -ENOMEM;
	(void)pthread_once(&once, ignore_sigxfsz);
	s->io = io;
	if (io != IO_AUTO) {
		if ((size_t)io >= ELEMENTSOF(kinds) || !kinds[io])
			return -EINVAL;
		r = set_choose(s, kinds[io]);
		if (r < 0)
			return r;
	}
	*ret = steal_ptr(s);
	return 0;
}

SinkSet *sink_set_free(SinkSet *s)
{
	if (!s)
		return NULL;
	set_unchoose(s);
	free(s);
	return NULL;
}

const char *sink_set_name(const SinkSet *s)
{
	return s->kind ? s->kind->name : "auto";
}

u32 sink_align(const SinkSet *s)
{
	/* what suits every strategy, while it is not known which it will be */
	return s->kind ? s->kind->align : sink_direct_kind.align;
}

void sink_set_settle(SinkSet *s)
{
	if (s->kind && s->kind->settle)
		s->kind->settle(s);
}

/* ---- a file ---- */

static int open_as(Sink **ret, SinkSet *set, int dir_fd, const char *name)
{
	_cleanup_free_ Sink *s = calloc(1, set->kind->size);
	int r = 0;

	if (!s)
		return -ENOMEM;
	s->set = set;
	s->file = FILE_INIT;
	/* to be read as well: a shared mapping that is written needs it */
	s->file.fd = openat(dir_fd, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0640);
	if (s->file.fd < 0)
		return -errno;
	/* modes are set, not left to the umask */
	if (fchmod(s->file.fd, 0640) < 0)
		r = -errno;
	if (r == 0 && set->kind->open)
		r = set->kind->open(s);
	if (r < 0) {
		close_fd(s->file.fd);
		(void)unlinkat(dir_fd, name, 0);
		return r;
	}
	*ret = steal_ptr(s);
	return 0;
}

int sink_open(Sink **ret, SinkSet *set, int dir_fd, const char *name)
{
	static const SinkKind *const best[] = {&sink_direct_kind, &sink_write_kind};
	int r = -EOPNOTSUPP;

	if (set->kind)
		return open_as(ret, set, dir_fd, name);
	for (size_t i = 0; i < ELEMENTSOF(best) && r == -EOPNOTSUPP; i++) {
		r = set_choose(set, best[i]);
		if (r == 0)
			r = open_as(ret, set, dir_fd, name);
		/* what failed for another reason than the file system has decided nothing */
		if (r < 0)
			set_unchoose(set);
	}
	return r;
}

/* Found out before anything is taken: strategies would meet the limit each in its own way, and `direct` only when the packet has
 * long been taken, with -EINVAL for a limit that is no multiple of anything. */
static bool is_limited(u64 end)
{
	struct rlimit l;

	return getrlimit(RLIMIT_FSIZE, &l) == 0 && l.rlim_cur != RLIM_INFINITY && end > l.rlim_cur;
}

int sink_append(Sink *s, const SinkPacket *p)
{
	int r;

	if (p->size == 0 || p->size % s->set->kind->align != 0 || p->records_size > p->size ||
	    p->head_size > p->size - p->records_size)
		return -EINVAL;
	if (is_limited(s->size + p->size))
		return -EFBIG;
	r = s->set->kind->append(s, p);
	if (r == 0 && !s->set->kind->settle && p->mark)
		s->mark = p->mark;
	return r;
}

u64 sink_mark(const Sink *s)
{
	return s->mark;
}

void sink_push(Sink *s)
{
	if (s->set->kind->push)
		s->set->kind->push(s);
}

int sink_flush(Sink *s)
{
	int r = s->set->kind->flush ? s->set->kind->flush(s) : 0;
	int late = file_take_error(&s->file);

	if (r == 0 && s->file.torn)
		r = file_cut(&s->file, s->size);
	return r < 0 ? r : late;
}

u64 sink_size(const Sink *s)
{
	return s->size;
}

bool sink_present(const Sink *s)
{
	struct stat st;

	return fstat(s->file.fd, &st) < 0 ? !error_is_absence(errno) : st.st_nlink > 0;
}

/* ---- the end ---- */

/* Frees all but the file: returns its descriptor. */
static int sink_close(Sink *s, u64 *ret_whole, u64 *ret_lost)
{
	int fd = s->file.fd;

	*ret_whole = s->size;
	*ret_lost = 0;
	if (s->set->kind->close)
		s->set->kind->close(s, ret_whole, ret_lost);
	free(s);
	return fd;
}

int sink_finish(Sink *s, int *ret_fd)
{
	u64 whole, lost;
	int r = sink_flush(s);

	/* also where nothing is behind the end: it gives back the blocks that were allocated ahead */
	if (r == 0)
		r = file_cut(&s->file, s->size);
	if (r < 0)
		return r;
	*ret_fd = sink_close(s, &whole, &lost);
	return 0;
}

u64 sink_abandon(Sink *s)
{
	File f = FILE_INIT;
	u64 whole, lost;

	if (!s)
		return 0;
	f.fd = sink_close(s, &whole, &lost);
	/* the last word: there is nobody left to try again */
	(void)file_cut(&f, whole);
	close_fd(f.fd);
	return lost;
}
