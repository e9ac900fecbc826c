/* SPDX-License-Identifier: MIT */
/* What a value without quotes is. */
#pragma once

#include "lib/base.h"

typedef enum {
	WORD_BOOL,	/* true, false, in any case of letters, as in libconfig */
	WORD_INTEGER,	/* decimal or hex, 64 bits, with or without L */
	WORD_FRACTION,
	WORD_OCTAL,	/* an integer with a 0 in front: 420 or 644? */
	WORD_TOO_LARGE, /* an integer beyond 64 bits */
	WORD_YES,	/* yes, no, on, off */
	WORD_BARE,	/* anything else */
} WordKind;

/* n > 0 bytes at `at`, without blanks, brackets, separators and quotes. */
WordKind word_kind(const char *at, size_t n);
