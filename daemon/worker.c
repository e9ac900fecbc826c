/* SPDX-License-Identifier: MIT */
/* One thread for work that waits for disks. */
#include "daemon/worker.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include "daemon/priority.h"

struct Worker {
	pthread_t thread;
	bool has_thread;
	pthread_mutex_t lock; /* guards work and quit; the rest is the loop's */
	pthread_cond_t wake;
	void (*work)(void *userdata);
	bool quit;
	int event_fd; /* the thread adds 1 when a piece is done: release to the loop's read */
	sd_event_source *source;
	bool busy;
	void (*done)(void *userdata);
	void *userdata;
};

static void *worker_thread(void *userdata)
{
	Worker *w = userdata;

	priority_usual();
	(void)pthread_mutex_lock(&w->lock);
	while (!w->quit) {
		void (*work)(void *userdata) = w->work;
		u64 one = 1;

		if (!work) {
			(void)pthread_cond_wait(&w->wake, &w->lock);
			continue;
		}
		w->work = NULL;
		(void)pthread_mutex_unlock(&w->lock);
		work(w->userdata);
		while (write(w->event_fd, &one, sizeof(one)) < 0 && errno == EINTR)
			;
		(void)pthread_mutex_lock(&w->lock);
	}
	(void)pthread_mutex_unlock(&w->lock);
	return NULL;
}

static void worker_finish(Worker *w)
{
	u64 n;

	if (read(w->event_fd, &n, sizeof(n)) != sizeof(n))
		return;
	w->busy = false;
	/* may hand over the next piece */
	w->done(w->userdata);
}

static int worker_on_event(sd_event_source *s, int fd, u32 revents, void *userdata)
{
	worker_finish(userdata);
	return 0;
}

int worker_new(Worker **ret, sd_event *event)
{
	_cleanup_(worker_freep) Worker *w = calloc(1, sizeof(*w));
	sigset_t all, saved;
	int r;

	if (!w)
		return -ENOMEM;
	(void)pthread_mutex_init(&w->lock, NULL);
	(void)pthread_cond_init(&w->wake, NULL);
	w->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (w->event_fd < 0)
		return -errno;
	r = sd_event_add_io(event, &w->source, w->event_fd, EPOLLIN, worker_on_event, w);
	if (r < 0)
		return r;
	/* signals are the loop's */
	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &saved);
	r = pthread_create(&w->thread, NULL, worker_thread, w);
	(void)pthread_sigmask(SIG_SETMASK, &saved, NULL);
	if (r)
		return -r;
	w->has_thread = true;
	*ret = steal_ptr(w);
	return 0;
}

Worker *worker_free(Worker *w)
{
	if (!w)
		return NULL;
	w->source = sd_event_source_disable_unref(w->source);
	if (w->busy) {
		(void)pthread_detach(w->thread);
		return NULL;
	}
	if (w->has_thread) {
		(void)pthread_mutex_lock(&w->lock);
		w->quit = true;
		(void)pthread_cond_signal(&w->wake);
		(void)pthread_mutex_unlock(&w->lock);
		(void)pthread_join(w->thread, NULL);
	}
	w->event_fd = close_fd(w->event_fd);
	(void)pthread_cond_destroy(&w->wake);
	(void)pthread_mutex_destroy(&w->lock);
	free(w);
	return NULL;
}

bool worker_busy(const Worker *w)
{
	return w->busy;
}

int worker_run(Worker *w, void (*work)(void *userdata), void (*done)(void *userdata), void *userdata)
{
	if (w->busy)
		return -EBUSY;
	w->busy = true;
	w->done = done;
	(void)pthread_mutex_lock(&w->lock);
	w->userdata = userdata;
	w->work = work;
	(void)pthread_cond_signal(&w->wake);
	(void)pthread_mutex_unlock(&w->lock);
	return 0;
}

bool worker_wait(Worker *w, u64 timeout_ns)
{
	struct pollfd p = { .fd = w->event_fd, .events = POLLIN };
	struct timespec ts = { .tv_sec = (time_t)(timeout_ns / NSEC_PER_SEC),
			       .tv_nsec = (long)(timeout_ns % NSEC_PER_SEC) };
	int r;

	if (!w->busy)
		return true;
	do {
		/* EINTR starts the time again: signals that end the daemon are blocked by then */
		r = ppoll(&p, 1, &ts, NULL);
	} while (r < 0 && errno == EINTR);
	if (r <= 0)
		return false;
	worker_finish(w);
	return true;
}
