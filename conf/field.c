/* SPDX-License-Identifier: MIT */
#include "conf/field.h"

#include <inttypes.h>
#include <stdio.h>

/* KEY_FREE's second half stands at the same distance from the first, whichever RetentionConfig it is of. */
static size_t percent_offset(const Key *k)
{
	return k->offset - offsetof(RetentionConfig, keep_free) +
	       offsetof(RetentionConfig, keep_free_percent);
}

u32 *field_percent(const Key *k, void *base)
{
	return (u32 *)((char *)base + percent_offset(k));
}

static u32 percent_in(const Key *k, const void *base)
{
	return *(const u32 *)((const char *)base + percent_offset(k));
}

void strings_clear(Strings *s)
{
	for (size_t i = 0; i < s->n; i++)
		free(s->v[i]);
	free(s->v);
	*s = (Strings){ 0 };
}

int strings_copy(const Strings *from, Strings *ret)
{
	_cleanup_(strings_clear) Strings s = { 0 };

	if (from->n > 0) {
		s.v = calloc(from->n, sizeof(*s.v));
		if (!s.v)
			return -ENOMEM;
	}
	for (; s.n < from->n; s.n++) {
		s.v[s.n] = strdup(from->v[s.n]);
		if (!s.v[s.n])
			return -ENOMEM;
	}
	*ret = s;
	s = (Strings){ 0 };
	return 0;
}

void field_clear(const Key *k, void *base)
{
	if (k->kind == KEY_PATH) {
		free(*FIELD(char *, base, k));
		*FIELD(char *, base, k) = NULL;
	} else if (k->kind == KEY_LIST) {
		strings_clear(FIELD(Strings, base, k));
	}
}

int field_copy(const Key *k, const void *from, void *to)
{
	switch (k->kind) {
	case KEY_BOOL:
		*FIELD(bool, to, k) = *CONST_FIELD(bool, from, k);
		return 0;
	case KEY_CHOICE:
	case KEY_LEVEL:
	case KEY_COUNT:
	case KEY_CONTEXTS:
		*FIELD(u32, to, k) = *CONST_FIELD(u32, from, k);
		return 0;
	case KEY_FREE:
		*field_percent(k, to) = percent_in(k, from);
		/* fall through */
	case KEY_SIZE:
	case KEY_TIME:
		*FIELD(u64, to, k) = *CONST_FIELD(u64, from, k);
		return 0;
	case KEY_PATH: {
		const char *s = *CONST_FIELD(char *, from, k);

		*FIELD(char *, to, k) = s ? strdup(s) : NULL;
		return s && !*FIELD(char *, to, k) ? -ENOMEM : 0;
	}
	case KEY_LIST:
		return strings_copy(CONST_FIELD(Strings, from, k), FIELD(Strings, to, k));
	case KEY_NAME:
	case KEY_RESET:
		break;
	}
	return 0;
}

static bool strings_equal(const Strings *a, const Strings *b)
{
	if (a->n != b->n)
		return false;
	for (size_t i = 0; i < a->n; i++)
		if (strcmp(a->v[i], b->v[i]) != 0)
			return false;
	return true;
}

bool field_equal(const Key *k, const void *a, const void *b)
{
	switch (k->kind) {
	case KEY_BOOL:
		return *CONST_FIELD(bool, a, k) == *CONST_FIELD(bool, b, k);
	case KEY_CHOICE:
	case KEY_LEVEL:
	case KEY_COUNT:
	case KEY_CONTEXTS:
		return *CONST_FIELD(u32, a, k) == *CONST_FIELD(u32, b, k);
	case KEY_FREE:
		if (percent_in(k, a) != percent_in(k, b))
			return false;
		/* fall through */
	case KEY_SIZE:
	case KEY_TIME:
		return *CONST_FIELD(u64, a, k) == *CONST_FIELD(u64, b, k);
	case KEY_PATH: {
		const char *x = *CONST_FIELD(char *, a, k), *y = *CONST_FIELD(char *, b, k);

		return strcmp(x ? x : "", y ? y : "") == 0;
	}
	case KEY_LIST:
		return strings_equal(CONST_FIELD(Strings, a, k), CONST_FIELD(Strings, b, k));
	case KEY_NAME:
	case KEY_RESET:
		break;
	}
	return true;
}

