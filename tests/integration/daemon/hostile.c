/* SPDX-License-Identifier: MIT */
/* A local user with bad intentions. Each mode ends with 0 if the daemon answered as it must: by dropping or refusing. */
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>

#include "lib/wire.h"

static u64 seed = 0x9E3779B97F4A7C15ull;

static u32 random_u32(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (u32)(seed >> 16);
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

/* What the daemon says: a message type, 0: it closed, -1: nothing for five seconds. */
static int hear(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	u8 answer[WIRE_MAX];
	ssize_t n;

	if (poll(&p, 1, 5000) <= 0)
		return -1;
	n = recv(fd, answer, sizeof(answer), 0);
	if (n <= 0)
		return 0;
	return wire_check(answer, (size_t)n);
}

static struct wire_hello hello(u32 n_classes)
{
	struct wire_hello h = { .header = wire_header(WIRE_HELLO, sizeof(h)),
				.abi_major = ABI_MAJOR,
				.abi_minor = ABI_MINOR,
				.n_classes = n_classes,
				.cookie = { 1, 2 } };

	return h;
}

/* A CLASSES message with one class, shop:NAME without fields. */
static size_t classes(u8 *to, const char *name, u32 first, u32 n)
{
	struct wire_classes m = { .first = first, .n = n };
	size_t size = 4 + strlen("shop") + 1 + strlen(name) + 1;
	u8 *p = to + sizeof(m);

	p[0] = (u8)size;
	p[1] = (u8)(size >> 8);
	p[2] = 6;
	p[3] = 0;
	memcpy(p + 4, "shop", 5);
	memcpy(p + 9, name, strlen(name) + 1);
	m.header = wire_header(WIRE_CLASSES, (u32)(sizeof(m) + size));
	memcpy(to, &m, sizeof(m));
	return sizeof(m) + size;
}

static const struct wire_end the_end = { { WIRE_MAGIC, WIRE_END, 0, sizeof(the_end), 0 } };

/* One message, or a few, on a fresh connection; it must be dropped. */
static int must_drop(const void *message, size_t size, bool after_hello)
{
	struct wire_hello h = hello(1);
	int fd = socket_connect(), r;

	if (fd < 0)
		return 1;
	if (after_hello)
		(void)send(fd, &h, sizeof(h), MSG_NOSIGNAL);
	(void)send(fd, message, size, MSG_NOSIGNAL);
	r = hear(fd);
	(void)close_fd(fd);
	if (r != 0)
		(void)fprintf(stderr, "a message of %zu bytes, type %u, got %d\n", size,
			      size > 5 ? ((const u16 *)message)[2] : 0, r);
	return r != 0;
}

static int malformed(void)
{
	static const u32 sizes[] = { 1, 15, 16, 17, 23, 24, 25, 39, 40, 41, 63, 64, 65, 72, 4096,
				     WIRE_MAX, WIRE_MAX + 1 };
	u8 *m = calloc(1, WIRE_MAX + 64);
	struct wire_hello h = hello(WIRE_MAX_CLASSES + 1);
	int bad = 0;
	size_t n;

	/* every type at every size, before and after HELLO, but for the few that are right */
	for (u32 type = 0; type < 12; type++) {
		for (size_t i = 0; i < ELEMENTSOF(sizes); i++) {
			for (int after = 0; after < 2; after++) {
				struct wire_header header =
					wire_header((enum wire_type)type, sizes[i]);

				if ((type == WIRE_HELLO && !after && sizes[i] == 64) ||
				    (type == WIRE_SNAPSHOT && !after && sizes[i] == 40))
					continue;
				memset(m, 0, WIRE_MAX + 64);
				memcpy(m, &header, MIN(sizes[i], sizeof(header)));
				bad += must_drop(m, sizes[i], after);
			}
		}
	}
	/* counts that lie */
	bad += must_drop(&h, sizeof(h), false);
	n = classes(m, "a", 1, 1);
	bad += must_drop(m, n, true); /* not the first */
	n = classes(m, "a", 0, UINT32_MAX);
	bad += must_drop(m, n, true);
	n = classes(m, "a", 0, 2);
	bad += must_drop(m, n, true);
	n = classes(m, "a b", 0, 1);
	bad += must_drop(m, n, true);
	n = classes(m, "", 0, 1);
	bad += must_drop(m, n, true);
	n = classes(m, "a", 0, 1);
	m[sizeof(struct wire_classes) + 3] = 255; /* fields that are not there */
	bad += must_drop(m, n, true);
	bad += must_drop(&the_end, sizeof(the_end), true); /* a class short */
	/* right ones with random bytes changed, and pure noise: whatever happens, the daemon goes on */
	for (int i = 0; i < 3000; i++) {
		int fd = socket_connect();
		struct wire_hello one = hello(1);

		if (fd < 0)
			return 2;
		n = classes(m, "a", 0, 1);
		for (u32 k = 0; k < 4; k++)
			if (random_u32() % 2)
				((u8 *)&one)[random_u32() % sizeof(one)] = (u8)random_u32();
		for (u32 k = 0; k < 4; k++)
			if (random_u32() % 2)
				m[random_u32() % n] = (u8)random_u32();
		(void)send(fd, &one, sizeof(one), MSG_NOSIGNAL | MSG_DONTWAIT);
		(void)send(fd, m, n, MSG_NOSIGNAL | MSG_DONTWAIT);
		(void)send(fd, &the_end, sizeof(the_end), MSG_NOSIGNAL | MSG_DONTWAIT);
		(void)close_fd(fd);
	}
	free(m);
	return bad ? 1 : 0;
}

static int flood(void)
{
	int fds[900], n = 0, dropped = 0;

	/* kept open: all but the allowance are closed at once */
	for (; n < 900; n++) {
		fds[n] = socket_connect();
		if (fds[n] < 0)
			break;
	}
	for (int i = 0; i < n; i++) {
		struct pollfd p = { .fd = fds[i], .events = POLLIN };

		dropped += poll(&p, 1, i == 0 ? 100 : 0) > 0;
	}
	for (int i = 0; i < n; i++)
		(void)close_fd(fds[i]);
	for (int i = 0; i < 3000; i++)
		(void)close_fd(socket_connect());
	(void)fprintf(stderr, "%d connections, %d dropped\n", n, dropped);
	return n == 900 && dropped < 300;
}

static int descriptors(void)
{
	struct wire_hello h = hello(0);

	for (int i = 0; i < 100; i++) {
		struct iovec iov = { &h, sizeof(h) };
		union {
			struct cmsghdr header;
			u8 space[CMSG_SPACE(64 * sizeof(int))];
		} control = {};
		struct msghdr m = { .msg_iov = &iov,
				    .msg_iovlen = 1,
				    .msg_control = &control,
				    .msg_controllen = sizeof(control) };
		int fd = socket_connect();

		control.header = (struct cmsghdr){ .cmsg_level = SOL_SOCKET,
						   .cmsg_type = SCM_RIGHTS,
						   .cmsg_len = CMSG_LEN(64 * sizeof(int)) };
		for (int k = 0; k < 64; k++)
			((int *)CMSG_DATA(&control.header))[k] = 2;
		(void)sendmsg(fd, &m, MSG_NOSIGNAL);
		/* some wait to be dropped, some close with the descriptors still in the queue */
		if (i % 10 == 0)
			(void)hear(fd);
		(void)close_fd(fd);
	}
	return 0;
}

/* Asks properly, then neither reads nor closes; the daemon lets go at its deadline. */
static int deaf(void)
{
	int fds[40], n = 0;
	u8 m[256];

	for (; n < 40; n++) {
		struct wire_hello h = hello(1);
		size_t size = classes(m, "order", 0, 1);

		fds[n] = socket_connect();
		if (fds[n] < 0)
			return 1;
		(void)send(fds[n], &h, sizeof(h), MSG_NOSIGNAL);
		(void)send(fds[n], m, size, MSG_NOSIGNAL);
		(void)send(fds[n], &the_end, sizeof(the_end), MSG_NOSIGNAL);
	}
	for (int i = 0; i < n; i++) {
		struct pollfd p = { .fd = fds[i], .events = POLLRDHUP };

		if (poll(&p, 1, 10000) <= 0)
			return 1;
		(void)close_fd(fds[i]);
	}
	return 0;
}

/* Counters that no program can have reached, then small ones, then nothing, and on. */
static void falsify(struct abi_ring *lines, u32 n, u32 round)
{
	for (u32 i = 0; i < n; i++) {
		u64 big = round % 2 ? 1ull << 63 | random_u32() : random_u32() % 8;

		lines[i].count[0] = lines[i].count[1] = big;
		lines[i].lost[ABI_LOST_FULL] = lines[i].lost[ABI_LOST_BUSY] = UINT64_MAX - random_u32() % 2;
		lines[i].offset = UINT64_MAX & ~3ull;
	}
}

/* Takes the ring it is given and writes over every byte of it, or over its counters, for some seconds. */
static int scribble(int seconds, bool counters)
{
	union {
		struct wire_session m;
		u8 bytes[WIRE_MAX];
	} answer;
	union {
		struct cmsghdr header;
		u8 space[CMSG_SPACE(sizeof(int))];
	} control = {};
	struct iovec iov = { &answer, sizeof(answer) };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = &control,
			      .msg_controllen = sizeof(control) };
	struct wire_hello h = hello(1);
	int fd = socket_connect(), ring;
	struct timespec begin, now;
	u8 m[256], *map;
	u64 size;

	size = classes(m, "order", 0, 1);
	(void)send(fd, &h, sizeof(h), MSG_NOSIGNAL);
	(void)send(fd, m, size, MSG_NOSIGNAL);
	(void)send(fd, &the_end, sizeof(the_end), MSG_NOSIGNAL);
	if (recvmsg(fd, &msg, 0) <= 0 || answer.m.header.type != WIRE_SESSION)
		return 1;
	memcpy(&ring, CMSG_DATA(&control.header), sizeof(ring));
	(void)close_fd(fd);
	size = answer.m.size;
	if (ftruncate(ring, 0) == 0 || ftruncate(ring, (off_t)size * 2) == 0)
		return 2; /* must be sealed */
	map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, ring, 0);
	if (map == MAP_FAILED)
		return 3;
	(void)printf("scribbling\n");
	(void)fflush(stdout);
	(void)clock_gettime(CLOCK_MONOTONIC, &begin);
	do {
		u64 lines = ABI_PAGE + (u64)(answer.m.n_ring + answer.m.n_side) * ABI_LINE;

		if (counters)
			falsify((struct abi_ring *)(map + ABI_PAGE), answer.m.n_ring + answer.m.n_side,
				random_u32());
		for (u32 i = 0; !counters && i < 1 << 16; i++) {
			u32 r = random_u32();
			/* half of it where it hurts: header page, control lines, sub-buffer headers */
			u64 at = r % 2 ? random_u32() % lines :
				 r % 4 ? (u64)random_u32() % size :
					 ((u64)random_u32() << answer.m.sub_shift) % size + r / 8 % 64;

			map[at] = r & 64 ? (u8)random_u32() : 0xff;
		}
		(void)clock_gettime(CLOCK_MONOTONIC, &now);
	} while (now.tv_sec - begin.tv_sec < seconds);
	return 0;
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";

	if (strcmp(mode, "malformed") == 0)
		return malformed();
	if (strcmp(mode, "flood") == 0)
		return flood();
	if (strcmp(mode, "descriptors") == 0)
		return descriptors();
	if (strcmp(mode, "deaf") == 0)
		return deaf();
	if (strcmp(mode, "scribble") == 0)
		return scribble(3, false);
	if (strcmp(mode, "counters") == 0)
		return scribble(1, true);
	return 64;
}
