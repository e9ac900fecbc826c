/* SPDX-License-Identifier: MIT */
/* A local user who comes in numbers: many connections, many kinds of events, many deaths. Each mode ends with 0 if the
 * daemon answered as it must. */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>

#include "lib/wire.h"

#ifdef __SANITIZE_ADDRESS__
/* Looking for leaks takes a tracer, which a process that has given up root does not let near. */
int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void)
{
	return 1;
}
#endif

static const struct wire_end the_end = { { WIRE_MAGIC, WIRE_END, 0, sizeof(the_end), 0 } };

static u64 now(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return (u64)ts.tv_sec * NSEC_PER_SEC + (u64)ts.tv_nsec;
}

static int socket_connect(void)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	(void)snprintf(a.sun_path, sizeof(a.sun_path), "%s/producer.sock",
		       getenv("TRACER_RUNTIME_DIR"));
	if (fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0) {
		(void)close_fd(fd);
		return -1;
	}
	return fd;
}

static int hello_send(int fd, u32 n_classes)
{
	struct wire_hello h = { .header = wire_header(WIRE_HELLO, sizeof(h)),
				.abi_major = ABI_MAJOR,
				.abi_minor = ABI_MINOR,
				.n_classes = n_classes,
				.cookie = { (u64)getpid(), 2 } };

	return (int)send(fd, &h, sizeof(h), MSG_NOSIGNAL);
}

/* All classes NAME_0 .. NAME_n-1 of provider shop, `each` of them a message. */
static int classes_send(int fd, u32 n, u32 each)
{
	union {
		struct wire_classes m;
		u8 bytes[WIRE_MAX];
	} b;

	for (u32 i = 0; i < n;) {
		u32 size = sizeof(b.m), k = 0;

		b.m = (struct wire_classes){ .first = i };
		for (; k < each && i < n && size < WIRE_MAX - 64; k++, i++) {
			char name[32];
			u32 length = (u32)snprintf(name, sizeof(name), "c%u", i);
			u16 bytes = (u16)(4 + 5 + length + 1);

			memcpy(b.bytes + size, &bytes, 2);
			b.bytes[size + 2] = 6;
			b.bytes[size + 3] = 0;
			memcpy(b.bytes + size + 4, "shop", 5);
			memcpy(b.bytes + size + 9, name, length + 1);
			size += bytes;
		}
		b.m.n = k;
		b.m.header = wire_header(WIRE_CLASSES, size);
		if (send(fd, &b, size, MSG_NOSIGNAL) < 0)
			return -1;
	}
	return 0;
}

/* The type of the last message before the other side has nothing more to say, 0: none. */
static int answer(int fd, u32 *ret_sessions)
{
	static u8 b[WIRE_MAX];
	struct pollfd p = { .fd = fd, .events = POLLIN };
	int type = 0;

	*ret_sessions = 0;
	while (type != WIRE_DONE && type != WIRE_REFUSED && poll(&p, 1, 20000) > 0) {
		ssize_t n = recv(fd, b, sizeof(b), 0);

		if (n <= 0)
			break;
		type = wire_check(b, (size_t)n);
		*ret_sessions += type == WIRE_SESSION;
	}
	return type;
}

