/* SPDX-License-Identifier: MIT */
/* Copying into mapped files: a page that the disk cannot give or take raises SIGBUS, which becomes an error here. */
#pragma once

#include "lib/base.h"

/* Installs the handler; once per process, further calls do nothing. A SIGBUS that is not of fault_copy() goes to whoever had
 * it before. 0 or negative errno. */
int fault_install(void);

/* Copies `size` bytes of `from` (NULL: zeros). -EIO if a page could not be had on either side; `to` is then half written. */
int fault_copy(void *to, const void *from, size_t size);
