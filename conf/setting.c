/* SPDX-License-Identifier: MIT */
#include "conf/setting.h"

#include <inttypes.h>
#include <stdio.h>

#include "conf/field.h"
#include "conf/item.h"
#include "conf/problem.h"
#include "conf/quantity.h"
#include "conf/suggest.h"
#include "conf/text.h"

enum { PATH_LONGEST = 2048, VALUE_SHOWN = WORD_SHOWN + 8 };

/* ---- what a message says ---- */

static const char *value_text(const ConfigValue *v, char ret[VALUE_SHOWN])
{
	switch (v->type) {
	case CONFIG_BOOL:
		return v->boolean ? "true" : "false";
	case CONFIG_INT:
		(void)snprintf(ret, VALUE_SHOWN, "%" PRId64, v->integer);
		return ret;
	case CONFIG_STRING:
		return problem_word(v->string, ret);
	case CONFIG_STRINGS:
		return "a list of strings";
	case CONFIG_FRACTION:
		return "a fraction";
	case CONFIG_GROUP:
		return "a group { }";
	case CONFIG_LIST:
		return "a list with other than strings and numbers in it";
	}
	return "this";
}

/* The value is not of the key's kind at all. */
static int refuse_kind(const Key *k, const ConfigValue *v, char **ret_text)
{
	static const char *const kinds[] = {
		[KEY_BOOL] = "no quotes",
		[KEY_CHOICE] = "in quotes",
		[KEY_LEVEL] = "a name in quotes",
		[KEY_COUNT] = "a whole number without quotes",
		[KEY_SIZE] = "a size in quotes, such as \"16M\"",
		[KEY_TIME] = "a time in quotes, such as \"10s\"",
		[KEY_FREE] = "a size or per cent in quotes, such as \"1G\" or \"10%\"",
		[KEY_PATH] = "a path in quotes",
		[KEY_LIST] = "a list in brackets",
		[KEY_CONTEXTS] = "a list in brackets",
		[KEY_NAME] = "a string in quotes",
		[KEY_RESET] = "no quotes",
	};
	char path[64], word[VALUE_SHOWN];

	(void)key_path(k, path);
	if ((k->kind == KEY_LIST || k->kind == KEY_CONTEXTS) && v->type == CONFIG_STRING)
		return problem_text(ret_text, "%s: needs a list; write [ %s ]", path,
				    value_text(v, word));
	return problem_text(ret_text, "%s: needs %s (%s), not %s", path, k->doc.range, kinds[k->kind],
			    value_text(v, word));
}

static int refuse_range(const Key *k, const ConfigValue *v, char **ret_text)
{
	char path[64], word[VALUE_SHOWN];

	return problem_text(ret_text, "%s: %s is out of range: %s", key_path(k, path),
			    value_text(v, word), k->doc.range);
}

/* ---- the kinds ---- */

static int find_choice(const Key *k, const char *word, u32 *ret, char **ret_text)
{
	char path[64], shown[WORD_SHOWN + 8];
	const char *words[16], *near;
	size_t n = 0;

	(void)key_path(k, path);
	for (const KeyChoice *c = k->choices; c->name; c++) {
		if (strcmp(c->name, word) == 0) {
			if (c->later)
				return problem_text(ret_text,
						    "%s: \"%s\" is not available in this version, but %s",
						    path, word, k->doc.range);
			*ret = c->value;
			return 0;
		}
		if (!c->later && n < ELEMENTSOF(words))
			words[n++] = c->name;
	}
	(void)problem_word(word, shown);
	near = suggest_nearest(word, words, n);
	if (near)
		return problem_text(ret_text, "%s: there is no %s; did you mean \"%s\"? (%s)", path,
				    shown, near, k->doc.range);
	return problem_text(ret_text, "%s: there is no %s, but %s", path, shown, k->doc.range);
}

static int set_choice(const Key *k, void *base, const ConfigValue *v, char **ret_text)
{
	u32 value;
	int r;

	if (v->type == CONFIG_INT && k->kind == KEY_LEVEL) {
		if (v->integer < 0 || (u64)v->integer > k->max)
			return refuse_range(k, v, ret_text);
		value = (u32)v->integer;
	} else if (v->type == CONFIG_STRING) {
		r = find_choice(k, v->string, &value, ret_text);
		if (r < 0)
			return r;
	} else {
		return refuse_kind(k, v, ret_text);
	}
	*FIELD(u32, base, k) = value;
	return 0;
}

