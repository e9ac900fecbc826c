/* SPDX-License-Identifier: MIT */
/* What every session and producer of one daemon stands on. Owned by the manager; outlives them all. */
#pragma once

#include "conf/config.h"
#include "daemon/account.h"
#include "daemon/board.h"
#include "daemon/classes.h"
#include "daemon/cpus.h"

typedef struct {
	Board *board;
	Account *account;
	Classes *classes;
	Cpus *cpus;
	char *snapshot_directory;
	char *trace_directory; /* of sessions that do not say where they write */
	struct Writings *writings;
	struct Backings *backings;
	struct Leftovers *leftovers;
	struct State *state; /* what outlives the daemon; NULL: nothing */
	bool leaving; /* the next daemon goes on with what there is: nothing of it is ended */
} Ground;
