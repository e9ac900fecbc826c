/* SPDX-License-Identifier: MIT */
/* A daemon begins with what the one before left in systemd's store: its sessions run on, with the rings that programs have gone on
 * recording into. What is damaged or cannot be is left out piece by piece, and said. */
#pragma once

#include "daemon/restore.h"
#include "systemd/fdstore.h"

typedef struct {
	Ledger *ledger;	   /* owned, until the state has it; NULL: nothing was left */
	Restored restored;
	Passed *passed;	   /* borrowed: descriptors that were not taken */
	BoardKept kept;
	u32 n_stored;	   /* in the store when this daemon began */
	u32 n_refused;	   /* pieces that were left out */
	u32 n_missed;	   /* ids of any owner, at the most, whose meaning nobody knows */
	bool ended;	   /* the daemon before was stopping its sessions in order, for its own end */
} Takeover;

/* After so many daemons in a row that died by their own fault, each less than TAKEOVER_HEALTHY_NS old, what they were given is set
 * aside: copied below the state directory, for somebody to look at. One that is merely killed does not count. */
#define TAKEOVER_MAX_FAULTS 3
#define TAKEOVER_HEALTHY_NS (30 * NSEC_PER_SEC)

/* Reads what was passed. Nothing that is wrong with it is an error of the daemon's. */
void takeover_begin(Takeover *t, Passed *passed, const char *state_directory);
/* Which slots of the control page run on, as far as that is known so far. */
void takeover_slots(Takeover *t);
/* Makes the sessions, rings and programs in a manager that has none. */
void takeover_apply(Takeover *t, Manager *m);
/* Programs that are gone, and snapshots that were due: once everything else is as it will be. */
void takeover_mourn(Takeover *t, Manager *m);
/* A piece is left out, as this says. */
void takeover_refuse(Takeover *t, const char *format, ...) _printf_(2, 3);
/* Frees, and closes and takes out of the store what nobody took. */
void takeover_end(Takeover *t, Manager *m);
