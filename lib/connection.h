/* SPDX-License-Identifier: MIT */
/* A connection to the daemon from inside somebody else's program: bounded in time,
 * async-signal-safe, no cancellation point, and careful with descriptors that the program may close
 * behind its back. */
#pragma once

#include "lib/base.h"

struct connection {
	int fd;
	u64 inode;    /* of the socket: what the number must still name when we use or close it */
	u64 deadline; /* CLOCK_MONOTONIC, ns */
	u32 looks;    /* that were made behind it, without waiting */
};

/* All: 0 or -errno; -ETIMEDOUT when the deadline has passed and nothing is there that could be had without waiting,
 * -ECONNRESET when the peer hangs up, -EBADF when the program has closed the descriptor, or opened another under its
 * number. *ret names the descriptor from the moment there is one. */
int connection_open(struct connection *ret, const char *path, u64 deadline);
/* The same without waiting, not even for room in the daemon's queue (-EAGAIN), and nothing is waited for afterwards. */
int connection_try(struct connection *ret, const char *path);
int connection_send(struct connection *c, const void *head, size_t n_head, const void *body,
		    size_t n_body);
/* One message and at most one descriptor (*ret_fd, -1: none came), which is the caller's. Returns
 * the bytes. More than one descriptor, or more bytes than fit, is -EBADMSG. */
int connection_receive(struct connection *c, void *buffer, size_t size, int *ret_fd);
void connection_close(struct connection *c);

/* What is behind fd, inode and device in one number, 0: nothing; and close(), if it is still that. */
u64 connection_inode(int fd);
void connection_close_own(int fd, u64 inode);
