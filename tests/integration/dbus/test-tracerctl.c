/* SPDX-License-Identifier: MIT */
/* Every verb of tracerctl against the D-Bus objects, with a manager that the test controls. */
#include "tests/integration/dbus/private-bus.h"

#include <glib/gstdio.h>

typedef struct {
	PrivateBus *b;
	char *address;
} Desk;

static void desk_open(Desk *d, const void *unused)
{
	d->b = private_bus_new(NULL);
	private_bus_start(d->b);
	private_bus_serve(d->b);
	fake_snapshots_at_once(d->b->manager, d->b->event);
	d->address = g_strdup_printf("--address=%s", d->b->address);
}

static void desk_close(Desk *d, const void *unused)
{
	private_bus_free(d->b);
	g_free(d->address);
}

/* The words of a command line; no quoting. */
static Ran ctl(Desk *d, const char *line)
{
	char **words = g_strsplit(line, " ", -1);
	const char *argv[32] = { TRACERCTL, d->address };
	size_t n = 2;
	Ran r;

	for (char **w = words; *w && n < 31; w++)
		argv[n++] = *w;
	r = private_bus_run(d->b, NULL, argv);
	g_strfreev(words);
	return r;
}

static char *ctl_fine(Desk *d, const char *line)
{
	Ran r = ctl(d, line);
	char *out;

	if (r.status != 0 || *r.err)
		g_error("tracerctl %s: %d, '%s'", line, r.status, r.err);
	out = g_strdup(r.out);
	ran_clear(&r);
	return out;
}

static void fine(Desk *d, const char *line, const char *expected)
{
	char *out = ctl_fine(d, line);

	g_assert_cmpstr(out, ==, expected);
	g_free(out);
}

static void holds(Desk *d, const char *line, const char *part)
{
	char *out = ctl_fine(d, line);

	if (!strstr(out, part))
		g_error("tracerctl %s: '%s' is not in '%s'", line, part, out);
	g_free(out);
}

static void fails(Desk *d, const char *line, int status, const char *part)
{
	Ran r = ctl(d, line);

	if (r.status != status || !strstr(r.err, part))
		g_error("tracerctl %s: %d (not %d), '%s' (not '%s')", line, r.status, status, r.err, part);
	g_assert_cmpstr(r.out, ==, "");
	ran_clear(&r);
}

/* The output is JSON in the eyes of somebody else, this expression on `j` is true, and both forms say the same. */
static void json_check(Desk *d, const char *pretty, const char *brief, const char *expression)
{
	char *both = g_strconcat(pretty, "\001", brief, NULL);
	char *program = g_strdup_printf("import json,sys; j,k=map(json.loads, sys.stdin.read().split(chr(1))); "
					"sys.exit(not (j == k and (%s)))",
					expression);
	const char *argv[] = { "python3", "-c", program, NULL };
	Ran r = private_bus_run(d->b, both, argv);

	if (r.status == 126)
		g_test_message("no python3 to check JSON with");
	else if (r.status != 0)
		g_error("not %s: %s%s%s", expression, pretty, brief, r.err);
	g_assert_cmpuint(strcspn(brief, "\n") + 1, ==, strlen(brief)); /* one line */
	ran_clear(&r);
	g_free(program);
	g_free(both);
}

static void json(Desk *d, const char *line, const char *expression)
{
	char *pretty_line = g_strdup_printf("--json=pretty %s", line), *brief_line = g_strdup_printf("--json=short %s", line);
	char *pretty = ctl_fine(d, pretty_line), *brief = ctl_fine(d, brief_line);

	json_check(d, pretty, brief, expression);
	g_free(pretty_line);
	g_free(brief_line);
	g_free(pretty);
	g_free(brief);
}

