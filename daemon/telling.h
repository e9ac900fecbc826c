/* SPDX-License-Identifier: MIT */
/* A cause, told to each session in turn: it takes a snapshot, or explains the one that it has taken. */
#pragma once

#include "daemon/manager-private.h"

/* One cause as it is told to each session in turn. */
typedef struct {
	Cause cause;
	const char *reason;
	const char *const *environment;
	const char *coredump; /* file; NULL */
} Telling;

/* The number of the snapshot that will be taken for it, or is being, or was; 0: none. *ret_suppressed is set if it came too
 * soon, and else left alone. */
u64 telling_fire(Manager *m, Session *s, const Telling *t, bool *ret_suppressed);
/* To a session that wants no snapshot for this, it explains the one that it may have taken. */
void telling_hear(Manager *m, Session *s, const Telling *t, bool wanted);
