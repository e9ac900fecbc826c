/* SPDX-License-Identifier: MIT */
/* The exchanges of programs with the daemon. */
#include "daemon/exchange.h"

#include <stdarg.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>

#include "daemon/answer.h"
#include "daemon/request.h"
#include "systemd/journal.h"
#include "systemd/messages.h"

/* Per turn of the loop, so that a flood on one connection delays nothing else for long. */
#define TURN_MESSAGES 64
/* Where exchanges of a user stand that took more than its share of the loop: behind everything else. */
#define PRIORITY_OVERDRAWN (SD_EVENT_PRIORITY_NORMAL + 10)

typedef enum {
	EXCHANGE_HELLO,	  /* nothing came yet */
	EXCHANGE_CLASSES, /* after HELLO, until END */
	EXCHANGE_ANSWER,  /* answering, then waiting for the other side to close */
} ExchangeState;

struct Exchange {
	Exchanges *set;
	Exchange *next, *previous;
	int fd;
	uid_t uid;
	pid_t pid;
	sd_event_source *io, *deadline;
	ExchangeState state;
	Request request;
	Answer answer;
	u32 events; /* what io listens for */
	bool refused; /* what comes behind the refused message is read and forgotten: it was sent already */
	bool behind; /* had to let others go first */
};

static void complain(Ground *g, uid_t uid, pid_t pid, const char *format, va_list ap)
{
	char text[512], more[64] = "";
	u64 swallowed;

	if (!account_may_log(g->account, uid, monotonic_ns(), &swallowed))
		return;
	(void)vsnprintf(text, sizeof(text), format, ap);
	if (swallowed)
		(void)snprintf(more, sizeof(more), " (and %llu more of this user)",
			       (unsigned long long)swallowed);
	journal_log(LOG_WARNING,
		    &(JournalFields){ .message_id = MESSAGE_PRODUCER_REFUSED, .pid = pid },
		    "process %d of user %u: %s%s", (int)pid, (unsigned)uid, text, more);
}

void exchange_complain(const Exchange *x, const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	complain(x->set->ground, x->uid, x->pid, format, ap);
	va_end(ap);
}

static Exchange *exchange_free(Exchange *x)
{
	Exchanges *set = x->set;

	if (x->previous)
		x->previous->next = x->next;
	else
		set->first = x->next;
	if (x->next)
		x->next->previous = x->previous;
	set->n--;
	x->io = sd_event_source_disable_unref(x->io);
	x->deadline = sd_event_source_disable_unref(x->deadline);
	x->fd = close_fd(x->fd);
	request_clear(&x->request);
	answer_clear(&x->answer);
	account_release(set->ground->account, x->uid, CHARGE_CONNECTIONS, 1);
	free(x);
	return NULL;
}

int exchange_fd(const Exchange *x)
{
	return x->fd;
}

uid_t exchange_uid(const Exchange *x)
{
	return x->uid;
}

pid_t exchange_pid(const Exchange *x)
{
	return x->pid;
}

const struct wire_hello *exchange_hello(const Exchange *x)
{
	return &x->request.hello;
}

const char *exchange_exe(const Exchange *x)
{
	return x->request.exe;
}

const char *exchange_build_id(const Exchange *x)
{
	return x->request.build_id;
}

Class **exchange_take_classes(Exchange *x, u32 *ret_n)
{
	*ret_n = x->request.n_classes;
	x->request.n_classes = 0;
	return steal_ptr(x->request.classes);
}

int exchange_reply(Exchange *x, const void *message, size_t size, Owner *owner)
{
	return answer_add(&x->answer, message, size, owner);
}

void exchange_refuse(Exchange *x, int error, const char *text)
{
	x->refused = true;
	answer_refuse(&x->answer, error, text);
}

/* ---- requests ---- */

static int on_hello(Exchange *x, const struct wire_hello *m)
{
	int r = request_hello(&x->request, m);

	if (r < 0)
		return r;
	x->state = EXCHANGE_CLASSES;
	if (r > 0) {
		exchange_refuse(x, EPROTONOSUPPORT,
				"this tracerd speaks another version; restart the program with "
				"the library that is installed now");
		exchange_complain(x, "speaks ABI %u.%u, this daemon %d.%d; refused", m->abi_major,
				  m->abi_minor, ABI_MAJOR, ABI_MINOR);
		x->state = EXCHANGE_ANSWER;
	}
	return 0;
}

