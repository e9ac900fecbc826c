/* SPDX-License-Identifier: MIT */
/* What tests of sessions that write have in common: one session, "log", and what it must have written. */
#pragma once

#include "tests/integration/daemon/house.h"

#define CONFIG(settings)                                                                           \
	"sessions: { log: { autostart = true; events = [ \"shop:*\" ]; output_keep_free = \"0\"; "    \
	settings " }; };"

/* Of a stop, or of a rotation. */
typedef struct {
	bool done;
	char *path;
	Failure failure;
} Answer;

/* Until it has written all. */
Answer stop(House *h);
void stop_well(House *h);
/* The path (the answer's), or NULL. */
const char *rotate(House *h, Answer *a);
void start(House *h);
/* Another value of one of its keys. */
void set_key(House *h, const char *key, const char *value);

/* All numbers of `event` in what lies below path, in the order of time. */
GArray *numbers(const char *path, const char *event);
/* 0 to n - 1, each once, in order. */
void check_all(const char *path, u64 n);
/* Each at most once, in order; those that are missing are `lost`. */
void check_counted(const char *path, u64 n, u64 lost);
/* What every counter says is one sum, with nothing left in the rings. */
SessionInfo check_sums(House *h, u64 n);
u32 count_entries(const char *path);
/* To be freed. */
char *output_of(House *h);

/* For house_until(): records, traces, troubles. */
typedef struct {
	House *h;
	u64 n;
} Traces;
bool enough_written(void *traces);
bool enough_traces(void *traces);
bool enough_troubles(void *traces);
/* Of a House. */
bool in_trouble(void *house);
bool out_of_trouble(void *house);
