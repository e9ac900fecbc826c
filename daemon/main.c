/* SPDX-License-Identifier: MIT */
/* tracerd: the roof. The only file that knows every room: reads the command line, puts the rooms together around one event
 * loop, and takes them apart in order. */
#include <signal.h>
#include <stdio.h>
#include <systemd/sd-event.h>
#include <time.h>

#include "conf/config.h"
#include "daemon/arguments.h"
#include "daemon/manager.h"
#include "daemon/priority.h"
#include "dbus/bus.h"
#include "systemd/fdstore.h"
#include "systemd/journal.h"
#include "systemd/messages.h"
#include "systemd/notify.h"
#include "systemd/stopping.h"

static int check_config(const Arguments *a)
{
	return config_check(a->config_directories, a->check_file ? a->check_file : a->config_file, stderr);
}

static int on_reload(sd_event_source *s, const struct signalfd_siginfo *si, void *userdata)
{
	Failure f = FAILURE_NULL;

	notify_reloading();
	if (manager_reload(userdata, &f) < 0)
		log_error("configuration not loaded, all stays as it was: %s", f.text);
	else
		log_info("configuration loaded");
	notify_ready();
	return 0;
}

static int signals_add(sd_event *event, Manager *m)
{
	int r = sd_event_add_signal(event, NULL, SIGTERM, NULL, NULL);

	if (r >= 0)
		r = sd_event_add_signal(event, NULL, SIGINT, NULL, NULL);
	if (r >= 0)
		r = sd_event_add_signal(event, NULL, SIGHUP, on_reload, m);
	return r;
}

/* With programs waiting at the socket, systemd starts us again at once; twenty failures in two seconds and it
 * gives up the socket as well, which costs every program its daemon until an administrator comes. A slow failure never
 * does (tried). */
static void failure_pace(bool ready)
{
	struct timespec second = { .tv_sec = 1 };

	if (!ready && getenv("NOTIFY_SOCKET"))
		(void)clock_nanosleep(CLOCK_MONOTONIC, 0, &second, NULL);
}

static int serve(const Arguments *a, bool *ret_ready)
{
	ManagerOptions options = { .runtime_directory = a->runtime_directory,
				   .state_directory = a->state_directory,
				   .config_directories = a->config_directories,
				   .config_file = a->config_file,
				   .user = a->user };
	_cleanup_(passed_clear) Passed passed = { 0 };
	_cleanup_(sd_event_unrefp) sd_event *event = NULL;
	_cleanup_(manager_freep) Manager *m = NULL;
	_cleanup_(bus_freep) Bus *bus = NULL;
	int r = sd_event_default(&event);

	if (r < 0)
		return r;
	priority_loop();
	r = passed_receive(&passed);
	if (r < 0)
		return r;
	options.listen_fd = passed_take_socket(&passed);
	options.passed = &passed;
	r = manager_new(&m, event, &options);
	if (r < 0)
		return r;
	r = signals_add(event, m);
	if (r < 0)
		return r;
	if (a->bus) {
		/* without it programs are recorded and crashes are kept all the same */
		r = bus_new(&bus, event, m, a->address, a->user);
		if (r < 0)
			log_error("no D-Bus: %s", bus_advice(r));
	}
	r = notify_watchdog(event);
	if (r < 0)
		log_warning("no watchdog: %s", strerror(-r));
	journal_log(LOG_INFO, &(JournalFields){ .message_id = MESSAGE_STARTED },
		    "tracerd %s started: %u sessions, %s", PROJECT_VERSION, manager_n_sessions(m),
		    a->runtime_directory);
	notify_ready();
	*ret_ready = true;
	r = sd_event_loop(event);
	if (stopping_is_restart(a->user))
		manager_leave(m);
	notify_stopping();
	return r;
}

int main(int argc, char **argv)
{
	_cleanup_(arguments_clear) Arguments a = {};
	bool ready = false;
	sigset_t mask;
	int r;

	/* blocked before there is a thread: SIGUSR1 and SIGUSR2 kill who does not handle them */
	(void)sigemptyset(&mask);
	for (const int *s = (const int[]){ SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2, 0 }; *s; s++)
		(void)sigaddset(&mask, *s);
	(void)sigprocmask(SIG_BLOCK, &mask, NULL);
	(void)signal(SIGPIPE, SIG_IGN);
	/* LimitFSIZE=: an error of one file, not our end */
	(void)signal(SIGXFSZ, SIG_IGN);

	r = arguments_parse(&a, argc, argv);
	if (r > 0)
		return r - 1;
	if (a.check)
		return check_config(&a);
	if (a.dump)
		return config_dump_main(a.config_directories, a.check_file ? a.check_file : a.config_file,
					stdout, stderr);
	if (a.help_config)
		return config_help(stdout) < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
	r = arguments_default(&a);
	if (r == 0)
		r = serve(&a, &ready);
	if (r < 0) {
		log_error("tracerd cannot run: %s", strerror(-r));
		failure_pace(ready);
		return EXIT_FAILURE;
	}
	return EXIT_SUCCESS;
}
