/* SPDX-License-Identifier: MIT */
#include <signal.h>
#include <stdio.h>
#include <sys/eventfd.h>

#include "daemon/backing/backing-private.h"
#include "daemon/session.h"
#include "systemd/journal.h"
#include "systemd/messages.h"

/* Programs of one owner that are told of when one comes, and not only now and then. */
#define DESCRIBED_AT_ONCE 64

static void backing_unlink(Backing *b)
{
	for (Backing **p = &b->set->first; *p; p = &(*p)->next) {
		if (*p != b)
			continue;
		*p = b->next;
		break;
	}
	if (b->session)
		b->session->backing = NULL;
	b->session = NULL;
}

/* The thread has ended, or never was. */
static void backing_free(Backing *b)
{
	backing_unlink(b);
	if (b->has_thread)
		(void)pthread_join(b->thread, NULL);
	b->source = sd_event_source_disable_unref(b->source);
	backed_free_all(b->owners);
	backed_free_all(b->released);
	run_close(&b->run);
	(void)pthread_mutex_destroy(&b->lock);
	(void)pthread_cond_destroy(&b->wake);
	(void)pthread_cond_destroy(&b->ended_wake);
	(void)close_fd(b->event_fd);
	free(b->name);
	free(b->buffers);
	free(b->path);
	free(b);
}

static void backing_say(Backing *b, const char *trouble)
{
	if (strcmp(trouble, b->said) == 0)
		return;
	(void)snprintf(b->said, sizeof(b->said), "%s", trouble);
	if (trouble[0])
		journal_log(LOG_ERR, &(JournalFields){ .message_id = MESSAGE_BACKING_FAILED, .session = b->name },
			    "session '%s': %s", b->name, trouble);
	else
		journal_log(LOG_NOTICE, &(JournalFields){ .message_id = MESSAGE_BACKING_RESUMED, .session = b->name },
			    "session '%s': backing goes on", b->name);
	if (b->session && b->set->observer.changed)
		b->set->observer.changed(b->set->userdata, b->session);
}

static int backing_on_event(sd_event_source *source, int fd, u32 revents, void *userdata)
{
	Backing *b = userdata;
	char trouble[512];
	Backed *released;
	bool ended, locked;
	u64 n;

	if (read(fd, &n, sizeof(n)) != sizeof(n))
		return 0;
	(void)pthread_mutex_lock(&b->lock);
	released = b->released;
	b->released = NULL;
	ended = b->ended;
	locked = b->locked;
	b->locked = false;
	memcpy(trouble, b->trouble, sizeof(trouble));
	(void)pthread_mutex_unlock(&b->lock);
	backed_free_all(released);
	if (locked && b->session)
		session_look_back(b->session);
	if (b->session)
		backing_say(b, trouble);
	if (ended)
		backing_free(b);
	return 0;
}

static int backing_start(Backing *b)
{
	sigset_t all, before;
	int r;

	b->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (b->event_fd < 0)
		return -errno;
	r = sd_event_add_io(b->set->event, &b->source, b->event_fd, EPOLLIN, backing_on_event, b);
	if (r < 0)
		return r;
	/* signals are the loop's */
	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &before);
	r = -pthread_create(&b->thread, NULL, backing_thread, b);
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	b->has_thread = r == 0;
	return r;
}

