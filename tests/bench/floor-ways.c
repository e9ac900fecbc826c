/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/uio.h>
#include <unistd.h>

#include "floor.h"

#ifndef RWF_DONTCACHE
#define RWF_DONTCACHE 0x80 /* Linux 6.14 */
#endif

#define PAGE   4096ull
#define BEHIND 8 /* pieces that early write-back has under way */

void floor_bytes(void *to, uint64_t at, uint64_t n, uint64_t period)
{
	uint64_t *word = to;

	for (uint64_t i = 0; i < n / 32; i++, word += 4) {
		uint64_t k = (at + 32 * i) % period / 32;

		word[0] = k;
		word[1] = k * 0x9e3779b97f4a7c15;
		word[2] = ~k;
		word[3] = word[1] >> 32;
	}
}

/* The next n bytes, in memory of ours. Made on the spot they use the same buffer again and again, as a program's would. */
static uint8_t *bytes_here(const Floor *f, uint64_t at, uint64_t n)
{
	if (!f->fill)
		return f->ring + (at & (f->ring_size - 1));
	floor_bytes(f->ring, at, n, f->ring_size);
	return f->ring;
}

/* The next n bytes, at `to`. */
static void bytes_there(const Floor *f, void *to, uint64_t at, uint64_t n)
{
	if (f->fill)
		floor_bytes(to, at, n, f->ring_size);
	else
		memcpy(to, f->ring + (at & (f->ring_size - 1)), n);
}

static int write_whole(int fd, const uint8_t *bytes, uint64_t n, uint64_t at, int flags)
{
	while (n) {
		struct iovec v = { (void *)bytes, n };
		ssize_t done = flags ? pwritev2(fd, &v, 1, (off_t)at, flags) : pwrite(fd, bytes, n, (off_t)at);

		if (done < 0 && errno == EINTR)
			continue;
		if (done <= 0)
			return done ? -errno : -EIO;
		bytes += done, at += (uint64_t)done, n -= (uint64_t)done;
	}
	return 0;
}

static int write_by(const Floor *f, uint64_t n, int flags)
{
	int r = 0;

	for (uint64_t at = 0; r >= 0 && at < f->size; at += n)
		r = write_whole(f->fd, bytes_here(f, at, n), n, at, flags);
	return r;
}

static int run_write_4k(const Floor *f)
{
	return write_by(f, PAGE, 0);
}

static int run_write(const Floor *f)
{
	return write_by(f, f->piece, 0);
}

static int run_dontcache(const Floor *f)
{
	return write_by(f, f->piece, RWF_DONTCACHE);
}

static int run_direct(const Floor *f)
{
	/* blocks that are there already: a write that extends the file waits for the journal */
	if (fallocate(f->fd, 0, 0, (off_t)f->size) < 0)
		return -errno;
	return write_by(f, f->piece, 0);
}

/* Write-back of a piece begins when it is written; one that is some pieces behind is waited for and dropped. */
static int run_write_behind(const Floor *f)
{
	const unsigned wait = SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;

	for (uint64_t at = 0; at < f->size; at += f->piece) {
		off_t behind = (off_t)at - (off_t)(BEHIND * f->piece);
		int r = write_whole(f->fd, bytes_here(f, at, f->piece), f->piece, at, 0);

		if (r < 0)
			return r;
		if (sync_file_range(f->fd, (off_t)at, (off_t)f->piece, SYNC_FILE_RANGE_WRITE) < 0)
			return -errno;
		if (behind < 0)
			continue;
		if (sync_file_range(f->fd, behind, (off_t)f->piece, wait) < 0)
			return -errno;
		r = posix_fadvise(f->fd, behind, (off_t)f->piece, POSIX_FADV_DONTNEED);
		if (r)
			return -r;
	}
	return 0;
}

static int run_sendfile(const Floor *f)
{
	for (uint64_t at = 0; at < f->size; at += f->piece) {
		off_t from = bytes_here(f, at, f->piece) - f->ring;

		for (uint64_t left = f->piece; left;) {
			ssize_t n = sendfile(f->fd, f->ring_fd, &from, left);

			if (n <= 0)
				return n ? -errno : -EIO;
			left -= (uint64_t)n;
		}
	}
	return 0;
}

static int splice_whole(int from_fd, loff_t *from, int to_fd, uint64_t n)
{
	while (n) {
		ssize_t done = splice(from_fd, from, to_fd, NULL, n, SPLICE_F_MOVE);

		if (done <= 0)
			return done ? -errno : -EIO;
		n -= (uint64_t)done;
		if (from) /* into the pipe: as much as it holds */
			return (int)done;
	}
	return 0;
}

static int run_splice(const Floor *f)
{
	int ends[2], r = 0;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	(void)fcntl(ends[1], F_SETPIPE_SZ, 1 << 20); /* smaller is slower, no more */
	for (uint64_t at = 0; r >= 0 && at < f->size; at += f->piece) {
		loff_t from = bytes_here(f, at, f->piece) - f->ring;

		for (uint64_t left = f->piece; left; left -= (uint64_t)r) {
			int n = r = splice_whole(f->ring_fd, &from, ends[1], left);

			if (r >= 0)
				r = splice_whole(ends[0], NULL, f->fd, (uint64_t)n);
			if (r < 0)
				break;
			r = n;
		}
	}
	close(ends[0]);
	close(ends[1]);
	return r < 0 ? r : 0;
}

