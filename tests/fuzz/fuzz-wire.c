/* SPDX-License-Identifier: MIT */
/* Any bytes as what a program sends to the daemon's socket, in whatever order and pieces, over two connections at once, to the
 * real manager with a running session. No crash, no leak; every answer is one that the library takes; and a program that
 * is honest is answered afterwards, whatever the one before it was.
 * With -fsanitize=fuzzer a libFuzzer target; without, main() of place.c replays.
 *
 * An input: per message a byte that says how it is sent (its type, whether the header is ours or made, to which connection), and a
 * piece of bytes, which stand behind the header. */
#include "lib/class.h"
#include "lib/wire.h"
#include "tests/fuzz/place.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define CONNECTIONS  2
#define MESSAGES_MAX 40
#define PIECE_MAX    4095

static Place place;
static int odd_fd;

static int join(void)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	must(snprintf(a.sun_path, sizeof(a.sun_path), "%s/producer.sock", place.runtime) < (int)sizeof(a.sun_path), "a long path");
	must(fd >= 0 && connect(fd, (struct sockaddr *)&a, sizeof(a)) == 0, "nobody listens");
	return fd;
}

/* A memfd of a ring, as large as it was said to be, which nobody can shorten. */
static void check_session(const struct wire_session *m, int fd)
{
	struct geometry g;
	u32 pinned;

	must(fd >= 0, "a session without its ring");
	must(wire_session_geometry(m, &g, &pinned) == 0, "a geometry that the library refuses");
	must(lseek(fd, 0, SEEK_END) == (off_t)m->size, "a ring of another size");
	must(fcntl(fd, F_GET_SEALS) & F_SEAL_SHRINK, "a ring that can be shortened");
}

