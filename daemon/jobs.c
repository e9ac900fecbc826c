/* SPDX-License-Identifier: MIT */
/* Snapshots that are asked for. */
#include "daemon/jobs.h"

#include <stdio.h>

#include "daemon/job.h"
#include "daemon/outcome.h"
#include "daemon/reasons.h"
#include "daemon/retention.h"
#include "daemon/state-session.h"
#include "daemon/worker.h"

struct Jobs {
	Ground *ground;
	Worker *copier, *writer;
	sd_event_source *begin;
	Job *first;
	u32 n; /* from first on */
	Job *copying, *copied, *writing; /* on their way: with the copier, before the writer, with it */
	u64 last_name_usec, last_number;
	Reasons saved;
	JobsObserver observer;
	void *userdata;
};

/* Tells everybody, once. */
static void job_finish(Job *b)
{
	Jobs *j = b->queue;
	const char *path = b->r < 0 ? NULL : b->path;

	if (!path)
		outcome_failed(b);
	state_job_gone(b->ground->state, b);
	j->observer.finished(j->userdata, b->session, b->session_name, b->reason, path);
	if (b->done)
		b->done(b->userdata, path, path ? NULL : &b->failure);
	(void)job_free(b);
}

static void jobs_begin(Jobs *j);

static void job_end(Job *b)
{
	if (b->r >= 0)
		outcome_written(b, &b->queue->saved);
	/* Class and owner references are counted by the loop alone; give them back before callers are told, who may
	 * look at the memory. */
	job_drop(b);
	job_finish(b);
}

static void job_written(void *userdata)
{
	Job *b = userdata;
	Jobs *j = b->queue;

	j->writing = NULL;
	job_end(b);
	jobs_begin(j);
}

static void job_is_copied(void *userdata)
{
	Job *b = userdata;
	Jobs *j = b->queue;

	j->copying = NULL;
	if (b->r == 0)
		b->r = job_gather_classes(b, &b->failure);
	if (b->r == 0)
		j->copied = b;
	else
		job_end(b);
	jobs_begin(j);
}

static Job *jobs_pop(Jobs *j)
{
	Job *b = j->first;

	if (!b)
		return NULL;
	j->first = b->next;
	j->n--;
	if (b->session)
		b->session->n_waiting--;
	return b;
}

/* Hands on what can be handed on. */
static void jobs_begin(Jobs *j)
{
	/* -EBUSY: sweeping still */
	if (j->copied && worker_run(j->writer, job_write, job_written, j->copied) == 0)
		j->writing = steal_ptr(j->copied);
	while (!j->copying && !j->copied && j->first) {
		Job *b = jobs_pop(j);
		int r = job_gather(b, &b->failure);

		/* from then on b->r is the thread's to say */
		if (r == 0)
			r = worker_run(j->copier, job_copy, job_is_copied, b);
		if (r == 0) {
			j->copying = b;
			continue;
		}
		b->r = r;
		job_end(b);
	}
}

static int jobs_on_begin(sd_event_source *s, void *userdata)
{
	jobs_begin(userdata);
	return 0;
}

/* ---- what a daemon that was killed left ---- */

typedef struct {
	Jobs *jobs;
	char directory[];
} Sweep;

static void sweep_run(void *userdata)
{
	Sweep *w = userdata;

	(void)retention_sweep(w->directory);
}

static void sweep_done(void *userdata)
{
	Sweep *w = userdata;
	Jobs *j = w->jobs;

	free(w);
	jobs_begin(j);
}

/* Before anything is written, so that nothing it finds half made is at work. */
static int jobs_sweep(Jobs *j, const char *directory)
{
	size_t n = strlen(directory) + 1;
	Sweep *w = malloc(sizeof(*w) + n);

	if (!w)
		return -ENOMEM;
	w->jobs = j;
	memcpy(w->directory, directory, n);
	return worker_run(j->writer, sweep_run, sweep_done, w);
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
	r = worker_new(&j->copier, event);
	if (r == 0)
		r = worker_new(&j->writer, event);
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
	r = jobs_sweep(j, ground->snapshot_directory);
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
	while ((b = j->copied ? steal_ptr(j->copied) : jobs_pop(j))) {
		b->session = NULL;
		b->r = failure_set(&b->failure, FAILURE_BUSY, "the daemon is stopping");
		job_end(b);
	}
	/* A job that is still at work keeps all it was handed: the process is about to end. */
	j->copier = worker_free(j->copier);
	j->writer = worker_free(j->writer);
	reasons_clear(&j->saved);
	free(j);
	return NULL;
}

static void jobs_insert(Jobs *j, Job *b)
{
	Job **at = &j->first;

	while (*at && ((*at)->automatic || !b->automatic))
		at = &(*at)->next;
	b->next = *at;
	*at = b;
	j->n++;
}

