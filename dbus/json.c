/* SPDX-License-Identifier: MIT */
#include "dbus/json.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>

static void line_begin(Json *j)
{
	if (!j->pretty)
		return;
	(void)fputc('\n', j->out);
	for (unsigned i = 0; i < j->depth; i++)
		(void)fputc('\t', j->out);
}

/* Before every key, and before every value that has none. */
static void item_begin(Json *j)
{
	if (j->keyed) {
		j->keyed = false;
		return;
	}
	if (j->depth == 0)
		return;
	if (j->filled[j->depth])
		(void)fputc(',', j->out);
	j->filled[j->depth] = true;
	line_begin(j);
}

void json_open(Json *j, char bracket)
{
	item_begin(j);
	(void)fputc(bracket, j->out);
	if (j->depth < JSON_DEPTH_MAX)
		j->depth++;
	j->filled[j->depth] = false;
}

void json_close(Json *j, char bracket)
{
	bool filled = j->filled[j->depth];

	j->depth--;
	if (filled)
		line_begin(j);
	(void)fputc(bracket, j->out);
	if (j->depth == 0)
		(void)fputc('\n', j->out);
}

static void string_write(Json *j, const char *text)
{
	(void)fputc('"', j->out);
	for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
		if (*p == '"' || *p == '\\')
			(void)fprintf(j->out, "\\%c", *p);
		else if (*p < 0x20 || *p == 0x7f)
			(void)fprintf(j->out, "\\u%04x", *p);
		else
			(void)fputc(*p, j->out);
	}
	(void)fputc('"', j->out);
}

void json_key(Json *j, const char *key)
{
	item_begin(j);
	string_write(j, key);
	(void)fputs(j->pretty ? ": " : ":", j->out);
	j->keyed = true;
}

void json_string(Json *j, const char *text)
{
	item_begin(j);
	string_write(j, text);
}

void json_unsigned(Json *j, u64 n)
{
	item_begin(j);
	(void)fprintf(j->out, "%" PRIu64, n);
}

static void json_signed(Json *j, int64_t n)
{
	item_begin(j);
	(void)fprintf(j->out, "%" PRId64, n);
}

static void json_double(Json *j, double d)
{
	item_begin(j);
	if (isfinite(d))
		(void)fprintf(j->out, "%.6g", d);
	else
		(void)fputs("null", j->out);
}

static int basic_write(Json *j, sd_bus_message *m, char type)
{
	union {
		uint8_t y;
		int16_t n;
		uint16_t q;
		int32_t i;
		uint32_t u;
		int64_t x;
		uint64_t t;
		double d;
		int b;
		const char *s;
	} v;
	int r = sd_bus_message_read_basic(m, type, &v);

	if (r < 0)
		return r;
	switch (type) {
	case 'y':
		json_unsigned(j, v.y);
		return 0;
	case 'n':
		json_signed(j, v.n);
		return 0;
	case 'q':
		json_unsigned(j, v.q);
		return 0;
	case 'i':
		json_signed(j, v.i);
		return 0;
	case 'u':
		json_unsigned(j, v.u);
		return 0;
	case 'x':
		json_signed(j, v.x);
		return 0;
	case 't':
		json_unsigned(j, v.t);
		return 0;
	case 'd':
		json_double(j, v.d);
		return 0;
	case 'b':
		item_begin(j);
		(void)fputs(v.b ? "true" : "false", j->out);
		return 0;
	case 's':
	case 'o':
	case 'g':
		json_string(j, v.s);
		return 0;
	default:
		return -EOPNOTSUPP;
	}
}

/* Members of an array or struct until its end; a dict entry is its key, then its value. */
static int members_write(Json *j, sd_bus_message *m, bool dict)
{
	int r;

	while ((r = sd_bus_message_at_end(m, false)) == 0) {
		const char *key;

		if (dict) {
			r = sd_bus_message_enter_container(m, 'e', NULL);
			if (r >= 0)
				r = sd_bus_message_read_basic(m, 's', &key);
			if (r >= 0)
				json_key(j, key);
			if (r < 0)
				return r;
		}
		r = json_value(j, m);
		if (r >= 0 && dict)
			r = sd_bus_message_exit_container(m);
		if (r < 0)
			return r;
	}
	return r < 0 ? r : 0;
}

int json_value(Json *j, sd_bus_message *m)
{
	const char *content;
	bool dict;
	char type;
	int r = sd_bus_message_peek_type(m, &type, &content);

	if (r <= 0)
		return r < 0 ? r : -ENXIO;
	if (type != 'a' && type != 'r' && type != 'v')
		return basic_write(j, m, type);
	if (j->depth >= JSON_DEPTH_MAX)
		return -E2BIG;
	dict = type == 'a' && content[0] == '{' && content[1] == 's';
	r = sd_bus_message_enter_container(m, type, content);
	if (r < 0)
		return r;
	if (type == 'v') {
		r = json_value(j, m);
	} else {
		json_open(j, dict ? '{' : '[');
		r = members_write(j, m, dict);
		json_close(j, dict ? '}' : ']');
	}
	return r < 0 ? r : sd_bus_message_exit_container(m);
}

/* "LastSnapshot" -> "last_snapshot", "IO" -> "io" */
static void key_write(Json *j, const char *name)
{
	char key[128];
	size_t n = 0;

	for (const char *p = name; *p && n + 2 < sizeof(key); p++) {
		if (p > name && isupper((unsigned char)*p) && islower((unsigned char)p[-1]))
			key[n++] = '_';
		key[n++] = (char)tolower((unsigned char)*p);
	}
	key[n] = 0;
	json_key(j, key);
}

int json_properties(Json *j, sd_bus_message *m)
{
	const char *name;
	int r = sd_bus_message_enter_container(m, 'a', "{sv}");

	if (r < 0)
		return r;
	while ((r = sd_bus_message_enter_container(m, 'e', "sv")) > 0) {
		r = sd_bus_message_read_basic(m, 's', &name);
		if (r < 0)
			return r;
		key_write(j, name);
		r = json_value(j, m);
		if (r >= 0)
			r = sd_bus_message_exit_container(m);
		if (r < 0)
			return r;
	}
	return r < 0 ? r : sd_bus_message_exit_container(m);
}
