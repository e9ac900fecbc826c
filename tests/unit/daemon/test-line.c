/* SPDX-License-Identifier: MIT */
/* What a line says is what is read of it, whatever bytes it is made of. */
#include "daemon/line-rings.h"

#include <glib.h>

static void test_numbers(void)
{
	static const u64 values[] = { 0, 1, 9, 10, UINT32_MAX, 1ull << 63, UINT64_MAX };
	Line l = { 0 };

	for (size_t i = 0; i < G_N_ELEMENTS(values); i++) {
		u64 v = 42;
		u32 small = 42;

		line_begin(&l, "word");
		line_number(&l, "before", 7);
		line_number(&l, "key", values[i]);
		line_number(&l, "keys", 8);
		g_assert_true(line_get_number(l.text, "key", &v));
		g_assert_cmpuint(v, ==, values[i]);
		g_assert_cmpint(line_get_u32(l.text, "key", UINT32_MAX, &small), ==, values[i] <= UINT32_MAX);
		g_assert_cmpuint(small, ==, values[i] <= UINT32_MAX ? values[i] : 42);
		g_assert_false(line_get_number(l.text, "ke", &v));
		g_assert_false(line_get_number(l.text, "word", &v));
		g_assert_cmpint(line_get_bool(l.text, "key"), ==, values[i] != 0);
		g_assert_false(line_get_bool(l.text, "ke"));
	}
	line_clear(&l);
}

static void test_no_numbers(void)
{
	static const char *const lines[] = { "w",	  "w key",	"w key=",	"w key=x", "w key=-1",
					     "w key=1x",  "w key= 1",	"w key=+1",	"w =1",	   "key=1",
					     "w xkey=1",  "w key=18446744073709551616", "w key=99999999999999999999999" };

	for (size_t i = 0; i < G_N_ELEMENTS(lines); i++) {
		u64 v = 42;

		g_assert_false(line_get_number(lines[i], "key", &v));
		g_assert_cmpuint(v, ==, 42);
	}
}

/* Every byte there is, alone and beside others. */
static void test_texts(void)
{
	Line l = { 0 };

	for (int c = 1; c < 256; c++) {
		const char odd[] = { (char)c, 'a', (char)c, '=', ' ', '%', '4', '1', '\n', (char)c, 0 };
		char *back;

		line_begin(&l, "word");
		line_text(&l, "first", odd);
		line_text(&l, "none", NULL);
		line_text(&l, "empty", "");
		line_text(&l, "last", odd);
		g_assert_false(l.failed);
		g_assert_null(strchr(l.text, '\n'));
		back = line_get_text(l.text, "first");
		g_assert_cmpstr(back, ==, odd);
		free(back);
		back = line_get_text(l.text, "last");
		g_assert_cmpstr(back, ==, odd);
		free(back);
		back = line_get_text(l.text, "empty");
		g_assert_cmpstr(back, ==, "");
		free(back);
		g_assert_null(line_get_text(l.text, "none"));
	}
	line_clear(&l);
}

static void test_no_texts(void)
{
	static const char *const lines[] = { "w", "w key=%", "w key=%4", "w key=%4 1", "w key=%00", "w key=%4g", "w key=%G4",
					     "w key=%4%41" };

	for (size_t i = 0; i < G_N_ELEMENTS(lines); i++)
		g_assert_null(line_get_text(lines[i], "key"));
}

static void test_bytes(void)
{
	u8 all[256], *back;
	Line l = { 0 };
	size_t n = 1;

	for (size_t i = 0; i < sizeof(all); i++)
		all[i] = (u8)i;
	line_begin(&l, "word");
	line_bytes(&l, "all", all, sizeof(all));
	line_bytes(&l, "none", all, 0);
	back = line_get_bytes(l.text, "all", &n);
	g_assert_cmpmem(back, n, all, sizeof(all));
	free(back);
	back = line_get_bytes(l.text, "none", &n);
	g_assert_nonnull(back);
	g_assert_cmpuint(n, ==, 0);
	free(back);
	g_assert_null(line_get_bytes("w key=0", "key", &n));
	g_assert_null(line_get_bytes("w key=0g", "key", &n));
	g_assert_null(line_get_bytes("w key=0F", "key", &n));
	line_clear(&l);
}

static void test_lists(void)
{
	const char *at = NULL;
	Line l = { 0 };
	u64 v;

	line_begin(&l, "word");
	line_list_begin(&l, "none");
	line_list_begin(&l, "list");
	for (u64 i = 0; i < 3; i++)
		line_list_add(&l, i ? UINT64_MAX / i : 0);
	line_number(&l, "behind", 5);
	for (u64 i = 0; i < 3; i++) {
		g_assert_true(line_list_next(l.text, "list", &at, &v));
		g_assert_cmpuint(v, ==, i ? UINT64_MAX / i : 0);
	}
	g_assert_false(line_list_next(l.text, "list", &at, &v));
	at = NULL;
	g_assert_false(line_list_next(l.text, "none", &at, &v));
	g_assert_false(line_list_next("w list=5", "list", &at, &v));
	g_assert_false(line_list_next("w list=,", "list", &at, &v));
	g_assert_false(line_list_next("w list=99999999999999999999,", "list", &at, &v));
	line_clear(&l);
}

static void test_words(void)
{
	g_assert_true(line_is("session name=a", "session"));
	g_assert_true(line_is("session", "session"));
	g_assert_false(line_is("session-gone name=a", "session"));
	g_assert_false(line_is("session", "session-gone"));
	g_assert_false(line_is("", "session"));
}

/* What is said of rings is what is read of them, each number as itself. */
static void test_rings(void)
{
	const OwnerCounters said = { .recorded = 1, .overwritten = 2, .discarded = 3, .written = 4, .corrupt = 5,
				     .corrupt_subs = 6, .clamped = 7, .unpinned = 8, .lost = { 9, 10, 11 } };
	OwnerCounters counters = { .fill = 1 };
	struct geometry g, back = { 0 };
	Line l = { 0 };

	g_assert_cmpint(geometry_plan(&g, 8 << 20, ABI_MIN_SUBS, 2, 4, ABI_POLICY_DISCARD, ABI_CONTEXT_VTID, NULL), ==, 0);
	g_assert_cmpint(geometry_plan_pinned(&g, 1 << 20, 2, NULL), ==, 0);
	line_begin(&l, "word");
	line_geometry(&l, &g);
	line_counters(&l, &said);
	g_assert_true(line_get_geometry(l.text, &back));
	g_assert_cmpmem(&back, sizeof(back), &g, sizeof(g));
	line_get_counters(l.text, &counters);
	g_assert_cmpmem(&counters, sizeof(counters), &said, sizeof(said));
	/* one that cannot be, and none */
	g.ring_shift = 0;
	line_begin(&l, "word");
	line_geometry(&l, &g);
	g_assert_false(line_get_geometry(l.text, &back));
	g_assert_false(line_get_geometry("word", &back));
	g_assert_cmpuint(back.ring_shift, !=, 0);
	line_clear(&l);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/line/numbers", test_numbers);
	g_test_add_func("/line/no-numbers", test_no_numbers);
	g_test_add_func("/line/texts", test_texts);
	g_test_add_func("/line/no-texts", test_no_texts);
	g_test_add_func("/line/bytes", test_bytes);
	g_test_add_func("/line/lists", test_lists);
	g_test_add_func("/line/words", test_words);
	g_test_add_func("/line/rings", test_rings);
	return g_test_run();
}
