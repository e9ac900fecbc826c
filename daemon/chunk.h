/* SPDX-License-Identifier: MIT */
/* One self-contained piece of what a session writes: a directory with a trace for each owner, "NAME.active" while it is written,
 * and NAME once every byte of it is on disk. It begins with the first packet; where one ends and the next begins, every record is
 * in exactly one of them. */
#pragma once

#include "daemon/failure.h"
#include "daemon/feed.h"

#define CHUNK_SUFFIX ".active"
/* In place of a number of records: nobody knows. */
#define CHUNK_UNCOUNTED UINT64_MAX

typedef struct Chunk Chunk;

/* What all chunks of a run are told. Borrowed. */
typedef struct {
	const SessionConfig *config; /* name, policy, buffers, io */
	struct record_clock clock;
	u8 clock_uuid[16];
	SinkSet *sinks;
	const char *trigger; /* "continuous" */
} ChunkInfo;

/* The name of one that is being written, or was when its daemon died; whatever else lies there is somebody else's. */
bool chunk_is_active(const char *name);
/* Makes the directory below output_fd, named after the time of day (and later than *last_usec, which it moves on). */
int chunk_new(Chunk **ret, int output_fd, const ChunkInfo *info, u64 *last_usec);
/* Another configuration of the same session, borrowed as the one before. */
void chunk_configure(Chunk *c, const SessionConfig *config);
/* Appends a packet of a feed's stream; 0, CHUNK_FULL, or -errno: with nothing taken. */
#define CHUNK_FULL 1 /* its file has come to a limit; another chunk's would take it */
int chunk_append(Chunk *c, Feed *f, u32 stream, const StreamPacket *p);
void chunk_push(Chunk *c);
int chunk_flush(Chunk *c);
/* It is where it was made: nobody removed it, or put another file system over it. True if that cannot be seen now. */
bool chunk_present(const Chunk *c, const char *output);
/* Says what was lost since the last packets, and ends all files. On failure it may be tried again. The feeds forget it. */
int chunk_end(Chunk *c, Feed *feeds);
/* The same for one feed, whose owner is gone for good: its files are let go early. */
int chunk_leave(Chunk *c, Feed *f);
/* After chunk_end(), on any thread: waits for the disk, and gives it its name. -ENODATA: there was nothing in it, so it is removed. */
int chunk_close(Chunk *c);
/* The feeds forget it; files keep what they have, under the name of a finished one where that can be; one without anything in it is
 * removed. *ret_lost: records that
 * were taken and are in no file. */
void chunk_abandon(Chunk *c, Feed *feeds, u64 *ret_lost);
/* Frees one that was closed or abandoned. NULL is fine. */
Chunk *chunk_free(Chunk *c);

const char *chunk_name(const Chunk *c);	      /* finished */
const char *chunk_active_name(const Chunk *c); /* while it is written */
u64 chunk_bytes(const Chunk *c);
u64 chunk_largest(const Chunk *c); /* bytes of its largest file */
u64 chunk_records(const Chunk *c);
u64 chunk_begun(const Chunk *c); /* CLOCK_MONOTONIC */
