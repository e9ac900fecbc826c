/* SPDX-License-Identifier: MIT */
/* Takes a directory away with everything in it. */
#pragma once

#include "lib/base.h"

/* Removes NAME below at_fd, whatever it is; links are removed, not followed, and no other file
 * system is entered. 0 (also if it was not there) or the first -errno; goes on after it. *ret_bytes
 * (may be NULL): what its files took on disk. */
int removal_run(int at_fd, const char *name, u64 *ret_bytes);

/* What NAME takes on disk, all files and directories in it. */
u64 removal_size(int at_fd, const char *name);
