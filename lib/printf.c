/* SPDX-License-Identifier: MIT */
/* tracer_printf(): text as an event, tracer:printf, a class for each level. They are registered
 * when they are first wanted: a program that never calls this has nothing to tell about them. */
#include <stdarg.h>
#include <stdio.h>

#include "lib/catalog.h"
#include "lib/control.h"

#define PRINTF_MAX 512

static const struct tracer_field fields[] = {
    {"message", TRACER_TYPE_STR, TRACER_SHAPE_ONE, 0},
    {NULL, 0, 0, 0},
};

#define LEVEL(l)                                                                                   \
	[l] = {                                                                                    \
	    .mask = &tracer_zero_,                                                                 \
	    .generation = &tracer_zero32_,                                                         \
	    .signature = TRACER_TYPE_STR,                                                          \
	    .level = (l),                                                                          \
	    .provider = "tracer",                                                                  \
	    .name = "printf",                                                                      \
	    .fields = fields,                                                                      \
	}
static struct tracer_event events[] = {
    LEVEL(TRACER_EMERG),          LEVEL(TRACER_ALERT),
    LEVEL(TRACER_CRIT),           LEVEL(TRACER_ERR),
    LEVEL(TRACER_WARNING),        LEVEL(TRACER_NOTICE),
    LEVEL(TRACER_INFO),           LEVEL(TRACER_DEBUG_SYSTEM),
    LEVEL(TRACER_DEBUG_PROGRAM),  LEVEL(TRACER_DEBUG_PROCESS),
    LEVEL(TRACER_DEBUG_MODULE),   LEVEL(TRACER_DEBUG_UNIT),
    LEVEL(TRACER_DEBUG_FUNCTION), LEVEL(TRACER_DEBUG_LINE),
    LEVEL(TRACER_DEBUG),
};

/* The event of a level if some session may want it. */
static struct tracer_event *wanted(int level, u64 *ret_bits)
{
	const u64 *mask = &control_page->mask[abi_bucket("tracer")];
	struct tracer_event *e;
	struct tracer_state *state;

	if (likely(!load_relaxed_u64(mask)))
		return NULL;
	e = &events[level < TRACER_EMERG   ? TRACER_EMERG
		    : level > TRACER_DEBUG ? TRACER_DEBUG
					   : level];
	if (unlikely(!__atomic_load_n(&e->state, __ATOMIC_ACQUIRE))) {
		int saved = errno, r = catalog_add(e, &state);

		errno = saved;
		if (r < 0) {
			(void)fetch_add_relaxed_u64(&process.missed, 1);
			return NULL;
		}
		/* Threads that race here store the same values; the state last, pairs with the
		 * acquire above. */
		__atomic_store_n(&e->generation, &control_page->head.generation, __ATOMIC_RELAXED);
		__atomic_store_n(&e->mask, mask, __ATOMIC_RELAXED);
		__atomic_store_n(&e->state, state, __ATOMIC_RELEASE);
	}
	*ret_bits = tracer_wanted_(e);
	return *ret_bits ? e : NULL;
}

bool tracer_printf_enabled(int level)
{
	u64 bits;

	return wanted(level, &bits) != NULL;
}

void tracer_printf(int level, const char *format, ...)
{
	struct {
		u64 headroom;
		char text[PRINTF_MAX + 8];
	} buffer;
	int saved = errno, n;
	struct tracer_event *e;
	va_list list;
	u64 bits;

	e = wanted(level, &bits);
	if (likely(!e))
		return;
	va_start(list, format);
	n = vsnprintf(buffer.text, PRINTF_MAX, format, list);
	va_end(list);
	errno = saved;
	if (n < 0)
		n = snprintf(buffer.text, PRINTF_MAX, "(cannot be formatted)");
	tracer_record_one_(e, bits, e->signature, buffer.text, (u32)MIN(n, PRINTF_MAX - 1) + 1);
}

const char *tracer_version(void)
{
	return PROJECT_VERSION;
}