static void session_life(Desk *d, const void *unused)
{
	SessionInfo info;

	fine(d, "create flight memory=4M events=shop:*,libc:* snapshot.max_count=3 autostart=yes", "");
	session_info(manager_find(d->b->manager, "flight"), &info);
	g_assert_cmpuint(info.config->memory, ==, 4 << 20);
	g_assert_cmpuint(info.config->events.n, ==, 2);
	g_assert_cmpuint(info.config->snapshot.keep.max_count, ==, 3);
	g_assert_true(info.config->autostart);
	fails(d, "create flight", 1, "already");
	fine(d, "start flight", "");
	fails(d, "start flight", 1, "running");
	fine(d, "snapshot flight --reason=why --duration=10s --max-size=1M",
	     "/var/lib/tracer/snapshots/flight/1-manual\n");
	g_assert_cmpstr(fake_snapshot_reason(d->b->manager), ==, "why");
	g_assert_cmpuint(fake_snapshot_options(d->b->manager).duration_ns, ==, 10 * NSEC_PER_SEC);
	g_assert_cmpuint(fake_snapshot_options(d->b->manager).max_size, ==, 1 << 20);
	fine(d, "snapshot flight --no-wait", "/var/lib/tracer/snapshots/flight/2-manual\n");
	fine(d, "snapshot --all", "/var/lib/tracer/snapshots/flight/3-manual\n");
	fine(d, "snapshot --unit=nginx.service --reason=why", "/nginx.service/why\n");
	fine(d, "snapshot --all --duration=1s", "/var/lib/tracer/snapshots/flight/4-manual\n");
	holds(d, "snapshot flight --json=short",
	      "[{\"session\":\"flight\",\"path\":\"/var/lib/tracer/snapshots/flight/5-manual\"}]\n");
	fine(d, "set-events flight a:* b", "");
	g_assert_cmpuint(info.config->events.n, ==, 2);
	g_assert_cmpstr(info.config->events.v[0], ==, "a:*");
	fake_session_info(manager_find(d->b->manager, "flight"))->recorded = 5;
	fine(d, "clear flight", "");
	g_assert_cmpuint(fake_session_info(manager_find(d->b->manager, "flight"))->recorded, ==, 0);
	fine(d, "stop flight", "");
	fails(d, "snapshot flight", 1, "not running");
	fine(d, "remove flight", "");
	fails(d, "remove flight", 1, "no session 'flight'");
	fine(d, "create --start now", "");
	session_info(manager_find(d->b->manager, "now"), &info);
	g_assert_cmpstr(info.state, ==, "running");
	fine(d, "reload", "");
	g_assert_cmpuint(fake_n_reloads(d->b->manager), ==, 1);
}

static void several(Desk *d, const void *unused)
{
	static const char *const all[] = { "snapshot --all", "snapshot --all --duration=1s" };
	char *expected;
	Ran r;

	fake_session_add(d->b->manager, "a");
	fake_session_add(d->b->manager, "b");
	/* the others are done even if one fails */
	fails(d, "start a x b", 1, "no session 'x'");
	json(d, "list", "[s['state'] for s in j] == ['running', 'running']");
	fails(d, "clear x y", 1, "no session 'y'");

	/* one of all that cannot be saved is said, beside what can; one that is empty is not, unless it is all there is */
	fake_fail_next(d->b->manager, FAILURE_BUSY, "session 'a': not now", -EBUSY);
	r = ctl(d, "snapshot --all");
	g_assert_cmpint(r.status, ==, 1);
	g_assert_cmpstr(r.out, ==, "/var/lib/tracer/snapshots/b/1-manual\n");
	g_assert_nonnull(strstr(r.err, "session 'a': not now"));
	g_assert_null(strstr(r.err, "error:"));
	ran_clear(&r);
	for (size_t i = 0; i < G_N_ELEMENTS(all); i++) {
		fake_fail_next(d->b->manager, FAILURE_NOTHING, "record first", -ENODATA);
		expected = g_strdup_printf("/var/lib/tracer/snapshots/b/%zu-manual\n", i + 2);
		fine(d, all[i], expected);
		g_free(expected);
	}
	fine(d, "stop b", "");
	for (size_t i = 0; i < G_N_ELEMENTS(all); i++) {
		fake_fail_next(d->b->manager, FAILURE_NOTHING, "record first: nothing", -ENODATA);
		fails(d, all[i], 1, "nothing");
	}
	fake_fail_next(d->b->manager, FAILURE_NOTHING, "record first", -ENODATA);
	fails(d, "snapshot a", 1, "record first");
	fine(d, "stop a", "");
	fine(d, "remove a b", "");
}

