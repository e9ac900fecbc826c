/* SPDX-License-Identifier: MIT */
/* The ring on an architecture that has no test libraries here: built by a cross compiler, run by an
 * emulator where there is one, and natively. Every form of record by every writer, walked and
 * compared; prints one line per failure. The rseq area is ordinary memory, so nothing is ever
 * restarted. */
#include "lib/reader.h"
#include "lib/record.h"
#include "lib/region.h"
#include "lib/sequence.h"

#include <stdio.h>

#define SUB   4096u
#define SIZES 300u

static u32 failures;
#define CHECK(x)                                                                                   \
	do {                                                                                       \
		if (!(x) && failures++ < 20)                                                       \
			printf("%s:%d: not %s\n", __FILE__, __LINE__, #x);                         \
	} while (0)

static struct {
	u32 start, cpu;
	u64 cs;
	u32 reserved[4];
} __attribute__((aligned(32))) area;
static u16 cpu_ring[ABI_MAX_CPUS];

struct walk {
	u64 records, extended, first, count;
};

/* fields: u64 number, then number % SIZES bytes of a pattern, then for every fourth a string part
 */
static u32 body_of(u64 n, u8 *p)
{
	u32 size = 8 + (u32)(n % SIZES);

	memcpy(p, &n, 8);
	for (u32 i = 8; i < size; i++)
		p[i] = (u8)(n * 7 + i);
	return size;
}

static u32 string_of(u64 n, char *p)
{
	u32 size = (u32)(n / 4 % 41);

	memset(p, 'a' + (int)(n % 26), size);
	p[size] = 0;
	if (n % 8 == 0 && size > 3) /* shortened behind our back */
		p[size - 3] = 0;
	return size + 1;
}

static struct walk walk(const struct reader *r, u64 ids)
{
	struct walk w = {0};
	u64 offset, next = 0, floor = 0;
	bool first = true;

	CHECK(reader_position(r, &offset, &w.count) == 0);
	for (u64 at = reader_first_whole(offset, r->size, r->sub_size); at < offset;
	     at += r->sub_size) {
		const u8 *sub = r->data + (at & (r->size - 1));
		const struct abi_sub *h = (const struct abi_sub *)sub;
		u64 end = at + r->sub_size > offset ? offset : h->end, clock = h->begin;

		CHECK(h->position == at && end <= at + r->sub_size);
		for (u64 in = ABI_SUB_HEADER; at + in < end;) {
			struct record one;
			u32 step = record_parse(sub + in, end - at - in, &clock, &one), size;
			u8 fields[8 + SIZES];
			u64 n = 0;

			CHECK(step && one.body_size >= 16);
			if (!step || one.body_size < 16)
				return w;
			CHECK(!memcmp(one.body, &ids, 8));
			memcpy(&n, one.body + 8, 8);
			if (first)
				w.first = n;
			CHECK(first || n == next);
			first = false;
			next = n + 1;
			size = body_of(n, fields);
			CHECK(!memcmp(one.body + 8, fields, size));
			if (n % 4 == 0) {
				char text[64];
				u32 bytes = string_of(n, text);

				CHECK(one.body_size == 8 + size + bytes);
				if (n % 8 == 0 && bytes > 4)
					memset(text + bytes - 4, '#', 3);
				CHECK(!memcmp(one.body + 8 + size, text, bytes));
			} else {
				CHECK(one.body_size == 8 + size);
			}
			CHECK(one.time >= floor && one.id == 1 + n % 100);
			floor = one.time;
			w.records++;
			w.extended += one.extended;
			in += step;
		}
	}
	CHECK(next == w.count);
	return w;
}

static void run(u32 kind, bool side, u32 policy)
{
	static const u32 rings[] = {0, 1};
	const struct geometry g = {16, 12, 16,     12,
				   2,  1,  policy, ABI_CONTEXT_VPID | ABI_CONTEXT_VTID};
	const struct record_clock clock = {kind, 1ull << 32};
	const u64 ids = 1000 | 2000ull << 32;
	struct region region = REGION_NULL;
	struct slot slot = {0};
	struct reader r;
	struct walk w;
	u64 lost = 0, done = 0;

	CHECK(region_create(&region, "port", &g, 0, 1, rings, 2) == 0);
	CHECK(slot_attach(&slot, region.fd, &g, 1, cpu_ring, NULL, 0) == 0);
	sequence_offset = (char *)&area - sequence_thread_pointer();
	reader_init(&r, region.map, &g, side ? 2 : 1);
	for (u64 n = 0; n < 3000; n++) {
		u64 head[4 + SIZES / 8] = {0};
		char text[64];
		struct record_part parts[2] = {{&head[1], 0, 0}, {text, 0, 1}};
		enum record_result result;

		parts[0].size = body_of(done, (u8 *)&head[1]);
		parts[1].size = string_of(done, text);
		if (n % 5 == 1)
			r.line->base -= 5 * NSEC_PER_SEC; /* as after a long silence */
		result = (side ? record_write_side : record_write)(
		    &slot, 1, 1 + (u32)(done % 100), ids, 9, &clock, parts, done % 4 == 0 ? 2 : 1);
		CHECK(result != RECORD_STALE);
		if (result == RECORD_DONE)
			done++;
		else
			lost++;
	}
	w = walk(&r, ids);
	CHECK(w.count == done && w.extended > w.records / 10);
	if (policy == ABI_POLICY_OVERWRITE) {
		CHECK(!lost && w.first > 0);
		/* held: a lap at most, then losses */
		reader_hold(&r, record_clock_now(&clock) + ABI_HOLD_NS);
		for (u32 i = 0; i < 1000; i++) {
			u64 head[2] = {0, done};
			struct record_part part = {&head[1], 8, 0};

			(void)(side ? record_write_side : record_write)(&slot, 1, 1, ids, 9, &clock,
									&part, 1);
		}
		reader_release(&r);
		CHECK(reader_lost_by(&r, ABI_LOST_HELD) > 0 || r.line->offset < 2 * r.size);
	} else {
		CHECK(lost == reader_lost_by(&r, ABI_LOST_FULL) && lost);
	}
	record_lose(&slot, 1, ids, ABI_LOST_VFORK, 77);
	reader_init(&r, region.map, &g, 1);
	CHECK(reader_lost_by(&r, ABI_LOST_VFORK) == 77);
	{
		static u8 huge[2 * SUB];
		struct record_part part = {huge + 8, SUB, 0};

		CHECK(record_write(&slot, 1, 1, ids, 9, &clock, &part, 1) == RECORD_LOST);
		CHECK(reader_lost_by(&r, ABI_LOST_BIG) == 1);
		CHECK(record_write(&slot, 2, 1, ids, 9, &clock, &part, 1) == RECORD_STALE);
	}
	sequence_offset = 0;
	slot_detach(&slot);
	region_close(&region);
}

int main(void)
{
	for (u32 i = 0; i < ABI_MAX_CPUS; i++)
		cpu_ring[i] = ABI_NO_RING;
	cpu_ring[3] = 1;
	area.cpu = 3;
	for (u32 kind = ABI_CLOCK_COUNTER; kind <= ABI_CLOCK_MONOTONIC; kind++)
		for (u32 side = 0; side < 2; side++)
			for (u32 policy = 0; policy < 3; policy++)
				run(kind, side, policy);
	printf("%u failures\n", failures);
	return failures != 0;
}
