/* SPDX-License-Identifier: MIT */
/* The socket that programs talk to, and their exchanges (lib/wire.h): one exchange a connection, each with a
 * deadline, nothing ever waited for. Who sends nonsense is dropped and nothing of it is kept; who it was is
 * said once in a while. */
#pragma once

#include <systemd/sd-event.h>

#include "daemon/ground.h"
#include "daemon/owner.h"
#include "lib/wire.h"

#define LISTENER_MAX_CONNECTIONS	  512
#define LISTENER_MAX_CONNECTIONS_PER_USER 64

typedef struct Listener Listener;
typedef struct Exchange Exchange;

/* Each is called with a complete, checked request and answers by exchange_*(), now. */
typedef struct {
	void (*synchronise)(void *userdata, Exchange *x);
	void (*snapshot)(void *userdata, Exchange *x, const u64 cookie[2], const char *reason);
	/* A program did not wait for its answer. */
	void (*late)(void *userdata);
} ListenerHandler;

/* Takes the listening socket. */
int listener_new(Listener **ret, sd_event *event, int fd, Ground *ground, u64 timeout_ns,
		 const ListenerHandler *handler, void *userdata);
Listener *listener_free(Listener *l);
DEFINE_CLEANUP(Listener *, listener_free)
void listener_set_timeout(Listener *l, u64 timeout_ns);
u32 listener_n_exchanges(const Listener *l);

/* A listening SOCK_SEQPACKET socket "producer.sock" in the directory, open to all users; replaces a stale one. */
int listener_bind(int directory_fd);

int exchange_fd(const Exchange *x);
uid_t exchange_uid(const Exchange *x);
const struct wire_hello *exchange_hello(const Exchange *x);
/* The program's classes; the caller takes array and references. */
Class **exchange_take_classes(Exchange *x, u32 *ret_n);
/* Appends a message to the answer; with `owner`, its rings' descriptor travels along. 0 or -ENOMEM. */
int exchange_reply(Exchange *x, const void *message, size_t size, Owner *owner);
/* Drops what was appended and refuses instead. */
void exchange_refuse(Exchange *x, int error, const char *text);
/* One line about this program's user, unless there was one lately. */
void exchange_complain(const Exchange *x, const char *format, ...) _printf_(2, 3);