/* usec: the name it has already; 0: none. */
static int jobs_put(Jobs *j, Session *s, u64 usec, const char *trigger, const char *reason, bool automatic,
		    const SnapshotOptions *options, const char *const *environment, SnapshotDone done,
		    void *userdata, char **ret_path, Failure *f)
{
	_cleanup_(job_freep) Job *b = NULL;

	if (s->n_owners == 0)
		return session_nothing(s, f);
	if (!automatic && j->n >= JOBS_MAX)
		return failure_set(f, FAILURE_BUSY, "%u snapshots are waiting already; try later",
				   j->n);
	b = calloc(1, sizeof(*b));
	if (!b)
		return failure_set(f, FAILURE_NO_MEMORY, "out of memory");
	b->queue = j;
	b->ground = j->ground;
	b->session = s;
	b->automatic = automatic;
	b->number = ++j->last_number;
	if (options)
		b->options = *options;
	b->session_name = strdup(s->config->name);
	b->trigger = strdup(trigger);
	b->reason = strdup(reason);
	b->directory = strdup(s->snapshots);
	if (!b->session_name || !b->trigger || !b->reason || !b->directory ||
	    (usec ? job_name_again(b, usec) : job_name(b, &j->last_name_usec)) < 0)
		return failure_set(f, FAILURE_NO_MEMORY, "out of memory");
	b->due_usec = b->usec;
	b->due_path = strdup(b->path);
	if (!b->due_path)
		return failure_set(f, FAILURE_NO_MEMORY, "out of memory");
	for (; environment && environment[0] && b->n_environment < JOB_ENVIRONMENT_MAX * 2; environment++) {
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
	state_job(j->ground->state, b);
	jobs_insert(j, steal_ptr(b));
	s->n_waiting++;
	if (j->begin)
		(void)sd_event_source_set_enabled(j->begin, SD_EVENT_ONESHOT);
	return 0;
}

void jobs_number_from(Jobs *j, u64 last)
{
	j->last_number = MAX(j->last_number, last);
}

u64 jobs_number(const Jobs *j)
{
	return j->last_number;
}

const char *jobs_path(const Jobs *j, u64 number)
{
	const Job *const cut[] = { j->copying, j->copied, j->writing };

	for (const Job *b = j->first; b; b = b->next)
		if (b->number == number)
			return b->path;
	for (size_t i = 0; i < ELEMENTSOF(cut); i++)
		if (cut[i] && cut[i]->number == number)
			return cut[i]->path;
	return reasons_path(&j->saved, number);
}

int jobs_add(Jobs *j, Session *s, const char *trigger, const char *reason, bool automatic,
	     const SnapshotOptions *options, const char *const *environment, SnapshotDone done,
	     void *userdata, char **ret_path, Failure *f)
{
	return jobs_put(j, s, 0, trigger, reason, automatic, options, environment, done, userdata, ret_path, f);
}

int jobs_again(Jobs *j, Session *s, u64 usec, const char *trigger, const char *reason, const char *const *environment,
	       Failure *f)
{
	j->last_name_usec = MAX(j->last_name_usec, usec);
	return jobs_put(j, s, usec, trigger, reason, true, NULL, environment, NULL, NULL, NULL, f);
}

bool jobs_join(Jobs *j, const Session *s, const char *reason, u64 *ret_number)
{
	for (Job *b = j->first; b; b = b->next) {
		if (b->session != s || !b->automatic)
			continue;
		reasons_add(&b->reason, reason);
		*ret_number = b->number;
		state_job(j->ground->state, b);
		return true;
	}
	return false;
}

void jobs_explain(Jobs *j, u64 number, const char *more, const char *coredump)
{
	Job *b = j->first;

	while (b && b->number != number)
		b = b->next;
	/* The copier does not look at reasons; the writer does, from the moment it has the job. */
	if (!b && j->copying && j->copying->number == number)
		b = j->copying;
	if (!b && j->copied && j->copied->number == number)
		b = j->copied;
	if (b) {
		if (more)
			reasons_add(&b->reason, more);
		b->snapshot.reason = b->reason;
	} else if (j->writing && j->writing->number == number) {
		b = j->writing;
		reasons_add(&b->late, more);
	} else {
		reasons_say(&j->saved, number, more, coredump);
	}
	if (b && coredump && !b->coredump)
		b->coredump = strdup(coredump);
	/* the writer may be at its name */
	if (b && b != j->writing)
		state_job(j->ground->state, b);
}

void jobs_forget(Jobs *j, const Session *s)
{
	Job *gone = NULL;

	Job *const cut[] = { j->copying, j->copied, j->writing };

	for (size_t i = 0; i < ELEMENTSOF(cut); i++)
		if (cut[i] && cut[i]->session == s)
			cut[i]->session = NULL;
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
	u64 end = monotonic_ns() + timeout_ns;

	jobs_begin(j);
	while (worker_busy(j->copier) || worker_busy(j->writer)) {
		u64 now = monotonic_ns();

		/* whatever ends hands on what waits for it, so each is waited for in turn */
		if (now >= end ||
		    !worker_wait(worker_busy(j->copier) ? j->copier : j->writer, end - now))
			return;
	}
}

void jobs_state(const Jobs *j)
{
	const Job *const cut[] = { j->copying, j->copied, j->writing };

	for (size_t i = 0; i < ELEMENTSOF(cut); i++)
		if (cut[i])
			state_job(j->ground->state, cut[i]);
	for (const Job *b = j->first; b; b = b->next)
		state_job(j->ground->state, b);
}

u32 jobs_n(const Jobs *j)
{
	return j->n + (j->copying != NULL) + (j->copied != NULL) + (j->writing != NULL);
}
