/* SPDX-License-Identifier: MIT */
#include "dbus/text.h"

/* Length of the well-formed UTF-8 character at p (no overlong form, no surrogate, at most U+10FFFF), 0 if there is
 * none. Reads no byte behind a NUL. */
static size_t character_length(const unsigned char *p)
{
	static const struct {
		unsigned char first, last, second_min, second_max;
		size_t length;
	} forms[] = {
		{ 0xc2, 0xdf, 0x80, 0xbf, 2 }, { 0xe0, 0xe0, 0xa0, 0xbf, 3 }, { 0xe1, 0xec, 0x80, 0xbf, 3 },
		{ 0xed, 0xed, 0x80, 0x9f, 3 }, { 0xee, 0xef, 0x80, 0xbf, 3 }, { 0xf0, 0xf0, 0x90, 0xbf, 4 },
		{ 0xf1, 0xf3, 0x80, 0xbf, 4 }, { 0xf4, 0xf4, 0x80, 0x8f, 4 },
	};

	if (*p < 0x80)
		return 1;
	for (size_t i = 0; i < ELEMENTSOF(forms); i++) {
		if (*p < forms[i].first || *p > forms[i].last)
			continue;
		if (p[1] < forms[i].second_min || p[1] > forms[i].second_max)
			return 0;
		for (size_t k = 2; k < forms[i].length; k++)
			if (p[k] < 0x80 || p[k] > 0xbf)
				return 0;
		return forms[i].length;
	}
	return 0;
}

static bool character_printable(const unsigned char *p, size_t length)
{
	if (length == 1)
		return *p >= 0x20 && *p != 0x7f;
	/* C1 controls, U+0080 to U+009F: a terminal may obey them */
	return !(length == 2 && p[0] == 0xc2 && p[1] < 0xa0);
}

const char *text_clean(const char *text, char *buffer, size_t size)
{
	const unsigned char *p = (const unsigned char *)(text ? text : "");
	size_t n = 0;

	while (*p) {
		size_t length = character_length(p);

		if (n + MAX(length, (size_t)1) >= size)
			break;
		if (length > 0 && character_printable(p, length)) {
			memcpy(buffer + n, p, length);
			n += length;
		} else {
			buffer[n++] = '?';
		}
		p += length > 0 ? length : 1;
	}
	buffer[n] = 0;
	return buffer;
}

size_t text_columns(const char *text)
{
	size_t n = 0;

	for (; *text; text++)
		n += ((unsigned char)*text & 0xc0) != 0x80;
	return n;
}
