/* SPDX-License-Identifier: MIT */
/* Listens to systemd's PropertiesChanged on a connection of our own, because the one that serves callers
 * must not drown when a machine starts two hundred units at once, and may be absent altogether. What it says goes
 * into UnitFailures. */
#include "systemd/units.h"

#include <systemd/sd-bus.h>
#include <systemd/sd-login.h>

#include "lib/base.h"
#include "systemd/journal.h"

#define SYSTEMD		 "org.freedesktop.systemd1"
#define SYSTEMD_PATH	 "/org/freedesktop/systemd1"
#define SYSTEMD_MANAGER	 "org.freedesktop.systemd1.Manager"
#define SYSTEMD_UNIT	 "org.freedesktop.systemd1.Unit"
#define SYSTEMD_UNITS	 "/org/freedesktop/systemd1/unit"
#define DEFAULT_ADDRESS	 "unix:path=/run/dbus/system_bus_socket"
#define BACKOFF_MIN_USEC 200000ull
#define BACKOFF_MAX_USEC 10000000ull

struct UnitWatch {
	sd_event *event;
	sd_bus *bus;
	sd_event_source *retry;
	u64 backoff_usec;
	UnitFailures failures;
};

static int watch_connect(UnitWatch *w);
static void watch_list(UnitWatch *w);

static int change_read(sd_bus_message *m, UnitChange *ret)
{
	UnitChange c = { 0 };
	int r;

	r = sd_bus_message_enter_container(m, 'a', "{sv}");
	if (r < 0)
		return r;
	while ((r = sd_bus_message_enter_container(m, 'e', "sv")) > 0) {
		const char *key;

		r = sd_bus_message_read_basic(m, 's', &key);
		if (r < 0)
			return r;
		if (strcmp(key, "ActiveState") == 0)
			r = sd_bus_message_read(m, "v", "s", &c.active_state);
		else if (strcmp(key, "SubState") == 0)
			r = sd_bus_message_read(m, "v", "s", &c.sub_state);
		else if (strcmp(key, "Result") == 0)
			r = sd_bus_message_read(m, "v", "s", &c.result);
		else if (strcmp(key, "NRestarts") == 0) {
			r = sd_bus_message_read(m, "v", "u", &c.n_restarts);
			c.has_restarts = r > 0;
		} else if (strcmp(key, "ExecMainPID") == 0)
			r = sd_bus_message_read(m, "v", "u", &c.main_pid);
		else
			r = sd_bus_message_skip(m, "v");
		if (r < 0)
			return r;
		r = sd_bus_message_exit_container(m);
		if (r < 0)
			return r;
	}
	if (r < 0)
		return r;
	*ret = c;
	return 0;
}

static int on_properties(sd_bus_message *m, void *userdata, sd_bus_error *e)
{
	UnitWatch *w = userdata;
	_cleanup_free_ char *unit = NULL;
	const char *interface;
	UnitChange c;

	if (sd_bus_path_decode(sd_bus_message_get_path(m), SYSTEMD_UNITS, &unit) <= 0)
		return 0;
	if (sd_bus_message_read_basic(m, 's', &interface) < 0 || change_read(m, &c) < 0)
		return 0;

	if (strcmp(interface, SYSTEMD_UNIT) != 0)
		unit_failures_type(&w->failures, unit, &c);
	else if (c.active_state)
		unit_failures_state(&w->failures, unit, &c);
	return 0;
}

static int on_subscribed(sd_bus_message *m, void *userdata, sd_bus_error *e)
{
	UnitWatch *w = userdata;
	const sd_bus_error *error = sd_bus_message_get_error(m);

	if (error) {
		/* A bus without systemd behind it (a test, a container): on_owner() tells when it comes. */
		log_debug("systemd does not tell of its units: %s", error->message);
		return 0;
	}
	w->backoff_usec = BACKOFF_MIN_USEC;
	watch_list(w);
	return 0;
}

static void watch_subscribe(UnitWatch *w)
{
	int r = sd_bus_call_method_async(w->bus, NULL, SYSTEMD, SYSTEMD_PATH, SYSTEMD_MANAGER, "Subscribe",
					 on_subscribed, w, NULL);

	if (r < 0)
		log_debug("cannot ask systemd for its signals: %s", strerror(-r));
}

/* The units that are failed now. */
static int on_list(sd_bus_message *m, void *userdata, sd_bus_error *e)
{
	UnitWatch *w = userdata;
	const char *unit, *active;
	int r;

	if (sd_bus_message_is_method_error(m, NULL))
		return 0;
	unit_failures_list(&w->failures);
	r = sd_bus_message_enter_container(m, 'a', "(ssssssouso)");
	while (r >= 0 &&
	       (r = sd_bus_message_read(m, "(ssssssouso)", &unit, NULL, NULL, &active, NULL, NULL, NULL,
					NULL, NULL, NULL)) > 0)
		if (strcmp(active, "failed") == 0)
			unit_failures_list_unit(&w->failures, unit);
	unit_failures_list_end(&w->failures, r >= 0);
	return 0;
}

static void watch_list(UnitWatch *w)
{
	_cleanup_(sd_bus_message_unrefp) sd_bus_message *m = NULL;

	if (sd_bus_message_new_method_call(w->bus, &m, SYSTEMD, SYSTEMD_PATH, SYSTEMD_MANAGER,
					   "ListUnitsByPatterns") < 0 ||
	    sd_bus_message_append(m, "asas", 1, "failed", 0) < 0)
		return;
	(void)sd_bus_call_async(w->bus, NULL, m, on_list, w, 0);
}