static bool in_range(const Key *k, u64 n)
{
	return (n == 0 && k->none) || (n >= k->min && n <= k->max);
}

static int set_count(const Key *k, void *base, const ConfigValue *v, char **ret_text)
{
	char path[64];

	if (v->type != CONFIG_INT)
		return refuse_kind(k, v, ret_text);
	if (v->integer < 0 || !in_range(k, (u64)v->integer))
		return refuse_range(k, v, ret_text);
	if (k->power_of_two && (v->integer & (v->integer - 1))) {
		u64 low = 1;

		while (low * 2 < (u64)v->integer)
			low *= 2;
		return problem_text(ret_text,
				    "%s: %" PRId64 " is not a power of two; the nearest are %" PRIu64
				    " and %" PRIu64,
				    key_path(k, path), v->integer, low, low * 2);
	}
	*FIELD(u32, base, k) = (u32)v->integer;
	return 0;
}

/* Sizes, times and keep_free: a string with a unit; a plain number is bytes, but no time: seconds and
 * milliseconds are both too likely. */
static int set_quantity(const Key *k, void *base, const ConfigValue *v, char **ret_text)
{
	char path[64], word[VALUE_SHOWN];
	u32 percent = 0;
	u64 n = 0;
	int r = 0;

	(void)key_path(k, path);
	(void)value_text(v, word);
	if (v->type == CONFIG_INT) {
		if (k->kind == KEY_TIME && v->integer > 0)
			return problem_text(ret_text, "%s: %s lacks a unit; write \"%ss\" or \"%sms\"",
					    path, word, word, word);
		if (v->integer < 0)
			return refuse_range(k, v, ret_text);
		n = (u64)v->integer;
	} else if (v->type != CONFIG_STRING) {
		return refuse_kind(k, v, ret_text);
	} else if (k->kind == KEY_FREE && v->string[0] && v->string[strlen(v->string) - 1] == '%') {
		r = parse_percent(v->string, &percent);
		if (r == -EINVAL)
			return problem_text(ret_text, "%s: %s is no per cent, such as \"10%%\"", path,
					    word);
	} else if (k->kind == KEY_TIME) {
		r = parse_time(v->string, &n);
		if (r == -EINVAL)
			return problem_text(ret_text,
					    "%s: %s is no time; write a number and at once ns, us, ms, s, "
					    "min, h or d, such as \"10s\"",
					    path, word);
	} else {
		r = parse_size(v->string, &n);
		if (r == -EINVAL)
			return problem_text(ret_text,
					    "%s: %s is no size; write a number and at once K, M, G, T or P "
					    "(or nothing: bytes), such as \"16M\"",
					    path, word);
	}
	if (r == -ERANGE || (percent == 0 && !in_range(k, n)))
		return refuse_range(k, v, ret_text);
	*FIELD(u64, base, k) = n;
	if (k->kind == KEY_FREE)
		*field_percent(k, base) = percent;
	return 0;
}

static int set_path(const Key *k, void *base, const ConfigValue *v, char **ret_text)
{
	char path[64], word[VALUE_SHOWN];
	const char *s = v->string, *wrong = NULL;
	char *copy = NULL;

	if (v->type != CONFIG_STRING)
		return refuse_kind(k, v, ret_text);
	if (*s) {
		size_t n = strlen(s);

		if (*s != '/')
			wrong = "is no absolute path; begin with '/'";
		else if (n > PATH_LONGEST)
			wrong = "is too long";
		else if (!text_printable(s))
			wrong = "holds control characters or is not UTF-8";
		else if (strstr(s, "/../") || (n >= 3 && strcmp(s + n - 3, "/..") == 0))
			wrong = "holds \"..\"; write the path as it is";
		if (wrong)
			return problem_text(ret_text, "%s: %s %s", key_path(k, path),
					    value_text(v, word), wrong);
		copy = strdup(s);
		if (!copy)
			return -ENOMEM;
	}
	field_clear(k, base);
	*FIELD(char *, base, k) = copy;
	return 0;
}