static int on_classes(Exchange *x, const struct wire_classes *m, size_t size)
{
	Failure f = FAILURE_NULL;
	int r = request_classes(&x->request, m, size, x->set->ground->classes, x->uid, &f);

	if (r <= 0)
		return r;
	exchange_refuse(x, f.kind == FAILURE_LIMIT ? EDQUOT : ENOMEM, f.text);
	exchange_complain(x, "%s; refused", f.text);
	x->state = EXCHANGE_ANSWER;
	return 0;
}

static int on_snapshot(Exchange *x, const struct wire_snapshot *m, size_t size)
{
	char reason[WIRE_MAX_REASON + 1];
	int r = request_reason(m, size, reason);

	if (r < 0)
		return r;
	x->state = EXCHANGE_ANSWER;
	x->set->handler.snapshot(x->set->userdata, x, m->cookie, reason);
	return 0;
}

/* 0; 1: it was all there is to say; or negative: drop. */
static int exchange_request(Exchange *x, const void *message, size_t size)
{
	int type = wire_check(message, size);

	if (type < 0)
		return type;
	if (x->refused)
		return 0;
	if (x->state == EXCHANGE_HELLO && type == WIRE_HELLO)
		return on_hello(x, message);
	if (x->state == EXCHANGE_HELLO && type == WIRE_SNAPSHOT)
		return on_snapshot(x, message, size);
	if (x->state == EXCHANGE_CLASSES && type == WIRE_PROGRAM && !x->request.named && x->request.n_classes == 0) {
		request_program(&x->request, message);
		return 0;
	}
	if (x->state == EXCHANGE_HELLO && type == WIRE_CRASH) {
		x->set->handler.crashed(x->set->userdata, x, message);
		return 1;
	}
	if (x->state == EXCHANGE_HELLO && type == WIRE_EVENT) {
		x->set->handler.recorded(x->set->userdata, x, message);
		return 1;
	}
	if (x->state == EXCHANGE_CLASSES && type == WIRE_CLASSES)
		return on_classes(x, message, size);
	if (x->state == EXCHANGE_CLASSES && type == WIRE_END && request_complete(&x->request)) {
		x->state = EXCHANGE_ANSWER;
		x->set->handler.synchronise(x->set->userdata, x);
		return 0;
	}
	return -EBADMSG;
}

/* ---- the connection ---- */

static int exchange_set_events(Exchange *x, u32 events)
{
	if (x->events == events)
		return 0;
	x->events = events;
	return sd_event_source_set_io_events(x->io, events);
}

/* Sends what can be sent. Negative: drop. */
static int exchange_send(Exchange *x)
{
	int r = answer_send(&x->answer, x->fd);

	return r < 0 ? r : exchange_set_events(x, r ? EPOLLIN : EPOLLIN | EPOLLOUT);
}

/* Reads and answers what is there. 0: goes on; 1: over; negative: drop. */
static int exchange_turn(Exchange *x)
{
	Exchanges *set = x->set;

	for (int i = 0; i < TURN_MESSAGES; i++) {
		/* no room for descriptors: what the peer sends of those the kernel closes */
		ssize_t n = recv(x->fd, set->buffer, sizeof(set->buffer), MSG_DONTWAIT | MSG_TRUNC);
		int r;

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return x->state == EXCHANGE_ANSWER && answer_waits(&x->answer) ? exchange_send(x) : 0;
		if (n < 0)
			return -errno;
		if (n == 0) /* closed; an empty message would look the same and is none of ours */
			return x->state == EXCHANGE_ANSWER && !answer_waits(&x->answer) ? 1 : -ECONNRESET;
		if ((size_t)n > WIRE_MAX)
			return -EBADMSG;
		r = exchange_request(x, set->buffer, (size_t)n);
		if (r)
			return r;
	}
	/* the last message of this turn may have been the one to answer, and no other will wake us */
	return x->state == EXCHANGE_ANSWER && answer_waits(&x->answer) ? exchange_send(x) : 0;
}

