/* SPDX-License-Identifier: MIT */
/* Walks what libconfig made of a file, setting by setting, never asking it for a key: an answer "not there"
 * could mean "of another type" or "misspelled". Integers all come as 64 bits (literal.c writes the L). */
#include <libconfig.h>

#include "conf/parse.h"

#include "conf/item.h"
#include "conf/literal.h"
#include "conf/problem.h"
#include "conf/scan.h"
#include "conf/session.h"
#include "conf/field.h"
#include "conf/setting.h"
#include "conf/suggest.h"

/* Of one file; 64 can run. What compares them with one another need not be clever below this. */
enum { SESSIONS_MAX = 1024 };

typedef struct {
	Config *config; /* what the file is applied to: a copy */
	FileProblems problems;
	bool usable;  /* false: whatever comes, nothing of it is used */
} Parser;

static int line_of(const config_setting_t *s)
{
	return (int)config_setting_source_line(s);
}

/* Where the scan repaired a value nobody wrote what is there. (In a usable file the same byte is the user's.) */
static bool is_repaired(const Parser *p, const config_setting_t *s)
{
	return !p->usable && config_setting_type(s) == CONFIG_TYPE_STRING &&
	       strcmp(config_setting_get_string(s), LITERAL_REPAIRED) == 0;
}

/* A name, a value, or an element of its list that the scan has dealt with. */
static bool dropped(const Parser *p, const config_setting_t *s)
{
	const char *name = config_setting_name(s);

	if ((name && *name == '*') || is_repaired(p, s))
		return true;
	if (config_setting_is_list(s))
		for (int i = 0; i < config_setting_length(s); i++)
			if (is_repaired(p, config_setting_get_elem(s, (unsigned)i)))
				return true;
	return false;
}

#define complain(p, at, ...) problem_complain(&(p)->problems, at, __VA_ARGS__)

/* Takes the text; a NULL text is for the caller's -ENOMEM. */
static int complain_text(Parser *p, int line, char *text)
{
	_cleanup_free_ char *owned = text;

	return complain(p, line, "%s", owned);
}

/* ---- values ---- */

/* Strings of a list; numbers become strings too, as in users = [ 1000 ]. items and text are the caller's to
 * free. ret->type stays CONFIG_LIST when an element is something else. */
static int list_value(const config_setting_t *s, ConfigValue *ret, char ***ret_items)
{
	int n = config_setting_length(s);
	char **items = calloc((size_t)n + 1, sizeof(*items));

	*ret_items = items;
	if (!items)
		return -ENOMEM;
	ret->type = CONFIG_LIST;
	for (int i = 0; i < n; i++) {
		const config_setting_t *e = config_setting_get_elem(s, (unsigned)i);
		int r = 0;

		if (config_setting_type(e) == CONFIG_TYPE_STRING) {
			items[i] = strdup(config_setting_get_string(e));
			r = items[i] ? 0 : -1;
		} else if (config_setting_type(e) == CONFIG_TYPE_INT64) {
			r = asprintf(&items[i], "%lld", config_setting_get_int64(e));
		} else {
			return 0;
		}
		if (r < 0) {
			items[i] = NULL;
			return -ENOMEM;
		}
	}
	ret->type = CONFIG_STRINGS;
	ret->strings = (Strings){ .v = items, .n = (size_t)n };
	return 0;
}

static void items_freep(char ***items)
{
	for (char **i = *items; i && *i; i++)
		free(*i);
	free(*items);
}