/* Takes what has come. Returns the type of the last message, 0 if none, -1 if the daemon hung up. */
static int take(int fd)
{
	static u8 message[WIRE_MAX + 1] __attribute__((aligned(8)));
	int last = 0;

	for (;;) {
		union {
			struct cmsghdr header;
			u8 bytes[CMSG_SPACE(4 * sizeof(int))];
		} control;
		struct iovec v = { message, sizeof(message) };
		struct msghdr h = { .msg_iov = &v,
				    .msg_iovlen = 1,
				    .msg_control = &control,
				    .msg_controllen = sizeof(control) };
		ssize_t n = recvmsg(fd, &h, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
		struct cmsghdr *c;
		int got = -1;

		if (n <= 0)
			return n < 0 && errno == EAGAIN ? last : last ?: -1;
		must(!(h.msg_flags & (MSG_TRUNC | MSG_CTRUNC)), "an answer that is too long");
		c = CMSG_FIRSTHDR(&h);
		if (c) {
			must(c->cmsg_type == SCM_RIGHTS && c->cmsg_len == CMSG_LEN(sizeof(int)), "more than a ring");
			memcpy(&got, CMSG_DATA(c), sizeof(got));
		}
		last = wire_check(message, (size_t)n);
		must(last == WIRE_SESSION || last == WIRE_DONE || last == WIRE_ACCEPTED || last == WIRE_REFUSED ||
			     last == WIRE_TRIGGERS,
		     "an answer that is none");
		must((got >= 0) == (last == WIRE_SESSION), "a descriptor that does not belong there");
		if (last == WIRE_SESSION)
			check_session((const struct wire_session *)message, got);
		(void)close_fd(got);
	}
}

static void send_message(int fd, u8 how, Bytes piece)
{
	static u8 bytes[PIECE_MAX + sizeof(struct wire_header)];
	union {
		struct cmsghdr header;
		u8 space[CMSG_SPACE(sizeof(int))];
	} control = { 0 };
	struct wire_header header = wire_header(how & 15, (u32)(piece.n + sizeof(header)));
	struct iovec v = { bytes, piece.n };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1 };

	if (how & 0x40) { /* as it is */
		memcpy(bytes, piece.p, piece.n);
	} else {
		memcpy(bytes, &header, sizeof(header));
		memcpy(bytes + sizeof(header), piece.p, piece.n);
		v.iov_len += sizeof(header);
	}
	if ((how & 0x30) == 0x30) {
		m.msg_control = &control;
		m.msg_controllen = sizeof(control);
		control.header = (struct cmsghdr){ .cmsg_level = SOL_SOCKET,
						   .cmsg_type = SCM_RIGHTS,
						   .cmsg_len = CMSG_LEN(sizeof(int)) };
		memcpy(CMSG_DATA(&control.header), &odd_fd, sizeof(int));
	}
	/* EAGAIN: nobody reads; EPIPE: it was dropped, as it may be */
	(void)sendmsg(fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void send_honest(int fd, enum wire_type type, const void *body, size_t n)
{
	send_message(fd, (u8)type, (Bytes){ body, n });
}

/* A program with one class, which the session wants. */
static void honest(void)
{
	struct wire_hello hello = { .abi_major = ABI_MAJOR, .abi_minor = ABI_MINOR, .n_classes = 1, .vpid = 1 };
	u8 bytes[8 + CLASS_MAX_BYTES] = { 0 };
	const u32 one = 1;
	struct event_class *class = calloc(1, sizeof(*class) + sizeof(class->fields[0]));
	char provider[] = "shop", name[] = "order", field[] = "n";
	int fd = join(), type;
	size_t n;

	must(class != NULL, "no memory");
	*class = (struct event_class){ .provider = provider, .name = name, .level = TRACER_INFO, .n_fields = 1 };
	class->fields[0] = (struct class_field){ .name = field, .type = TRACER_TYPE_U64 };
	n = class_encode(class, bytes + 8, sizeof(bytes) - 8);
	must(n > 0, "a class that cannot be said");
	free(class);
	memcpy(bytes + 4, &one, sizeof(one));
	memset(hello.cookie, 7, sizeof(hello.cookie));
	send_honest(fd, WIRE_HELLO, (u8 *)&hello + sizeof(hello.header), sizeof(hello) - sizeof(hello.header));
	send_honest(fd, WIRE_CLASSES, bytes, 8 + n);
	send_honest(fd, WIRE_END, "", 0);
	place_settle(&place);
	type = take(fd);
	must(type == WIRE_DONE, "an honest program is not answered");
	(void)close_fd(fd);
	place_settle(&place);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	place_open(&place);
	odd_fd = memfd_create("odd", MFD_CLOEXEC);
	must(odd_fd >= 0, "no memfd");
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	Bytes b = { data, n };
	int fds[CONNECTIONS];

	/* another running session now and then: all of them tell the programs what they want anew */
	if (n == 0 || data[0] & 1 || manager_n_sessions(place.manager) == 0)
		place_tidy(&place, true);
	for (u32 i = 0; i < CONNECTIONS; i++)
		fds[i] = join();
	for (u32 i = 0; i < MESSAGES_MAX && b.n > 0; i++) {
		u8 how = bytes_u8(&b);
		u32 to = how >> 7;

		send_message(fds[to], how, bytes_piece(&b, PIECE_MAX));
		if (how & 0x10)
			place_settle(&place);
		/* what is not read must not matter to anybody else */
		if ((how & 0x30) == 0x10 && take(fds[to]) < 0) {
			(void)close_fd(fds[to]);
			fds[to] = join();
		}
	}
	place_settle(&place);
	for (u32 i = 0; i < CONNECTIONS; i++) {
		(void)take(fds[i]);
		(void)close_fd(fds[i]);
	}
	place_settle(&place);
	honest();
	return 0;
}

#ifndef TRACER_FUZZ_ENGINE
int main(int argc, char **argv)
{
	int r = replay_main(argc, argv);

	(void)close_fd(odd_fd);
	place_close(&place);
	return r;
}
#endif
