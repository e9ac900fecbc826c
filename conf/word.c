/* SPDX-License-Identifier: MIT */
#include "conf/word.h"

#include <ctype.h>
#include <strings.h>

static bool all_digits(const char *p, const char *end, int (*is)(int))
{
	if (p == end)
		return false;
	for (; p < end; p++)
		if (!is((unsigned char)*p))
			return false;
	return true;
}

static bool is_word(const char *at, size_t n, const char *word)
{
	return n == strlen(word) && strncasecmp(at, word, n) == 0;
}

static bool is_fraction(const char *at, size_t n)
{
	char text[64], *end;

	if (n >= sizeof(text))
		return false;
	memcpy(text, at, n);
	text[n] = '\0';
	if (strspn(text, "0123456789+-.eE") < n || !strpbrk(text, "0123456789"))
		return false;
	(void)strtod(text, &end);
	return *end == '\0';
}

/* WORD_BARE if it is no integer at all. */
static WordKind integer_kind(const char *at, size_t n)
{
	const char *end = at + n, *digits = at;
	char text[40];
	bool hex = n > 2 && at[0] == '0' && (at[1] == 'x' || at[1] == 'X');

	for (int i = 0; i < 2 && end > at && end[-1] == 'L'; i++)
		end--;
	if (hex)
		digits += 2;
	else if (*digits == '+' || *digits == '-')
		digits++;
	if (digits > end || !all_digits(digits, end, hex ? isxdigit : isdigit))
		return WORD_BARE;
	if (!hex && end - digits > 1 && *digits == '0')
		return WORD_OCTAL;
	if ((size_t)(end - at) >= sizeof(text))
		return WORD_TOO_LARGE;
	memcpy(text, at, (size_t)(end - at));
	text[end - at] = '\0';
	errno = 0;
	(void)strtoll(text, NULL, hex ? 16 : 10);
	return errno == 0 ? WORD_INTEGER : WORD_TOO_LARGE;
}

WordKind word_kind(const char *at, size_t n)
{
	static const char *const yes[] = { "yes", "no", "on", "off" };
	WordKind kind;

	if (is_word(at, n, "true") || is_word(at, n, "false"))
		return WORD_BOOL;
	kind = integer_kind(at, n);
	if (kind != WORD_BARE)
		return kind;
	if (is_fraction(at, n))
		return WORD_FRACTION;
	for (size_t i = 0; i < ELEMENTSOF(yes); i++)
		if (is_word(at, n, yes[i]))
			return WORD_YES;
	return WORD_BARE;
}
