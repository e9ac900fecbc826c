/* SPDX-License-Identifier: MIT */
#include "subject-events.h"

/* The same name with other fields: the linker keeps one of the two descriptors, and what goes
 * through the other must not be recorded under its fields. */
TRACER_EVENT(subject, conflict, TRACER_INFO, TRACER_STR(text))

void other_conflict(void);

void other_emit(uint64_t number)
{
	trace_subject_number(number);
}

void other_conflict(void)
{
	trace_subject_conflict("text");
}
