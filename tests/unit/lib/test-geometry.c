/* SPDX-License-Identifier: MIT */
#include "lib/geometry.h"

#include <glib.h>

static void test_plan(void)
{
	struct geometry g;

	g_assert_cmpint(geometry_plan(&g, 16 << 20, 16, 2, 4, ABI_POLICY_DISCARD, 3, NULL), ==, 0);
	g_assert_cmpuint(g.ring_shift, ==,
			 22); /* 2 x 4 MiB + 2 x 512 KiB; twice that is too much */
	g_assert_cmpuint(g.sub_shift, ==, 18);
	g_assert_cmpuint(g.side_shift, ==, 19);
	g_assert_cmpuint(g.side_sub_shift, ==, 15);
	g_assert_cmpuint(g.n_ring, ==, 4);
	g_assert_cmpuint(g.n_side, ==, 2);
	g_assert_cmpuint(g.policy, ==, ABI_POLICY_DISCARD);
	g_assert_cmpuint(g.contexts, ==, 3);
}

/* for every plan: valid, fits, and twice the rings would not */
static void test_plan_largest(void)
{
	static const u32 cpus[] = {1, 2, 3, 64, 1000, 4096};

	for (u32 c = 0; c < ELEMENTSOF(cpus); c++)
		for (u32 subs = 16; subs <= 256; subs *= 2)
			for (u64 memory = 1 << 16; memory < 1ull << 44; memory += memory / 3) {
				struct geometry g = {0}, twice;
				u64 minimum = 0;
				int r = geometry_plan(&g, memory, subs, cpus[c], cpus[c], 0, 0,
						      &minimum);

				if (r < 0) {
					g_assert_cmpint(r, ==, -ENOSPC);
					g_assert_cmpuint(minimum, >, memory);
					g_assert_cmpint(geometry_plan(&g, minimum, subs, cpus[c],
								      cpus[c], 0, 0, NULL),
							==, 0);
					g_assert_cmpint(geometry_plan(&g, minimum - 1, subs,
								      cpus[c], cpus[c], 0, 0, NULL),
							==, -ENOSPC);
					continue;
				}
				g_assert_cmpint(geometry_check(&g), ==, 0);
				g_assert_cmpuint(geometry_memory(&g, cpus[c]), <=, memory);
				g_assert_cmpuint(1u << (g.ring_shift - g.sub_shift), ==, subs);
				g_assert_cmpuint(g.side_shift, >=, 16);
				twice = g;
				twice.ring_shift++;
				twice.side_shift = MAX(twice.ring_shift - 3, 16u);
				if (g.ring_shift < ABI_MAX_RING_SHIFT)
					g_assert_cmpuint(geometry_memory(&twice, cpus[c]), >,
							 memory);
			}
}

static void test_plan_impossible(void)
{
	struct geometry g;

	g_assert_cmpint(geometry_plan(&g, 1 << 30, 16, 0, 1, 0, 0, NULL), ==, -EINVAL);
	g_assert_cmpint(geometry_plan(&g, 1 << 30, 16, 2, 1, 0, 0, NULL), ==, -EINVAL);
	g_assert_cmpint(geometry_plan(&g, 1 << 30, 16, 1, 4097, 0, 0, NULL), ==, -EINVAL);
	g_assert_cmpint(geometry_plan(&g, 1 << 30, 8, 1, 1, 0, 0, NULL), ==, -EINVAL);
	g_assert_cmpint(geometry_plan(&g, 1 << 30, 24, 1, 1, 0, 0, NULL), ==, -EINVAL);
	g_assert_cmpint(geometry_plan(&g, 1 << 30, 1u << 31, 1, 1, 0, 0, NULL), ==, -EINVAL);
	g_assert_cmpint(geometry_plan(&g, 1 << 30, 16, 1, 1, 3, 0, NULL), ==, -EINVAL);
	g_assert_cmpint(geometry_plan(&g, 1 << 30, 16, 1, 1, 0, 4, NULL), ==, -EINVAL);
	g_assert_cmpint(geometry_plan(&g, 1000, 16, 1, 1, 0, 0, NULL), ==, -ENOSPC);
}

