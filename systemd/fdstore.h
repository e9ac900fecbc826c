/* SPDX-License-Identifier: MIT */
/* Descriptors that systemd keeps while we are gone (sd_notify(3), FDSTORE=1), and what it passes at the start: kept ones, and the
 * listening socket.
 *
 * The store is finite and says nothing when it is full: it logs and drops. So we count, and refuse ourselves before it would. It is
 * kept over a restart and over every death with Restart=, not over `systemctl stop`. Each message costs PID 1 a comparison with all
 * that is stored: one descriptor for each thing, not one per CPU. */
#pragma once

#include "lib/base.h"

/* What tracer.service asks for (FileDescriptorStoreMax=). */
#ifndef FDSTORE_MAX
#define FDSTORE_MAX 2048
#endif

typedef struct {
	char *name; /* owned */
	int fd;	    /* owned; -1 once it was taken */
} PassedFd;

typedef struct Passed {
	PassedFd *v;
	size_t n;
} Passed;

/* All that was passed, close-on-exec; the environment forgets it. 0 or -errno. */
int passed_receive(Passed *ret);
/* Closes what was not taken: nothing unknown stays open for the life of the daemon. */
void passed_clear(Passed *p);
/* The listening SOCK_SEQPACKET socket: by the name "producer", else the first that fits. -1: none. */
int passed_take_socket(Passed *p);
/* The next one with this name, -1: none. */
int passed_take(Passed *p, const char *name);

typedef struct {
	bool on;    /* somebody keeps what we give him */
	u32 n, max; /* how many he has, and can have */
	char *owed; /* names that he still has, since he could not be told; each with its NUL */
	size_t n_owed;
} FdStore;

/* On if there is a NOTIFY_SOCKET; the least of FDSTORE_MAX and what newer systemd says in $FDSTORE. `n`: what came from it. */
void fdstore_init(FdStore *s, u32 n);
static inline bool fdstore_full(const FdStore *s)
{
	return s->on && s->n >= s->max;
}
/* 0; -ENOSPC: full; -EAGAIN: one of this name is still there; -EINVAL: not a name (1 to 200 printable ASCII bytes, no ':'); -errno. Does nothing (0) where it is off. It
 * stays there if we die right after: PID 1 reads what was sent before it learns of our death. */
int fdstore_put(FdStore *s, const char *name, int fd);
/* What he could not be told (he was out of descriptors, say) is told later, before anything else. */
void fdstore_remove(FdStore *s, const char *name);
void fdstore_catch_up(FdStore *s);
void fdstore_deinit(FdStore *s);
