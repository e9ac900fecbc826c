/* SPDX-License-Identifier: MIT */
/* Whose records an owner's rings hold, on disk: after the machine's death there is nobody else to ask. A small file, written anew and
 * renamed when it changes. */
#pragma once

#include "daemon/description.h"

/* NAME below dir_fd, durable, with the users' names as this machine knows them; the name is when the directory is synced.
 * 0 or -errno. */
int programs_write(int dir_fd, const char *name, u64 image, Descriptions *d);
/* 0; -ENOENT: there is none, -EBADMSG: it is torn, or another image's; -ENOMEM, or -errno of the disk. */
int programs_read(Descriptions *ret, int dir_fd, const char *name, u64 image);
/* Takes it away. */
void programs_remove(int dir_fd, const char *name);
