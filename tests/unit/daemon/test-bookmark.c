/* SPDX-License-Identifier: MIT */
/* The newest mark whose packet is there is the one; pages are one stream's each, over a daemon's death. */
#include "daemon/bookmark.h"

#include <fcntl.h>
#include <glib.h>

static bool below(void *userdata, const Bookmark *b)
{
	return b->end <= *(u64 *)userdata;
}

static Bookmark mark(u64 i)
{
	return (Bookmark){ .chunk = 1, .start = i * 10, .end = i * 10 + 10, .progress = { .done = i } };
}

static void test_newest(void)
{
	BookmarkPage *p = g_new0(BookmarkPage, 1);
	StreamProgress found;
	u64 limit = UINT64_MAX;

	g_assert_false(bookmark_find(p, below, &limit, &found));
	for (u64 i = 0; i < 3 * BOOKMARKS; i++) {
		Bookmark b = mark(i);

		bookmark_put(p, &b);
		limit = UINT64_MAX;
		g_assert_true(bookmark_find(p, below, &limit, &found));
		g_assert_cmpuint(found.done, ==, i);
		/* the file has them only up to one of those before; the oldest that is kept is the last that can be found */
		for (u64 back = 0; back < BOOKMARKS && back <= i; back++) {
			limit = (i - back) * 10 + 10;
			g_assert_true(bookmark_find(p, below, &limit, &found));
			g_assert_cmpuint(found.done, ==, i - back);
		}
		limit = 0;
		g_assert_false(bookmark_find(p, below, &limit, &found));
		/* not taken after all, and then one that is */
		bookmark_take_back(p);
		limit = UINT64_MAX;
		if (i) {
			g_assert_true(bookmark_find(p, below, &limit, &found));
			g_assert_cmpuint(found.done, ==, i - 1);
		}
		bookmark_put(p, &b);
	}
	g_free(p);
}

static void test_names(void)
{
	g_assert_cmpuint(bookmark_chunk("a", "b"), ==, bookmark_chunk("a", "b"));
	g_assert_cmpuint(bookmark_chunk("a", "b"), !=, bookmark_chunk("ab", ""));
	g_assert_cmpuint(bookmark_chunk("a", "b"), !=, bookmark_chunk("", "ab"));
	g_assert_cmpuint(bookmark_chunk("a", "b"), !=, bookmark_chunk("b", "a"));
	g_assert_cmpuint(bookmark_chunk("a", "b"), !=, 0);
}

/* Pages of who is gone are empty for the next one; those that were claimed stay. */
static void test_pages(void)
{
	Bookmarks *b, *next;
	BookmarkPage *p, *q;
	u32 one, two, three;

	g_assert_cmpint(bookmarks_new(&b, -1), ==, 0);
	g_assert_cmpint(bookmarks_reserve(b, 5, &one), ==, 0);
	g_assert_cmpint(bookmarks_reserve(b, 200, &two), ==, 0);
	g_assert_cmpuint(one, !=, 0);
	g_assert_true(two >= one + 5 || two + 200 <= one);
	p = bookmarks_map(b, two, 200);
	for (u32 i = 0; i < 200; i++) {
		Bookmark m = mark(i);

		bookmark_put(bookmarks_at(p, i), &m);
	}
	g_assert_cmpint(bookmarks_new(&next, fcntl(bookmarks_fd(b), F_DUPFD_CLOEXEC, 0)), ==, 0);
	g_assert_cmpint(bookmarks_claim(next, 0, 1), ==, -EINVAL);
	g_assert_cmpint(bookmarks_claim(next, one, 0), ==, -EINVAL);
	g_assert_cmpint(bookmarks_claim(next, UINT32_MAX, 2), ==, -EINVAL);
	g_assert_cmpint(bookmarks_claim(next, (1u << 20) - 1, 2), ==, -EINVAL);
	g_assert_cmpint(bookmarks_claim(next, two, 200), ==, 0);
	/* twice is somebody else's */
	g_assert_cmpint(bookmarks_claim(next, two, 200), ==, -EINVAL);
	g_assert_cmpint(bookmarks_claim(next, two + 199, 5), ==, -EINVAL);
	q = bookmarks_map(next, two, 200);
	for (u32 i = 0; i < 200; i++) {
		g_assert_cmpuint(bookmarks_at(q, i)->n, ==, 1);
		g_assert_cmpuint(bookmarks_at(q, i)->marks[0].start, ==, i * 10);
	}
	/* what nobody claimed is free, and empty */
	bookmark_put(bookmarks_at(p, 0), &bookmarks_at(p, 0)->marks[0]);
	g_assert_cmpint(bookmarks_reserve(next, 300, &three), ==, 0);
	g_assert_true(three >= two + 200 || three + 300 <= two);
	bookmarks_unmap(q, 200);
	bookmarks_release(next, two, 200);
	g_assert_cmpint(bookmarks_reserve(next, 200, &two), ==, 0);
	q = bookmarks_map(next, two, 200);
	for (u32 i = 0; i < 200; i++)
		g_assert_cmpuint(bookmarks_at(q, i)->n, ==, 0);
	bookmarks_unmap(q, 200);
	bookmarks_unmap(p, 200);
	g_assert_null(bookmarks_at(NULL, 3));
	(void)bookmarks_free(next);
	(void)bookmarks_free(b);
}

/* All of them, and no more; then again. */
static void test_all(void)
{
	Bookmarks *b;
	u32 n = 0, first;

	g_assert_cmpint(bookmarks_new(&b, -1), ==, 0);
	while (bookmarks_reserve(b, 65536, &first) == 0)
		n++;
	g_assert_cmpuint(n, ==, 15);
	while (bookmarks_reserve(b, 1, &first) == 0)
		n++;
	g_assert_cmpuint(n, ==, 15 + 65535);
	bookmarks_release(b, 63, 3);
	g_assert_cmpint(bookmarks_reserve(b, 4, &first), ==, -ENOSPC);
	g_assert_cmpint(bookmarks_reserve(b, 3, &first), ==, 0);
	g_assert_cmpuint(first, ==, 63);
	(void)bookmarks_free(b);
}

static void test_strange(void)
{
	Bookmarks *b;

	g_assert_cmpint(bookmarks_new(&b, open("/dev/null", O_RDWR | O_CLOEXEC)), ==, -EBADMSG);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/bookmark/newest", test_newest);
	g_test_add_func("/bookmark/names", test_names);
	g_test_add_func("/bookmark/pages", test_pages);
	g_test_add_func("/bookmark/all", test_all);
	g_test_add_func("/bookmark/strange", test_strange);
	return g_test_run();
}
