/* SPDX-License-Identifier: MIT */
/* A program that is stopped in the middle of a write to a side ring, as far as the daemon can see: one of its threads holds
 * the locks of all side rings of its session. Prints "held", and does on a line of stdin what its argument says:
 *   live     nothing
 *   die      the process is killed
 *   thread   the thread ends, the process goes on
 *   exec     the process becomes another program, which has no use for us, and which prints "held" again */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>

#include "lib/atomic.h"
#include "lib/wire.h"

static union {
	struct wire_session m;
	u8 bytes[WIRE_MAX];
} session;
static u32 producer;
static u8 *map;
static int go[2];

static size_t class_put(u8 *to)
{
	static const char name[] = "shop\0order";
	struct wire_classes m = { .n = 1 };
	u16 bytes = 4 + sizeof(name);

	m.header = wire_header(WIRE_CLASSES, (u32)(sizeof(m) + bytes));
	memcpy(to, &m, sizeof(m));
	memcpy(to + sizeof(m), &bytes, sizeof(bytes));
	to[sizeof(m) + 2] = 6;
	to[sizeof(m) + 3] = 0;
	memcpy(to + sizeof(m) + 4, name, sizeof(name));
	return sizeof(m) + bytes;
}

static int attach(void)
{
	struct wire_hello h = { .header = wire_header(WIRE_HELLO, sizeof(h)),
				.abi_major = ABI_MAJOR,
				.n_classes = 1,
				.cookie = { 3, 4 } };
	struct wire_end end = { wire_header(WIRE_END, sizeof(end)) };
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), ring;
	union {
		struct cmsghdr header;
		u8 space[CMSG_SPACE(sizeof(int))];
	} control = {};
	struct iovec iov = { &session, sizeof(session) };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = &control,
			      .msg_controllen = sizeof(control) };
	struct wire_done done;
	u8 class[128];
	size_t size = class_put(class);

	(void)snprintf(a.sun_path, sizeof(a.sun_path), "%s/producer.sock",
		       getenv("TRACER_RUNTIME_DIR"));
	if (connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0 || send(fd, &h, sizeof(h), 0) < 0 ||
	    send(fd, class, size, 0) < 0 || send(fd, &end, sizeof(end), 0) < 0 ||
	    recvmsg(fd, &msg, 0) <= 0 || session.m.header.type != WIRE_SESSION ||
	    recv(fd, &done, sizeof(done), 0) != sizeof(done) || done.header.type != WIRE_DONE)
		return -1;
	memcpy(&ring, CMSG_DATA(&control.header), sizeof(ring));
	map = mmap(NULL, session.m.size, PROT_READ | PROT_WRITE, MAP_SHARED, ring, 0);
	producer = done.producer;
	return map == MAP_FAILED ? -1 : close(fd);
}

static void *hold(void *unused)
{
	u64 me = (u64)producer << 32 | (u32)syscall(SYS_gettid);
	char c;

	for (u32 i = 0; i < session.m.n_side; i++) {
		struct abi_ring *line = (struct abi_ring *)(map + ABI_PAGE) + session.m.n_ring + i;

		/* pairs with side_write() and with side_break(): whoever holds the word owns the ring */
		store_release_u64(&line->lock, me);
	}
	(void)write(1, "held\n", 5);
	(void)read(go[0], &c, 1);
	return NULL;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	pthread_t thread;
	char line[16];

	if (pipe(go) < 0 || attach() < 0 || pthread_create(&thread, NULL, hold, NULL) != 0)
		return 1;
	if (read(0, line, sizeof(line)) <= 0)
		return 2;
	if (strcmp(what, "die") == 0)
		(void)kill(getpid(), SIGKILL);
	if (strcmp(what, "exec") == 0)
		(void)execlp("sh", "sh", "-c", "echo held; exec cat", NULL);
	if (strcmp(what, "thread") == 0) {
		(void)write(go[1], "x", 1);
		(void)pthread_join(thread, NULL);
		(void)write(1, "held\n", 5);
	}
	(void)read(0, line, sizeof(line));
	return 0;
}
