/* SPDX-License-Identifier: MIT */
/* tracer_snapshot(), and notices of events that trigger one: what a program asks of the daemon. Each its own short
 * connection, no lock, nothing shared. */
#include "lib/request.h"

#include <signal.h>
#include <sys/auxv.h>

#include "lib/attach.h"
#include "lib/connection.h"
#include "lib/control.h"
#include "lib/fork.h"

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
	r = connection_open(&c, control_socket(), monotonic_ns() + control_timeout());
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

/* One word a class: its index, and the millisecond of its last notice. Two classes that share a word are told of more often
 * than they need be, never less. */
#define EVENT_GAP_MS 1000
#define EVENT_TIME   ((1ull << 48) - 1)

static bool event_is_due(u32 index)
{
	u64 *word = &process.told[index % FORK_TRIGGERS], was = load_relaxed_u64(word);
	u64 now = monotonic_ns() / NSEC_PER_MSEC & EVENT_TIME;

	if (was >> 48 == index && was & EVENT_TIME && now - (was & EVENT_TIME) < EVENT_GAP_MS)
		return false;
	/* relaxed: nothing but the word itself is decided by it; who comes second leaves it to the first */
	return __atomic_compare_exchange_n(word, &was, (u64)index << 48 | now, false, __ATOMIC_RELAXED,
					   __ATOMIC_RELAXED);
}

void request_event(u32 index)
{
	const u64 *cookie = (const u64 *)getauxval(AT_RANDOM);
	struct wire_event m = {
	    .header = wire_header(WIRE_EVENT, sizeof(m)),
	    .class = index,
	};
	int saved_errno = errno, r;
	sigset_t all, saved;
	struct connection c;

	if (!event_is_due(index))
		return;
	if (cookie)
		memcpy(m.cookie, cookie, sizeof(m.cookie));
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &saved);
	r = connection_try(&c, control_socket());
	if (r == 0) {
		r = connection_send(&c, &m, sizeof(m), NULL, 0);
		connection_close(&c);
	}
	if (r < 0)
		(void)fetch_add_relaxed_u64(&process.failed, 1);
	pthread_sigmask(SIG_SETMASK, &saved, NULL);
	errno = saved_errno;
}
