/* SPDX-License-Identifier: MIT */
#include "daemon/capture.h"

#include <linux/membarrier.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>

#include "daemon/priority.h"
#include "lib/atomic.h"

/* Positions that no ring reaches in a machine's life, and that arithmetic on positions has no room
 * for. */
#define POSITION_LIMIT (1ull << 62)

/* The closest of a few pairs. */
u64 capture_realtime_offset(const struct record_clock *clock)
{
	u64 best = UINT64_MAX, offset = 0;

	for (int i = 0; i < 5; i++) {
		u64 a = record_clock_now(clock), real = realtime_ns(), b = record_clock_now(clock);
		u64 middle = a + (b - a) / 2;

		if (b - a < best) {
			best = b - a;
			offset = real > middle ? real - middle : 0;
		}
	}
	return offset;
}

/* Makes every running sequence of every producer either see `hold` or be published (abi.h 6).
 * Producers register for the expedited form; a kernel without it has the slow one. Where neither is
 * allowed (nohz_full) nothing is lost but the certainty of the last few nanoseconds before the cut:
 * what is copied is still judged by the offset loaded after the copy. */
static void fence(void)
{
	if (syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0) < 0)
		(void)syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0);
}

/* ---- one ring ---- */

/* Addresses for the whole ring cost nothing; pages come for what is copied alone. What the ring
 * holds now is populated before anybody is held off, because the page faults take longer than the
 * copy. */
static int ring_prepare(CaptureRing *c, const struct reader *r)
{
	u64 used = MIN(load_relaxed_u64(&r->line->offset) & ~3ull, c->size);
	void *p = mmap(NULL, c->size, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (p == MAP_FAILED)
		return -ENOMEM;
	c->copy = p;
	c->allocated = c->size;
#ifdef MADV_HUGEPAGE
	(void)madvise(p, c->size, MADV_HUGEPAGE);
#endif
#ifdef MADV_POPULATE_WRITE
	if (used && madvise(p, ALIGN_UP(used, 4096ull), MADV_POPULATE_WRITE) < 0 && errno == ENOMEM)
		return -ENOMEM;
#endif
	return 0;
}

static void copy_range(u8 *to, const struct reader *r, u64 from, u64 end)
{
	u64 at = from & (r->size - 1), part = MIN(end - from, r->size - at);

	memcpy(to, r->data + at, part);
	memcpy(to + part, r->data, end - from - part);
}

/* The oldest position that may still be whole, given where the writer stands. Under `discard` a
 * writer enters only what was consumed, so the sub-buffer that it stands before is whole too. */
static u64 oldest_whole(const CaptureRing *c, const struct reader *r, bool discard, u64 offset)
{
	u64 next = ALIGN_UP(offset, c->sub_size), consumed;

	if (!discard)
		return reader_first_whole(offset, c->size, c->sub_size);
	consumed = load_acquire_u64(&r->line->consumed);
	if (consumed > offset || consumed & (c->sub_size - 1))
		consumed = 0; /* the daemon wrote no such thing */
	return MAX(consumed, next > c->size ? next - c->size : 0);
}

/* Where the copy has to begin for what is asked. The headers are hints: a lie makes the copy longer
 * or shorter for the liar's own ring, within its size. */
static u64 wanted_from(const CaptureRing *c, const struct reader *r, u64 whole, u64 cut,
		       const CaptureLimit *limit)
{
	u64 from = whole;

	if (limit->ring_bytes && c->offset - whole > limit->ring_bytes) {
		u64 least = (c->offset - limit->ring_bytes) & ~(c->sub_size - 1);

		from = MAX(from, least);
	}
	if (limit->duration_ns) {
		u64 since = cut > limit->duration_ns ? cut - limit->duration_ns : 0;
		u64 p = (c->offset - 1) & ~(c->sub_size - 1);

		/* the newest sub-buffer that was entered before `since`, and all behind it */
		for (; p > from; p -= c->sub_size) {
			struct abi_sub h = reader_header(r, p);

			if (h.position != p || h.begin <= since)
				break;
		}
		from = MAX(from, p);
	}
	return from;
}

static u64 count_before(const struct abi_sub *h, u64 position)
{
	return h->position == position ? h->count : UINT64_MAX;
}

static void ring_copy(CaptureRing *c, const struct reader *r, bool discard, u64 cut,
		      const CaptureLimit *limit)
{
	struct abi_sub h;

	if (c->broken || c->offset == 0)
		return;
	c->oldest = c->first = oldest_whole(c, r, discard, c->offset);
	if (c->oldest >= c->offset) { /* consumed to the end */
		c->oldest_count = c->count;
		return;
	}
	h = reader_header(r, c->oldest);
	c->oldest_count = count_before(&h, c->oldest);
	c->first = c->pinned ? c->oldest : wanted_from(c, r, c->oldest, cut, limit);
	copy_range(c->copy, r, c->first, c->offset);

	/* What was read from `oldest` on is whole if it still is the oldest now; else what has
	 * become the oldest is looked at in turn. A writer gains on this only by lapping the ring
	 * within a few loads. */
	for (int turn = 0;; turn++) {
		u64 after, count, whole;

		/* R2 of abi.h: reader_position() orders it behind the loads of the copy */
		if (reader_position(r, &after, &count) < 0 || after < c->offset ||
		    after > POSITION_LIMIT) {
			c->broken = true; /* an offset never falls */
			return;
		}
		whole = oldest_whole(c, r, discard, after);
		if (whole <= c->oldest)
			break;
		c->oldest = whole;
		if (whole >= c->first)
			break;
		if (turn == 8) {
			c->broken = true;
			return;
		}
		h = reader_header(r, whole);
		c->oldest_count = count_before(&h, whole);
	}
	if (c->oldest < c->first)
		return;
	if (c->oldest >= c->offset) {
		c->first = c->oldest;
		c->oldest_count = c->count;
		return;
	}
	memmove(c->copy, c->copy + (c->oldest - c->first), c->offset - c->oldest);
	c->first = c->oldest;
	memcpy(&h, c->copy, sizeof(h));
	c->oldest_count = count_before(&h, c->first);
}

/* ---- all of them ---- */

/* Most recently written first: it has the least time before its writer comes round. `base` is when
 * its writer last entered a sub-buffer (a hint that a producer can fake for its own rings). */
typedef struct {
	CaptureRing *ring;
	struct reader reader;
	bool discard;
	u64 recent;
} Job;

static int compare_recent(const void *a, const void *b)
{
	const Job *x = a, *y = b;

	return x->recent < y->recent ? 1 : x->recent > y->recent ? -1 : 0;
}

static void hold_all(const CaptureSource *sources, size_t n, u64 deadline)
{
	for (size_t i = 0; i < n; i++) {
		for (u32 j = 0; j < geometry_rings(sources[i].geometry); j++) {
			struct reader r;

			if (geometry_keeps(sources[i].geometry, j))
				continue;
			reader_init(&r, sources[i].map, sources[i].geometry, j);
			reader_hold(&r, deadline);
		}
	}
}

static void release_all(const CaptureSource *sources, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		for (u32 j = 0; j < geometry_rings(sources[i].geometry); j++) {
			struct reader r;

			if (geometry_keeps(sources[i].geometry, j))
				continue;
			reader_init(&r, sources[i].map, sources[i].geometry, j);
			reader_release(&r);
		}
	}
}

