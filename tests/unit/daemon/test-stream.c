/* SPDX-License-Identifier: MIT */
/* Streams over real rings: a writer thread, or several at a side ring, and every record seen once or counted. */
#include "tests/unit/daemon/packets.h"
#include "tests/unit/lib/ring.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>

#include "lib/atomic.h"

#define N_RECORDS 100000

typedef struct {
	struct ring *ring;
	u32 done;   /* release: all is written; pairs with the acquire of the consumer */
	u32 seed;
	u64 pause;  /* lets the consumer in after so many records, now and then; 0: never */
	u64 written, lost;
} Writer;

/* Numbers its records by what the ring has: only one that was recorded takes a number. */
static void *write_all(void *userdata)
{
	Writer *w = userdata;
	GRand *rand = g_rand_new_with_seed(w->seed);
	u8 body[64] = { 0 };

	memset(body + 8, 'x', 40);
	sequence_offset = (char *)&w->ring->area - sequence_thread_pointer();
	for (u32 i = 0; i < N_RECORDS; i++) {
		u32 text = (u32)g_rand_int_range(rand, 0, 40), size = 8;
		enum record_result r;
		u8 copy[64];

		memcpy(body, &w->written, 8);
		memcpy(copy, body, sizeof(copy));
		if (text >= 20) {
			copy[8 + text] = 0;
			size = 8 + text + 1;
		}
		r = ring_write(w->ring, size > 8 ? 2 : 1, copy, size);
		if (r == RECORD_DONE)
			w->written++;
		else
			w->lost++;
		if (w->pause && i % w->pause == 0)
			sched_yield();
	}
	g_rand_free(rand);
	store_release_u32(&w->done, 1);
	return NULL;
}

static void check_end(Packets *p, const Writer *w)
{
	const StreamCounters *c = &p->stream.counters;
	u64 said;

	g_assert_cmpuint(c->kept + c->overwritten + c->corrupt, ==, w->written);
	g_assert_cmpuint(c->corrupt, ==, 0);
	g_assert_cmpuint(ring_count(w->ring), ==, w->written);
	(void)stream_unsaid(&p->stream, &said);
	g_assert_cmpuint(c->lost, ==, w->lost);
	g_assert_cmpuint(said, ==, c->lost + c->overwritten + c->corrupt);
	g_assert_cmpuint(said, >=, p->discarded);
	g_assert_cmpuint(stream_unsaid(&p->stream, &said), ==, 0);
	g_assert_false(stream_ready(&p->stream, true));
	g_test_message("%" G_GUINT64_FORMAT " written, %" G_GUINT64_FORMAT " kept, %" G_GUINT64_FORMAT
		       " overwritten, %" G_GUINT64_FORMAT " lost, %" G_GUINT64_FORMAT " packets",
		       w->written, c->kept, c->overwritten, c->lost, p->packets);
}

