/* SPDX-License-Identifier: MIT */
/* Sizes and times with their units. The forms are few on purpose: digits, then at once a unit; no sign, no
 * fraction, no blank, nothing behind. What is doubtful is refused rather than guessed at. */
#include "conf/quantity.h"

#include <inttypes.h>
#include <stdio.h>

typedef struct {
	const char *name;
	u64 factor;
} Unit;

static const Unit size_units[] = {
	{ "", 1 },
	{ "K", 1ull << 10 },
	{ "M", 1ull << 20 },
	{ "G", 1ull << 30 },
	{ "T", 1ull << 40 },
	{ "P", 1ull << 50 },
};

static const Unit time_units[] = {
	{ "ns", 1 },
	{ "us", NSEC_PER_USEC },
	{ "ms", NSEC_PER_MSEC },
	{ "s", NSEC_PER_SEC },
	{ "min", 60 * NSEC_PER_SEC },
	{ "h", 3600 * NSEC_PER_SEC },
	{ "d", 86400 * NSEC_PER_SEC },
};

static int parse_digits(const char *s, const char **ret_rest, u64 *ret)
{
	bool over = false;
	u64 n = 0;

	if (*s < '0' || *s > '9')
		return -EINVAL;
	for (; *s >= '0' && *s <= '9'; s++)
		if (__builtin_mul_overflow(n, 10, &n) || __builtin_add_overflow(n, (u64)(*s - '0'), &n))
			over = true;
	*ret_rest = s;
	*ret = n;
	return over ? -ERANGE : 0;
}

/* A number too large is -ERANGE only if the rest has the right form: the form is the first thing to put
 * right. */
static int parse_quantity(const char *s, const Unit *units, size_t n_units, u64 *ret)
{
	const char *rest = NULL;
	u64 n;
	int r = parse_digits(s, &rest, &n);

	if (r == -EINVAL)
		return r;
	for (size_t i = 0; i < n_units; i++) {
		if (strcmp(rest, units[i].name) != 0)
			continue;
		if (r < 0 || __builtin_mul_overflow(n, units[i].factor, &n))
			return -ERANGE;
		*ret = n;
		return 0;
	}
	return -EINVAL;
}

int parse_size(const char *s, u64 *ret)
{
	return parse_quantity(s, size_units, ELEMENTSOF(size_units), ret);
}

int parse_time(const char *s, u64 *ret_ns)
{
	if (strcmp(s, "0") == 0) {
		*ret_ns = 0;
		return 0;
	}
	return parse_quantity(s, time_units, ELEMENTSOF(time_units), ret_ns);
}

int parse_percent(const char *s, u32 *ret)
{
	static const Unit unit = { "%", 1 };
	u64 n;
	int r = parse_quantity(s, &unit, 1, &n);

	if (r < 0)
		return r;
	if (n > 99)
		return -ERANGE;
	*ret = (u32)n;
	return 0;
}

static void format_quantity(u64 n, const Unit *units, size_t n_units, char ret[32])
{
	size_t best = 0;

	for (size_t i = 0; i < n_units; i++)
		if (n >= units[i].factor && n % units[i].factor == 0)
			best = i;
	(void)snprintf(ret, 32, "%" PRIu64 "%s", n / units[best].factor, units[best].name);
}

void format_size(u64 bytes, char ret[32])
{
	format_quantity(bytes, size_units, ELEMENTSOF(size_units), ret);
}

void format_time(u64 ns, char ret[32])
{
	if (ns == 0)
		(void)snprintf(ret, 32, "0");
	else
		format_quantity(ns, time_units, ELEMENTSOF(time_units), ret);
}