static int fill_mapping(const Floor *f)
{
	uint8_t *map = mmap(NULL, f->size, PROT_READ | PROT_WRITE, MAP_SHARED, f->fd, 0);

	if (map == MAP_FAILED)
		return -errno;
	for (uint64_t at = 0; at < f->size; at += f->piece)
		bytes_there(f, map + at, at, f->piece);
	return munmap(map, f->size) < 0 ? -errno : 0;
}

static int run_mmap(const Floor *f)
{
	if (fallocate(f->fd, 0, 0, (off_t)f->size) < 0)
		return -errno;
	return fill_mapping(f);
}

/* ---- traps: the program writes on, and a signal makes room before it ---- */

static struct {
	const Floor *f;
	uint8_t *window;   /* anon-sigsegv */
	uint64_t reached;  /* bytes that may be touched: the end of the file, or of what is open in the window */
	uint64_t written;  /* anon-sigsegv: bytes that are in the file */
	int error;
} trap;

static void leave(int number)
{
	/* the access is taken again and kills: this is no fault of ours, or nothing more can be done */
	signal(number, SIG_DFL);
}

static void on_bus(int number, siginfo_t *info, void *context)
{
	int saved = errno;

	trap.reached += trap.f->step;
	if (trap.reached > trap.f->size + trap.f->step || ftruncate(trap.f->fd, (off_t)trap.reached) < 0)
		leave(number);
	errno = saved;
}

static int run_mmap_sigbus(const Floor *f)
{
	struct sigaction trapped = { .sa_sigaction = on_bus, .sa_flags = SA_SIGINFO | SA_NODEFER }, before;
	int r;

	trap.f = f, trap.reached = 0;
	if (sigaction(SIGBUS, &trapped, &before) < 0)
		return -errno;
	r = fill_mapping(f);
	sigaction(SIGBUS, &before, NULL);
	if (r >= 0 && trap.reached > f->size && ftruncate(f->fd, (off_t)f->size) < 0)
		r = -errno;
	return r;
}

/* What was open is full: into the file with it, its pages go back, and the next ones open. */
static void turn_over(void)
{
	uint64_t n = trap.reached - trap.written;
	uint8_t *full = trap.window + trap.written;

	if (n) {
		trap.error = write_whole(trap.f->fd, full, n, trap.written, 0);
		if (trap.error < 0)
			return;
		if (madvise(full, n, MADV_DONTNEED) < 0 || mprotect(full, n, PROT_NONE) < 0) {
			trap.error = -errno;
			return;
		}
	}
	trap.written = trap.reached;
	if (trap.reached == trap.f->size)
		return;
	if (mprotect(trap.window + trap.reached, trap.f->piece, PROT_READ | PROT_WRITE) < 0)
		trap.error = -errno;
	else
		trap.reached += trap.f->piece;
}

static void on_segv(int number, siginfo_t *info, void *context)
{
	int saved = errno;

	if ((uint8_t *)info->si_addr < trap.window + trap.reached ||
	    (uint8_t *)info->si_addr >= trap.window + trap.f->size)
		leave(number);
	else
		turn_over();
	if (trap.error < 0)
		leave(number);
	errno = saved;
}

static int run_anon_sigsegv(const Floor *f)
{
	struct sigaction trapped = { .sa_sigaction = on_segv, .sa_flags = SA_SIGINFO }, before;

	trap.f = f, trap.reached = trap.written = 0, trap.error = 0;
	trap.window = mmap(NULL, f->size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (trap.window == MAP_FAILED)
		return -errno;
	if (sigaction(SIGSEGV, &trapped, &before) < 0)
		return -errno;
	for (uint64_t at = 0; at < f->size; at += f->piece)
		bytes_there(f, trap.window + at, at, f->piece);
	turn_over(); /* the last piece: nobody touches what is behind it */
	sigaction(SIGSEGV, &before, NULL);
	munmap(trap.window, f->size);
	return trap.error;
}

const Way ways[] = {
	{ "write-4k", 0, run_write_4k, "a write per 4 KiB" },
	{ "write", 0, run_write, "a write per sub-buffer" },
	{ "write-behind", 0, run_write_behind, "the same, early write-back, dropped when done" },
	{ "dontcache", 0, run_dontcache, "the same with RWF_DONTCACHE" },
	{ "mmap", 0, run_mmap, "mmap, the whole file preallocated" },
	{ "mmap-sigbus", 0, run_mmap_sigbus, "mmap, grows by a SIGBUS trap" },
	{ "anon-sigsegv", 0, run_anon_sigsegv, "anonymous pages, written in a SIGSEGV trap" },
	{ "splice", 0, run_splice, "splice from the memfd through a pipe" },
	{ "sendfile", 0, run_sendfile, "sendfile from the memfd" },
	{ "direct", O_DIRECT, run_direct, "O_DIRECT, preallocated, a write per sub-buffer" },
};
const size_t n_ways = sizeof(ways) / sizeof(*ways);
