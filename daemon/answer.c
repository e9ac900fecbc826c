/* SPDX-License-Identifier: MIT */
/* What a program is answered. */
#include "daemon/answer.h"

#include <sys/socket.h>

#include "lib/wire.h"

struct Reply {
	Reply *next;
	Owner *owner; /* owned reference, or NULL */
	size_t size;
	u8 data[];
};

static void answer_drop_first(Answer *a)
{
	Reply *r = a->first;

	a->first = r->next;
	if (!a->first)
		a->last = NULL;
	(void)owner_unref(r->owner);
	free(r);
}

void answer_clear(Answer *a)
{
	while (a->first)
		answer_drop_first(a);
}

int answer_add(Answer *a, const void *message, size_t size, Owner *owner)
{
	Reply *r = calloc(1, sizeof(*r) + size);

	if (!r)
		return -ENOMEM;
	r->size = size;
	memcpy(r->data, message, size);
	if (owner)
		r->owner = owner_ref(owner);
	if (a->last)
		a->last->next = r;
	else
		a->first = r;
	a->last = r;
	return 0;
}

void answer_refuse(Answer *a, int error, const char *text)
{
	struct {
		struct wire_refused m;
		char text[WIRE_MAX_REASON];
	} r;
	size_t n = MIN(strlen(text), sizeof(r.text));

	answer_clear(a);
	memset(&r, 0, sizeof(r));
	r.m.header = wire_header(WIRE_REFUSED, (u32)(sizeof(r.m) + n));
	r.m.error = (u32)error;
	r.m.text_length = (u32)n;
	memcpy(r.text, text, n);
	(void)answer_add(a, &r, sizeof(r.m) + n, NULL);
}

/* 1: sent, 0: later, negative: the other side is gone. */
static int reply_send(const Reply *r, int fd)
{
	struct iovec iov = { .iov_base = (void *)r->data, .iov_len = r->size };
	union {
		struct cmsghdr header;
		u8 space[CMSG_SPACE(sizeof(int))];
	} control = {};
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };
	ssize_t n;

	if (r->owner) {
		m.msg_control = &control;
		m.msg_controllen = sizeof(control);
		control.header = (struct cmsghdr){ .cmsg_level = SOL_SOCKET,
						   .cmsg_type = SCM_RIGHTS,
						   .cmsg_len = CMSG_LEN(sizeof(int)) };
		memcpy(CMSG_DATA(&control.header), &r->owner->region.fd, sizeof(int));
	}
	do {
		n = sendmsg(fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
	} while (n < 0 && errno == EINTR);
	if (n >= 0)
		return 1;
	return errno == EAGAIN ? 0 : -errno;
}

int answer_send(Answer *a, int fd)
{
	while (a->first) {
		int r = reply_send(a->first, fd);

		if (r <= 0)
			return r;
		answer_drop_first(a);
	}
	return 1;
}
