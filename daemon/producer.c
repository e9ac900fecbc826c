/* SPDX-License-Identifier: MIT */
/* One instrumented program. */
#include "daemon/producer.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#include "systemd/units.h"

/* Newer than the oldest headers we build with; the numbers are kernel ABI. */
#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif
#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif

struct pidfd_info_v1 {
	u64 mask, cgroupid;
	u32 pid, tgid, ppid, ruid, rgid, euid, egid, suid, sgid, fsuid, fsgid;
	int32_t exit_code; /* the wait status; valid when the mask says so, after the parent reaped */
	u32 coredump_mask, coredump_signal;
};
_Static_assert(sizeof(struct pidfd_info_v1) == 72, "struct pidfd_info as of Linux 6.16");
#define PIDFD_INFO_EXIT_BIT 8u
#define PIDFD_INFO_ASK	    0xfu /* pid, credentials, cgroup, exit */
#define PIDFD_GET_INFO_V1   _IOWR(0xFF, 11, struct pidfd_info_v1)

/* A parent that reaps late or never: after this long the death counts as one of unknown status. */
#define DEATH_GRACE_USEC (500 * 1000)

/* ---- who it is ---- */

static ssize_t proc_read(pid_t pid, const char *file, char *ret, size_t size)
{
	char path[64];
	_cleanup_close_ int fd = -1;
	ssize_t n;

	(void)snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, file);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	n = read(fd, ret, size - 1);
	if (n < 0)
		return -errno;
	ret[n] = 0;
	return n;
}

/* Fields of /proc/PID/stat behind the name, which may itself hold spaces and brackets: field 3 (state) is the first. */
static int stat_fields(pid_t pid, char *state, u64 *ret_start_time, int *ret_exit_code)
{
	char text[1024], *p;
	ssize_t n = proc_read(pid, "stat", text, sizeof(text));
	int field = 3;

	if (n < 0)
		return n == -ENOENT ? -ESRCH : (int)n;
	p = strrchr(text, ')');
	if (!p || p[1] != ' ')
		return -EIO;
	p += 2;
	*state = *p;
	*ret_exit_code = 0;
	*ret_start_time = 0;
	for (; p; field++) {
		if (field == 22)
			*ret_start_time = strtoull(p, NULL, 10);
		else if (field == 52)
			*ret_exit_code = (int)strtol(p, NULL, 10);
		p = strchr(p, ' ');
		if (p)
			p++;
	}
	return 0;
}

/* The process's effective user now; 0 or -errno. */
static int status_uid(pid_t pid, uid_t *ret)
{
	char text[4096];
	ssize_t n = proc_read(pid, "status", text, sizeof(text));
	const char *p = n < 0 ? NULL : strstr(text, "\nUid:\t");
	unsigned uid;

	if (n < 0)
		return n == -ENOENT ? -ESRCH : (int)n;
	if (!p || sscanf(p, "\nUid:\t%*u\t%u", &uid) != 1)
		return -EIO;
	*ret = uid;
	return 0;
}

static int peer_pidfd(int socket_fd, pid_t pid)
{
	socklen_t size = sizeof(int);
	int fd = -1;

	if (getsockopt(socket_fd, SOL_SOCKET, SO_PEERPIDFD, &fd, &size) == 0)
		return fd;
	/* Before 6.5: the pid may have been given to another process since the program connected. If it had,
	 * the program's end of the connection would be closed; so look at that after the open. */
	fd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (fd < 0)
		return errno == ENOSYS ? -1 : -errno;
	{
		struct pollfd p = { .fd = socket_fd, .events = POLLIN };

		(void)fcntl(fd, F_SETFD, FD_CLOEXEC);
		if (poll(&p, 1, 0) < 0 || p.revents & POLLHUP) {
			(void)close_fd(fd);
			return -ESRCH;
		}
	}
	return fd;
}

int peer_identify(Peer *ret, int socket_fd)
{
	_cleanup_(peer_clear) Peer p = PEER_NULL;
	struct ucred ucred;
	socklen_t size = sizeof(ucred);
	int r, exit_code;
	uid_t now_uid;
	ssize_t n;
	char state;

	if (getsockopt(socket_fd, SOL_SOCKET, SO_PEERCRED, &ucred, &size) < 0)
		return -errno;
	if (ucred.pid <= 0)
		return -ESRCH;
	p.pid = ucred.pid;
	p.uid = ucred.uid;
	p.pidfd = peer_pidfd(socket_fd, ucred.pid);
	if (p.pidfd < -1)
		return p.pidfd;
	r = stat_fields(p.pid, &state, &p.start_time, &exit_code);
	if (r < 0)
		return r;
	/* The connection is of who connected; the process may have become another user since (a setuid program that
	 * inherits it, and whose place among the producers the old user would take by talking on). */
	r = status_uid(p.pid, &now_uid);
	if (r < 0)
		return r;
	if (now_uid != p.uid)
		return -EPERM;
	n = proc_read(p.pid, "comm", p.command, sizeof(p.command));
	if (n > 0 && p.command[n - 1] == '\n')
		p.command[n - 1] = 0;
	for (char *c = p.command; *c; c++)
		if ((unsigned char)*c < ' ' || *c == 0x7f)
			*c = '?'; /* chosen by the program, read by people and their terminals */
	if (unit_of_pid(p.pid, &p.unit) < 0)
		p.unit = strdup("");
	if (!p.unit)
		return -ENOMEM;
	/* What was read by number is of this process if that process still exists. */
	if (p.pidfd >= 0) {
		struct pollfd poll_fd = { .fd = p.pidfd, .events = POLLIN };

		if (poll(&poll_fd, 1, 0) != 0)
			return -ESRCH;
	}
	*ret = p;
	p = PEER_NULL;
	return 0;
}

