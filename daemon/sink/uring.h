/* SPDX-License-Identifier: MIT */
/* A queue of writes to files, by the kernel's io_uring without a library: as little of it as `direct` needs. One thread. */
#pragma once

#include <sys/uio.h>

#include "lib/base.h"

typedef struct Uring Uring;

/* For up to `entries` writes on their way. -ENOSYS, -EPERM (a container, a sysctl) and the like: there is none to be had. */
int uring_new(Uring **ret, u32 entries);
/* Nothing may be on its way. NULL is fine. */
Uring *uring_free(Uring *u);
DEFINE_CLEANUP(Uring *, uring_free)

/* Hands a write to the kernel. The bytes must stay until it is reaped, `v` need not. 0, or negative errno: not handed over. */
int uring_write(Uring *u, int fd, const struct iovec *v, u32 n, u64 offset, void *tag);
/* A write that is done: *ret_tag as given, *ret_result bytes or negative errno. False: there is none; with `wait` that means
 * that none is on its way. */
bool uring_reap(Uring *u, bool wait, void **ret_tag, ssize_t *ret_result);
