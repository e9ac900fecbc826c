/* SPDX-License-Identifier: MIT */
/* Where a scan stands in a text, and the text that it hands on. */
#pragma once

#include "lib/base.h"

typedef struct {
	const char *p, *end;
	int line; /* of p, from 1 */
	char *out; /* owned, NUL-terminated after the first put */
	size_t n_out, size_out;
} Cursor;

/* Hands bytes on; 0 or -ENOMEM. */
int cursor_put(Cursor *c, const char *bytes, size_t n);
/* Skips blanks and comments; of them only blanks and the ends of lines are handed on, since libconfig knows neither
 * a comment on a last line without its end, nor carriage returns. 0, -ENOMEM, or -EBADMSG for a comment that has no
 * end, which begins in *ret_line. */
int cursor_skip(Cursor *c, int *ret_line);
/* Bytes of the word at p: up to a blank, a bracket, a separator, a quote or a comment; a name ends at ':' too. */
size_t cursor_word(const Cursor *c, bool name);

static inline void cursor_clear(Cursor *c)
{
	free(c->out);
	*c = (Cursor){ 0 };
}
