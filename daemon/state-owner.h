/* SPDX-License-Identifier: MIT */
/* What of an owner's rings outlives the daemon (state.h): their memory, how far it was written to files, and what the ids in it
 * mean. */
#pragma once

#include "daemon/state.h"

/* Of its rings' memory in the store. */
void state_ring_name(char ret[40], u64 number);
/* Before any program is given its rings: gives it a number and its memfd to the store. FAILURE_LIMIT, with numbers: there is no room
 * in it. */
int state_owner_add(State *s, Owner *o, Failure *f);
void state_owner(const Owner *o);
/* With what its session counts without it, in one line. */
void state_owner_gone(const Owner *o);
/* One of its programs has ended: it is still said in snapshots. */
void state_dead(const Owner *o, const Description *d);
/* Before a consumer has its feed: what is written of it is marked from now on. Without memory for that it is not. */
void state_marks_reserve(Owner *o);
/* As an earlier daemon reserved them, with `first`. False: they cannot be. */
bool state_marks_claim(Owner *o, u32 first);
/* Nobody writes to them any more. */
void state_marks_release(Owner *o);
/* Ids that were not said yet; before a program is told them. */
void state_ids(Owner *o);
