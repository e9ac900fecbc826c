/* SPDX-License-Identifier: MIT */
/* Every message at its right length, one byte off, and with counts that lie. */
#include "lib/wire.h"

#include <glib.h>

static _Alignas(8) u8 buffer[WIRE_MAX + 16];

static void *message(enum wire_type type, u32 length)
{
	struct wire_header h = wire_header(type, length);

	memset(buffer, 0, sizeof(buffer));
	memcpy(buffer, &h, sizeof(h));
	return buffer;
}

static void fixed(void)
{
	static const struct {
		enum wire_type type;
		u32 size;
	} cases[] = {
	    {WIRE_HELLO, 64},
	    {WIRE_END, 16},
	    {WIRE_DONE, 32},
	    {WIRE_ACCEPTED, 24},
	    {WIRE_CRASH, 56},
	    {WIRE_EVENT, 40},
	};

	for (u32 i = 0; i < G_N_ELEMENTS(cases); i++) {
		u32 n = cases[i].size;

		g_assert_cmpint(wire_check(message(cases[i].type, n), n), ==, cases[i].type);
		/* what arrived is not what it says */
		g_assert_cmpint(wire_check(message(cases[i].type, n), n - 1), ==, -EBADMSG);
		g_assert_cmpint(wire_check(message(cases[i].type, n), n + 1), ==, -EBADMSG);
		g_assert_cmpint(wire_check(message(cases[i].type, n - 1), n - 1), ==, -EBADMSG);
		g_assert_cmpint(wire_check(message(cases[i].type, n + 1), n + 1), ==, -EBADMSG);
	}
}

static void header(void)
{
	struct wire_header *h = message(WIRE_END, 16);

	g_assert_cmpint(wire_check(h, 0), ==, -EBADMSG);
	g_assert_cmpint(wire_check(h, 15), ==, -EBADMSG);
	h->magic ^= 1;
	g_assert_cmpint(wire_check(h, 16), ==, -EBADMSG);
	h = message(WIRE_END, 16);
	h->reserved = 1;
	g_assert_cmpint(wire_check(h, 16), ==, -EBADMSG);
	h = message(WIRE_END, 16);
	h->reserved2 = 1;
	g_assert_cmpint(wire_check(h, 16), ==, -EBADMSG);
	g_assert_cmpint(wire_check(message(0, 16), 16), ==, -EBADMSG);
	g_assert_cmpint(wire_check(message(WIRE_TYPES, 64), 64), ==, -EBADMSG);
	g_assert_cmpint(wire_check(message(0xFFFF, 64), 64), ==, -EBADMSG);
	g_assert_cmpint(wire_check(message(WIRE_CLASSES, WIRE_MAX), WIRE_MAX), ==, WIRE_CLASSES);
	g_assert_cmpint(wire_check(message(WIRE_CLASSES, WIRE_MAX + 1), WIRE_MAX + 1), ==,
			-EBADMSG);
}

static void counts(void)
{
	struct wire_hello *hello = message(WIRE_HELLO, 64);
	struct wire_classes *classes;
	struct wire_snapshot *snapshot;
	struct wire_refused *refused;
	struct wire_triggers *triggers;

	hello->n_classes = WIRE_MAX_CLASSES + 1;
	g_assert_cmpint(wire_check(hello, 64), ==, -EBADMSG);

	classes = message(WIRE_CLASSES, 24 + 80);
	classes->n = 10;
	g_assert_cmpint(wire_check(classes, 104), ==, WIRE_CLASSES);
	classes->n = 11; /* eight bytes each at least */
	g_assert_cmpint(wire_check(classes, 104), ==, -EBADMSG);
	classes->n = 10;
	classes->first = WIRE_MAX_CLASSES - 9;
	g_assert_cmpint(wire_check(classes, 104), ==, -EBADMSG);
	classes->first = UINT32_MAX;
	g_assert_cmpint(wire_check(classes, 104), ==, -EBADMSG);
	classes->first = 0;
	classes->n = UINT32_MAX;
	g_assert_cmpint(wire_check(classes, 104), ==, -EBADMSG);

	snapshot = message(WIRE_SNAPSHOT, 40 + 5);
	snapshot->reason_length = 5;
	g_assert_cmpint(wire_check(snapshot, 45), ==, WIRE_SNAPSHOT);
	snapshot->reason_length = 6;
	g_assert_cmpint(wire_check(snapshot, 45), ==, -EBADMSG);
	snapshot->reason_length = 4;
	g_assert_cmpint(wire_check(snapshot, 45), ==, -EBADMSG);
	snapshot = message(WIRE_SNAPSHOT, 40 + 256);
	snapshot->reason_length = 256;
	g_assert_cmpint(wire_check(snapshot, 296), ==, -EBADMSG);

	refused = message(WIRE_REFUSED, 24 + 8);
	refused->text_length = 8;
	g_assert_cmpint(wire_check(refused, 32), ==, WIRE_REFUSED);
	refused->text_length = UINT32_MAX;
	g_assert_cmpint(wire_check(refused, 32), ==, -EBADMSG);

	/* a bit for each class, and no byte more */
	triggers = message(WIRE_TRIGGERS, 24 + 2);
	for (u32 n = 0; n <= 18; n++) {
		triggers->n_classes = n;
		g_assert_cmpint(wire_check(triggers, 26), ==, n > 8 && n <= 16 ? WIRE_TRIGGERS : -EBADMSG);
	}
	triggers->n_classes = UINT32_MAX;
	g_assert_cmpint(wire_check(triggers, 26), ==, -EBADMSG);
	triggers = message(WIRE_TRIGGERS, 24 + WIRE_MAX_CLASSES / 8);
	triggers->n_classes = WIRE_MAX_CLASSES;
	g_assert_cmpint(wire_check(triggers, triggers->header.length), ==, WIRE_TRIGGERS);
}

