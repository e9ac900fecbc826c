/* SPDX-License-Identifier: MIT */
#include "conf/session.h"

#include "conf/problem.h"
#include "conf/field.h"
#include "conf/setting.h"
#include "conf/text.h"
#include "lib/abi.h"

enum { NAME_MAX_BYTES = 64, SIDE_RINGS = 2, SIDE_RING_PART = 8, SIDE_RING_LEAST = 65536 };

static bool of_session(const Key *k)
{
	return k->group != GROUP_DAEMON;
}

bool config_session_name_valid(const char *name)
{
	return *name && *name != '.' && strlen(name) <= NAME_MAX_BYTES && !strpbrk(name, "/:") &&
	       text_printable(name);
}

int session_config_new(SessionConfig **ret, const char *name)
{
	_cleanup_(session_config_freep) SessionConfig *c = NULL;
	int r;

	if (!config_session_name_valid(name))
		return -EINVAL;
	c = calloc(1, sizeof(*c));
	if (!c)
		return -ENOMEM;
	c->name = strdup(name);
	c->origins = calloc(n_keys, sizeof(*c->origins));
	if (!c->name || !c->origins)
		return -ENOMEM;
	for (size_t i = 0; i < n_keys; i++) {
		if (!of_session(&keys[i]))
			continue;
		r = setting_default(&keys[i], c);
		if (r < 0)
			return r;
	}
	*ret = steal_ptr(c);
	return 0;
}

SessionConfig *session_config_copy(const SessionConfig *c)
{
	_cleanup_(session_config_freep) SessionConfig *copy = calloc(1, sizeof(*copy));

	if (!copy)
		return NULL;
	copy->name = strdup(c->name);
	copy->file = c->file ? strdup(c->file) : NULL;
	copy->line = c->line;
	if (!copy->name || (c->file && !copy->file))
		return NULL;
	if (origins_copy(c->origins, &copy->origins) < 0)
		return NULL;
	for (size_t i = 0; i < n_keys; i++)
		if (of_session(&keys[i]) && field_copy(&keys[i], c, copy) < 0)
			return NULL;
	return steal_ptr(copy);
}

SessionConfig *session_config_free(SessionConfig *c)
{
	if (!c)
		return NULL;
	for (size_t i = 0; i < n_keys; i++)
		if (of_session(&keys[i]))
			field_clear(&keys[i], c);
	(void)origins_free(c->origins);
	free(c->name);
	free(c->file);
	free(c);
	return NULL;
}

bool session_config_equal(const SessionConfig *a, const SessionConfig *b)
{
	if (strcmp(a->name, b->name) != 0)
		return false;
	for (size_t i = 0; i < n_keys; i++)
		if (of_session(&keys[i]) && !field_equal(&keys[i], a, b))
			return false;
	return true;
}

int session_config_set(SessionConfig *c, const char *key, const ConfigValue *value, char **ret_text)
{
	static const char prefix[] = "snapshot.";
	const Key *k = key_find_path(key);

	if (k)
		return setting_set(k, c, value, ret_text);
	if (strncmp(key, prefix, strlen(prefix)) == 0)
		return key_unknown(GROUP_SNAPSHOT, key + strlen(prefix), "snapshot", ret_text);
	if (strcmp(key, "snapshot") == 0)
		return problem_text(ret_text, "snapshot: is a group; give its keys one by one, as in "
					      "\"snapshot.max_count\"");
	return key_unknown(GROUP_SESSION, key, "the session", ret_text);
}

const ConfigOrigin *session_config_origin(const SessionConfig *c, const char *key)
{
	const Key *k = key_find_path(key);

	return k && c->origins && c->origins[k - keys].file ? &c->origins[k - keys] : NULL;
}

/* ---- checks over several keys ---- */

u64 session_config_minimum(u32 sub_buffers, u32 n_online, u32 n_possible)
{
	u64 ring = (u64)sub_buffers << ABI_MIN_SUB_SHIFT;
	u64 lines = ((u64)n_possible + SIDE_RINGS) << ABI_LINE_SHIFT;

	return n_online * ring + SIDE_RINGS * MAX(ring / SIDE_RING_PART, SIDE_RING_LEAST) + ABI_PAGE +
	       ALIGN_UP(lines, (u64)ABI_PAGE);
}

static u32 count_cpus(int which)
{
	long n = sysconf(which);

	return n > 0 ? (u32)n : 1;
}

