/* SPDX-License-Identifier: MIT */
/* Snapshots that are asked for. */
#include "daemon/jobs.h"

#include <stdio.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>

#include "daemon/retention.h"
#include "daemon/snapshot.h"
#include "daemon/worker.h"
#include "systemd/journal.h"
#include "systemd/messages.h"

#define REASON_MAX	 2048 /* all reasons of one snapshot together */
#define ENVIRONMENT_MAX	 16

typedef struct Job Job;
struct Job {
	Job *next;
	Jobs *jobs;
	Session *session; /* NULL: removed meanwhile */
	SessionConfig *config; /* own copy, of when it was taken up */
	char *session_name, *trigger, *reason, *directory, *name, *path;
	bool automatic;
	SnapshotOptions options;
	SnapshotDone done;
	void *userdata;
	char *environment[ENVIRONMENT_MAX * 2];
	size_t n_environment; /* strings */

	/* gathered when it begins */
	SnapshotJob snapshot;
	Owner **owners; /* owned references, n_sources */
	bool *was_idle;
	Class **classes; /* owned references of all sources */
	size_t n_classes;
	u64 bytes; /* at most on disk */

	/* of the worker */
	SnapshotResult result;
	Failure failure;
	int r;
};

struct Jobs {
	Ground *ground;
	Worker *worker;
	sd_event_source *begin;
	Job *first, **last, *running;
	u32 n;
	u64 last_name_usec;
	JobsObserver observer;
	void *userdata;
};

static u64 now_clock(clockid_t clock)
{
	struct timespec ts;

	(void)clock_gettime(clock, &ts);
	return (u64)ts.tv_sec * NSEC_PER_SEC + (u64)ts.tv_nsec;
}

/* What was gathered; the sources' names and maps are borrowed from owners. */
static void job_drop_sources(Job *b)
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

