/* SPDX-License-Identifier: MIT */
/* One look of a stream at its ring: what is there, what can be believed of it, and what that makes of the stream's counts. Looking
 * changes nothing of the stream (but for the room of its copy): whether something is passed over or given out is the stream's to say.
 *
 * Counts. A sub-buffer's header says how many records came before it. Where that is more than was counted, the difference is
 * what was missed on the way: overwritten if the writer came round, corrupt else. It is believed as far as the bytes that
 * were passed unread could hold so many, so that no lie makes the sums more than the ring can have held. A ring that was
 * written long before the stream began has no such bytes: its first good header is where counting begins. */
#pragma once

#include "daemon/stream.h"

/* What one turn knows. */
typedef struct {
	u64 offset, count; /* of the ring, now */
	u64 bound;	   /* no record is newer */
	u64 sub;	   /* position of the sub-buffer */
	u64 start, end;	   /* positions of records to take */
	u64 next;	   /* `done` behind them */
	u64 time;	   /* the first record's stamp counts from it */
	const u8 *records; /* where they are read */
	u64 clock;
	StreamTally t;
	StreamCounters c;
} View;

/* R1, and R2 behind a copy (lib/abi.h). False: the words of the line lie, or never settle; the position is then the one that
 * an honest writer would go on from, with no count to it. */
bool view_position(const Stream *s, u64 *ret_offset, u64 *ret_count);

/* A view that knows where the ring stands, and nothing more. False: as view_position(). */
bool view_begin(const Stream *s, View *ret);

/* The ring says that `count` records came before here. What was not met of them is counted, as far as what was passed unread
 * could hold it; and whatever it says is gone on from, so that the count after a lie is right again. */
void view_missed(View *v, u64 count);
/* Something of the sub-buffer is left out: counted once for all its parts. */
void view_spoil(View *v);

/* The sub-buffer that `done` stands in: its header, and where records begin and end; under overwrite a copy of them. 1; 0: the
 * header cannot be believed; -EAGAIN: the writer has come round; -ENOMEM. */
int view_sub(Stream *s, View *v);
/* What is in it, judged. 1: a packet; 0: nothing in it, go on with the next; -ENOENT, -ENOMEM, as stream_take(). */
int view_records(Stream *s, View *v, const ClassTable *classes, bool judge, StreamPacket *ret);

/* Arithmetic on positions has room for a lap behind this. No honest ring reaches it in a machine's life. */
static inline u64 view_limit(const Stream *s)
{
	return UINT64_MAX - 4 * s->reader.size;
}

static inline u64 view_first_whole(const Stream *s, u64 offset)
{
	return reader_first_whole(offset, s->reader.size, s->reader.sub_size);
}