static int apply_key(Parser *p, const Key *k, void *base, ConfigOrigin *origins,
		     const config_setting_t *s)
{
	_cleanup_(items_freep) char **items = NULL;
	char *wrong = NULL;
	ConfigValue v = { .type = CONFIG_GROUP };
	int r = 0;

	switch (config_setting_type(s)) {
	case CONFIG_TYPE_BOOL:
		v.type = CONFIG_BOOL;
		v.boolean = config_setting_get_bool(s);
		break;
	case CONFIG_TYPE_INT:
		v.type = CONFIG_INT;
		v.integer = config_setting_get_int(s);
		break;
	case CONFIG_TYPE_INT64:
		v.type = CONFIG_INT;
		v.integer = config_setting_get_int64(s);
		break;
	case CONFIG_TYPE_FLOAT:
		v.type = CONFIG_FRACTION;
		break;
	case CONFIG_TYPE_STRING:
		v.type = CONFIG_STRING;
		v.string = config_setting_get_string(s);
		break;
	case CONFIG_TYPE_ARRAY:
	case CONFIG_TYPE_LIST:
		r = list_value(s, &v, &items);
		break;
	}
	if (r < 0)
		return r;
	r = setting_set(k, base, &v, &wrong);
	if (r == -EINVAL)
		return complain_text(p, line_of(s), wrong);
	if (r < 0)
		return r;
	return origin_set(origins, k, p->problems.file, line_of(s));
}

static int complain_unknown(Parser *p, KeyGroup group, const config_setting_t *s, const char *where)
{
	char *text = NULL;
	int r;

	r = key_unknown(group, config_setting_name(s), where, &text);
	return r == -EINVAL ? complain_text(p, line_of(s), text) : r;
}

/* ---- groups ---- */

static int apply_snapshot(Parser *p, SessionConfig *c, const config_setting_t *group)
{
	if (!config_setting_is_group(group))
		return complain(p, line_of(group), "snapshot: is a group; write snapshot: { ... };");
	for (int i = 0; i < config_setting_length(group); i++) {
		const config_setting_t *s = config_setting_get_elem(group, (unsigned)i);
		const Key *k = dropped(p, s) ? NULL : key_find(GROUP_SNAPSHOT, config_setting_name(s));
		int r;

		if (dropped(p, s))
			continue;
		r = k ? apply_key(p, k, c, c->origins, s)
		      : complain_unknown(p, GROUP_SNAPSHOT, s, "snapshot");
		if (r < 0)
			return r;
	}
	return 0;
}

static int new_session(Parser *p, const char *name, int line, SessionConfig **ret)
{
	_cleanup_(session_config_freep) SessionConfig *c = NULL;
	int r = session_config_new(&c, name);

	if (r < 0)
		return r;
	c->file = strdup(p->problems.file);
	c->line = line;
	if (!c->file)
		return -ENOMEM;
	*ret = steal_ptr(c);
	return 0;
}

/* reset comes first, wherever it stands. */
static int wants_reset(Parser *p, const config_setting_t *group, bool *ret)
{
	const config_setting_t *s = config_setting_get_member(group, "reset");

	*ret = false;
	if (!s || dropped(p, s))
		return 0;
	if (config_setting_type(s) != CONFIG_TYPE_BOOL)
		return complain(p, line_of(s), "reset: needs true or false (no quotes)");
	*ret = config_setting_get_bool(s);
	return 0;
}

static int apply_session(Parser *p, const char *name, const config_setting_t *group)
{
	_cleanup_(session_config_freep) SessionConfig *c = NULL;
	const SessionConfig *before = config_find(p->config, name);
	size_t first = p->problems.all->n;
	char where[WORD_SHOWN + 32], shown[WORD_SHOWN + 8];
	bool reset;
	int r;

	(void)snprintf(where, sizeof(where), "session %s", problem_word(name, shown));
	r = wants_reset(p, group, &reset);
	if (r < 0)
		return r;
	if (before && !reset) {
		c = session_config_copy(before);
		r = c ? 0 : -ENOMEM;
	} else {
		r = new_session(p, name, line_of(group), &c);
	}
	if (r < 0)
		return r;
	for (int i = 0; i < config_setting_length(group); i++) {
		const config_setting_t *s = config_setting_get_elem(group, (unsigned)i);
		const Key *k;

		if (dropped(p, s))
			continue;
		k = key_find(GROUP_SESSION, config_setting_name(s));
		if (strcmp(config_setting_name(s), "snapshot") == 0)
			r = apply_snapshot(p, c, s);
		else if (k && (k->kind == KEY_NAME || k->kind == KEY_RESET))
			r = 0;
		else if (k)
			r = apply_key(p, k, c, c->origins, s);
		else
			r = complain_unknown(p, GROUP_SESSION, s, where);
		if (r < 0)
			return r;
	}
	if (!p->usable)
		return 0;
	if (problem_error_since(p->problems.all, first))
		return problem_add(p->problems.all, p->problems.file, line_of(group), true,
				   before ? "%s stays as the files before made it, since this has errors"
					  : "%s is left out, since it has errors",
				   where);
	r = config_put(p->config, c);
	if (r == 0)
		c = NULL; /* the config has it */
	return r;
}