static void looks(Desk *d, const void *unused)
{
	SessionInfo *info = fake_session_info(fake_session_add(d->b->manager, "flight"));
	char *out;

	info->state = "running";
	info->memory = 16 << 20;
	info->recorded = 18446744073709551615u;
	info->discarded = 7;
	info->lost[1] = 7;
	info->fill = 0.5;
	fake_session_add(d->b->manager, "a b");
	fake_producer_add(d->b->manager, 4711, 0, "evil\033[2J", "x.service");
	fake_event_add(d->b->manager, "shop", "order", 6);
	fine(d, "--no-legend",
	     "a b     stopped  overwrite  -     0B  0                     0  0  0  -\n"
	     "flight  running  overwrite  -  16.0M  0  18446744073709551615  7  0  -\n");
	holds(d, "list", "NAME    STATE    POLICY");
	holds(d, "list", "\n2 sessions.\n");
	json(d, "list", "len(j) == 2 and j[1]['recorded'] == 18446744073709551615 and j[1]['lost']['held'] == 7 and "
			"j[1]['last_snapshot'] == '' and j[1]['fill'] == 0.5 and j[0]['name'] == 'a b'");
	holds(d, "show flight", "\n      Memory: 16.0M\n");
	holds(d, "show flight", "\n        Lost: full 0, held 7,");
	holds(d, "show flight", "\n              memory 16M\n");
	json(d, "show flight", "j['name'] == 'flight' and j['settings']['memory'] == '16M' and "
			       "j['settings']['snapshot.on_crash'] is True");
	json(d, "show flight flight", "[s['name'] for s in j] == ['flight', 'flight']");
	fails(d, "show x", 1, "no session 'x'");
	/* a program cannot speak to the terminal */
	out = ctl_fine(d, "producers");
	g_assert_nonnull(strstr(out, "4711  root  evil?[2J  x.service  /usr/sbin/ngi?nx  00ff\n"));
	g_free(out);
	json(d, "producers", "[{k: p[k] for k in ('pid', 'uid', 'command', 'unit', 'exe', 'build_id', 'start_time')} for p in j]"
	     " == [{'pid': 4711, 'uid': 0, 'command': 'evil?[2J', 'unit': 'x.service', 'exe': '/usr/sbin/ngi?nx',"
	     " 'build_id': '00ff', 'start_time': 1700000000000001}]");
	holds(d, "events", "shop:order  info\n");
	json(d, "events", "j == [{'provider': 'shop', 'event': 'order', 'level': 'info'}]");
}

