/* SPDX-License-Identifier: MIT */
/* The command line: options, verbs, help. */
#include "dbus/tracerctl.h"

#include <getopt.h>
#include <limits.h>
#include <math.h>

#include "conf/suggest.h"

static const struct {
	const char *name;
	Verb run;
	int min, max; /* arguments */
	const char *arguments, *text;
} verbs[] = {
	{ "list", verb_list, 0, 0, "", "All sessions: state, memory, what they recorded and lost" },
	{ "show", verb_show, 1, INT_MAX, "NAME...", "Everything about a session" },
	{ "create", verb_create, 1, INT_MAX, "NAME [KEY=VALUE...]", "Make a session (keys: tracer.conf(5))" },
	{ "set", verb_set, 2, INT_MAX, "NAME KEY=VALUE...", "Change settings of a session, also while it runs" },
	{ "start", verb_start, 1, INT_MAX, "NAME...", "Begin to record" },
	{ "stop", verb_stop, 1, INT_MAX, "NAME...", "End recording; returns when all is written" },
	{ "snapshot", verb_snapshot, 0, INT_MAX, "NAME...", "Save what the rings hold; prints the directory" },
	{ "rotate", verb_rotate, 1, INT_MAX, "NAME...", "End the present trace, begin another; prints the directory" },
	{ "clear", verb_clear, 1, INT_MAX, "NAME...", "Empty the rings" },
	{ "remove", verb_remove, 1, INT_MAX, "NAME...", "Remove a session; its snapshots and traces stay" },
	{ "set-events", verb_set_events, 2, INT_MAX, "NAME PATTERN...", "Record other events from now on" },
	{ "producers", verb_producers, 0, 0, "", "Programs that are attached" },
	{ "events", verb_events, 0, 0, "", "Kinds of events that these programs announced" },
	{ "reload", verb_reload, 0, 0, "", "Read the configuration again" },
	{ "watch", verb_watch, 0, 0, "", "Rates, fill and losses, every second" },
	{ "view", verb_view, 1, INT_MAX, "PATH|NAME [ARG...]", "Show a trace, or a session's last one, with babeltrace2" },
	{ "extract", verb_extract, 2, 2, "PATH OUTPUT", "Make a trace of a range of time of another" },
	{ "recover", verb_recover, 1, 2, "DIRECTORY [OUTPUT]", "Make a trace of what a machine that died left of its rings" },
};

static void help(void)
{
	(void)printf("tracerctl [OPTIONS...] VERB [ARGUMENTS...]\n\n"
		     "Control the flight recorder, tracerd.\n\n");
	for (size_t i = 0; i < ELEMENTSOF(verbs); i++) {
		int n = printf("  %s %s", verbs[i].name, verbs[i].arguments);

		(void)printf("%*s%s\n", n < 34 ? 34 - n : 2, "", verbs[i].text);
	}
	(void)printf("\nOptions:\n"
		     "      --user              the tracerd of this user, on the session bus\n"
		     "      --address=ADDRESS   the one on the bus at this address\n"
		     "      --json[=MODE]       as JSON: pretty, short, off\n"
		     "      --no-legend         without titles and totals\n"
		     "      --no-ask-password   do not ask for one\n"
		     "      --start             create: and start it\n"
		     "      --all               snapshot: every session that runs\n"
		     "      --unit=UNIT         snapshot: sessions that recorded it, as one that failed\n"
		     "      --reason=TEXT       snapshot: why, for its metadata\n"
		     "      --duration=TIME     snapshot: only the newest so much, as in 10s\n"
		     "      --max-size=SIZE     snapshot: only the newest so many bytes, as in 16M\n"
		     "      --no-wait           snapshot, stop: do not wait until it is complete\n"
		     "      --from=TIME         extract: events from then on, as in 16:01:02.5, +5s, -10s\n"
		     "      --to=TIME           extract: ... up to then\n"
		     "  -n, --count=N           watch: so many times, then end\n"
		     "      --interval=SECONDS  watch: this long between two\n"
		     "  -h, --help              this\n"
		     "      --version\n\n"
		     "See tracerctl(1).\n");
}

