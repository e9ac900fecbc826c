/* SPDX-License-Identifier: MIT */
/* Recorded programs that died lately. What is said of a death later, by systemd or the journal, names a process that the
 * daemon has let go of; and who was recording it is what it is about. */
#pragma once

#include "daemon/session.h"

#define DEATHS_MAX    64
/* A large core dump reaches the journal so much later, seldom. */
#define DEATHS_NS     (120 * NSEC_PER_SEC)

typedef struct {
	pid_t pid;
	uid_t uid;
	u64 start_time, cookie[2], when;
	char command[64], unit[256];
	bool known; /* the kernel said how */
	bool crash; /* somebody did, and it was by a signal */
	u32 generation[ABI_MAX_SLOTS]; /* of the sessions that recorded it, by slot; 0: did not */
} Dead;

typedef struct {
	Dead v[DEATHS_MAX];
	u32 n; /* ever; the oldest is written over */
} Deaths;

Dead *deaths_note(Deaths *d, const Producer *p, bool known, bool crash, u64 now);
/* The newest with this pid; of this unit, and if main_pid is not 0, with that pid. NULL: none lately. */
Dead *deaths_of_pid(Deaths *d, pid_t pid, u64 now);
Dead *deaths_of_unit(Deaths *d, const char *unit, pid_t main_pid, u64 now);
bool dead_was_recorded(const Dead *dead, const Session *s);
