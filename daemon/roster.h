/* SPDX-License-Identifier: MIT */
/* The programs the daemon knows, found by pid and by number. */
#pragma once

#include "daemon/producer.h"

typedef struct {
	Producer **by_pid; /* hash of pid; chains through Producer.next */
	u32 n_buckets, n;
	u32 last_number;
} Roster;

int roster_init(Roster *r);
/* Frees the table; producers must be gone. */
void roster_clear(Roster *r);

/* The newest program under this pid, or NULL. */
Producer *roster_find(const Roster *r, pid_t pid);
/* A number that no program here has; never 0. */
u32 roster_number(Roster *r);
void roster_add(Roster *r, Producer *p);
void roster_remove(Roster *r, Producer *p);
/* In no order: first (NULL) and next. */
Producer *roster_next(const Roster *r, const Producer *p);