/* A session that writes: its verbs, and how it looks. */
static void writes(Desk *d, const void *unused)
{
	Failure full = { .kind = FAILURE_NO_SPACE, .text = "the disk is full: make room, then start it again" };
	SessionInfo *info, seen;
	Session *s;
	Ran r;

	fine(d, "create audit --start policy=discard io=auto", "");
	s = manager_find(d->b->manager, "audit");
	info = fake_session_info(s);
	fine(d, "rotate audit", "/var/lib/tracer/traces/audit/1-trace\n");
	holds(d, "rotate audit --json=short",
	      "[{\"session\":\"audit\",\"path\":\"/var/lib/tracer/traces/audit/2-trace\"}]\n");
	fake_session_add(d->b->manager, "flight");
	r = ctl(d, "rotate flight audit");
	g_assert_cmpint(r.status, ==, 1);
	g_assert_nonnull(strstr(r.err, "snapshot"));
	g_assert_cmpstr(r.out, ==, "/var/lib/tracer/traces/audit/3-trace\n"); /* the others all the same */
	ran_clear(&r);

	fine(d, "set audit io=direct events=shop:*,libc:* file_size=1G", "");
	session_info(s, &seen);
	g_assert_cmpint(seen.config->io, ==, IO_DIRECT);
	g_assert_cmpuint(seen.config->events.n, ==, 2);
	g_assert_cmpint(seen.config->policy, ==, POLICY_DISCARD);
	fails(d, "set audit memory=lots", 2, "memory");
	fails(d, "set audit memory", 2, "KEY=VALUE");
	fails(d, "set audit", 2, "tracerctl set NAME KEY=VALUE");
	fails(d, "set nothing level=6", 1, "no session 'nothing'");

	info->recorded = 100;
	info->written = 80;
	info->overwritten = 3;
	info->unwritten = 4;
	info->unreadable = 5;
	info->discarded = 6;
	holds(d, "--no-legend list",
	      "audit   running  discard    direct  16.0M  0  100  18  80  /var/lib/tracer/traces/audit/3-trace\n");
	(void)g_strlcpy(info->strategy, "mmap", sizeof(info->strategy));
	holds(d, "list", "discard    mmap ");
	fake_session_set_trouble(d->b->manager, s, "no space left: remove something");
	holds(d, "list", "\naudit cannot write: no space left: remove something\n\n2 sessions.\n");
	holds(d, "watch -n 1", "\naudit cannot write: no space left: remove something\n");
	holds(d, "show audit", "\n     Trouble: no space left: remove something\n");
	holds(d, "show audit", "\n    Strategy: mmap\n");
	json(d, "watch -n 1", "j[0]['written'] == 80 and j[0]['lost'] == 18 and j[0]['strategy'] == 'mmap' and "
			      "j[0]['trouble'].startswith('no space')");
	json(d, "list", "j[0]['unwritten'] == 4 and j[0]['unreadable'] == 5 and j[0]['last_trace'].endswith('3-trace')");
	fake_session_set_trouble(d->b->manager, s, "");

	/* stop waits, or not */
	fine(d, "stop audit", "");
	g_assert_cmpuint(fake_n_writings(d->b->manager), ==, 0);
	fine(d, "start audit", "");
	fake_hold_writings(d->b->manager, true);
	fine(d, "stop --no-wait audit", "");
	g_assert_cmpuint(fake_n_writings(d->b->manager), ==, 1);
	holds(d, "list", "audit   stopping");
	fails(d, "stop --no-wait audit", 1, "audit");
	/* it went away without its answer; the place is free, and the work is done */
	fake_writing_finish(d->b->manager, &full);
	holds(d, "list", "audit   stopped");
	fine(d, "start flight", "");
	fine(d, "stop --no-wait flight", "");
}

/* Who left does not keep others from waiting. */
static void leaves(Desk *d, const void *unused)
{
	Answer a = { 0 };
	sd_bus *other;

	fine(d, "create audit --start io=write", "");
	fake_hold_writings(d->b->manager, true);
	other = private_bus_connect(d->b, geteuid(), 0);
	for (unsigned i = 0; i < 64; i++) {
		/* one by one: so many questions of one caller to the bus, who that is, are refused */
		g_assert_cmpint(sd_bus_call_method_async(other, NULL, BUS_NAME, BUS_PATH, BUS_MANAGER_INTERFACE,
							 "RotateSession", NULL, NULL, "s", "audit"),
				>=, 0);
		while (fake_n_writings(d->b->manager) <= i)
			g_assert_cmpint(sd_event_run(d->b->event, UINT64_MAX), >=, 0);
	}
	fails(d, "rotate audit", 1, "64");
	sd_bus_detach_event(other);
	sd_bus_close_unref(other);
	/* until the bus has said so */
	do {
		private_bus_ask(d->b, NULL, &a, NULL, NULL, "SnapshotAll", "s", "");
	} while (a.error);
	answer_clear(&a);
	while (fake_n_writings(d->b->manager) > 0)
		fake_writing_finish(d->b->manager, NULL);
	fake_hold_writings(d->b->manager, false);
	holds(d, "rotate audit", "-trace\n");
}

