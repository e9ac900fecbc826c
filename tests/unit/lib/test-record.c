/* SPDX-License-Identifier: MIT */
/* The writing end, one thread: every edge of the protocol by each writer (the per-CPU sequences and
 * the side ring, with both clocks). */
#include "tests/unit/lib/ring.h"

#include <signal.h>
#include <sys/mman.h>

#define BOTH (ABI_CONTEXT_VPID | ABI_CONTEXT_VTID)
#define SUB  4096u
#define ROOM (SUB - ABI_SUB_HEADER)

static bool is_side(const struct ring *r)
{
	return r->writer >= WRITER_SIDE_COUNTER;
}

static u64 sum_lost(struct ring *r)
{
	u64 sum = 0;

	for (u32 i = 0; i < 3; i++) {
		struct reader reader;

		reader_init(&reader, r->region.map, &r->geometry, i);
		sum += reader_lost(&reader);
	}
	return sum;
}

static void test_one(gconstpointer data)
{
	struct ring r;
	u64 value = 0x1122334455667788;

	ring_init(&r, GPOINTER_TO_UINT(data), ABI_POLICY_OVERWRITE, BOTH);
	errno = 42;
	g_assert_cmpint(ring_write(&r, 7, &value, 8), ==, RECORD_DONE);
	g_assert_cmpint(errno, ==, 42);
	{
		g_autoptr(GPtrArray) all = ring_walk(&r);
		struct ring_record *one = ring_at(all, 0);

		g_assert_cmpuint(all->len, ==, 1);
		g_assert_cmpuint(one->record.id, ==, 7);
		g_assert_cmpuint(one->record.length, ==, 24);
		g_assert_cmpmem(one->body, 8, &r.ids, 8);
		g_assert_cmpmem(one->body + 8, 8, &value, 8);
		g_assert_cmpuint(one->record.time, <=, record_clock_now(&r.clock));
	}
	ring_deinit(&r);
}

static void test_contexts(gconstpointer data)
{
	static const u32 sizes[] = {0, 4, 4, 8};

	for (u32 contexts = 0; contexts < 4; contexts++)
		for (u32 size = 0; size < 40; size++) {
			struct ring r;
			u8 bytes[40];

			for (u32 i = 0; i < size; i++)
				bytes[i] = (u8)(i + 1);
			ring_init(&r, GPOINTER_TO_UINT(data), ABI_POLICY_OVERWRITE, contexts);
			/* the first enters by the full form, the second takes the fast one */
			g_assert_cmpint(ring_write(&r, 1, bytes, size), ==, RECORD_DONE);
			g_assert_cmpint(ring_write(&r, 2, bytes, size), ==, RECORD_DONE);
			g_autoptr(GPtrArray) all = ring_walk(&r);
			for (u32 i = 0; i < 2; i++) {
				struct ring_record *one = ring_at(all, i);

				g_assert_cmpuint(one->record.body_size, ==, sizes[contexts] + size);
				if (contexts & ABI_CONTEXT_VPID)
					g_assert_cmpuint(*(u32 *)one->body, ==, 0x11111111);
				if (contexts & ABI_CONTEXT_VTID)
					g_assert_cmpuint(*(u32 *)(one->body + sizes[contexts] - 4),
							 ==, 0x22222222);
				g_assert_cmpmem(one->body + sizes[contexts], size, bytes, size);
			}
			ring_deinit(&r);
		}
}

static void test_no_parts(gconstpointer data)
{
	struct ring r;

	ring_init(&r, GPOINTER_TO_UINT(data), ABI_POLICY_OVERWRITE, BOTH);
	g_assert_cmpint(ring_write_parts(&r, 3, NULL, 0), ==, RECORD_DONE);
	g_assert_cmpint(ring_write_parts(&r, 4, NULL, 0), ==, RECORD_DONE);
	{
		g_autoptr(GPtrArray) all = ring_walk(&r);

		g_assert_cmpuint(ring_at(all, 1)->record.length, ==, 16);
		g_assert_cmpmem(ring_at(all, 1)->body, 8, &r.ids, 8);
	}
	ring_deinit(&r);
}

/* A record that ends with the sub-buffer publishes the boundary itself; one that is 4 bytes larger
 * leaves it to the boundary sequence; and the next one enters. `end` in both. */
static void test_fit(gconstpointer data)
{
	for (u32 more = 0; more <= 4; more += 4) {
		struct ring r;
		static u8 filler[SUB];
		const struct abi_sub *h;

		ring_init(&r, GPOINTER_TO_UINT(data), ABI_POLICY_OVERWRITE, 0);
		h = (const struct abi_sub *)r.reader.data;
		g_assert_cmpint(ring_write(&r, 1, filler, 992), ==, RECORD_DONE);
		g_assert_cmpuint(ring_offset(&r), ==, ABI_SUB_HEADER + 1000);
		g_assert_cmpint(ring_write(&r, 2, filler, ROOM - 1000 - 8 + more), ==, RECORD_DONE);
		if (!more) {
			g_assert_cmpuint(ring_offset(&r), ==, SUB);
			g_assert_cmpuint(h->end, ==, SUB);
			g_assert_cmpuint(ring_count(&r), ==, 2);
		} else {
			g_assert_cmpuint(ring_offset(&r), ==,
					 SUB + ABI_SUB_HEADER + ROOM - 1000 + 4);
			g_assert_cmpuint(h->end, ==, ABI_SUB_HEADER + 1000);
		}
		g_assert_cmpint(ring_write(&r, 3, filler, 8), ==, RECORD_DONE);
		g_autoptr(GPtrArray) all = ring_walk(&r);
		g_assert_cmpuint(all->len, ==, 3);
		g_assert_cmpuint(ring_at(all, 2)->record.id, ==, 3);
		g_assert_cmpuint(ring_at(all, 2)->position, ==,
				 more ? SUB + ABI_SUB_HEADER + ROOM - 996 : SUB + ABI_SUB_HEADER);
		ring_deinit(&r);
	}
}

