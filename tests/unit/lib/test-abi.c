/* SPDX-License-Identifier: MIT */
/* The numbers of the shared bytes, once more and independently of the header's own asserts, and a
 * record as it must look. A change here is a change of the ABI. */
#include "tests/unit/lib/ring.h"

static void test_sizes(void)
{
	g_assert_cmpuint(sizeof(struct abi_control_page), ==, 20480);
	g_assert_cmpuint(offsetof(struct abi_control_page, cpu_ring), ==, 4096);
	g_assert_cmpuint(offsetof(struct abi_control_page, mask), ==, 12288);
	g_assert_cmpuint(offsetof(struct abi_control, slot_generation), ==, 256);
	g_assert_cmpuint(sizeof(struct abi_region), ==, 80);
	g_assert_cmpuint(sizeof(struct abi_ring), ==, 256);
	g_assert_cmpuint(offsetof(struct abi_ring, lost), ==, 64);
	g_assert_cmpuint(offsetof(struct abi_ring, consumed), ==, 128);
	g_assert_cmpuint(offsetof(struct abi_ring, lock), ==, 192);
	g_assert_cmpuint(sizeof(struct abi_sub), ==, 128);
	/* writers, losses, daemon and lock each on cache lines of their own */
	g_assert_cmpuint(offsetof(struct abi_ring, last) / 64, ==, 0);
	g_assert_cmpuint(offsetof(struct abi_ring, lost) / 64, ==, 1);
	g_assert_cmpuint(offsetof(struct abi_ring, deadline) / 64, ==, 2);
	g_assert_cmpuint(offsetof(struct abi_ring, lock) / 64, ==, 3);
}

static void test_magic(void)
{
	g_assert_cmpmem(&(u64){ABI_CONTROL_MAGIC}, 8, "TRCTROL1", 8);
	g_assert_cmpmem(&(u64){ABI_REGION_MAGIC}, 8, "TRCRING1", 8);
}

static void test_bucket(void)
{
	/* FNV-1a of "" and "a" are published constants */
	g_assert_cmpuint(abi_bucket(""), ==, (2166136261u ^ 2166136261u >> 16) & 1023);
	g_assert_cmpuint(abi_bucket("a"), ==, (0xe40c292cu ^ 0xe40c292cu >> 16) & 1023);
	g_assert_cmpuint(abi_bucket("shop"), <, ABI_BUCKETS);
	g_assert_cmpuint(
	    abi_bucket("\xff"), ==,
	    ((2166136261u ^ 0xffu) * 16777619u ^ ((2166136261u ^ 0xffu) * 16777619u) >> 16) & 1023);
}

static void test_zeroed(void)
{
	struct ring r;

	ring_init(&r, WRITER_COUNTER, ABI_POLICY_OVERWRITE, 0);
	for (u32 i = 0; i < 3; i++) {
		u64 offset = 1, count = 1;

		reader_init(&r.reader, r.region.map, &r.geometry, i);
		g_assert_cmpint(reader_position(&r.reader, &offset, &count), ==, 0);
		g_assert_cmpuint(offset, ==, 0);
		g_assert_cmpuint(count, ==, 0);
		g_assert_cmpuint(reader_lost(&r.reader), ==, 0);
	}
	ring_deinit(&r);
}

/* header, first record, second record; times are masked out */
static void test_golden(gconstpointer data)
{
	static const u8 first[] = {
	    /* id 0x0102, 8 + 8 + 5 bytes, time */
	    0x02,
	    0x01,
	    21,
	    0,
	    0,
	    0,
	    0,
	    0,
	    /* vpid, vtid */
	    0x11,
	    0x11,
	    0x11,
	    0x11,
	    0x22,
	    0x22,
	    0x22,
	    0x22,
	    /* fields */
	    'h',
	    'e',
	    'l',
	    'l',
	    'o',
	};
	struct ring r;
	const struct abi_sub *h;
	u8 bytes[sizeof(first)];

	ring_init(&r, GPOINTER_TO_UINT(data), ABI_POLICY_OVERWRITE,
		  ABI_CONTEXT_VPID | ABI_CONTEXT_VTID);
	h = (const struct abi_sub *)r.reader.data;
	g_assert_cmpint(ring_write(&r, 0x0102, "hello", 5), ==, RECORD_DONE);
	g_assert_cmpuint(h->position, ==, 0);
	g_assert_cmpuint(h->count, ==, 0);
	g_assert_cmpuint(h->lost, ==, 0);
	g_assert_cmpuint(h->end, ==, 0);
	memcpy(bytes, r.reader.data + 128, sizeof(bytes));
	g_assert_cmpmem(bytes + 4, 4, &h->begin, 4);
	memset(bytes + 4, 0, 4);
	g_assert_cmpmem(bytes, sizeof(bytes), first, sizeof(first));
	g_assert_cmpuint(r.reader.line->offset, ==, (128 + 24) | 1);
	g_assert_cmpuint(r.reader.line->count[1], ==, 1);
	g_assert_cmpuint(r.reader.line->count[0], ==, 0);
	g_assert_cmpuint(r.reader.line->base, ==, h->begin);
	g_assert_cmpint(ring_write(&r, 3, "", 0), ==, RECORD_DONE);
	g_assert_cmpuint(r.reader.line->offset, ==, 128 + 24 + 16);
	g_assert_cmpuint(r.reader.line->count[0], ==, 2);
	ring_deinit(&r);
}

static void test_extended(gconstpointer data)
{
	struct ring r;
	const u8 *p;
	u16 half;
	u32 word;
	u64 time;

	ring_init(&r, GPOINTER_TO_UINT(data), ABI_POLICY_OVERWRITE, 0);
	g_assert_cmpint(ring_write(&r, 9, "abcd", 4), ==, RECORD_DONE);
	ring_age(&r);
	g_assert_cmpint(ring_write(&r, 0x1234, "efgh", 4), ==, RECORD_DONE);
	p = r.reader.data + 128 + 12;
	memcpy(&half, p, 2);
	g_assert_cmpuint(half, ==, 0xffff);
	memcpy(&half, p + 2, 2);
	g_assert_cmpuint(half, ==, 20);
	memcpy(&word, p + 4, 4);
	g_assert_cmpuint(word, ==, 0x1234);
	memcpy(&time, p + 8, 8);
	g_assert_cmpuint(time, ==, r.reader.line->base);
	g_assert_cmpmem(p + 16, 4, "efgh", 4);
	ring_deinit(&r);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/abi/sizes", test_sizes);
	g_test_add_func("/abi/magic", test_magic);
	g_test_add_func("/abi/bucket", test_bucket);
	g_test_add_func("/abi/zeroed", test_zeroed);
	ring_test_add("golden", test_golden);
	ring_test_add("extended-bytes", test_extended);
	return g_test_run();
}
