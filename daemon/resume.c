/* SPDX-License-Identifier: MIT */
#include "daemon/resume.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "daemon/chunk.h"
#include "daemon/sink/pool.h"
#include "daemon/trace/packet.h"

/* Else the newest packet that is there might have lost its mark. */
_Static_assert(POOL_BUFFERS < BOOKMARKS, "a mark for each packet on its way");

/* Traces that nobody has finished. */
typedef struct {
	u64 chunk;
	char *path; /* owned: of the owner's part */
} Unfinished;

typedef struct {
	Unfinished *v;
	size_t n;
	const char *stream; /* the one that is looked for */
} Files;

static int files_add(Files *f, const char *output, const char *active, const char *part)
{
	Unfinished *v = reallocarray(f->v, f->n + 1, sizeof(*v));

	if (!v)
		return -ENOMEM;
	f->v = v;
	v[f->n].chunk = bookmark_chunk(active, part);
	if (asprintf(&v[f->n].path, "%s/%s/%s", output, active, part) < 0)
		return -ENOMEM;
	f->n++;
	return 0;
}

static int files_find_parts(Files *f, const char *output, const char *active)
{
	_cleanup_free_ char *path = NULL;
	DIR *d;
	int r = 0;

	if (asprintf(&path, "%s/%s", output, active) < 0) {
		path = NULL;
		return -ENOMEM;
	}
	d = opendir(path);
	for (struct dirent *e; r == 0 && d && (e = readdir(d));)
		if (e->d_name[0] != '.')
			r = files_add(f, output, active, e->d_name);
	if (d)
		(void)closedir(d);
	return r;
}

static int files_find(Files *f, const char *output)
{
	DIR *d = opendir(output);
	int r = 0;

	for (struct dirent *e; r == 0 && d && (e = readdir(d));)
		if (chunk_is_active(e->d_name))
			r = files_find_parts(f, output, e->d_name);
	if (d)
		(void)closedir(d);
	return r;
}

static void files_clear(Files *f)
{
	for (size_t i = 0; i < f->n; i++)
		free(f->v[i].path);
	free(f->v);
}

/* Its file has the packet's records: a strategy makes the file longer no sooner than the bytes before are there, or (mmap) stores the
 * header last. */
static bool packet_there(const char *path, const char *stream, const Bookmark *b)
{
	_cleanup_close_ int dir_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	_cleanup_close_ int fd = -1;
	u8 head[PACKET_HEADER];
	PacketInfo info;
	struct stat st;

	if (dir_fd < 0)
		return false;
	fd = openat(dir_fd, stream, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	/* zeros at its end may be missing: whoever finishes the trace adds them */
	return fd >= 0 && fstat(fd, &st) == 0 && b->start < b->end &&
	       pread(fd, head, sizeof(head), (off_t)b->start) == (ssize_t)sizeof(head) &&
	       packet_decode(&info, head, b->end - b->start, NULL) == 0 && info.packet_size == b->end - b->start &&
	       (u64)st.st_size >= b->start + info.content_size;
}

/* 0 is no trace's: decided before. One that is not among the unfinished ones was finished, with all that was given to it. */
static bool is_there(void *userdata, const Bookmark *b)
{
	const Files *f = userdata;

	if (b->chunk == 0)
		return true;
	for (size_t i = 0; i < f->n; i++)
		if (f->v[i].chunk == b->chunk)
			return packet_there(f->v[i].path, f->stream, b);
	return true;
}

int resume_feed(Feed *f, const char *output)
{
	Files files = { 0 };
	int r = files_find(&files, output);

	for (u32 i = 0; r == 0 && i < f->n_streams; i++) {
		FeedStream *s = &f->streams[i];
		StreamProgress p;
		char name[40];
		u32 cpu;

		if (!s->page || s->page->n == 0)
			continue;
		feed_stream_name(f, i, name, &cpu);
		files.stream = name;
		if (bookmark_find(s->page, is_there, &files, &p)) {
			stream_resume(&s->stream, &p);
			s->said = p.said;
		}
		/* What is decided stays so: the files that were looked at are about to be finished, or removed. */
		bookmark_put(s->page, &(Bookmark){ .progress = stream_progress(&s->stream) });
	}
	files_clear(&files);
	feed_publish(f);
	return r;
}
