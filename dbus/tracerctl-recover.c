/* SPDX-License-Identifier: MIT */
/* Traces of what a machine that died has left on a disk. Asks no daemon: the disk may be in another machine by now. */
#include "dbus/tracerctl.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>

#include "daemon/backing/recovery.h"
#include "dbus/moment.h"
#include "dbus/text.h"

#define RUNS_MAX 4096

typedef struct {
	char **v; /* owned */
	size_t n;
} Paths;

static void paths_clear(Paths *p)
{
	for (size_t i = 0; i < p->n; i++)
		free(p->v[i]);
	free(p->v);
}

static int compare_paths(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static int paths_add(Paths *p, const char *path)
{
	char **v = reallocarray(p->v, p->n + 1, sizeof(*v));

	if (v)
		p->v = v;
	if (!v || !(v[p->n] = strdup(path)))
		return -ENOMEM;
	p->n++;
	return 0;
}

/* A run; a session's directory, with runs in it; or a backing, with sessions in it. */
static int runs_find(Paths *ret, const char *path, u32 depth)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d;
	int r = 0;

	if (fd < 0)
		return -errno;
	if (recovery_is_run(fd))
		return paths_add(ret, path);
	if (depth == 0)
		return 0;
	d = opendir(path);
	if (!d)
		return -errno;
	for (struct dirent *entry; r >= 0 && ret->n < RUNS_MAX && (entry = readdir(d));) {
		_cleanup_free_ char *below = NULL;

		if (entry->d_name[0] == '.')
			continue;
		if (asprintf(&below, "%s/%s", path, entry->d_name) < 0) {
			below = NULL;
			r = -ENOMEM;
			break;
		}
		r = runs_find(ret, below, depth - 1);
		if (r == -ENOTDIR || r == -ENOENT || r == -ELOOP)
			r = 0;
	}
	(void)closedir(d);
	return r;
}

static void say(FILE *out, const char *text)
{
	char clean[2048];

	(void)fprintf(out, "tracerctl: %s\n", text_clean(text, clean, sizeof(clean)));
}

static void notes_print(const Notes *notes)
{
	for (size_t i = 0; i < notes->n; i++)
		say(stderr, notes->v[i]);
	if (notes->n_more)
		(void)fprintf(stderr, "tracerctl: and %u more\n", notes->n_more);
}

static void result_print(const Options *o, const char *directory, const RecoveryResult *r)
{
	char until[64] = "-", last[64], session[256];

	if (o->no_legend) {
		(void)printf("%s/%s\n", directory, r->name);
		return;
	}
	if (r->synced)
		moment_format(r->synced, until);
	moment_format(r->last, last);
	(void)printf("%s/%s: session %s, %u owners, %" PRIu64 " records\n", directory, r->name,
		     text_clean(r->session, session, sizeof(session)), r->n_owners, r->snapshot.n_records);
	(void)printf("  everything up to %s%s, and what of later was on the disk, up to %s\n", until,
		     r->notes.n_damage ? ", but for the damaged parts" : "", last);
	if (r->snapshot.corrupt_records)
		(void)printf("  %" PRIu64 " records could not be had\n", r->snapshot.corrupt_records);
}

static int run_recover(const Options *o, const char *path, const char *directory, const char *name)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	Failure f = FAILURE_NULL;
	RecoveryResult result;
	int r, status = STATUS_OK;

	if (fd < 0)
		return failed(errno == EACCES ? STATUS_PERMISSION : STATUS_FAILED, "%s: %s", path, strerror(errno));
	r = recovery_run(&(RecoveryOptions){ .dir_fd = fd, .path = path, .directory = directory, .name = name }, &result, &f);
	notes_print(&result.notes);
	if (r < 0)
		status = failed(strstr(f.text, strerror(EACCES)) ? STATUS_PERMISSION : STATUS_FAILED, "%s", f.text);
	else
		result_print(o, directory, &result);
	if (result.notes.n_damage && status == STATUS_OK)
		status = STATUS_FAILED;
	recovery_clear(&result);
	return status;
}

/* OUTPUT as a directory and a name in it. */
static int output_split(const char *output, char **ret_directory, const char **ret_name)
{
	const char *slash = strrchr(output, '/');
	struct stat st;

	*ret_name = slash ? slash + 1 : output;
	if (!**ret_name || **ret_name == '.' || strlen(*ret_name) > NAME_MAX - 8)
		return failed(STATUS_USAGE, "%s: is no name for a trace", output);
	if (lstat(output, &st) == 0)
		return failed(STATUS_FAILED, "%s: is there already", output);
	*ret_directory = !slash ? strdup(".") : slash == output ? strdup("/") : strndup(output, (size_t)(slash - output));
	return *ret_directory ? STATUS_OK : failed(STATUS_FAILED, "Out of memory");
}

int verb_recover(const Options *o, int argc, char **argv)
{
	_cleanup_(paths_clear) Paths runs = {};
	_cleanup_free_ char *directory = NULL;
	const char *name = NULL;
	int r, status = STATUS_OK;

	r = runs_find(&runs, argv[0], 2);
	if (r < 0)
		return failed(r == -EACCES ? STATUS_PERMISSION : STATUS_FAILED, "%s: %s", argv[0], strerror(-r));
	if (runs.n == 0)
		return failed(STATUS_FAILED, "%s: there are no rings of ours in it; give a session's `backing`, or a copy of it",
			      argv[0]);
	qsort(runs.v, runs.n, sizeof(*runs.v), compare_paths);
	if (argc > 1 && runs.n == 1) {
		status = output_split(argv[1], &directory, &name);
		if (status != STATUS_OK)
			return status;
	} else if (argc > 1) {
		/* several: each a trace of its own, in it */
		if (mkdir(argv[1], 0750) < 0)
			return failed(STATUS_FAILED, "%s: %s", argv[1], strerror(errno));
		directory = strdup(argv[1]);
	} else {
		directory = strdup(".");
	}
	if (!directory)
		return failed(STATUS_FAILED, "Out of memory");
	for (size_t i = 0; i < runs.n; i++) {
		int k = run_recover(o, runs.v[i], directory, name);

		status = status == STATUS_OK ? k : status;
	}
	return status;
}