enum {
	ARG_USER = 256, ARG_ADDRESS, ARG_JSON, ARG_NO_LEGEND, ARG_NO_ASK_PASSWORD, ARG_START, ARG_ALL, ARG_UNIT, ARG_REASON,
	ARG_DURATION, ARG_MAX_SIZE, ARG_NO_WAIT, ARG_INTERVAL, ARG_FROM, ARG_TO, ARG_VERSION,
};

static const struct option long_options[] = {
	{ "user", no_argument, NULL, ARG_USER },
	{ "address", required_argument, NULL, ARG_ADDRESS },
	{ "json", optional_argument, NULL, ARG_JSON },
	{ "no-legend", no_argument, NULL, ARG_NO_LEGEND },
	{ "no-ask-password", no_argument, NULL, ARG_NO_ASK_PASSWORD },
	{ "start", no_argument, NULL, ARG_START },
	{ "all", no_argument, NULL, ARG_ALL },
	{ "unit", required_argument, NULL, ARG_UNIT },
	{ "reason", required_argument, NULL, ARG_REASON },
	{ "duration", required_argument, NULL, ARG_DURATION },
	{ "max-size", required_argument, NULL, ARG_MAX_SIZE },
	{ "no-wait", no_argument, NULL, ARG_NO_WAIT },
	{ "count", required_argument, NULL, 'n' },
	{ "interval", required_argument, NULL, ARG_INTERVAL },
	{ "from", required_argument, NULL, ARG_FROM },
	{ "to", required_argument, NULL, ARG_TO },
	{ "help", no_argument, NULL, 'h' },
	{ "version", no_argument, NULL, ARG_VERSION },
	{ NULL, 0, NULL, 0 },
};

/* Which verbs an option is for; one that would do nothing is a mistake to be told. */
static const struct {
	int option;
	const char *verbs; /* between blanks */
} option_verbs[] = {
	{ ARG_START, " create " },	    { ARG_ALL, " snapshot " },	    { ARG_REASON, " snapshot " },
	{ ARG_UNIT, " snapshot " },
	{ ARG_DURATION, " snapshot " },	    { ARG_MAX_SIZE, " snapshot " }, { ARG_NO_WAIT, " snapshot stop " },
	{ 'n', " watch " },		    { ARG_INTERVAL, " watch " },
	{ ARG_FROM, " extract " },	    { ARG_TO, " extract " },
	{ ARG_JSON, " list show producers events snapshot rotate watch " },
};

static const char *option_name(int option)
{
	for (const struct option *l = long_options; l->name; l++)
		if (l->val == option)
			return l->name;
	return "";
}

static bool option_fits(int option, const char *verb)
{
	char word[64];

	(void)snprintf(word, sizeof(word), " %s ", verb);
	for (size_t i = 0; i < ELEMENTSOF(option_verbs); i++)
		if (option_verbs[i].option == option)
			return strstr(option_verbs[i].verbs, word) != NULL;
	return true;
}

static bool number_parse(const char *text, u64 *ret)
{
	char *end;

	errno = 0;
	*ret = strtoull(text, &end, 10);
	return errno == 0 && end != text && *end == 0 && *text != '-';
}

static bool seconds_parse(const char *text, u64 *ret_usec)
{
	char *end;
	double s = strtod(text, &end);

	if (end == text || *end || !isfinite(s) || s < 0.01 || s > 86400)
		return false;
	*ret_usec = (u64)(s * 1e6);
	return true;
}

