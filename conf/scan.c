/* SPDX-License-Identifier: MIT */
#include "conf/scan.h"

#include <ctype.h>
#include <stdio.h>

#include "conf/cursor.h"
#include "conf/problem.h"
#include "conf/word.h"

/* What may come next, per open bracket. */
typedef enum {
	WANT_NAME,	/* group: a name, or its end */
	WANT_EQUALS,	/* group: '=' or ':' */
	WANT_VALUE,	/* group: the value */
	WANT_SEPARATOR, /* group: ';', ',', or the next name */
	WANT_ELEMENT,	/* list: a value, or its end */
	WANT_COMMA,	/* list: ',' or its end */
} Want;

typedef struct {
	const char *at;
	size_t n;
	int line;
} Name;

typedef struct {
	char open; /* '{', '[', '('; 0: the file itself */
	int line;
	Want want;
	bool string; /* the value before was a string: another one is glued to it */
	Name *names; /* seen in this group; the last is the one whose value is read */
	size_t n_names;
} Frame;

typedef struct {
	Cursor c;
	Frame frames[SCAN_MAX_DEPTH + 1];
	size_t depth;
	bool hopeless; /* nothing behind here can be understood */
	u32 n_dropped;
	FileProblems problems;
} Scan;

static void frame_clear(Frame *f)
{
	free(f->names);
	*f = (Frame){ 0 };
}

static void scan_clear(Scan *s)
{
	for (size_t i = 0; i < ELEMENTSOF(s->frames); i++)
		frame_clear(&s->frames[i]);
	cursor_clear(&s->c);
}

static int put_repaired(Scan *s)
{
	return cursor_put(&s->c, "\"" SCAN_REPAIRED "\"", 3);
}

/* A word that is wrong by itself. */
#define complain_word(s, at, ...) problem_complain(&(s)->problems, at, __VA_ARGS__)
/* A token at the wrong place: behind another mistake on the same line it mostly follows from that one. */
#define complain(s, at, ...) (problem_in_line(&(s)->problems, at) ? 0 : complain_word(s, at, __VA_ARGS__))

static int skip_blanks(Scan *s)
{
	int begin, r = cursor_skip(&s->c, &begin);

	if (r != -EBADMSG)
		return r;
	s->hopeless = true;
	return complain(s, begin, "the comment that begins here, \"/*\", has no end, \"*/\"");
}

static bool is_name(const char *at, size_t n)
{
	if (n == 0 || !isalpha((unsigned char)*at) || word_kind(at, n) == WORD_BOOL)
		return false;
	for (size_t i = 1; i < n; i++)
		if (!isalnum((unsigned char)at[i]) && at[i] != '_' && at[i] != '-')
			return false;
	return true;
}

/* The key whose value is being read, as a message begins: "memory: "; "" at no key. */
static const char *key_text(const Scan *s, char ret[WORD_SHOWN + 8])
{
	size_t depth = s->depth;

	while (depth > 0 && s->frames[depth].open != '{')
		depth--;
	const Frame *f = &s->frames[depth];

	ret[0] = '\0';
	if (f->n_names > 0 && f->want != WANT_NAME) {
		const Name *name = &f->names[f->n_names - 1];
		size_t n = MIN(name->n, (size_t)WORD_SHOWN);

		/* a name that is none may hold anything; its own message showed it */
		if (is_name(name->at, name->n))
			(void)snprintf(ret, WORD_SHOWN + 8, "%.*s: ", (int)n, name->at);
	}
	return ret;
}

static int scan_string(Scan *s, bool keep)
{
	const char *begin = s->c.p, *p = s->c.p + 1;
	char key[WORD_SHOWN + 8] = "";
	int r = 0;

	if (keep)
		(void)key_text(s, key);

	while (p < s->c.end && *p != '"' && *p != '\n') {
		if (*p == '\\' && p + 1 < s->c.end && p[1] != '\n') {
			/* libconfig would end the string there */
			if (s->c.end - p >= 4 && (p[1] == 'x' || p[1] == 'X') && p[2] == '0' && p[3] == '0')
				r = complain_word(s, s->c.line, "%sa string must not hold a NUL byte, \\x00", key);
			p++;
		}
		p++;
		if (r < 0)
			return r;
	}
	if (p < s->c.end && *p == '"') {
		s->c.p = p + 1;
		return keep ? cursor_put(&s->c, begin, (size_t)(s->c.p - begin)) : 0;
	}
	/* Most likely a quote was forgotten. What was on the line is lost, but the next one may be right, unless
	 * a bracket was lost too. */
	s->c.p = p;
	s->hopeless = s->frames[s->depth].open == '[' || s->frames[s->depth].open == '(' ||
		      memchr(begin, '}', (size_t)(p - begin));
	r = complain(s, s->c.line, "%sthe string that begins here is not closed on its line; a '\"' is missing",
		     key);
	return r < 0 || !keep ? r : put_repaired(s);
}

