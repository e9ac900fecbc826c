/* SPDX-License-Identifier: MIT */
/* A manager in this process with directories of its own, and instrumented programs as its children. Nothing sleeps: the loop
 * turns until what is waited for has happened, or the test fails. */
#pragma once

#include "daemon/manager-private.h"

#include <glib.h>

typedef struct House House;

typedef struct {
	House *house;
	pid_t pid;
	int in;		  /* its stdin */
	int out;
	char line[512];	  /* its last answer */
	size_t n;
	bool answered, closed;
	sd_event_source *source;
} Program;

struct House {
	char *directory, *runtime, *state, *config;
	sd_event *event;
	Manager *manager;
	/* what the observer saw */
	u32 n_traces, n_troubles, n_snapshots, n_crashes, n_producer_changes;
	char *snapshot_path, *snapshot_reason, *trouble;
	/* of house_snapshot() */
	bool done;
	char *done_path;
	Failure done_failure;
};

void house_up(House *h, gconstpointer config_text);
void house_down(House *h, gconstpointer unused);
/* Ends and begins the manager; directories stay. */
void house_close(House *h);
void house_open(House *h);
void house_configure(House *h, const char *text);

/* Turns the loop until condition(userdata); fails the test after twenty seconds. */
void house_until(House *h, bool (*condition)(void *userdata), void *userdata);
void house_turn(House *h, u64 usec);
/* A snapshot on request; its path (owned by the house), or NULL with h->done_failure. */
const char *house_snapshot(House *h, const char *session);
void house_await_snapshots(House *h, u32 n);
SessionInfo house_info(House *h, const char *session);

/* uid: 0 as it is. */
void program_start(House *h, Program *p, uid_t uid);
/* Another one than the subject, that says a line when it is ready, and takes lines likewise. */
void program_start_other(House *h, Program *p, const char *path, const char *argument);
/* The same with several arguments, parted by blanks. */
void program_start_words(House *h, Program *p, const char *path, const char *words);
/* Turns the loop until it says a line; NULL: it has closed its output. */
const char *program_line(Program *p);
/* Sends a line and turns the loop until the answer is there. */
const char *program_ask(Program *p, const char *format, ...) G_GNUC_PRINTF(2, 3);
void program_tell(Program *p, const char *line);
/* Sends SIGKILL if it lives, and reaps it. */
int program_end(Program *p);

/* What babeltrace2 prints of a snapshot; fails the test if it complains. */
char *trace_text(const char *path);
/* In the trace: how many lines hold the text. */
u32 trace_count(const char *path, const char *text);