/* systemd took its name (again): a subscription belongs to the instance that gave it. */
static int on_owner(sd_bus_message *m, void *userdata, sd_bus_error *e)
{
	const char *name, *before, *after;

	if (sd_bus_message_read(m, "sss", &name, &before, &after) >= 0 && *after)
		watch_subscribe(userdata);
	return 0;
}

/* After a daemon-reload signals may have been missed. */
static int on_reloading(sd_bus_message *m, void *userdata, sd_bus_error *e)
{
	int active;

	if (sd_bus_message_read(m, "b", &active) >= 0 && !active)
		watch_subscribe(userdata);
	return 0;
}

static int on_retry(sd_event_source *s, uint64_t usec, void *userdata)
{
	UnitWatch *w = userdata;

	w->retry = sd_event_source_unref(w->retry);
	(void)watch_connect(w);
	return 0;
}

static int watch_retry(UnitWatch *w)
{
	u64 delay = w->backoff_usec;

	if (w->retry)
		return 0;
	w->backoff_usec = MIN(delay * 2, BACKOFF_MAX_USEC);
	return sd_event_add_time_relative(w->event, &w->retry, CLOCK_MONOTONIC, delay, delay / 10, on_retry, w);
}

/* The bus went away. It is not closed from inside its own handler. */
static int on_disconnected(sd_bus_message *m, void *userdata, sd_bus_error *e)
{
	log_debug("the connection to systemd over the system bus is gone; trying again");
	(void)watch_retry(userdata);
	return 0;
}

static int watch_matches(UnitWatch *w)
{
	int r;

	r = sd_bus_add_match_async(w->bus, NULL,
				   "type='signal',sender='" SYSTEMD
				   "',interface='org.freedesktop.DBus.Properties',"
				   "member='PropertiesChanged',path_namespace='" SYSTEMD_UNITS "'",
				   on_properties, NULL, w);
	if (r >= 0)
		r = sd_bus_match_signal_async(w->bus, NULL, SYSTEMD, SYSTEMD_PATH, SYSTEMD_MANAGER,
					      "Reloading", on_reloading, NULL, w);
	if (r >= 0)
		r = sd_bus_add_match_async(w->bus, NULL,
					   "type='signal',sender='org.freedesktop.DBus',"
					   "interface='org.freedesktop.DBus',member='NameOwnerChanged',"
					   "arg0='" SYSTEMD "'",
					   on_owner, NULL, w);
	if (r >= 0)
		r = sd_bus_match_signal_async(w->bus, NULL, "org.freedesktop.DBus.Local", NULL,
					      "org.freedesktop.DBus.Local", "Disconnected",
					      on_disconnected, NULL, w);
	return r;
}

static int watch_connect(UnitWatch *w)
{
	const char *address = getenv("DBUS_SYSTEM_BUS_ADDRESS");
	int r;

	w->bus = sd_bus_close_unref(w->bus);
	r = sd_bus_new(&w->bus);
	if (r < 0)
		goto fail;
	(void)sd_bus_set_description(w->bus, "units");
	r = sd_bus_set_address(w->bus, address && *address ? address : DEFAULT_ADDRESS);
	if (r >= 0)
		r = sd_bus_set_bus_client(w->bus, 1);
	if (r >= 0)
		/* the socket may not be there yet, early in the boot: sd-bus waits for it */
		r = sd_bus_set_watch_bind(w->bus, 1);
	if (r >= 0)
		r = sd_bus_start(w->bus);
	if (r >= 0)
		r = sd_bus_attach_event(w->bus, w->event, SD_EVENT_PRIORITY_NORMAL + 10);
	if (r >= 0)
		r = watch_matches(w);
	if (r < 0)
		goto fail;
	watch_subscribe(w);
	return 0;
fail:
	log_debug("cannot watch systemd's units: %s; trying again", strerror(-r));
	w->bus = sd_bus_close_unref(w->bus);
	return watch_retry(w);
}

int unit_watch_new(UnitWatch **ret, sd_event *event, UnitFailed failed, void *userdata)
{
	UnitWatch *w = calloc(1, sizeof(*w));
	int r;

	if (!w)
		return -ENOMEM;
	w->event = sd_event_ref(event);
	w->failures = (UnitFailures){ .failed = failed, .userdata = userdata };
	w->backoff_usec = BACKOFF_MIN_USEC;
	r = watch_connect(w);
	if (r < 0) {
		unit_watch_free(w);
		return r;
	}
	*ret = w;
	return 0;
}

UnitWatch *unit_watch_free(UnitWatch *w)
{
	if (!w)
		return NULL;
	sd_event_source_disable_unref(w->retry);
	sd_bus_close_unref(w->bus);
	unit_failures_clear(&w->failures);
	sd_event_unref(w->event);
	free(w);
	return NULL;
}

void unit_watch_known(UnitWatch *w, const char *failed)
{
	unit_failures_known(&w->failures, failed);
}

char *unit_watch_failed(const UnitWatch *w)
{
	return unit_failures_text(&w->failures);
}

int unit_of_pid(pid_t pid, char **ret)
{
	char *unit;
	int r = sd_pid_get_unit(pid, &unit);

	if (r < 0)
		r = sd_pid_get_user_unit(pid, &unit);
	if (r < 0)
		return r == -ENXIO ? -ENODATA : r;
	*ret = unit;
	return 0;
}
