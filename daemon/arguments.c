/* SPDX-License-Identifier: MIT */
/* tracerd's command line. */
#include "daemon/arguments.h"

#include <getopt.h>
#include <stdio.h>
#include <sysexits.h>

#include "conf/config.h"
#include "systemd/journal.h"

void arguments_clear(Arguments *a)
{
	free(a->runtime_directory);
	free(a->state_directory);
	free(a->own_config);
}

static int help(void)
{
	(void)printf("tracerd [OPTIONS]\n\n"
		     "The tracing session daemon: owns the rings that programs record into.\n\n"
		     "  --user                   serve a user: session bus, directories below\n"
		     "                           $XDG_RUNTIME_DIR and $XDG_STATE_HOME\n"
		     "  --config FILE            read this file only\n"
		     "  --check-config [FILE]    check the configuration, then exit (78: not good)\n"
		     "  --dump-config [FILE]     every setting that is in effect, and where it was made\n"
		     "  --help-config            every key of the configuration, with its default\n"
		     "  --runtime-directory DIR  for the control page and the socket\n"
		     "                           (/run/tracer)\n"
		     "  --state-directory DIR    for snapshots (/var/lib/tracer)\n"
		     "  --address ADDRESS        of the bus to serve\n"
		     "  --no-bus                 serve no bus at all\n"
		     "  --version\n"
		     "  --help\n\n"
		     "See tracerd(8), tracer.conf(5), tracerctl(1).\n");
	return 0;
}

static char *path_join(const char *directory, const char *name)
{
	char *path;

	return asprintf(&path, "%s/%s", directory, name) < 0 ? NULL : path;
}

/* Paths are told to others (journal, D-Bus), whose working directory is another. */
static int path_absolute(char **path)
{
	_cleanup_free_ char *here = NULL;
	char *joined;

	if ((*path)[0] == '/')
		return 0;
	here = get_current_dir_name();
	joined = here ? path_join(here, *path) : NULL;
	if (!joined)
		return -ENOMEM;
	free(*path);
	*path = joined;
	return 0;
}

/* Where nothing was said: the unit's directories if it says so, else the system's or the user's own. */
int arguments_default(Arguments *a)
{
	const char *runtime = getenv("RUNTIME_DIRECTORY"), *state = getenv("STATE_DIRECTORY");
	const char *xdg_runtime = getenv("XDG_RUNTIME_DIR"), *xdg_state = getenv("XDG_STATE_HOME");
	const char *home = getenv("HOME");

	if (!a->runtime_directory && runtime && runtime[0] == '/')
		a->runtime_directory = strdup(runtime);
	else if (!a->runtime_directory && !a->user)
		a->runtime_directory = strdup("/run/tracer");
	else if (!a->runtime_directory && xdg_runtime && xdg_runtime[0] == '/')
		a->runtime_directory = path_join(xdg_runtime, "tracer");
	if (!a->state_directory && state && state[0] == '/')
		a->state_directory = strdup(state);
	else if (!a->state_directory && !a->user)
		a->state_directory = strdup("/var/lib/tracer");
	else if (!a->state_directory && xdg_state && xdg_state[0] == '/')
		a->state_directory = path_join(xdg_state, "tracer");
	else if (!a->state_directory && home && home[0] == '/')
		a->state_directory = path_join(home, ".local/state/tracer");
	if (a->runtime_directory && a->state_directory)
		return path_absolute(&a->runtime_directory) < 0 ||
				       path_absolute(&a->state_directory) < 0 ?
			       -ENOMEM :
			       0;
	log_error("no %s directory: give --%s-directory, or set %s",
		  a->runtime_directory ? "state" : "runtime", a->runtime_directory ? "state" : "runtime",
		  a->runtime_directory ? "HOME" : "XDG_RUNTIME_DIR");
	return -EINVAL;
}

/* A user's tracerd reads the user's files: the sessions of the system's are that one's. */
static void arguments_config(Arguments *a)
{
	const char *xdg = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
	size_t n = 0;

	if (a->user && xdg && xdg[0] == '/')
		a->own_config = path_join(xdg, "tracer");
	else if (a->user && home && home[0] == '/')
		a->own_config = path_join(home, ".config/tracer");
	if (a->own_config) {
		a->config_directories[n++] = a->own_config;
	} else {
		for (; config_default_directories[n] && n < ELEMENTSOF(a->config_directories) - 1; n++)
			a->config_directories[n] = config_default_directories[n];
	}
	a->config_directories[n] = NULL;
}

int arguments_parse(Arguments *a, int argc, char **argv)
{
	enum { USER = 256, CONFIG, CHECK, DUMP, HELP_CONFIG, RUNTIME, STATE, ADDRESS, NO_BUS, VERSION };
	static const struct option options[] = {
		{ "user", no_argument, NULL, USER },
		{ "config", required_argument, NULL, CONFIG },
		{ "check-config", no_argument, NULL, CHECK },
		{ "dump-config", no_argument, NULL, DUMP },
		{ "help-config", no_argument, NULL, HELP_CONFIG },
		{ "runtime-directory", required_argument, NULL, RUNTIME },
		{ "state-directory", required_argument, NULL, STATE },
		{ "address", required_argument, NULL, ADDRESS },
		{ "no-bus", no_argument, NULL, NO_BUS },
		{ "version", no_argument, NULL, VERSION },
		{ "help", no_argument, NULL, 'h' },
		{},
	};
	int c;

	*a = (Arguments){ .bus = true };
	while ((c = getopt_long(argc, argv, "h", options, NULL)) >= 0) {
		switch (c) {
		case USER:
			a->user = true;
			break;
		case CONFIG:
			a->config_file = optarg;
			break;
		case CHECK:
			a->check = true;
			break;
		case DUMP:
			a->dump = true;
			break;
		case HELP_CONFIG:
			a->help_config = true;
			break;
		case RUNTIME:
			free(a->runtime_directory);
			a->runtime_directory = strdup(optarg);
			break;
		case STATE:
			free(a->state_directory);
			a->state_directory = strdup(optarg);
			break;
		case ADDRESS:
			a->address = optarg;
			break;
		case NO_BUS:
			a->bus = false;
			break;
		case VERSION:
			(void)printf("tracerd %s\n", PROJECT_VERSION);
			return 1;
		case 'h':
			return 1 + help();
		default: /* said by getopt_long() */
			(void)fprintf(stderr, "tracerd: see --help\n");
			return 1 + EX_USAGE;
		}
	}
	if ((a->check || a->dump) && optind + 1 == argc) {
		a->check_file = argv[optind];
	} else if (optind < argc) {
		(void)fprintf(stderr, "tracerd: too many arguments: '%s'; see --help\n", argv[optind]);
		return 1 + EX_USAGE;
	}
	arguments_config(a);
	return 0;
}

