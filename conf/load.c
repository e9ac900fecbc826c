/* SPDX-License-Identifier: MIT */
#include "conf/load.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "conf/dropin.h"
#include "conf/parse.h"
#include "conf/problem.h"
#include "conf/session.h"
#include "conf/field.h"
#include "conf/setting.h"
#include "lib/abi.h"

/* The whole of a regular file, or a problem. *ret_text stays NULL with a problem. 0 or -ENOMEM. */
static int read_file(const char *path, char **ret_text, size_t *ret_n, ConfigProblems *problems)
{
	_cleanup_close_ int fd = -1;
	_cleanup_free_ char *text = NULL;
	struct stat st;
	size_t n = 0;

	/* O_NONBLOCK: a FIFO in the place of a file must not hold up the daemon */
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (fd < 0 || fstat(fd, &st) < 0)
		return problem_add(problems, path, 0, false, "cannot be opened: %s", strerror(errno));
	if (!S_ISREG(st.st_mode))
		return problem_add(problems, path, 0, false, "is not a regular file, but %s",
				   S_ISDIR(st.st_mode)	? "a directory"
				   : S_ISFIFO(st.st_mode) ? "a FIFO"
							  : "a device or a socket");
	/* One byte more than allowed, so that a file that grows meanwhile shows it. */
	text = malloc(CONFIG_FILE_MAX + 1);
	if (!text)
		return -ENOMEM;
	while (n <= CONFIG_FILE_MAX) {
		ssize_t got = read(fd, text + n, CONFIG_FILE_MAX + 1 - n);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return problem_add(problems, path, 0, false, "cannot be read: %s",
					   strerror(errno));
		if (got == 0)
			break;
		n += (size_t)got;
	}
	if (n > CONFIG_FILE_MAX)
		return problem_add(problems, path, 0, false,
				   "is larger than 1 MiB; this cannot be a configuration file");
	*ret_text = steal_ptr(text);
	*ret_n = n;
	return 0;
}

static int load_file(const char *path, Config **config, ConfigProblems *problems)
{
	_cleanup_free_ char *text = NULL;
	size_t n = 0;
	int r = read_file(path, &text, &n, problems);

	if (r < 0 || !text)
		return r;
	return parse_text(path, text, n, config, problems);
}

/* ---- what can be said only when all is read ---- */

static const ConfigOrigin *origin_of(const ConfigOrigin *origins, const Key *k)
{
	return k && origins[k - keys].file ? &origins[k - keys] : NULL;
}

/* Said of the file that set the first key, or if that has its default, the second, or else `file`; where both were set,
 * of the other's place as well, which may be in another file. */
static int complain_pair(ConfigProblems *problems, const ConfigOrigin *origins, const KeyPair *pair,
			 const char *file, int line, bool warning, const char *where, char *text)
{
	_cleanup_free_ char *owned = text;
	const ConfigOrigin *first = origin_of(origins, pair->first),
			   *second = origin_of(origins, pair->second), *o = first ? first : second;
	char path[64];

	if (o) {
		file = o->file;
		line = o->line;
	}
	if (first && second)
		return problem_add(problems, file, line, warning, "%s%s (%s is set at %s:%d)", where, owned,
				   key_path(pair->second, path), second->file, second->line);
	return problem_add(problems, file, line, warning, "%s%s", where, owned);
}

/* Who lowers the limit for all does not have to lower our default for each as well. */
static void fit_defaults(DaemonConfig *d)
{
	if (!d->origins[key_find(GROUP_DAEMON, "max_memory_per_user") - keys].file)
		d->max_memory_per_user = MIN(d->max_memory_per_user, d->max_memory);
	if (!d->origins[key_find(GROUP_DAEMON, "max_producers_per_user") - keys].file)
		d->max_producers_per_user = MIN(d->max_producers_per_user, d->max_producers);
}

static int check_daemon(Config *c, ConfigProblems *problems)
{
	KeyPair pair;
	char *text = NULL;
	int r;

	fit_defaults(&c->daemon);
	r = daemon_config_check_keys(&c->daemon, &text, &pair);
	if (r != -EINVAL)
		return r;
	r = complain_pair(problems, c->daemon.origins, &pair, NULL, 0, false, "", text);
	if (r < 0)
		return r;
	daemon_config_deinit(&c->daemon);
	r = daemon_config_init(&c->daemon);
	return r < 0 ? r : problem_add(problems, NULL, 0, true,
				       "all of the daemon's settings are the defaults, since those in the "
				       "files do not fit one another");
}

