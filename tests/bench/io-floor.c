/* SPDX-License-Identifier: MIT */
/* So many bytes into a file in one raw way, measured:
 *
 *   io-floor [OPTION...] WAY DIRECTORY
 *   io-floor --list                        the ways: NAME, tab, title
 *
 *   --size BYTES      of the file (3221225472)       --piece BYTES   of a sub-buffer (1048576)
 *   --ring BYTES      of the memfd (67108864)        --step BYTES    that mmap-sigbus grows by (1048576)
 *   --keep-free BYTES what must stay free of the file system (21474836480)
 *   --fill            the bytes are made where they go from (in a buffer, in the mapping), as a program does that writes
 *                     its own trace; otherwise they are in a memfd already, as for a daemon
 *   --sync            also the time with fdatasync     --verify        the file is read again and compared
 *
 * prints one line, "WAY KEY VALUE KEY VALUE...": time and CPU are of the thread that does it, up to the return of the last
 * call; cached and dirty are what /proc/meminfo grew by, then and at the highest. The file has no name while it is there:
 * nothing is left behind by whatever happens. Exit status 77: this kernel or file system does not do it that way. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "floor.h"

enum { EXIT_SKIP = 77 };

static void die(const char *what)
{
	fprintf(stderr, "io-floor: %s: %s\n", what, strerror(errno));
	exit(1);
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static double ms(struct timeval from, struct timeval to)
{
	return (double)(to.tv_sec - from.tv_sec) * 1e3 + (double)(to.tv_usec - from.tv_usec) / 1e3;
}

static double mib(int64_t from, int64_t to)
{
	return (double)(to - from) / (1 << 20);
}

static uint64_t number(const char *text)
{
	char *end;
	uint64_t v;

	errno = 0;
	v = strtoull(text, &end, 10);
	if (errno || end == text || *end) {
		fprintf(stderr, "io-floor: \"%s\" is no number of bytes\n", text);
		exit(2);
	}
	return v;
}

static bool power_of_two(uint64_t v)
{
	return v && !(v & (v - 1));
}

static void make_ring(Floor *f)
{
	f->ring_fd = memfd_create("ring", MFD_CLOEXEC);
	if (f->ring_fd < 0 || ftruncate(f->ring_fd, (off_t)f->ring_size) < 0)
		die("memfd");
	f->ring = mmap(NULL, f->ring_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, f->ring_fd, 0);
	if (f->ring == MAP_FAILED)
		die("mmap of the memfd");
	floor_bytes(f->ring, 0, f->ring_size, f->ring_size);
}

static int open_file(const Way *way, const char *directory, uint64_t size, uint64_t keep_free)
{
	struct statvfs fs;
	char *path;
	int fd;

	if (statvfs(directory, &fs) < 0)
		die(directory);
	if (fs.f_bavail * fs.f_frsize < size + keep_free) {
		fprintf(stderr, "io-floor: %s has %ju MiB free; a file of %ju MiB would leave less than %ju MiB: choose another "
			"directory, --size or --keep-free\n", directory, (uintmax_t)(fs.f_bavail * fs.f_frsize >> 20),
			(uintmax_t)(size >> 20), (uintmax_t)(keep_free >> 20));
		exit(1);
	}
	if (asprintf(&path, "%s/io-floor-%d", directory, getpid()) < 0)
		die("path");
	fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | way->flags, 0600);
	if (fd < 0 && errno == EINVAL && way->flags) {
		unlink(path); /* made before the flag was refused */
		printf("%s skipped\n", way->name);
		exit(EXIT_SKIP);
	}
	if (fd < 0)
		die(path);
	unlink(path);
	free(path);
	/* what others left dirty is written now, not on our time */
	if (syncfs(fd) < 0)
		die("syncfs");
	return fd;
}

static void verify(const Floor *f)
{
	uint8_t *is = aligned_alloc(4096, f->piece), *should = malloc(f->piece);
	off_t end = lseek(f->fd, 0, SEEK_END);

	if (!is || !should)
		die("malloc");
	if (end != (off_t)f->size) {
		fprintf(stderr, "io-floor: the file has %jd bytes, not %ju\n", (intmax_t)end, (uintmax_t)f->size);
		exit(1);
	}
	for (uint64_t at = 0; at < f->size; at += f->piece) {
		if (pread(f->fd, is, f->piece, (off_t)at) != (ssize_t)f->piece)
			die("read");
		floor_bytes(should, at, f->piece, f->ring_size);
		if (memcmp(is, should, f->piece) != 0) {
			fprintf(stderr, "io-floor: what is in the file at %ju was not written there\n", (uintmax_t)at);
			exit(1);
		}
	}
	free(is);
	free(should);
}

