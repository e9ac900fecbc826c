/* SPDX-License-Identifier: MIT */
#include "tests/unit/lib/ring.h"

const char *const writer_names[N_WRITERS] = {"counter", "monotonic", "side-counter",
					     "side-monotonic"};

/* Nanoseconds, or near enough: the counter of x86-64 is about as fast, the other one is told. */
static u64 counter_mult(void)
{
#if defined(__aarch64__)
	u64 hz;

	__asm__("mrs %0, cntfrq_el0" : "=r"(hz));
	return (NSEC_PER_SEC << 32) / hz;
#else
	return 1ull << 32;
#endif
}

void ring_init(struct ring *r, enum writer w, u32 policy, u32 contexts)
{
	static const u32 rings[] = {0, 1};

	memset(r, 0, sizeof(*r));
	r->geometry = (struct geometry){
	    .ring_shift = 16,
	    .sub_shift = 12,
	    .side_shift = 16,
	    .side_sub_shift = 12,
	    .n_ring = 2,
	    .n_side = 1,
	    .pinned_shift = 13,
	    .pinned_sub_shift = 10,
	    .n_pinned = 2,
	    .policy = policy,
	    .contexts = contexts,
	};
	r->writer = w;
	r->ids = 0x11111111 | 0x22222222ull << 32;
	r->clock.kind = w == WRITER_COUNTER || w == WRITER_SIDE_COUNTER ? ABI_CLOCK_COUNTER
									: ABI_CLOCK_MONOTONIC;
	r->clock.mult = counter_mult();
	r->target = w == WRITER_COUNTER || w == WRITER_MONOTONIC ? 1 : 2;
	/* CPU 7 writes to ring 1 */
	for (u32 i = 0; i < ABI_MAX_CPUS; i++)
		r->cpu_ring[i] = ABI_NO_RING;
	r->cpu_ring[7] = 1;
	r->area.cpu = 7;
	g_assert_cmpint(
	    region_create(&r->region, "test", &r->geometry, 3, 1, rings, ELEMENTSOF(rings)), ==, 0);
	g_assert_cmpint(slot_attach(&r->slot, r->region.fd, &r->geometry, 1, r->cpu_ring, NULL, 0),
			==, 0);
	sequence_offset = (char *)&r->area - sequence_thread_pointer();
	reader_init(&r->reader, r->region.map, &r->geometry, r->target);
}

void ring_deinit(struct ring *r)
{
	sequence_offset = 0;
	slot_detach(&r->slot);
	region_close(&r->region);
}

enum record_result ring_write_parts(struct ring *r, u32 id, const struct record_part *parts, u32 n)
{
	if (r->writer == WRITER_SIDE_COUNTER || r->writer == WRITER_SIDE_MONOTONIC)
		return record_write_side(&r->slot, 1, id, r->ids, 5, &r->clock, parts, n);
	return record_write(&r->slot, 1, id, r->ids, 5, &r->clock, parts, n);
}

enum record_result ring_write(struct ring *r, u32 id, const void *data, u32 size)
{
	g_autofree u8 *head = g_malloc0(RECORD_HEADROOM + size + 8);
	struct record_part part = {.data = head + RECORD_HEADROOM, .size = size};

	if (size)
		memcpy(head + RECORD_HEADROOM, data, size);
	return ring_write_parts(r, id, &part, 1);
}

void ring_age(struct ring *r)
{
	u64 now;

	while ((now = record_clock_now(&r->clock)) < RING_AGE)
		g_usleep((RING_AGE - now) / 1000 + 1); /* the clock began with the machine: until there was such a time */
	r->reader.line->base = MIN(r->reader.line->base, now - RING_AGE);
}

u64 ring_offset(const struct ring *r)
{
	u64 offset, count;

	g_assert_cmpint(reader_position(&r->reader, &offset, &count), ==, 0);
	return offset;
}

u64 ring_count(const struct ring *r)
{
	u64 offset, count;

	g_assert_cmpint(reader_position(&r->reader, &offset, &count), ==, 0);
	return count;
}

GPtrArray *ring_walk(const struct ring *r)
{
	GPtrArray *all = g_ptr_array_new_with_free_func(g_free);
	u64 sub_size = r->reader.sub_size, size = r->reader.size, offset, count, floor = 0;
	u64 running = G_MAXUINT64, at;

	g_assert_cmpint(reader_position(&r->reader, &offset, &count), ==, 0);
	at = geometry_is_pinned(&r->geometry, r->target) ? r->reader.line->consumed :
							     reader_first_whole(offset, size, sub_size);
	for (; at < offset; at += sub_size) {
		const u8 *sub = r->reader.data + (at & (size - 1));
		const struct abi_sub *h = (const struct abi_sub *)sub;
		u64 end = at + sub_size > offset ? offset : h->end, clock = h->begin;

		g_assert_cmpuint(h->position, ==, at);
		g_assert_cmpuint(end, >, at + ABI_SUB_HEADER);
		g_assert_cmpuint(end, <=, at + sub_size);
		if (running != G_MAXUINT64)
			g_assert_cmpuint(h->count, ==, running);
		running = h->count;
		for (u64 in = ABI_SUB_HEADER; at + in < end;) {
			struct ring_record *one;
			struct record record;
			u32 step = record_parse(sub + in, end - at - in, &clock, &record);

			g_assert_cmpuint(step, >, 0);
			one = g_malloc(sizeof(*one) + record.body_size);
			one->record = record;
			g_assert_cmpuint(one->record.time, >=, floor);
			if (in == ABI_SUB_HEADER) {
				g_assert_cmpuint(one->record.time, ==, h->begin);
				g_assert_false(one->record.extended);
			}
			floor = one->record.time;
			one->position = at + in;
			memcpy(one->body, one->record.body, one->record.body_size);
			one->record.body = one->body;
			g_ptr_array_add(all, one);
			in += step;
			running++;
		}
	}
	g_assert_cmpuint(offset ? running : 0, ==, count);
	return all;
}

void ring_test_add(const char *name, void (*test)(gconstpointer))
{
	for (u32 w = 0; w < N_WRITERS; w++) {
		g_autofree char *path = g_strdup_printf("/record/%s/%s", name, writer_names[w]);

		g_test_add_data_func(path, GUINT_TO_POINTER(w), test);
	}
}
