/* SPDX-License-Identifier: MIT */
/* Which files are the configuration, and in which order. config.h tells the rules. */
#pragma once

#include "conf/config.h"

/* Paths in the order they are to be read, each NUL-terminated and owned by *ret; only those that exist and are not
 * masked. Problems: a directory that cannot be listed. 0 or -ENOMEM. */
int dropin_list(const char *const *directories, Strings *ret, ConfigProblems *problems);