/* 0, or an exit status + 1 */
static int option_set(Options *o, int option, const char *argument)
{
	switch (option) {
	case ARG_USER:
		o->user = true;
		return 0;
	case ARG_ADDRESS:
		o->address = argument;
		return 0;
	case ARG_JSON:
		o->json = !argument || strcmp(argument, "off") != 0;
		o->json_pretty = argument ? strcmp(argument, "pretty") == 0 : isatty(STDOUT_FILENO);
		if (o->json && argument && !o->json_pretty && strcmp(argument, "short") != 0)
			return failed(STATUS_USAGE, "--json=%s: there are pretty, short and off", argument) + 1;
		return 0;
	case ARG_NO_LEGEND:
		o->no_legend = true;
		return 0;
	case ARG_NO_ASK_PASSWORD:
		o->no_ask_password = true;
		return 0;
	case ARG_START:
		o->start = true;
		return 0;
	case ARG_ALL:
		o->all = true;
		return 0;
	case ARG_UNIT:
		o->unit = argument;
		return 0;
	case ARG_REASON:
		o->reason = argument;
		return 0;
	case ARG_DURATION:
		o->duration = argument;
		return 0;
	case ARG_MAX_SIZE:
		o->max_size = argument;
		return 0;
	case ARG_FROM:
		o->from = argument;
		return 0;
	case ARG_TO:
		o->to = argument;
		return 0;
	case ARG_NO_WAIT:
		o->no_wait = true;
		return 0;
	case 'n':
		if (!number_parse(argument, &o->count) || o->count == 0)
			return failed(STATUS_USAGE, "--count=%s: a number from 1 on", argument) + 1;
		return 0;
	case ARG_INTERVAL:
		if (!seconds_parse(argument, &o->interval_usec))
			return failed(STATUS_USAGE, "--interval=%s: seconds, from 0.01 to 86400", argument) + 1;
		return 0;
	case 'h':
		help();
		return STATUS_OK + 1;
	case ARG_VERSION:
		(void)printf("tracerctl " PROJECT_VERSION "\n");
		return STATUS_OK + 1;
	default:
		(void)fprintf(stderr, "See tracerctl --help.\n");
		return STATUS_USAGE + 1;
	}
}

static const char *verb_nearest(const char *word)
{
	const char *names[ELEMENTSOF(verbs)];

	for (size_t i = 0; i < ELEMENTSOF(verbs); i++)
		names[i] = verbs[i].name;
	return suggest_nearest(word, names, ELEMENTSOF(names));
}

static int verb_run(const Options *o, const int *seen, size_t n_seen, int argc, char **argv)
{
	const char *near;

	for (size_t i = 0; i < ELEMENTSOF(verbs); i++) {
		if (strcmp(verbs[i].name, argv[0]) != 0)
			continue;
		if (argc - 1 < verbs[i].min || argc - 1 > verbs[i].max)
			return failed(STATUS_USAGE, "%s arguments: tracerctl %s %s",
				      argc - 1 < verbs[i].min ? "Too few" : "Too many", argv[0],
				      verbs[i].arguments);
		for (size_t k = 0; k < n_seen; k++)
			if (!option_fits(seen[k], argv[0]))
				return failed(STATUS_USAGE, "--%s has no meaning for %s: see tracerctl --help",
					      option_name(seen[k]), argv[0]);
		return verbs[i].run(o, argc - 1, argv + 1);
	}
	near = verb_nearest(argv[0]);
	if (near)
		return failed(STATUS_USAGE, "There is no verb '%s'; did you mean '%s'? See tracerctl --help", argv[0], near);
	return failed(STATUS_USAGE, "There is no verb '%s': see tracerctl --help", argv[0]);
}

int main(int argc, char **argv)
{
	Options o = { .interval_usec = 1000000 };
	static char list[] = "list";
	char *fallback[] = { list, NULL };
	int seen[64], option, status;
	size_t n_seen = 0;

	/* What follows -- is babeltrace2's: "tracerctl view flight -- --clock-gmt" */
	while ((option = getopt_long(argc, argv, "hn:", long_options, NULL)) >= 0) {
		status = option_set(&o, option, optarg);
		if (status > 0)
			return status - 1;
		if (n_seen < ELEMENTSOF(seen))
			seen[n_seen++] = option;
	}
	if (o.user && o.address)
		return failed(STATUS_USAGE, "Either --user or --address, not both");
	if (optind >= argc)
		status = verb_run(&o, seen, n_seen, 1, fallback);
	else
		status = verb_run(&o, seen, n_seen, argc - optind, argv + optind);
	agent_stop();
	if ((fflush(stdout) != 0 || ferror(stdout)) && status == STATUS_OK)
		return failed(STATUS_FAILED, "Could not write: %s", strerror(errno));
	return status;
}
