/* SPDX-License-Identifier: MIT */
/* What of sessions outlives the daemon (state.h): how they are configured, where they are, and what is due of them. */
#pragma once

#include "daemon/state.h"

typedef struct Job Job;

/* Its numbers and counters; its configuration. */
void state_session(const Session *s);
void state_session_config(const Session *s);
/* As state_session(), when an owner with this number is let go of: what that had counted is in this line, or in the owner's, whoever
 * dies when. */
void state_session_without(const Session *s, u64 gone);
/* Causes that were met lately, so that another sign of one that was answered is still known for one. */
void state_signs(const Session *s);
/* What the files said of a session when they were last read: a hash. */
void state_session_said(State *s, const char *name, u64 said);
void state_session_gone(State *s, const char *name);
/* An automatic snapshot that is due until it is on disk. */
void state_job(State *s, const Job *b);
void state_job_gone(State *s, const Job *b);
