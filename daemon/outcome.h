/* SPDX-License-Identifier: MIT */
/* What became of a snapshot that was asked for: said in the journal, counted by its session, and remembered for what is heard of its
 * cause later. In the loop, before anybody who waits for it is told. */
#pragma once

#include "daemon/job.h"
#include "daemon/reasons.h"

/* It is on disk; b holds what was gathered for it still. */
void outcome_written(Job *b, Reasons *past);
void outcome_failed(const Job *b);