/* A value without quotes: a number, true, false, or what should have had quotes. */
static int scan_word(Scan *s)
{
	size_t n = cursor_word(&s->c, false);
	const char *at = s->c.p;
	char shown[WORD_SHOWN + 8], key[WORD_SHOWN + 8];
	int r = 0;

	(void)key_text(s, key);
	if (n == 0) {
		/* '=' or so */
		r = complain(s, s->c.line, "%sa value is wanted here, not '%c'", key, *s->c.p);
		s->c.p++;
		return r < 0 ? r : put_repaired(s);
	}
	s->c.p += n;
	(void)problem_bytes(at, n, shown);
	switch (word_kind(at, n)) {
	case WORD_BOOL:
		return cursor_put(&s->c, at, n);
	case WORD_INTEGER:
		/* without the L libconfig 1.5 keeps the low 32 bits and says nothing */
		while (at[n - 1] == 'L')
			n--;
		r = cursor_put(&s->c, at, n);
		return r < 0 ? r : cursor_put(&s->c, "L", 1);
	case WORD_FRACTION:
		return cursor_put(&s->c, "0.5", 3); /* no key wants one; which it was does not matter */
	case WORD_OCTAL:
		r = complain_word(s, s->c.line, "%s%s begins with 0, which some read as octal; leave it out",
			     key, shown);
		break;
	case WORD_TOO_LARGE:
		r = complain_word(s, s->c.line, "%s%s is too large for a number (64 bits)", key, shown);
		break;
	case WORD_YES:
		r = complain_word(s, s->c.line, "%s%s is not a value; write true or false", key, shown);
		break;
	case WORD_BARE:
		if (at[n - 1] == ':') {
			/* YAML, or the like */
			s->hopeless = true;
			return complain(s, s->c.line, "%sa group needs braces; write %.*s { ... };", key,
					(int)strlen(shown) - 2, shown + 1);
		}
		r = complain_word(s, s->c.line, "%swrite %s in quotes; without them it must be a number, true or false",
			     key, shown);
		break;
	}
	return r < 0 ? r : put_repaired(s);
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
	Name *names;

	if (f->n_names == SCAN_MAX_NAMES) {
		s->hopeless = true;
		return complain(s, s->c.line, "more than %d settings in one group", SCAN_MAX_NAMES);
	}
	names = realloc(f->names, (f->n_names + 1) * sizeof(*names));
	if (!names)
		return -ENOMEM;
	f->names = names;
	names[f->n_names++] = (Name){ .at = at, .n = n, .line = s->c.line };
	return 0;
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
	if (!is_name(at, n)) {
		r = complain(s, s->c.line,
			     "%s cannot be a name: a letter, then letters, digits, '-' and '_'; for a session "
			     "of this name write sessions = ( { name = %s; ... } )",
			     shown, shown);
		if (r < 0)
			return r;
		r = remember_name(s, f, at, n);
		return r < 0 ? r : put_dropped(s);
	}
	for (size_t i = 0; i < f->n_names; i++) {
		if (f->names[i].n != n || memcmp(f->names[i].at, at, n) != 0)
			continue;
		r = complain_word(s, s->c.line, "%s is there twice; the first is in line %d", shown,
			     f->names[i].line);
		if (r < 0)
			return r;
		r = remember_name(s, f, at, n);
		return r < 0 ? r : put_dropped(s);
	}
	r = remember_name(s, f, at, n);
	return r < 0 ? r : cursor_put(&s->c, at, n);
}

/* -- brackets -- */

static const char *what_it_is(const Frame *above, char ret[WORD_SHOWN + 32])
{
	char shown[WORD_SHOWN + 8];

	ret[0] = '\0';
	if (above->n_names > 0 && (above->open == '{' || above->open == 0)) {
		const Name *name = &above->names[above->n_names - 1];

		(void)snprintf(ret, WORD_SHOWN + 32, " (%s)", problem_bytes(name->at, name->n, shown));
	}
	return ret;
}

static int open_bracket(Scan *s, Frame *f)
{
	char c = *s->c.p;
	int r;

	if (s->depth == SCAN_MAX_DEPTH) {
		s->hopeless = true;
		return complain(s, s->c.line, "brackets inside brackets, more than %d deep",
				SCAN_MAX_DEPTH);
	}
	f->want = f->open == 0 || f->open == '{' ? WANT_SEPARATOR : WANT_COMMA;
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
	return r < 0 ? r : put_repaired(s);
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
				c, f->open, f->line, what_it_is(&s->frames[s->depth - 1], what), wants);
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
	if (f->open == 0 || f->open == '{')
		f->want = WANT_NAME;
	f->string = false;
	return 0;
}

static int scan_value(Scan *s, Frame *f)
{
	bool group = f->open == 0 || f->open == '{';
	int r;

	f->string = *s->c.p == '"';
	r = f->string ? scan_string(s, true) : scan_word(s);
	f->want = group ? WANT_SEPARATOR : WANT_COMMA;
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
				what_it_is(&s->frames[s->depth - 1], what));
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
