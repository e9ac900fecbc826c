/* SPDX-License-Identifier: MIT */
#include "daemon/output.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "daemon/closing.h"

#define ROOM_INTERVAL (NSEC_PER_SEC / 2)
/* A sixteenth of the age, but no more often, nor seldom, than: it reads every name there, and perhaps every size. */
#define AGE_INTERVAL_MIN (10 * NSEC_PER_SEC)
#define AGE_INTERVAL_MAX (600 * NSEC_PER_SEC)
/* Enough for a file system to need new room for it. */
#define PROBE (64u << 10)

struct Output {
	const SessionConfig *config;
	ChunkInfo info;
	char *path;
	int fd; /* owned and locked; -1: not open */
	SinkSet *sinks;
	Chunk *chunk;
	u64 last_usec;
	Closing *closing;
	u32 n_closing;
	bool tidy;	/* nothing unfinished lies there, as far as it was looked for */
	bool given_up;	/* with a chunk that may have kept its working name; and what is opened next may be another directory */
	bool removing;	/* old chunks are on their way out */
	bool room;
	u64 room_at;
	u64 age_at;
	OutputClosed closed;
	void *userdata;
};

int output_new(Output **ret, const char *path, const SessionConfig *config, const struct record_clock *clock,
	       const u8 clock_uuid[16], OutputClosed closed, void *userdata)
{
	Output *o = calloc(1, sizeof(*o));
	int r;

	if (!o)
		return -ENOMEM;
	*o = (Output){ .fd = -1, .room = true, .closed = closed, .userdata = userdata };
	o->info = (ChunkInfo){ .clock = *clock, .trigger = "continuous" };
	memcpy(o->info.clock_uuid, clock_uuid, sizeof(o->info.clock_uuid));
	r = output_configure(o, path, config);
	if (r < 0) {
		free(o);
		return r;
	}
	*ret = o;
	return 0;
}

Output *output_free(Output *o)
{
	if (!o)
		return NULL;
	output_reap(o, true);
	(void)chunk_free(o->chunk);
	(void)sink_set_free(o->sinks);
	close_fd(o->fd);
	free(o->path);
	free(o);
	return NULL;
}

int output_configure(Output *o, const char *path, const SessionConfig *config)
{
	bool elsewhere = !o->path || strcmp(o->path, path) != 0;
	_cleanup_free_ char *copy = strdup(path);
	SinkSet *sinks = NULL;
	int r;

	if (!copy)
		return -ENOMEM;
	if (!o->sinks || elsewhere || o->config->io != config->io) {
		r = sink_set_new(&sinks, config->io);
		if (r < 0)
			return r;
		(void)sink_set_free(o->sinks);
		o->sinks = sinks;
	}
	if (elsewhere) {
		free(o->path);
		o->path = steal_ptr(copy);
		o->tidy = o->given_up = false;
		o->fd = close_fd(o->fd);
	}
	o->config = o->info.config = config;
	o->info.sinks = o->sinks;
	/* what it had is about to be freed */
	if (o->chunk)
		chunk_configure(o->chunk, config);
	o->room_at = o->age_at = 0;
	o->room = true;
	return 0;
}

/* ---- what waits for the disk ---- */

static void closing_begin(Output *o, Closing *c)
{
	c->next = o->closing;
	o->closing = c;
	if (c->chunk)
		o->n_closing++;
	else if (!c->leftover)
		o->removing = true;
	closing_start(c);
}

static void closing_learn(Output *o, Closing *c)
{
	if (c->chunk) {
		o->n_closing--;
		o->closed(o->userdata, c->path, chunk_records(c->chunk), c->r, c->token);
	} else if (!c->leftover) {
		o->removing = false;
		o->room_at = 0;
	} else if (c->r == 0) {
		/* of which nobody knows how many records it has */
		o->closed(o->userdata, c->path, CHUNK_UNCOUNTED, 0, NULL);
	}
}

bool output_waits(const Output *o)
{
	return o->closing != NULL;
}