static void empty(Desk *d, const void *unused)
{
	json(d, "list", "j == []");
	json(d, "producers", "j == []");
	json(d, "events", "j == []");
	json(d, "snapshot --all", "j == []");
	fine(d, "snapshot --all", "");
	fine(d, "--no-legend list", "");
	holds(d, "list", "0 sessions. Make one");
}

static void watches(Desk *d, const void *unused)
{
	SessionInfo *info = fake_session_info(fake_session_add(d->b->manager, "flight"));
	char *out, **lines;

	info->state = "running";
	info->recorded = 1000;
	out = ctl_fine(d, "watch --count=3 --interval=0.02");
	lines = g_strsplit(out, "\n", -1);
	g_assert_cmpuint(g_strv_length(lines), ==, 5); /* titles once, three turns, and what is behind the last */
	g_assert_true(g_str_has_prefix(lines[0], "NAME "));
	g_assert_true(g_str_has_prefix(lines[3], "flight "));
	g_assert_cmpuint(strlen(lines[3]), ==, strlen(lines[0]));
	g_assert_null(strchr(out, '\033'));
	g_strfreev(lines);
	g_free(out);
	json(d, "watch -n 1", "j[0]['recorded'] == 1000 and 'recorded_per_second' not in j[0]");
	fails(d, "watch --count=0", 2, "from 1 on");
	fails(d, "watch --interval=0", 2, "seconds");
}

static void usage(Desk *d, const void *unused)
{
	fails(d, "fly", 2, "no verb 'fly': see");
	fails(d, "snapshto flight", 2, "did you mean 'snapshot'?");
	fails(d, "set_events flight", 2, "did you mean 'set-events'?");
	fails(d, "start", 2, "tracerctl start NAME");
	fails(d, "list x", 2, "Too many");
	fails(d, "snapshot", 2, "--all");
	fails(d, "snapshot --all x", 2, "not both");
	fails(d, "list --reason=x", 2, "--reason has no meaning for list");
	fails(d, "start x --json", 2, "--json has no meaning");
	fails(d, "list --json=loud", 2, "pretty, short");
	fails(d, "list --frob", 2, "--help");
	fails(d, "create x memory", 2, "KEY=VALUE");
	fails(d, "create x memroy=1M", 2, "memory");
	fails(d, "create x memory=lots", 2, "memory");
	fails(d, "create a/b", 2, "cannot name");
	fails(d, "--user list", 2, "not both");
	holds(d, "--help", "snapshot NAME...");
	holds(d, "--version", PROJECT_VERSION);
	fake_session_add(d->b->manager, "x");
	fails(d, "snapshot x --duration=soon", 2, "10s");
}

static void failures(Desk *d, const void *unused)
{
	fake_fail_next(d->b->manager, FAILURE_CONFIG, "a.conf:3: error: one\nb.conf:4: error: two", -EINVAL);
	fails(d, "reload", 78, "a.conf:3: error: one\nb.conf:4: error: two\n");
	fake_fail_next(d->b->manager, FAILURE_NO_SPACE, "the disk is full: remove something", -ENOSPC);
	fails(d, "start x", 1, "the disk is full: remove something");
	d->b->service = bus_free(d->b->service);
	private_bus_await_name(d->b, BUS_NAME, false);
	fails(d, "list", 69, "tracerd is not running");
	private_bus_stop(d->b);
	fails(d, "list", 69, "No connection");
}

static void no_address(Desk *d, const void *unused)
{
	g_free(d->address);
	d->address = g_strdup("--address=unix:path=/nonexistent/bus");
	fails(d, "list", 69, "/nonexistent/bus");
}

