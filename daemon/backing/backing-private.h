/* SPDX-License-Identifier: MIT */
/* The thread has everything below `dir` and the images; the loop has owners and their ids. Between them lie, under the lock, the
 * list of owners and what is said. An owner that goes is marked by the loop; the thread takes its files away, puts it on the list
 * of those it let go, and wakes the loop, which alone counts references. A thread that hangs in its disk keeps what it has.
 * The loop's side is backing.c, the thread's backing-thread.c. */
#pragma once

#include <pthread.h>
#include <time.h>

#include "daemon/backing/backed.h"
#include "daemon/backing/backing.h"
#include "daemon/backing/run.h"

/* Daemons in a row that may die before one has a pass on disk; what more of them left is recovered as if the machine had died. */
#define RUNS_BEFORE 8

struct Backing {
	Backing *next;
	Backings *set;
	Session *session; /* NULL: gone */
	char *name, *buffers, *path;
	struct record_clock clock;
	u8 clock_uuid[16];
	u32 n_owners; /* that were ever added: a number for each one's files */
	sd_event_source *source;
	char said[512]; /* the trouble that the journal has */
	int event_fd;	/* the thread adds 1: look at what it has said */
	bool has_thread;
	pthread_t thread;

	pthread_mutex_t lock;
	pthread_cond_t wake, ended_wake;
	/* guarded by the lock */
	Backed *owners, *released;
	u64 interval_ns;
	bool hurry; /* look at once */
	bool quit, drop; /* end; and take everything away */
	bool ended;
	bool locked; /* what went before is: others may look at what else there is */
	BackingInfo info;   /* but for its trouble */
	char trouble[512];

	/* the thread's, but for its birth */
	bool goes_on;
	Run before[RUNS_BEFORE]; /* of daemons whose rings these are */
	u32 n_before;
	Run run;
	u64 until; /* trace clock: all owners are durable up to then */
	ImageCounters counters;
};

/* backing-thread.c */
void *backing_thread(void *backing);
/* For both sides' waits: so long from now, by the clock of `wake` and `ended_wake`. */
struct timespec backing_deadline(u64 ns);
