/* SPDX-License-Identifier: MIT */
/* What may stay on disk: removes whole snapshots and finished traces, oldest first, never parts and never the newest.
 */
#pragma once

#include "conf/config.h"
#include "daemon/failure.h"

/* What the name of a trace ends in as long as it is written: not counted, not removed, not swept. */
#define RETENTION_ACTIVE ".active"

typedef struct {
	u32 n_removed;
	u64 bytes_removed;
} RetentionResult;

/* Applies count, bytes, age and keep-free to the snapshots or traces in `directory`; also removes .*.tmp
 * directories that a dead daemon left (none of a running job: `busy` is NULL-terminated). 0 or
 * -errno of the first failure (goes on after it). */
int retention_apply(const char *directory, const RetentionConfig *c, const char *const *busy,
		    RetentionResult *ret);
/* The same, but for temporary directories: beside jobs that are running. */
int retention_limit(const char *directory, const RetentionConfig *c, RetentionResult *ret);
/* Removes what a dead daemon left half made or half removed, below every directory in `directory` (the sessions'; also of
 * sessions that are gone, which no snapshot would ever clean up after). Nothing may be writing there. 0 or the first
 * -errno. */
int retention_sweep(const char *directory);
/* True if a snapshot or trace of at most `bytes` may be begun: keep_free would still hold once retention has
 * done its best. */
bool retention_room(const char *directory, const RetentionConfig *c, u64 bytes);
