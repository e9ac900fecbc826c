/* SPDX-License-Identifier: MIT */
/* The socket that programs talk to. */
#include "daemon/listener.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>

#include "systemd/journal.h"

/* Per turn of the loop, so that a flood of connections delays nothing else for long. */
#define TURN_ACCEPTS 64
#define TURN_NS	     (5 * NSEC_PER_MSEC)
/* How long not to accept when there is no descriptor left for it; the socket stays readable meanwhile. */
#define PAUSE_USEC (100 * 1000)

/* As Backlog= of tracer.socket. */
#define QUEUE 1024

#define SAY_GAP (10 * NSEC_PER_SEC)

struct Listener {
	int fd;
	sd_event_source *io, *pause;
	u64 said; /* when the lack of descriptors was last said */
	u32 n_queued; /* accepted since the queue was last seen empty, or said to have been full */
	Exchanges exchanges;
};

static int listener_on_pause(sd_event_source *s, u64 usec, void *userdata)
{
	Listener *l = userdata;

	return sd_event_source_set_enabled(l->io, SD_EVENT_ON);
}

static void listener_pause(Listener *l)
{
	int r;

	if (l->pause) {
		r = sd_event_source_set_time_relative(l->pause, PAUSE_USEC);
		if (r >= 0)
			r = sd_event_source_set_enabled(l->pause, SD_EVENT_ONESHOT);
	} else {
		r = sd_event_add_time_relative(l->exchanges.event, &l->pause, CLOCK_MONOTONIC, PAUSE_USEC,
					       10000, listener_on_pause, l);
	}
	if (r >= 0)
		(void)sd_event_source_set_enabled(l->io, SD_EVENT_OFF);
}

/* It may go on for hours, ten times a second. */
static void listener_say(Listener *l, int error)
{
	u64 now = monotonic_ns();

	if (l->said && now - l->said < SAY_GAP)
		return;
	l->said = now;
	log_warning("producer.sock: %s; accepting nobody for a moment%s", strerror(error),
		    error == EMFILE ? " (LimitNOFILE= of tracer.service bounds the descriptors)" : "");
}

static int listener_on_io(sd_event_source *s, int fd, u32 revents, void *userdata)
{
	Listener *l = userdata;

	u64 begin = monotonic_ns();

	/* an accepted one is answered at once if it can be, and an answer may be long */
	for (int i = 0; i < TURN_ACCEPTS && monotonic_ns() - begin < TURN_NS; i++) {
		int c = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (c >= 0) {
			l->n_queued++;
			/* So many that some may have found no place in it, whom nobody heard of. Said of each so many, not when the
			 * queue is empty: a turn may end with the last one of it, and nothing wakes us to see that. */
			if (l->n_queued == QUEUE) {
				l->exchanges.handler.late(l->exchanges.userdata);
				l->n_queued = 0;
			}
			(void)exchange_accept(&l->exchanges, c);
			continue;
		}
		if (errno == EAGAIN) {
			l->n_queued = 0;
			break;
		}
		if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
			listener_say(l, errno);
			listener_pause(l);
			break;
		}
		if (errno != EINTR && errno != ECONNABORTED)
			break;
	}
	return 0;
}

int listener_new(Listener **ret, sd_event *event, int fd, Ground *ground, u64 timeout_ns,
		 const ExchangeHandler *handler, void *userdata)
{
	_cleanup_close_ int taken = fd;
	_cleanup_(listener_freep) Listener *l = calloc(1, sizeof(*l));
	int r;

	if (!l)
		return -ENOMEM;
	l->fd = -1;
	/* systemd passes it blocking; an accept that finds nobody must not stop the loop */
	r = fcntl(fd, F_GETFL);
	if (r < 0 || fcntl(fd, F_SETFL, r | O_NONBLOCK) < 0)
		return -errno;
	l->fd = steal_fd(taken);
	l->exchanges.event = event;
	l->exchanges.ground = ground;
	l->exchanges.timeout_ns = timeout_ns;
	l->exchanges.handler = *handler;
	l->exchanges.userdata = userdata;
	r = sd_event_add_io(event, &l->io, l->fd, EPOLLIN, listener_on_io, l);
	if (r < 0)
		return r;
	*ret = steal_ptr(l);
	return 0;
}

Listener *listener_free(Listener *l)
{
	if (!l)
		return NULL;
	exchanges_clear(&l->exchanges);
	l->io = sd_event_source_disable_unref(l->io);
	l->pause = sd_event_source_disable_unref(l->pause);
	l->fd = close_fd(l->fd);
	free(l);
	return NULL;
}

void listener_set_timeout(Listener *l, u64 timeout_ns)
{
	l->exchanges.timeout_ns = timeout_ns;
}

u32 listener_n_exchanges(const Listener *l)
{
	return l->exchanges.n;
}

int listener_bind(int directory_fd)
{
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_un address = { .sun_family = AF_UNIX };

	if (fd < 0)
		return -errno;
	/* through /proc, so that a long directory does not meet the 108 bytes of an address */
	(void)snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/producer.sock",
		       directory_fd);
	/* We hold the directory's lock, so whoever bound the old one is dead. */
	if (unlinkat(directory_fd, "producer.sock", 0) < 0 && errno != ENOENT)
		return -errno;
	if (bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
		return -errno;
	if (fchmodat(directory_fd, "producer.sock", 0666, 0) < 0)
		return -errno;
	if (listen(fd, QUEUE) < 0)
		return -errno;
	return steal_fd(fd);
}
