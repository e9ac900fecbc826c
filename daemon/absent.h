/* SPDX-License-Identifier: MIT */
/* What the kernel says of a file that is not there. Any other error (no descriptors left, an interrupted call, a disk that does
 * not answer) says nothing of that: who gives a file up for lost needs one of these. */
#pragma once

#include <errno.h>
#include <stdbool.h>

static inline bool error_is_absence(int error)
{
	return error == ENOENT || error == ENOTDIR || error == ELOOP || error == ESTALE;
}