/* the last byte but four, by the fast form */
static void test_fit_fast(gconstpointer data)
{
	struct ring r;
	static u8 filler[256];

	ring_init(&r, GPOINTER_TO_UINT(data), ABI_POLICY_OVERWRITE, 0);
	for (u32 i = 0; i < 2000; i++)
		g_assert_cmpint(ring_write(&r, 1, filler, i * 7 % 130), ==, RECORD_DONE);
	g_autoptr(GPtrArray) all = ring_walk(&r);
	g_assert_cmpuint(all->len, <, 2000);
	g_assert_cmpuint(ring_count(&r), ==, 2000);
	for (u32 i = 0; i < all->len; i++)
		g_assert_cmpuint(ring_at(all, i)->record.body_size, ==,
				 (2000 - all->len + i) * 7 % 130);
	ring_deinit(&r);
}

static void test_wrap(gconstpointer data)
{
	struct ring r;
	u64 kept, first;

	ring_init(&r, GPOINTER_TO_UINT(data), ABI_POLICY_OVERWRITE, BOTH);
	for (u64 i = 0; i < 20000; i++)
		g_assert_cmpint(ring_write(&r, 1, &i, 8), ==, RECORD_DONE);
	g_assert_cmpuint(ring_count(&r), ==, 20000);
	g_autoptr(GPtrArray) all = ring_walk(&r);
	kept = all->len;
	first = *(u64 *)(ring_at(all, 0)->body + 8);
	g_assert_cmpuint(first, ==, 20000 - kept);
	for (u64 i = 0; i < kept; i++)
		g_assert_cmpuint(*(u64 *)(ring_at(all, (u32)i)->body + 8), ==, first + i);
	/* 14/16 of the ring at least */
	g_assert_cmpuint(kept * 24, >=, 14 * (ROOM - 24));
	g_assert_cmpuint(sum_lost(&r), ==, 0);
	ring_deinit(&r);
}

static void test_discard(gconstpointer data)
{
	struct ring r;
	u64 i = 0, offset;
	static const u8 body[1000];

	ring_init(&r, GPOINTER_TO_UINT(data), ABI_POLICY_DISCARD, 0);
	while (ring_write(&r, 1, body, 992) == RECORD_DONE)
		i++;
	g_assert_cmpuint(i, ==, 16 * (ROOM / 1000));
	offset = ring_offset(&r);
	g_assert_cmpuint(offset, ==, 65536);
	g_assert_cmpint(ring_write(&r, 1, body, 0), ==, RECORD_LOST);
	g_assert_cmpuint(ring_offset(&r), ==, offset);
	g_assert_cmpuint(reader_lost_by(&r.reader, ABI_LOST_FULL), ==, 2);
	/* one byte short of a sub-buffer is not a sub-buffer */
	reader_consume(&r.reader, SUB - 4);
	g_assert_cmpint(ring_write(&r, 1, body, 0), ==, RECORD_LOST);
	reader_consume(&r.reader, SUB);
	g_assert_cmpint(ring_write(&r, 1, body, 0), ==, RECORD_DONE);
	g_assert_cmpuint(((const struct abi_sub *)r.reader.data)->lost, ==, 3);
	g_assert_cmpuint(ring_count(&r) + sum_lost(&r), ==, i + 4);
	ring_deinit(&r);
}

static void test_hold(gconstpointer data)
{
	struct ring r;
	static const u8 body[1000];
	u64 i;

	ring_init(&r, GPOINTER_TO_UINT(data), ABI_POLICY_OVERWRITE, 0);
	reader_hold(&r.reader, record_clock_now(&r.clock) + ABI_HOLD_NS);
	for (i = 0; ring_write(&r, 1, body, 992) == RECORD_DONE; i++)
		;
	/* a lap, then no further */
	g_assert_cmpuint(i, ==, 16 * (ROOM / 1000));
	g_assert_cmpuint(reader_lost_by(&r.reader, ABI_LOST_HELD), ==, 1);
	/* from a position up */
	r.reader.line->hold = SUB | 1;
	r.reader.line->deadline = record_clock_now(&r.clock) + ABI_HOLD_NS;
	for (i = 0; ring_write(&r, 1, body, 992) == RECORD_DONE; i++)
		;
	g_assert_cmpuint(i, ==, ROOM / 1000);
	reader_release(&r.reader);
	g_assert_cmpint(ring_write(&r, 1, body, 992), ==, RECORD_DONE);
	ring_deinit(&r);
}

/* past, or so far off that only a liar asks for it: not believed */
static void test_hold_absurd(gconstpointer data)
{
	static const u64 far[] = {0, 1ull << 40, ~0ull >> 1, ~0ull};
	static const u8 body[1000];

	for (u32 k = 0; k < ELEMENTSOF(far); k++) {
		struct ring r;

		ring_init(&r, GPOINTER_TO_UINT(data), ABI_POLICY_OVERWRITE, 0);
		r.reader.line->hold = 1;
		r.reader.line->deadline = far[k] == ~0ull ? ~0ull
					  : far[k]        ? record_clock_now(&r.clock) + far[k]
							  : 0;
		for (u32 i = 0; i < 1000; i++)
			g_assert_cmpint(ring_write(&r, 1, body, 992), ==, RECORD_DONE);
		ring_deinit(&r);
	}
}