/* Writing into a pipe that nobody reads, or a full disk, is not success. */
static void output_full(Desk *d, const void *unused)
{
	char *command = g_strdup_printf("%s %s list > /dev/full", TRACERCTL, d->address);
	const char *argv[] = { "sh", "-c", command, NULL };
	Ran r = private_bus_run(d->b, NULL, argv);

	g_assert_cmpint(r.status, ==, 1);
	g_assert_nonnull(strstr(r.err, "Could not write"));
	ran_clear(&r);
	g_free(command);
}

static void views(Desk *d, const void *unused)
{
	char *bin = g_build_filename(d->b->directory, "bin", NULL);
	char *reader = g_build_filename(bin, "babeltrace2", NULL), *command;
	const char *argv[] = { "sh", "-c", NULL, NULL };
	Session *s = fake_session_add(d->b->manager, "flight");
	Ran r;

	fails(d, "view flight", 1, "no snapshot yet");
	fine(d, "create audit io=write", "");
	fails(d, "view audit", 1, "tracerctl rotate audit");
	fails(d, "view nothing", 1, "no session 'nothing'");
	fails(d, "view no/such/place", 1, "no directory no/such/place");
	fake_session_set_last_snapshot(s, d->b->directory);
	g_assert_cmpint(g_mkdir(bin, 0755), ==, 0);
	/* without a reader */
	command = g_strdup_printf("PATH=%s exec %s %s view flight", bin, TRACERCTL, d->address);
	argv[2] = command;
	r = private_bus_run(d->b, NULL, argv);
	g_assert_cmpint(r.status, ==, 69);
	g_assert_nonnull(strstr(r.err, "apt install babeltrace2"));
	g_assert_nonnull(strstr(r.err, d->b->directory));
	ran_clear(&r);
	g_free(command);
	/* with one that says what it was given */
	g_assert_true(g_file_set_contents(reader, "#!/bin/sh\necho \"$@\"\n", -1, NULL));
	g_assert_cmpint(chmod(reader, 0755), ==, 0);
	for (int i = 0; i < 3; i++) {
		const char *what[] = { "flight", "flight/latest", d->b->directory };
		char *expected = g_strdup_printf("--clock-gmt %s\n", d->b->directory);

		command = g_strdup_printf("PATH=%s:$PATH exec %s %s view %s -- --clock-gmt", bin, TRACERCTL, d->address,
					  what[i]);
		argv[2] = command;
		r = private_bus_run(d->b, NULL, argv);
		g_assert_cmpstr(r.err, ==, "");
		g_assert_cmpstr(r.out, ==, expected);
		ran_clear(&r);
		g_free(command);
		g_free(expected);
	}
	/* the newest finished trace of a session that writes: as told, and from its directory if none was told */
	{
		char *traces = g_build_filename(d->b->directory, "traces", NULL);
		const char *names[] = { "20261130T000000.000001Z-trace", "20261130T000000.000002Z-trace",
					"20261130T000000.000003Z-trace.active", "zzz" };
		Session *audit = manager_find(d->b->manager, "audit");

		for (size_t i = 0; i < G_N_ELEMENTS(names); i++) {
			char *path = g_build_filename(traces, names[i], NULL);

			g_assert_cmpint(g_mkdir_with_parents(path, 0755), ==, 0);
			g_free(path);
		}
		fake_session_set_output(audit, traces);
		command = g_strdup_printf("PATH=%s:$PATH exec %s %s view audit", bin, TRACERCTL, d->address);
		argv[2] = command;
		for (int i = 0; i < 2; i++) {
			char *expected = i ? g_strdup_printf("%s\n", d->b->directory) :
					     g_strdup_printf("%s/%s\n", traces, names[1]);

			r = private_bus_run(d->b, NULL, argv);
			g_assert_cmpstr(r.out, ==, expected);
			ran_clear(&r);
			g_free(expected);
			fake_session_set_last_trace(audit, d->b->directory);
		}
		g_free(command);
		for (size_t i = 0; i < G_N_ELEMENTS(names); i++) {
			char *path = g_build_filename(traces, names[i], NULL);

			g_rmdir(path);
			g_free(path);
		}
		g_rmdir(traces);
		g_free(traces);
	}
	unlink(reader);
	rmdir(bin);
	g_free(reader);
	g_free(bin);
}

