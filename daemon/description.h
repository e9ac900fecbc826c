/* SPDX-License-Identifier: MIT */
/* What is said of a program to who reads a trace: a week later there is no /proc to ask. Plain bytes, so that a snapshot takes a
 * copy along. */
#pragma once

#include <stdio.h>
#include <sys/types.h>

#include "daemon/trace/environment.h"
#include "lib/wire.h"

typedef struct {
	u32 n_refs; /* of the loop's; a copy has none */

	/* by the kernel's word */
	pid_t pid;
	uid_t uid;
	u64 start_ticks; /* of /proc/PID/stat: clock ticks since boot */
	u64 started;	 /* the same by the time of day, ns since 1970; 0: unknown */
	char command[64], unit[256];
	u64 ended;     /* ns since 1970; 0: it lived when this was written */
	char how[64];  /* "killed by signal 11 (SIGSEGV)"; "" */

	/* by its own */
	u32 vpid;
	char exe[WIRE_MAX_EXE + 1];
	char build_id[2 * WIRE_MAX_BUILD_ID + 1];

	char user[64]; /* the uid's name, or ""; description_resolve() */
} Description;

/* Several, each once, in the order of their use: who ended last, who lives and began last, then all others. */
typedef struct {
	Description *v; /* owned */
	size_t n;
	size_t n_all;	/* the same with those that were not copied */
	u64 n_left_out; /* that are known to have been there, and nothing more */
	u64 left_until; /* when the last of those ended */
} Descriptions;

/* Each takes some hundred bytes of metadata that every reader parses, and shows for every trace. */
#define DESCRIPTIONS_SAID 16

void descriptions_clear(Descriptions *d);
/* Looks the users' names up, which may ask a server: not in the loop. */
void descriptions_resolve(Descriptions *d);
/* producer_1_pid and so on, of the first few that did not end before `since` (ns since 1970); `producers` says how many there were. */
void descriptions_say(const Descriptions *d, u64 since, Environment *e);
/* Objects of a JSON array, `separator` in front of the first; at most so many, and while the whole is no longer than `limit`
 * bytes (0: any). Those that do not fit are added to *left_out. What separates the next, or NULL: out of memory. */
const char *descriptions_write(const Descriptions *d, const char *owner, const char *separator, size_t limit,
			       FILE *out, u64 *left_out);
/* A JSON string: valid UTF-8 whatever s holds. */
void description_string(FILE *out, const char *s);
