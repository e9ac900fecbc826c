/* SPDX-License-Identifier: MIT */
/* One snapshot that was asked for. */
#include "daemon/job.h"

#include <stdio.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>

#include "daemon/retention.h"

static u64 now_real(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_REALTIME, &ts);
	return (u64)ts.tv_sec * NSEC_PER_SEC + (u64)ts.tv_nsec;
}

/* What was gathered; the sources' names and maps are borrowed from owners. */
void job_drop(Job *b)
{
	for (size_t i = 0; i < b->snapshot.n_sources; i++) {
		free(b->snapshot.sources[i].classes);
		free(b->snapshot.sources[i].cpu_of_ring);
		(void)owner_unref(b->owners[i]);
	}
	for (size_t i = 0; i < b->n_classes; i++)
		(void)class_unref(b->classes[i]);
	free(b->snapshot.sources);
	free(b->snapshot.environment);
	free(b->owners);
	free(b->was_idle);
	free(b->classes);
	b->snapshot = (SnapshotJob){};
	b->owners = NULL;
	b->was_idle = NULL;
	b->classes = NULL;
	b->n_classes = 0;
}

Job *job_free(Job *b)
{
	if (!b)
		return NULL;
	job_drop(b);
	for (size_t i = 0; i < b->n_environment; i++)
		free(b->environment[i]);
	(void)session_config_free(b->config);
	free(b->session_name);
	free(b->trigger);
	free(b->reason);
	free(b->directory);
	free(b->name);
	free(b->path);
	free(b);
	return NULL;
}

int job_name(Job *b, u64 *last_usec)
{
	u64 usec = now_real() / NSEC_PER_USEC;

	for (usec = MAX(usec, *last_usec + 1);; usec++) {
		time_t seconds = (time_t)(usec / 1000000);
		char stamp[32];
		struct stat st;
		struct tm tm;

		(void)gmtime_r(&seconds, &tm);
		(void)strftime(stamp, sizeof(stamp), "%Y%m%dT%H%M%S", &tm);
		free(b->name);
		free(b->path);
		b->name = b->path = NULL;
		if (asprintf(&b->name, "%s.%06uZ-%s", stamp, (unsigned)(usec % 1000000),
			     b->trigger) < 0) {
			b->name = NULL;
			return -ENOMEM;
		}
		if (asprintf(&b->path, "%s/%s", b->directory, b->name) < 0) {
			b->path = NULL;
			return -ENOMEM;
		}
		if (lstat(b->path, &st) < 0)
			break;
	}
	/* a clock that was set back by a day must not be led by the past for a day */
	*last_usec = usec - now_real() / NSEC_PER_USEC < 1000000 ? usec : 0;
	return 0;
}

/* ---- in the loop ---- */

static int job_gather_classes(Job *b, const Owner *o, SnapshotSource *source)
{
	Class **more;
	u32 n = 0;

	for (u32 id = 1; id < o->ids.n; id++)
		n += ids_entry(&o->ids, id) != NULL;
	source->classes = calloc(MAX(n, 1u), sizeof(*source->classes));
	more = realloc(b->classes, (b->n_classes + MAX(n, 1u)) * sizeof(*more));
	if (more)
		b->classes = more;
	if (!source->classes || !more)
		return -ENOMEM;
	for (u32 id = 1; id < o->ids.n; id++) {
		const IdEntry *e = ids_entry(&o->ids, id);

		if (!e)
			continue;
		b->classes[b->n_classes++] = class_ref(e->class);
		source->classes[source->n_classes++] =
			(TraceClass){ .id = id, .class = e->class->class };
	}
	return 0;
}

static int job_gather_owner(Job *b, Owner *o)
{
	SnapshotSource *source = &b->snapshot.sources[b->snapshot.n_sources];
	const struct geometry *g = &o->region.geometry;
	const Cpus *cpus = b->ground->cpus;

	*source = (SnapshotSource){ .map = o->region.map, .geometry = *g, .label = o->label };
	b->owners[b->snapshot.n_sources] = owner_ref(o);
	b->was_idle[b->snapshot.n_sources] = o->n_attachments == 0;
	b->snapshot.n_sources++;
	source->cpu_of_ring = calloc(g->n_ring, sizeof(u32));
	if (!source->cpu_of_ring)
		return -ENOMEM;
	for (u32 i = 0; i < g->n_ring; i++)
		source->cpu_of_ring[i] = i < cpus->n_rings ? cpus->cpu_of[i] : i;
	b->bytes += o->charged;
	return job_gather_classes(b, o, source);
}

static u64 pick(u64 asked, u64 configured)
{
	return asked ? asked : configured;
}

