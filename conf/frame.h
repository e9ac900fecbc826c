/* SPDX-License-Identifier: MIT */
/* An open bracket of a text: what may come next in it, and, of a group, the names that it has so far. */
#pragma once

#include "conf/problem.h"

enum { FRAME_MAX_NAMES = 1024 };

typedef enum {
	WANT_NAME,	/* group: a name, or its end */
	WANT_EQUALS,	/* group: '=' or ':' */
	WANT_VALUE,	/* group: the value */
	WANT_SEPARATOR, /* group: ';', ',', or the next name */
	WANT_ELEMENT,	/* list: a value, or its end */
	WANT_COMMA,	/* list: ',' or its end */
} Want;

typedef struct {
	const char *at; /* in the text */
	size_t n;
	int line;
} Name;

typedef struct {
	char open; /* '{', '[', '('; 0: the file itself */
	int line;
	Want want;
	bool string; /* the value before was a string: another one is glued to it */
	Name *names; /* owned; seen in this group; the last is the one whose value is read */
	size_t n_names;
} Frame;

/* A letter, then letters, digits, '-' and '_'. */
bool name_is_valid(const char *at, size_t n);

/* 0; -ENOMEM; -E2BIG: there are FRAME_MAX_NAMES. */
int frame_add_name(Frame *f, const char *at, size_t n, int line);
/* NULL: there is none yet. */
const Name *frame_find_name(const Frame *f, const char *at, size_t n);
void frame_clear(Frame *f);

static inline bool frame_is_group(const Frame *f)
{
	return f->open == 0 || f->open == '{';
}

/* The key whose value is being read in this group, as a message begins: "memory: "; "" at no key. */
const char *frame_key(const Frame *f, char ret[WORD_SHOWN + 8]);
/* What is opened in it, as a message has it behind a bracket: " (sessions)"; "" if that has no name. */
const char *frame_opens(const Frame *f, char ret[WORD_SHOWN + 32]);
