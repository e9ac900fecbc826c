/* SPDX-License-Identifier: MIT */
/* The scan alone: what it hands on, and that lines keep their numbers. */
#include "conf/frame.h"
#include "conf/scan.h"
#include "conf/word.h"

/* behind base.h, whose MIN and MAX it replaces */
#include <glib.h>

static char *scan(const char *text, gssize n, size_t *ret_problems)
{
	_cleanup_(config_problems_clear) ConfigProblems problems = { 0 };
	char *clean = NULL;

	g_assert_cmpint(scan_text("x", text, n < 0 ? strlen(text) : (size_t)n, &clean, &problems), ==, 0);
	for (size_t i = 0; i < problems.n; i++)
		g_test_message("%d: %s", problems.v[i].line, problems.v[i].text);
	*ret_problems = problems.n;
	return clean;
}

static void good(const char *text, const char *wanted)
{
	size_t n;
	_cleanup_free_ char *clean = scan(text, -1, &n);

	g_assert_cmpuint(n, ==, 0);
	g_assert_cmpstr(clean, ==, wanted);
}

static void test_comments(void)
{
	good("", "");
	good("a = 1; # one", "a = 1L; ");
	good("a = 1; // two", "a = 1L; ");
	good("a /* = 5; */ = 1;", "a   = 1L;");
	good("/* 1\n 2\n*/ a = 1;\n", "\n\n  a = 1L;\n");
	good("a = 1/* x */;", "a = 1L ;");
	good("a = 1// x\n;", "a = 1L\n;");
	good("a = 1#x\n", "a = 1L\n");
	/* what looks like one inside a string is none, and the other way round */
	good("a = \"# // /* */\";", "a = \"# // /* */\";");
	good("# \"\na = 1;", "\na = 1L;");
	good("/* \" */ a = 1;", "  a = 1L;");
	good("a = \"\\\"# \";", "a = \"\\\"# \";");
	good("a = \"\\\\\"; # \"", "a = \"\\\\\"; ");
	/* a star and a slash that overlap */
	good("/*/ */ a = 1;", "  a = 1L;");
}

static void test_form(void)
{
	good("\xef\xbb\xbf" "a = 1;", "a = 1L;");
	good("a = 1;\r\nb = 2;\r\n", "a = 1L; \nb = 2L; \n");
	good("a = [ 1, 2, ];", "a = ( 1L ,2L );");
	good("a = ( 1 , );;", "a = ( 1L  );");
	good("a: { b: { }; };;;", "a= { b= { }; };");
	good("a = 1 b = 2", "a = 1L ;b = 2L");
	good("a = \"x\"\n\"y\";", "a = \"x\"\n\"y\";");
	good("a = TRUE; b = False;", "a = TRUE; b = False;");
	good("a = -5; b = +5L; c = 0xfF; d = 0x10LL;", "a = -5L; b = +5L; c = 0xfFL; d = 0x10L;");
	good("a = 4294967316;", "a = 4294967316L;");
	good("a = 9223372036854775807; b = -9223372036854775808;",
	     "a = 9223372036854775807L; b = -9223372036854775808L;");
	good("a = 1.25; b = 1e9;", "a = 0.5; b = 0.5;");
}

static void test_words(void)
{
	static const struct {
		const char *word;
		WordKind kind;
	} words[] = {
		{ "true", WORD_BOOL },	   { "FALSE", WORD_BOOL },     { "0", WORD_INTEGER },
		{ "-0", WORD_INTEGER },	   { "00", WORD_OCTAL },       { "-012", WORD_OCTAL },
		{ "0644L", WORD_OCTAL },   { "0x", WORD_BARE },	       { "0xg", WORD_BARE },
		{ "0x0", WORD_INTEGER },   { "-0x5", WORD_BARE },      { "-", WORD_BARE },
		{ "L", WORD_BARE },	   { "LL", WORD_BARE },	       { "5LLL", WORD_BARE },
		{ "5l", WORD_BARE },	   { "64K", WORD_BARE },       { "10%", WORD_BARE },
		{ "1.5", WORD_FRACTION },  { ".5", WORD_FRACTION },    { "5.", WORD_FRACTION },
		{ "1e3", WORD_FRACTION },  { "1e", WORD_BARE },	       { "e1", WORD_BARE },
		{ "..", WORD_BARE },	   { "1.2.3", WORD_BARE },     { "inf", WORD_BARE },
		{ "nan", WORD_BARE },	   { "0x1p3", WORD_BARE },     { "yes", WORD_YES },
		{ "Off", WORD_YES },	   { "yess", WORD_BARE },      { "shop:*", WORD_BARE },
		{ "9223372036854775808", WORD_TOO_LARGE },
		{ "-9223372036854775809", WORD_TOO_LARGE },
		{ "0x8000000000000000", WORD_TOO_LARGE },
		{ "10000000000000000000000000000000000000000000000000000", WORD_TOO_LARGE },
	};

	for (size_t i = 0; i < G_N_ELEMENTS(words); i++)
		if (word_kind(words[i].word, strlen(words[i].word)) != words[i].kind)
			g_error("%s: %d", words[i].word, word_kind(words[i].word, strlen(words[i].word)));
}