static void wake(u32 *word)
{
	(void)fetch_add_seq_cst_u32(word, 1);
	(void)syscall(SYS_futex, word, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

static void run(enum writer kind, u32 policy, u64 pause, u32 idle)
{
	u32 progress = 0, session = 1, wake_word = 0;
	struct ring ring;
	Writer w = { .ring = &ring, .seed = (u32)g_test_rand_int(), .pause = pause };
	Packets p;
	GThread *thread;
	bool done;

	ring_init(&ring, kind, policy, ABI_CONTEXT_VPID);
	if (policy == ABI_POLICY_BLOCK) {
		ring.slot.wake = &wake_word;
		ring.slot.progress = &progress;
		ring.slot.session = &session;
		ring.slot.block_timeout_us = 60000000;
	}
	packets_init(&p, ring.region.map, ring.region.fd, &ring.geometry, ring.target, &ring.clock);
	p.numbered = true;
	thread = g_thread_new("writer", write_all, &w);
	do {
		unsigned flags = g_test_rand_int_range(0, 3) ? 0 : STREAM_PARTIAL;
		bool release = g_test_rand_int_range(0, 8) > 0;
		StreamPacket k;
		int r;

		done = load_acquire_u32(&w.done);
		if (done)
			flags = STREAM_PARTIAL;
		for (u32 i = 0; i < idle && !done && g_test_rand_int_range(0, 2); i++)
			sched_yield();
		r = packets_take(&p, flags, release, &k);
		g_assert_cmpint(r, >=, 0);
		if (r == 1 && release && policy == ABI_POLICY_BLOCK)
			wake(&progress);
		if (r == 1)
			done = false; /* not the last */
		else if (!done)
			sched_yield();
	} while (!done);
	g_thread_join(thread);
	packets_drain(&p, STREAM_PARTIAL);
	check_end(&p, &w);
	if (policy == ABI_POLICY_BLOCK)
		g_assert_cmpuint(w.lost, ==, 0);
	if (policy != ABI_POLICY_OVERWRITE)
		g_assert_cmpuint(p.stream.counters.overwritten, ==, 0);
	packets_clear(&p);
	ring_deinit(&ring);
}

static void test_discard(gconstpointer kind)
{
	run(GPOINTER_TO_UINT(kind), ABI_POLICY_DISCARD, 0, 0);
	run(GPOINTER_TO_UINT(kind), ABI_POLICY_DISCARD, 500, 0);
}

static void test_overwrite(gconstpointer kind)
{
	run(GPOINTER_TO_UINT(kind), ABI_POLICY_OVERWRITE, 0, 0);
	run(GPOINTER_TO_UINT(kind), ABI_POLICY_OVERWRITE, 500, 0);
	run(GPOINTER_TO_UINT(kind), ABI_POLICY_OVERWRITE, 300, 50);
}

static void test_block(gconstpointer kind)
{
	run(GPOINTER_TO_UINT(kind), ABI_POLICY_BLOCK, 0, 0);
}

/* What the sum says between takes of a ring that nobody takes from is in the ring, also after whole laps. */
static void test_laps(gconstpointer kind)
{
	struct ring ring;
	Packets p;

	ring_init(&ring, GPOINTER_TO_UINT(kind), ABI_POLICY_OVERWRITE, 0);
	packets_init(&p, ring.region.map, ring.region.fd, &ring.geometry, ring.target, &ring.clock);
	p.numbered = true;
	for (u64 n = 0, until = 1; until < 60000; until = until * 7 + 1) {
		u64 before = n;

		for (; n < until; n++)
			g_assert_cmpint(ring_write(&ring, 1, &n, sizeof(n)), ==, RECORD_DONE);
		(void)packets_drain(&p, before % 2 ? STREAM_PARTIAL : 0);
		g_assert_cmpuint(p.next, <=, n);
		/* what is left is in the sub-buffer that the writer is in */
		g_assert_cmpuint(n - p.next, <=, 4096 / 16);
		g_assert_true(before % 2 == 0 || p.next == n);
	}
	packets_clear(&p);
	ring_deinit(&ring);
}

static u64 fill(struct ring *ring, u64 *n)
{
	u64 before = *n;

	while (ring_write(ring, 1, n, sizeof(*n)) == RECORD_DONE)
		++*n;
	return *n - before;
}

/* What was taken is the writers' only when it was given back; a sub-buffer as a whole, when all before it was. A stream that
 * begins anew, as after a kill, has everything that was not. */
static void test_given(gconstpointer kind)
{
	g_autoptr(GArray) positions = g_array_new(false, false, sizeof(u64)), numbers = g_array_new(false, false, sizeof(u64));
	u64 n = 0, sub, given = 0, first;
	struct ring ring;
	StreamPacket k;
	Packets p;

	ring_init(&ring, GPOINTER_TO_UINT(kind), ABI_POLICY_DISCARD, 0);
	packets_init(&p, ring.region.map, ring.region.fd, &ring.geometry, ring.target, &ring.clock);
	p.keeps = true;
	sub = p.stream.reader.sub_size;
	/* a part of the first sub-buffer, the rest of it, and all others */
	for (; n < 10; n++)
		g_assert_cmpint(ring_write(&ring, 1, &n, sizeof(n)), ==, RECORD_DONE);
	g_assert_cmpint(packets_take(&p, STREAM_PARTIAL, true, &k), ==, 1);
	g_array_append_val(positions, k.position);
	g_assert_cmpuint(fill(&ring, &n), >, 0);
	while (packets_take(&p, STREAM_PARTIAL, true, &k) == 1)
		g_array_append_val(positions, k.position);
	g_assert_cmpuint(p.stream.counters.kept, ==, n);
	g_assert_cmpuint(positions->len, >, ABI_MIN_SUBS);
	g_assert_cmpuint(fill(&ring, &n), ==, 0);
	g_assert_cmpuint(p.stream.reader.line->consumed, ==, 0);
	for (u32 i = 0; i < positions->len; i++) {
		u64 at = g_array_index(positions, u64, i);

		/* what is no position, and what was given before, is nothing */
		stream_give(&p.stream, p.stream.done + sub);
		stream_give(&p.stream, 0);
		stream_give(&p.stream, at);
		stream_give(&p.stream, at);
		g_assert_cmpuint(p.stream.reader.line->consumed, ==, at & ~(sub - 1));
		g_assert_cmpuint(stream_given(&p.stream), ==, at & ~(sub - 1));
		if (i == positions->len / 2)
			given = at & ~(sub - 1);
		if (!given)
			continue;
		/* the second half of the ring is not given back: killed now */
		packets_restart(&p, ring.region.map, ring.region.fd, &ring.geometry, ring.target, &ring.clock);
		p.numbers = numbers;
		(void)packets_drain(&p, STREAM_PARTIAL);
		break;
	}
	g_assert_cmpuint(given, >, 0);
	g_assert_cmpuint(numbers->len, >, 0);
	first = g_array_index(numbers, u64, 0);
	for (u32 i = 0; i < numbers->len; i++)
		g_assert_cmpuint(g_array_index(numbers, u64, i), ==, first + i);
	g_assert_cmpuint(first + numbers->len, ==, n);
	/* all of it, at once, from the last one */
	stream_give(&p.stream, p.stream.last);
	g_assert_cmpuint(p.stream.reader.line->consumed, ==, p.stream.done & ~(sub - 1));
	g_assert_cmpuint(fill(&ring, &n), >, 0);
	p.numbers = NULL;
	packets_clear(&p);
	ring_deinit(&ring);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	for (u32 w = 0; w < N_WRITERS; w++) {
		static const struct {
			const char *name;
			GTestDataFunc fn;
		} tests[] = { { "discard", test_discard },
			      { "overwrite", test_overwrite },
			      { "block", test_block },
			      { "given", test_given },
			      { "laps", test_laps } };

		for (u32 i = 0; i < ELEMENTSOF(tests); i++) {
			g_autofree char *path = g_strdup_printf("/stream/%s/%s", tests[i].name, writer_names[w]);

			g_test_add_data_func(path, GUINT_TO_POINTER(w), tests[i].fn);
		}
	}
	return g_test_run();
}
