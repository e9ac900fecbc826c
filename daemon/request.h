/* SPDX-License-Identifier: MIT */
/* What a program asks (lib/wire.h), gathered from its messages and judged: every byte may be a lie. All zero: nothing yet.
 *
 * A negative errno says that a message is none of ours, or that there is no memory to read it: the program is dropped. */
#pragma once

#include "daemon/classes.h"
#include "daemon/failure.h"
#include "lib/wire.h"

typedef struct {
	struct wire_hello hello;
	bool named; /* PROGRAM came */
	char exe[WIRE_MAX_EXE + 1], build_id[2 * WIRE_MAX_BUILD_ID + 1]; /* fit to be shown; "" if nothing was said */
	Class **classes; /* owned references; room for hello.n_classes, n_classes of them filled */
	u32 n_classes, bytes;
} Request;

/* 0; -EBADMSG; -ENOMEM; or 1: it speaks another version, and was not looked at any further. */
int request_hello(Request *q, const struct wire_hello *m);
/* Once at the most, and after HELLO. */
void request_program(Request *q, const struct wire_program *m);
/* 0, or 1: there is no room for them, as *f says; -EBADMSG; -ENOMEM. */
int request_classes(Request *q, const struct wire_classes *m, size_t size, Classes *known, uid_t uid, Failure *f);
/* Why a snapshot is asked for: one line. 0 or -EBADMSG. */
int request_reason(const struct wire_snapshot *m, size_t size, char ret[WIRE_MAX_REASON + 1]);
void request_clear(Request *q);

static inline bool request_complete(const Request *q)
{
	return q->n_classes == q->hello.n_classes;
}
