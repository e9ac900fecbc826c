/* SPDX-License-Identifier: MIT */
/* UTF-8, and what may be shown to a person or sent over a bus. */
#pragma once

#include "lib/base.h"

/* Bytes of the character at s (at most n), 1 to 4; 0 if it is no UTF-8: overlong, a surrogate, cut off. */
size_t text_character(const char *s, size_t n);
/* All of it is UTF-8 without control characters. */
bool text_printable(const char *s);
