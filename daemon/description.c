/* SPDX-License-Identifier: MIT */
#include "daemon/description.h"

#include <inttypes.h>
#include <pwd.h>
#include <time.h>

#include "daemon/trace/metadata.h"

#define WRITE_MAX 1024

void descriptions_clear(Descriptions *d)
{
	free(d->v);
	*d = (Descriptions){ 0 };
}

void descriptions_resolve(Descriptions *d)
{
	for (size_t i = 0; i < d->n; i++) {
		char buffer[4096];
		struct passwd pw, *found = NULL;

		/* known by the machine that it comes from */
		if (d->v[i].user[0])
			continue;
		/* most have the user of the one before */
		if (i && d->v[i].uid == d->v[i - 1].uid) {
			memcpy(d->v[i].user, d->v[i - 1].user, sizeof(d->v[i].user));
			continue;
		}
		if (getpwuid_r(d->v[i].uid, &pw, buffer, sizeof(buffer), &found) == 0 && found)
			(void)snprintf(d->v[i].user, sizeof(d->v[i].user), "%s", pw.pw_name);
	}
}

void descriptions_say(const Descriptions *d, u64 since, Environment *e)
{
	size_t n = 0, n_before = 0;

	for (size_t i = 0; i < d->n; i++)
		n_before += d->v[i].ended && d->v[i].ended < since;
	environment_add(e, "producers", "%zu", d->n_all - n_before);
	if (d->n_left_out && d->left_until >= since)
		environment_add(e, "producers_left_out", "%" PRIu64, (uint64_t)d->n_left_out);
	for (size_t i = 0; i < d->n && n < DESCRIPTIONS_SAID; i++) {
		const Description *p = &d->v[i];
		const struct {
			const char *key, *value;
		} texts[] = {
			{ "command", p->command }, { "exe", p->exe },   { "build_id", p->build_id },
			{ "unit", p->unit },	   { "user", p->user }, { "end", p->how },
		};
		char key[64];

		if (p->ended && p->ended < since)
			continue;
		n++;
#define KEY(name) ((void)snprintf(key, sizeof(key), "producer_%zu_%s", n, name), key)
		environment_add(e, KEY("pid"), "%d", (int)p->pid);
		if (p->vpid != (u32)p->pid)
			environment_add(e, KEY("vpid"), "%u", p->vpid);
		environment_add(e, KEY("uid"), "%u", (unsigned)p->uid);
		for (size_t k = 0; k < ELEMENTSOF(texts); k++)
			if (texts[k].value[0])
				environment_add(e, KEY(texts[k].key), "%s", texts[k].value);
		if (p->started)
			environment_add_time(e, KEY("started"), p->started);
		environment_add(e, KEY("start_ticks"), "%" PRIu64, (uint64_t)p->start_ticks);
		if (p->ended)
			environment_add_time(e, KEY("ended"), p->ended);
#undef KEY
	}
}

void description_string(FILE *out, const char *s)
{
	size_t n = strlen(s), width;

	(void)fputc('"', out);
	for (size_t i = 0; i < n; i += width) {
		u8 c = (u8)s[i];

		width = metadata_utf8_length((const u8 *)s + i);
		if (width == 0) {
			(void)fputs("\\ufffd", out);
			width = 1;
		} else if (c < ' ' || c == 0x7f) {
			(void)fprintf(out, "\\u%04x", c);
		} else {
			if (c == '"' || c == '\\')
				(void)fputc('\\', out);
			(void)fwrite(s + i, 1, width, out);
		}
	}
	(void)fputc('"', out);
}

static void put_time(FILE *out, const char *key, u64 ns)
{
	time_t s = (time_t)(ns / NSEC_PER_SEC);
	char text[40];
	struct tm tm;

	(void)gmtime_r(&s, &tm);
	(void)strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &tm);
	(void)fprintf(out, ", \"%s\": \"%s.%06" PRIu64 "Z\"", key, text, (uint64_t)(ns % NSEC_PER_SEC / 1000));
}

static void put_one(const Description *p, const char *owner, FILE *out)
{
	const struct {
		const char *key, *value;
	} texts[] = {
		{ "owner", owner },   { "user", p->user }, { "command", p->command },
		{ "unit", p->unit },  { "exe", p->exe },   { "build_id", p->build_id },
	};

	(void)fprintf(out, "{ \"pid\": %d, \"vpid\": %u, \"uid\": %u", (int)p->pid, p->vpid, (unsigned)p->uid);
	for (size_t k = 0; k < ELEMENTSOF(texts); k++) {
		(void)fprintf(out, ", \"%s\": ", texts[k].key);
		description_string(out, texts[k].value);
	}
	(void)fprintf(out, ", \"start_ticks\": %" PRIu64, (uint64_t)p->start_ticks);
	if (p->started)
		put_time(out, "started", p->started);
	if (p->ended) {
		put_time(out, "ended", p->ended);
		(void)fputs(", \"end\": ", out);
		description_string(out, p->how);
	}
	(void)fputs(" }", out);
}

const char *descriptions_write(const Descriptions *d, const char *owner, const char *separator, size_t limit,
			       FILE *out, u64 *left_out)
{
	*left_out += d->n_left_out;
	for (size_t i = 0; i < d->n; i++) {
		_cleanup_free_ char *text = NULL;
		size_t size;
		FILE *one;
		bool failed;

		if (i >= WRITE_MAX) {
			*left_out += d->n - i;
			break;
		}
		one = open_memstream(&text, &size);
		if (!one)
			return NULL;
		put_one(&d->v[i], owner, one);
		failed = ferror(one);
		if (fclose(one) == EOF || failed)
			return NULL;
		if (limit && (u64)ftell(out) + size > limit) {
			*left_out += d->n - i;
			break;
		}
		(void)fputs(separator, out);
		(void)fwrite(text, 1, size, out);
		separator = ",\n\t\t";
	}
	return separator;
}
