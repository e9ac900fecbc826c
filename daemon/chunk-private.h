/* SPDX-License-Identifier: MIT */
/* What the files of a chunk share: its directory (chunk.c), and what each owner has in it (chunk-part.c). */
#pragma once

#include "daemon/chunk.h"

/* One owner's part. Only the trace is needed once the chunk is ended. */
typedef struct ChunkPart ChunkPart;
struct ChunkPart {
	ChunkPart *next;
	char *name; /* owned */
	LiveTrace *trace;
	char *metadata; /* owned: the last word, once it is ended */
	size_t metadata_size;
};

struct Chunk {
	ChunkInfo info;
	int output_fd; /* owned: another look at the same directory */
	int fd;	       /* owned */
	char *name, *active;
	u64 realtime_offset_ns;
	u64 begun;	/* CLOCK_MONOTONIC */
	u64 begin_time; /* the trace's clock */
	ChunkPart *parts;
	u64 n_records;
};

/* chunk-part.c: the feed has nothing in a chunk any more. */
void chunk_forget(Feed *f);
