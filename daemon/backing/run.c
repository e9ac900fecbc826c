/* SPDX-License-Identifier: MIT */
#include "daemon/backing/run.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "daemon/backing/format.h"
#include "daemon/removal.h"
#include "daemon/stamp.h"

#define ASIDE ".damaged"

void run_close(Run *r)
{
	(void)close_fd(r->fd);
	free(r->path);
	*r = RUN_NULL;
}

const char *run_name(const Run *r)
{
	return strrchr(r->path, '/') + 1;
}

/* ---- making ---- */

int run_directories(const char *path)
{
	_cleanup_free_ char *part = strdup(path);

	if (!part)
		return -ENOMEM;
	for (char *p = part + 1;; p++) {
		char c = *p;

		if (c && c != '/')
			continue;
		*p = 0;
		if (mkdir(part, 0750) < 0 && errno != EEXIST)
			return -errno;
		*p = c;
		if (!c)
			return 0;
	}
}

static int boot_id_read(u8 ret[16], char text[40])
{
	_cleanup_close_ int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, 36);
	u32 k = 0;

	if (n != 36)
		return -EIO;
	text[36] = '\0';
	for (const char *p = text; *p && k < 32; p++) {
		static const char digits[] = "0123456789abcdef";
		const char *d = strchr(digits, *p);

		if (!d)
			continue;
		ret[k / 2] = (u8)(ret[k / 2] << 4 | (u8)(d - digits));
		k++;
	}
	return 0;
}