/* A string as libconfig reads it back. All that got past the checks is printable. */
static void put_quoted(FILE *f, const char *s)
{
	fputc('"', f);
	for (; *s; s++) {
		if (*s == '"' || *s == '\\')
			fputc('\\', f);
		fputc(*s, f);
	}
	fputc('"', f);
}

static void put_field(FILE *f, const Key *k, const void *base)
{
	char text[32];
	size_t n = 0;

	switch (k->kind) {
	case KEY_BOOL:
		fputs(*CONST_FIELD(bool, base, k) ? "true" : "false", f);
		return;
	case KEY_CHOICE:
	case KEY_LEVEL:
		put_quoted(f, choice_name(k->choices, *CONST_FIELD(u32, base, k)));
		return;
	case KEY_COUNT:
		fprintf(f, "%" PRIu32, *CONST_FIELD(u32, base, k));
		return;
	case KEY_FREE:
		if (percent_in(k, base)) {
			fprintf(f, "\"%" PRIu32 "%%\"", percent_in(k, base));
			return;
		}
		/* fall through */
	case KEY_SIZE:
		format_size(*CONST_FIELD(u64, base, k), text);
		put_quoted(f, text);
		return;
	case KEY_TIME:
		format_time(*CONST_FIELD(u64, base, k), text);
		put_quoted(f, text);
		return;
	case KEY_PATH: {
		const char *s = *CONST_FIELD(char *, base, k);

		put_quoted(f, s ? s : "");
		return;
	}
	case KEY_LIST: {
		const Strings *s = CONST_FIELD(Strings, base, k);

		fputs("[ ", f);
		for (size_t i = 0; i < s->n; i++) {
			put_quoted(f, s->v[i]);
			fputs(i + 1 < s->n ? ", " : " ", f);
		}
		fputs("]", f);
		return;
	}
	case KEY_CONTEXTS:
		fputs("[ ", f);
		for (const KeyChoice *c = k->choices; c->name; c++)
			if (*CONST_FIELD(u32, base, k) & c->value)
				fprintf(f, "%s\"%s\"", n++ ? ", " : "", c->name);
		fputs(n ? " ]" : "]", f);
		return;
	case KEY_NAME:
	case KEY_RESET:
		return;
	}
}

char *field_text(const Key *k, const void *base)
{
	char *text = NULL;
	size_t n = 0;
	FILE *f = open_memstream(&text, &n);

	if (!f)
		return NULL;
	put_field(f, k, base);
	if (fclose(f) != 0) {
		free(text);
		return NULL;
	}
	return text;
}

/* ---- where it was said ---- */

int origin_set(ConfigOrigin *origins, const Key *k, const char *file, int line)
{
	ConfigOrigin *o = &origins[k - keys];
	char *copy = strdup(file);

	if (!copy)
		return -ENOMEM;
	free(o->file);
	*o = (ConfigOrigin){ .file = copy, .line = line };
	return 0;
}

ConfigOrigin *origins_free(ConfigOrigin *origins)
{
	for (size_t i = 0; origins && i < n_keys; i++)
		free(origins[i].file);
	free(origins);
	return NULL;
}

int origins_copy(const ConfigOrigin *origins, ConfigOrigin **ret)
{
	ConfigOrigin *copy = calloc(n_keys, sizeof(*copy));

	if (!copy)
		return -ENOMEM;
	for (size_t i = 0; origins && i < n_keys; i++) {
		if (!origins[i].file)
			continue;
		copy[i].line = origins[i].line;
		copy[i].file = strdup(origins[i].file);
		if (!copy[i].file) {
			(void)origins_free(copy);
			return -ENOMEM;
		}
	}
	*ret = copy;
	return 0;
}