/* A thousand connections, each of which says one byte or nothing, over and over, until told to end. */
static int crowd(void)
{
	struct rlimit l = { 4096, 4096 };
	u64 end = now() + 3 * NSEC_PER_SEC;
	static int fds[1000];
	u32 n = 0, round = 0;

	(void)setrlimit(RLIMIT_NOFILE, &l);
	for (; n < ELEMENTSOF(fds); n++)
		fds[n] = -1;
	for (; now() < end; round++) {
		for (u32 i = 0; i < n; i++) {
			/* those that were dropped come back at once; the others are slow */
			if (fds[i] < 0 || send(fds[i], "x", i % 2, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
				(void)close_fd(fds[i]);
				fds[i] = socket_connect();
			}
		}
	}
	(void)fprintf(stderr, "%u rounds of %u connections\n", round, n);
	return round == 0;
}

/* As many classes as there can be, in every exchange, and as many exchanges at a time as are let in. */
static int heavy(void)
{
	u64 end = now() + 4 * NSEC_PER_SEC;
	u32 n_answered = 0, n_asked = 0;
	struct pollfd fds[60];

	for (u32 i = 0; i < ELEMENTSOF(fds); i++)
		fds[i] = (struct pollfd){ .fd = -1, .events = POLLIN };
	while (now() < end) {
		for (u32 i = 0; i < ELEMENTSOF(fds); i++) {
			if (fds[i].fd >= 0)
				continue;
			fds[i].fd = socket_connect();
			if (fds[i].fd < 0 || hello_send(fds[i].fd, WIRE_MAX_CLASSES) < 0 ||
			    classes_send(fds[i].fd, WIRE_MAX_CLASSES, 4096) < 0 ||
			    send(fds[i].fd, &the_end, sizeof(the_end), MSG_NOSIGNAL) < 0)
				fds[i].fd = close_fd(fds[i].fd);
			n_asked += fds[i].fd >= 0;
		}
		(void)poll(fds, ELEMENTSOF(fds), 100);
		for (u32 i = 0; i < ELEMENTSOF(fds); i++) {
			u32 sessions;

			if (fds[i].fd < 0 || !fds[i].revents)
				continue;
			n_answered += answer(fds[i].fd, &sessions) == WIRE_DONE;
			fds[i].fd = close_fd(fds[i].fd);
		}
	}
	(void)fprintf(stderr, "%u asked, %u answered\n", n_asked, n_answered);
	return 0; /* whether it is served at all is for those to say who are before it */
}

/* Exactly as many messages as one turn of the daemon reads: the answer must come all the same, and at once. */
static int turn(void)
{
	for (u32 n = 60; n <= 66; n++) {
		int fd = socket_connect();
		u64 begin = now();
		u32 sessions;

		if (fd < 0 || hello_send(fd, n) < 0 || classes_send(fd, n, 1) < 0 ||
		    send(fd, &the_end, sizeof(the_end), MSG_NOSIGNAL) < 0)
			return 1;
		if (answer(fd, &sessions) != WIRE_DONE || sessions != 1 || now() - begin > 5 * NSEC_PER_SEC) {
			(void)fprintf(stderr, "no answer to %u messages\n", n + 2);
			return 2;
		}
		(void)close_fd(fd);
	}
	return 0;
}

/* Programs that die at every point of an exchange. */
static int die(void)
{
	for (u32 i = 0; i < 400; i++) {
		pid_t pid = fork();

		if (pid == 0) {
			int fd = socket_connect();
			u32 sessions;

			if (i % 5 > 0)
				(void)hello_send(fd, 100);
			if (i % 5 > 1)
				(void)classes_send(fd, i % 5 > 2 ? 100 : 50, 10);
			if (i % 5 > 2)
				(void)send(fd, &the_end, sizeof(the_end), MSG_NOSIGNAL);
			if (i % 5 > 3)
				(void)answer(fd, &sessions);
			(void)kill(getpid(), SIGKILL);
		}
		(void)waitpid(pid, NULL, 0);
	}
	return 0;
}

/* More kinds of events than one user may have: refused, with numbers. */
static int classes(void)
{
	int fd = socket_connect();
	u32 sessions;

	if (fd < 0 || hello_send(fd, 200) < 0)
		return 1;
	(void)classes_send(fd, 200, 10); /* it may be refused in the middle */
	return answer(fd, &sessions) == WIRE_REFUSED ? 0 : 2;
}

/* Connects, becomes somebody else as a setuid program does, and talks on: that one must be left alone. */
static int inherit(void)
{
	int fd = socket_connect();
	u32 sessions;

	if (fd < 0 || seteuid(65533) < 0)
		return geteuid() == 0 || fd < 0;
	if (hello_send(fd, 0) < 0 || send(fd, &the_end, sizeof(the_end), MSG_NOSIGNAL) < 0)
		return 1;
	return answer(fd, &sessions) == WIRE_REFUSED ? 0 : 2;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		int (*run)(void);
	} modes[] = { { "crowd", crowd }, { "heavy", heavy },	  { "turn", turn },
		      { "die", die },	  { "classes", classes }, { "inherit", inherit } };

	for (size_t i = 0; argc > 1 && i < ELEMENTSOF(modes); i++)
		if (strcmp(argv[1], modes[i].name) == 0)
			return modes[i].run();
	return 64;
}
