/* SPDX-License-Identifier: MIT */
#include "daemon/chunk-private.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>

#include "daemon/absent.h"
#include "daemon/capture.h"
#include "daemon/removal.h"
#include "daemon/stamp.h"

static int chunk_names(Chunk *c, u64 usec)
{
	char stamp[STAMP_SIZE];

	free(c->name);
	free(c->active);
	c->name = c->active = NULL;
	stamp_write(stamp, usec * NSEC_PER_USEC);
	if (asprintf(&c->name, "%s-trace", stamp) < 0) {
		c->name = NULL;
		return -ENOMEM;
	}
	if (asprintf(&c->active, "%s" CHUNK_SUFFIX, c->name) < 0) {
		c->active = NULL;
		return -ENOMEM;
	}
	return 0;
}

bool chunk_is_active(const char *name)
{
	static const char form[] = "ddddddddTdddddd.ddddddZ-trace" CHUNK_SUFFIX;
	size_t i;

	/* a 'd' of the form is a digit; no other letter of it is one */
	for (i = 0; form[i] && name[i]; i++)
		if (form[i] == 'd' ? name[i] < '0' || name[i] > '9' : name[i] != form[i])
			return false;
	return form[i] == name[i];
}

int chunk_new(Chunk **ret, int output_fd, const ChunkInfo *info, u64 *last_usec)
{
	u64 now = realtime_ns() / NSEC_PER_USEC, usec = MAX(now, *last_usec + 1);
	Chunk *c = calloc(1, sizeof(*c));
	struct stat st;
	int r;

	if (!c)
		return -ENOMEM;
	/* a clock that was set back by a day must not be led by the past for a day */
	if (usec - now >= 1000000)
		usec = now;
	c->info = *info;
	c->fd = -1;
	c->output_fd = openat(output_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (c->output_fd < 0) {
		r = -errno;
		goto fail;
	}
	for (;; usec++) {
		r = chunk_names(c, usec);
		if (r < 0)
			goto fail;
		if (fstatat(c->output_fd, c->name, &st, AT_SYMLINK_NOFOLLOW) == 0)
			continue;
		if (mkdirat(c->output_fd, c->active, 0750) == 0)
			break;
		r = -errno;
		if (r != -EEXIST)
			goto fail;
	}
	*last_usec = usec;
	c->fd = openat(c->output_fd, c->active, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (c->fd < 0 || fchmod(c->fd, 0750) < 0) {
		r = -errno;
		(void)unlinkat(c->output_fd, c->active, AT_REMOVEDIR);
		goto fail;
	}
	c->begun = monotonic_ns();
	c->begin_time = record_clock_now(&info->clock);
	/* measured well: readers put traces together by the time of day, and two of one session lie close to each other */
	c->realtime_offset_ns = capture_realtime_offset(&info->clock);
	*ret = c;
	return 0;
fail:
	(void)chunk_free(c);
	return r;
}

void chunk_configure(Chunk *c, const SessionConfig *config)
{
	c->info.config = config;
}

Chunk *chunk_free(Chunk *c)
{
	if (!c)
		return NULL;
	for (ChunkPart *p = c->parts, *next; p; p = next) {
		next = p->next;
		(void)live_trace_free(p->trace, NULL);
		free(p->name);
		free(p->metadata);
		free(p);
	}
	close_fd(c->fd);
	close_fd(c->output_fd);
	free(c->name);
	free(c->active);
	free(c);
	return NULL;
}

void chunk_push(Chunk *c)
{
	for (ChunkPart *p = c->parts; p; p = p->next)
		live_trace_push(p->trace);
}

int chunk_flush(Chunk *c)
{
	int first = 0;

	for (ChunkPart *p = c->parts; p; p = p->next) {
		int r = live_trace_flush(p->trace);

		if (r < 0 && first == 0)
			first = r;
	}
	return first;
}

bool chunk_present(const Chunk *c, const char *output)
{
	_cleanup_close_ int fd = open(output, O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct stat is, at;

	if (fd < 0 || fstat(c->fd, &is) < 0)
		return !error_is_absence(errno);
	if (is.st_nlink == 0)
		return false;
	if (fstatat(fd, c->active, &at, AT_SYMLINK_NOFOLLOW) < 0)
		return !error_is_absence(errno);
	if (at.st_dev != is.st_dev || at.st_ino != is.st_ino)
		return false;
	for (const ChunkPart *p = c->parts; p; p = p->next)
		if (!live_trace_present(p->trace))
			return false;
	return true;
}

/* ---- the end ---- */

int chunk_end(Chunk *c, Feed *feeds)
{
	for (Feed *f = feeds; f; f = f->next) {
		int r = chunk_leave(c, f);

		if (r < 0)
			return r;
	}
	return 0;
}

static int chunk_rename(const Chunk *c)
{
	if (renameat2(c->output_fd, c->active, c->output_fd, c->name, RENAME_NOREPLACE) == 0)
		return 0;
	if (errno != EINVAL && errno != ENOSYS)
		return -errno;
	/* a file system without that: a directory in the way that is not empty still makes it fail */
	return renameat(c->output_fd, c->active, c->output_fd, c->name) < 0 ? -errno : 0;
}

/* Begun, and then no file could be made, say. */
static bool chunk_empty(const Chunk *c)
{
	return c->n_records == 0 && chunk_bytes(c) == 0;
}

int chunk_close(Chunk *c)
{
	int first = 0;

	/* readers take a directory without any trace for a mistake */
	if (chunk_empty(c)) {
		first = removal_run(c->output_fd, c->active, NULL);
		return first < 0 ? first : -ENODATA;
	}
	for (ChunkPart *p = c->parts; p; p = p->next) {
		int r = live_trace_sync(p->trace, p->metadata, p->metadata_size);

		if (r < 0 && first == 0)
			first = r;
	}
	if (first == 0 && fsync(c->fd) < 0)
		first = -errno;
	if (first == 0)
		first = chunk_rename(c);
	(void)fsync(c->output_fd);
	return first;
}

void chunk_abandon(Chunk *c, Feed *feeds, u64 *ret_lost)
{
	bool empty = chunk_empty(c);

	for (Feed *f = feeds; f; f = f->next)
		chunk_forget(f);
	for (ChunkPart *p = c->parts; p; p = p->next)
		p->trace = live_trace_free(p->trace, ret_lost);
	/* where no file can be made at all it is tried again and again, and what is left each time would push good traces out */
	if (empty)
		(void)removal_run(c->output_fd, c->active, NULL);
	else
		(void)chunk_rename(c);
}

const char *chunk_name(const Chunk *c)
{
	return c->name;
}

const char *chunk_active_name(const Chunk *c)
{
	return c->active;
}

u64 chunk_bytes(const Chunk *c)
{
	u64 bytes = 0;

	for (const ChunkPart *p = c->parts; p; p = p->next)
		bytes += live_trace_bytes(p->trace);
	return bytes;
}

u64 chunk_largest(const Chunk *c)
{
	u64 bytes = 0;

	for (const ChunkPart *p = c->parts; p; p = p->next)
		bytes = MAX(bytes, live_trace_largest(p->trace));
	return bytes;
}

u64 chunk_records(const Chunk *c)
{
	return c->n_records;
}

u64 chunk_begun(const Chunk *c)
{
	return c->begun;
}
