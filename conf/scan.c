/* SPDX-License-Identifier: MIT */
#include "conf/scan.h"

#include <stdio.h>

#include "conf/cursor.h"
#include "conf/frame.h"
#include "conf/literal.h"
#include "conf/problem.h"

typedef struct {
	Cursor c;
	Frame frames[SCAN_MAX_DEPTH + 1];
	size_t depth;
	bool hopeless; /* nothing behind here can be understood */
	u32 n_dropped;
	FileProblems problems;
} Scan;

static void scan_clear(Scan *s)
{
	for (size_t i = 0; i < ELEMENTSOF(s->frames); i++)
		frame_clear(&s->frames[i]);
	cursor_clear(&s->c);
}

/* Of a token at the wrong place; what is wrong by itself uses problem_complain(). */
#define complain(s, at, ...) problem_follow(&(s)->problems, at, __VA_ARGS__)

static int skip_blanks(Scan *s)
{
	int begin, r = cursor_skip(&s->c, &begin);

	if (r != -EBADMSG)
		return r;
	s->hopeless = true;
	return complain(s, begin, "the comment that begins here, \"/*\", has no end, \"*/\"");
}

/* As frame_key(); in a list, of the key that it is the value of. */
static const char *key_text(const Scan *s, char ret[WORD_SHOWN + 8])
{
	size_t depth = s->depth;

	while (depth > 0 && s->frames[depth].open != '{')
		depth--;
	return frame_key(&s->frames[depth], ret);
}

/* keep: hands it on, as the value of a key. */
static int scan_string(Scan *s, bool keep)
{
	const char *begin = s->c.p;
	char key[WORD_SHOWN + 8] = "";
	int r = literal_string(&s->c, &s->problems, keep ? key_text(s, key) : key, keep);

	/* What was on the line is lost, but the next one may be right, unless a bracket was lost too. */
	if (r > 0)
		s->hopeless = s->frames[s->depth].open == '[' || s->frames[s->depth].open == '(' ||
			      memchr(begin, '}', (size_t)(s->c.p - begin));
	return MIN(r, 0);
}

static int scan_word(Scan *s)
{
	char key[WORD_SHOWN + 8];
	int r = literal_word(&s->c, &s->problems, key_text(s, key));

	s->hopeless |= r > 0;
	return MIN(r, 0);
}

/* -- names -- */

static int put_dropped(Scan *s)
{
	char name[24];
	int n = snprintf(name, sizeof(name), "*%u", s->n_dropped++);

	return cursor_put(&s->c, name, (size_t)n);
}

static int remember_name(Scan *s, Frame *f, const char *at, size_t n)
{
	int r = frame_add_name(f, at, n, s->c.line);

	if (r != -E2BIG)
		return r;
	s->hopeless = true;
	return complain(s, s->c.line, "more than %d settings in one group", FRAME_MAX_NAMES);
}

/* `"my session": {` */
static int scan_quoted_name(Scan *s, Frame *f)
{
	const char *at = s->c.p + 1;
	char shown[WORD_SHOWN + 8];
	int r = scan_string(s, false);
	size_t n = (size_t)(s->c.p - at);

	if (r < 0)
		return r;
	n -= n > 0 && s->c.p[-1] == '"';
	r = complain(s, s->c.line,
		     "%s: a name cannot be quoted; for a session of this name write sessions = ( { name = %s; "
		     "... } )",
		     problem_bytes(at, n, shown), shown);
	if (r < 0)
		return r;
	f->want = WANT_EQUALS;
	r = remember_name(s, f, at, n);
	return r < 0 ? r : put_dropped(s);
}

static int scan_include(Scan *s)
{
	int r = complain(s, s->c.line,
			 "@include is not supported; put the text into a file NAME.conf in tracer.conf.d");

	while (s->c.p < s->c.end && *s->c.p != '\n')
		s->c.p++;
	return r;
}