int peer_reopen(Peer *ret, pid_t pid, uid_t uid, u64 start_time, const char *command, const char *unit, int pidfd)
{
	_cleanup_(peer_clear) Peer p = { .pid = pid, .uid = uid, .start_time = start_time, .pidfd = pidfd };
	u64 is = 0;
	char state;
	int code;

	(void)snprintf(p.command, sizeof(p.command), "%s", command);
	p.unit = strdup(unit);
	if (!p.unit)
		return -ENOMEM;
	if (p.pidfd < 0)
		p.pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (p.pidfd >= 0) {
		(void)fcntl(p.pidfd, F_SETFD, FD_CLOEXEC);
		/* behind the open: whoever has that number and began then is the one that is held now */
		if (pidfd < 0 && (stat_fields(pid, &state, &is, &code) < 0 || is != start_time))
			p.pidfd = close_fd(p.pidfd);
	} else {
		p.pidfd = -1;
	}
	*ret = p;
	p = PEER_NULL;
	return 0;
}

void peer_clear(Peer *p)
{
	p->pidfd = close_fd(p->pidfd);
	free(p->unit);
	p->unit = NULL;
}

/* ---- how it ends ---- */

static bool death_from_pidfd(int pidfd, Death *ret)
{
	struct pidfd_info_v1 info = { .mask = PIDFD_INFO_ASK };

	if (ioctl(pidfd, PIDFD_GET_INFO_V1, &info) < 0 || !(info.mask & PIDFD_INFO_EXIT_BIT))
		return false;
	*ret = (Death){ .known = true, .status = info.exit_code };
	return true;
}

/* When that was by the time of day, as it is set now. */
static u64 start_realtime(u64 ticks)
{
	long per_second = sysconf(_SC_CLK_TCK);
	struct timespec real, boot;
	u64 since;

	if (per_second <= 0 || clock_gettime(CLOCK_REALTIME, &real) < 0 || clock_gettime(CLOCK_BOOTTIME, &boot) < 0)
		return 0;
	since = ticks / (u64)per_second * NSEC_PER_SEC + ticks % (u64)per_second * NSEC_PER_SEC / (u64)per_second;
	return (u64)real.tv_sec * NSEC_PER_SEC + (u64)real.tv_nsec -
	       ((u64)boot.tv_sec * NSEC_PER_SEC + (u64)boot.tv_nsec) + since;
}

/* A zombie's status, where the kernel lets us see it (same user, or root): before the parent has reaped, and on
 * kernels whose pidfd cannot tell. An exit code of 0 is also what is shown to who may not know. */
static bool death_from_stat(const Peer *peer, Death *ret)
{
	u64 start_time;
	char state;
	int status;

	if (stat_fields(peer->pid, &state, &start_time, &status) < 0 || state != 'Z' ||
	    start_time != peer->start_time || status == 0)
		return false;
	*ret = (Death){ .known = true, .status = status };
	return true;
}

bool death_is_told(void)
{
	_cleanup_close_ int pidfd = -1;
	Death death;
	pid_t pid = fork();

	if (pid == 0)
		_exit(0);
	if (pid < 0)
		return false;
	/* it cannot be reaped, and its number be another's, before we do it */
	pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	return pidfd >= 0 && death_from_pidfd(pidfd, &death);
}

static void producer_die(Producer *p, const Death *death)
{
	char how[64];

	p->death = sd_event_source_disable_unref(p->death);
	p->grace = sd_event_source_disable_unref(p->grace);
	death_describe(death, how, sizeof(how));
	producer_ended(p, how);
	p->died(p->userdata, p, death);
}

static int producer_on_grace(sd_event_source *s, u64 usec, void *userdata)
{
	Producer *p = userdata;
	Death death = {};

	(void)death_from_pidfd(p->peer.pidfd, &death);
	producer_die(p, &death);
	return 0;
}

static int producer_on_death(sd_event_source *s, int fd, u32 revents, void *userdata)
{
	Producer *p = userdata;
	Death death = {};

	if (death_from_pidfd(fd, &death) || death_from_stat(&p->peer, &death) ||
	    revents & EPOLLHUP || p->grace) {
		producer_die(p, &death);
		return 0;
	}
	/* A zombie. EPOLLIN stays until it is reaped, so listen for EPOLLHUP alone (always reported). */
	if (sd_event_source_set_io_events(s, 0) < 0 ||
	    sd_event_add_time_relative(sd_event_source_get_event(s), &p->grace, CLOCK_MONOTONIC,
				       DEATH_GRACE_USEC, 1000, producer_on_grace, p) < 0)
		producer_die(p, &death);
	return 0;
}

