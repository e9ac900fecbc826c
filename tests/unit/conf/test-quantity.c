/* SPDX-License-Identifier: MIT */
#include "conf/quantity.h"

/* behind base.h, whose MIN and MAX it replaces */
#include <glib.h>

typedef struct {
	const char *text;
	int result;
	u64 value;
} Case;

static const Case sizes[] = {
	{ "0", 0, 0 },
	{ "1", 0, 1 },
	{ "4096", 0, 4096 },
	{ "512K", 0, 512 << 10 },
	{ "16M", 0, 16 << 20 },
	{ "1G", 0, 1ull << 30 },
	{ "2T", 0, 2ull << 40 },
	{ "3P", 0, 3ull << 50 },
	{ "16383P", 0, 16383ull << 50 },
	{ "18446744073709551615", 0, UINT64_MAX },
	{ "007K", 0, 7 << 10 },
	/* one more than fits, by digits and by unit */
	{ "18446744073709551616", -ERANGE },
	{ "16384P", -ERANGE },
	{ "18446744073709551615K", -ERANGE },
	{ "99999999999999999999999999999", -ERANGE },
	/* the form comes first */
	{ "99999999999999999999999999999x", -EINVAL },
	{ "", -EINVAL },
	{ "K", -EINVAL },
	{ "-1", -EINVAL },
	{ "+1", -EINVAL },
	{ " 1", -EINVAL },
	{ "1 ", -EINVAL },
	{ "1 M", -EINVAL },
	{ "1m", -EINVAL },
	{ "1k", -EINVAL },
	{ "1MM", -EINVAL },
	{ "1MB", -EINVAL },
	{ "1.5M", -EINVAL },
	{ "0x10", -EINVAL },
	{ "1e3", -EINVAL },
	{ "1E", -EINVAL },
	{ "M1", -EINVAL },
	{ "1\n", -EINVAL },
	{ "\xd9\xa1", -EINVAL }, /* an Arabic digit */
};

static const Case times[] = {
	{ "0", 0, 0 },
	{ "0s", 0, 0 },
	{ "1ns", 0, 1 },
	{ "7us", 0, 7000 },
	{ "500ms", 0, 500000000 },
	{ "10s", 0, 10000000000ull },
	{ "5min", 0, 300000000000ull },
	{ "2h", 0, 7200000000000ull },
	{ "30d", 0, 2592000000000000ull },
	{ "213503d", 0, 213503ull * 86400 * 1000000000 },
	{ "18446744073709551615ns", 0, UINT64_MAX },
	{ "213504d", -ERANGE },
	{ "18446744073709551616ns", -ERANGE },
	{ "18446744073s", 0, 18446744073000000000ull },
	{ "18446744074s", -ERANGE },
	{ "", -EINVAL },
	{ "s", -EINVAL },
	{ "1", -EINVAL },
	{ "00", -EINVAL },
	{ "10m", -EINVAL }, /* minutes? milliseconds? */
	{ "10S", -EINVAL },
	{ "10 s", -EINVAL },
	{ "10sec", -EINVAL },
	{ "-10s", -EINVAL },
	{ "1h30min", -EINVAL },
	{ "1.5s", -EINVAL },
};

static void try_all(const Case *cases, size_t n, int (*parse)(const char *, u64 *))
{
	for (size_t i = 0; i < n; i++) {
		u64 value = 0x5a5a;
		int r = parse(cases[i].text, &value);

		if (r != cases[i].result || value != (r == 0 ? cases[i].value : 0x5a5a))
			g_error("\"%s\": %d, %" G_GUINT64_FORMAT, cases[i].text, r, value);
	}
}

static void test_sizes(void)
{
	try_all(sizes, G_N_ELEMENTS(sizes), parse_size);
}

static void test_times(void)
{
	try_all(times, G_N_ELEMENTS(times), parse_time);
}

static void test_percents(void)
{
	static const char *const wrong[] = { "", "%", "10", "-1%", "1.5%", "10 %", "10%%" };
	u32 n = 77;

	g_assert_cmpint(parse_percent("10%", &n), ==, 0);
	g_assert_cmpuint(n, ==, 10);
	g_assert_cmpint(parse_percent("99%", &n), ==, 0);
	g_assert_cmpint(parse_percent("0%", &n), ==, 0);
	g_assert_cmpint(parse_percent("100%", &n), ==, -ERANGE);
	g_assert_cmpint(parse_percent("4294967306%", &n), ==, -ERANGE); /* 2^32 + 10 */
	for (size_t i = 0; i < G_N_ELEMENTS(wrong); i++)
		g_assert_cmpint(parse_percent(wrong[i], &n), ==, -EINVAL);
	g_assert_cmpuint(n, ==, 0);
}

/* What is written is the shortest that reads back as the same. */
static void test_format(void)
{
	char text[32];

	for (size_t i = 0; i < G_N_ELEMENTS(sizes); i++) {
		u64 back;

		if (sizes[i].result < 0)
			continue;
		format_size(sizes[i].value, text);
		g_assert_cmpint(parse_size(text, &back), ==, 0);
		g_assert_cmpuint(back, ==, sizes[i].value);
	}
	for (size_t i = 0; i < G_N_ELEMENTS(times); i++) {
		u64 back;

		if (times[i].result < 0)
			continue;
		format_time(times[i].value, text);
		g_assert_cmpint(parse_time(text, &back), ==, 0);
		g_assert_cmpuint(back, ==, times[i].value);
	}
	format_size(1536, text);
	g_assert_cmpstr(text, ==, "1536");
	format_size(3 << 20, text);
	g_assert_cmpstr(text, ==, "3M");
	format_time(90 * NSEC_PER_SEC, text);
	g_assert_cmpstr(text, ==, "90s");
	format_time(120 * NSEC_PER_SEC, text);
	g_assert_cmpstr(text, ==, "2min");
	format_time(0, text);
	g_assert_cmpstr(text, ==, "0");
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/quantity/sizes", test_sizes);
	g_test_add_func("/quantity/times", test_times);
	g_test_add_func("/quantity/percents", test_percents);
	g_test_add_func("/quantity/format", test_format);
	return g_test_run();
}
