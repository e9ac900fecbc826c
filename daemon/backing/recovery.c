/* SPDX-License-Identifier: MIT */
#include "daemon/backing/recovery.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>

#include "daemon/backing/format.h"
#include "daemon/backing/relic.h"
#include "daemon/stamp.h"
#include "daemon/trace/environment.h"

/* Owners of one run that are read at most: each takes as much memory as its rings. */
#define OWNERS_MAX 4096

typedef struct {
	const RecoveryOptions *options;
	struct backing_session session;
	bool has_session;
	Relic *relics; /* owned */
	size_t n;
	u64 cut, realtime_offset, synced;
} Recovery;

static void run_clear(Recovery *v)
{
	for (size_t i = 0; i < v->n; i++)
		relic_clear(&v->relics[i]);
	free(v->relics);
}

void recovery_clear(RecoveryResult *r)
{
	free(r->session);
	free(r->name);
	notes_clear(&r->notes);
	*r = (RecoveryResult){};
}

/* ---- reading ---- */

static int session_open(int dir_fd)
{
	struct stat st;
	int fd = openat(dir_fd, BACKING_SESSION, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

	if (fd >= 0 && (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)))
		return close_fd(fd);
	return fd;
}

bool recovery_is_run(int dir_fd)
{
	_cleanup_close_ int fd = session_open(dir_fd);

	return fd >= 0;
}

static void text_end(char *s, size_t size)
{
	s[size - 1] = '\0';
}

