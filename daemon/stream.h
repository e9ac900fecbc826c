/* SPDX-License-Identifier: MIT */
/* The consuming end of one ring: takes what writers have published, sub-buffer by sub-buffer, judges it, and gives it out as
 * packets, each once. One thread; touches no other daemon state. Every byte of the ring may be a lie and may change while it
 * is looked at (lib/reader.h): a lie costs the sub-buffer it is in, counted, never the ring.
 *
 * What was released is given back to writers separately, when it is in a file: so that a daemon that is killed has lost nothing that
 * is not in one or the other.
 *
 * Under `discard` and `block` writers stay out of what was not given back, so that an honest sub-buffer is judged and given
 * out where it lies; one with anything wrong in it is copied and sifted. Under `overwrite` each is copied first, and the
 * position loaded again tells whether the copy is whole.
 *
 * Always, and exact where programs are honest: records written = kept + overwritten + corrupt + those still to be taken. */
#pragma once

#include "daemon/trace/body.h"
#include "lib/reader.h"
#include "lib/record.h"

typedef struct {
	u64 kept;	  /* records in packets that were released */
	u64 overwritten;  /* under `overwrite`: gone before they were taken */
	u64 corrupt;	  /* records that could not be believed */
	u64 corrupt_subs; /* sub-buffers dropped, whole or in part */
	u64 clamped;	  /* stamps that were put right */
	u64 lost;	  /* never written: of the ring's counters, as far as packets have said it */
} StreamCounters;

/* What packets say of them. */
static inline u64 stream_discarded(const StreamCounters *c)
{
	return add_bounded(c->lost, add_bounded(c->overwritten, c->corrupt));
}

typedef struct {
	const u8 *records; /* until stream_release() or the next stream_take() */
	u32 size;	   /* to the last byte of the last record, without its padding */
	u32 n_records;
	int fd;		   /* the region's memfd where the same bytes lie at fd_offset; -1: a private copy */
	u64 fd_offset;
	u64 begin, end;	   /* times: begin = first record's, end = last one's; never before those of the packet before */
	u64 discarded;	   /* lost, overwritten and corrupt, in all, before the first record; never falls */
	u64 position;	   /* behind it, for stream_give(); never 0 */
} StreamPacket;

/* How far the counting of records has come, for the stream alone. */
typedef struct {
	u64 counted;	   /* records below `done`, by headers and walks; UINT64_MAX: no header was good yet */
	u64 unknown;	   /* bytes below `done` whose records no header has counted yet: the most that a lie can claim */
	u64 spoiled;	   /* the sub-buffer that corrupt_subs counted last, | 1; 0: none */
	bool lapped;	   /* the writer came round: what is in `unknown` was overwritten */
} StreamTally;

/* Where a stream is between two packets: enough to go on from. */
typedef struct {
	u64 done, clock, said;
	StreamTally tally;
	StreamCounters counters;
} StreamProgress;

typedef struct {
	/* borrowed: the region lives longer */
	struct reader reader;
	struct record_clock clock_source;
	const u8 *map;
	int fd;
	bool overwrite;	   /* the policy: else nothing is overwritten that was not given back */

	u64 done;	   /* positions below were released */
	u64 safe;	   /* ... and are not needed any more */
	u64 last;	   /* `position` of the last packet that was released */
	u64 clock;	   /* no record to come is older */
	u64 said;	   /* `discarded` of the newest packet */
	u8 *copy;	   /* owned: one sub-buffer; made when it is needed */
	bool lying;	   /* its positions could not be believed when they were last looked at: counted once */
	StreamTally tally;
	StreamCounters counters;

	/* the packet in hand; 0: none */
	u64 next;	   /* `done` once it is released */
	u64 pending_clock, pending_said;
	StreamTally pending_tally;
	StreamCounters pending;
} Stream;

/* Everything that the ring holds is to be taken: `done` begins at what is marked consumed (discard), or at the oldest whole
 * sub-buffer. fd: of the region, for fd_offset. Never fails. */
void stream_init(Stream *s, u8 *map, int fd, const struct geometry *g, u32 ring,
		 const struct record_clock *clock);
void stream_clear(Stream *s);

/* flags */
#define STREAM_PARTIAL 1 /* also what is in the sub-buffer that the writer is in */
#define STREAM_JUDGE   2 /* an id that is not in `classes` is a lie */

/* The next packet: 1, with *ret, or 0: there is nothing. It is the same one again, or a longer one, until stream_release().
 * -ENOENT, without STREAM_JUDGE: there is an id that `classes` does not have; look whether there are newer ones, and come
 * back with STREAM_JUDGE if not. -ENOMEM. A sub-buffer of which nothing can be believed is
 * passed over (and counted) on the way to the next. */
int stream_take(Stream *s, ClassTable *classes, unsigned flags, StreamPacket *ret);
/* The packet in hand is out: counts it. Its memory is kept until stream_give(): who is killed before that leaves it to whoever
 * reads the ring next. */
void stream_release(Stream *s);
/* All packets up to the one with this `position` are where they survive us: whole sub-buffers of memory go back to the writers, with
 * those behind it that had no packet. What is no position of a packet whose memory is kept is nothing. */
void stream_give(Stream *s, u64 position);
/* What writers may overwrite: it only grows, but for a ring that lies. */
u64 stream_given(const Stream *s);

/* Where it is now; with a packet in hand: where it will be once that is released. */
StreamProgress stream_progress(const Stream *s);
/* Behind stream_init(): goes on from there (of the same ring, as an earlier daemon left it). What the ring does not bear out is met
 * when it is taken from. */
void stream_resume(Stream *s, const StreamProgress *p);

/* True if there is a whole sub-buffer to take, or (partial) any record at all. Cheap: looks at the position only. */
bool stream_ready(const Stream *s, bool partial);
/* Under `overwrite`: records that were overwritten before this stream began, and that its counters do not have. */
u64 stream_before(const Stream *s);
/* Losses so far that no packet has said yet: for a last, empty packet. Remembers that they are said; *ret_discarded is what
 * that packet's `discarded` has to be. */
u64 stream_unsaid(Stream *s, u64 *ret_discarded);
/* Under `overwrite`: what can still be lost before it is taken, as a part of the ring: 0 (all taken) to 1. */
double stream_fill(const Stream *s);