static int scan_name(Scan *s, Frame *f)
{
	const char *at = s->c.p;
	size_t n = cursor_word(&s->c, true);
	const Name *first;
	char shown[WORD_SHOWN + 8];
	int r;

	if (*at == '@')
		return scan_include(s);
	if (n == 0) {
		s->hopeless = true;
		return complain(s, s->c.line, "a name is wanted here, not '%c'%s", *at,
				f->open ? "" : "; the form is: sessions: { NAME: { KEY = VALUE; }; };");
	}
	s->c.p += n;
	f->want = WANT_EQUALS;
	(void)problem_bytes(at, n, shown);
	if (!name_is_valid(at, n)) {
		r = complain(s, s->c.line,
			     "%s cannot be a name: a letter, then letters, digits, '-' and '_'; for a session "
			     "of this name write sessions = ( { name = %s; ... } )",
			     shown, shown);
		if (r < 0)
			return r;
		r = remember_name(s, f, at, n);
		return r < 0 ? r : put_dropped(s);
	}
	first = frame_find_name(f, at, n);
	if (first) {
		r = problem_complain(&s->problems, s->c.line, "%s is there twice; the first is in line %d", shown,
				     first->line);
		if (r < 0)
			return r;
		r = remember_name(s, f, at, n);
		return r < 0 ? r : put_dropped(s);
	}
	r = remember_name(s, f, at, n);
	return r < 0 ? r : cursor_put(&s->c, at, n);
}

/* -- brackets -- */

static int open_bracket(Scan *s, Frame *f)
{
	char c = *s->c.p;
	int r;

	if (s->depth == SCAN_MAX_DEPTH) {
		s->hopeless = true;
		return complain(s, s->c.line, "brackets inside brackets, more than %d deep",
				SCAN_MAX_DEPTH);
	}
	f->want = frame_is_group(f) ? WANT_SEPARATOR : WANT_COMMA;
	f->string = false;
	/* An array holds values of one type, and libconfig does not say which one was wrong. A list may
	 * hold all, and the table of keys says it better. */
	r = cursor_put(&s->c, c == '[' ? "(" : &c, 1);
	if (r < 0)
		return r;
	s->c.p++;
	s->frames[++s->depth] = (Frame){ .open = c, .line = s->c.line,
					 .want = c == '{' ? WANT_NAME : WANT_ELEMENT };
	return 0;
}

/* A name without a value: said where the name is, since the value could be anywhere behind it. */
static int put_missing(Scan *s, Frame *f)
{
	char key[WORD_SHOWN + 8];
	int r = complain(s, f->names[f->n_names - 1].line, "%sa value is missing before '%c'",
			 key_text(s, key), *s->c.p);

	if (r == 0 && f->want == WANT_EQUALS)
		r = cursor_put(&s->c, "=", 1);
	return r < 0 ? r : literal_repaired(&s->c);
}

static int close_bracket(Scan *s, Frame *f)
{
	char c = *s->c.p, wants = f->open == '{' ? '}' : f->open == '[' ? ']' : ')';
	char what[WORD_SHOWN + 32];
	int r;

	if (f->open == 0) {
		s->hopeless = true;
		return complain(s, s->c.line, "'%c' closes nothing", c);
	}
	if (c != wants) {
		s->hopeless = true;
		return complain(s, s->c.line, "'%c' does not close the '%c' of line %d%s; '%c' is missing",
				c, f->open, f->line, frame_opens(&s->frames[s->depth - 1], what), wants);
	}
	if (f->want == WANT_EQUALS || f->want == WANT_VALUE) {
		r = put_missing(s, f);
		if (r < 0)
			return r;
	}
	frame_clear(f);
	s->depth--;
	s->c.p++;
	return cursor_put(&s->c, c == ']' ? ")" : &c, 1);
}

/* ';' or ',' */
static int scan_separator(Scan *s, Frame *f)
{
	char c = *s->c.p, what[WORD_SHOWN + 32];
	int r;

	switch (f->want) {
	case WANT_NAME:
		s->c.p++; /* one too many, behind "};" and so on: meant no harm */
		return 0;
	case WANT_EQUALS:
	case WANT_VALUE:
		r = put_missing(s, f);
		if (r == 0)
			r = cursor_put(&s->c, ";", 1);
		break;
	case WANT_ELEMENT:
		r = complain(s, s->c.line, "%sa value is missing before '%c'", key_text(s, what), c);
		break;
	case WANT_COMMA:
		s->c.p++;
		if (c == ';') {
			r = complain(s, s->c.line,
				     "%s';' inside the '%c' of line %d; write ',' between values, and '%c' "
				     "before ';'",
				     key_text(s, what), f->open, f->line, f->open == '[' ? ']' : ')');
			if (r < 0)
				return r;
		}
		f->want = WANT_ELEMENT;
		f->string = false;
		r = skip_blanks(s);
		/* libconfig 1.5 does not take a last comma, 1.7 does */
		if (r < 0 || s->hopeless || s->c.p == s->c.end || *s->c.p == ']' || *s->c.p == ')')
			return r;
		return cursor_put(&s->c, ",", 1);
	default:
		r = cursor_put(&s->c, ";", 1);
		break;
	}
	if (r < 0)
		return r;
	s->c.p++;
	if (frame_is_group(f))
		f->want = WANT_NAME;
	f->string = false;
	return 0;
}

