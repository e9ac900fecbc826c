/* SPDX-License-Identifier: MIT */
#include "daemon/trace/extract.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>

#include "daemon/removal.h"
#include "daemon/trace/range.h"

/* One owner's trace. */
typedef struct {
	int fd;	     /* owned */
	char *group; /* owned: the trace directory it is in, where PATH holds several; NULL */
	char *name;  /* owned */
	u8 uuid[16];
	u64 offset, begin, end; /* begin > end: no packets */
	char **streams;		/* owned */
	size_t n_streams;
} Source;

struct Extract {
	char *path; /* owned */
	Source *sources;
	size_t n;
	u64 begin, end; /* time of day */
	bool several;
};

static void source_clear(Source *s)
{
	for (size_t i = 0; i < s->n_streams; i++)
		free(s->streams[i]);
	free(s->streams);
	free(s->group);
	free(s->name);
	close_fd(s->fd);
}

Extract *extract_free(Extract *e)
{
	if (!e)
		return NULL;
	for (size_t i = 0; i < e->n; i++)
		source_clear(&e->sources[i]);
	free(e->sources);
	free(e->path);
	free(e);
	return NULL;
}

/* ---- what there is ---- */

static int open_directory(int at, const char *name, bool follow)
{
	int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | (follow ? 0 : O_NOFOLLOW));

	return fd < 0 ? -errno : fd;
}