static int complain_name(Parser *p, int line, const char *name)
{
	char shown[WORD_SHOWN + 8];

	return complain(p, line,
			"%s cannot name a session: 1 to 64 bytes of UTF-8 without '/', ':' and control "
			"characters, not beginning with '.'",
			problem_word(name, shown));
}

/* sessions = ( { name = "..."; ... }, ... ) */
static int apply_element(Parser *p, const config_setting_t *list, int i)
{
	const config_setting_t *e = config_setting_get_elem(list, (unsigned)i), *s;
	const char *name;

	if (dropped(p, e))
		return 0;
	if (!config_setting_is_group(e))
		return complain(p, line_of(e), "sessions: a list holds groups, each with a name: ( { name = "
					       "\"...\"; ... } )");
	s = config_setting_get_member(e, "name");
	if (!s)
		return complain(p, line_of(e), "a session in a list needs its name: { name = \"...\"; ... }");
	if (dropped(p, s))
		return 0;
	if (config_setting_type(s) != CONFIG_TYPE_STRING)
		return complain(p, line_of(s), "name: needs a string in quotes");
	name = config_setting_get_string(s);
	if (!config_session_name_valid(name))
		return complain_name(p, line_of(s), name);
	for (int j = 0; j < i; j++) {
		const config_setting_t *other = config_setting_get_elem(list, (unsigned)j), *n;

		n = config_setting_is_group(other) ? config_setting_get_member(other, "name") : NULL;
		if (n && config_setting_type(n) == CONFIG_TYPE_STRING &&
		    strcmp(config_setting_get_string(n), name) == 0)
			return complain(p, line_of(s), "session \"%s\" is there twice; the first is in line %d",
					name, line_of(n));
	}
	return apply_session(p, name, e);
}

/* sessions: { NAME: { ... }; ... } */
static int apply_member(Parser *p, const config_setting_t *s)
{
	const char *name = config_setting_name(s);
	const config_setting_t *n;

	if (dropped(p, s))
		return 0;
	if (!config_setting_is_group(s)) {
		if (key_find(GROUP_SESSION, name) || strcmp(name, "snapshot") == 0)
			return complain(p, line_of(s),
					"key \"%s\" belongs in a session: sessions: { NAME: { %s ... }; };",
					name, name);
		return complain(p, line_of(s), "session \"%s\" is a group; write %s: { ... };", name, name);
	}
	if (!config_session_name_valid(name))
		return complain_name(p, line_of(s), name);
	n = config_setting_get_member(s, "name");
	if (n)
		return complain(p, line_of(n), "name: this session has its name already: \"%s\"", name);
	return apply_session(p, name, s);
}

static int apply_sessions(Parser *p, const config_setting_t *s)
{
	bool list = config_setting_is_list(s);
	int r = 0;

	if (!list && !config_setting_is_group(s))
		return complain(p, line_of(s), "sessions: is a group; write sessions: { NAME: { ... }; };");
	if (config_setting_length(s) > SESSIONS_MAX)
		return complain(p, line_of(s), "sessions: more than %d in one file", SESSIONS_MAX);
	for (int i = 0; r == 0 && i < config_setting_length(s); i++)
		r = list ? apply_element(p, s, i)
			 : apply_member(p, config_setting_get_elem(s, (unsigned)i));
	return r;
}

