/* SPDX-License-Identifier: MIT */
/* One snapshot that was asked for. */
#include "daemon/job.h"

#include <stdio.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>

#include "daemon/retention.h"
#include "daemon/stamp.h"

/* What was gathered; the sources' names and maps are borrowed from owners. */
void job_drop(Job *b)
{
	b->copy = snapshot_free(b->copy);
	for (size_t i = 0; i < b->snapshot.n_sources; i++) {
		if (b->pinned)
			owner_unpin(b->owners[i]);
		free(b->snapshot.sources[i].classes);
		descriptions_clear(&b->snapshot.sources[i].producers);
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
	b->pinned = false;
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
	free(b->late);
	free(b->coredump);
	free(b->directory);
	free(b->name);
	free(b->path);
	free(b->due_path);
	free(b);
	return NULL;
}

/* The name that says `usec`. 0 or -ENOMEM, with the one before kept. */
static int job_set_name(Job *b, u64 usec)
{
	_cleanup_free_ char *name = NULL, *path = NULL;
	char stamp[STAMP_SIZE];

	stamp_write(stamp, usec * NSEC_PER_USEC);
	if (asprintf(&name, "%s-%s", stamp, b->trigger) < 0) {
		name = NULL;
		return -ENOMEM;
	}
	if (asprintf(&path, "%s/%s", b->directory, name) < 0) {
		path = NULL;
		return -ENOMEM;
	}
	free(b->name);
	free(b->path);
	b->name = steal_ptr(name);
	b->path = steal_ptr(path);
	b->usec = usec;
	return 0;
}

int job_name(Job *b, u64 *last_usec)
{
	u64 now = realtime_ns() / NSEC_PER_USEC, usec = MAX(now, *last_usec + 1);

	/* a clock that was set back by a day must not be led by the past for a day */
	if (usec - now >= 1000000)
		usec = now;
	*last_usec = usec;
	return job_set_name(b, usec);
}

int job_name_again(Job *b, u64 usec)
{
	return job_set_name(b, usec);
}

/* ---- in the loop ---- */

static int job_gather_source(Job *b, const Owner *o, SnapshotSource *source)
{
	const Cpus *cpus = b->ground->cpus;
	u32 n = 0, n_ring = source->geometry.n_ring;
	Class **more;

	source->cpu_of_ring = calloc(n_ring, sizeof(u32));
	if (!source->cpu_of_ring)
		return -ENOMEM;
	for (u32 i = 0; i < n_ring; i++)
		source->cpu_of_ring[i] = i < cpus->n_rings ? cpus->cpu_of[i] : i;

	if (described_copy(&o->described, SIZE_MAX, &source->producers) < 0)
		return -ENOMEM;
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

int job_gather_classes(Job *b, Failure *f)
{
	int r = 0;

	for (size_t i = 0; i < b->snapshot.n_sources && r == 0; i++)
		r = job_gather_source(b, b->owners[i], &b->snapshot.sources[i]);
	for (size_t i = 0; i < b->snapshot.n_sources; i++)
		owner_unpin(b->owners[i]);
	b->pinned = false;
	return r < 0 ? failure_set(f, FAILURE_NO_MEMORY, "out of memory") : 0;
}

static void job_gather_owner(Job *b, Owner *o)
{
	SnapshotSource *source = &b->snapshot.sources[b->snapshot.n_sources];

	*source = (SnapshotSource){ .map = o->region.map,
				    .geometry = o->region.geometry,
				    .label = o->label };
	b->owners[b->snapshot.n_sources] = owner_ref(o);
	owner_pin(o);
	b->was_idle[b->snapshot.n_sources] = o->n_attachments == 0;
	b->snapshot.n_sources++;
	b->bytes += o->charged;
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

	if (s->n_owners == 0)
		return session_nothing(s, f);
	b->config = session_config_copy(s->config);
	t->sources = calloc(s->n_owners, sizeof(*t->sources));
	b->owners = calloc(s->n_owners, sizeof(*b->owners));
	b->was_idle = calloc(s->n_owners, sizeof(*b->was_idle));
	t->environment = calloc(JOB_ENVIRONMENT_MAX + 2, sizeof(*t->environment));
	if (!b->config || !t->sources || !b->owners || !b->was_idle || !t->environment)
		return failure_set(f, FAILURE_NO_MEMORY, "out of memory");
	b->pinned = true;
	b->n_renewals = s->n_renewals;
	for (Owner *o = s->owners; o; o = o->next)
		job_gather_owner(b, o);
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
	/* of a program that is about to die, or just has: nothing else is so easily pushed out by those that live */
	t->urgent = strcmp(b->trigger, cause_name(CAUSE_CRASH)) == 0;
	t->discard = s->config->policy != POLICY_OVERWRITE;
	if (t->max_size && t->max_size < b->bytes)
		b->bytes = t->max_size;
	return 0;
}

/* ---- on the workers ---- */

void job_copy(void *userdata)
{
	Job *b = userdata;

	b->r = snapshot_copy(&b->copy, &b->snapshot, &b->failure);
}

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
	const RetentionConfig *c = &b->config->snapshot.keep;
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

/* No name is ever taken over from another snapshot. Those asked for by this daemon differ; on disk there may be ones of a day
 * that the clock was set back to. */
static int name_check(Job *b, Failure *f)
{
	struct stat st;

	while (lstat(b->path, &st) == 0)
		if (job_set_name(b, b->usec + 1) < 0)
			return failure_set(f, FAILURE_NO_MEMORY, "out of memory");
	b->snapshot.name = b->name;
	return 0;
}

static int job_write_all(Job *b, Failure *f)
{
	_cleanup_free_ char *partial = NULL;
	int r;

	r = directory_make(b->directory, f);
	if (r == 0)
		r = name_check(b, f);
	if (r == 0)
		r = room_check(b, f);
	if (r < 0)
		return r;
	if (asprintf(&partial, ".%s.tmp", b->name) < 0) {
		partial = NULL;
		return failure_set(f, FAILURE_NO_MEMORY, "out of memory");
	}
	const char *const busy[] = { partial, b->name, NULL };

	(void)retention_apply(b->directory, &b->config->snapshot.keep, busy, NULL);
	r = snapshot_write(b->copy, &b->result, f);
	(void)retention_apply(b->directory, &b->config->snapshot.keep, busy, NULL);
	return r;
}

void job_write(void *userdata)
{
	Job *b = userdata;

	b->r = job_write_all(b, &b->failure);
	/* here, not in the loop: giving hundreds of megabytes back takes long enough for programs to notice */
	b->copy = snapshot_free(b->copy);
}
