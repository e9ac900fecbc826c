/* SPDX-License-Identifier: MIT */
#include "conf/suggest.h"

/* behind base.h, whose MIN and MAX it replaces */
#include <glib.h>

static void test_distance(void)
{
	g_assert_cmpuint(suggest_distance("", ""), ==, 0);
	g_assert_cmpuint(suggest_distance("", "abc"), ==, 3);
	g_assert_cmpuint(suggest_distance("memory", "memory"), ==, 0);
	g_assert_cmpuint(suggest_distance("memry", "memory"), ==, 1);	/* left out */
	g_assert_cmpuint(suggest_distance("memoory", "memory"), ==, 1); /* put in */
	g_assert_cmpuint(suggest_distance("mamory", "memory"), ==, 1);	/* changed */
	g_assert_cmpuint(suggest_distance("meomry", "memory"), ==, 1);	/* swapped */
	g_assert_cmpuint(suggest_distance("Max-Size", "max_size"), ==, 0);
	g_assert_cmpuint(suggest_distance("kitten", "sitting"), ==, 3);
}

static void test_long(void)
{
	g_autofree char *exact = g_strnfill(64, 'a'), *over = g_strnfill(65, 'a');

	g_assert_cmpuint(suggest_distance(exact, ""), ==, 64);
	g_assert_cmpuint(suggest_distance(over, "a"), ==, SIZE_MAX);
	g_assert_cmpuint(suggest_distance("a", over), ==, SIZE_MAX);
	g_assert_null(suggest_nearest(over, (const char *const[]){ "memory" }, 1));
}

static void test_nearest(void)
{
	static const char *const words[] = { "err", "warning", "crit", "memory" };

	g_assert_cmpstr(suggest_nearest("memroy", words, 4), ==, "memory");
	g_assert_cmpstr(suggest_nearest("warn", words, 4), ==, "warning");
	g_assert_cmpstr(suggest_nearest("critical", words, 4), ==, "crit");
	g_assert_cmpstr(suggest_nearest("error", words, 4), ==, "err");
	g_assert_null(suggest_nearest("frobnicate", words, 4));
	g_assert_null(suggest_nearest("x", words, 0));
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/suggest/distance", test_distance);
	g_test_add_func("/suggest/long", test_long);
	g_test_add_func("/suggest/nearest", test_nearest);
	return g_test_run();
}
