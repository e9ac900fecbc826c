/* SPDX-License-Identifier: MIT */
/* Globs over event names ("shop:*"), process names and units; and levels. */
#pragma once

#include "lib/base.h"

/* True if text matches: '*' any run, '?' any one byte, all else itself. Linear in practice, bounded by
 * |pattern| * |text| at worst (no recursion), so a hostile pattern costs no more than its length. */
bool pattern_match(const char *pattern, const char *text);

/* True if `pattern` ("provider:event", or "provider" alone meaning all its events) matches provider:event */
bool pattern_match_event(const char *pattern, const char *provider, const char *event);

/* The provider part if it is literal (no glob character), copied to ret (size bytes): then only one bucket
 * of the control page needs the session's bit. Returns false if it is a glob or too long. */
bool pattern_literal_provider(const char *pattern, char *ret, size_t size);

/* A pattern's form is right: non-empty, at most 255 bytes, one ':' at most, printable. */
bool pattern_valid(const char *pattern);

/* "info" -> 6, also "0".."14"; -EINVAL for anything else. And back (NULL if out of range). */
int level_from_name(const char *name);
const char *level_name(int level);