bool run_of_this_boot(const Run *r)
{
	_cleanup_close_ int fd = openat(r->fd, BACKING_SESSION, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	struct backing_session h;
	char text[40];
	u8 id[16];

	return fd >= 0 && pread(fd, &h, sizeof(h), 0) == sizeof(h) && h.magic == BACKING_MAGIC_SESSION &&
	       boot_id_read(id, text) == 0 && memcmp(id, h.boot_id, sizeof(id)) == 0;
}

static int session_write(int dir_fd, const RunSession *s, u64 now)
{
	struct backing_session h = {
		.magic = BACKING_MAGIC_SESSION,
		.version = BACKING_VERSION,
		.clock = s->clock.kind,
		.clock_mult = s->clock.mult,
		.begun = now,
	};
	_cleanup_close_ int fd = openat(dir_fd, BACKING_SESSION, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0640);
	ssize_t n;

	if (fd < 0)
		return -errno;
	(void)boot_id_read(h.boot_id, h.boot_text);
	memcpy(h.clock_uuid, s->clock_uuid, sizeof(h.clock_uuid));
	(void)snprintf(h.name, sizeof(h.name), "%s", s->session);
	(void)snprintf(h.buffers, sizeof(h.buffers), "%s", s->buffers);
	(void)gethostname(h.host, sizeof(h.host) - 1);
	h.checksum = backing_checksum(0, &h, sizeof(h));
	n = pwrite(fd, &h, sizeof(h), 0);
	if (n != sizeof(h))
		return n < 0 ? -errno : -ENOSPC;
	return fsync(fd) < 0 ? -errno : 0;
}

/* In a directory with a name that nobody claims, until it is locked and whole. */
static int run_fill(Run *run, int parent, const char *temporary, const char *name, const RunSession *s, u64 now)
{
	int r;

	run->fd = openat(parent, temporary, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (run->fd < 0 || flock(run->fd, LOCK_EX | LOCK_NB) < 0)
		return -errno;
	r = session_write(run->fd, s, now);
	if (r == 0 && fsync(run->fd) < 0)
		r = -errno;
	if (r == 0 && renameat(parent, temporary, parent, name) < 0)
		r = -errno;
	if (r == 0 && fsync(parent) < 0) {
		r = -errno;
		/* it has its name by now, and nobody would use it: the next one is made instead */
		(void)removal_run(parent, name, NULL);
	}
	return r;
}

int run_make(Run *ret, const char *path, const RunSession *s)
{
	_cleanup_free_ char *directory = NULL;
	_cleanup_(run_close) Run run = RUN_NULL;
	_cleanup_close_ int parent = -1;
	char name[STAMP_SIZE], temporary[STAMP_SIZE + 8];
	u64 now = realtime_ns();
	int r;

	if (asprintf(&directory, "%s/%s", path, s->session) < 0) {
		directory = NULL;
		return -ENOMEM;
	}
	r = run_directories(directory);
	if (r < 0)
		return r;
	parent = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (parent < 0)
		return -errno;
	for (;; now += 1000) {
		struct stat st;

		stamp_write(name, now);
		(void)snprintf(temporary, sizeof(temporary), ".%s.tmp", name);
		if (fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
			continue;
		if (mkdirat(parent, temporary, 0750) == 0)
			break;
		if (errno != EEXIST)
			return -errno;
	}
	if (asprintf(&run.path, "%s/%s", directory, name) < 0) {
		run.path = NULL;
		r = -ENOMEM;
	}
	if (r == 0)
		r = run_fill(&run, parent, temporary, name, s, now);
	if (r < 0) {
		(void)removal_run(parent, temporary, NULL);
		return r;
	}
	*ret = run;
	run = RUN_NULL;
	return 0;
}

/* ---- what was left behind ---- */

/* "20261129T160102.123456Z" */
static bool is_name(const char *s)
{
	static const char form[] = "dddddddd\1dddddd.ddddddZ";

	for (size_t i = 0; i < sizeof(form); i++)
		if (form[i] == 'd' ? s[i] < '0' || s[i] > '9' : s[i] != (form[i] == '\1' ? 'T' : form[i]))
			return false;
	return true;
}

/* Locked, and still what the name names; -1 if it is in use, or is none. */
static int claim(int parent, const char *name)
{
	_cleanup_close_ int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	struct stat a, b;

	if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0 || fstat(fd, &a) < 0 ||
	    fstatat(parent, name, &b, AT_SYMLINK_NOFOLLOW) < 0 || a.st_ino != b.st_ino || a.st_dev != b.st_dev)
		return -1;
	return steal_fd(fd);
}

static void sweep(int parent, const char *name)
{
	_cleanup_close_ int fd = claim(parent, name);

	if (fd >= 0)
		(void)removal_run(parent, name, NULL);
}

static bool is_half_made(const char *s)
{
	char name[48];
	size_t n = strlen(s);

	if (n < 6 || n >= sizeof(name) || s[0] != '.' || strcmp(s + n - 4, ".tmp") != 0)
		return false;
	(void)snprintf(name, sizeof(name), "%.*s", (int)(n - 5), s + 1);
	return is_name(name);
}

int run_claim(Run *ret, const char *path, const char *session, const char *after)
{
	_cleanup_free_ char *directory = NULL;
	char best[48], from[48] = "";
	int parent, r = 0;
	DIR *d;

	if (after)
		(void)snprintf(from, sizeof(from), "%s", after);
	if (asprintf(&directory, "%s/%s", path, session) < 0) {
		directory = NULL;
		return -ENOMEM;
	}
	for (;;) {
		d = opendir(directory);
		if (!d)
			return errno == ENOENT ? 0 : -errno;
		parent = dirfd(d);
		best[0] = '\0';
		for (struct dirent *entry; (entry = readdir(d));) {
			const char *name = entry->d_name;

			if (is_half_made(name))
				sweep(parent, name);
			if (!is_name(name) || strcmp(name, from) <= 0 || (best[0] && strcmp(name, best) >= 0))
				continue;
			(void)snprintf(best, sizeof(best), "%s", name);
		}
		if (best[0]) {
			*ret = (Run){ .fd = claim(parent, best) };
			if (asprintf(&ret->path, "%s/%s", directory, best) < 0) {
				ret->path = NULL;
				r = -ENOMEM;
			}
		}
		(void)closedir(d);
		if (!best[0])
			return 0;
		if (r == 0 && ret->fd >= 0)
			return 1;
		run_close(ret);
		if (r < 0)
			return r;
		memcpy(from, best, sizeof(from)); /* in use: the next one */
	}
}

int run_remove(Run *r)
{
	_cleanup_free_ char *parent = strdup(r->path);
	_cleanup_close_ int fd = -1;
	char *slash;

	if (!parent)
		return -ENOMEM;
	slash = strrchr(parent, '/');
	*slash = '\0';
	fd = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? -errno : removal_run(fd, slash + 1, NULL);
}

int run_set_aside(Run *r)
{
	_cleanup_free_ char *to = NULL;

	if (asprintf(&to, "%s" ASIDE, r->path) < 0) {
		to = NULL;
		return -ENOMEM;
	}
	if (rename(r->path, to) < 0)
		return -errno;
	free(r->path);
	r->path = steal_ptr(to);
	return 0;
}
