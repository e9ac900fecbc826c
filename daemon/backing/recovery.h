/* SPDX-License-Identifier: MIT */
/* Makes a trace of a run that was left on a disk: by the daemon at its start, and by tracerctl where there is no daemon. Reads,
 * and removes nothing. */
#pragma once

#include "daemon/backing/notes.h"
#include "daemon/failure.h"
#include "daemon/snapshot.h"

typedef struct {
	int dir_fd;	  /* of the run; borrowed */
	const char *path; /* the same, for words */
	const char *directory; /* where the trace goes; exists */
	const char *name;      /* of the trace; NULL: the time that it reaches to, "20261129T160102.123456Z-recovered" */
	const char *beside;    /* NULL, or another directory in which such a name must be free */
} RecoveryOptions;

typedef struct {
	char *session; /* owned: its name, as the run says */
	char *name;    /* owned: of the trace */
	u64 synced;    /* CLOCK_REALTIME, nanoseconds: all that was recorded before is there, but for what the notes say is
			  damaged; 0: no pass was finished */
	u64 last;      /* ... the newest that was found */
	u32 n_owners;
	SnapshotResult snapshot;
	Notes notes;
} RecoveryResult;

/* True if the directory is a run: a session's rings as its daemon left them. */
bool recovery_is_run(int dir_fd);
/* Writes DIRECTORY/NAME, which appears by rename when it is on disk. FAILURE_NOTHING: no record was ever copied; the notes may
 * say why. *ret is set in any case, and cleared by the caller. */
int recovery_run(const RecoveryOptions *o, RecoveryResult *ret, Failure *f);
void recovery_clear(RecoveryResult *r);