void output_reap(Output *o, bool wait)
{
	for (Closing **p = &o->closing, *c; (c = *p);) {
		if (!wait && !closing_done(c)) {
			p = &c->next;
			continue;
		}
		*p = c->next;
		closing_wait(c);
		closing_learn(o, c);
		(void)closing_free(c);
	}
}

/* ---- the directory ---- */

static int directory_make(const char *path)
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

/* Being written, or on its way already: it would be put right under the hands of who does that. */
static bool output_closes(const Output *o, const char *name)
{
	for (const Closing *c = o->closing; c; c = c->next) {
		const char *is = c->chunk ? chunk_active_name(c->chunk) : c->leftover;

		if (is && strcmp(is, name) == 0)
			return true;
	}
	return o->chunk && strcmp(chunk_active_name(o->chunk), name) == 0;
}

/* Nobody else writes here, so what is not finished will not be by those who began it. */
static void leftovers_close(Output *o)
{
	int fd = openat(o->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);

	if (!d) {
		close_fd(fd);
		return;
	}
	for (struct dirent *e = readdir(d); e; e = readdir(d)) {
		_cleanup_free_ char *name = NULL;
		Closing *c;

		if (!chunk_is_active(e->d_name) || output_closes(o, e->d_name))
			continue;
		name = strndup(e->d_name, strlen(e->d_name) - strlen(CHUNK_SUFFIX));
		c = name ? closing_new(o->path, o->fd, name, &o->config->files) : NULL;
		if (!c)
			break;
		c->leftover = strdup(e->d_name);
		if (!c->leftover) {
			(void)closing_free(c);
			break;
		}
		closing_begin(o, c);
	}
	(void)closedir(d);
}

/* The lock of a directory is its first descriptor's, and lasts until everything that goes on there is done: also once we have moved
 * elsewhere. Who comes back to it meanwhile has it still. -1: nothing of ours goes on there. */
static int output_regain(const Output *o, int fd)
{
	struct stat there, is;

	if (fstat(fd, &there) < 0)
		return -1;
	for (const Closing *c = o->closing; c; c = c->next)
		if (fstat(c->fd, &is) == 0 && is.st_dev == there.st_dev && is.st_ino == there.st_ino)
			return fcntl(c->fd, F_DUPFD_CLOEXEC, 3);
	return -1;
}

int output_open(Output *o)
{
	_cleanup_close_ int fd = -1;
	int kept;
	int r;

	if (o->fd >= 0)
		return 0;
	r = directory_make(o->path);
	if (r < 0)
		return r;
	fd = open(o->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	kept = output_regain(o, fd);
	/* Two that write here would remove each other's chunks, and take one that is not quite finished for what a dead daemon
	 * left. */
	if (kept < 0 && flock(fd, LOCK_EX | LOCK_NB) < 0)
		return -errno;
	o->fd = kept < 0 ? steal_fd(fd) : kept;
	if (!o->tidy)
		leftovers_close(o);
	o->tidy = true;
	return 0;
}

int output_try(const char *path)
{
	_cleanup_close_ int fd = -1;
	int r = directory_make(path);

	if (r < 0)
		return r;
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || faccessat(fd, ".", W_OK | X_OK, AT_EACCESS) < 0)
		return -errno;
	return 0;
}

static u64 room_wanted(const RetentionConfig *c, const struct statvfs *v)
{
	if (c->keep_free_percent)
		return (u64)v->f_blocks * v->f_frsize / 100 * MIN(c->keep_free_percent, 100u);
	return c->keep_free;
}

/* ---- chunks ---- */

int output_append(Output *o, Feed *f, u32 stream, const StreamPacket *p)
{
	int r;

	if (!o->chunk) {
		r = output_open(o);
		if (r == 0)
			r = chunk_new(&o->chunk, o->fd, &o->info, &o->last_usec);
		if (r < 0)
			return r;
		/* what was given up meanwhile, now that it can be put right */
		if (o->given_up)
			leftovers_close(o);
		o->given_up = false;
	}
	return chunk_append(o->chunk, f, stream, p);
}

