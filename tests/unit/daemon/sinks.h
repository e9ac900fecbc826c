/* SPDX-License-Identifier: MIT */
/* Sinks under test: packets of chance, what must be in the file, small file systems, and a layer between the sinks and the
 * kernel that makes calls fail (linked with sinks_wrap of meson.build). */
#pragma once

#include "daemon/sink/sink.h"

#include <glib.h> /* behind base.h: both define MIN */

/* ---- strategies ---- */

typedef struct {
	const char *name;
	Io io;
	bool no_queue; /* as if there were no io_uring */
	bool no_room;  /* as if the file system could not allocate ahead */
} SinksCase;

extern const SinksCase sinks_cases[];
extern const size_t sinks_n_cases;

/* ---- calls that fail ---- */

typedef enum { CALL_WRITE, CALL_SPLICE, CALL_ALLOCATE, CALL_CUT, CALL_WAIT, CALL_QUEUE, CALL_REAP, N_CALLS } SinksCall;

typedef struct {
	/* chances in 256 of each call */
	int error[N_CALLS];  /* that it fails */
	int interrupted[N_CALLS];
	int shorter[N_CALLS];
	int errnos[4];	     /* what it fails with; 0: end */
	int only_fd;	     /* -1: any */
	bool refuse_queue, refuse_room;
	bool hold;	     /* nobody hears of a request that is done before he waits for it */
	u32 n_requests;	     /* out: of the queue */
	u64 n_hit[N_CALLS];  /* out: faults that were made */
} SinksFaults;

extern SinksFaults sinks_faults;
void sinks_faults_off(void);

/* ---- a file under test ---- */

typedef struct {
	Sink *sink;
	SinkSet *set; /* borrowed */
	char *path;
	GByteArray *bytes; /* taken, in order */
	GArray *ends;	   /* u64: where packets end */
	u64 n_records;	   /* taken */
	u64 marked;	   /* packets that sink_mark() has said are in the file */
} SinksFile;

void sinks_open(SinksFile *f, SinkSet *set, const char *directory, const char *name);
/* Offers a packet of chance with `size` bytes in it: what sink_append() said. Spoils the memory it came from. */
int sinks_offer(SinksFile *f, u64 size);
/* 0 to `most`, as many small as large ones. */
u64 sinks_size_by_chance(u64 most);
/* What sink_mark() says is in the file is there: returns how many packets. */
u64 sinks_check_mark(SinksFile *f);
/* The file is a prefix of what was taken and ends with a packet; that of mmap may be longer. */
void sinks_check_whole(SinksFile *f);
/* Flushes and checks. */
void sinks_flush(SinksFile *f);
/* Finishes, checks all, and frees. */
void sinks_finish(SinksFile *f);
/* Abandons and checks what it counts; frees. */
void sinks_abandon(SinksFile *f);
u64 sinks_file_size(const SinksFile *f);
/* Of the sink: for faults of this file alone. */
int sinks_descriptor(const SinksFile *f);

/* ---- places ---- */

/* A directory on a disk; NULL, and the test is skipped: there is none. */
char *sinks_disk(void);
/* A file system of its own with `size` bytes: "tmpfs" or "ext4". NULL, and the test is skipped: it cannot be had. */
char *sinks_mount(const char *type, u64 size);
void sinks_unmount(char *directory);

u32 sinks_n_descriptors(void);