static Job *job_free(Job *b)
{
	if (!b)
		return NULL;
	job_drop_sources(b);
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
DEFINE_CLEANUP(Job *, job_free)

/* Tells everybody, once. */
static void job_finish(Job *b)
{
	Jobs *j = b->jobs;
	const char *path = b->r < 0 ? NULL : b->path;

	if (b->r < 0)
		journal_log(LOG_ERR,
			    &(JournalFields){ .message_id = MESSAGE_SNAPSHOT_FAILED,
					      .session = b->session_name,
					      .trigger = b->trigger },
			    "session '%s': no snapshot (%s): %s", b->session_name, b->reason,
			    b->failure.text);
	j->observer.finished(j->userdata, b->session, b->session_name, b->reason, path);
	if (b->done)
		b->done(b->userdata, path, path ? NULL : &b->failure);
	(void)job_free(b);
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

static void job_work(void *userdata)
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
	const Cpus *cpus = b->jobs->ground->cpus;

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

static int job_gather(Job *b, Failure *f)
{
	const Session *s = b->session;
	const struct record_clock clock = board_clock(b->jobs->ground->board);
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
	t->environment = calloc(ENVIRONMENT_MAX + 2, sizeof(*t->environment));
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
	memcpy(t->trace_clock.uuid, board_clock_uuid(b->jobs->ground->board), 16);
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

static void jobs_begin(Jobs *j);

static void job_learn(Job *b)
{
	Session *s = b->session;
	const SnapshotResult *t = &b->result;
	u64 lost = t->overwritten;

	for (u32 i = 0; i < ABI_LOST_CAUSES; i++)
		lost += t->lost[i];
	journal_log(LOG_NOTICE,
		    &(JournalFields){ .message_id = MESSAGE_SNAPSHOT_WRITTEN,
				      .session = b->session_name,
				      .path = b->path,
				      .trigger = b->trigger,
				      .lost = lost,
				      .has_lost = true },
		    "session '%s': snapshot %s (%s): %llu records", b->session_name, b->path,
		    b->reason, (unsigned long long)t->n_records);
	if (t->corrupt_subs || t->clamped)
		journal_log(LOG_WARNING,
			    &(JournalFields){ .message_id = MESSAGE_CORRUPT,
					      .session = b->session_name,
					      .path = b->path },
			    "session '%s': %llu sub-buffers held bytes that no library of ours "
			    "writes and were left out, %llu stamps went backwards",
			    b->session_name, (unsigned long long)t->corrupt_subs,
			    (unsigned long long)t->clamped);
	if (!s)
		return;
	s->written += t->n_records;
	s->clamped += t->clamped;
	s->corrupt += t->corrupt_subs;
	free(s->last_snapshot);
	s->last_snapshot = strdup(b->path);
	/* What a dead process left is on disk now, and nobody will write there again. */
	for (size_t i = 0; i < b->snapshot.n_sources; i++) {
		Owner *o = b->owners[i];

		if (o->key.kind == BUFFERS_PER_PROCESS && b->was_idle[i] && o->session == s &&
		    o->n_attachments == 0)
			session_drop_owner(s, o);
	}
}

static void job_done(void *userdata)
{
	Job *b = userdata;
	Jobs *j = b->jobs;

	j->running = NULL;
	if (b->r >= 0)
		job_learn(b);
	/* Class and owner references are counted by the loop alone; give them back before callers are told, who may
	 * look at the memory. */
	job_drop_sources(b);
	job_finish(b);
	jobs_begin(j);
}

static Job *jobs_pop(Jobs *j)
{
	Job *b = j->first;

	if (!b)
		return NULL;
	j->first = b->next;
	if (!j->first)
		j->last = &j->first;
	j->n--;
	return b;
}

static void jobs_begin(Jobs *j)
{
	while (!j->running && j->first) {
		Job *b = jobs_pop(j);

		b->r = job_gather(b, &b->failure);
		if (b->r == 0)
			b->r = worker_run(j->worker, job_work, job_done, b);
		if (b->r == 0) {
			j->running = b;
			return;
		}
		job_drop_sources(b);
		job_finish(b);
	}
}

static int jobs_on_begin(sd_event_source *s, void *userdata)
{
	jobs_begin(userdata);
	return 0;
}

int jobs_new(Jobs **ret, sd_event *event, Ground *ground, const JobsObserver *observer, void *userdata)
{
	_cleanup_(jobs_freep) Jobs *j = calloc(1, sizeof(*j));
	int r;

	if (!j)
		return -ENOMEM;
	j->ground = ground;
	j->observer = *observer;
	j->userdata = userdata;
	j->last = &j->first;
	r = worker_new(&j->worker, event);
	if (r < 0)
		return r;
	r = sd_event_add_defer(event, &j->begin, jobs_on_begin, j);
	if (r < 0)
		return r;
	/* Behind the deaths that the same turn of the loop found, so that one disaster is one snapshot; before all
	 * else. */
	(void)sd_event_source_set_priority(j->begin, SD_EVENT_PRIORITY_IMPORTANT + 10);
	r = sd_event_source_set_enabled(j->begin, SD_EVENT_OFF);
	if (r < 0)
		return r;
	*ret = steal_ptr(j);
	return 0;
}

Jobs *jobs_free(Jobs *j)
{
	Job *b;

	if (!j)
		return NULL;
	j->begin = sd_event_source_disable_unref(j->begin);
	while ((b = jobs_pop(j))) {
		b->session = NULL;
		b->r = failure_set(&b->failure, FAILURE_BUSY, "the daemon is stopping");
		job_finish(b);
	}
	/* A job that is still at work keeps all it was handed: the process is about to end. */
	j->worker = worker_free(j->worker);
	free(j);
	return NULL;
}

/* "20261129T160102.123456Z-manual": sorts by time, and is taken by no snapshot that is there or asked for. */
static int job_name(Jobs *j, Job *b)
{
	u64 usec = now_clock(CLOCK_REALTIME) / NSEC_PER_USEC;

	for (usec = MAX(usec, j->last_name_usec + 1);; usec++) {
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
	j->last_name_usec = usec - now_clock(CLOCK_REALTIME) / NSEC_PER_USEC < 1000000 ? usec : 0;
	return 0;
}

int jobs_add(Jobs *j, Session *s, const char *trigger, const char *reason, bool automatic,
	     const SnapshotOptions *options, const char *const *environment, SnapshotDone done,
	     void *userdata, char **ret_path, Failure *f)
{
	_cleanup_(job_freep) Job *b = NULL;

	if (s->n_owners == 0)
		return failure_set(f, FAILURE_INVALID,
				   "session '%s': no program has recorded anything yet, so there "
				   "is nothing to save",
				   s->config->name);
	if (j->n >= JOBS_MAX)
		return failure_set(f, FAILURE_BUSY, "%u snapshots are waiting already; try later",
				   j->n);
	b = calloc(1, sizeof(*b));
	if (!b)
		return failure_set(f, FAILURE_NO_MEMORY, "out of memory");
	b->jobs = j;
	b->session = s;
	b->automatic = automatic;
	if (options)
		b->options = *options;
	b->session_name = strdup(s->config->name);
	b->trigger = strdup(trigger);
	b->reason = strdup(reason);
	b->directory = strdup(s->output);
	if (!b->session_name || !b->trigger || !b->reason || !b->directory || job_name(j, b) < 0)
		return failure_set(f, FAILURE_NO_MEMORY, "out of memory");
	for (; environment && environment[0] && b->n_environment < ENVIRONMENT_MAX * 2; environment++) {
		b->environment[b->n_environment] = strdup(environment[0]);
		if (!b->environment[b->n_environment])
			return failure_set(f, FAILURE_NO_MEMORY, "out of memory");
		b->n_environment++;
	}
	if (ret_path) {
		*ret_path = strdup(b->path);
		if (!*ret_path)
			return failure_set(f, FAILURE_NO_MEMORY, "out of memory");
	}
	b->done = done;
	b->userdata = userdata;
	*j->last = b;
	j->last = &b->next;
	j->n++;
	b = NULL;
	if (j->begin)
		(void)sd_event_source_set_enabled(j->begin, SD_EVENT_ONESHOT);
	return 0;
}

bool jobs_join(Jobs *j, const Session *s, const char *reason)
{
	for (Job *b = j->first; b; b = b->next) {
		_cleanup_free_ char *both = NULL;

		if (b->session != s || !b->automatic)
			continue;
		if (strlen(b->reason) + strlen(reason) + 2 > REASON_MAX)
			return true; /* a disaster of hundreds: the snapshot is theirs too */
		if (asprintf(&both, "%s; %s", b->reason, reason) < 0) {
			both = NULL;
			return true;
		}
		free(b->reason);
		b->reason = steal_ptr(both);
		return true;
	}
	return false;
}

void jobs_forget(Jobs *j, const Session *s)
{
	Job *gone = NULL;

	if (j->running && j->running->session == s)
		j->running->session = NULL;
	for (Job **p = &j->first; *p;) {
		Job *b = *p;

		if (b->session != s) {
			p = &b->next;
			continue;
		}
		*p = b->next;
		j->n--;
		b->next = gone;
		gone = b;
	}
	for (j->last = &j->first; *j->last;)
		j->last = &(*j->last)->next;
	for (Job *b = gone, *next; b; b = next) {
		next = b->next;
		b->session = NULL;
		b->r = failure_set(&b->failure, FAILURE_NO_SUCH_SESSION,
				   "session '%s' was removed before its snapshot began",
				   b->session_name);
		job_finish(b);
	}
}

void jobs_drain(Jobs *j, u64 timeout_ns)
{
	u64 end = now_clock(CLOCK_MONOTONIC) + timeout_ns;

	jobs_begin(j);
	while (j->running) {
		u64 now = now_clock(CLOCK_MONOTONIC);

		if (now >= end || !worker_wait(j->worker, end - now))
			return;
	}
}

u32 jobs_n(const Jobs *j)
{
	return j->n + (j->running != NULL);
}
