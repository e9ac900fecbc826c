/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <sys/stat.h>

#include "daemon/backing/backing-private.h"
#include "daemon/capture.h"
#include "daemon/priority.h"
#include "systemd/journal.h"

static void thread_notify(Backing *b)
{
	u64 one = 1;

	while (write(b->event_fd, &one, sizeof(one)) < 0 && errno == EINTR)
		;
}

/* Takes those that go out of the list, and their files away. */
static void thread_retire(Backing *b)
{
	Backed *gone = NULL, *last = NULL;

	(void)pthread_mutex_lock(&b->lock);
	for (Backed **p = &b->owners, *x; (x = *p);) {
		if (!x->retired) {
			p = &x->next;
			continue;
		}
		*p = x->next;
		x->next = gone;
		gone = x;
	}
	(void)pthread_mutex_unlock(&b->lock);
	if (!gone)
		return;
	for (Backed *x = gone; x; x = x->next) {
		if (b->run.fd >= 0)
			(void)image_remove(x->image, b->run.fd);
		last = x;
	}
	(void)pthread_mutex_lock(&b->lock);
	last->next = b->released;
	b->released = gone;
	(void)pthread_mutex_unlock(&b->lock);
	thread_notify(b);
}

static Backed *thread_next(Backing *b, const Backed *after)
{
	Backed *x;

	/* only this thread takes one out */
	(void)pthread_mutex_lock(&b->lock);
	for (x = after ? after->next : b->owners; x && x->retired;)
		x = x->next;
	(void)pthread_mutex_unlock(&b->lock);
	return x;
}

/* What went wrong with which step, for the one sentence that is said of it. */
static int thread_copy(Backing *b, const char **ret_what)
{
	bool made = false;
	struct stat st;
	int r = 0;

	/* somebody took it away: it is made again, with all that the rings hold now */
	if (b->run.fd >= 0 && fstat(b->run.fd, &st) == 0 && st.st_nlink == 0) {
		for (Backed *x = NULL; (x = thread_next(b, x));)
			image_reset(x->image);
		run_close(&b->run);
		b->until = 0;
	}
	*ret_what = "cannot be made";
	if (b->run.fd < 0)
		r = run_make(&b->run, b->path,
			     &(RunSession){ .session = b->name,
					    .buffers = b->buffers,
					    .clock = b->clock,
					    .clock_uuid = b->clock_uuid });
	if (r < 0)
		return r;
	*ret_what = "cannot be written";
	for (Backed *x = NULL; (x = thread_next(b, x));) {
		Descriptions programs;
		int k;

		(void)pthread_mutex_lock(&b->lock);
		programs = x->programs;
		x->programs = (Descriptions){};
		(void)pthread_mutex_unlock(&b->lock);
		if (programs.v)
			image_describe(x->image, &programs);
		k = image_pass(x->image, b->run.fd, b->until, &made, &b->counters);

		/* the others' rings may have room yet */
		if (k < 0 && r == 0)
			r = k;
	}
	/* new names: without them what is durable is not found */
	if (made && fsync(b->run.fd) < 0 && r == 0)
		r = -errno;
	return r;
}

/* They hold what these rings held: until that is on disk anew nobody makes traces of them. */
static void thread_lock_before(Backing *b)
{
	char after[64] = "";
	Run run;

	while (b->n_before < RUNS_BEFORE && run_claim(&run, b->path, b->name, after[0] ? after : NULL) > 0) {
		(void)snprintf(after, sizeof(after), "%s", run_name(&run));
		if (run_of_this_boot(&run))
			b->before[b->n_before++] = run;
		else
			run_close(&run);
	}
	(void)pthread_mutex_lock(&b->lock);
	b->locked = true;
	(void)pthread_mutex_unlock(&b->lock);
	thread_notify(b);
}

/* What stays is taken for what a machine that died has left: it comes back as a trace at the next start. */
static void thread_remove(const Backing *b, Run *run)
{
	int r = run_remove(run);

	if (r < 0 && r != -ENOENT)
		log_warning("session '%s': %s cannot be removed: %s; the next tracerd makes a trace of it, unless somebody removes it",
			    b->name, run->path, strerror(-r));
}

static void thread_forget_before(Backing *b, bool remove)
{
	while (b->n_before > 0) {
		Run *run = &b->before[--b->n_before];

		if (remove)
			thread_remove(b, run);
		else
			run_close(run);
	}
}

static void thread_pass(Backing *b)
{
	u64 begun = record_clock_now(&b->clock), offset = capture_realtime_offset(&b->clock);
	char trouble[512] = "";
	const char *what;
	bool changed;
	int r;

	thread_retire(b);
	r = thread_copy(b, &what);
	if (r == 0)
		b->until = begun;
	if (r == 0)
		thread_forget_before(b, true);
	else
		(void)snprintf(trouble, sizeof(trouble), "backing: %.300s/%.100s %s: %s; programs go on recording, and it is tried again",
			       b->path, b->name, what, strerror(-r));
	(void)pthread_mutex_lock(&b->lock);
	changed = strcmp(trouble, b->trouble) != 0;
	memcpy(b->trouble, trouble, sizeof(trouble));
	if (r == 0)
		b->info.synced = begun + offset;
	b->info.written = b->counters.bytes;
	b->info.missed = b->counters.missed;
	(void)pthread_mutex_unlock(&b->lock);
	if (changed)
		thread_notify(b);
}

struct timespec backing_deadline(u64 ns)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	ns += (u64)ts.tv_nsec;
	ts.tv_sec += (time_t)(ns / NSEC_PER_SEC);
	ts.tv_nsec = (long)(ns % NSEC_PER_SEC);
	return ts;
}

void *backing_thread(void *backing)
{
	Backing *b = backing;
	bool drop;

	priority_usual();
	if (b->goes_on)
		thread_lock_before(b);
	(void)pthread_mutex_lock(&b->lock);
	while (!b->quit) {
		const struct timespec until = backing_deadline(b->interval_ns);

		b->hurry = false;
		(void)pthread_mutex_unlock(&b->lock);
		thread_pass(b);
		(void)pthread_mutex_lock(&b->lock);
		while (!b->quit && !b->hurry && pthread_cond_timedwait(&b->wake, &b->lock, &until) == 0)
			;
	}
	drop = b->drop;
	(void)pthread_mutex_unlock(&b->lock);
	if (drop && b->run.fd >= 0)
		thread_remove(b, &b->run);
	else if (!drop)
		thread_pass(b);
	/* no pass was durable: they are still the newest that there is */
	thread_forget_before(b, drop);
	(void)pthread_mutex_lock(&b->lock);
	b->ended = true;
	(void)pthread_cond_broadcast(&b->ended_wake);
	(void)pthread_mutex_unlock(&b->lock);
	thread_notify(b);
	return NULL;
}
