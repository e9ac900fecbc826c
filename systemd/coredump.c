/* SPDX-License-Identifier: MIT */
/* Follows the journal for core dumps. The thread has the journal; it hands each entry on through a socket, whole or not at
 * all, and is told to end by its other end being closed. It is not waited for: it may be reading a slow disk, and has
 * nothing of ours but its own end. */
#include "systemd/coredump.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <systemd/sd-journal.h>

#include "systemd/journal.h"

/* Of systemd-coredump; its slice is made by PID 1, and the journal takes both from the kernel. */
#define MATCH_MESSAGE "MESSAGE_ID=fc2e22bc6ee647b6b90729ab34a250b1"
#define MATCH_SLICE   "_SYSTEMD_SLICE=system-systemd\\x2dcoredump.slice"
#define PROGRAM	      "/systemd-coredump"

struct CoreWatch {
	int fd;
	sd_event_source *io;
	CoreSeen seen;
	void *userdata;
};

typedef struct {
	int fd; /* owned */
	u64 since_usec;
} Follower;

static bool field_copy(sd_journal *j, const char *name, char *ret, size_t size)
{
	size_t n = strlen(name) + 1, length;
	const void *data;

	if (sd_journal_get_data(j, name, &data, &length) < 0 || length < n || length - n >= size)
		return false;
	memcpy(ret, (const char *)data + n, length - n);
	ret[length - n] = 0;
	return true;
}

static bool entry_read(sd_journal *j, CoreDump *ret)
{
	char program[256], pid[16], signal[16];
	size_t n;

	if (!field_copy(j, "_EXE", program, sizeof(program)) || !field_copy(j, "COREDUMP_PID", pid, sizeof(pid)) ||
	    !field_copy(j, "COREDUMP_SIGNAL", signal, sizeof(signal)))
		return false;
	n = strlen(program);
	if (n < strlen(PROGRAM) || strcmp(program + n - strlen(PROGRAM), PROGRAM) != 0)
		return false;
	*ret = (CoreDump){ .pid = (pid_t)atoi(pid), .signal = atoi(signal) };
	if (ret->pid <= 0)
		return false;
	if (!field_copy(j, "COREDUMP_FILENAME", ret->file, sizeof(ret->file)))
		ret->file[0] = 0;
	/* the name of the program is in it; it goes into lines that people read */
	for (char *c = ret->file; *c; c++)
		if ((unsigned char)*c < ' ' || *c == 0x7f)
			*c = '?';
	return true;
}

/* Nobody listens any more, or has not read a hundred of them: then this one is lost. */
static bool hand_on(const Follower *f, const CoreDump *dump)
{
	ssize_t n;

	do {
		n = send(f->fd, dump, sizeof(*dump), MSG_NOSIGNAL | MSG_DONTWAIT);
	} while (n < 0 && errno == EINTR);
	return n >= 0 || errno == EAGAIN;
}

static int journal_follow(sd_journal *j, const Follower *f)
{
	struct pollfd p[2] = { { .fd = f->fd }, { .events = POLLIN } };
	CoreDump dump;
	int r;

	for (;;) {
		while ((r = sd_journal_next(j)) > 0)
			if (entry_read(j, &dump) && !hand_on(f, &dump))
				return 0;
		if (r < 0)
			return r;
		p[1].fd = sd_journal_get_fd(j);
		if (p[1].fd < 0)
			return p[1].fd;
		r = sd_journal_get_events(j);
		if (r < 0)
			return r;
		p[1].events = (short)r;
		if (poll(p, 2, -1) < 0 && errno != EINTR)
			return -errno;
		if (p[0].revents & (POLLHUP | POLLERR))
			return 0;
		r = sd_journal_process(j);
		if (r < 0)
			return r;
	}
}

static int journal_begin(sd_journal *j, const Follower *f)
{
	int r = sd_journal_add_match(j, MATCH_MESSAGE, 0);

	if (r >= 0)
		r = sd_journal_add_match(j, MATCH_SLICE, 0);
	/* before the first look for entries, so that none falls in between */
	if (r >= 0)
		r = sd_journal_get_fd(j);
	return r < 0 ? r : sd_journal_seek_realtime_usec(j, f->since_usec);
}

static void *follower_run(void *userdata)
{
	Follower *f = userdata;
	sd_journal *j = NULL;
	/* entries about a user's program may be in that user's file */
	int r = sd_journal_open(&j, SD_JOURNAL_LOCAL_ONLY);

	/* who made us may go before others (Linux: by thread), and reading a journal is no reason to */
	(void)setpriority(PRIO_PROCESS, 0, 0);
	if (r >= 0)
		r = journal_begin(j, f);
	if (r >= 0)
		r = journal_follow(j, f);
	if (r < 0)
		log_warning("the journal cannot be followed, so core dumps go unseen: %s", strerror(-r));
	sd_journal_close(j);
	(void)close_fd(f->fd);
	free(f);
	return NULL;
}

static int watch_on_io(sd_event_source *s, int fd, u32 revents, void *userdata)
{
	CoreWatch *w = userdata;
	CoreDump dump;
	ssize_t n = recv(fd, &dump, sizeof(dump), MSG_DONTWAIT);

	if (n == sizeof(dump))
		w->seen(w->userdata, &dump);
	else if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
		w->io = sd_event_source_disable_unref(w->io); /* the thread has said why */
	return 0;
}

static int follower_start(Follower *f)
{
	pthread_attr_t attributes;
	sigset_t all, before;
	pthread_t thread;
	int r;

	r = pthread_attr_init(&attributes);
	if (r != 0)
		return -r;
	(void)pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	/* signals are the loop's */
	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &before);
	r = pthread_create(&thread, &attributes, follower_run, f);
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	(void)pthread_attr_destroy(&attributes);
	return -r;
}

int core_watch_new(CoreWatch **ret, sd_event *event, u64 since_usec, CoreSeen seen, void *userdata)
{
	CoreWatch *w = calloc(1, sizeof(*w));
	Follower *f = calloc(1, sizeof(*f));
	int fds[2], r;

	if (!w || !f || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) < 0) {
		r = w && f ? -errno : -ENOMEM;
		free(w);
		free(f);
		return r;
	}
	*w = (CoreWatch){ .fd = fds[0], .seen = seen, .userdata = userdata };
	*f = (Follower){ .fd = fds[1], .since_usec = since_usec };
	r = sd_event_add_io(event, &w->io, w->fd, EPOLLIN, watch_on_io, w);
	if (r >= 0)
		r = follower_start(f);
	if (r < 0) {
		(void)close_fd(f->fd);
		free(f);
		(void)core_watch_free(w);
		return r;
	}
	*ret = w;
	return 0;
}

CoreWatch *core_watch_free(CoreWatch *w)
{
	if (!w)
		return NULL;
	w->io = sd_event_source_disable_unref(w->io);
	w->fd = close_fd(w->fd);
	free(w);
	return NULL;
}