int capture_take(Capture *ret, const CaptureSource *sources, size_t n,
		 const struct record_clock *clock, const CaptureLimit *limit)
{
	_cleanup_(capture_clear) Capture c = {0};
	_cleanup_free_ Job *jobs = NULL;
	u64 begun, now;
	size_t total = 0;
	int r = 0, nice_before;

	for (size_t i = 0; i < n; i++)
		total += geometry_rings(sources[i].geometry);
	c.rings = calloc(total + 1, sizeof(*c.rings));
	jobs = calloc(total + 1, sizeof(*jobs));
	if (!c.rings || !jobs)
		return -ENOMEM;

	/* everything that takes time is done before anybody is held off, unless the past matters more than the present */
	for (size_t i = 0; i < n; i++) {
		for (u32 j = 0; j < geometry_rings(sources[i].geometry); j++) {
			CaptureRing *ring = &c.rings[c.n_rings];
			Job *job = &jobs[c.n_rings++];

			reader_init(&job->reader, sources[i].map, sources[i].geometry, j);
			job->ring = ring;
			job->discard = geometry_keeps(sources[i].geometry, j);
			ring->pinned = geometry_is_pinned(sources[i].geometry, j);
			ring->source = (u32)i;
			ring->ring = j;
			ring->size = job->reader.size;
			ring->sub_size = job->reader.sub_size;
			/* a ring that nobody wrote yet gets addresses later, should it begin just
			 * now */
			if (limit->urgent || load_relaxed_u64(&job->reader.line->offset) == 0)
				continue;
			r = ring_prepare(ring, &job->reader);
			if (r < 0)
				return r;
		}
	}
	if (!limit->urgent)
		c.realtime_offset_ns = capture_realtime_offset(clock);
	/* on a machine whose programs take every CPU the copy would wait for its turn several times */
	nice_before = priority_hurry();

	c.cut = record_clock_now(clock);
	begun = c.cut;
	hold_all(sources, n, c.cut + ABI_HOLD_NS);
	fence();
	for (size_t i = 0; i < c.n_rings; i++) {
		CaptureRing *ring = c.rings + i;

		/* R1 of abi.h */
		if (reader_position(&jobs[i].reader, &ring->offset, &ring->count) < 0 ||
		    ring->offset > POSITION_LIMIT) {
			ring->broken = true;
			ring->offset = ring->count = 0;
		}
		for (u32 k = 0; k < ABI_LOST_CAUSES; k++)
			ring->lost[k] = reader_lost_by(&jobs[i].reader, k);
		/* relaxed: a counter */
		ring->unpinned = load_relaxed_u64(&jobs[i].reader.line->unpinned);
		jobs[i].recent = load_relaxed_u64(&jobs[i].reader.line->base);
	}
	if (limit->urgent)
		c.realtime_offset_ns = capture_realtime_offset(clock);
	for (size_t i = 0; i < c.n_rings; i++) {
		CaptureRing *ring = c.rings + i;

		if (ring->offset && !ring->copy)
			r = ring_prepare(ring, &jobs[i].reader);
		if (r < 0) {
			release_all(sources, n);
			priority_back(nice_before);
			return r;
		}
	}
	qsort(jobs, c.n_rings, sizeof(*jobs), compare_recent);
	for (size_t i = 0; i < c.n_rings; i++) {
		ring_copy(jobs[i].ring, &jobs[i].reader, jobs[i].discard, c.cut, limit);
		if (!jobs[i].discard)
			reader_release(&jobs[i].reader); /* no longer than it must */
	}
	now = record_clock_now(clock);
	priority_back(nice_before);
	c.hold_ns = MIN(now - begun, (u64)ABI_HOLD_NS);
	c.late = now - begun > ABI_HOLD_NS;

	*ret = c;
	c = (Capture){0};
	return 0;
}

void capture_clear(Capture *c)
{
	for (size_t i = 0; i < c->n_rings; i++)
		if (c->rings[i].copy)
			(void)munmap(c->rings[i].copy, c->rings[i].allocated);
	free(c->rings);
	*c = (Capture){0};
}