bool producer_check(Producer *p)
{
	Death death = {};
	u64 start_time;
	char state;
	int status;

	if (p->peer.pidfd >= 0)
		return false;
	if (stat_fields(p->peer.pid, &state, &start_time, &status) == 0 &&
	    start_time == p->peer.start_time && state != 'Z')
		return false;
	(void)death_from_stat(&p->peer, &death);
	producer_die(p, &death);
	return true;
}

int producer_new(Producer **ret, Ground *ground, sd_event *event, Peer *peer, u32 number,
		 const u64 cookie[2], ProducerDied died, void *userdata, Failure *f)
{
	_cleanup_(description_unrefp) Description *description = NULL;
	Producer *p;
	int r = account_charge(ground->account, peer->uid, CHARGE_PRODUCERS, 1, f);

	if (r < 0)
		return r;
	p = calloc(1, sizeof(*p));
	description = description_new();
	if (!p || !description) {
		free(p);
		account_release(ground->account, peer->uid, CHARGE_PRODUCERS, 1);
		return failure_set(f, FAILURE_NO_MEMORY, "out of memory");
	}
	*p = (Producer){ .peer = *peer,
			 .number = number,
			 .cookie = { cookie[0], cookie[1] },
			 .description = steal_ptr(description),
			 .ground = ground,
			 .died = died,
			 .userdata = userdata };
	*peer = PEER_NULL;
	p->description->pid = p->peer.pid;
	p->description->uid = p->peer.uid;
	p->description->start_ticks = p->peer.start_time;
	p->description->started = start_realtime(p->peer.start_time);
	if (p->peer.pidfd >= 0) {
		r = sd_event_add_io(event, &p->death, p->peer.pidfd, EPOLLIN, producer_on_death, p);
		if (r < 0) {
			(void)producer_free(p);
			return failure_set(f, FAILURE_IO, "cannot watch process: %s", strerror(-r));
		}
		/* before everything else: what is overwritten until the snapshot is lost */
		(void)sd_event_source_set_priority(p->death, SD_EVENT_PRIORITY_IMPORTANT);
	}
	*ret = p;
	return 0;
}

Producer *producer_free(Producer *p)
{
	if (!p)
		return NULL;
	while (p->attachments)
		attachment_end(p->attachments, true);
	producer_set_classes(p, NULL, 0);
	p->death = sd_event_source_disable_unref(p->death);
	p->grace = sd_event_source_disable_unref(p->grace);
	account_release(p->ground->account, p->peer.uid, CHARGE_PRODUCERS, 1);
	peer_clear(&p->peer);
	(void)description_unref(p->description);
	free(p);
	return NULL;
}

void producer_describe(Producer *p, u32 vpid, const char *exe, const char *build_id)
{
	Description *d = p->description;

	memcpy(d->command, p->peer.command, sizeof(d->command));
	(void)snprintf(d->unit, sizeof(d->unit), "%s", p->peer.unit);
	d->vpid = vpid;
	(void)snprintf(d->exe, sizeof(d->exe), "%s", exe);
	(void)snprintf(d->build_id, sizeof(d->build_id), "%s", build_id);
}

void producer_ended(Producer *p, const char *how)
{
	Description *d = p->description;

	if (d->ended)
		return;
	d->ended = realtime_ns();
	(void)snprintf(d->how, sizeof(d->how), "%s", how);
}

void producer_set_classes(Producer *p, Class **classes, u32 n)
{
	/* new ones first: what is in both lists keeps its one object */
	for (u32 i = 0; i < n; i++)
		classes[i]->n_producers++;
	for (u32 i = 0; i < p->n_classes; i++) {
		p->classes[i]->n_producers--;
		(void)class_unref(p->classes[i]);
	}
	free(p->classes);
	p->classes = classes;
	p->n_classes = n;
}

u32 producer_n_active(const Producer *p)
{
	u32 n = 0;

	for (const Attachment *a = p->attachments; a; a = a->next_of_producer)
		n += a->active;
	return n;
}

bool producer_records(const Producer *p)
{
	return producer_n_active(p) > 0;
}

bool death_is_crash(const Death *death)
{
	if (!death->known || !WIFSIGNALED(death->status))
		return false;
	switch (WTERMSIG(death->status)) {
	case SIGHUP:
	case SIGINT:
	case SIGTERM:
	case SIGPIPE:
		return WCOREDUMP(death->status);
	default:
		return true;
	}
}

void death_describe(const Death *death, char *ret, size_t size)
{
	if (!death->known) {
		(void)snprintf(ret, size, "ended");
	} else if (WIFSIGNALED(death->status)) {
		int signal = WTERMSIG(death->status);
		const char *name = sigabbrev_np(signal);

		if (name)
			(void)snprintf(ret, size, "killed by signal %d (SIG%s)", signal, name);
		else
			(void)snprintf(ret, size, "killed by signal %d", signal);
	} else {
		(void)snprintf(ret, size, "exited with %d", WEXITSTATUS(death->status));
	}
}