static void test_layout(void)
{
	struct geometry g;
	u64 at;

	g_assert_cmpint(geometry_plan(&g, 8 << 20, 32, 3, 20, 0, 0, NULL), ==, 0);
	at = geometry_data(&g);
	g_assert_cmpuint(at, ==, 4096 + 8192); /* 22 lines of 256 bytes */
	for (u32 i = 0; i < g.n_ring + g.n_side; i++) {
		g_assert_cmpuint(geometry_ring_at(&g, i), ==, at);
		g_assert_cmpuint(geometry_is_side(&g, i), ==, i >= 20);
		at += geometry_ring_size(&g, i);
		g_assert_cmpuint(geometry_ring_size(&g, i) / geometry_sub_size(&g, i), >=, 16);
	}
	g_assert_cmpuint(geometry_size(&g), ==, at);
	g_assert_cmpuint(geometry_memory(&g, 20), ==, at);
	g_assert_cmpuint(geometry_memory(&g, 3), ==, at - 17 * geometry_ring_size(&g, 0));
}

/* Pinned rings come behind all others, of their own size, and cost what they take and their lines. */
static void test_pinned(void)
{
	struct geometry g, without;
	u64 at, minimum = 0;

	g_assert_cmpint(geometry_plan(&g, 8 << 20, 32, 3, 20, 0, 0, NULL), ==, 0);
	without = g;
	g_assert_false(geometry_is_pinned(&g, g.n_ring + g.n_side - 1));
	g_assert_cmpint(geometry_plan_pinned(&g, (128 << 10) - 1, 16, &minimum), ==, -ENOSPC);
	g_assert_cmpuint(minimum, ==, 128 << 10);
	g_assert_cmpuint(g.n_pinned, ==, 0);
	g_assert_cmpint(geometry_plan_pinned(&g, minimum, 16, NULL), ==, 0);
	g_assert_cmpuint(1u << g.pinned_shift, ==, 8192);
	g_assert_cmpint(geometry_plan_pinned(&g, 300 << 10, 16, NULL), ==, 0);
	g_assert_cmpuint(1u << g.pinned_shift, ==, 16384);
	g_assert_cmpuint(1u << g.pinned_sub_shift, ==, 2048);
	g_assert_cmpint(geometry_check(&g), ==, 0);
	g_assert_cmpint(geometry_plan_pinned(&g, 1 << 20, 0, NULL), ==, -EINVAL);
	g_assert_cmpint(geometry_plan_pinned(&g, 1 << 20, GEOMETRY_MAX_PINNED + 1, NULL), ==, -EINVAL);

	g_assert_cmpuint(geometry_rings(&g), ==, 20 + 2 + 16);
	at = geometry_data(&g);
	g_assert_cmpuint(at, ==, 4096 + 12288); /* 38 lines */
	for (u32 i = 0; i < geometry_rings(&g); i++) {
		g_assert_cmpuint(geometry_ring_at(&g, i), ==, at);
		g_assert_cmpint(geometry_is_side(&g, i), ==, i >= 20);
		g_assert_cmpint(geometry_is_pinned(&g, i), ==, i >= 22);
		g_assert_cmpint(geometry_keeps(&g, i), ==, i >= 22);
		at += geometry_ring_size(&g, i);
	}
	g_assert_cmpuint(geometry_size(&g), ==, at);
	g_assert_cmpuint(geometry_ring_size(&g, 22), ==, 16384);
	g_assert_cmpuint(geometry_sub_size(&g, 37), ==, 2048);
	g_assert_cmpuint(geometry_memory(&g, 3) - geometry_memory(&without, 3), ==, 16 * 16384 + 4096);
	g.policy = ABI_POLICY_DISCARD;
	g_assert_true(geometry_keeps(&g, 0));
}

static const struct geometry good = {16, 12, 16, 12, 2, 1, 0, 0};

