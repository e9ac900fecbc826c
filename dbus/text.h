/* SPDX-License-Identifier: MIT */
/* Text that came from programs: made fit for the bus (valid UTF-8, or the bus daemon ends our connection) and for a
 * terminal (no control characters). Used on both ends. */
#pragma once

#include "lib/base.h"

/* Copies text into buffer (size > 0), cut at a character, with '?' for every byte that is not part of a printable
 * character. NULL counts as "". Returns buffer. */
const char *text_clean(const char *text, char *buffer, size_t size);

/* The number of columns a valid UTF-8 text takes, one for each character. */
size_t text_columns(const char *text);
