/* SPDX-License-Identifier: MIT */
/* A snapshot or a finished trace of a continuous session: both are named alike, and are one thing here. What has to go is first renamed to the name of a temporary one, then
 * removed: whoever lists the directory sees whole ones only, and what a crash of the daemon leaves half removed is
 * swept next time. A trace that is being written is none of either yet. */
#include "daemon/retention.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>

#include "daemon/removal.h"

typedef struct {
	char *name; /* owned */
	u64 size;   /* on disk */
} Entry;

typedef struct {
	int fd; /* owned: the directory */
	Entry *v;
	size_t n; /* sorted: oldest first */
} Entries;

static void entries_clear(Entries *e)
{
	close_fd(e->fd);
	for (size_t i = 0; i < e->n; i++)
		free(e->v[i].name);
	free(e->v);
}

/* "20261129T160102.123456Z-manual", "...-trace": the only form that is ours to remove. Not "...-trace.active": a
 * consumer is writing there, or was, and then it is for repair to make a trace of it. */
static bool is_snapshot(const char *s, size_t n)
{
	static const char form[] = "dddddddd\1dddddd.ddddddZ-", active[] = RETENTION_ACTIVE;
	const size_t tail = sizeof(active) - 1;
	size_t i;

	if (n <= sizeof(form) - 1 || strncmp(s + n - tail, active, tail) == 0)
		return false;
	for (i = 0; i < sizeof(form) - 1; i++) {
		if (form[i] == 'd' ? s[i] < '0' || s[i] > '9'
				   : s[i] != (form[i] == '\1' ? 'T' : form[i]))
			return false;
	}
	for (; i < n; i++)
		if (!((s[i] >= 'a' && s[i] <= 'z') || (s[i] >= 'A' && s[i] <= 'Z') ||
		      (s[i] >= '0' && s[i] <= '9') || strchr("-_.+", s[i])))
			return false;
	return true;
}

/* ".NAME.tmp" of a snapshot's name */
static bool is_temporary(const char *s)
{
	size_t n = strlen(s);

	return n > 5 && s[0] == '.' && strcmp(s + n - 4, ".tmp") == 0 && is_snapshot(s + 1, n - 5);
}

/* busy names jobs ("NAME"), or what they write to (".NAME.tmp"). */
static bool is_busy(const char *temporary, const char *const *busy)
{
	size_t n = strlen(temporary) - 5;

	for (; busy && *busy; busy++)
		if (strcmp(*busy, temporary) == 0 ||
		    (strlen(*busy) == n && strncmp(*busy, temporary + 1, n) == 0))
			return true;
	return false;
}

/* When a snapshot was taken, by its name: seconds since the epoch. */
static time_t taken_at(const char *name)
{
	struct tm tm = {0};

	if (sscanf(name, "%4d%2d%2dT%2d%2d%2d", &tm.tm_year, &tm.tm_mon, &tm.tm_mday, &tm.tm_hour,
		   &tm.tm_min, &tm.tm_sec) != 6)
		return 0;
	tm.tm_year -= 1900;
	tm.tm_mon -= 1;
	return timegm(&tm);
}

static int compare_entries(const void *a, const void *b)
{
	return strcmp(((const Entry *)a)->name, ((const Entry *)b)->name);
}

