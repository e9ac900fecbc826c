/* SPDX-License-Identifier: MIT */
/* One line of text: a word, then fields KEY=VALUE behind single spaces, as a daemon writes them for the next one. A reader takes
 * the keys it knows and passes over others, so that an older or a newer daemon reads what this one wrote. Bytes that would end a
 * value travel as %XX. */
#pragma once

#include "lib/base.h"

typedef struct {
	char *text; /* owned, NUL-terminated, without a newline */
	size_t n, allocated;
	bool failed; /* out of memory: then it is nothing */
} Line;

/* Begins anew. */
void line_begin(Line *l, const char *word);
void line_number(Line *l, const char *key, u64 value);
void line_text(Line *l, const char *key, const char *value); /* NULL: left out */
void line_bytes(Line *l, const char *key, const void *bytes, size_t n);
/* Numbers, each with a comma behind it. */
void line_list_begin(Line *l, const char *key);
void line_list_add(Line *l, u64 value);
void line_clear(Line *l);

/* True if the line begins with this word. */
bool line_is(const char *line, const char *word);
/* False where there is no such field, or its value is none: *ret is then left as it was. */
bool line_get_number(const char *line, const char *key, u64 *ret);
/* At most `limit`; else as if it were not there. */
bool line_get_u32(const char *line, const char *key, u32 limit, u32 *ret);
/* A number that is not 0. */
bool line_get_bool(const char *line, const char *key);
/* Allocated; NULL: none (or out of memory). */
char *line_get_text(const char *line, const char *key);
/* Allocated, *ret_n bytes; NULL likewise. */
u8 *line_get_bytes(const char *line, const char *key, size_t *ret_n);
/* The next number of a list; *at begins as NULL. False: there is none, or what is there is none. */
bool line_list_next(const char *line, const char *key, const char **at, u64 *ret);
