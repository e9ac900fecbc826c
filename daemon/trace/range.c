/* SPDX-License-Identifier: MIT */
/* What a loss is said of: `events_discarded` of a packet, less that of the packet before it, was lost between the ends of the
 * two. So a packet at the edge brings losses that may lie outside of the range, and one that lost something may be trimmed of
 * all its records. Rather too much is said than too little: whatever may have been lost within the range is. */
#include "daemon/trace/range.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#include "daemon/trace/packet.h"

typedef struct {
	const Range *range;
	TraceFile file;	    /* owned */
	TraceBuffer buffer; /* owned */
	const char *name;
	Trace *trace;
	u64 n;		 /* packets written */
	u64 base, said;	 /* the source's `discarded`: before the copy begins, and of what is written of it */
	u64 shift;	 /* of the source's sequence numbers; gaps stay: sub-buffers that could not be used */
	u64 source_next; /* the source's sequence number behind the packet written last */
	u64 end;	 /* of that packet */
	PacketInfo last; /* the source's packet read last */
	bool damaged;
} Copy;

static int put_packet(Copy *c, const PacketInfo *info, const u8 *records, u64 size)
{
	int r = c->n == 0 ? trace_stream_begin(c->trace, c->name, 0) : 0;

	if (r == 0)
		r = trace_stream_packet(c->trace, info, records, size);
	if (r == 0) {
		c->n++;
		c->end = info->end;
	}
	return r;
}

/* A packet of the source with [begin, end] of its time. In front of the first, an empty one if it lost something: without
 * that readers could not tell how much. */
static int put_copy(Copy *c, const PacketInfo *source, u64 begin, u64 end, const u8 *records, u64 size)
{
	PacketInfo info = *source;
	int r = 0;

	info.begin = begin;
	info.end = end;
	info.discarded = source->discarded - c->base;
	if (c->n == 0) {
		PacketInfo empty = info;

		c->shift = source->sequence;
		empty.end = begin;
		empty.discarded = empty.sequence = 0;
		if (info.discarded > 0) {
			c->shift--;
			r = put_packet(c, &empty, NULL, 0);
		}
	}
	info.sequence = source->sequence - c->shift;
	if (r == 0)
		r = put_packet(c, &info, records, size);
	c->said = source->discarded;
	c->source_next = source->sequence + 1;
	return r;
}

/* A packet that overlaps the range, or touches it. */
static int copy_packet(Copy *c, const TracePacket *p)
{
	const Range *range = c->range;
	const PacketInfo *info = &p->info;
	u64 size = info->content_size - PACKET_HEADER, first = 0, end = size, n;
	int r = trace_file_records(&c->file, p, &c->buffer);

	c->last = *info;
	if (r == 0 && (info->begin < range->from || info->end > range->to)) {
		/* what is before the place where it breaks is good */
		if (trace_records_within(c->buffer.p, info, range->from, range->to, &first, &end, &n) < 0)
			c->damaged = true;
		/* without its records it would say only losses, and those the next one says as well */
		if (size > 0 && n == 0)
			return 0;
	}
	if (r == -EBADMSG) {
		c->damaged = true;
		return 0;
	}
	return r < 0 ? r
		     : put_copy(c, info, MAX(info->begin, range->from), MIN(info->end, range->to),
				c->buffer.p + first, end - first);
}

/* What was lost behind the packet written last: in one that was trimmed of its records, or before `next`, which begins behind
 * the range. */
static int copy_rest(Copy *c, const TracePacket *next)
{
	const Range *range = c->range;
	PacketInfo info = c->last;
	u64 end = MIN(next ? next->info.begin : c->last.end, range->to);

	if (next && c->last.end < range->to)
		info.discarded = next->info.discarded;
	if (info.discarded <= c->said)
		return 0;
	if (c->n > 0)
		info.sequence = c->source_next;
	return put_copy(c, &info, c->n > 0 ? c->end : end, end, NULL, 0);
}

static int copy_stream(Copy *c)
{
	TracePacket p, before;
	int found = trace_file_find(&c->file, c->range->from, &p, &before), r = 0;

	if (found > 0) {
		c->last = before.offset == UINT64_MAX ? p.info : before.info;
		c->base = c->said = c->last.discarded;
	}
	while (found > 0 && p.info.begin <= c->range->to && !c->damaged) {
		r = copy_packet(c, &p);
		if (r < 0)
			return r;
		found = trace_file_next(&c->file, &p, &p);
	}
	if (found == -EBADMSG)
		c->damaged = true;
	else if (found < 0)
		return found;
	return c->last.packet_size > 0 ? copy_rest(c, found > 0 && !c->damaged ? &p : NULL) : 0;
}

int range_copy(const Range *range, int dir_fd, const char *name, const u8 uuid[16], Trace *trace,
	       ExtractResult *result)
{
	Copy c = { .range = range, .file = TRACE_FILE_NULL, .name = name, .trace = trace };
	int r = trace_file_open(&c.file, dir_fd, name, uuid);

	if (r == -EBADMSG)
		return 0; /* not a file any more */
	if (r == 0)
		r = copy_stream(&c);
	if (r == 0 && c.n > 0) {
		r = trace_stream_end(trace);
		result->n_streams++;
	}
	result->n_packets += c.n;
	result->n_touched += c.file.touched;
	result->discarded += c.said - c.base;
	if (c.damaged && result->n_damaged++ == 0)
		(void)snprintf(result->damaged, sizeof(result->damaged), "%s", name);
	trace_file_close(&c.file);
	trace_buffer_clear(&c.buffer);
	return r;
}

static size_t put_time(char *p, size_t size, u64 ns)
{
	time_t s = (time_t)(ns / NSEC_PER_SEC);
	struct tm tm;
	size_t n = 0;

	if (gmtime_r(&s, &tm))
		n = strftime(p, size, "%Y-%m-%dT%H:%M:%S", &tm);
	return n + (size_t)snprintf(p + n, size - n, ".%09" PRIu64 "Z", (uint64_t)(ns % NSEC_PER_SEC));
}

char *range_text(const Range *range, u64 offset)
{
	char text[160];
	u64 from = range->from + offset, to;
	size_t n = put_time(text, 64, from);

	if (__builtin_add_overflow(range->to, offset, &to))
		to = UINT64_MAX;
	(void)memcpy(text + n, " to ", 5);
	(void)put_time(text + n + 4, 64, to);
	return strdup(text);
}