/* Reads the directory. With `sweep`, dead temporaries are removed on the way. */
static int entries_read(Entries *ret, const char *directory, bool sweep, const char *const *busy,
			int *error)
{
	_cleanup_(entries_clear)
	    Entries e = {.fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
	int list;
	DIR *d;

	if (e.fd < 0)
		return -errno;
	/* a stream of its own: closedir() closes its descriptor */
	list = openat(e.fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	d = list < 0 ? NULL : fdopendir(list);
	if (!d) {
		int r = -errno;

		close_fd(list);
		return r;
	}
	for (struct dirent *entry = readdir(d); entry; entry = readdir(d)) {
		const char *name = entry->d_name;
		struct stat st;

		if (sweep && is_temporary(name) && !is_busy(name, busy)) {
			int r = removal_run(e.fd, name, NULL);

			if (r < 0 && *error == 0)
				*error = r;
			continue;
		}
		if (!is_snapshot(name, strlen(name)) ||
		    fstatat(e.fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISDIR(st.st_mode))
			continue;

		Entry *v = reallocarray(e.v, e.n + 1, sizeof(*v));
		if (v)
			e.v = v;
		char *copy = v ? strdup(name) : NULL;
		if (!copy) {
			closedir(d);
			return -ENOMEM;
		}
		e.v[e.n++] = (Entry){copy, removal_size(e.fd, name)};
	}
	closedir(d);
	if (e.n > 0)
		qsort(e.v, e.n, sizeof(*e.v), compare_entries);
	*ret = e;
	e = (Entries){.fd = -1};
	return 0;
}

static u64 available(int fd, const RetentionConfig *c, u64 *ret_keep)
{
	struct statvfs v;

	*ret_keep = c->keep_free;
	if (fstatvfs(fd, &v) < 0)
		return UINT64_MAX; /* not known: nothing is removed for it */
	if (c->keep_free_percent)
		*ret_keep = (u64)v.f_blocks * v.f_frsize / 100 * MIN(c->keep_free_percent, 100u);
	return (u64)v.f_bavail * v.f_frsize;
}

static int entry_remove(const Entries *e, const Entry *entry, RetentionResult *result)
{
	_cleanup_free_ char *temporary = NULL;
	int r;

	if (asprintf(&temporary, ".%s.tmp", entry->name) < 0) {
		temporary = NULL;
		return -ENOMEM;
	}
	if (renameat(e->fd, entry->name, e->fd, temporary) < 0)
		return errno == ENOENT ? 0 : -errno;
	r = removal_run(e->fd, temporary, NULL);
	result->n_removed++;
	result->bytes_removed += entry->size;
	return r;
}

static int apply(const char *directory, const RetentionConfig *c, bool sweep, const char *const *busy,
		 RetentionResult *ret)
{
	_cleanup_(entries_clear) Entries e = {.fd = -1};
	RetentionResult result = {0};
	time_t now = time(NULL);
	u64 total = 0;
	int error = 0;
	int r;

	r = entries_read(&e, directory, sweep, busy, &error);
	if (r < 0)
		return r == -ENOENT ? 0 : r;
	for (size_t i = 0; i < e.n; i++)
		total += e.v[i].size;

	/* oldest first, until every limit holds; the newest stays whatever the limits say */
	for (size_t i = 0; i + 1 < e.n; i++) {
		u64 keep, free_bytes = available(e.fd, c, &keep);
		time_t age = now - taken_at(e.v[i].name);
		bool go = (c->max_count && e.n - i > c->max_count) ||
			  (c->max_size && total > c->max_size) ||
			  (c->max_age_ns && age > 0 && (u64)age > c->max_age_ns / NSEC_PER_SEC) ||
			  free_bytes < keep;

		if (!go)
			break;
		r = entry_remove(&e, &e.v[i], &result);
		if (r < 0 && error == 0)
			error = r;
		total -= MIN(total, e.v[i].size);
	}
	if (ret)
		*ret = result;
	return error;
}

int retention_apply(const char *directory, const RetentionConfig *c, const char *const *busy,
		    RetentionResult *ret)
{
	return apply(directory, c, true, busy, ret);
}

int retention_limit(const char *directory, const RetentionConfig *c, RetentionResult *ret)
{
	return apply(directory, c, false, NULL, ret);
}

static int directory_sweep(int at, const char *name)
{
	int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW), error = 0;
	DIR *d = fd < 0 ? NULL : fdopendir(fd);

	if (!d) {
		error = errno == ENOTDIR || errno == ELOOP || errno == ENOENT ? 0 : -errno;
		close_fd(fd);
		return error;
	}
	for (struct dirent *entry = readdir(d); entry; entry = readdir(d)) {
		int r = is_temporary(entry->d_name) ? removal_run(fd, entry->d_name, NULL) : 0;

		if (r < 0 && error == 0)
			error = r;
	}
	(void)closedir(d);
	return error;
}

int retention_sweep(const char *directory)
{
	DIR *d = opendir(directory);
	int error = 0;

	if (!d)
		return errno == ENOENT ? 0 : -errno;
	for (struct dirent *entry = readdir(d); entry; entry = readdir(d)) {
		/* no session's name begins with '.' */
		int r = entry->d_name[0] == '.' ? 0 : directory_sweep(dirfd(d), entry->d_name);

		if (r < 0 && error == 0)
			error = r;
	}
	(void)closedir(d);
	return error;
}

bool retention_room(const char *directory, const RetentionConfig *c, u64 bytes)
{
	_cleanup_(entries_clear) Entries e = {.fd = -1};
	u64 keep, room;
	int error = 0;

	if (c->keep_free == 0 && c->keep_free_percent == 0)
		return true;
	if (entries_read(&e, directory, false, NULL, &error) < 0)
		return true; /* who writes there will say what is wrong with it */
	room = available(e.fd, c, &keep);
	/* all that is there now may go once the new one is the newest */
	for (size_t i = 0; i < e.n && room < UINT64_MAX / 2; i++)
		room += e.v[i].size;
	return room >= keep && room - keep >= bytes;
}