/* Text that libconfig must never see: it would exit the process, or end early. */
static void test_dangers(void)
{
	static const char *const texts[] = {
		"@include \"/etc\"\n",
		"  @include \"/etc\"\n",
		"a = 1;\n\t@include \"/etc\"\n",
		"a: {\n@include \"/etc\"\n};",
		"/* \n*/@include \"/etc\"",
		"a = \"x\";@include \"/etc\"",
		"a = \"\n@include \"/etc\"\n\";",
		"a = (\n@include \"/etc\"\n);",
		"a = @include \"/etc\"\n;",
	};

	for (size_t i = 0; i < G_N_ELEMENTS(texts); i++) {
		size_t n;
		_cleanup_free_ char *clean = scan(texts[i], -1, &n);

		g_assert_cmpuint(n, >, 0);
		if (clean && strchr(clean, '@'))
			g_error("%zu: handed on: %s", i, clean);
	}
	/* in a comment it is harmless, and gone; in a string it is a string */
	good("/*\n@include \"/etc\"\n*/", "\n\n ");
	good("a = \"@include\";", "a = \"@include\";");
}

static void test_nul(void)
{
	size_t n;
	_cleanup_free_ char *clean = scan("a = 1;\n\0b = 2;", 14, &n);

	g_assert_cmpuint(n, ==, 1);
	g_assert_null(clean);
}

static void test_limits(void)
{
	g_autoptr(GString) names = g_string_new("");
	g_autofree char *deep = NULL, *word = g_strnfill(100000, 'x'), *text = NULL;
	_cleanup_free_ char *clean = NULL, *clean_names = NULL, *clean_word = NULL;
	size_t n;

	for (int i = 0; i < FRAME_MAX_NAMES; i++)
		g_string_append_printf(names, "n%d = 1;\n", i);
	clean = scan(names->str, -1, &n);
	g_assert_cmpuint(n, ==, 0);
	g_assert_nonnull(clean);
	g_string_append(names, "more = 1;\n");
	clean_names = scan(names->str, -1, &n);
	g_assert_cmpuint(n, ==, 1);
	g_assert_null(clean_names);

	deep = g_strnfill(100000, '(');
	text = g_strdup_printf("a = %s", deep);
	g_assert_null(scan(text, -1, &n));
	g_assert_cmpuint(n, ==, 1);

	g_free(text);
	text = g_strdup_printf("%s = %s;", word, word);
	clean_word = scan(text, -1, &n);
	g_assert_cmpuint(n, ==, 1);
}

/* A file of garbage does not fill the journal. */
static void test_many_problems(void)
{
	g_autoptr(GString) text = g_string_new("");
	_cleanup_free_ char *clean = NULL;
	size_t n;

	for (int i = 0; i < 1000; i++)
		g_string_append_printf(text, "n%d = 1K;\n", i);
	clean = scan(text->str, -1, &n);
	g_assert_cmpuint(n, ==, 100);
	g_assert_nonnull(clean);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/scan/comments", test_comments);
	g_test_add_func("/scan/form", test_form);
	g_test_add_func("/scan/words", test_words);
	g_test_add_func("/scan/dangers", test_dangers);
	g_test_add_func("/scan/nul", test_nul);
	g_test_add_func("/scan/limits", test_limits);
	g_test_add_func("/scan/many-problems", test_many_problems);
	return g_test_run();
}