int session_config_check_keys(const SessionConfig *c, char **ret_text, KeyPair *ret)
{
	const SnapshotConfig *s = &c->snapshot;
	u32 n_cpus = count_cpus(_SC_NPROCESSORS_ONLN);
	u64 least = session_config_minimum(c->sub_buffers, n_cpus, count_cpus(_SC_NPROCESSORS_CONF));
	char has[32], needs[32];

	if (c->memory < least) {
		*ret = (KeyPair){ key_find(GROUP_SESSION, "memory"),
				  key_find(GROUP_SESSION, "sub_buffers") };
		format_size(c->memory, has);
		format_size(ALIGN_UP(least, 1024), needs);
		return problem_text(ret_text,
				    "memory: \"%s\" is too little for sub_buffers = %u on %u processors; it "
				    "takes \"%s\" at least",
				    has, c->sub_buffers, n_cpus, needs);
	}
	if (c->policy == POLICY_BLOCK && c->io == IO_NONE) {
		*ret = (KeyPair){ key_find(GROUP_SESSION, "policy"), key_find(GROUP_SESSION, "io") };
		return problem_text(ret_text,
				    "policy: \"block\" needs a session that writes, since with io = \"none\" "
				    "nobody ever makes room; use io = \"auto\" or policy = \"discard\"");
	}
	if (c->pinned.n && c->io != IO_NONE) {
		*ret = (KeyPair){ key_find(GROUP_SESSION, "pinned"), key_find(GROUP_SESSION, "io") };
		return problem_text(ret_text,
				    "pinned: a session that writes continuously keeps every event in its traces, and has no "
				    "use for pinned ones; leave pinned out, or use io = \"none\"");
	}
	if (c->backing && c->io != IO_NONE) {
		*ret = (KeyPair){ key_find(GROUP_SESSION, "backing"), key_find(GROUP_SESSION, "io") };
		return problem_text(ret_text,
				    "backing: is for sessions that keep memory only; one with io = \"%s\" writes its events "
				    "to its traces, after flush_interval at the latest; leave backing out, or use io = "
				    "\"none\"",
				    io_name(c->io));
	}
	if (c->files.max_size && c->file_size > c->files.max_size) {
		*ret = (KeyPair){ key_find(GROUP_SESSION, "file_size"),
				  key_find(GROUP_SESSION, "output_size") };
		format_size(c->file_size, has);
		format_size(c->files.max_size, needs);
		return problem_text(ret_text,
				    "file_size: one file (\"%s\") may be larger than all traces together "
				    "(output_size is \"%s\")",
				    has, needs);
	}
	if (s->keep.max_size && s->max_snapshot_size > s->keep.max_size) {
		*ret = (KeyPair){ key_find(GROUP_SNAPSHOT, "max_snapshot_size"),
				  key_find(GROUP_SNAPSHOT, "max_size") };
		format_size(s->max_snapshot_size, has);
		format_size(s->keep.max_size, needs);
		return problem_text(ret_text,
				    "snapshot.max_snapshot_size: one snapshot (\"%s\") may be larger than "
				    "all of them together (snapshot.max_size is \"%s\")",
				    has, needs);
	}
	return 0;
}

int session_config_check_unused(const SessionConfig *c, char **ret_text, KeyPair *ret)
{
	/* not output_keep_free, flush_interval and block_timeout, which say only how, and have defaults anyway */
	const struct {
		const char *key;
		bool set;
	} unused[] = {
		{ "output", c->output != NULL },
		{ "file_size", c->file_size > 0 },
		{ "file_interval", c->file_interval_ns > 0 },
		{ "file_count", c->files.max_count > 0 },
		{ "output_size", c->files.max_size > 0 },
		{ "output_age", c->files.max_age_ns > 0 },
	};

	for (size_t i = 0; c->io == IO_NONE && i < ELEMENTSOF(unused); i++) {
		if (!unused[i].set)
			continue;
		*ret = (KeyPair){ key_find(GROUP_SESSION, unused[i].key), key_find(GROUP_SESSION, "io") };
		return problem_text(ret_text,
				    "%s: has no effect with io = \"none\", which writes nothing but "
				    "snapshots; use io = \"auto\", or leave %s out",
				    unused[i].key, unused[i].key);
	}
	return 0;
}

int session_config_check(const SessionConfig *c, char **ret_text)
{
	KeyPair pair;
	int r = session_config_check_keys(c, ret_text, &pair);

	return r < 0 ? r : session_config_check_unused(c, ret_text, &pair);
}

int daemon_config_check_keys(const DaemonConfig *d, char **ret_text, KeyPair *ret)
{
	char has[32], needs[32];

	if (d->max_memory_per_user > d->max_memory) {
		*ret = (KeyPair){ key_find(GROUP_DAEMON, "max_memory_per_user"),
				  key_find(GROUP_DAEMON, "max_memory") };
		format_size(d->max_memory_per_user, has);
		format_size(d->max_memory, needs);
		return problem_text(ret_text,
				    "daemon.max_memory_per_user: \"%s\" for one user is more than \"%s\" for "
				    "all (daemon.max_memory)",
				    has, needs);
	}
	if (d->max_producers_per_user > d->max_producers) {
		*ret = (KeyPair){ key_find(GROUP_DAEMON, "max_producers_per_user"),
				  key_find(GROUP_DAEMON, "max_producers") };
		return problem_text(ret_text,
				    "daemon.max_producers_per_user: %u for one user is more than %u for all "
				    "(daemon.max_producers)",
				    d->max_producers_per_user, d->max_producers);
	}
	return 0;
}