/* Each removes the oldest traces of its output, and could not tell those of another. By the name: what links do, nobody
 * knows before a session starts. */
static const SessionConfig *same_output(const Config *c, size_t i)
{
	const SessionConfig *s = c->sessions[i];

	for (size_t j = 0; s->io != IO_NONE && s->output && j < i; j++)
		if (c->sessions[j]->io != IO_NONE && c->sessions[j]->output &&
		    strcmp(c->sessions[j]->output, s->output) == 0)
			return c->sessions[j];
	return NULL;
}

static int check_session(Config *c, size_t i, ConfigProblems *problems, bool *ret_bad)
{
	SessionConfig *s = c->sessions[i];
	const SessionConfig *other;
	char where[128], has[32], limit[32];
	char *text = NULL;
	KeyPair pair = { NULL };
	bool warning = false;
	int r = session_config_check_keys(s, &text, &pair);

	*ret_bad = false;
	if (r == 0 && s->memory > c->daemon.max_memory) {
		format_size(s->memory, has);
		format_size(c->daemon.max_memory, limit);
		pair.first = key_find(GROUP_SESSION, "memory");
		r = problem_text(&text,
				 "memory: \"%s\" is more than all sessions together may have, \"%s\" "
				 "(daemon.max_memory)",
				 has, limit);
	}
	other = same_output(c, i);
	if (r == 0 && other) {
		pair = (KeyPair){ key_find(GROUP_SESSION, "output") };
		r = problem_text(&text,
				 "output: session \"%s\" writes to \"%s\" already, and would remove this one's "
				 "traces as its own; give each a directory",
				 other->name, s->output);
	}
	if (r == 0) {
		/* without io in any file it was forgotten; with it, a drop-in may have turned off what another sets up */
		r = session_config_check_unused(s, &text, &pair);
		warning = r == -EINVAL && origin_of(s->origins, pair.second);
	}
	if (r != -EINVAL)
		return r;
	*ret_bad = !warning;
	(void)snprintf(where, sizeof(where), "session \"%s\": ", s->name);
	r = complain_pair(problems, s->origins, &pair, s->file, s->line, warning, where, text);
	return r < 0 || warning ? r : problem_add(problems, s->file, s->line, true,
				       "session \"%s\" is left out, since it has errors", s->name);
}

static int check_all(Config *c, ConfigProblems *problems)
{
	size_t n_autostart = 0;
	int r = check_daemon(c, problems);

	for (size_t i = 0; r == 0 && i < c->n_sessions;) {
		bool bad;

		r = check_session(c, i, problems, &bad);
		if (r < 0)
			return r;
		if (bad) {
			config_remove(c, i);
			continue;
		}
		n_autostart += c->sessions[i++]->autostart;
	}
	if (r == 0 && n_autostart > ABI_MAX_SLOTS)
		r = problem_add(problems, NULL, 0, false,
				"%zu sessions have autostart = true, but only %d can run at one time",
				n_autostart, ABI_MAX_SLOTS);
	return r;
}

static int finish(Config **config, Config **ret, ConfigProblems *problems, size_t first)
{
	int r = check_all(*config, problems);

	if (r < 0)
		return r;
	*ret = steal_ptr(*config);
	return problem_error_since(problems, first) ? -EINVAL : 0;
}

int config_load(const char *const *directories, Config **ret, ConfigProblems *problems)
{
	_cleanup_(config_freep) Config *c = NULL;
	_cleanup_(strings_clear) Strings files = { 0 };
	size_t first = problems->n;
	int r = config_new(&c);

	if (r == 0)
		r = dropin_list(directories ? directories : config_default_directories, &files,
				problems);
	for (size_t i = 0; r == 0 && i < files.n; i++)
		r = load_file(files.v[i], &c, problems);
	return r < 0 ? r : finish(&c, ret, problems, first);
}

int config_load_file(const char *file, Config **ret, ConfigProblems *problems)
{
	_cleanup_(config_freep) Config *c = NULL;
	size_t first = problems->n;
	int r = config_new(&c);

	if (r == 0)
		r = load_file(file, &c, problems);
	return r < 0 ? r : finish(&c, ret, problems, first);
}

int config_load_text(const char *name, const char *text, size_t n, Config **ret,
		     ConfigProblems *problems)
{
	_cleanup_(config_freep) Config *c = NULL;
	size_t first = problems->n;
	int r = config_new(&c);

	if (r == 0)
		r = parse_text(name, text, n, &c, problems);
	return r < 0 ? r : finish(&c, ret, problems, first);
}
