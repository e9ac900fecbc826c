/* SPDX-License-Identifier: MIT */
/* The exchanges of programs with the daemon (lib/wire.h): one a connection, each with a deadline, nothing ever waited
 * for. Who sends nonsense is dropped and nothing of it is kept; who it was is said once in a while. */
#pragma once

#include <systemd/sd-event.h>

#include "daemon/ground.h"
#include "daemon/owner.h"
#include "lib/wire.h"

typedef struct Exchange Exchange;

/* Each is called with a complete, checked request and answers by exchange_*(), now. */
typedef struct {
	void (*synchronise)(void *userdata, Exchange *x);
	void (*snapshot)(void *userdata, Exchange *x, const u64 cookie[2], const char *reason);
	/* Notices: nobody waits for an answer, and who sent one is known by the connection's credentials alone. */
	void (*crashed)(void *userdata, Exchange *x, const struct wire_crash *m);
	void (*recorded)(void *userdata, Exchange *x, const struct wire_event *m);
	/* A program did not wait for its answer, or could not be listened to. */
	void (*late)(void *userdata);
} ExchangeHandler;

/* Those that are going on, and what they share. */
typedef struct {
	sd_event *event;
	Ground *ground;
	u64 timeout_ns;
	ExchangeHandler handler;
	void *userdata;
	Exchange *first;
	u32 n;
	/* one message at a time: the loop is one thread, and every message is used before the next */
	u8 buffer[WIRE_MAX + 1] __attribute__((aligned(8)));
} Exchanges;

/* Begins one on a fresh, nonblocking connection, which is taken. 0 or -errno (dropped, and said). */
int exchange_accept(Exchanges *set, int fd);
void exchanges_clear(Exchanges *set);

int exchange_fd(const Exchange *x);
uid_t exchange_uid(const Exchange *x);
pid_t exchange_pid(const Exchange *x);
const struct wire_hello *exchange_hello(const Exchange *x);
/* What the program said it is, fit to be shown: the path of its executable, and its build id in hexadecimal; "" if nothing. */
const char *exchange_exe(const Exchange *x);
const char *exchange_build_id(const Exchange *x);
/* The program's classes; the caller takes array and references. */
Class **exchange_take_classes(Exchange *x, u32 *ret_n);
/* Appends a message to the answer; with `owner`, its rings' descriptor travels along. 0 or -ENOMEM. */
int exchange_reply(Exchange *x, const void *message, size_t size, Owner *owner);
/* Drops what was appended and refuses instead. */
void exchange_refuse(Exchange *x, int error, const char *text);
/* One line about this program's user, unless there was one lately. */
void exchange_complain(const Exchange *x, const char *format, ...) _printf_(2, 3);
