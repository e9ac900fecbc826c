/* SPDX-License-Identifier: MIT */
/* Starts and ends tracerd as systemd does, and keeps its descriptors meanwhile; and programs that are not bound to any daemon's
 * life. Nothing sleeps. */
#pragma once

#include "lib/base.h"

#include <glib.h>
#include <stdio.h>

typedef struct {
	pid_t pid;
	FILE *to, *from;
} KeptProgram;

typedef struct {
	char *directory, *runtime, *state, *config;
	int notify; /* where the daemon talks to its manager */
	pid_t daemon;
	GPtrArray *names; /* of what is kept */
	GArray *fds;
} Keeper;

void keeper_up(Keeper *k, const char *config_text);
void keeper_down(Keeper *k);
void keeper_configure(Keeper *k, const char *config_text);
/* Until READY=1. */
void keeper_start(Keeper *k);
/* Without waiting for anything. */
void keeper_spawn(Keeper *k);
/* Takes in what was said; until a message with this text (NULL: only what is there). */
void keeper_hear(Keeper *k, const char *text);
/* Kills it with this signal and reaps it: its status. */
int keeper_end(Keeper *k, int signal);
/* What is kept under this name; -1. Borrowed. */
int keeper_fd(const Keeper *k, const char *name);
u32 keeper_n(const Keeper *k);
void keeper_forget(Keeper *k);

void kept_program_start(KeptProgram *p, const Keeper *k);
/* Another one than the subject, that says a line when it is ready. */
void kept_program_start_other(KeptProgram *p, const Keeper *k, const char *path, const char *argument);
/* Does this last, and exits: what it had recorded then. */
u64 kept_program_exit(KeptProgram *p, const char *line);
/* Sends a line and returns the answer (until the next one). */
const char *kept_program_ask(KeptProgram *p, const char *format, ...) G_GNUC_PRINTF(2, 3);
/* The next answer, to what was told. */
const char *kept_program_hear(KeptProgram *p);
void kept_program_tell(KeptProgram *p, const char *line);
/* Kills it if it lives. */
void kept_program_end(KeptProgram *p);

/* Names in a directory that end so, once there are n: sorted, full paths; fails after a while. */
char **paths_await(const char *directory, const char *suffix, u32 n);
/* "PID NUMBER" of every record of these events; fails if one is there twice. */
GHashTable *trace_records(const char *path, const char *event);
/* Values of "number" of events of the provider, as babeltrace2 shows them; fails if it complains. */
GArray *trace_numbers(const char *path, const char *event);
