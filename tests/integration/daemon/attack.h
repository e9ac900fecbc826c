/* SPDX-License-Identifier: MIT */
/* A hostile program (hostile.c, crowd.c) at work, of another user if there can be one. */
#pragma once

#include "tests/integration/daemon/house.h"

#define NOBODY 65534

typedef struct {
	pid_t pid;
	int status;
	bool ended;
	int out;
} Attack;

void attack_begin(Attack *a, const char *mode);
bool attack_over(void *userdata);
/* Turns the loop until it is over; fails the test unless it ended with 0. */
void attack_finish(House *h, Attack *a);
