/* SPDX-License-Identifier: MIT */
#include "conf/text.h"

size_t text_character(const char *s, size_t n)
{
	static const u32 least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	size_t width;
	u32 code;
	u8 c;

	if (n == 0)
		return 0;
	c = (u8)s[0];
	if (c < 0x80)
		return 1;
	width = c >= 0xf0 && c < 0xf8 ? 4 : c >= 0xe0 && c < 0xf0 ? 3 : c >= 0xc0 && c < 0xe0 ? 2 : 0;
	if (width == 0 || width > n)
		return 0;
	code = c & (0x7fu >> width);
	for (size_t i = 1; i < width; i++) {
		if (((u8)s[i] & 0xc0) != 0x80)
			return 0;
		code = code << 6 | ((u8)s[i] & 0x3f);
	}
	if (code < least[width] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
		return 0;
	return width;
}

bool text_printable(const char *s)
{
	size_t n = strlen(s);

	for (size_t i = 0; i < n;) {
		size_t w = text_character(s + i, n - i);

		if (w == 0 || (u8)s[i] < 0x20 || s[i] == 0x7f)
			return false;
		/* U+0080 to U+009F are controls too */
		if (w == 2 && (u8)s[i] == 0xc2 && (u8)s[i + 1] < 0xa0)
			return false;
		i += w;
	}
	return true;
}