static int set_list(const Key *k, void *base, const ConfigValue *v, char **ret_text)
{
	Strings copy;
	char path[64];
	int r;

	if (v->type != CONFIG_STRINGS)
		return refuse_kind(k, v, ret_text);
	(void)key_path(k, path);
	if (k->filled && v->strings.n == 0)
		return problem_text(ret_text, "%s: is empty, so that nothing would be recorded; write %s",
				    path, k->doc.fallback);
	if (v->strings.n > ITEMS_MAX)
		return problem_text(ret_text, "%s: more than %d items", path, ITEMS_MAX);
	for (size_t i = 0; i < v->strings.n; i++) {
		_cleanup_free_ char *wrong = NULL;

		r = k->check(v->strings.v[i], &wrong);
		if (r == -EINVAL)
			return problem_text(ret_text, "%s: %s", path, wrong);
		if (r < 0)
			return r;
	}
	r = strings_copy(&v->strings, &copy);
	if (r < 0)
		return r;
	field_clear(k, base);
	*FIELD(Strings, base, k) = copy;
	return 0;
}

static int set_contexts(const Key *k, void *base, const ConfigValue *v, char **ret_text)
{
	u32 bits = 0;

	if (v->type != CONFIG_STRINGS)
		return refuse_kind(k, v, ret_text);
	for (size_t i = 0; i < v->strings.n; i++) {
		u32 bit;
		int r = find_choice(k, v->strings.v[i], &bit, ret_text);

		if (r < 0)
			return r;
		bits |= bit;
	}
	*FIELD(u32, base, k) = bits;
	return 0;
}

int setting_set(const Key *k, void *base, const ConfigValue *v, char **ret_text)
{
	switch (k->kind) {
	case KEY_BOOL:
		if (v->type != CONFIG_BOOL)
			return refuse_kind(k, v, ret_text);
		*FIELD(bool, base, k) = v->boolean;
		return 0;
	case KEY_CHOICE:
	case KEY_LEVEL:
		return set_choice(k, base, v, ret_text);
	case KEY_COUNT:
		return set_count(k, base, v, ret_text);
	case KEY_SIZE:
	case KEY_TIME:
	case KEY_FREE:
		return set_quantity(k, base, v, ret_text);
	case KEY_PATH:
		return set_path(k, base, v, ret_text);
	case KEY_LIST:
		return set_list(k, base, v, ret_text);
	case KEY_CONTEXTS:
		return set_contexts(k, base, v, ret_text);
	case KEY_NAME:
	case KEY_RESET:
		break;
	}
	return problem_text(ret_text, "%s: is for configuration files only", k->name);
}

/* ---- defaults, as the table writes them ---- */

/* `[ "a", "b" ]` split in place: the items point into text. */
static size_t split_items(char *text, char **items, size_t max)
{
	size_t n = 0;

	for (char *p = strchr(text, '"'), *end; p && n < max; p = strchr(end + 1, '"')) {
		end = strchr(p + 1, '"');
		if (!end)
			break;
		*end = '\0';
		items[n++] = p + 1;
	}
	return n;
}

int setting_default(const Key *k, void *base)
{
	_cleanup_free_ char *text = strdup(k->doc.fallback), *wrong = NULL;
	char *items[8];
	size_t n;
	ConfigValue v = { 0 };

	if (!text)
		return -ENOMEM;
	if (k->kind == KEY_NAME || k->kind == KEY_RESET)
		return 0;
	n = split_items(text, items, ELEMENTSOF(items));
	if (k->doc.fallback[0] == '[') {
		v.type = CONFIG_STRINGS;
		v.strings = (Strings){ .v = items, .n = n };
	} else if (k->doc.fallback[0] == '"') {
		v.type = CONFIG_STRING;
		v.string = items[0];
	} else if (k->kind == KEY_BOOL) {
		v.type = CONFIG_BOOL;
		v.boolean = strcmp(text, "true") == 0;
	} else {
		v.type = CONFIG_INT;
		v.integer = strtoll(text, NULL, 10);
	}
	return setting_set(k, base, &v, &wrong);
}