static void exchange_drop(Exchange *x, int error)
{
	/* one that stood behind others for too long is not to blame for it, and may ask again */
	bool answered = x->state == EXCHANGE_ANSWER || (error == -ETIME && x->behind);
	/* it had no more patience before we came to it, on a machine with a thousand others that asked at once */
	bool gave_up = error == -ECONNRESET || error == -EPIPE;
	Exchanges *set = x->set;

	if (error == -EBADMSG)
		exchange_complain(x, "sent a message that is none; dropped");
	else if (error == -ETIME && !answered)
		exchange_complain(x, "did not finish its request in time; dropped");
	else if (error == -ENOMEM || error == -ETOOMANYREFS)
		exchange_complain(x, "could not be answered: %s", strerror(-error));
	(void)exchange_free(x);
	/* It asked properly and did not get, or not read, what it wanted; and of its own accord it does not ask again before
	 * something changes. */
	if ((answered && error != -EBADMSG) || gave_up)
		set->handler.late(set->userdata);
}

/* A user whose programs took more than their share of the loop waits until nobody else does. */
static bool exchange_rank(Exchange *x)
{
	bool behind = account_overdrawn(x->set->ground->account, x->uid, monotonic_ns());
	int64_t priority = behind ? PRIORITY_OVERDRAWN : SD_EVENT_PRIORITY_NORMAL;

	(void)sd_event_source_set_priority(x->io, priority);
	x->behind |= behind;
	return behind;
}

static int exchange_on_io(sd_event_source *s, int fd, u32 revents, void *userdata)
{
	Exchange *x = userdata;
	u64 begin = monotonic_ns(), end;
	int r = exchange_turn(x);

	end = monotonic_ns();
	account_spend(x->set->ground->account, x->uid, end, end - begin);
	if (r == 0)
		(void)exchange_rank(x);
	if (r > 0)
		(void)exchange_free(x);
	else if (r < 0)
		exchange_drop(x, r);
	return 0;
}

static int exchange_on_deadline(sd_event_source *s, u64 usec, void *userdata)
{
	exchange_drop(userdata, -ETIME);
	return 0;
}

static void ucred_complain(Exchanges *set, const struct ucred *who, const char *format, ...)
	_printf_(3, 4);
static void ucred_complain(Exchanges *set, const struct ucred *who, const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	complain(set->ground, who->uid, who->pid, format, ap);
	va_end(ap);
}

int exchange_accept(Exchanges *set, int fd)
{
	_cleanup_close_ int taken = fd;
	Failure f = FAILURE_NULL;
	struct ucred ucred;
	socklen_t size = sizeof(ucred);
	Exchange *x;
	int r;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &ucred, &size) < 0)
		return -errno;
	r = account_charge(set->ground->account, ucred.uid, CHARGE_CONNECTIONS, 1, &f);
	if (r < 0) {
		ucred_complain(set, &ucred, "%s; connection dropped", f.text);
		set->handler.late(set->userdata);
		return r;
	}
	x = calloc(1, sizeof(*x));
	if (!x) {
		account_release(set->ground->account, ucred.uid, CHARGE_CONNECTIONS, 1);
		return -ENOMEM;
	}
	*x = (Exchange){ .set = set,
			 .next = set->first,
			 .fd = steal_fd(taken),
			 .uid = ucred.uid,
			 .pid = ucred.pid,
			 .events = EPOLLIN };
	if (set->first)
		set->first->previous = x;
	set->first = x;
	set->n++;
	r = sd_event_add_io(set->event, &x->io, x->fd, EPOLLIN, exchange_on_io, x);
	if (r >= 0)
		r = sd_event_add_time_relative(set->event, &x->deadline, CLOCK_MONOTONIC,
					       set->timeout_ns / NSEC_PER_USEC, 1000,
					       exchange_on_deadline, x);
	if (r < 0) {
		(void)exchange_free(x);
		return r;
	}
	/* the request is usually there already, and the program waits for us */
	if (!exchange_rank(x))
		(void)exchange_on_io(x->io, x->fd, EPOLLIN, x);
	return 0;
}

void exchanges_clear(Exchanges *set)
{
	while (set->first)
		(void)exchange_free(set->first);
}