int job_gather(Job *b, Failure *f)
{
	const Session *s = b->session;
	const struct record_clock clock = board_clock(b->ground->board);
	SnapshotJob *t = &b->snapshot;
	int r = 0;

	if (s->n_owners == 0)
		return failure_set(f, FAILURE_INVALID,
				   "session '%s': no program has recorded anything yet, so there "
				   "is nothing to save",
				   b->session_name);
	b->config = session_config_copy(s->config);
	t->sources = calloc(s->n_owners, sizeof(*t->sources));
	b->owners = calloc(s->n_owners, sizeof(*b->owners));
	b->was_idle = calloc(s->n_owners, sizeof(*b->was_idle));
	t->environment = calloc(JOB_ENVIRONMENT_MAX + 2, sizeof(*t->environment));
	if (!b->config || !t->sources || !b->owners || !b->was_idle || !t->environment)
		return failure_set(f, FAILURE_NO_MEMORY, "out of memory");
	for (Owner *o = s->owners; o && r == 0; o = o->next)
		r = job_gather_owner(b, o);
	if (r < 0)
		return failure_set(f, FAILURE_NO_MEMORY, "out of memory");
	t->session = b->session_name;
	t->trigger = b->trigger;
	t->reason = b->reason;
	t->directory = b->directory;
	t->name = b->name;
	t->clock = clock;
	memcpy(t->trace_clock.uuid, board_clock_uuid(b->ground->board), 16);
	t->trace_clock.description = clock.kind == ABI_CLOCK_COUNTER ?
					     "CPU counter, in nanoseconds" :
					     "CLOCK_MONOTONIC";
	t->environment[t->n_environment++] =
		(TraceEnvironment){ "policy", policy_name(s->config->policy) };
	t->environment[t->n_environment++] =
		(TraceEnvironment){ "buffers", buffers_name(s->config->buffers) };
	for (size_t i = 0; i + 1 < b->n_environment; i += 2)
		t->environment[t->n_environment++] =
			(TraceEnvironment){ b->environment[i], b->environment[i + 1] };
	t->duration_ns = pick(b->options.duration_ns, s->config->snapshot.duration_ns);
	t->max_size = pick(b->options.max_size, s->config->snapshot.max_snapshot_size);
	t->discard = s->config->policy == POLICY_DISCARD;
	if (t->max_size && t->max_size < b->bytes)
		b->bytes = t->max_size;
	return 0;
}

/* ---- on the worker ---- */

static int directory_make(const char *path, Failure *f)
{
	_cleanup_free_ char *part = strdup(path);

	if (!part)
		return failure_set(f, FAILURE_NO_MEMORY, "out of memory");
	for (char *p = part + 1;; p++) {
		char c = *p;

		if (c && c != '/')
			continue;
		*p = 0;
		if (mkdir(part, 0750) < 0 && errno != EEXIST)
			return failure_set(f, errno == ENOSPC ? FAILURE_NO_SPACE : FAILURE_IO,
					   "cannot make %s: %s", part, strerror(errno));
		*p = c;
		if (!c)
			return 0;
	}
}

static int room_check(const Job *b, Failure *f)
{
	const SnapshotConfig *c = &b->config->snapshot;
	char need[32], is[32], keep[32];
	struct statvfs v;

	if (retention_room(b->directory, c, b->bytes))
		return 0;
	if (statvfs(b->directory, &v) < 0)
		return failure_set(f, FAILURE_IO, "%s: %s", b->directory, strerror(errno));
	format_size(b->bytes, need);
	format_size((u64)v.f_bavail * v.f_frsize, is);
	if (c->keep_free_percent)
		(void)snprintf(keep, sizeof(keep), "%u%%", c->keep_free_percent);
	else
		format_size(c->keep_free, keep);
	return failure_set(f, FAILURE_NO_SPACE,
			   "%s: a snapshot may take %s, %s are free and %s are to stay free "
			   "(snapshot.keep_free)",
			   b->directory, need, is, keep);
}

void job_work(void *userdata)
{
	Job *b = userdata;
	char partial[300];
	const char *const busy[] = { partial, b->name, NULL };

	(void)snprintf(partial, sizeof(partial), ".%s.tmp", b->name);
	b->r = directory_make(b->directory, &b->failure);
	if (b->r < 0)
		return;
	b->r = room_check(b, &b->failure);
	if (b->r < 0)
		return;
	(void)retention_apply(b->directory, &b->config->snapshot, busy, NULL);
	b->r = snapshot_run(&b->snapshot, &b->result, &b->failure);
	(void)retention_apply(b->directory, &b->config->snapshot, busy, NULL);
}
