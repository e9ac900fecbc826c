/* SPDX-License-Identifier: MIT */
/* The bytes of packet headers, of indexes, and the walk over bodies by class. */
#include "daemon/trace/body.h"
#include "daemon/trace/index.h"
#include "daemon/trace/packet.h"
#include "tests/unit/daemon/maker.h"

static const u8 uuid[16] = {0xA0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
static const PacketInfo info = {
    .begin = 0x0102030405060708,
    .end = 0x0102030405060709,
    .content_size = 100,
    .packet_size = 104,
    .sequence = 3,
    .discarded = 0x1122334455667788,
    .cpu = 5,
    .stream_instance = 6,
};

/* Against bytes written down by hand: the format is not what two functions of one file agree on. */
static void test_packet(void)
{
	static const u8 golden[PACKET_HEADER] = {
	    0xC1, 0x1F, 0xFC, 0xC1, 0xA0, 1,    2,    3,    4, 5, 6, 7, 8,    9, 10, 11, 12, 13,
	    14,   15,   0,    0,    0,    0,    6,    0,    0, 0, 0, 0, 0,    0, 8,  7,  6,  5,
	    4,    3,    2,    1,    9,    7,    6,    5,    4, 3, 2, 1, 0x20, 3, 0,  0,  0,  0,
	    0,    0,    0x40, 3,    0,    0,    0,    0,    0, 0, 3, 0, 0,    0, 0,  0,  0,  0,
	    0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 5, 0, 0, 0,
	};
	u8 p[PACKET_HEADER];
	PacketInfo back;

	packet_encode(p, uuid, &info);
	g_assert_cmpmem(p, sizeof(p), golden, sizeof(golden));
	g_assert_cmpint(packet_decode(&back, p, 104, uuid), ==, 0);
	g_assert_cmpmem(&back, sizeof(back), &info, sizeof(info));
	g_assert_cmpint(packet_decode(&back, p, 103, uuid), ==, -EBADMSG);
	g_assert_cmpint(packet_decode(&back, p, PACKET_HEADER - 1, uuid), ==, -EBADMSG);
	for (int i = 0; i < 24; i++) {
		p[i] ^= 1;
		g_assert_cmpint(packet_decode(&back, p, 104, uuid), ==, -EBADMSG);
		p[i] ^= 1;
	}
	g_assert_cmpuint(packet_size(0), ==, 88);
	g_assert_cmpuint(packet_size(4), ==, 88);
	g_assert_cmpuint(packet_size(5), ==, 96);
}

static void test_index(void)
{
	static const u8 head[INDEX_HEADER] = {0xC1, 0xF1, 0xDC, 0xC1, 0, 0, 0, 1,
					      0,    0,    0,    1,    0, 0, 0, 72};
	static const u8 golden[INDEX_ENTRY] = {
	    0, 0, 0, 0, 0,    0,    0x10, 0,    0,    0,    0,    0,    0, 0, 3, 0x40, 0, 0,
	    0, 0, 0, 0, 3,    0x20, 1,    2,    3,    4,    5,    6,    7, 8, 1, 2,    3, 4,
	    5, 6, 7, 9, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0, 0, 0, 0,    0, 0,
	    0, 0, 0, 0, 0,    0,    0,    0,    0,    6,    0,    0,    0, 0, 0, 0,    0, 3,
	};
	u8 p[INDEX_HEADER + INDEX_ENTRY];
	PacketInfo back;
	u64 offset;
	size_t n;

	index_encode_header(p);
	index_encode_entry(p + INDEX_HEADER, 4096, &info);
	g_assert_cmpmem(p, INDEX_HEADER, head, sizeof(head));
	g_assert_cmpmem(p + INDEX_HEADER, INDEX_ENTRY, golden, sizeof(golden));
	g_assert_cmpint(index_check(p, sizeof(p), &n), ==, 0);
	g_assert_cmpuint(n, ==, 1);
	index_decode_entry(&offset, &back, p + INDEX_HEADER);
	g_assert_cmpuint(offset, ==, 4096);
	back.cpu = info.cpu;
	g_assert_cmpmem(&back, sizeof(back), &info, sizeof(info));
	g_assert_cmpint(index_check(p, INDEX_HEADER, &n), ==, 0);
	g_assert_cmpuint(n, ==, 0);
	g_assert_cmpint(index_check(p, sizeof(p) - 1, &n), ==, -EBADMSG);
	g_assert_cmpint(index_check(p, 3, &n), ==, -EBADMSG);
	p[0] = 0;
	g_assert_cmpint(index_check(p, sizeof(p), &n), ==, -EBADMSG);
}

static void test_body(void)
{
	static const struct {
		u32 id;
		const char *body;
		u32 size;
		bool good;
	} cases[] = {
	    {1, "", 0, true},          {1, "x", 1, false},          {2, "12345678", 8, true},
	    {2, "1234567", 7, false},  {2, "123456789", 9, false},  {3, "", 1, true},
	    {3, "abc", 4, true},       {3, "abc", 3, false},        {3, "", 0, false},
	    {3, "a\0b", 4, false},     {4, "\0", 2, true},          {4, "\1\0xxxx", 6, true},
	    {4, "\1\0xxx", 5, false},  {4, "\2\0xxxx", 6, false},   {4, "\xff\xffxxxx", 6, false},
	    {4, "", 1, false},         {5, "abc\0\1\0zq", 8, true}, {5, "abc\0\1\0z", 7, false},
	    {5, "abcdefgh", 8, false}, {6, "1234567", 7, false},    {6, "12345678", 8, true},
	    {0, "", 0, false},         {7, "", 0, false},           {8, "", 0, false},
	    {70000, "", 0, false},     {0xFFFF, "", 0, false},
	};
	TraceClass classes[] = {
	    {1, maker_class("p", "none", 6, NULL)},
	    {2, maker_class("p", "one", 6, "a", TRACER_TYPE_F64, 0, 0, NULL)},
	    {3, maker_class("p", "str", 6, "a", TRACER_TYPE_STR, 0, 0, NULL)},
	    {4, maker_class("p", "var", 6, "a", TRACER_TYPE_U32, TRACER_SHAPE_VAR, 0, NULL)},
	    {5, maker_class("p", "mix", 6, "a", TRACER_TYPE_STR, 0, 0, "b", TRACER_TYPE_BYTE,
			    TRACER_SHAPE_VAR, 0, "c", TRACER_TYPE_I8, 0, 0, NULL)},
	    {6, maker_class("p", "fixed", 6, "a", TRACER_TYPE_U16, TRACER_SHAPE_FIXED, 4, NULL)},
	    {7, maker_class("p", "bad", 6, "a", 99, 0, 0, NULL)},
	    {0x12345, maker_class("p", "id", 6, NULL)},
	};
	for (u32 contexts = 0; contexts < 4; contexts++) {
		_cleanup_(class_table_freep) ClassTable *t = NULL;
		u32 skip = (contexts & 1) * 4 + (contexts >> 1) * 4;

		g_assert_cmpint(class_table_new(&t, classes, ELEMENTSOF(classes), contexts), ==, 0);
		for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
			/* exactly as large as it says: a step too far is one for the sanitizer */
			g_autofree u8 *body = g_malloc(skip + cases[i].size + 1);
			u8 *p = body + 1;

			memset(p, 0, skip);
			memcpy(p + skip, cases[i].body, cases[i].size);
			g_assert_true(class_table_check(t, cases[i].id, p, skip + cases[i].size) ==
				      cases[i].good);
			if (skip)
				g_assert_false(class_table_check(t, cases[i].id, p, skip - 1));
		}
	}
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/packet/header", test_packet);
	g_test_add_func("/index/bytes", test_index);
	g_test_add_func("/body/by-class", test_body);
	return g_test_run();
}
