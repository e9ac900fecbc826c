/* SPDX-License-Identifier: MIT */
/* What a session wants: which programs (user, process name, unit) and which of their events. Pure
 * decisions; nothing here is shared or waits. */
#pragma once

#include <sys/types.h>

#include "conf/config.h"
#include "lib/abi.h"

typedef struct {
	const SessionConfig *config; /* borrowed, outlives the scope */
	uid_t *uids;		     /* owned: config->users, resolved */
	size_t n_uids;
} Scope;

/* Resolves the users. One that does not exist (yet) wants nobody and is told by *ret_unknown (borrowed from the
 * configuration; may be NULL). 0 or -ENOMEM. */
int scope_init(Scope *ret, const SessionConfig *config, const char **ret_unknown);
void scope_clear(Scope *s);

bool scope_wants_program(const Scope *s, uid_t uid, const char *command, const char *unit);
bool scope_wants_event(const Scope *s, const char *provider, const char *event, int level);
/* Of an event that it wants: its records go to the pinned rings. */
bool scope_pins_event(const Scope *s, const char *provider, const char *event);

#define SCOPE_WORDS (ABI_BUCKETS / 64)
/* The words of the control page where the session's bit belongs, a bit each. */
void scope_buckets(const Scope *s, u64 ret[SCOPE_WORDS]);
