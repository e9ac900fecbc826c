/* SPDX-License-Identifier: MIT */
/* Files from disk, one behind the other, into one Config. */
#pragma once

#include "conf/config.h"

enum { CONFIG_FILE_MAX = 1 << 20 }; /* bytes: far beyond any that a person wrote */

/* The text of one file as if it were all of the configuration: parse and the checks over several keys.
 * 0, -EINVAL, -ENOMEM as config_load(). For tests and the fuzzer. */
int config_load_text(const char *name, const char *text, size_t n, Config **ret,
		     ConfigProblems *problems);
