/* SPDX-License-Identifier: MIT */
/* Moments as people write them. */
#include "dbus/moment.h"

/* behind base.h, whose MIN and MAX it replaces */
#include <glib.h>
#include <time.h>

#define S NSEC_PER_SEC
#define DAY (86400 * S)
/* 2026-11-29 16:01:02 UTC */
#define BEGIN (1795968062ull * S)

static void zone(const char *name)
{
	g_assert_true(g_setenv("TZ", name, TRUE));
	tzset();
}

static void right(const char *text, u64 begin, u64 end, u64 expected)
{
	u64 ns = 0;
	int r = moment_parse(text, begin, end, &ns);

	if (r != 0 || ns != expected)
		g_error("%s: %d, %" G_GUINT64_FORMAT " instead of %" G_GUINT64_FORMAT, text, r, ns, expected);
}

static void test_absolute(void)
{
	zone("UTC");
	right("2026-11-29 16:01:02", 0, 0, BEGIN);
	right("2026-11-29T16:01:02Z", 0, 0, BEGIN);
	right("2026-11-29 16:01:02.123456789", 0, 0, BEGIN + 123456789);
	right("2026-11-29 16:01:02.5", 0, 0, BEGIN + S / 2);
	right("2026-11-29 16:01", 0, 0, BEGIN - 2 * S);
	right("2026-11-29", 0, 0, BEGIN / DAY * DAY);
	right("1970-01-01Z", 0, 0, 0);
	right("2024-02-29", 0, 0, 1709164800ull * S);
	zone("XYZ-02:00"); /* two hours east */
	right("2026-11-29 18:01:02", 0, 0, BEGIN);
	right("2026-11-29 16:01:02Z", 0, 0, BEGIN);
	right("18:01:02", BEGIN, BEGIN, BEGIN);
	right("16:01:02Z", BEGIN, BEGIN, BEGIN);
}

static void test_of_day(void)
{
	u64 late = BEGIN / DAY * DAY + DAY - 60 * S; /* 23:59 */

	zone("UTC");
	right("16:01:02.25", BEGIN, BEGIN + 10 * S, BEGIN + S / 4);
	right("16:01", BEGIN, BEGIN + 10 * S, BEGIN - 2 * S); /* before it, on the day */
	/* over midnight */
	right("23:59:30", late, late + 120 * S, late + 30 * S);
	right("00:00:30", late, late + 120 * S, late + 90 * S);
	right("00:02", late, late + 120 * S, late - 86220 * S); /* beyond both: on the day */
	zone("XYZ-02:00");
	right("01:59:30", late, late + 120 * S, late + 30 * S);
	/* over the end of a year */
	zone("UTC");
	late = 1798761540ull * S; /* 2026-12-31 23:59 */
	right("00:00:30", late, late + 120 * S, late + 90 * S);
}

static void test_relative(void)
{
	right("+5s", BEGIN, BEGIN + DAY, BEGIN + 5 * S);
	right("+0", BEGIN, BEGIN + DAY, BEGIN);
	right("-10s", BEGIN, BEGIN + DAY, BEGIN + DAY - 10 * S);
	right("-250ms", BEGIN, BEGIN + DAY, BEGIN + DAY - S / 4);
	right("-2h", 10, 20, 0);
}

static void test_wrong(void)
{
	static const struct {
		const char *text;
		int r;
	} cases[] = {
		{"", -EINVAL}, {"now", -EINVAL}, {"16", -EINVAL}, {"16:1", -EINVAL}, {"16:01:2", -EINVAL},
		{"16:01:02.", -EINVAL}, {"16:01:02.1234567890", -EINVAL}, {"16:01:02 ", -EINVAL},
		{"16:01:02z", -EINVAL}, {"2026-11-29 ", -EINVAL}, {"2026-11-29T", -EINVAL}, {"26-11-29", -EINVAL},
		{"2026-11-29  16:01", -EINVAL}, {"2026-1-29", -EINVAL}, {"20261129T160102Z", -EINVAL},
		{"5s", -EINVAL}, {"+5", -EINVAL}, {"+", -EINVAL}, {"--5s", -EINVAL}, {"+1.5s", -EINVAL},
		{"+99999999999999999999s", -ERANGE}, {"+584000d", -ERANGE}, {"2026-02-30", -ERANGE},
		{"2026-13-01", -ERANGE}, {"2026-00-01", -ERANGE}, {"2026-01-00", -ERANGE}, {"24:00", -ERANGE},
		{"12:60", -ERANGE}, {"12:00:60", -ERANGE}, {"1969-12-31", -ERANGE}, {"9999-01-01", -ERANGE},
		{"2026-11-29 16:01:02+01:00", -EINVAL}, {"016:01", -EINVAL}, {"2026-11-291", -EINVAL},
	};

	zone("UTC");
	for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
		u64 ns = 0;
		int r = moment_parse(cases[i].text, BEGIN, BEGIN + DAY, &ns);

		if (r != cases[i].r)
			g_error("'%s': %d", cases[i].text, r);
	}
}

/* What is said can be given back. */
static void test_format(void)
{
	char text[64];

	for (int i = 0; i < 2; i++) {
		zone(i ? "XYZ+03:30" : "UTC");
		moment_format(BEGIN + 7, text);
		right(text, 0, 0, BEGIN + 7);
	}
	zone("UTC");
	moment_format(BEGIN, text);
	g_assert_cmpstr(text, ==, "2026-11-29 16:01:02.000000000");
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/moment/absolute", test_absolute);
	g_test_add_func("/moment/of-day", test_of_day);
	g_test_add_func("/moment/relative", test_relative);
	g_test_add_func("/moment/wrong", test_wrong);
	g_test_add_func("/moment/format", test_format);
	return g_test_run();
}
