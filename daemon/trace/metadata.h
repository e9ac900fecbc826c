/* SPDX-License-Identifier: MIT */
/* The TSDL text of a trace: what its bytes mean, where its times come from, and what a person
 * should know about it (env). Every string may be hostile: names are made identifiers, values are
 * escaped. */
#pragma once

#include <stdio.h>

#include "daemon/trace/trace.h"

typedef struct {
	const u8 *uuid; /* of the trace */
	const TraceClock *clock;
	u32 contexts; /* ABI_CONTEXT_* */
	const TraceEnvironment *environment;
	size_t n_environment;
	const TraceClass *classes;
	size_t n_classes;
} Metadata;

/* *ret is a fresh string of *ret_size bytes (and a NUL). 0 or -ENOMEM. */
int metadata_write(char **ret, size_t *ret_size, const Metadata *m);

/* A quoted string, escaped; a quoted uuid. */
void metadata_put_string(FILE *f, const char *s);
/* Bytes of the well-formed character at p, which a NUL ends; 0: it is none. */
size_t metadata_utf8_length(const u8 *p);
void metadata_put_uuid(FILE *f, const u8 u[16]);
