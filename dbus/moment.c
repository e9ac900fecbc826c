/* SPDX-License-Identifier: MIT */
#include "dbus/moment.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#include "conf/config.h"

/* n digits, no more: false if there are fewer, or another behind them. */
static bool take_digits(const char **p, int n, int *ret)
{
	*ret = 0;
	for (int i = 0; i < n; i++, (*p)++) {
		if (**p < '0' || **p > '9')
			return false;
		*ret = *ret * 10 + (**p - '0');
	}
	return **p < '0' || **p > '9';
}

static bool take(const char **p, char c)
{
	if (**p != c)
		return false;
	(*p)++;
	return true;
}

/* ".123": up to nine digits of a second */
static bool take_fraction(const char **p, u64 *ret_ns)
{
	u64 unit = NSEC_PER_SEC;

	*ret_ns = 0;
	if (!take(p, '.'))
		return true;
	if (**p < '0' || **p > '9')
		return false;
	for (; **p >= '0' && **p <= '9'; (*p)++) {
		unit /= 10;
		if (unit == 0)
			return false;
		*ret_ns += (u64)(**p - '0') * unit;
	}
	return true;
}

/* "2026-11-29" */
static bool take_date(const char **p, struct tm *tm)
{
	if (!take_digits(p, 4, &tm->tm_year) || !take(p, '-') || !take_digits(p, 2, &tm->tm_mon) || !take(p, '-') ||
	    !take_digits(p, 2, &tm->tm_mday))
		return false;
	tm->tm_year -= 1900;
	tm->tm_mon--;
	return true;
}

/* "16:01", "16:01:02.5" */
static bool take_clock(const char **p, struct tm *tm, u64 *ret_ns)
{
	*ret_ns = 0;
	if (!take_digits(p, 2, &tm->tm_hour) || !take(p, ':') || !take_digits(p, 2, &tm->tm_min))
		return false;
	return !take(p, ':') || (take_digits(p, 2, &tm->tm_sec) && take_fraction(p, ret_ns));
}

/* Days and times that there are not, February 30 or 25:00, would be counted on into ones that there are. */
static int convert(struct tm tm, bool utc, u64 ns, u64 *ret)
{
	struct tm same = tm;
	time_t s;

	same.tm_isdst = -1;
	s = utc ? timegm(&same) : mktime(&same);
	if (s < 0 || same.tm_mday != tm.tm_mday || same.tm_mon != tm.tm_mon || same.tm_year != tm.tm_year ||
	    same.tm_min != tm.tm_min || same.tm_sec != tm.tm_sec || tm.tm_hour > 23)
		return -ERANGE;
	if (__builtin_mul_overflow((u64)s, NSEC_PER_SEC, ret) || __builtin_add_overflow(*ret, ns, ret))
		return -ERANGE;
	return 0;
}

/* On the day of the span's begin; of a span that goes over midnight the small hours are those behind it. */
static int convert_on_day(struct tm tm, bool utc, u64 ns, u64 begin, u64 end, u64 *ret)
{
	time_t s = (time_t)(begin / NSEC_PER_SEC);
	struct tm day, next;
	u64 later;
	int r;

	if (!(utc ? gmtime_r(&s, &day) : localtime_r(&s, &day)))
		return -ERANGE;
	tm.tm_year = day.tm_year;
	tm.tm_mon = day.tm_mon;
	tm.tm_mday = day.tm_mday;
	r = convert(tm, utc, ns, ret);
	if (r < 0 || *ret >= begin)
		return r;
	next = (struct tm){ .tm_year = day.tm_year, .tm_mon = day.tm_mon, .tm_mday = day.tm_mday + 1, .tm_hour = 12 };
	next.tm_isdst = -1;
	(void)(utc ? timegm(&next) : mktime(&next)); /* for the month's end */
	tm.tm_year = next.tm_year;
	tm.tm_mon = next.tm_mon;
	tm.tm_mday = next.tm_mday;
	if (convert(tm, utc, ns, &later) == 0 && later <= end)
		*ret = later;
	return 0;
}

static int parse_relative(const char *text, u64 begin, u64 end, u64 *ret)
{
	u64 ns;
	int r = parse_time(text + 1, &ns);

	if (r < 0)
		return r;
	if (*text == '-')
		*ret = end > ns ? end - ns : 0;
	else if (__builtin_add_overflow(begin, ns, ret))
		return -ERANGE;
	return 0;
}

int moment_parse(const char *text, u64 begin, u64 end, u64 *ret)
{
	const char *p = text, *q = text;
	struct tm tm = { 0 };
	bool date, clock = false, utc;
	u64 ns = 0;

	if (*text == '+' || *text == '-')
		return parse_relative(text, begin, end, ret);
	date = take_date(&p, &tm);
	if (date && (take(&p, ' ') || take(&p, 'T'))) {
		clock = take_clock(&p, &tm, &ns);
		if (!clock)
			return -EINVAL;
	} else if (!date) {
		tm = (struct tm){ 0 };
		clock = take_clock(&q, &tm, &ns);
		if (!clock)
			return -EINVAL;
		p = q;
	}
	utc = take(&p, 'Z');
	if (*p)
		return -EINVAL;
	return date ? convert(tm, utc, ns, ret) : convert_on_day(tm, utc, ns, begin, end, ret);
}

void moment_format(u64 ns, char ret[64])
{
	time_t s = (time_t)(ns / NSEC_PER_SEC);
	struct tm tm;
	size_t n = localtime_r(&s, &tm) ? strftime(ret, 64, "%Y-%m-%d %H:%M:%S", &tm) : 0;

	(void)snprintf(ret + n, 64 - n, ".%09" PRIu64, (uint64_t)(ns % NSEC_PER_SEC));
}