/* each field in turn with every kind of nonsense */
static void test_check(void)
{
	static const u32 bad[] = {0xffffffff, 0x80000000, 33, 4097, 0xffff, 64 + 1};
	struct geometry g = good;

	g_assert_cmpint(geometry_check(&good), ==, 0);
	for (u32 f = 0; f < sizeof(g) / sizeof(u32); f++)
		for (u32 b = 0; b < ELEMENTSOF(bad); b++) {
			u32 *field = (u32 *)&g + f;

			g = good;
			*field = bad[b];
			if ((field == &g.n_ring && bad[b] <= ABI_MAX_CPUS) ||
			    (field == &g.n_side && bad[b] <= GEOMETRY_MAX_SIDES))
				continue;
			g_assert_cmpint(geometry_check(&g), ==, -EBADMSG);
		}
#define REFUSED(...)                                                                               \
	do {                                                                                       \
		g = good;                                                                          \
		__VA_ARGS__;                                                                       \
		g_assert_cmpint(geometry_check(&g), ==, -EBADMSG);                                 \
	} while (0)
	REFUSED(g.sub_shift = 11);
	REFUSED(g.sub_shift = 13);
	REFUSED(g.sub_shift = 16);
	REFUSED(g.sub_shift = 17);
	REFUSED(g.ring_shift = 15);
	REFUSED(g.ring_shift = 0);
	REFUSED(g.side_sub_shift = 13);
	REFUSED(g.side_shift = 15);
	REFUSED(g.n_ring = 0);
	REFUSED(g.n_side = 0);
	REFUSED(g.contexts = 4);
	REFUSED(g.policy = 3);
	REFUSED(g.n_pinned = 1);
	REFUSED(g.pinned_shift = 14);
	REFUSED(g.n_pinned = 1; g.pinned_shift = 13; g.pinned_sub_shift = 9);
	REFUSED(g.n_pinned = 1; g.pinned_shift = 13; g.pinned_sub_shift = 11);
	REFUSED(g.n_pinned = 1; g.pinned_shift = 13; g.pinned_sub_shift = 13);
	REFUSED(g.n_pinned = 1; g.pinned_shift = 33; g.pinned_sub_shift = 12);
	REFUSED(g.n_pinned = GEOMETRY_MAX_PINNED + 1; g.pinned_shift = 13; g.pinned_sub_shift = 10);
}

/* random geometries that pass must have a size that fits 63 bits and rings that follow one another
 */
static void test_check_random(void)
{
	u32 passed = 0, pinned = 0;

	for (u32 i = 0; i < 2000000; i++) {
		struct geometry g = { .n_pinned = 0 };
		u64 size;

		if (i % 2) {
			g.pinned_shift = (u32)g_test_rand_int_range(11, 36);
			g.pinned_sub_shift = (u32)g_test_rand_int_range(8, 36);
			g.n_pinned = (u32)g_test_rand_int_range(0, 70);
		}
		g.ring_shift = (u32)g_test_rand_int_range(0, 40);
		g.sub_shift = (u32)g_test_rand_int_range(0, 40);
		g.side_shift = (u32)g_test_rand_int_range(10, 36);
		g.side_sub_shift = (u32)g_test_rand_int_range(10, 36);
		g.n_ring = (u32)g_test_rand_int_range(0, 5000);
		g.n_side = (u32)g_test_rand_int_range(0, 70);
		g.policy = (u32)g_test_rand_int_range(0, 4);
		g.contexts = (u32)g_test_rand_int_range(0, 5);
		if (geometry_check(&g) < 0)
			continue;
		passed++;
		pinned += g.n_pinned > 0;
		size = geometry_size(&g);
		g_assert_cmpuint(size, <, 1ull << 46);
		g_assert_cmpuint(geometry_ring_at(&g, geometry_rings(&g) - 1), <, size);
	}
	g_assert_cmpuint(passed, >, 1000);
	g_assert_cmpuint(pinned, >, 100);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/geometry/plan/typical", test_plan);
	g_test_add_func("/geometry/plan/largest", test_plan_largest);
	g_test_add_func("/geometry/plan/impossible", test_plan_impossible);
	g_test_add_func("/geometry/layout", test_layout);
	g_test_add_func("/geometry/pinned", test_pinned);
	g_test_add_func("/geometry/check/fields", test_check);
	g_test_add_func("/geometry/check/random", test_check_random);
	return g_test_run();
}