int output_probe(Output *o)
{
	static const char name[] = ".probe";
	static const u8 bytes[PROBE];
	_cleanup_close_ int fd = -1;
	int r = output_open(o);
	ssize_t n;

	if (r < 0)
		return r;
	(void)unlinkat(o->fd, name, 0);
	fd = openat(o->fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return -errno;
	(void)unlinkat(o->fd, name, 0);
	do
		n = write(fd, bytes, sizeof(bytes));
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	/* what the cache took and the disk did not: as sink_flush() says it */
	return fsync(fd) < 0 ? -EIO : 0;
}

void output_push(Output *o)
{
	if (o->chunk)
		chunk_push(o->chunk);
}

void output_settle(Output *o)
{
	sink_set_settle(o->sinks);
}

int output_flush(Output *o)
{
	return o->chunk ? chunk_flush(o->chunk) : 0;
}

bool output_lost(const Output *o)
{
	return o->chunk && !chunk_present(o->chunk, o->path);
}

bool output_has_room(Output *o)
{
	u64 now = monotonic_ns();
	struct statvfs v;
	u64 wanted;

	if (o->fd < 0 || now < o->room_at)
		return o->room;
	o->room_at = now + ROOM_INTERVAL;
	if (fstatvfs(o->fd, &v) < 0)
		return o->room = true; /* then writing will say what is wrong */
	wanted = room_wanted(&o->config->files, &v);
	o->room = (u64)v.f_bavail * v.f_frsize >= wanted;
	if (!o->room && !o->removing) {
		Closing *c = closing_new(o->path, o->fd, NULL, &o->config->files);

		if (c)
			closing_begin(o, c);
	}
	return o->room;
}

void output_limit_age(Output *o, u64 now)
{
	u64 age = o->config->files.max_age_ns;
	Closing *c;

	if (!age || o->fd < 0 || o->removing || now < o->age_at)
		return;
	o->age_at = now + MAX(AGE_INTERVAL_MIN, MIN(age / 16, AGE_INTERVAL_MAX));
	c = closing_new(o->path, o->fd, NULL, &o->config->files);
	if (c)
		closing_begin(o, c);
}

u64 output_due_at(const Output *o)
{
	/* too many on their way: it is asked again when one of them is there */
	if (!o->chunk || !o->config->file_interval_ns || o->n_closing >= OUTPUT_MAX_CLOSING)
		return UINT64_MAX;
	return chunk_begun(o->chunk) + o->config->file_interval_ns;
}

bool output_due(const Output *o, u64 now)
{
	if (!o->chunk || o->n_closing >= OUTPUT_MAX_CLOSING)
		return false;
	return now >= output_due_at(o) ||
	       (o->config->file_size && chunk_largest(o->chunk) >= o->config->file_size);
}

int output_rotate(Output *o, Feed *feeds, void *token)
{
	Closing *c;
	int r;

	if (!o->chunk)
		return -ENODATA;
	if (o->n_closing >= OUTPUT_MAX_CLOSING)
		return -EBUSY;
	c = closing_new(o->path, o->fd, chunk_name(o->chunk), &o->config->files);
	if (!c)
		return -ENOMEM;
	c->token = token;
	r = chunk_end(o->chunk, feeds);
	if (r < 0) {
		(void)closing_free(c);
		return r;
	}
	c->chunk = steal_ptr(o->chunk);
	closing_begin(o, c);
	return 0;
}

int output_leave(Output *o, Feed *f)
{
	return o->chunk ? chunk_leave(o->chunk, f) : 0;
}

void output_abandon(Output *o, Feed *feeds, u64 *ret_lost)
{
	if (o->chunk) {
		chunk_abandon(o->chunk, feeds, ret_lost);
		o->chunk = chunk_free(o->chunk);
	}
	o->given_up = true;
	o->fd = close_fd(o->fd);
	/* What comes in its place may be another file system: `auto` decides anew. */
	if (o->config->io == IO_AUTO) {
		SinkSet *sinks;

		if (sink_set_new(&sinks, IO_AUTO) == 0) {
			(void)sink_set_free(o->sinks);
			o->sinks = o->info.sinks = sinks;
		}
	}
}

const char *output_path(const Output *o)
{
	return o->path;
}

const char *output_strategy(const Output *o)
{
	return sink_set_name(o->sinks);
}
