/* SPDX-License-Identifier: MIT */
/* Signals of the kind that a program brings upon itself: noted in a ledger as they end us, so that the next daemon tells a fault from
 * having been killed. */
#pragma once

#include "daemon/ledger.h"

/* From now on, in this one; those that somebody has a handler for are left to it. */
void faults_watch(Ledger *l);
/* Before this one goes. */
void faults_unwatch(const Ledger *l);
