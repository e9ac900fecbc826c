/* SPDX-License-Identifier: MIT */
/* A method call that is answered later: when something is on disk. Its message is kept, and everybody else is served
 * meanwhile. Whoever gave the work to the manager has exactly one of these per answer that it will get. */
#pragma once

#include "dbus/bus-internal.h"

/* Callers that may wait at a time. */
#define PENDING_CALLS_MAX 64

/* `session` (may be NULL) is told about before the answer, so that whoever has it has also heard what changed.
 * LimitsExceeded, or -ENOMEM. */
int pending_call_new(PendingCall **ret, Bus *b, sd_bus_message *m, const char *session, sd_bus_error *error);
/* Without an answer: what the handler returns is one. NULL is fine. */
PendingCall *pending_call_free(PendingCall *c);
DEFINE_CLEANUP(PendingCall *, pending_call_free)

/* What is to be answered; NULL if nobody waits for it any more: the caller left, the bus went or the service ended. */
sd_bus_message *pending_call_message(const PendingCall *c);

/* Each answers (or does nothing where nobody waits), and frees the call. As a method handler returns. */
int pending_call_reply(PendingCall *c, const char *types, ...);
int pending_call_send(PendingCall *c, sd_bus_message *reply);
int pending_call_fail(PendingCall *c, const Failure *failure, int r);

/* The connection is gone, and all callers with it. */
void pending_calls_forget(Bus *b);
/* The service ends: everyone who waits gets an error. */
void pending_calls_abandon(Bus *b);
