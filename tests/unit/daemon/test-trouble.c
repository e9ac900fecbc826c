/* SPDX-License-Identifier: MIT */
/* Trouble is said once, whatever happens how often, and so is its end. */
#include "daemon/trouble.h"

#include <glib.h>

static void test_once(void)
{
	Trouble t = { 0 };

	g_assert_false(trouble_end(&t));
	g_assert_true(trouble_begin(&t, -EIO));
	g_assert_true(t.on);
	g_assert_false(t.space);
	for (int i = 0; i < 10; i++)
		g_assert_false(trouble_begin(&t, -EIO));
	g_assert_true(trouble_end(&t));
	g_assert_false(trouble_end(&t));
	/* it is news again */
	g_assert_true(trouble_begin(&t, -EIO));
	g_assert_true(trouble_end(&t));
}

/* Errors that take turns. */
static void test_turns(void)
{
	Trouble t = { 0 };
	u32 n = 0;

	for (int i = 0; i < 10; i++) {
		n += trouble_begin(&t, -EIO);
		g_assert_false(t.space);
		n += trouble_begin(&t, -ENOSPC);
		g_assert_true(t.space);
	}
	g_assert_cmpuint(n, ==, 2);
	/* somebody's game is not written down for ever */
	for (int e = 1; e < 100; e++)
		n += trouble_begin(&t, -e);
	g_assert_cmpuint(n, ==, ELEMENTSOF(t.said));
	g_assert_true(trouble_end(&t));
	g_assert_true(trouble_begin(&t, -ENOSPC));
}

static void test_retry(void)
{
	Trouble t = { 0 };
	u64 first;

	(void)trouble_begin(&t, -EIO);
	first = t.retry_at;
	g_assert_cmpuint(first, >=, TROUBLE_RETRY_NS);
	(void)trouble_begin(&t, -EIO);
	g_assert_cmpuint(t.retry_at, >=, first);
}

static void test_kinds(void)
{
	static const int space[] = { -ENOSPC, -EDQUOT }, more[] = { -EDOM, -ENOMEM, -EFBIG },
			 other[] = { -EIO, -EROFS, -ESTALE, -ENOENT, -EWOULDBLOCK };

	for (size_t i = 0; i < ELEMENTSOF(space); i++)
		g_assert_true(trouble_is_space(space[i]) && trouble_is_short(space[i]) && trouble_is(space[i]));
	for (size_t i = 0; i < ELEMENTSOF(more); i++)
		g_assert_true(!trouble_is_space(more[i]) && trouble_is_short(more[i]) && trouble_is(more[i]));
	for (size_t i = 0; i < ELEMENTSOF(other); i++)
		g_assert_true(!trouble_is_space(other[i]) && !trouble_is_short(other[i]));
	g_assert_false(trouble_is(0) || trouble_is(-EBUSY) || trouble_is(-ENODATA));
}

/* The path is in all of them, and who asked for a rotation hears which kind it is. */
static void test_words(void)
{
	static const int errors[] = { -ENOSPC, -EDQUOT, -EDOM, -ESTALE, -EWOULDBLOCK, -EFBIG, -EIO, -EROFS };
	Failure f;

	for (size_t i = 0; i < ELEMENTSOF(errors); i++) {
		char *text = trouble_text("/var/x", errors[i]), *end = trouble_text_unfinished("/var/x/t", errors[i]);

		g_assert_true(g_str_has_prefix(text, "/var/x: "));
		g_assert_true(g_str_has_prefix(end, "/var/x/t: "));
		free(text);
		free(end);
		(void)trouble_failure(&f, "log", "/var/x", errors[i]);
		g_assert_cmpint(f.kind, ==,
				trouble_is_space(errors[i]) || errors[i] == -EDOM ? FAILURE_NO_SPACE : FAILURE_IO);
		g_assert_nonnull(strstr(f.text, "/var/x"));
	}
	(void)trouble_failure(&f, "log", "/var/x", -ENODATA);
	g_assert_cmpint(f.kind, ==, FAILURE_NOTHING);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/trouble/once", test_once);
	g_test_add_func("/trouble/turns", test_turns);
	g_test_add_func("/trouble/retry", test_retry);
	g_test_add_func("/trouble/kinds", test_kinds);
	g_test_add_func("/trouble/words", test_words);
	return g_test_run();
}
