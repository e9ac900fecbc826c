/* SPDX-License-Identifier: MIT */
/* What a program is answered: messages (lib/wire.h), some with the descriptor of rings, that wait until its socket takes them. All
 * zero: nothing. */
#pragma once

#include "daemon/owner.h"

typedef struct Reply Reply;

typedef struct {
	Reply *first, *last;
} Answer;

/* Appends a message; with `owner`, its rings' descriptor travels along. 0 or -ENOMEM. */
int answer_add(Answer *a, const void *message, size_t size, Owner *owner);
/* Drops what is there and refuses instead. Without memory for it the program learns by the closed connection. */
void answer_refuse(Answer *a, int error, const char *text);
/* Sends what can be sent without waiting. 1: all of it; 0: the rest later; negative: the other side is gone. */
int answer_send(Answer *a, int fd);
void answer_clear(Answer *a);

static inline bool answer_waits(const Answer *a)
{
	return a->first != NULL;
}
