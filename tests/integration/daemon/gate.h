/* SPDX-License-Identifier: MIT */
/* Stops the daemon's snapshot threads at places that nobody can reach by waiting: this program is linked with
 * --wrap=capture_take and --wrap=trace_finish, so they come by here. */
#pragma once

#include "tests/integration/daemon/house.h"

typedef enum {
	GATE_BEFORE_COPY, /* everything that the copier was handed is gathered, nothing is cut */
	GATE_AFTER_COPY,  /* cut and copied, and the loop does not know yet */
	GATE_WRITING,	  /* streams are on disk, metadata is not */
	GATES
} Gate;

void gates_open(House *h);
void gates_close(void);
/* The next thread that comes by stops there. */
void gate_shut(Gate g);
/* Turns the loop until one stands there. */
void gate_await(House *h, Gate g);
void gate_go(Gate g);
