/* SPDX-License-Identifier: MIT */
/* What the files of a session share: what it is (session.c), what it does (session-run.c), what is said of it (session-info.c). */
#pragma once

#include "daemon/session.h"

int session_plan(const SessionConfig *c, const Cpus *cpus, struct geometry *ret, Failure *f);
int session_scope(const SessionConfig *c, Scope *ret, Failure *f);
/* Lets go of all rings; the sums begin anew. */
void session_abandon_all(Session *s);
