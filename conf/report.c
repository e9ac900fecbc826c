/* SPDX-License-Identifier: MIT */
/* The configuration for people: the verdict of --check-config, the effective settings, the keys. */
#include <inttypes.h>
#include <stdio.h>
#include <sysexits.h>

#include "conf/config.h"
#include "conf/load.h"
#include "conf/problem.h"
#include "conf/session.h"
#include "conf/field.h"
#include "conf/setting.h"

const ConfigKey *config_keys(size_t *ret_n)
{
	/* The table's own documentation, side by side for who wants all of it. */
	static ConfigKey docs[64];
	size_t n = MIN(n_keys, ELEMENTSOF(docs));

	for (size_t i = 0; i < n; i++)
		docs[i] = keys[i].doc;
	*ret_n = n;
	return docs;
}

/* What can be used, every problem said. -ENOMEM, or 0 also if there were errors. */
static int report_load(const char *const *directories, const char *file, FILE *out, Config **ret,
		       size_t *ret_errors)
{
	_cleanup_(config_problems_clear) ConfigProblems problems = { 0 };
	int r = file ? config_load_file(file, ret, &problems) : config_load(directories, ret, &problems);

	if (r == -ENOMEM) {
		fputs("error: out of memory\n", out);
		return r;
	}
	for (size_t i = 0; i < problems.n; i++) {
		_cleanup_free_ char *text = config_problem_text(&problems.v[i]);

		fprintf(out, "%s\n", text ? text : problems.v[i].text);
		*ret_errors += !problems.v[i].warning;
	}
	return 0;
}

int config_check(const char *const *directories, const char *file, FILE *out)
{
	_cleanup_(config_freep) Config *c = NULL;
	size_t n_errors = 0;

	if (report_load(directories, file, out, &c, &n_errors) < 0)
		return EX_OSERR;
	if (n_errors > 0)
		fprintf(out, "%zu error%s\n", n_errors, n_errors == 1 ? "" : "s");
	else
		fprintf(out, "no errors; %zu session%s\n", c->n_sessions, c->n_sessions == 1 ? "" : "s");
	return n_errors > 0 ? EX_CONFIG : EX_OK;
}

int config_check_main(const char *file, FILE *out)
{
	return config_check(NULL, file, out);
}

static int dump_key(const Key *k, const void *base, const ConfigOrigin *origins, const char *indent,
		    FILE *out)
{
	const ConfigOrigin *o = &origins[k - keys];
	_cleanup_free_ char *text = NULL;

	if (k->kind == KEY_NAME || k->kind == KEY_RESET)
		return 0;
	text = field_text(k, base);
	if (!text)
		return -ENOMEM;
	if (o->file)
		fprintf(out, "%s%s = %s; // %s:%d\n", indent, k->name, text, o->file, o->line);
	else
		fprintf(out, "%s%s = %s; // default\n", indent, k->name, text);
	return 0;
}

static int dump_group(KeyGroup group, const void *base, const ConfigOrigin *origins,
		      const char *indent, FILE *out)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < n_keys; i++)
		if (keys[i].group == group)
			r = dump_key(&keys[i], base, origins, indent, out);
	return r;
}

static int dump_session(const SessionConfig *s, bool with_origins, FILE *out)
{
	/* Owned by a struct that came over D-Bus, origins may be missing as well as empty. */
	_cleanup_(freep) ConfigOrigin *none = calloc(n_keys, sizeof(*none));
	const ConfigOrigin *origins = s->origins && with_origins ? s->origins : none;
	int r;

	if (!none)
		return -ENOMEM;
	fputs("  { name = \"", out);
	for (const char *p = s->name; *p; p++)
		fprintf(out, *p == '"' || *p == '\\' ? "\\%c" : "%c", *p);
	if (s->file && with_origins)
		fprintf(out, "\"; // %s:%d\n", s->file, s->line);
	else
		fputs("\";\n", out);
	r = dump_group(GROUP_SESSION, s, origins, "    ", out);
	fputs("    snapshot: {\n", out);
	if (r == 0)
		r = dump_group(GROUP_SNAPSHOT, s, origins, "      ", out);
	fputs("    };\n  }", out);
	return r;
}

int config_dump(const Config *c, FILE *out)
{
	int r;

	fputs("daemon: {\n", out);
	r = dump_group(GROUP_DAEMON, &c->daemon, c->daemon.origins, "  ", out);
	fputs("};\nsessions = (\n", out);
	for (size_t i = 0; r == 0 && i < c->n_sessions; i++) {
		r = dump_session(c->sessions[i], true, out);
		fputs(i + 1 < c->n_sessions ? ",\n" : "\n", out);
	}
	fputs(");\n", out);
	if (r < 0)
		return r;
	return ferror(out) ? -EIO : 0;
}

char *session_config_text(const SessionConfig *c)
{
	char *text = NULL;
	size_t n = 0;
	FILE *out = open_memstream(&text, &n);
	int r;

	if (!out)
		return NULL;
	fputs("sessions = (\n", out);
	r = dump_session(c, false, out);
	fputs("\n);\n", out);
	if (fclose(out) != 0 || r < 0) {
		free(text);
		return NULL;
	}
	return text;
}

int session_config_from_text(SessionConfig **ret, const char *text)
{
	_cleanup_(config_freep) Config *c = NULL;
	ConfigProblems problems = { 0 };
	int r = config_load_text("state", text, strlen(text), &c, &problems);

	config_problems_clear(&problems);
	if (r == 0 && c->n_sessions != 1)
		r = -EINVAL;
	if (r < 0)
		return r;
	*ret = c->sessions[0];
	c->n_sessions = 0;
	/* where it was said is the caller's to know */
	free((*ret)->file);
	(*ret)->file = NULL;
	(*ret)->line = 0;
	return 0;
}

int config_dump_main(const char *const *directories, const char *file, FILE *out, FILE *err)
{
	_cleanup_(config_freep) Config *c = NULL;
	size_t n_errors = 0;
	int r;

	if (report_load(directories, file, err, &c, &n_errors) < 0)
		return EX_OSERR;
	r = config_dump(c, out);
	if (r == 0 && fflush(out) != 0)
		r = -errno;
	if (r < 0) {
		fprintf(err, "error: the settings cannot be written: %s\n", strerror(-r));
		return r == -ENOMEM ? EX_OSERR : EX_IOERR;
	}
	return n_errors > 0 ? EX_CONFIG : EX_OK;
}

int config_help(FILE *out)
{
	KeyGroup group = GROUP_SESSION;
	static const KeyGroup order[] = { GROUP_SESSION, GROUP_SNAPSHOT, GROUP_DAEMON };
	static const char *const titles[] = { [GROUP_SESSION] = "sessions: { NAME: { ... }; };",
					      [GROUP_SNAPSHOT] = "snapshot: { ... }; in a session",
					      [GROUP_DAEMON] = "daemon: { ... };" };

	for (size_t g = 0; g < ELEMENTSOF(order); g++) {
		group = order[g];
		fprintf(out, "%s%s\n", g ? "\n" : "", titles[group]);
		for (size_t i = 0; i < n_keys; i++) {
			const ConfigKey *d = &keys[i].doc;

			if (keys[i].group != group)
				continue;
			fprintf(out, "  %s = %s\n      %s\n      (%s)\n", d->key,
				*d->fallback ? d->fallback : "\"...\"", d->text, d->range);
		}
	}
	return ferror(out) ? -EIO : 0;
}
