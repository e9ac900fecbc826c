/* SPDX-License-Identifier: MIT */
#include "daemon/line.h"

#include <stdio.h>

static const char digits[] = "0123456789abcdef";

static bool reserve(Line *l, size_t more)
{
	size_t n;
	char *p;

	if (l->failed)
		return false;
	if (l->n + more + 1 <= l->allocated)
		return true;
	n = MAX(l->allocated * 2, l->n + more + 256);
	p = realloc(l->text, n);
	if (!p) {
		l->failed = true;
		return false;
	}
	l->text = p;
	l->allocated = n;
	return true;
}

static void append(Line *l, const char *p, size_t n)
{
	if (!reserve(l, n))
		return;
	memcpy(l->text + l->n, p, n);
	l->n += n;
	l->text[l->n] = 0;
}

static void append_key(Line *l, const char *key)
{
	append(l, " ", 1);
	append(l, key, strlen(key));
	append(l, "=", 1);
}

void line_begin(Line *l, const char *word)
{
	l->n = 0;
	l->failed = false;
	append(l, word, strlen(word));
}

void line_number(Line *l, const char *key, u64 value)
{
	char text[24];
	int n = snprintf(text, sizeof(text), "%llu", (unsigned long long)value);

	append_key(l, key);
	append(l, text, (size_t)n);
}

static bool plain(unsigned char c)
{
	return c > ' ' && c < 0x7f && c != '%' && c != '=';
}

void line_text(Line *l, const char *key, const char *value)
{
	if (!value)
		return;
	append_key(l, key);
	for (const unsigned char *p = (const unsigned char *)value; *p; p++) {
		const char coded[] = { '%', digits[*p >> 4], digits[*p & 15] };

		if (plain(*p))
			append(l, (const char *)p, 1);
		else
			append(l, coded, sizeof(coded));
	}
}

void line_bytes(Line *l, const char *key, const void *bytes, size_t n)
{
	const u8 *p = bytes;

	append_key(l, key);
	if (!reserve(l, 2 * n))
		return;
	for (size_t i = 0; i < n; i++) {
		l->text[l->n++] = digits[p[i] >> 4];
		l->text[l->n++] = digits[p[i] & 15];
	}
	l->text[l->n] = 0;
}

void line_list_begin(Line *l, const char *key)
{
	append_key(l, key);
}

void line_list_add(Line *l, u64 value)
{
	char text[24];
	int n = snprintf(text, sizeof(text), "%llu,", (unsigned long long)value);

	append(l, text, (size_t)n);
}

void line_clear(Line *l)
{
	free(l->text);
	*l = (Line){ 0 };
}

/* ---- reading ---- */

bool line_is(const char *line, const char *word)
{
	size_t n = strlen(word);

	return strncmp(line, word, n) == 0 && (line[n] == 0 || line[n] == ' ');
}

/* The value and its length, or NULL. */
static const char *find(const char *line, const char *key, size_t *ret_n)
{
	size_t n = strlen(key);

	for (const char *p = strchr(line, ' '); p; p = strchr(p, ' ')) {
		p++;
		if (strncmp(p, key, n) != 0 || p[n] != '=')
			continue;
		p += n + 1;
		*ret_n = strcspn(p, " ");
		return p;
	}
	return NULL;
}

bool line_get_number(const char *line, const char *key, u64 *ret)
{
	size_t n;
	const char *p = find(line, key, &n);
	u64 value = 0;

	if (!p || n == 0)
		return false;
	for (size_t i = 0; i < n; i++)
		if (p[i] < '0' || p[i] > '9' || __builtin_mul_overflow(value, (u64)10, &value) ||
		    __builtin_add_overflow(value, (u64)(p[i] - '0'), &value))
			return false;
	*ret = value;
	return true;
}

bool line_get_u32(const char *line, const char *key, u32 limit, u32 *ret)
{
	u64 value;

	if (!line_get_number(line, key, &value) || value > limit)
		return false;
	*ret = (u32)value;
	return true;
}

bool line_get_bool(const char *line, const char *key)
{
	u64 v = 0;

	return line_get_number(line, key, &v) && v;
}

static int digit(char c)
{
	const char *p = c ? strchr(digits, c) : NULL;

	return p ? (int)(p - digits) : -1;
}

char *line_get_text(const char *line, const char *key)
{
	_cleanup_free_ char *text = NULL;
	size_t n, at = 0;
	const char *p = find(line, key, &n);

	if (!p)
		return NULL;
	text = malloc(n + 1);
	if (!text)
		return NULL;
	for (size_t i = 0; i < n; i++) {
		int high, low;

		if (p[i] != '%') {
			text[at++] = p[i];
			continue;
		}
		high = i + 2 < n ? digit(p[i + 1]) : -1;
		low = i + 2 < n ? digit(p[i + 2]) : -1;
		if (high < 0 || low < 0 || (high == 0 && low == 0))
			return NULL;
		text[at++] = (char)(high << 4 | low);
		i += 2;
	}
	text[at] = 0;
	return steal_ptr(text);
}

u8 *line_get_bytes(const char *line, const char *key, size_t *ret_n)
{
	_cleanup_free_ u8 *bytes = NULL;
	size_t n;
	const char *p = find(line, key, &n);

	if (!p || n % 2)
		return NULL;
	bytes = malloc(n / 2 + 1);
	if (!bytes)
		return NULL;
	for (size_t i = 0; i < n / 2; i++) {
		int high = digit(p[2 * i]), low = digit(p[2 * i + 1]);

		if (high < 0 || low < 0)
			return NULL;
		bytes[i] = (u8)(high << 4 | low);
	}
	*ret_n = n / 2;
	return steal_ptr(bytes);
}

bool line_list_next(const char *line, const char *key, const char **at, u64 *ret)
{
	const char *p = *at;
	u64 value = 0;
	size_t n;

	if (!p)
		p = find(line, key, &n);
	if (!p || *p < '0' || *p > '9')
		return false;
	for (; *p >= '0' && *p <= '9'; p++)
		if (__builtin_mul_overflow(value, (u64)10, &value) ||
		    __builtin_add_overflow(value, (u64)(*p - '0'), &value))
			return false;
	if (*p != ',')
		return false;
	*at = p + 1;
	*ret = value;
	return true;
}