/* What is said of the session is for people alone: without it the rings are read all the same. */
static void session_read(Recovery *v, Notes *notes)
{
	_cleanup_close_ int fd = session_open(v->options->dir_fd);
	struct backing_session *s = &v->session;
	ssize_t n = fd < 0 ? -1 : pread(fd, s, sizeof(*s), 0);
	u64 sum = s->checksum;

	s->checksum = 0;
	if (n != sizeof(*s) || s->magic != BACKING_MAGIC_SESSION || s->version != BACKING_VERSION ||
	    backing_checksum(0, s, sizeof(*s)) != sum) {
		notes_add(notes, true, "%s/" BACKING_SESSION ": torn, or none of ours: session, host, boot and clock are not known",
			  v->options->path);
		*s = (struct backing_session){};
		return;
	}
	text_end(s->name, sizeof(s->name));
	text_end(s->host, sizeof(s->host));
	text_end(s->buffers, sizeof(s->buffers));
	text_end(s->boot_text, sizeof(s->boot_text));
	v->has_session = true;
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void names_free(char **v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(v[i]);
	free(v);
}

/* The images, sorted: what is said of them comes in the same order each time. */
static int names_list(int dir_fd, char ***ret, size_t *ret_n)
{
	int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	char **v = NULL;
	size_t n = 0;

	if (!d) {
		int r = -errno;

		(void)close_fd(fd);
		return r;
	}
	for (struct dirent *entry; n < OWNERS_MAX && (entry = readdir(d));) {
		size_t length = strlen(entry->d_name), tail = strlen(BACKING_RINGS);
		char **more, *copy;

		if (length <= tail || strcmp(entry->d_name + length - tail, BACKING_RINGS) != 0)
			continue;
		more = reallocarray(v, n + 1, sizeof(*v));
		if (more)
			v = more;
		copy = more ? strdup(entry->d_name) : NULL;
		if (!copy) {
			names_free(v, n);
			(void)closedir(d);
			return -ENOMEM;
		}
		v[n++] = copy;
	}
	(void)closedir(d);
	if (n)
		qsort(v, n, sizeof(*v), compare_names);
	*ret = v;
	*ret_n = n;
	return 0;
}

static int relics_read(Recovery *v, Notes *notes)
{
	char **names = NULL;
	size_t n = 0;
	int r = names_list(v->options->dir_fd, &names, &n);

	if (r == 0)
		v->relics = calloc(n + 1, sizeof(*v->relics));
	if (r == 0 && !v->relics)
		r = -ENOMEM;
	for (size_t i = 0; i < n && r == 0; i++) {
		Relic *relic = &v->relics[v->n];

		r = relic_read(relic, v->options->dir_fd, names[i], notes);
		if (r == -EBADMSG) { /* noted; the others are others */
			r = 0;
			continue;
		}
		if (r < 0)
			break;
		v->n++;
		if (relic->n_sub_buffers == 0 && relic->pass == 0)
			continue;
		if (relic->cut > v->cut) {
			v->cut = relic->cut;
			v->realtime_offset = relic->realtime_offset;
		}
		v->synced = MAX(v->synced, relic->until);
	}
	/* alone it is its own measure */
	if (v->n == 1)
		v->synced = MAX(v->synced, v->relics[0].synced);
	names_free(names, n);
	return r;
}

/* ---- writing ---- */

static bool name_taken(const char *directory, const char *name)
{
	_cleanup_free_ char *path = NULL;
	struct stat st;

	if (asprintf(&path, "%s/%s", directory, name) < 0) {
		path = NULL;
		return false; /* whoever makes it says so */
	}
	return lstat(path, &st) == 0;
}

/* Not one that is there already. A time that a clock never had is as good as another for a name. */
static char *name_choose(const Recovery *v)
{
	u64 real = v->cut + v->realtime_offset;

	for (;; real += 1000) {
		const RecoveryOptions *o = v->options;
		char *name, stamp[STAMP_SIZE];

		stamp_write(stamp, real);
		if (asprintf(&name, "%s-recovered", stamp) < 0)
			return NULL;
		if (!name_taken(o->directory, name) && !(o->beside && name_taken(o->beside, name)))
			return name;
		free(name);
	}
}

static int capture_make(Recovery *v, Capture *c)
{
	size_t n = 0;

	for (size_t i = 0; i < v->n; i++)
		n += v->relics[i].n_rings;
	*c = (Capture){ .cut = v->cut, .realtime_offset_ns = v->realtime_offset };
	c->rings = calloc(n + 1, sizeof(*c->rings));
	if (!c->rings)
		return -ENOMEM;
	for (size_t i = 0; i < v->n; i++)
		for (u32 k = 0; k < v->relics[i].n_rings; k++) {
			CaptureRing *ring = &c->rings[c->n_rings++];

			*ring = v->relics[i].rings[k];
			ring->source = (u32)i;
			v->relics[i].rings[k].copy = NULL; /* the capture's now */
		}
	return 0;
}

static void environment_fill(Environment *e, const Recovery *v, const Notes *notes)
{
	if (v->session.buffers[0])
		environment_add(e, "buffers", "%s", v->session.buffers);
	if (v->synced)
		environment_add_time(e, "synced_until", v->synced + v->realtime_offset);
	environment_add(e, "recovered_from", "%s", v->options->path);
	environment_add(e, "damaged_parts", "%u", notes->n_damage);
	for (size_t i = 0; i < notes->n; i++) {
		char key[32];

		(void)snprintf(key, sizeof(key), "not_read_%zu", i + 1);
		environment_add(e, key, "%s", notes->v[i]);
	}
}

static int run_write(Recovery *v, RecoveryResult *result, Failure *f)
{
	_cleanup_(environment_clear) Environment e = {};
	_cleanup_(snapshot_freep) Snapshot *snapshot = NULL;
	_cleanup_free_ SnapshotSource *sources = calloc(v->n, sizeof(*sources));
	SnapshotJob job = {
		.session = result->session,
		.trigger = "recovered",
		.reason = "the machine, or tracerd, ended while the session recorded",
		.directory = v->options->directory,
		.name = result->name,
		.clock = { v->session.clock, v->session.clock_mult },
		.trace_clock = { .description = v->session.clock == ABI_CLOCK_COUNTER ? "CPU counter, in nanoseconds" :
											  "CLOCK_MONOTONIC" },
		.sources = sources,
		.n_sources = v->n,
		.hostname = v->session.host,
		.boot_id = v->session.boot_text,
	};
	Capture c;
	int r;

	environment_fill(&e, v, &result->notes);
	if (!sources || e.failed || capture_make(v, &c) < 0)
		return failure_set(f, FAILURE_NO_MEMORY, "out of memory");
	memcpy(job.trace_clock.uuid, v->session.clock_uuid, sizeof(job.trace_clock.uuid));
	job.environment = e.v;
	job.n_environment = e.n;
	for (size_t i = 0; i < v->n; i++)
		sources[i] = (SnapshotSource){
			.geometry = v->relics[i].geometry,
			.label = v->relics[i].label,
			.classes = v->relics[i].classes.v,
			.n_classes = v->relics[i].classes.n,
			.cpu_of_ring = v->relics[i].cpu_of_ring,
			.producers = v->relics[i].programs,
		};
	r = snapshot_found(&snapshot, &job, &c);
	if (r < 0) {
		capture_clear(&c);
		return failure_set(f, FAILURE_NO_MEMORY, "out of memory");
	}
	return snapshot_write(snapshot, &result->snapshot, f);
}

/* A run whose first block is gone lies in its session's directory, as a rule. */
static char *session_name(const Recovery *v)
{
	_cleanup_free_ char *path = strdup(v->options->path);
	char *slash;

	if (v->has_session && v->session.name[0])
		return strdup(v->session.name);
	if (!path)
		return NULL;
	slash = strrchr(path, '/');
	if (!slash || slash == path)
		return strdup("unknown");
	*slash = '\0';
	slash = strrchr(path, '/');
	return strdup(slash ? slash + 1 : path);
}

int recovery_run(const RecoveryOptions *o, RecoveryResult *ret, Failure *f)
{
	Recovery v = { .options = o };
	u32 n_records = 0;
	int r;

	*ret = (RecoveryResult){};
	session_read(&v, &ret->notes);
	r = relics_read(&v, &ret->notes);
	ret->session = r == 0 ? session_name(&v) : NULL;
	for (size_t i = 0; i < v.n; i++)
		n_records += v.relics[i].n_sub_buffers;
	if (r == 0 && n_records)
		ret->name = o->name ? strdup(o->name) : name_choose(&v);
	if (r < 0)
		r = r == -ENOMEM ? failure_set(f, FAILURE_NO_MEMORY, "%s: not enough memory for its rings", o->path) :
				   failure_set(f, FAILURE_IO, "%s: %s", o->path, strerror(-r));
	else if (!n_records)
		r = failure_set(f, FAILURE_NOTHING, "%s: no event has reached this disk", o->path);
	else if (!ret->session || !ret->name)
		r = failure_set(f, FAILURE_NO_MEMORY, "out of memory");
	else
		r = run_write(&v, ret, f);
	ret->n_owners = (u32)v.n;
	ret->synced = v.synced ? v.synced + v.realtime_offset : 0;
	ret->last = v.cut + v.realtime_offset;
	run_clear(&v);
	return r;
}
