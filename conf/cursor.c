/* SPDX-License-Identifier: MIT */
#include "conf/cursor.h"

int cursor_put(Cursor *c, const char *bytes, size_t n)
{
	if (c->size_out - c->n_out <= n) {
		size_t size = MAX(c->size_out * 2, c->n_out + n + 64);
		char *out = realloc(c->out, size);

		if (!out)
			return -ENOMEM;
		c->out = out;
		c->size_out = size;
	}
	memcpy(c->out + c->n_out, bytes, n);
	c->n_out += n;
	c->out[c->n_out] = '\0';
	return 0;
}

static bool is_blank(char b)
{
	return b == ' ' || b == '\t' || b == '\n' || b == '\r' || b == '\f' || b == '\v';
}

static bool at_comment(const Cursor *c)
{
	return *c->p == '#' ||
	       (*c->p == '/' && c->p + 1 < c->end && (c->p[1] == '/' || c->p[1] == '*'));
}

int cursor_skip(Cursor *c, int *ret_line)
{
	int r;

	while (c->p < c->end) {
		if (is_blank(*c->p)) {
			c->line += *c->p == '\n';
			r = cursor_put(c, *c->p == '\n' ? "\n" : " ", 1);
			if (r < 0)
				return r;
			c->p++;
			continue;
		}
		if (!at_comment(c))
			return 0;
		if (*c->p == '#' || c->p[1] == '/') {
			while (c->p < c->end && *c->p != '\n')
				c->p++;
			continue;
		}
		int begin = c->line;

		for (c->p += 2; c->p < c->end; c->p++) {
			if (*c->p == '*' && c->p + 1 < c->end && c->p[1] == '/')
				break;
			if (*c->p != '\n')
				continue;
			c->line++;
			r = cursor_put(c, "\n", 1);
			if (r < 0)
				return r;
		}
		if (c->p == c->end) {
			*ret_line = begin;
			return -EBADMSG;
		}
		c->p += 2;
		r = cursor_put(c, " ", 1);
		if (r < 0)
			return r;
	}
	return 0;
}

size_t cursor_word(const Cursor *c, bool name)
{
	const char *stops = name ? ";,{}[]()\"=#:" : ";,{}[]()\"=#";
	const char *p = c->p;

	for (; p < c->end && !is_blank(*p) && !strchr(stops, *p); p++)
		if (*p == '/' && p + 1 < c->end && (p[1] == '/' || p[1] == '*'))
			break;
	return (size_t)(p - c->p);
}