static void measure(const Way *way, const Floor *f, bool sync, bool check)
{
	struct rusage before, after;
	Meter m0 = meter_read(), m1, peak;
	double t0, t1, t2, busy;
	int r = meter_start();

	if (r < 0) {
		errno = -r;
		die("thread");
	}
	busy = meter_busy_ms();
	getrusage(RUSAGE_THREAD, &before);
	t0 = now();
	r = way->run(f);
	t1 = now();
	getrusage(RUSAGE_THREAD, &after);
	m1 = meter_read();
	peak = meter_stop();
	t2 = now();
	if (r == -EOPNOTSUPP || r == -EINVAL) {
		printf("%s skipped\n", way->name);
		exit(EXIT_SKIP);
	}
	if (r < 0) {
		errno = -r;
		die(way->name);
	}
	if (sync && fdatasync(f->fd) < 0)
		die("fdatasync");
	t2 = t1 - t0 + now() - t2;
	busy = meter_busy_ms() - busy;
	if (check)
		verify(f);
	printf("%s seconds %.4f gbps %.4f user_ms %.2f sys_ms %.2f cached_mib %.1f cached_peak_mib %.1f dirty_mib %.1f "
	       "dirty_peak_mib %.1f faults %ld busy_ms %.0f", way->name, t1 - t0, (double)f->size / (t1 - t0) / 1e9,
	       ms(before.ru_utime, after.ru_utime), ms(before.ru_stime, after.ru_stime), mib(m0.cached, m1.cached),
	       mib(m0.cached, peak.cached), mib(m0.dirty, m1.dirty), mib(m0.dirty, peak.dirty),
	       after.ru_minflt - before.ru_minflt, busy);
	if (sync)
		printf(" sync_seconds %.4f sync_gbps %.4f", t2, (double)f->size / t2 / 1e9);
	printf("\n");
}

int main(int argc, char **argv)
{
	enum { SIZE = 256, PIECE, RING, STEP, KEEP_FREE, FILL, SYNC, VERIFY, LIST };
	static const struct option options[] = {
		{ "size", required_argument, NULL, SIZE },   { "piece", required_argument, NULL, PIECE },
		{ "ring", required_argument, NULL, RING },   { "step", required_argument, NULL, STEP },
		{ "keep-free", required_argument, NULL, KEEP_FREE },
		{ "fill", no_argument, NULL, FILL },	     { "sync", no_argument, NULL, SYNC },
		{ "verify", no_argument, NULL, VERIFY },     { "list", no_argument, NULL, LIST },
		{ NULL, 0, NULL, 0 },
	};
	Floor f = { .ring_size = 64 << 20, .size = 3ull << 30, .piece = 1 << 20, .step = 1 << 20 };
	uint64_t keep_free = 20ull << 30;
	bool sync = false, check = false;
	const Way *way = NULL;
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) >= 0)
		switch (c) {
		case SIZE: f.size = number(optarg); break;
		case PIECE: f.piece = number(optarg); break;
		case RING: f.ring_size = number(optarg); break;
		case STEP: f.step = number(optarg); break;
		case KEEP_FREE: keep_free = number(optarg); break;
		case FILL: f.fill = true; break;
		case SYNC: sync = true; break;
		case VERIFY: check = true; break;
		case LIST:
			for (size_t i = 0; i < n_ways; i++)
				printf("%s\t%s\n", ways[i].name, ways[i].title);
			return 0;
		default: return 2;
		}
	for (size_t i = 0; argc == optind + 2 && i < n_ways; i++)
		if (strcmp(ways[i].name, argv[optind]) == 0)
			way = &ways[i];
	if (!way) {
		fprintf(stderr, "io-floor [OPTION...] WAY DIRECTORY; --list says the ways\n");
		return 2;
	}
	if (!power_of_two(f.piece) || f.piece < 4096 || !power_of_two(f.ring_size) || f.ring_size < f.piece || !f.size ||
	    f.size % f.piece || !f.step || f.step % 4096) {
		fprintf(stderr, "io-floor: --piece and --ring are powers of two, 4096 and more, the ring the larger one; --size is a "
			"multiple of the piece, --step one of 4096\n");
		return 2;
	}
	make_ring(&f);
	f.fd = open_file(way, argv[optind + 1], f.size, keep_free);
	measure(way, &f, sync, check);
	return 0;
}
