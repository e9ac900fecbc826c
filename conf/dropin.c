/* SPDX-License-Identifier: MIT */
#include "conf/dropin.h"

#include <dirent.h>
#include <stdio.h>
#include <sys/stat.h>

#include "conf/problem.h"
#include "conf/field.h"
#include "conf/setting.h"

const char *const config_default_directories[] = { "/usr/lib/tracer", "/usr/local/lib/tracer",
						   "/run/tracer", "/etc/tracer", NULL };

typedef struct {
	char *name; /* of the file; points into path */
	char *path;
} Dropin;

typedef struct {
	Dropin *v;
	size_t n;
} Dropins;

static void dropins_clear(Dropins *d)
{
	for (size_t i = 0; i < d->n; i++)
		free(d->v[i].path);
	free(d->v);
}

static int strings_push(Strings *s, char *path)
{
	char **v = realloc(s->v, (s->n + 1) * sizeof(*v));

	if (!v)
		return -ENOMEM;
	s->v = v;
	s->v[s->n++] = path;
	return 0;
}

/* A link to /dev/null, however it is made: what it leads to tells. */
static bool is_null(const char *path)
{
	struct stat st, null;

	return stat(path, &st) == 0 && S_ISCHR(st.st_mode) && stat("/dev/null", &null) == 0 &&
	       st.st_rdev == null.st_rdev;
}

static bool is_empty(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISREG(st.st_mode) && st.st_size == 0;
}

/* The main files. A directory in the way, or a link to nowhere, is left to the reader, which says so. */
static int list_main(const char *const *directories, Strings *ret)
{
	for (; *directories; directories++) {
		_cleanup_free_ char *path = NULL;
		struct stat st;
		int r;

		if (asprintf(&path, "%s/tracer.conf", *directories) < 0) {
			path = NULL;
			return -ENOMEM;
		}
		if (lstat(path, &st) < 0 && (errno == ENOENT || errno == ENOTDIR))
			continue;
		if (is_null(path)) {
			strings_clear(ret);
			continue;
		}
		r = strings_push(ret, path);
		if (r < 0)
			return r;
		path = NULL; /* the list has it */
	}
	return 0;
}

static bool is_dropin_name(const char *name)
{
	static const char suffix[] = ".conf";
	size_t n = strlen(name), m = strlen(suffix);

	return *name != '.' && n > m && strcmp(name + n - m, suffix) == 0;
}

/* Instead of one of the same name, which came from a directory before. */
static int dropins_put(Dropins *d, const char *directory, const char *name)
{
	char *path = NULL;
	Dropin *v;
	size_t i = 0;

	if (asprintf(&path, "%s/%s", directory, name) < 0)
		return -ENOMEM;
	while (i < d->n && strcmp(d->v[i].name, name) != 0)
		i++;
	if (i == d->n) {
		v = realloc(d->v, (d->n + 1) * sizeof(*v));
		if (!v) {
			free(path);
			return -ENOMEM;
		}
		d->v = v;
		d->v[d->n++] = (Dropin){ 0 };
	}
	free(d->v[i].path);
	d->v[i] = (Dropin){ .path = path, .name = path + strlen(directory) + 1 };
	return 0;
}

static int list_directory(const char *directory, Dropins *ret, ConfigProblems *problems)
{
	_cleanup_free_ char *path = NULL;
	struct dirent *e;
	DIR *dir;
	int r = 0;

	if (asprintf(&path, "%s/tracer.conf.d", directory) < 0) {
		path = NULL;
		return -ENOMEM;
	}
	dir = opendir(path);
	if (!dir) {
		if (errno == ENOENT)
			return 0;
		return problem_add(problems, path, 0, false, "cannot be listed: %s", strerror(errno));
	}
	while (r == 0) {
		errno = 0;
		e = readdir(dir);
		if (!e) {
			if (errno != 0)
				r = problem_add(problems, path, 0, false, "cannot be listed: %s",
						strerror(errno));
			break;
		}
		if (is_dropin_name(e->d_name))
			r = dropins_put(ret, path, e->d_name);
	}
	(void)closedir(dir);
	return r;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const Dropin *)a)->name, ((const Dropin *)b)->name);
}

int dropin_list(const char *const *directories, Strings *ret, ConfigProblems *problems)
{
	_cleanup_(dropins_clear) Dropins d = { 0 };
	_cleanup_(strings_clear) Strings list = { 0 };
	int r = list_main(directories, &list);

	for (; r == 0 && *directories; directories++)
		r = list_directory(*directories, &d, problems);
	if (r < 0)
		return r;
	if (d.n > 0)
		qsort(d.v, d.n, sizeof(*d.v), by_name);
	for (size_t i = 0; i < d.n; i++) {
		if (is_null(d.v[i].path) || is_empty(d.v[i].path))
			continue;
		r = strings_push(&list, d.v[i].path);
		if (r < 0)
			return r;
		d.v[i].path = NULL; /* the list has it */
	}
	*ret = list;
	list = (Strings){ 0 };
	return 0;
}
