/* SPDX-License-Identifier: MIT */
/* One owner's rings as a consumer reads them: a stream for each, what their ids mean, and the trace that they go to now. It
 * lives as long as the owner's rings, so that a session that is stopped and started again goes on where it was. While a
 * consumer has it, everything in it is that thread's, but for what is marked. */
#pragma once

#include <pthread.h>

#include "daemon/bookmark.h"
#include "daemon/cpus.h"
#include "daemon/description.h"
#include "daemon/stream.h"
#include "daemon/trace/live.h"

typedef struct {
	Stream stream;
	u64 said;	       /* `discarded` of the last packet, whatever trace it went to */
	LiveStream *live;      /* in the present trace; NULL: nothing of it yet */
	BookmarkPage *page;    /* of what outlives the daemon; NULL: nothing does */
	u64 base;	       /* `said` when `live` began: packets of a trace count from 0 */
	u64 n_records;	       /* in `live` */
	StreamCounters before; /* the stream's when the present trace began */
	u64 given;	       /* as feed_give() found it last */
	u64 skipped;	       /* stream_before() when it began: does not change */
} FeedStream;

typedef struct {
	TraceClass *v; /* owned; classes are borrowed: the owner is pinned as long as it has a feed */
	size_t n;
} FeedClasses;

typedef struct Feed Feed;
struct Feed {
	Feed *next; /* of its consumer */
	char *label; /* owned */
	const Cpus *cpus;
	struct geometry geometry;
	FeedStream *streams;
	u32 n_streams;
	u64 chunk;	  /* bookmark_chunk() of its trace */
	BookmarkPage *pages; /* owned: n_streams of them, mapped; NULL: none */
	FeedClasses classes;
	ClassTable *table;
	LiveTrace *trace; /* in the present chunk, which owns it; NULL: nothing of it yet */
	size_t n_told;	  /* classes that its metadata knows */
	u64 first;	  /* time of the oldest record in it; UINT64_MAX: none */
	bool retiring;	  /* nobody records into it any more: goes when it is empty */
	u32 n_lingers;	  /* how often it was looked at since, and was not */

	/* guards what both sides touch: newer classes, made by the loop, and sums, by the thread */
	pthread_mutex_t *lock; /* owned */
	FeedClasses newer; /* v is NULL: none */
	Descriptions programs; /* owned */
	StreamCounters sums;
	double fill;
};

/* 0 or -ENOMEM. map, fd: the region's, borrowed. */
int feed_new(Feed **ret, const char *label, u8 *map, int fd, const struct geometry *g,
	     const struct record_clock *clock, const Cpus *cpus);
Feed *feed_free(Feed *f);
/* Streams begin, or go on, where they are now: before a consumer has the feed. */
void feed_look_back(Feed *f);
/* Takes the pages (as many as there are rings): from now on what is written is marked there. Before a consumer has the feed. */
void feed_mark(Feed *f, BookmarkPage *pages);
DEFINE_CLEANUP(Feed *, feed_free)

/* ---- the loop's side, at any time ---- */
/* What ids mean from now on: takes the array. Before any program is told one of them, so that whoever meets an id in a ring
 * finds it here. */
void feed_set_classes(Feed *f, TraceClass *v, size_t n);
/* Whose records they are from now on: takes what it holds. */
void feed_set_programs(Feed *f, Descriptions *programs);
void feed_sums(const Feed *f, StreamCounters *ret, double *ret_fill);

/* ---- the thread's ---- */
/* Takes newer classes, if there are any: 1, 0 if not, -ENOMEM. */
int feed_refresh(Feed *f);
/* stream_take() that looks for newer classes where it meets an id that it does not know. */
int feed_take(Feed *f, u32 i, bool partial, StreamPacket *ret);
/* What is said of the programs that have not ended before `since`. */
void feed_say_programs(const Feed *f, u64 since, Environment *e);
/* True if any stream has something. */
bool feed_ready(const Feed *f, bool partial);
/* Gives memory back to writers as far as its records are in files. True: more than when it was last asked. */
bool feed_give(Feed *f);
/* Lets feed_sums() see where the streams are. */
void feed_publish(Feed *f);
/* "cpu_3", "side_0"; and the number that readers show. */
void feed_stream_name(const Feed *f, u32 i, char ret[40], u32 *ret_cpu);
/* more += of all fields. */
void stream_counters_add(StreamCounters *sum, const StreamCounters *more);
