/* SPDX-License-Identifier: MIT */
/* Side rings whose holder will never come back although its process lives: an exec ended the other threads of the old
 * image, and the new one does not use the library. Everybody else counts `busy` until the lock is broken. */
#pragma once

#include "daemon/roster.h"

/* Looks at an owner's side rings, from a timer. A lock that the same thread has held since the last look is broken if its
 * producer is not known any more, or no longer has that thread. *budget: how many tasks of processes in other pid
 * namespaces may be looked at; it is counted down, and what could not be looked at stays as it is. */
void locks_check(Owner *o, const Roster *roster, u32 *budget);

/* The thread's number in its own pid namespace, from the text of /proc/PID/task/TID/status; 0 if it says none. */
u32 locks_tid_of_status(const char *status);