static int apply_daemon(Parser *p, const config_setting_t *group)
{
	DaemonConfig d = { 0 };
	size_t first = p->problems.all->n;
	int r;

	if (!config_setting_is_group(group))
		return complain(p, line_of(group), "daemon: is a group; write daemon: { ... };");
	r = daemon_config_copy(&p->config->daemon, &d);
	for (int i = 0; r == 0 && i < config_setting_length(group); i++) {
		const config_setting_t *s = config_setting_get_elem(group, (unsigned)i);
		const Key *k;

		if (dropped(p, s))
			continue;
		k = key_find(GROUP_DAEMON, config_setting_name(s));
		r = k ? apply_key(p, k, &d, d.origins, s)
		      : complain_unknown(p, GROUP_DAEMON, s, "daemon");
	}
	if (r == 0 && !problem_error_since(p->problems.all, first)) {
		daemon_config_deinit(&p->config->daemon);
		p->config->daemon = d;
		return 0;
	}
	daemon_config_deinit(&d);
	if (r < 0 || !p->usable)
		return r;
	return problem_add(p->problems.all, p->problems.file, line_of(group), true,
			   "the daemon's settings stay as they were, since this has errors");
}

static int complain_top(Parser *p, const config_setting_t *s)
{
	static const char *const groups[] = { "sessions", "daemon" };
	const char *name = config_setting_name(s), *near;

	/* a session outside of sessions: { } is likelier than anything else */
	near = suggest_nearest(name, groups, ELEMENTSOF(groups));
	if (near)
		return complain(p, line_of(s), "unknown group \"%s\"; did you mean \"%s\"?", name, near);
	if (key_find(GROUP_DAEMON, name))
		return complain(p, line_of(s), "key \"%s\" does not belong here, but in daemon: { }", name);
	if (key_find(GROUP_SESSION, name) || key_find(GROUP_SNAPSHOT, name) ||
	    strcmp(name, "snapshot") == 0)
		return complain(p, line_of(s),
				"key \"%s\" does not belong here, but in a session: sessions: { NAME: { ... }; };",
				name);
	return complain(p, line_of(s), "unknown group \"%s\"; there are sessions: { } and daemon: { }",
			name);
}

static int apply_root(Parser *p, const config_setting_t *root)
{
	int r = 0;

	for (int i = 0; r == 0 && i < config_setting_length(root); i++) {
		const config_setting_t *s = config_setting_get_elem(root, (unsigned)i);

		if (dropped(p, s))
			continue;
		if (strcmp(config_setting_name(s), "sessions") == 0)
			r = apply_sessions(p, s);
		else if (strcmp(config_setting_name(s), "daemon") == 0)
			r = apply_daemon(p, s);
		else
			r = complain_top(p, s);
	}
	return r;
}

int parse_text(const char *file, const char *text, size_t n, Config **config, ConfigProblems *problems)
{
	_cleanup_(config_freep) Config *copy = NULL;
	_cleanup_free_ char *clean = NULL;
	config_t tree;
	Parser p = { .problems = { .file = file, .all = problems, .first = problems->n } };
	int r;

	r = scan_text(file, text, n, &clean, problems);
	if (r < 0)
		return r;
	p.usable = clean && !problem_error_since(problems, p.problems.first);
	if (clean) {
		r = config_copy(*config, &copy);
		if (r < 0)
			return r;
		p.config = copy;
		config_init(&tree);
		if (config_read_string(&tree, clean)) {
			r = apply_root(&p, config_root_setting(&tree));
		} else {
			p.usable = false;
			r = complain(&p, config_error_line(&tree), "%s", config_error_text(&tree));
		}
		config_destroy(&tree);
		if (r < 0)
			return r;
	}
	problem_sort(problems, p.problems.first);
	if (!p.usable)
		return problem_add(problems, file, 0, true, "nothing of this file is used, since it cannot be read");
	(void)config_free(*config);
	*config = steal_ptr(copy);
	return 0;
}
