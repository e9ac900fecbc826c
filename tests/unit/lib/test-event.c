/* SPDX-License-Identifier: MIT */
/* Strings on their way into a record. */
#include "lib/tracer.h"

#include "lib/atomic.h"

#include <glib.h>
#include <sys/mman.h>

/* Every length and alignment, at the very end of what is mapped: nothing may be read behind the
 * terminator that is not there. */
static void lengths(void)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *p = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	u8 to[400];

	g_assert(p != MAP_FAILED);
	g_assert_no_errno(mprotect(p + page, page, PROT_NONE));
	for (size_t n = 0; n < 300; n++)
		for (size_t back = 0; back < 33; back++) {
			char *s = p + page - 1 - n - back;
			u32 size;

			memset(p, 'z', page);
			for (size_t i = 0; i < n; i++)
				s[i] = (char)('a' + i % 26);
			s[n] = 0;
			memset(to, 0xEE, sizeof(to));
			size = tracer_string_(to, s, 310);
			g_assert_cmpint(size, ==, n + 1);
			g_assert_cmpmem(to, size, s, size);
			/* the rest of the room may be written to, but not with what is behind the string */
			for (size_t i = size; i < 310; i++)
				g_assert_true(to[i] == 0xEE || to[i] == 0);
			g_assert_cmpint(to[310], ==, 0xEE);
			/* exactly as much room, and one byte less */
			memset(to, 0xEE, sizeof(to));
			g_assert_cmpint(tracer_string_(to, s, (u32)n + 1), ==, n + 1);
			g_assert_cmpint(to[n + 1], ==, 0xEE);
			memset(to, 0xEE, sizeof(to));
			g_assert_cmpint(tracer_string_(to, s, (u32)n), ==, n + 1);
			g_assert_cmpint(to[n], ==, 0xEE);
		}
	munmap(p, 2 * page);
}

static void longest(void)
{
	g_autofree char *s = g_strnfill(70000, 's');
	u8 to[8];

	g_assert_cmpint(tracer_string_(to, s, sizeof(to)), ==, 65536);
	s[65535] = 0;
	g_assert_cmpint(tracer_string_(to, s, sizeof(to)), ==, 65536);
	s[65534] = 0;
	g_assert_cmpint(tracer_string_(to, s, sizeof(to)), ==, 65535);
	s[65500] = 0;
	g_assert_cmpint(tracer_string_(to, s + 3, sizeof(to)), ==, 65498);
}

typedef struct {
	char text[64];
	u32 length, stop;
} Changing;

static gpointer change(gpointer data)
{
	Changing *c = data;

	for (u32 i = 0; !load_relaxed_u32(&c->stop); i++) {
		char *p = &c->text[i * 7 % c->length];

		__atomic_store_n(p, 0, __ATOMIC_RELAXED);
		__atomic_store_n(p, 'x', __ATOMIC_RELAXED);
	}
	return NULL;
}

/* While somebody shortens it and takes that back: no NUL but the last byte, and '#' only at the
 * end. */
static void changing(void)
{
#ifdef __SANITIZE_THREAD__
	g_test_skip("a race that is meant");
	return;
#endif
	for (u32 length = 1; length < 60; length += 3) {
		Changing c = {.length = length};
		GThread *t;

		memset(c.text, 'x', length);
		t = g_thread_new("change", change, &c);
		for (u32 i = 0; i < 30000; i++) {
			u8 to[80];
			u32 size = tracer_string_(to, c.text, 70), n;

			g_assert_cmpint(size, <=, length + 1);
			g_assert_cmpint(strlen((char *)to), ==, size - 1);
			n = (u32)strspn((char *)to, "x");
			g_assert_cmpint(n + strspn((char *)to + n, "#x"), ==, size - 1);
		}
		store_relaxed_u32(&c.stop, 1);
		g_thread_join(t);
	}
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/event/string/lengths", lengths);
	g_test_add_func("/event/string/longest", longest);
	g_test_add_func("/event/string/changing", changing);
	return g_test_run();
}
