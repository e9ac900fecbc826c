/* SPDX-License-Identifier: MIT */
/* Where a session writes: a directory of chunks, one of which is being written. Ending a chunk is quick; waiting for the disk,
 * giving it its name and removing what is too old happens on threads of their own, so that rings are emptied meanwhile.
 * Everything here is called by one thread, the consumer's. */
#pragma once

#include "daemon/chunk.h"

/* How many chunks may wait for their disk at one time; then a rotation waits too. */
#define OUTPUT_MAX_CLOSING 4

typedef struct Output Output;

/* A chunk that is on disk, or (error < 0) is not, from output_reap(). token: of output_rotate(). */
typedef void (*OutputClosed)(void *userdata, const char *path, u64 n_records, int error, void *token);

/* Makes nothing yet. config is borrowed and may be changed by output_configure(). 0 or -ENOMEM. */
int output_new(Output **ret, const char *path, const SessionConfig *config, const struct record_clock *clock,
	       const u8 clock_uuid[16], OutputClosed closed, void *userdata);
/* Waits for what is closing (and reaps it); the chunk must be gone. NULL is fine. */
Output *output_free(Output *o);
/* Another path, strategy, retention: the present chunk must have been ended. 0 or -ENOMEM. */
int output_configure(Output *o, const char *path, const SessionConfig *config);

/* Makes and opens the directory, if that is not done; what a daemon that died left unfinished there is put right on a thread. -EWOULDBLOCK: another session writes there. */
int output_open(Output *o);
/* Before a session moves there: makes the directory, and says whether files can be made in it. 0 or -errno. Any thread. */
int output_try(const char *path);
/* As chunk_append(). */
int output_append(Output *o, Feed *f, u32 stream, const StreamPacket *p);
/* Whether the disk takes anything: writes a little to it, of nobody's, and waits for it. */
int output_probe(Output *o);
/* What was appended is on its way. */
void output_push(Output *o);
/* Until no write is on its way. */
void output_settle(Output *o);
int output_flush(Output *o);
/* Removed, or covered by another file system. */
bool output_lost(const Output *o);
/* Whether keep_free of the configuration holds; looks once in a while, and removes old chunks where it does not. */
bool output_has_room(Output *o);
/* Has old chunks removed that have come of age; looks once in a while. For sessions that seldom end one. */
void output_limit_age(Output *o, u64 now_monotonic);
/* A file is as large, or the chunk as old, as it may be. */
bool output_due(const Output *o, u64 now_monotonic);
/* CLOCK_MONOTONIC of when it will be that old; UINT64_MAX: never. */
u64 output_due_at(const Output *o);

/* Ends the present chunk and sends it on its way to the disk; the next packet begins another. 0; -ENODATA: there is none; -EBUSY:
 * too many are on their way; else it may be tried again, and until then nothing may be appended. */
int output_rotate(Output *o, Feed *feeds, void *token);
/* Ends what the present chunk has of one feed. */
int output_leave(Output *o, Feed *f);
/* Gives the present chunk up, and the directory: both are opened anew. */
void output_abandon(Output *o, Feed *feeds, u64 *ret_lost);
/* Tells of what was closed. wait: of all that is on its way. */
void output_reap(Output *o, bool wait);
/* Something is. */
bool output_waits(const Output *o);

const char *output_path(const Output *o);
const char *output_strategy(const Output *o);
