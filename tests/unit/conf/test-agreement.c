/* SPDX-License-Identifier: MIT */
/* conf/ stands on libc alone, so it has its own word on patterns, levels and the least memory; what it lets pass
 * must be what lib/ takes when the session starts. */
#include "conf/item.h"
#include "conf/keys.h"
#include "conf/session.h"
#include "lib/geometry.h"
#include "lib/pattern.h"

/* behind base.h, whose MIN and MAX it replaces */
#include <glib.h>

static void test_levels(void)
{
	const Key *k = key_find(GROUP_SESSION, "level");
	int n = 0;

	for (const KeyChoice *c = k->choices; c->name; c++, n++) {
		g_assert_cmpint(level_from_name(c->name), ==, (int)c->value);
		g_assert_cmpstr(level_name((int)c->value), ==, c->name);
	}
	g_assert_null(level_name(n));
	g_assert_cmpuint(k->max, ==, (guint64)n - 1);
}

/* All texts of up to four letters of a small, awkward alphabet: what is taken here is taken there. */
static void test_patterns(void)
{
	static const char letters[] = "a:*? \t,~\x7f\xc3\xa9";
	char text[5];
	guint n_taken = 0;

	for (guint i = 0; i < 11 * 11 * 11 * 11; i++) {
		guint rest = i;
		bool taken;

		for (int j = 0; j < 4; j++, rest /= 11)
			text[j] = letters[rest % 11];
		text[4] = '\0';
		for (int begin = 0; begin < 4; begin += 3) {
			_cleanup_free_ char *why = NULL;

			taken = item_event(text + begin, &why) == 0;
			n_taken += taken;
			if (taken && !pattern_valid(text + begin))
				g_error("\"%s\" is taken here only", text + begin);
			/* and refused only for a blank or a separator, which more likely parts two patterns */
			if (!taken && pattern_valid(text + begin))
				g_assert_nonnull(strpbrk(text + begin, " ,;"));
		}
	}
	g_assert_cmpuint(n_taken, >, 100);
}

static void test_memory(void)
{
	for (u32 subs = 16; subs <= 1024; subs *= 2)
		for (u32 online = 1; online <= 256; online = online * 3 / 2 + 1)
			for (u32 possible = online; possible <= 1024; possible = possible * 2 + 1) {
				u64 mine = session_config_minimum(subs, online, possible), theirs = 0;
				struct geometry g;

				g_assert_cmpint(geometry_plan(&g, mine - 1, subs, online, possible, 0, 3,
							      &theirs),
						==, -ENOSPC);
				g_assert_cmpuint(theirs, ==, mine);
				g_assert_cmpint(geometry_plan(&g, mine, subs, online, possible, 0, 3, NULL),
						==, 0);
			}
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/agreement/levels", test_levels);
	g_test_add_func("/agreement/patterns", test_patterns);
	g_test_add_func("/agreement/memory", test_memory);
	return g_test_run();
}
