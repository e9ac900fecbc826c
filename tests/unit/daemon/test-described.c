/* SPDX-License-Identifier: MIT */
/* Who was in the rings: kept as long as that can be, in bounds, and said in a form that every reader takes. */
#include "daemon/described.h"

#include <glib.h>

static const struct geometry geometry = { .ring_shift = 16, .sub_shift = 12, .side_shift = 16, .side_sub_shift = 12,
					  .n_ring = 1, .n_side = 1, .pinned_shift = 13, .pinned_sub_shift = 10,
					  .n_pinned = 2 };

static Epoch *epoch(u64 cpu, u64 side, u64 pinned_0, u64 pinned_1)
{
	const u64 offsets[] = { cpu, side, pinned_0, pinned_1 };
	Epoch *e;

	g_assert_cmpint(epoch_new(&e, 4), ==, 0);
	memcpy(e->offset, offsets, sizeof(offsets));
	return e;
}

static Described *add(DescribedList *l, pid_t pid)
{
	_cleanup_(description_unrefp) Description *d = description_new();
	Described *ret;

	g_assert_nonnull(d);
	d->pid = pid;
	d->start_ticks = (u64)pid;
	g_assert_cmpint(described_add(l, d, &ret), ==, 0);
	return ret;
}

static void end(DescribedList *l, Described *d, Epoch *e, u32 pinned)
{
	static u64 now = 1000;

	d->what->ended = ++now;
	described_end(l, d, e, pinned);
	(void)epoch_unref(e);
}

static void test_prune(void)
{
	DescribedList l = { 0 };
	Described *a = add(&l, 1), *b = add(&l, 2), *c = add(&l, 3);
	u64 first[4] = { 0 };

	(void)c;
	end(&l, a, epoch(5000, 0, 800, 700), 0);
	end(&l, b, epoch(6000, 0, 800, 700), 3);
	described_prune(&l, first, &geometry);
	g_assert_cmpuint(l.n, ==, 3);
	/* the rings of CPUs have passed both, and the pinned ring of b holds it; those of others are nothing to a */
	first[0] = 8192;
	described_prune(&l, first, &geometry);
	g_assert_cmpuint(l.n, ==, 2);
	g_assert_cmpuint(l.n_dead, ==, 1);
	g_assert_cmpint(l.first->what->pid, ==, 2);
	first[3] = 1024;
	described_prune(&l, first, &geometry);
	g_assert_cmpuint(l.n, ==, 1);
	g_assert_cmpint(l.first->what->pid, ==, 3);
	/* one whose end nobody could note stays */
	end(&l, l.first, NULL, 0);
	described_prune(&l, first, &geometry);
	g_assert_cmpuint(l.n, ==, 1);
	described_clear(&l);
	g_assert_cmpuint(l.n, ==, 0);
}

static void test_bounds(void)
{
	DescribedList l = { 0 };
	Descriptions copy;

	(void)add(&l, 7);
	for (pid_t pid = 1000; pid < 1200; pid++)
		end(&l, add(&l, pid), epoch(1, 0, 0, 0), 0);
	(void)add(&l, 8);
	g_assert_cmpuint(l.n_dead, ==, DESCRIBED_MAX_DEAD);
	g_assert_cmpint(described_copy(&l, SIZE_MAX, &copy), ==, 0);
	g_assert_cmpuint(copy.n, ==, DESCRIBED_MAX_DEAD + 2);
	g_assert_cmpuint(copy.n_left_out, ==, 200 - DESCRIBED_MAX_DEAD);
	/* who died last, who lives, the rest */
	g_assert_cmpint(copy.v[0].pid, ==, 1199);
	g_assert_cmpint(copy.v[7].pid, ==, 1192);
	g_assert_cmpint(copy.v[8].pid, ==, 8);
	g_assert_cmpint(copy.v[9].pid, ==, 7);
	g_assert_cmpint(copy.v[10].pid, ==, 1191);
	{
		_cleanup_(environment_clear) Environment e = { 0 };
		u32 n = 0;

		descriptions_say(&copy, 0, &e);
		g_assert_false(e.failed);
		g_assert_cmpstr(e.v[0].key, ==, "producers");
		g_assert_cmpstr(e.v[0].value, ==, "130");
		g_assert_cmpstr(e.v[1].key, ==, "producers_left_out");
		g_assert_cmpstr(e.v[1].value, ==, "72");
		for (size_t i = 0; i < e.n; i++)
			n += g_str_has_suffix(e.v[i].key, "_pid");
		g_assert_cmpuint(n, ==, 16);
	}
	{
		char *text;
		size_t size;
		u64 left_out = 5;
		FILE *f = open_memstream(&text, &size);

		g_assert_cmpstr(descriptions_write(&copy, "user-0", "", 2000, f, &left_out), ==, ",\n\t\t");
		fclose(f);
		g_assert_cmpuint(size, <=, 2000);
		g_assert_cmpuint(size, >, 1000);
		g_assert_cmpuint(left_out, >, 5 + 72 + 100);
		free(text);
	}
	{
		_cleanup_(environment_clear) Environment e = { 0 };

		/* of a trace that began when all but the last two dead were gone */
		descriptions_say(&copy, copy.v[1].ended, &e);
		g_assert_cmpstr(e.v[0].value, ==, "4");
		g_assert_cmpstr(e.v[1].key, ==, "producer_1_pid");
		g_assert_cmpstr(e.v[1].value, ==, "1199");
		for (size_t i = 0; i < e.n; i++)
			g_assert_cmpstr(e.v[i].key, !=, "producer_5_pid");
	}
	descriptions_clear(&copy);
	g_assert_cmpint(described_copy(&l, 9, &copy), ==, 0);
	g_assert_cmpuint(copy.n, ==, 9);
	g_assert_cmpuint(copy.n_all, ==, DESCRIBED_MAX_DEAD + 2);
	g_assert_cmpint(copy.v[8].pid, ==, 8);
	descriptions_clear(&copy);
	described_clear(&l);
}

static void test_strings(void)
{
	static const struct {
		const char *in, *out;
	} cases[] = {
		{ "", "\"\"" },
		{ "/usr/bin/x y", "\"/usr/bin/x y\"" },
		{ "a\"b\\c", "\"a\\\"b\\\\c\"" },
		{ "\n\x1b[2J\x7f", "\"\\u000a\\u001b[2J\\u007f\"" },
		{ "gr\xc3\xb6\xc3\x9f", "\"gr\xc3\xb6\xc3\x9f\"" },
		{ "\xff\xc3", "\"\\ufffd\\ufffd\"" },
		{ "\xe2\x82", "\"\\ufffd\\ufffd\"" },
	};

	for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
		char *text;
		size_t size;
		FILE *f = open_memstream(&text, &size);

		description_string(f, cases[i].in);
		fclose(f);
		g_assert_cmpstr(text, ==, cases[i].out);
		free(text);
	}
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/described/prune", test_prune);
	g_test_add_func("/described/bounds", test_bounds);
	g_test_add_func("/described/strings", test_strings);
	return g_test_run();
}
