/* SPDX-License-Identifier: MIT */
/* Where memory goes that has killed daemons: out of the way, and on disk for somebody to look at. */
#pragma once

#include "systemd/fdstore.h"

/* Copies the account and what is left in `passed` to STATE/quarantine/TIME-faults/NAME, if there is room, and says so. What was copied
 * is still in `passed`. The newest three stay, or fewer, so that a twentieth of the disk is free. */
void quarantine_take(const Passed *passed, int ledger_fd, const char *state_directory, u32 faults);
