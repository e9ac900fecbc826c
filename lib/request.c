/* SPDX-License-Identifier: MIT */
/* tracer_snapshot(): what a program asks of the daemon. Its own short connection, no lock, nothing
 * shared. */
#include <signal.h>
#include <sys/auxv.h>

#include "lib/attach.h"
#include "lib/connection.h"
#include "lib/control.h"

/* Bytes of text, cut at WIRE_MAX_REASON, but not inside a character of UTF-8. */
static size_t reason_length(const char *reason)
{
	size_t n = strnlen(reason, WIRE_MAX_REASON + 1);

	if (n > WIRE_MAX_REASON)
		for (n = WIRE_MAX_REASON; n && ((u8)reason[n] & 0xC0) == 0x80; n--)
			;
	return n;
}

static int exchange(const char *reason)
{
	union {
		struct wire_header header;
		struct wire_accepted accepted;
		struct wire_refused refused;
		u8 bytes[sizeof(struct wire_refused) + 256];
	} answer;
	const u64 *cookie = (const u64 *)getauxval(AT_RANDOM);
	size_t n = reason_length(reason);
	struct wire_snapshot m = {
	    .header = wire_header(WIRE_SNAPSHOT, (u32)(sizeof(m) + n)),
	    .reason_length = (u16)n,
	};
	struct connection c;
	int fd = -1, r;

	if (cookie)
		memcpy(m.cookie, cookie, sizeof(m.cookie));
	r = connection_open(&c, control_socket(), connection_now() + ATTACH_TIMEOUT);
	if (r < 0)
		return r;
	r = connection_send(&c, &m, sizeof(m), reason, n);
	if (r == 0 || r == -EPIPE)
		r = connection_receive(&c, &answer, sizeof(answer), &fd);
	connection_close(&c);
	if (fd >= 0)
		connection_close_own(fd, connection_inode(fd));
	if (r < 0)
		return r;
	switch (wire_check(&answer, (size_t)r)) {
	case WIRE_ACCEPTED:
		return 0;
	case WIRE_REFUSED:
		return answer.refused.error && answer.refused.error < 4096
			   ? -(int)answer.refused.error
			   : -EBADMSG;
	default:
		return -EBADMSG;
	}
}

int tracer_snapshot(const char *reason)
{
	sigset_t all, saved;
	int saved_errno = errno, r;

	/* a handler that jumps out would leave the descriptor open */
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &saved);
	r = exchange(reason ? reason : "");
	pthread_sigmask(SIG_SETMASK, &saved, NULL);
	errno = saved_errno;
	return r;
}
