/* SPDX-License-Identifier: MIT */
/* Who may change something: root and the daemon's own user always; others as polkit says; where there is no
 * polkit, members of the group `tracing`. Nothing here waits: a question that takes time (the bus is asked who
 * the caller is, polkit asks the user for a password) is sent, the method returns, and when the answer is there the
 * method's message is put back into the queue and dispatched again, so that the method looks up everything anew:
 * what it is about may be gone meanwhile. */
#pragma once

#include <systemd/sd-bus.h>
#include <systemd/sd-event.h>

#include "lib/base.h"

#define POLKIT_GROUP "tracing"

/* Questions that may be open at a time; more are refused with LimitsExceeded, so that nobody can fill the daemon
 * with messages, nor one user keep the others out. */
#define POLKIT_PENDING_MAX	    256
#define POLKIT_PENDING_MAX_PER_PEER 16
#define POLKIT_PENDING_MAX_PER_USER 32 /* of those that polkit thinks about */

typedef struct Authority Authority;

/* `ask` false: there is no polkit on this bus (--user). The Authority belongs to one connection. */
int authority_new(Authority **ret, sd_event *event, bool ask);
/* Drops all open questions; the messages they are about get no answer (their connection ends too). */
Authority *authority_free(Authority *a);
DEFINE_CLEANUP(Authority *, authority_free)

/* May the sender of m do `action`, with `session` (may be NULL) told to polkit as a detail? 1: yes. 0: not known yet; the
 * handler returns 1 and touches nothing. Negative: no, *error says why and what to do. A verdict serves once, and only
 * for the same message, action and detail. */
int authority_check(Authority *a, sd_bus_message *m, const char *action, const char *session, sd_bus_error *error);

/* Open questions, for tests. */
unsigned authority_n_pending(const Authority *a);