static void test_big(gconstpointer data)
{
	static u8 body[70000];
	struct ring r;
	u64 offset;

	ring_init(&r, GPOINTER_TO_UINT(data), ABI_POLICY_OVERWRITE, BOTH);
	g_assert_cmpint(ring_write(&r, 1, body, 8), ==, RECORD_DONE);
	offset = ring_offset(&r);
	/* in the extended form it must fit: 16 + 8 + size <= ROOM */
	g_assert_cmpint(ring_write(&r, 1, body, ROOM - 24 + 1), ==, RECORD_LOST);
	g_assert_cmpuint(ring_offset(&r), ==, offset); /* no boundary for it */
	g_assert_cmpint(ring_write(&r, 1, body, 65535), ==, RECORD_LOST);
	g_assert_cmpint(ring_write(&r, 1, body, 65535 - 24 + 1), ==, RECORD_LOST);
	g_assert_cmpint(ring_write(&r, 1, body, 70000), ==, RECORD_LOST);
	g_assert_cmpuint(sum_lost(&r), ==, 4);
	/* what `length` cannot say is counted before a ring is chosen */
	g_assert_cmpuint(reader_lost_by(&r.reader, ABI_LOST_BIG), ==, is_side(&r) ? 1 : 4);
	g_assert_cmpint(ring_write(&r, 1, body, ROOM - 24), ==, RECORD_DONE);
	g_autoptr(GPtrArray) all = ring_walk(&r);
	g_assert_cmpuint(ring_at(all, 1)->record.length, ==, ROOM - 8);
	ring_deinit(&r);
}

/* the sum of sizes of parts must not wrap around into something that fits */
static void test_big_parts(gconstpointer data)
{
	struct ring r;
	u64 head[3] = {0};
	struct record_part parts[] = {
	    {&head[1], 8, 0}, {head, 0x80000000, 0}, {head, 0x80000000, 0}, {head, 0xfffffff8, 1}};

	ring_init(&r, GPOINTER_TO_UINT(data), ABI_POLICY_OVERWRITE, BOTH);
	g_assert_cmpint(ring_write_parts(&r, 1, parts, 3), ==, RECORD_LOST);
	g_assert_cmpint(ring_write_parts(&r, 1, parts, 4), ==, RECORD_LOST);
	parts[0].size = 0xffffffff;
	g_assert_cmpint(ring_write_parts(&r, 1, parts, 1), ==, RECORD_LOST);
	g_assert_cmpuint(sum_lost(&r), ==, 3);
	ring_deinit(&r);
}

