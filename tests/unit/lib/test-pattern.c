/* SPDX-License-Identifier: MIT */
#include "lib/pattern.h"

#include <glib.h>

static void globs(void)
{
	static const struct {
		const char *pattern, *text;
		bool matches;
	} cases[] = {
	    {"", "", true},
	    {"", "a", false},
	    {"a", "", false},
	    {"*", "", true},
	    {"*", "abc", true},
	    {"**", "abc", true},
	    {"?", "", false},
	    {"?", "a", true},
	    {"?", "ab", false},
	    {"a*", "abc", true},
	    {"a*", "ba", false},
	    {"*c", "abc", true},
	    {"*c", "abcd", false},
	    {"a*c", "abbbc", true},
	    {"a*c", "ac", true},
	    {"a*c", "acb", false},
	    {"*b*", "abc", true},
	    {"*ab*ab*", "abab", true},
	    {"*ab*ab", "abxabab", true},
	    {"*aab", "aaaab", true},
	    {"a?c", "abc", true},
	    {"a?c", "ac", false},
	    {"[a]", "a", false},
	    {"[a]", "[a]", true},
	    {"a\\*", "a*", false},
	    {"*.service", "nginx.service", true},
	    {"A", "a", false},
	};

	for (u32 i = 0; i < G_N_ELEMENTS(cases); i++)
		if (pattern_match(cases[i].pattern, cases[i].text) != cases[i].matches)
			g_error("'%s' and '%s'", cases[i].pattern, cases[i].text);
}

static void events(void)
{
	g_assert_true(pattern_match_event("shop:*", "shop", "order"));
	g_assert_true(pattern_match_event("shop", "shop", "order"));
	g_assert_true(pattern_match_event("*", "shop", "order"));
	g_assert_true(pattern_match_event("*:order", "shop", "order"));
	g_assert_true(pattern_match_event("sh?p:or*", "shop", "order"));
	g_assert_false(pattern_match_event("shop:order", "shop", "orders"));
	g_assert_false(pattern_match_event("shop:order", "shopper", "order"));
	g_assert_false(pattern_match_event("shop", "shopper", "order"));
	g_assert_false(pattern_match_event("sho", "shop", "order"));
	g_assert_false(pattern_match_event("shop:", "shop", "order"));
}

static void literals(void)
{
	char name[8];

	g_assert_true(pattern_literal_provider("shop:*", name, sizeof(name)));
	g_assert_cmpstr(name, ==, "shop");
	g_assert_true(pattern_literal_provider("shop", name, sizeof(name)));
	g_assert_cmpstr(name, ==, "shop");
	g_assert_true(pattern_literal_provider("shop:a?c", name, sizeof(name)));
	g_assert_false(pattern_literal_provider("sh*:a", name, sizeof(name)));
	g_assert_false(pattern_literal_provider("*", name, sizeof(name)));
	g_assert_false(pattern_literal_provider("sh?p", name, sizeof(name)));
	g_assert_true(pattern_literal_provider("seven77:x", name, sizeof(name)));
	g_assert_false(pattern_literal_provider("eight888:x", name, sizeof(name)));
}

static void forms(void)
{
	g_autofree char *longest = g_strnfill(255, 'p'), *longer = g_strnfill(256, 'p');

	g_assert_true(pattern_valid("*"));
	g_assert_true(pattern_valid("a:b"));
	g_assert_true(pattern_valid(longest));
	g_assert_false(pattern_valid(longer));
	g_assert_false(pattern_valid(""));
	g_assert_false(pattern_valid(":"));
	g_assert_false(pattern_valid("a:"));
	g_assert_false(pattern_valid(":a"));
	g_assert_false(pattern_valid("a:b:c"));
	g_assert_false(pattern_valid("a\tb"));
	g_assert_false(pattern_valid("a\xc3\xa9"));
}

/* The worst that a pattern of its length can ask for ends soon. */
static void hostile(void)
{
	char pattern[256], text[256];

	for (u32 i = 0; i < 254; i += 2)
		memcpy(pattern + i, "*a", 2);
	memcpy(pattern + 253, "b", 2);
	memset(text, 'a', 255);
	text[255] = 0;
	for (u32 i = 0; i < 1000; i++)
		g_assert_false(pattern_match(pattern, text));
}

static void levels(void)
{
	for (int i = 0; i <= 14; i++) {
		char number[4];

		g_snprintf(number, sizeof(number), "%d", i);
		g_assert_cmpint(level_from_name(number), ==, i);
		g_assert_cmpint(level_from_name(level_name(i)), ==, i);
	}
	g_assert_cmpint(level_from_name("info"), ==, 6);
	g_assert_cmpstr(level_name(14), ==, "debug");
	g_assert_null(level_name(15));
	g_assert_null(level_name(-1));
	for (const char *const *p = (const char *const[]){"", "15", "-1", "06", "1x", " 1", "INFO",
							  "infos", "100", NULL};
	     *p; p++)
		g_assert_cmpint(level_from_name(*p), ==, -EINVAL);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/pattern/glob", globs);
	g_test_add_func("/pattern/event", events);
	g_test_add_func("/pattern/literal", literals);
	g_test_add_func("/pattern/valid", forms);
	g_test_add_func("/pattern/hostile", hostile);
	g_test_add_func("/pattern/level", levels);
	return g_test_run();
}