static int scan_value(Scan *s, Frame *f)
{
	int r;

	f->string = *s->c.p == '"';
	r = f->string ? scan_string(s, true) : scan_word(s);
	f->want = frame_is_group(f) ? WANT_SEPARATOR : WANT_COMMA;
	return r;
}

static int scan_token(Scan *s)
{
	Frame *f = &s->frames[s->depth];
	char c = *s->c.p, what[WORD_SHOWN + 32];
	int r;

	if (c == ';' || c == ',')
		return scan_separator(s, f);
	if (c == '}' || c == ']' || c == ')')
		return close_bracket(s, f);
	switch (f->want) {
	case WANT_EQUALS:
		if (c == '=' || c == ':') {
			s->c.p++;
			f->want = WANT_VALUE;
			return cursor_put(&s->c, "=", 1);
		}
		r = complain(s, s->c.line, "%s'=' is missing before the value", key_text(s, what));
		if (r < 0)
			return r;
		f->want = WANT_VALUE;
		return cursor_put(&s->c, "=", 1);
	case WANT_VALUE:
	case WANT_ELEMENT:
		if (c == '{' || c == '[' || c == '(')
			return open_bracket(s, f);
		return scan_value(s, f);
	case WANT_COMMA:
		/* libconfig would glue two strings together; a comma was forgotten */
		r = complain(s, s->c.line, "%s',' is missing between two values", key_text(s, what));
		f->want = WANT_ELEMENT;
		return r < 0 ? r : cursor_put(&s->c, ",", 1);
	case WANT_SEPARATOR:
		if (c == '"' && f->string)
			return scan_value(s, f);
		/* libconfig needs none */
		f->want = WANT_NAME;
		f->string = false;
		return cursor_put(&s->c, ";", 1);
	case WANT_NAME:
		return c == '"' ? scan_quoted_name(s, f) : scan_name(s, f);
	}
	return 0;
}

static int scan_all(Scan *s)
{
	char what[WORD_SHOWN + 32];
	int r;

	for (;;) {
		r = skip_blanks(s);
		if (r < 0 || s->hopeless)
			return r;
		if (s->c.p == s->c.end)
			break;
		r = scan_token(s);
		if (r < 0 || s->hopeless)
			return r;
	}
	if (s->depth > 0) {
		Frame *f = &s->frames[s->depth];

		s->hopeless = true;
		return complain(s, f->line, "the '%c' of this line%s is never closed", f->open,
				frame_opens(&s->frames[s->depth - 1], what));
	}
	if (s->frames[0].want == WANT_EQUALS || s->frames[0].want == WANT_VALUE) {
		s->hopeless = true;
		return complain(s, s->frames[0].names[s->frames[0].n_names - 1].line,
				"%sthe file ends before the value", key_text(s, what));
	}
	return 0;
}

int scan_text(const char *file, const char *text, size_t n, char **ret_text, ConfigProblems *problems)
{
	static const char bom[] = "\xef\xbb\xbf";
	_cleanup_(scan_clear) Scan s = {
		.c = { .p = text, .end = text + n, .line = 1 },
		.problems = { .file = file, .all = problems, .first = problems->n },
	};
	const char *nul = memchr(text, '\0', n);
	int r;

	*ret_text = NULL;
	if (nul) {
		for (const char *p = text; p < nul; p++)
			s.c.line += *p == '\n';
		return complain(&s, s.c.line, "a NUL byte: this is not a text file");
	}
	if (n >= 3 && memcmp(text, bom, 3) == 0)
		s.c.p += 3;
	r = cursor_put(&s.c, "", 0);
	if (r == 0)
		r = scan_all(&s);
	if (r < 0)
		return r;
	if (!s.hopeless)
		*ret_text = steal_ptr(s.c.out);
	return 0;
}
