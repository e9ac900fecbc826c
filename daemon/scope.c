/* SPDX-License-Identifier: MIT */
/* What a session wants. */
#include "daemon/scope.h"

#include <pwd.h>

#include "lib/class.h"
#include "lib/pattern.h"

static int user_resolve(const char *name, uid_t *ret)
{
	struct passwd *pw;
	unsigned long n;
	char *end;

	errno = 0;
	n = strtoul(name, &end, 10);
	if (name[0] >= '0' && name[0] <= '9' && *end == 0 && errno == 0 && n < (uid_t)-1) {
		*ret = (uid_t)n;
		return 0;
	}
	pw = getpwnam(name);
	if (!pw)
		return -ENOENT;
	*ret = pw->pw_uid;
	return 0;
}

int scope_init(Scope *ret, const SessionConfig *config, const char **ret_unknown)
{
	Scope s = { .config = config };

	if (ret_unknown)
		*ret_unknown = NULL;
	if (config->users.n) {
		s.uids = calloc(config->users.n, sizeof(*s.uids));
		if (!s.uids)
			return -ENOMEM;
	}
	for (size_t i = 0; i < config->users.n; i++) {
		if (user_resolve(config->users.v[i], &s.uids[s.n_uids]) == 0)
			s.n_uids++;
		else if (ret_unknown)
			*ret_unknown = config->users.v[i];
	}
	*ret = s;
	return 0;
}

void scope_clear(Scope *s)
{
	free(s->uids);
	*s = (Scope){};
}

static bool strings_match(const Strings *globs, const char *text)
{
	for (size_t i = 0; i < globs->n; i++)
		if (pattern_match(globs->v[i], text))
			return true;
	return globs->n == 0;
}

bool scope_wants_program(const Scope *s, uid_t uid, const char *command, const char *unit)
{
	bool user = s->config->users.n == 0;

	for (size_t i = 0; i < s->n_uids && !user; i++)
		user = s->uids[i] == uid;
	return user && strings_match(&s->config->processes, command) &&
	       strings_match(&s->config->units, unit);
}

bool scope_wants_event(const Scope *s, const char *provider, const char *event, int level)
{
	const SessionConfig *c = s->config;
	bool wanted = false;

	if (level > c->level)
		return false;
	for (size_t i = 0; i < c->events.n && !wanted; i++)
		wanted = pattern_match_event(c->events.v[i], provider, event);
	for (size_t i = 0; i < c->exclude.n && wanted; i++)
		wanted = !pattern_match_event(c->exclude.v[i], provider, event);
	return wanted;
}

bool scope_pins_event(const Scope *s, const char *provider, const char *event)
{
	for (size_t i = 0; i < s->config->pinned.n; i++)
		if (pattern_match_event(s->config->pinned.v[i], provider, event))
			return true;
	return false;
}

void scope_buckets(const Scope *s, u64 ret[SCOPE_WORDS])
{
	char provider[CLASS_MAX_NAME + 1];

	memset(ret, 0, SCOPE_WORDS * sizeof(u64));
	for (size_t i = 0; i < s->config->events.n; i++) {
		u32 bucket;

		if (!pattern_literal_provider(s->config->events.v[i], provider, sizeof(provider))) {
			/* any provider may match, so every word gets the bit */
			memset(ret, 0xff, SCOPE_WORDS * sizeof(u64));
			return;
		}
		bucket = abi_bucket(provider);
		ret[bucket / 64] |= 1ull << bucket % 64;
	}
}