/* As another user, whom the bus lets in and the daemon does not. */
static void permission(Desk *d, const void *unused)
{
	const char *argv[] = { "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", TRACERCTL, d->address,
			       "start", "flight", NULL };
	char *setpriv = g_find_program_in_path("setpriv");
	bool can = geteuid() == 0 && setpriv;
	Ran r;

	g_free(setpriv);
	if (!can) {
		g_test_skip("needs root and setpriv");
		return;
	}
	fake_session_add(d->b->manager, "flight");
	r = private_bus_run(d->b, NULL, argv);
	if (r.status == 127 || r.status == 126) {
		/* the build directory is not open to everybody */
		g_test_skip("another user cannot run the program where it lies");
	} else {
		g_assert_cmpint(r.status, ==, 77);
		g_assert_nonnull(strstr(r.err, "Permission denied"));
	}
	ran_clear(&r);
}

/* The completions offer what there is. */
static void completion(Desk *d, const void *unused)
{
	static const char script[] =
		"PATH=%s:$PATH; . %s/tracerctl.bash; compopt() { :; };"
		"try() { COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); COMP_LINE=\"$*\"; COMP_POINT=${#COMP_LINE}; _tracerctl; echo \"${COMPREPLY[*]}\"; };"
		"try tracerctl sn; try tracerctl '%s' start fl; try tracerctl snapshot --dur; try tracerctl create x mem;"
		"try tracerctl rot; try tracerctl set flight file_si; try tracerctl stop --no-w; try tracerctl '%s' set fl;"
		/* as bash itself breaks words */
		"COMP_WORDS=(tracerctl create x policy = ov); COMP_CWORD=5; COMP_LINE='tracerctl create x policy=ov';"
		"COMP_POINT=${#COMP_LINE}; _tracerctl; echo \"${COMPREPLY[*]}\"";
	char *directory = g_path_get_dirname(TRACERCTL), *command = g_strdup_printf(script, directory, TRACER_DBUS, d->address, d->address);
	const char *argv[] = { "bash", "-c", command, NULL };
	Ran r;

	fake_session_add(d->b->manager, "flight");
	r = private_bus_run(d->b, NULL, argv);
	if (r.status == 126)
		g_test_skip("no bash");
	else
		g_assert_cmpstr(r.out, ==, "snapshot\nflight\n--duration=\nmemory=\nrotate\nfile_size=\n--no-wait\nflight\noverwrite\n");
	ran_clear(&r);
	g_free(command);
	g_free(directory);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *path;
		void (*run)(Desk *d, const void *unused);
	} cases[] = {
		{ "/tracerctl/session-life", session_life }, { "/tracerctl/several", several },
		{ "/tracerctl/looks", looks },		     { "/tracerctl/empty", empty },
		{ "/tracerctl/writes", writes },     { "/tracerctl/leaves", leaves },
		{ "/tracerctl/watch", watches },	     { "/tracerctl/usage", usage },
		{ "/tracerctl/failures", failures },	     { "/tracerctl/no-address", no_address },
		{ "/tracerctl/output-full", output_full },   { "/tracerctl/view", views },
		{ "/tracerctl/permission", permission },     { "/tracerctl/completion", completion },
	};

	g_test_init(&argc, &argv, NULL);
	for (size_t i = 0; i < G_N_ELEMENTS(cases); i++)
		g_test_add(cases[i].path, Desk, NULL, desk_open, cases[i].run, desk_close);
	return g_test_run();
}
