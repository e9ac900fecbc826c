/* SPDX-License-Identifier: MIT */
/* Events may be declared in a header that many files include; the program has each once. */
#pragma once

#include <tracer/tracer.h>

TRACER_EVENT(shop, order_placed, TRACER_INFO,
	     TRACER_U64(order_id), TRACER_U32(items), TRACER_STR(customer))
TRACER_EVENT(shop, order_packed, TRACER_INFO,
	     TRACER_U64(order_id), TRACER_F64(kilograms), TRACER_BOOL(fragile))
/* numbers in number that varies: a pointer and how many */
TRACER_EVENT(shop, basket, TRACER_DEBUG, TRACER_U64(order_id), TRACER_U32_SEQ(articles))
TRACER_EVENT(shop, request, TRACER_DEBUG_PROGRAM, TRACER_BYTES(body))
TRACER_EVENT(shop, slow, TRACER_WARNING, TRACER_U64(order_id), TRACER_U32(milliseconds))