static DIR *list_open(int fd)
{
	int copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = copy < 0 ? NULL : fdopendir(copy);

	if (!d)
		close_fd(copy);
	return d;
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* What a directory holds: its directories, or its regular files. Hidden ones are not looked at: they are temporary. */
static int names_list(int fd, bool directories, char ***ret, size_t *ret_n)
{
	DIR *d = list_open(fd);
	char **v = NULL;
	size_t n = 0;
	int r = d ? 0 : -errno;

	for (struct dirent *e = d ? readdir(d) : NULL; e && r == 0; e = readdir(d)) {
		struct stat st;
		char **larger;

		if (e->d_name[0] == '.' || fstatat(fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
		    !(directories ? S_ISDIR(st.st_mode) : S_ISREG(st.st_mode)))
			continue;
		larger = reallocarray(v, n + 1, sizeof(*v));
		if (larger)
			v = larger;
		if (larger && (v[n] = strdup(e->d_name)))
			n++;
		else
			r = -ENOMEM;
	}
	if (d)
		(void)closedir(d);
	if (n > 0)
		qsort(v, n, sizeof(*v), compare_names);
	*ret = v;
	*ret_n = n;
	return r;
}

static void names_free(char **v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(v[i]);
	free(v);
}

/* The streams' span: of the first packet's begin and the last whole one's end. */
static int source_look(Source *s)
{
	int r = names_list(s->fd, false, &s->streams, &s->n_streams);

	s->begin = UINT64_MAX;
	for (size_t i = 0; i < s->n_streams && r == 0; i++) {
		TraceFile f = TRACE_FILE_NULL;
		TracePacket p;
		int found;

		if (strcmp(s->streams[i], "metadata") == 0)
			continue;
		r = trace_file_open(&f, s->fd, s->streams[i], s->uuid);
		if (r < 0)
			break;
		found = trace_file_packet(&f, 0, &p);
		if (found > 0) {
			s->begin = MIN(s->begin, p.info.begin);
			found = trace_file_last(&f, &p, NULL);
			if (found > 0)
				s->end = MAX(s->end, p.info.end);
		}
		trace_file_close(&f);
		/* nothing whole in it: the copy will say so */
		r = found < 0 && found != -EBADMSG ? found : 0;
	}
	return r;
}

/* Adds the trace in fd (taken), if it is one: 1, 0: it is none, or -errno. */
static int source_add(Extract *e, int fd, const char *group, const char *name)
{
	Source s = { .fd = fd };
	MetadataText text = { 0 };
	Source *larger;
	int r = metadata_text_read(&text, fd);

	if (r < 0) {
		source_clear(&s);
		return r == -ENOENT || r == -EBADMSG ? 0 : r;
	}
	memcpy(s.uuid, text.uuid, sizeof(s.uuid));
	s.offset = text.offset;
	metadata_text_clear(&text);
	s.group = group ? strdup(group) : NULL;
	s.name = strdup(name);
	r = !s.name || (group && !s.group) ? -ENOMEM : source_look(&s);
	larger = r < 0 ? NULL : reallocarray(e->sources, e->n + 1, sizeof(*larger));
	if (!larger) {
		source_clear(&s);
		return r < 0 ? r : -ENOMEM;
	}
	e->sources = larger;
	e->sources[e->n++] = s;
	if (s.begin <= s.end) {
		e->begin = MIN(e->begin, s.begin + s.offset);
		e->end = MAX(e->end, s.end + s.offset);
	}
	return 1;
}

/* The owners' traces in a directory: how many, or -errno. */
static int sources_find(Extract *e, int fd, const char *group)
{
	char **names;
	size_t n, found = 0;
	int r = names_list(fd, true, &names, &n);

	for (size_t i = 0; i < n && r >= 0; i++) {
		r = open_directory(fd, names[i], false);
		if (r >= 0)
			r = source_add(e, r, group, names[i]);
		if (r > 0)
			found++;
	}
	names_free(names, n);
	return r < 0 ? r : (int)found;
}

static int groups_find(Extract *e, int fd)
{
	char **names;
	size_t n;
	int r = names_list(fd, true, &names, &n);

	for (size_t i = 0; i < n && r >= 0; i++) {
		_cleanup_close_ int group = open_directory(fd, names[i], false);

		/* one that is removed just now: the oldest of a session */
		r = group == -ENOENT ? 0 : group < 0 ? group : sources_find(e, group, names[i]);
	}
	names_free(names, n);
	return r;
}

/* The last word of a path, for a directory; "trace" for "/" and the like. Fresh. */
static char *path_name(const char *path)
{
	_cleanup_free_ char *real = realpath(path, NULL);
	const char *slash = real ? strrchr(real, '/') : NULL;

	return strdup(slash && slash[1] ? slash + 1 : "trace");
}

static int find_all(Extract *e, int fd)
{
	_cleanup_free_ char *name = path_name(e->path);
	int copy, r;

	if (!name)
		return -ENOMEM;
	copy = open_directory(fd, ".", false);
	r = copy < 0 ? copy : source_add(e, copy, NULL, name);
	if (r == 0)
		r = sources_find(e, fd, NULL);
	if (r == 0) {
		e->several = true;
		r = groups_find(e, fd);
	}
	return r < 0 ? r : 0;
}

int extract_new(Extract **ret, const char *path, Failure *f)
{
	_cleanup_(extract_freep) Extract *e = calloc(1, sizeof(*e));
	_cleanup_close_ int fd = -1;
	int r;

	if (!e || !(e->path = strdup(path)))
		return failure_set(f, FAILURE_NO_MEMORY, "out of memory");
	e->begin = UINT64_MAX;
	fd = open_directory(AT_FDCWD, path, true);
	if (fd < 0)
		return failure_set(f, FAILURE_IO, "%s: cannot be opened: %s%s", path, strerror(-fd),
				   fd == -EACCES ? "; root and group 'tracing' may" : "");
	r = find_all(e, fd);
	if (r == -ENOMEM)
		return failure_set(f, FAILURE_NO_MEMORY, "out of memory");
	if (r < 0)
		return failure_set(f, FAILURE_IO, "%s: cannot be read: %s%s", path, strerror(-r),
				   r == -EACCES ? "; root and group 'tracing' may" : "");
	if (e->n == 0)
		return failure_set(f, FAILURE_INVALID,
				   "%s: there is no trace of tracer in it; name the directory of a snapshot, of a trace, "
				   "or of a session's traces",
				   path);
	if (e->begin > e->end)
		return failure_set(f, FAILURE_NOTHING, "%s: holds no events", path);
	*ret = steal_ptr(e);
	return 0;
}

void extract_span(const Extract *e, u64 *ret_begin, u64 *ret_end)
{
	*ret_begin = e->begin;
	*ret_end = e->end;
}

/* ---- the copy ---- */

/* Where OUTPUT goes: its parent, its name, and the name it has until it is whole. */
typedef struct {
	int parent;	  /* owned */
	char *name;	  /* owned */
	char *temporary; /* owned */
} Target;

static void target_clear(Target *t)
{
	close_fd(t->parent);
	free(t->name);
	free(t->temporary);
}

static int target_open(Target *t, const char *output, Failure *f)
{
	_cleanup_free_ char *copy = strdup(output);
	const char *parent = ".";
	char *slash;
	struct stat st;

	if (!copy)
		return failure_set(f, FAILURE_NO_MEMORY, "out of memory");
	for (size_t n = strlen(copy); n > 1 && copy[n - 1] == '/'; n--)
		copy[n - 1] = '\0';
	slash = strrchr(copy, '/');
	t->name = strdup(slash ? slash + 1 : copy);
	if (slash) {
		*slash = '\0';
		parent = slash == copy ? "/" : copy;
	}
	if (!t->name || asprintf(&t->temporary, ".%s.%d.tmp", t->name, (int)getpid()) < 0) {
		t->temporary = NULL;
		return failure_set(f, FAILURE_NO_MEMORY, "out of memory");
	}
	if (!*t->name || strcmp(t->name, ".") == 0 || strcmp(t->name, "..") == 0)
		return failure_set(f, FAILURE_INVALID, "'%s': name a directory that is to be made", output);
	t->parent = open_directory(AT_FDCWD, parent, true);
	if (t->parent < 0)
		return failure_set(f, FAILURE_IO, "%s: %s; make it first", parent, strerror(-t->parent));
	if (fstatat(t->parent, t->name, &st, AT_SYMLINK_NOFOLLOW) == 0)
		return failure_set(f, FAILURE_INVALID, "%s: exists already; name another, or remove it", output);
	return 0;
}

/* Of one owner, into the directory `fd`: 0 or -errno. */
static int source_copy(const Extract *e, const Source *s, const Range *range, int fd, ExtractResult *result)
{
	_cleanup_(trace_freep) Trace *trace = NULL;
	_cleanup_(metadata_text_clear) MetadataText text = { 0 };
	_cleanup_free_ char *copy = NULL, *from = NULL, *said = NULL;
	size_t size;
	int r = trace_new(&trace, fd, s->name);

	for (size_t i = 0; i < s->n_streams && r == 0; i++)
		if (strcmp(s->streams[i], "metadata") != 0)
			r = range_copy(range, s->fd, s->streams[i], s->uuid, trace, result);
	/* read when the streams are: of a trace that is being written, it knows what they hold */
	if (r == 0)
		r = metadata_text_read(&text, s->fd);
	if (r < 0)
		return r;
	if (asprintf(&from, "%s%s%s/%s", e->path, s->group ? "/" : "", s->group ? s->group : "",
		     e->n == 1 && !e->several ? "" : s->name) < 0) {
		from = NULL;
		return -ENOMEM;
	}
	said = range_text(range, s->offset);
	if (!said)
		return -ENOMEM;

	const TraceEnvironment pairs[] = { { "extracted_from", from }, { "range", said } };

	r = metadata_text_copy(&text, trace_uuid(trace), pairs, ELEMENTSOF(pairs), &copy, &size);
	if (r == 0)
		r = trace_finish(trace, copy, size);
	if (r == 0) {
		result->n_traces++;
		result->bytes += trace_bytes(trace);
	}
	return r;
}

/* The directory of the trace that an owner belongs to, opened or made. */
static int group_open(int fd, const char *name)
{
	char safe[256];

	trace_name(safe, sizeof(safe), name);
	if (mkdirat(fd, safe, 0750) < 0 && errno != EEXIST)
		return -errno;
	return open_directory(fd, safe, false);
}

/* True if anything of s may be in the range; an owner of a single trace always is, with or without events. */
static bool source_overlaps(const Extract *e, const Source *s, u64 from, u64 to)
{
	if (to < s->offset)
		return false;
	return !e->several || (s->begin <= s->end && s->begin + s->offset <= to && s->end + s->offset >= from);
}

static u64 less(u64 a, u64 b)
{
	return a > b ? a - b : 0;
}

static int sources_copy(const Extract *e, u64 from, u64 to, int fd, ExtractResult *result)
{
	int r = 0;

	for (size_t i = 0; i < e->n && r == 0; i++) {
		const Source *s = &e->sources[i];
		const Range range = { less(from, s->offset), less(to, s->offset) };
		_cleanup_close_ int group = -1;

		if (!source_overlaps(e, s, from, to))
			continue;
		if (s->group) {
			group = group_open(fd, s->group);
			if (group < 0)
				return group;
		}
		r = source_copy(e, s, &range, s->group ? group : fd, result);
	}
	return r;
}

static int say_failure(int r, const char *output, Failure *f)
{
	if (r == -ENOMEM)
		return failure_set(f, FAILURE_NO_MEMORY, "out of memory");
	if (r == -ENOSPC || r == -EDQUOT)
		return failure_set(f, FAILURE_NO_SPACE, "%s: no space is left: %s", output, strerror(-r));
	return failure_set(f, FAILURE_IO, "%s: cannot be written: %s", output, strerror(-r));
}

/* By rename, and never over what somebody made meanwhile. */
static int target_appear(const Target *t)
{
	struct stat st;

	if (renameat2(t->parent, t->temporary, t->parent, t->name, RENAME_NOREPLACE) < 0) {
		if (errno != EINVAL && errno != ENOSYS)
			return -errno;
		/* a file system that cannot promise it */
		if (fstatat(t->parent, t->name, &st, AT_SYMLINK_NOFOLLOW) == 0)
			return -EEXIST;
		if (renameat(t->parent, t->temporary, t->parent, t->name) < 0)
			return -errno;
	}
	return fsync(t->parent) < 0 ? -errno : 0;
}

int extract_write(Extract *e, u64 from, u64 to, const char *output, ExtractResult *ret, Failure *f)
{
	_cleanup_(target_clear) Target t = { .parent = -1 };
	_cleanup_close_ int fd = -1;
	ExtractResult result = { 0 };
	int r;

	*ret = result;
	if (from > to)
		return failure_set(f, FAILURE_INVALID, "the range ends before it begins");
	r = target_open(&t, output, f);
	if (r < 0)
		return r;
	if (mkdirat(t.parent, t.temporary, 0750) < 0)
		return say_failure(-errno, output, f);
	fd = open_directory(t.parent, t.temporary, false);
	r = fd < 0 ? fd : sources_copy(e, from, to, fd, &result);
	*ret = result;
	if (r == 0 && result.n_streams == 0)
		r = -ENODATA;
	if (r == 0 && fsync(fd) < 0)
		r = -errno;
	if (r == 0)
		r = target_appear(&t);
	if (r == 0)
		return 0;
	(void)removal_run(t.parent, t.temporary, NULL);
	if (r == -ENODATA)
		return failure_set(f, FAILURE_NOTHING, "%s: nothing was recorded in that time", e->path);
	return say_failure(r, output, f);
}
