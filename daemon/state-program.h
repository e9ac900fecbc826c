/* SPDX-License-Identifier: MIT */
/* What of a program outlives the daemon (state.h): who it is, whose rings it has, and, where there is room, its pidfd. */
#pragma once

#include "daemon/state.h"

/* Descriptors of programs leave this much of the store to rings. */
#define STATE_MAX_PROGRAMS (FDSTORE_MAX / 4)

/* Of its pidfd in the store. */
void state_program_name(char ret[40], u32 number);
void state_program(State *s, Producer *p);
void state_program_gone(State *s, Producer *p);
