/* SPDX-License-Identifier: MIT */
/* Our own reading of a file's tokens, before libconfig sees it. libconfig 1.5 wraps integers silently, exits the
 * process for an @include of a directory, stops at the first mistake and calls most of them "syntax error". So
 * this pass knows strings, comments and brackets, says what is wrong in the user's words, and hands on a
 * text without what libconfig gets wrong, in which every line still has its number. */
#pragma once

#include "conf/config.h"

enum { SCAN_MAX_DEPTH = 16 };

/* Reads text[0..n), which need not end with a NUL. Adds problems for `file`. Returns 0 or -ENOMEM.
 * *ret_text: what libconfig may read, owned by the caller; NULL if the text is beyond repair. Where a mistake
 * could be repaired, so that what comes behind is looked at too, the problem is there all the same; a name
 * that had to be dropped begins with '*' in it, which no name from a file does. */
int scan_text(const char *file, const char *text, size_t n, char **ret_text, ConfigProblems *problems);
