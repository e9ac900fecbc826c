/* SPDX-License-Identifier: MIT */
/* Bytes at a place of a file: all of them, however many calls that takes. */
#pragma once

#include <sys/types.h>

#include "lib/base.h"

/* Reads up to `size` bytes at offset: how many there were, or -errno. */
ssize_t read_at(int fd, void *p, size_t size, u64 offset);
/* Writes `size` bytes at offset. 0 or -errno. */
int write_at(int fd, const void *p, size_t size, u64 offset);
