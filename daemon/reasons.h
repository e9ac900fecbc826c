/* SPDX-License-Identifier: MIT */
/* Why snapshots were taken: one has many reasons, and some come when it is on disk already. A crash is known at once, what
 * systemd makes of it a little later, and where its core dump is, when that is written. */
#pragma once

#include <sys/types.h>

#include "lib/base.h"

/* All reasons of one snapshot together: a disaster of hundreds is said by its first ones. */
#define REASONS_MAX   2048
#define REASONS_SAVED 64

/* "this; that". *reason is owned; NULL: there is none yet. */
void reasons_add(char **reason, const char *more);

/* A snapshot on disk that the daemon took by itself. */
typedef struct {
	u64 number;
	char *session, *path, *trigger, *unit; /* owned; unit NULL: none */
	pid_t pid; /* 0: none */
} Saved;

/* Those saved last. */
typedef struct {
	Saved v[REASONS_SAVED];
	u32 n;
} Reasons;

void reasons_clear(Reasons *r);
/* Copies what `what` points at. */
void reasons_save(Reasons *r, const Saved *what);
/* Where it is; "": it is not among the last ones. */
const char *reasons_path(const Reasons *r, u64 number);
/* Another reason of that snapshot, into the journal. coredump: a file, or NULL. Nothing if it is not among the last ones. */
void reasons_say(const Reasons *r, u64 number, const char *more, const char *coredump);