static struct wire_session *session(u32 n_classes)
{
	u32 length = (u32)sizeof(struct wire_session) + n_classes * 2;
	struct wire_session *m = message(WIRE_SESSION, length);
	struct geometry g;

	g_assert_cmpint(
	    geometry_plan(&g, 4 << 20, 16, 2, 4, ABI_POLICY_DISCARD, ABI_CONTEXT_VPID, NULL), ==,
	    0);
	m->slot = 7;
	m->generation = 9;
	m->ring_shift = g.ring_shift;
	m->sub_shift = g.sub_shift;
	m->side_shift = g.side_shift;
	m->side_sub_shift = g.side_sub_shift;
	m->n_ring = g.n_ring;
	m->n_side = g.n_side;
	m->policy = g.policy;
	m->contexts = g.contexts;
	m->size = geometry_size(&g);
	m->n_classes = n_classes;
	return m;
}

static void geometries(void)
{
	struct wire_session *m = session(3);
	struct geometry g;

	g_assert_cmpint(wire_check(m, m->header.length), ==, WIRE_SESSION);
	g_assert_cmpint(wire_session_geometry(m, &g, NULL), ==, 0);
	g_assert_cmpint(g.n_ring, ==, 4);
	g_assert_cmpint(g.policy, ==, ABI_POLICY_DISCARD);
	g_assert_cmpint(g.contexts, ==, ABI_CONTEXT_VPID);
	g_assert_true((const u8 *)wire_session_ids(m) == buffer + 72);

#define SPOILT(field, value)                                                                       \
	do {                                                                                       \
		m = session(3);                                                                    \
		m->field = (value);                                                                \
		g_assert_cmpint(wire_session_geometry(m, &g, NULL), ==, -EBADMSG);                       \
	} while (0)
	SPOILT(slot, ABI_MAX_SLOTS);
	SPOILT(slot, UINT32_MAX);
	SPOILT(generation, 0);
	SPOILT(size, m->size + 4096);
	SPOILT(size, 0);
	SPOILT(n_ring, m->n_ring + 1);
	SPOILT(n_ring, 0);
	SPOILT(n_ring, UINT32_MAX);
	SPOILT(n_side, UINT32_MAX);
	SPOILT(ring_shift, 64);
	SPOILT(ring_shift, UINT32_MAX);
	SPOILT(sub_shift, m->ring_shift);
	SPOILT(side_shift, 63);
	SPOILT(policy, 7);
	SPOILT(contexts, 0x80);
	SPOILT(n_classes, 4);
	SPOILT(n_classes, WIRE_MAX_CLASSES + 1);
	SPOILT(header.type, WIRE_DONE);

	m = session(3);
	m->n_classes = 2;
	g_assert_cmpint(wire_check(m, m->header.length), ==, -EBADMSG);
	m->n_classes = UINT32_MAX;
	g_assert_cmpint(wire_check(m, m->header.length), ==, -EBADMSG);
	/* all ids of the largest producer fit a message, and one that a program of minor 1 takes */
	g_assert_cmpuint(session(WIRE_MAX_CLASSES)->header.length, <=, WIRE_MAX_ASKED);
	m = session(WIRE_MAX_CLASSES);
	g_assert_cmpint(wire_check(m, m->header.length), ==, WIRE_SESSION);
	g_assert_cmpint(wire_session_geometry(m, &g, NULL), ==, 0);
}

/* The same with pinned rings, and with flags. */
static struct wire_session *session_more(u32 n_classes, u32 pinned)
{
	u32 least = (u32)sizeof(struct wire_session) + n_classes * 2;
	u32 length = least + (u32)sizeof(struct wire_session_more) + n_classes * 2;
	struct wire_session_more more = { 13, 10, 4, pinned };
	struct geometry g;
	struct wire_session *m = session(n_classes);
	u16 *flags = (u16 *)((u8 *)m + least + sizeof(more));

