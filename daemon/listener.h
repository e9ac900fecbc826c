/* SPDX-License-Identifier: MIT */
/* The socket that programs talk to. */
#pragma once

#include "daemon/exchange.h"

#define LISTENER_MAX_CONNECTIONS	  2048
#define LISTENER_MAX_CONNECTIONS_PER_USER 512

typedef struct Listener Listener;

/* Takes the listening socket. */
int listener_new(Listener **ret, sd_event *event, int fd, Ground *ground, u64 timeout_ns,
		 const ExchangeHandler *handler, void *userdata);
Listener *listener_free(Listener *l);
DEFINE_CLEANUP(Listener *, listener_free)
void listener_set_timeout(Listener *l, u64 timeout_ns);
u32 listener_n_exchanges(const Listener *l);

/* A listening SOCK_SEQPACKET socket "producer.sock" in the directory, open to all users; replaces a stale one. */
int listener_bind(int directory_fd);
