/* SPDX-License-Identifier: MIT */
#include "conf/literal.h"

#include "conf/word.h"

int literal_repaired(Cursor *c)
{
	return cursor_put(c, "\"" LITERAL_REPAIRED "\"", 3);
}

int literal_string(Cursor *c, const FileProblems *problems, const char *key, bool keep)
{
	const char *begin = c->p, *p = c->p + 1;
	int r = 0;

	while (p < c->end && *p != '"' && *p != '\n') {
		if (*p == '\\' && p + 1 < c->end && p[1] != '\n') {
			/* libconfig would end the string there */
			if (c->end - p >= 4 && (p[1] == 'x' || p[1] == 'X') && p[2] == '0' && p[3] == '0')
				r = problem_complain(problems, c->line, "%sa string must not hold a NUL byte, \\x00", key);
			p++;
		}
		p++;
		if (r < 0)
			return r;
	}
	if (p < c->end && *p == '"') {
		c->p = p + 1;
		return keep ? cursor_put(c, begin, (size_t)(c->p - begin)) : 0;
	}
	/* most likely a quote was forgotten */
	c->p = p;
	r = problem_follow(problems, c->line, "%sthe string that begins here is not closed on its line; a '\"' is missing", key);
	if (r == 0 && keep)
		r = literal_repaired(c);
	return r < 0 ? r : 1;
}

int literal_word(Cursor *c, const FileProblems *problems, const char *key)
{
	size_t n = cursor_word(c, false);
	const char *at = c->p;
	char shown[WORD_SHOWN + 8];
	int r = 0;

	if (n == 0) {
		/* '=' or so */
		r = problem_follow(problems, c->line, "%sa value is wanted here, not '%c'", key, *c->p);
		c->p++;
		return r < 0 ? r : literal_repaired(c);
	}
	c->p += n;
	(void)problem_bytes(at, n, shown);
	switch (word_kind(at, n)) {
	case WORD_BOOL:
		return cursor_put(c, at, n);
	case WORD_INTEGER:
		/* without the L libconfig 1.5 keeps the low 32 bits and says nothing */
		while (at[n - 1] == 'L')
			n--;
		r = cursor_put(c, at, n);
		return r < 0 ? r : cursor_put(c, "L", 1);
	case WORD_FRACTION:
		return cursor_put(c, "0.5", 3); /* no key wants one; which it was does not matter */
	case WORD_OCTAL:
		r = problem_complain(problems, c->line, "%s%s begins with 0, which some read as octal; leave it out", key,
				     shown);
		break;
	case WORD_TOO_LARGE:
		r = problem_complain(problems, c->line, "%s%s is too large for a number (64 bits)", key, shown);
		break;
	case WORD_YES:
		r = problem_complain(problems, c->line, "%s%s is not a value; write true or false", key, shown);
		break;
	case WORD_BARE:
		if (at[n - 1] == ':') {
			r = problem_follow(problems, c->line, "%sa group needs braces; write %.*s { ... };", key,
					   (int)strlen(shown) - 2, shown + 1);
			return r < 0 ? r : 1;
		}
		r = problem_complain(problems, c->line, "%swrite %s in quotes; without them it must be a number, true or false",
				     key, shown);
		break;
	}
	return r < 0 ? r : literal_repaired(c);
}
