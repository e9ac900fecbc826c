/* SPDX-License-Identifier: MIT */
/* Why we were told to end. */
#pragma once

#include "lib/base.h"

/* True if systemd is about to start us again (its job for our unit is a restart), so that what we leave in its store is there for
 * the next one. Asks over the bus and waits a second for the answer at most; false where nobody can tell: then everything is ended in
 * order, which loses no record that is to be written. */
bool stopping_is_restart(bool user);
