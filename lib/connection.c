/* SPDX-License-Identifier: MIT */
#include "lib/connection.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>

/* syscall() throughout: the functions of libc are cancellation points, and a thread that is
 * cancelled here would leave the attach lock taken and descriptors open. */
#define CALL(name, ...)                                                                            \
	({                                                                                         \
		long call_ = syscall(SYS_##name, __VA_ARGS__);                                     \
		call_ < 0 ? -errno : call_;                                                        \
	})

u64 connection_inode(int fd)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return 0;
	/* inodes of memfds are small numbers, as are those of /dev */
	return (st.st_ino ^ (u64)st.st_dev << 40) ?: 1;
}

void connection_close_own(int fd, u64 inode)
{
	/* Another thread may have closed every descriptor meanwhile, and opened its own under this
	 * number. */
	if (fd >= 0 && inode && connection_inode(fd) == inode)
		(void)CALL(close, fd);
}

/* In a program that runs without stdin, stdout or stderr, their numbers are the next free ones, and
 * what another thread prints meanwhile would go to us. */
static int fd_above_stdio(int fd)
{
	int high;

	if (fd < 0 || fd > STDERR_FILENO)
		return fd;
	high = (int)CALL(fcntl, fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	(void)CALL(close, fd);
	return high;
}

/* A number that names something else by now is the program's: what we send would land in its stream, and
 * what we receive would be missing there. Another thread can still be quicker than the call that follows; it
 * would have to close a descriptor that is not its own, and open a socket, within a microsecond. */
static int check_own(const struct connection *c)
{
	return connection_inode(c->fd) == c->inode ? 0 : -EBADF;
}

/* Looks behind the deadline: as many messages as the longest answer has, and some. */
#define LOOKS 128

/* What is left until the deadline; false: nothing. */
static bool time_left(const struct connection *c, struct timespec *ret)
{
	u64 now = monotonic_ns(), left = c->deadline > now ? c->deadline - now : 0;

	ret->tv_sec = (time_t)(left / NSEC_PER_SEC);
	ret->tv_nsec = (long)(left % NSEC_PER_SEC);
	return left;
}

static int wait_for(struct connection *c, short events)
{
	struct pollfd p = {.fd = c->fd, .events = events};
	struct timespec left;
	long r;

	/* What is there already is no wait: on a machine with too much to do the answer comes in time, and the thread gets a
	 * CPU when it is late. Thrown away, it would be asked for once more by all who were late, together. */
	do {
		if (!time_left(c, &left) && c->looks++ >= LOOKS)
			return -ETIMEDOUT;
		r = CALL(ppoll, &p, 1, &left, NULL, 0);
	} while (r == -EINTR);
	if (r < 0)
		return (int)r;
	if (r == 0)
		return -ETIMEDOUT;
	return p.revents & POLLNVAL ? -EBADF : 0;
}

/* A socket, and the address that it is to be connected to; 0 or -errno. */
static int begin(struct connection *c, const char *path, int flags, u64 deadline, struct sockaddr_un *address)
{
	size_t n = strlen(path);
	int fd;

	*c = (struct connection){.fd = -1, .deadline = deadline};
	*address = (struct sockaddr_un){.sun_family = AF_UNIX};
	if (!n)
		return -ENOENT;
	if (n >= sizeof(address->sun_path))
		return -ENAMETOOLONG;
	memcpy(address->sun_path, path, n + 1);
	fd = fd_above_stdio((int)CALL(socket, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | flags, 0));
	if (fd < 0)
		return fd;
	c->inode = connection_inode(fd);
	c->fd = fd;
	return 0;
}

int connection_open(struct connection *c, const char *path, u64 deadline)
{
	struct sockaddr_un address;
	struct timespec left;
	struct timeval wait;
	int r = begin(c, path, 0, deadline, &address);

	if (r < 0)
		return r;
	do {
		/* A local connect() waits for nothing but room in the listener's queue, and that is
		 * bounded by the timeout of sends. */
		if (!time_left(c, &left)) {
			r = -ETIMEDOUT;
			break;
		}
		wait = (struct timeval){left.tv_sec, left.tv_nsec / 1000 + 1};
		r = (int)CALL(setsockopt, c->fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof(wait));
		if (r < 0)
			break;
		r = (int)CALL(connect, c->fd, &address, sizeof(address));
	} while (r == -EINTR);
	if (r < 0) {
		connection_close(c);
		return r == -EAGAIN ? -ETIMEDOUT : r;
	}
	return 0;
}

int connection_try(struct connection *c, const char *path)
{
	struct sockaddr_un address;
	int r = begin(c, path, SOCK_NONBLOCK, 0, &address);

	if (r == 0)
		r = (int)CALL(connect, c->fd, &address, sizeof(address));
	if (r < 0)
		connection_close(c);
	return r;
}

int connection_send(struct connection *c, const void *head, size_t n_head, const void *body,
		    size_t n_body)
{
	struct iovec v[2] = {{(void *)head, n_head}, {(void *)body, n_body}};
	struct msghdr m = {.msg_iov = v, .msg_iovlen = n_body ? 2 : 1};
	long r;

	for (;;) {
		r = check_own(c);
		if (r < 0)
			return (int)r;
		r = CALL(sendmsg, c->fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (r >= 0)
			return (size_t)r == n_head + n_body ? 0 : -EBADMSG;
		if (r == -EAGAIN)
			r = wait_for(c, POLLOUT);
		if (r < 0 && r != -EINTR)
			return (int)r;
	}
}

int connection_receive(struct connection *c, void *buffer, size_t size, int *ret_fd)
{
	union {
		struct cmsghdr header;
		u8 bytes[CMSG_SPACE(4 * sizeof(int))];
	} control;
	struct iovec v = {buffer, size};
	struct msghdr m;
	u32 n_fds = 0;
	int fd = -1;
	long r;

	do {
		r = wait_for(c, POLLIN);
		if (r == 0)
			r = check_own(c);
		if (r < 0)
			return (int)r;
		m = (struct msghdr){.msg_iov = &v,
				    .msg_iovlen = 1,
				    .msg_control = &control,
				    .msg_controllen = sizeof(control)};
		r = CALL(recvmsg, c->fd, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	} while (r == -EINTR || r == -EAGAIN);
	if (r < 0)
		return (int)r;
	for (struct cmsghdr *h = CMSG_FIRSTHDR(&m); h; h = CMSG_NXTHDR(&m, h)) {
		size_t n;

		if (h->cmsg_level != SOL_SOCKET || h->cmsg_type != SCM_RIGHTS)
			continue;
		n = (h->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < n; i++, n_fds++) {
			int got;

			memcpy(&got, CMSG_DATA(h) + i * sizeof(int), sizeof(int));
			if (n_fds)
				(void)CALL(close, got);
			else
				fd = fd_above_stdio(got);
		}
	}
	if (!r && !n_fds)
		return -ECONNRESET;
	/* MSG_CTRUNC is also how a full descriptor table looks */
	if (n_fds > 1 || (n_fds && fd < 0) || m.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) {
		if (fd >= 0)
			(void)CALL(close, fd);
		return m.msg_flags & MSG_CTRUNC || fd < 0 ? -EMFILE : -EBADMSG;
	}
	*ret_fd = fd;
	return (int)r;
}

void connection_close(struct connection *c)
{
	connection_close_own(c->fd, c->inode);
	c->fd = -1;
}
