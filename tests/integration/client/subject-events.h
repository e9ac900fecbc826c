/* SPDX-License-Identifier: MIT */
/* Declared in a header, included by two translation units of one program. */
#pragma once

#include "lib/tracer.h"

TRACER_EVENT(subject, number, TRACER_INFO, TRACER_U64(number))
TRACER_EVENT(subject, tick, TRACER_DEBUG)

void other_emit(uint64_t number);