/* memory that ends where the returned block does: one byte too far is SIGSEGV */
static u8 *at_the_edge(u32 size)
{
	u8 *p =
	    mmap(NULL, 8192 + 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	g_assert_true(p != MAP_FAILED);
	g_assert_cmpint(mprotect(p + 4096 + 65536, 4096, PROT_NONE), ==, 0);
	return p + 4096 + 65536 - size;
}
static void free_edge(u8 *p, u32 size)
{
	(void)munmap(p + size - 4096 - 65536, 8192 + 65536);
}

static void test_parts(gconstpointer data)
{
	for (u32 n = 0; n < 1300; n += n < 40 ? 1 : 61) {
		struct ring r;
		u8 *blob = at_the_edge(n), *string = at_the_edge(n);
		u64 head[3] = {0, 0x0807060504030201, 0};
		struct record_part parts[] = {
		    {&head[1], n % 9, 0},
		    {blob, n, 0},
		    {string, n + 1, 1},
		    {"!", 1, 0},
		};

		for (u32 i = 0; i < n; i++) {
			blob[i] = (u8)(i * 3);
			string[i] = (u8)('a' + i % 26);
		}
		ring_init(&r, GPOINTER_TO_UINT(data), ABI_POLICY_OVERWRITE, n % 4);
		for (u32 k = 0; k < 2; k++)
			g_assert_cmpint(ring_write_parts(&r, 5, parts, 4), ==, RECORD_DONE);
		g_autoptr(GPtrArray) all = ring_walk(&r);
		for (u32 k = 0; k < 2; k++) {
			struct ring_record *one = ring_at(all, k);
			const u8 *p = one->body + one->record.body_size - (n % 9 + 2 * n + 2);

			g_assert_cmpmem(p, n % 9, &head[1], n % 9);
			p += n % 9;
			g_assert_cmpmem(p, n, blob, n);
			p += n;
			g_assert_cmpmem(p, n, string, n);
			p += n;
			g_assert_cmpuint(*p++, ==, 0);
			g_assert_cmpuint(*p++, ==, '!');
		}
		ring_deinit(&r);
		free_edge(blob, n);
		free_edge(string, n);
	}
}

/* shortened since it was measured: stops there, fills, terminates; nothing behind the NUL is read
 */
static void test_string_shortened(gconstpointer data)
{
	struct ring r;

	ring_init(&r, GPOINTER_TO_UINT(data), ABI_POLICY_OVERWRITE, 0);
	for (u32 size = 1; size < 60; size++) {
		u8 *edges[64];
		g_autoptr(GPtrArray) all = NULL;

		/* an empty ring, so that the walk below is short */
		ring_deinit(&r);
		ring_init(&r, GPOINTER_TO_UINT(data), ABI_POLICY_OVERWRITE, 0);
		for (u32 nul = 0; nul < size; nul++) {
			u64 head[2] = {0};
			u32 n = MAX(nul + 1, size - 1);
			struct record_part parts[] = {{&head[1], 0, 0}, {NULL, size, 1}};

			parts[1].data = edges[nul] = at_the_edge(n);
			memset(edges[nul], 'x', n);
			edges[nul][nul] = 0;
			g_assert_cmpint(ring_write_parts(&r, 5, parts, 2), ==, RECORD_DONE);
			free_edge(edges[nul], n);
		}
		all = ring_walk(&r);
		g_assert_cmpuint(all->len, ==, size);
		for (u32 nul = 0; nul < size; nul++) {
			char expected[64];

			memset(expected, '#', sizeof(expected));
			memset(expected, 'x', nul);
			expected[size - 1] = 0;
			g_assert_cmpmem(ring_at(all, nul)->body,
					ring_at(all, nul)->record.body_size, expected, size);
		}
	}
	ring_deinit(&r);
}

/* the head is read up to a multiple of 8 behind its size, no further */
static void test_head_edge(gconstpointer data)
{
	for (u32 contexts = 0; contexts < 4; contexts++)
		for (u32 size = 0; size <= 600;
		     size += size < 20 || (size > 244 && size < 262) ? 1 : 13) {
			struct ring r;
			u32 readable = ALIGN_UP(size, 8u);
			u8 *head = at_the_edge(readable);
			struct record_part part = {head, size, 0};

			for (u32 i = 0; i < readable; i++)
				head[i] = (u8)(i + size);
			ring_init(&r, GPOINTER_TO_UINT(data), ABI_POLICY_OVERWRITE, contexts);
			for (u32 k = 0; k < 2; k++)
				g_assert_cmpint(ring_write_parts(&r, 1, &part, 1), ==, RECORD_DONE);
			g_autoptr(GPtrArray) all = ring_walk(&r);
			struct ring_record *one = ring_at(all, 1);
			g_assert_cmpmem(one->body + one->record.body_size - size, size, head, size);
			ring_deinit(&r);
			free_edge(head, readable);
		}
}

static void test_extended(gconstpointer data)
{
	struct ring r;
	u64 i, extended = 0;

	ring_init(&r, GPOINTER_TO_UINT(data), ABI_POLICY_OVERWRITE, BOTH);
	for (i = 0; i < 5000; i++) {
		if (i % 3 == 1)
			ring_age(&r);
		g_assert_cmpint(ring_write(&r, 1, &i, i % 50 < 8 ? i % 50 : 8), ==, RECORD_DONE);
	}
	g_assert_cmpuint(ring_count(&r), ==, 5000);
	g_autoptr(GPtrArray) all = ring_walk(&r);
	for (i = 0; i < all->len; i++)
		extended += ring_at(all, (u32)i)->record.extended;
	/* every third, but for those that entered a sub-buffer */
	g_assert_cmpuint(extended, >, all->len / 3 - 17);
	g_assert_cmpuint(extended, <=, all->len / 3 + 1);
	ring_deinit(&r);
}

/* `base` is the time of the last entry or extended record: others leave it alone, also those of the full sequence, which
 * would pay for moving it as much as for being stored. */
static void test_base(gconstpointer data)
{
	static const u32 sizes[] = { 8, 240, 300, 1000, 1500 };
	static u8 bytes[1500];

	for (u32 i = 0; i < ELEMENTSOF(sizes); i++) {
		struct record_part parts[] = { { bytes + RECORD_HEADROOM, 8, 0 }, { bytes, sizes[i], 0 } };
		struct ring r;
		u64 base;

		ring_init(&r, GPOINTER_TO_UINT(data), ABI_POLICY_OVERWRITE, 0);
		g_assert_cmpint(ring_write(&r, 1, bytes, 8), ==, RECORD_DONE);
		base = r.reader.line->base;
		g_assert_cmpuint(base, ==, ((const struct abi_sub *)r.reader.data)->begin);
		g_assert_cmpint(ring_write(&r, 1, bytes, sizes[i]), ==, RECORD_DONE);
		g_assert_cmpint(ring_write_parts(&r, 1, parts, ELEMENTSOF(parts)), ==, RECORD_DONE);
		g_assert_cmpuint(r.reader.line->base, ==, base);
		ring_age(&r);
		base = r.reader.line->base;
		g_assert_cmpint(i & 1 ? ring_write(&r, 1, bytes, 4) : ring_write_parts(&r, 1, parts, 1), ==, RECORD_DONE);
		g_assert_cmpuint(r.reader.line->base, >, base);
		ring_deinit(&r);
	}
}

/* extended records that fit exactly, or not by the 8 bytes more */
static void test_extended_fit(gconstpointer data)
{
	for (u32 left = 16; left <= 40; left += 4) {
		struct ring r;
		static u8 filler[SUB];

		ring_init(&r, GPOINTER_TO_UINT(data), ABI_POLICY_OVERWRITE, 0);
		g_assert_cmpint(ring_write(&r, 1, filler, ROOM - 8 - left), ==, RECORD_DONE);
		ring_age(&r);
		g_assert_cmpint(ring_write(&r, 2, "12345678", 8), ==, RECORD_DONE);
		g_autoptr(GPtrArray) all = ring_walk(&r);
		g_assert_cmpuint(all->len, ==, 2);
		g_assert_cmpmem(ring_at(all, 1)->body, 8, "12345678", 8);
		g_assert_cmpuint(ring_at(all, 1)->record.extended, ==, left >= 24);
		g_assert_cmpuint(ring_at(all, 1)->position, ==,
				 left >= 24 ? SUB - left : SUB + ABI_SUB_HEADER);
		ring_deinit(&r);
	}
}

static void test_stale(gconstpointer data)
{
	struct ring r;
	u64 head[3] = {0}, offset = 0;
	struct record_part part = {&head[1], 8, 0};

	ring_init(&r, GPOINTER_TO_UINT(data), ABI_POLICY_OVERWRITE, BOTH);
	/* on a boundary, where the usual record is not the fast sequence's, and behind one, where it is */
	for (u32 i = 0; i < 2; i++) {
		r.slot.generation = 2;
		g_assert_cmpint(ring_write(&r, 1, "x", 1), ==, RECORD_STALE);
		r.slot.generation = 0;
		g_assert_cmpint(ring_write(&r, 1, "x", 1), ==, RECORD_STALE);
		g_assert_cmpuint(ring_offset(&r), ==, offset);
		if (i)
			break;
		r.slot.generation = 1;
		g_assert_cmpint(ring_write(&r, 1, "x", 1), ==, RECORD_DONE);
		offset = ring_offset(&r);
	}
	/* a detached slot and a caller that found none */
	g_assert_cmpint(record_write(&r.slot, 0, 1, 1, 1, &r.clock, &part, 1), ==, RECORD_STALE);
	g_assert_cmpint(record_write_side(&r.slot, 0, 1, 1, 1, &r.clock, &part, 1), ==,
			RECORD_STALE);
	record_lose(&r.slot, 1, 1, ABI_LOST_VFORK, 3);
	record_lose(&r.slot, 0, 1, ABI_LOST_VFORK, 3);
	r.slot.generation = 1;
	g_assert_cmpuint(ring_offset(&r), ==, offset);
	g_assert_cmpuint(sum_lost(&r), ==, 0);
	g_assert_cmpuint(r.slot.users, ==, 0);
	ring_deinit(&r);
}

static void test_stale_never_attached(void)
{
	static struct slot empty;
	struct record_clock clock = {ABI_CLOCK_COUNTER, 1ull << 32};
	u64 head[3] = {0};
	struct record_part part = {&head[1], 8, 0};

	g_assert_cmpint(record_write(&empty, 0, 1, 1, 1, &clock, &part, 1), ==, RECORD_STALE);
	g_assert_cmpint(record_write(&empty, 5, 1, 1, 1, &clock, &part, 1), ==, RECORD_STALE);
	record_lose(&empty, 0, 1, ABI_LOST_VFORK, 1);
	record_lose(&empty, 5, 1, ABI_LOST_VFORK, 1);
}

/* CPUs without a ring, impossible ones, threads without rseq: the side ring takes it */
static void test_no_ring(void)
{
	static const u32 cpus[] = {0, 6, 4095, 4096, 0x7fffffff, (u32)-1, (u32)-2};
	struct ring r;

	ring_init(&r, WRITER_COUNTER, ABI_POLICY_OVERWRITE, BOTH);
	reader_init(&r.reader, r.region.map, &r.geometry, 2);
	for (u32 i = 0; i < ELEMENTSOF(cpus); i++) {
		r.area.cpu = cpus[i];
		g_assert_cmpint(ring_write(&r, 1, "x", 1), ==, RECORD_DONE);
		g_assert_cmpuint(ring_count(&r), ==, 2 * i + 1);
		record_lose(&r.slot, 1, r.ids, ABI_LOST_VFORK, 2);
		g_assert_cmpuint(reader_lost_by(&r.reader, ABI_LOST_VFORK), ==, 2 * (i + 1));
		/* a map that names a ring outside */
		r.area.cpu = 7;
		r.cpu_ring[7] = (u16)(2 + i * 9000);
		g_assert_cmpint(ring_write(&r, 1, "x", 1), ==, RECORD_DONE);
		g_assert_cmpuint(ring_count(&r), ==, 2 * i + 2);
	}
	/* no rseq in the process */
	sequence_offset = 0;
	g_assert_cmpint(ring_write(&r, 1, "x", 1), ==, RECORD_DONE);
	record_lose(&r.slot, 1, r.ids, ABI_LOST_VFORK, 2);
	g_assert_cmpuint(ring_count(&r), ==, 2 * ELEMENTSOF(cpus) + 1);
	g_assert_cmpuint(sum_lost(&r), ==, 2 * ELEMENTSOF(cpus) + 2);
	ring_deinit(&r);
}

static void test_lose(gconstpointer data)
{
	struct ring r;

	ring_init(&r, WRITER_COUNTER, ABI_POLICY_OVERWRITE, BOTH);
	record_lose(&r.slot, 1, r.ids, ABI_LOST_VFORK, 1000);
	g_assert_cmpuint(reader_lost_by(&r.reader, ABI_LOST_VFORK), ==, 1000);
	record_lose(&r.slot, 1, r.ids, ABI_LOST_CAUSES, 1);
	record_lose(&r.slot, 1, r.ids, ~0u, 1);
	g_assert_cmpuint(sum_lost(&r), ==, 1000);
	ring_deinit(&r);
}

/* Every word of the line at every value: no write outside the ring, no crash, and an answer. The
 * bytes around the ring are other rings, which must stay as they are. */
static void test_hostile_line(gconstpointer data)
{
	struct ring r;
	g_autofree u8 *before = NULL;
	u64 at, size;
	static u8 body[2000];

	ring_init(&r, GPOINTER_TO_UINT(data), ABI_POLICY_OVERWRITE, BOTH);
	at = geometry_ring_at(&r.geometry, r.target);
	size = geometry_ring_size(&r.geometry, r.target);
	memset(r.region.map + ABI_PAGE + 3 * ABI_LINE, 0x5a,
	       r.region.size - ABI_PAGE - 3 * ABI_LINE);
	before = g_memdup2(r.region.map, r.region.size);
	for (u32 i = 0; i < 20000; i++) {
		struct abi_ring *line = r.reader.line;

		for (u64 *word = (u64 *)line; word < (u64 *)(line + 1); word++)
			switch (g_test_rand_int_range(0, 4)) {
			case 0:
				*word = (u64)g_test_rand_int() << 32 | (u32)g_test_rand_int();
				break;
			case 1:
				*word = (u64)g_test_rand_int_range(0, 70000);
				break;
			case 2:
				*word = ~0ull - (u64)g_test_rand_int_range(0, 5000);
				break;
			default:
				break;
			}
		line->lock = 0;
		(void)ring_write(&r, 1, body, (u32)g_test_rand_int_range(0, sizeof(body)));
		g_assert_cmpuint(line->lock, ==, 0);
	}
	for (u64 k = ABI_PAGE + 3 * ABI_LINE; k < r.region.size; k++)
		if (k < at || k >= at + size)
			if (is_side(&r) || k < geometry_ring_at(&r.geometry, 2))
				g_assert_cmpuint(r.region.map[k], ==, before[k]);
	ring_deinit(&r);
}

/* `last` from the future: the per-CPU ring refuses this clock, the side ring takes the record */
static void test_last_in_future(void)
{
	struct ring r;

	ring_init(&r, WRITER_MONOTONIC, ABI_POLICY_OVERWRITE, BOTH);
	g_assert_cmpint(ring_write(&r, 1, "x", 1), ==, RECORD_DONE);
	r.reader.line->last = ~0ull;
	g_assert_cmpint(ring_write(&r, 1, "x", 1), ==, RECORD_DONE);
	g_assert_cmpuint(ring_count(&r), ==, 1);
	reader_init(&r.reader, r.region.map, &r.geometry, 2);
	g_assert_cmpuint(ring_count(&r), ==, 1);
	/* the side ring clamps to it */
	r.reader.line->last += 1000000;
	g_assert_cmpint(ring_write(&r, 2, "x", 1), ==, RECORD_DONE);
	ring_deinit(&r);
}

static void test_last_clamped(gconstpointer data)
{
	struct ring r;
	u64 future;

	ring_init(&r, WRITER_SIDE_COUNTER + GPOINTER_TO_UINT(data) % 2, ABI_POLICY_OVERWRITE, BOTH);
	g_assert_cmpint(ring_write(&r, 1, "x", 1), ==, RECORD_DONE);
	future = r.reader.line->last + 1000000000;
	r.reader.line->last = future;
	g_assert_cmpint(ring_write(&r, 1, "x", 1), ==, RECORD_DONE);
	g_autoptr(GPtrArray) all = ring_walk(&r);
	g_assert_cmpuint(ring_at(all, 1)->record.time, ==, future);
	ring_deinit(&r);
}

static void test_busy(void)
{
	struct ring r;
	sigset_t before, after;

	sigprocmask(SIG_BLOCK, NULL, &before);
	ring_init(&r, WRITER_SIDE_COUNTER, ABI_POLICY_OVERWRITE, BOTH);
	r.reader.line->lock = 9ull << 32 | 99;
	g_assert_cmpint(ring_write(&r, 1, "x", 1), ==, RECORD_LOST);
	g_assert_cmpuint(reader_lost_by(&r.reader, ABI_LOST_BUSY), ==, 1);
	g_assert_cmpuint(r.reader.line->lock, ==, 9ull << 32 | 99);
	g_assert_cmpuint(r.slot.users, ==, 0);
	g_assert_true(side_break(r.reader.line, 9, 0));
	g_assert_cmpint(ring_write(&r, 1, "x", 1), ==, RECORD_DONE);
	g_assert_cmpuint(r.reader.line->lock, ==, 0);
	sigprocmask(SIG_BLOCK, NULL, &after);
	g_assert_cmpmem(&before, 8, &after, 8);
	ring_deinit(&r);
}

static void test_clock(void)
{
	struct record_clock counter = {ABI_CLOCK_COUNTER, 1ull << 32};
	struct record_clock monotonic = {ABI_CLOCK_MONOTONIC, 0};
	struct record_clock none = {ABI_CLOCK_COUNTER,
				    0}; /* a page that says nonsense: no zero times */
	u64 a = record_clock_now(&counter), b = record_clock_now(&monotonic);

	g_assert_cmpuint(record_clock_now(&counter), >, a);
	g_assert_cmpuint(record_clock_now(&monotonic), >=, b);
	g_assert_cmpuint(record_clock_now(&none), >=, b);
}

/* ---- pinned ---- */

#define PINNED 4 /* the second of them */

static enum record_result pin(struct ring *r, u32 id, const void *data, u32 size)
{
	g_autofree u8 *head = g_malloc0(RECORD_HEADROOM + size + 8);
	struct record_part part = { .data = head + RECORD_HEADROOM, .size = size };

	if (size)
		memcpy(head + RECORD_HEADROOM, data, size);
	return record_write_pinned(&r->slot, 1, id, r->ids, 5, &r->clock, &part, 1);
}

static struct abi_ring *line_at(struct ring *r, u32 ring)
{
	return (struct abi_ring *)(r->region.map + ABI_PAGE) + ring;
}

static void look_at(struct ring *r, u32 ring)
{
	r->target = ring;
	reader_init(&r->reader, r->region.map, &r->geometry, ring);
}

/* The header page of a region can be written by every producer of its owner: whoever maps and reads a ring goes by the
 * geometry that came another way. Small numbers, so that who believes them meets his own records, and nobody's memory. */
static void test_header_lies(gconstpointer data)
{
	static const u8 filler[256];
	struct abi_region *header;
	struct ring r;

	ring_init(&r, GPOINTER_TO_UINT(data), ABI_POLICY_OVERWRITE, 0);
	r.slot.generation = 0; /* as if it had never been attached: the sequences here are not ones that could be fenced */
	header = (struct abi_region *)r.region.map;
	header->ring_shift = header->side_shift = header->pinned_shift = 11;
	header->sub_shift = header->side_sub_shift = header->pinned_sub_shift = 9;
	header->n_ring = header->n_side = 1;
	header->contexts = ABI_CONTEXT_VPID;
	header->policy = ABI_POLICY_DISCARD;
	header->size = ABI_PAGE;
	g_assert_cmpint(slot_attach(&r.slot, r.region.fd, &r.geometry, 1, r.cpu_ring, NULL, 0), ==, 0);
	sequence_offset = (char *)&r.area - sequence_thread_pointer(); /* which attaching has found out anew */
	reader_init(&r.reader, r.region.map, &r.geometry, r.target);
	for (u32 i = 0; i < 3000; i++)
		g_assert_cmpint(ring_write(&r, 1, filler, i * 7 % 130), ==, RECORD_DONE);
	g_autoptr(GPtrArray) all = ring_walk(&r);
	g_assert_cmpuint(ring_count(&r), ==, 3000);
	/* 14/16 of a ring that is as large as it is */
	g_assert_cmpuint(ring_offset(&r) - ring_at(all, 0)->position, >=, 14 * SUB - ABI_SUB_HEADER);
	for (u32 i = 0; i < all->len; i++)
		g_assert_cmpuint(ring_at(all, i)->record.body_size, ==, (3000 - all->len + i) * 7 % 130);
	ring_deinit(&r);
}

/* The first ones stay, the rest goes where it would have gone, and each of those is counted. */
static void test_pinned(gconstpointer data)
{
	u32 usual, fit;
	struct ring r;

	ring_init(&r, GPOINTER_TO_UINT(data), ABI_POLICY_OVERWRITE, BOTH);
	usual = is_side(&r) ? 1 : r.target; /* a sequence's, also where this writer writes aside */
	slot_pin(&r.slot, PINNED);
	errno = 42;
	for (u64 i = 0; i < 20000; i++)
		g_assert_cmpint(pin(&r, 9, &i, 8), ==, RECORD_DONE);
	g_assert_cmpint(errno, ==, 42);
	fit = 8 * ((1024 - ABI_SUB_HEADER) / 24);
	g_assert_cmpuint(line_at(&r, PINNED)->unpinned, ==, 20000 - fit);
	g_assert_cmpuint(sum_lost(&r), ==, 0);
	look_at(&r, PINNED);
	g_assert_cmpuint(reader_lost(&r.reader), ==, 0);
	{
		g_autoptr(GPtrArray) all = ring_walk(&r);

		g_assert_cmpuint(all->len, ==, fit);
		for (u64 i = 0; i < all->len; i++) {
			g_assert_cmpmem(ring_at(all, (u32)i)->body, 8, &r.ids, 8);
			g_assert_cmpmem(ring_at(all, (u32)i)->body + 8, 8, &i, 8);
		}
	}
	look_at(&r, usual);
	g_assert_cmpuint(ring_count(&r), ==, 20000 - fit);
	{
		g_autoptr(GPtrArray) all = ring_walk(&r);
		u64 last = 19999;

		g_assert_cmpmem(ring_at(all, all->len - 1)->body + 8, 8, &last, 8);
	}
	/* the daemon gives away what was there: there is room again, and the count goes on */
	look_at(&r, PINNED);
	reader_consume(&r.reader, ring_offset(&r) & ~1023ull);
	for (u64 i = 0; i < 3; i++)
		g_assert_cmpint(pin(&r, 9, &i, 8), ==, RECORD_DONE);
	g_assert_cmpuint(ring_count(&r), ==, fit + 3);
	{
		g_autoptr(GPtrArray) all = ring_walk(&r);

		g_assert_cmpuint(all->len, ==, 3);
	}
	ring_deinit(&r);
}

/* What is too large for it, parts and none at all. */
static void test_pinned_shapes(gconstpointer data)
{
	static u8 bytes[2000];
	const struct record_part parts[] = { { bytes + 8, 0, 0 }, { "hello", 6, 1 }, { bytes + 16, 40, 0 } };
	struct ring r;

	ring_init(&r, GPOINTER_TO_UINT(data), ABI_POLICY_DISCARD, 0);
	slot_pin(&r.slot, PINNED);
	g_assert_cmpint(pin(&r, 1, bytes, 1500), ==, RECORD_DONE);
	g_assert_cmpuint(line_at(&r, PINNED)->unpinned, ==, 1);
	g_assert_cmpint(record_write_pinned(&r.slot, 1, 2, r.ids, 5, &r.clock, parts, 3), ==, RECORD_DONE);
	g_assert_cmpint(record_write_pinned(&r.slot, 1, 3, r.ids, 5, &r.clock, NULL, 0), ==, RECORD_DONE);
	look_at(&r, PINNED);
	{
		g_autoptr(GPtrArray) all = ring_walk(&r);

		g_assert_cmpuint(all->len, ==, 2);
		g_assert_cmpstr((char *)ring_at(all, 0)->body, ==, "hello");
		g_assert_cmpuint(ring_at(all, 0)->record.body_size, ==, 46);
		g_assert_cmpuint(ring_at(all, 1)->record.id, ==, 3);
	}
	look_at(&r, 1);
	g_assert_cmpuint(ring_count(&r), ==, 1);
	/* too large for any ring: lost once, and not counted for a pinned one */
	{
		g_autofree u8 *huge = g_malloc0(70000);
		struct record_part part = { huge + RECORD_HEADROOM, 66000, 0 };

		g_assert_cmpint(record_write_pinned(&r.slot, 1, 1, r.ids, 5, &r.clock, &part, 1), ==, RECORD_LOST);
	}
	g_assert_cmpuint(sum_lost(&r), ==, 1);
	g_assert_cmpuint(line_at(&r, PINNED)->unpinned, ==, 1);
	ring_deinit(&r);
}

/* No ring of its own, or a number that is none: as without, and counted. */
static void test_pinned_none(gconstpointer data)
{
	static const u32 none[] = { 0, 1, 2, 5, 77, UINT32_MAX };
	struct ring r;
	u64 value = 1;

	ring_init(&r, GPOINTER_TO_UINT(data), ABI_POLICY_OVERWRITE, BOTH);
	for (u32 i = 0; i < ELEMENTSOF(none); i++) {
		slot_pin(&r.slot, none[i]);
		g_assert_cmpint(pin(&r, 1, &value, 8), ==, RECORD_DONE);
		g_assert_cmpuint(line_at(&r, 2)->unpinned, ==, i + 1);
	}
	look_at(&r, 1);
	g_assert_cmpuint(ring_count(&r), ==, ELEMENTSOF(none));
	slot_pin(&r.slot, 3);
	g_assert_cmpint(record_write_pinned(&r.slot, 2, 1, r.ids, 5, &r.clock, NULL, 0), ==, RECORD_STALE);
	g_assert_cmpint(record_write_pinned(&r.slot, 0, 1, r.ids, 5, &r.clock, NULL, 0), ==, RECORD_STALE);
	ring_deinit(&r);
}

/* Another program writes over its words: no store leaves the ring, and the record is somewhere. */
static void test_pinned_hostile(gconstpointer data)
{
	static const u64 words[] = { 0, 1, 4, 1020, 1024, 8191, 8192, 1ull << 40, 1ull << 63, ~0ull, ~0ull - 1023 };
	struct ring r;

	ring_init(&r, GPOINTER_TO_UINT(data), ABI_POLICY_OVERWRITE, BOTH);
	slot_pin(&r.slot, 3);
	for (u32 a = 0; a < ELEMENTSOF(words); a++)
		for (u32 b = 0; b < ELEMENTSOF(words); b++) {
			struct abi_ring *line = line_at(&r, 3);
			u64 i = a;

			line->offset = words[a];
			line->consumed = words[b];
			line->base = line->last = words[(a + b) % ELEMENTSOF(words)];
			line->lock = 0;
			for (u32 k = 0; k < 40; k++)
				g_assert_cmpint(pin(&r, 1, &i, 8), ==, RECORD_DONE);
		}
	/* a lock that nobody gives back: refused in bounded time */
	line_at(&r, 3)->lock = 77;
	g_assert_cmpint(pin(&r, 1, words, 8), ==, RECORD_DONE);
	g_assert_cmpuint(line_at(&r, 4)->offset, ==, 0); /* its neighbour, and what is behind it */
	for (u64 at = geometry_ring_at(&r.geometry, 4); at < r.region.size; at++)
		g_assert_cmpuint(r.region.map[at], ==, 0);
	ring_deinit(&r);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	ring_test_add("one", test_one);
	ring_test_add("contexts", test_contexts);
	ring_test_add("no-parts", test_no_parts);
	ring_test_add("fit/exact-and-not", test_fit);
	ring_test_add("fit/fast", test_fit_fast);
	ring_test_add("wrap", test_wrap);
	ring_test_add("policy/discard", test_discard);
	ring_test_add("policy/hold", test_hold);
	ring_test_add("policy/hold-absurd", test_hold_absurd);
	ring_test_add("big/head", test_big);
	ring_test_add("big/parts", test_big_parts);
	ring_test_add("parts/all", test_parts);
	ring_test_add("parts/string-shortened", test_string_shortened);
	ring_test_add("parts/head-edge", test_head_edge);
	ring_test_add("extended/base", test_extended);
	ring_test_add("base", test_base);
	ring_test_add("extended/fit", test_extended_fit);
	ring_test_add("stale", test_stale);
	ring_test_add("lose", test_lose);
	ring_test_add("hostile-line", test_hostile_line);
	ring_test_add("header-lies", test_header_lies);
	ring_test_add("pinned/first-stay", test_pinned);
	ring_test_add("pinned/shapes", test_pinned_shapes);
	ring_test_add("pinned/none", test_pinned_none);
	ring_test_add("pinned/hostile", test_pinned_hostile);
	ring_test_add("last/clamped", test_last_clamped);
	g_test_add_func("/record/last/in-future", test_last_in_future);
	g_test_add_func("/record/stale/never-attached", test_stale_never_attached);
	g_test_add_func("/record/no-ring", test_no_ring);
	g_test_add_func("/record/busy", test_busy);
	g_test_add_func("/record/clock", test_clock);
	return g_test_run();
}