int backing_new(Backing **ret, Backings *set, Session *s, const char *path, u64 interval_ns, bool goes_on)
{
	const Ground *ground = s->ground;
	Backing *b = calloc(1, sizeof(*b));
	pthread_condattr_t attr;
	int r;

	if (!b)
		return -ENOMEM;
	b->set = set;
	b->event_fd = -1;
	b->run = RUN_NULL;
	b->interval_ns = interval_ns;
	b->goes_on = goes_on;
	b->clock = board_clock(ground->board);
	memcpy(b->clock_uuid, board_clock_uuid(ground->board), sizeof(b->clock_uuid));
	b->name = strdup(s->config->name);
	b->buffers = strdup(buffers_name(s->config->buffers));
	b->path = strdup(path);
	(void)pthread_mutex_init(&b->lock, NULL);
	(void)pthread_condattr_init(&attr);
	(void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	(void)pthread_cond_init(&b->wake, &attr);
	(void)pthread_cond_init(&b->ended_wake, &attr);
	(void)pthread_condattr_destroy(&attr);
	b->next = set->first;
	set->first = b;
	r = b->name && b->buffers && b->path ? backing_start(b) : -ENOMEM;
	if (r < 0) {
		backing_free(b);
		return r;
	}
	b->session = s;
	*ret = b;
	return 0;
}

static Backed *backing_find(Backing *b, const Owner *o)
{
	Backed *x;

	(void)pthread_mutex_lock(&b->lock);
	for (x = b->owners; x && (x->owner != o || x->retired);)
		x = x->next;
	(void)pthread_mutex_unlock(&b->lock);
	return x;
}

bool backing_has(Backing *b, const Owner *o)
{
	return backing_find(b, o) != NULL;
}

int backing_add(Backing *b, Owner *o)
{
	Backed *x;
	int r = backed_new(&x, o, b->n_owners, &b->clock);

	if (r < 0)
		return r;
	b->n_owners++;
	(void)pthread_mutex_lock(&b->lock);
	x->next = b->owners;
	b->owners = x;
	(void)pthread_mutex_unlock(&b->lock);
	return 0;
}

int backing_tell(Backing *b, Owner *o)
{
	Backed *x = backing_find(b, o);

	int r = x ? backed_tell(x) : 0;

	/* of many the copy is dear: they wait for backing_describe() */
	if (r == 0 && x && o->described.n <= DESCRIBED_AT_ONCE && !backed_described(x)) {
		(void)pthread_mutex_lock(&b->lock);
		r = backed_describe(x);
		(void)pthread_mutex_unlock(&b->lock);
	}
	return r;
}

void backing_describe(Backing *b)
{
	(void)pthread_mutex_lock(&b->lock);
	for (Backed *x = b->owners; x; x = x->next)
		if (!x->retired && !backed_described(x))
			(void)backed_describe(x); /* out of memory: the next time */
	(void)pthread_mutex_unlock(&b->lock);
}

void backing_retire(Backing *b, Owner *o)
{
	Backed *x = backing_find(b, o);

	if (!x)
		return;
	(void)pthread_mutex_lock(&b->lock);
	x->retired = true;
	b->hurry = true; /* its memory is held until it is let go */
	(void)pthread_cond_signal(&b->wake);
	(void)pthread_mutex_unlock(&b->lock);
}

void backing_set_interval(Backing *b, u64 interval_ns)
{
	(void)pthread_mutex_lock(&b->lock);
	b->hurry |= interval_ns != b->interval_ns;
	b->interval_ns = interval_ns;
	(void)pthread_cond_signal(&b->wake);
	(void)pthread_mutex_unlock(&b->lock);
}

const char *backing_path(const Backing *b)
{
	return b->path;
}

void backing_info(Backing *b, BackingInfo *ret)
{
	(void)pthread_mutex_lock(&b->lock);
	*ret = b->info;
	(void)pthread_mutex_unlock(&b->lock);
	ret->trouble = b->said;
}

static void backing_quit(Backing *b, bool drop)
{
	(void)pthread_mutex_lock(&b->lock);
	b->quit = true;
	b->drop = drop;
	(void)pthread_cond_signal(&b->wake);
	(void)pthread_mutex_unlock(&b->lock);
}

void backing_drop(Backing *b)
{
	b->session->backing = NULL;
	b->session = NULL;
	backing_quit(b, true);
}

void backings_end(Backings *set, u64 timeout_ns, bool (*saved)(const Session *s))
{
	const struct timespec until = backing_deadline(timeout_ns);

	for (Backing *b = set->first; b; b = b->next)
		if (b->session)
			backing_quit(b, saved(b->session));
	for (Backing *b = set->first, *next; b; b = next) {
		bool ended;

		next = b->next;
		(void)pthread_mutex_lock(&b->lock);
		while (!b->ended && pthread_cond_timedwait(&b->ended_wake, &b->lock, &until) == 0)
			;
		ended = b->ended;
		(void)pthread_mutex_unlock(&b->lock);
		if (ended) {
			backing_free(b);
			continue;
		}
		/* left to the end of the process, with the owners that it has mapped */
		log_error("session '%s': its backing %s does not answer; it is as the last pass left it", b->name, b->path);
		b->source = sd_event_source_disable_unref(b->source);
		backing_unlink(b);
		set->hang = true;
	}
}