	m->header.length = length;
	g_assert_cmpint(geometry_plan(&g, 4 << 20, 16, 2, 4, ABI_POLICY_DISCARD, ABI_CONTEXT_VPID, NULL), ==, 0);
	g.pinned_shift = 13;
	g.pinned_sub_shift = 10;
	g.n_pinned = 4;
	m->size = geometry_size(&g);
	memcpy((u8 *)m + least, &more, sizeof(more));
	for (u32 i = 0; i < n_classes; i++)
		flags[i] = (u16)(i % 3);
	return m;
}

static void more(void)
{
	struct wire_session *m;
	struct geometry g;
	u32 pinned = 99;

	for (u32 n = 0; n <= WIRE_MAX_CLASSES; n += n < 9 ? 1 : 8183) {
		m = session_more(n, 4 + 2 + 3);
		g_assert_cmpint(wire_check(m, m->header.length), ==, WIRE_SESSION);
		g_assert_cmpint(wire_session_geometry(m, &g, &pinned), ==, 0);
		g_assert_cmpuint(pinned, ==, 9);
		g_assert_cmpuint(g.n_pinned, ==, 4);
		g_assert_true(wire_session_has_more(m));
		for (u32 i = 0; i < n; i++)
			g_assert_cmpuint(wire_session_flags(m, i), ==, i % 3);
	}
	m = session_more(3, 0);
	g_assert_cmpint(wire_session_geometry(m, &g, &pinned), ==, 0);
	g_assert_cmpuint(pinned, ==, 0);
	/* a ring that is no pinned one */
	for (u32 i = 1; i < 12; i++) {
		m = session_more(3, i);
		g_assert_cmpint(wire_session_geometry(m, &g, &pinned), ==, i >= 6 && i < 10 ? 0 : -EBADMSG);
	}
	/* a message of every other length */
	for (u32 n = sizeof(*m); n < sizeof(*m) + 6 + 16 + 6 + 8; n++) {
		struct wire_session *other = session_more(3, 6);

		other->header.length = n;
		g_assert_cmpint(wire_check(other, n), ==,
				n == sizeof(*m) + 6 || n == sizeof(*m) + 6 + 16 + 6 ? WIRE_SESSION : -EBADMSG);
		if (wire_check(other, n) < 0)
			g_assert_cmpint(wire_session_geometry(other, &g, &pinned), ==, -EBADMSG);
	}
	/* the short form says nothing */
	m = session(3);
	g_assert_cmpint(wire_session_geometry(m, &g, &pinned), ==, 0);
	g_assert_cmpuint(pinned, ==, 0);
	g_assert_cmpuint(wire_session_flags(m, 2), ==, 0);
}

static void program(void)
{
	struct wire_program *m = message(WIRE_PROGRAM, 24 + 10 + 20);

	m->exe_length = 10;
	m->build_id_length = 20;
	g_assert_cmpint(wire_check(m, 54), ==, WIRE_PROGRAM);
	m->exe_length = 11;
	g_assert_cmpint(wire_check(m, 54), ==, -EBADMSG);
	m->exe_length = UINT16_MAX;
	g_assert_cmpint(wire_check(m, 54), ==, -EBADMSG);
	m = message(WIRE_PROGRAM, 24 + WIRE_MAX_BUILD_ID + 1);
	m->build_id_length = WIRE_MAX_BUILD_ID + 1;
	g_assert_cmpint(wire_check(m, m->header.length), ==, -EBADMSG);
	m = message(WIRE_PROGRAM, 24 + WIRE_MAX_EXE + 1);
	m->exe_length = WIRE_MAX_EXE + 1;
	g_assert_cmpint(wire_check(m, m->header.length), ==, -EBADMSG);
	m = message(WIRE_PROGRAM, 24);
	g_assert_cmpint(wire_check(m, 24), ==, WIRE_PROGRAM);
}

/* Nothing that arrives may be read beyond its end: random bytes in a buffer of just that size. */
static void noise(void)
{
	for (u32 i = 0; i < 200000; i++) {
		u32 n = (u32)g_test_rand_int_range(0, 128);
		g_autofree u8 *p = g_malloc(n + 1);
		struct geometry g;

		for (u32 k = 0; k < n; k++)
			p[k] = (u8)g_test_rand_int();
		if (n >= 16) {
			struct wire_header h =
			    wire_header((enum wire_type)g_test_rand_int_range(0, WIRE_TYPES + 1), n);

			memcpy(p, &h, sizeof(h));
		}
		if (wire_check(p, n) == WIRE_SESSION)
			(void)wire_session_geometry((const struct wire_session *)p, &g, NULL);
	}
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/wire/fixed", fixed);
	g_test_add_func("/wire/header", header);
	g_test_add_func("/wire/counts", counts);
	g_test_add_func("/wire/geometry", geometries);
	g_test_add_func("/wire/noise", noise);
	g_test_add_func("/wire/more", more);
	g_test_add_func("/wire/program", program);
	return g_test_run();
}
