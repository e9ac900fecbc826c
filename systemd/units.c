/* SPDX-License-Identifier: MIT */
/* Listens to systemd's PropertiesChanged on a connection of our own, because the one that serves callers
 * must not drown when a machine starts two hundred units at once, and may be absent altogether.
 *
 * What counts as a failure is an edge: ActiveState becomes "failed", or NRestarts rises (a unit that systemd
 * restarts at once may be seen as "activating" only). ActiveState stays "failed" and Result stays set
 * until the next start, and systemd repeats both in every later signal of the unit, so each unit
 * that has something to remember has a small note here. */
#include "systemd/units.h"

#include <inttypes.h>
#include <stdio.h>
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
#define MAX_NOTES	 4096 /* more units than any machine has; beyond it the oldest is forgotten */

typedef struct Note {
	struct Note *next;
	char *unit;
	char *result;
	bool now; /* in the list that is being read */
	uint32_t main_pid;
	uint32_t n_restarts;
	bool failed; /* is in the state now, and was reported */
} Note;

struct UnitWatch {
	sd_event *event;
	sd_bus *bus;
	sd_event_source *retry;
	u64 backoff_usec;
	UnitFailed failed;
	void *userdata;
	Note *notes;
	size_t n_notes;
	bool primed; /* the failed units of the first connection are known and were not reported */
	bool listed; /* ... and this daemon has seen them itself */
};

static int watch_connect(UnitWatch *w);
static void watch_list(UnitWatch *w);

static Note *note_free(Note *n)
{
	if (n) {
		free(n->unit);
		free(n->result);
		free(n);
	}
	return NULL;
}

static Note *note_find(UnitWatch *w, const char *unit, bool create)
{
	Note **p, *n;

	for (n = w->notes; n; n = n->next)
		if (strcmp(n->unit, unit) == 0)
			return n;
	if (!create)
		return NULL;

	if (w->n_notes >= MAX_NOTES) {
		for (p = &w->notes; (*p)->next; p = &(*p)->next)
			;
		*p = note_free(*p);
		w->n_notes--;
	}
	n = calloc(1, sizeof(*n));
	if (!n)
		return NULL;
	n->unit = strdup(unit);
	if (!n->unit)
		return note_free(n);
	n->next = w->notes;
	w->notes = n;
	w->n_notes++;
	return n;
}

static void note_drop(UnitWatch *w, const char *unit)
{
	for (Note **p = &w->notes; *p; p = &(*p)->next)
		if (strcmp((*p)->unit, unit) == 0) {
			Note *n = *p;

			*p = n->next;
			w->n_notes--;
			note_free(n);
			return;
		}
}

static void note_result(Note *n, const char *result)
{
	char *copy = strdup(result);

	if (copy) {
		free(n->result);
		n->result = copy;
	}
}

static void report(UnitWatch *w, const Note *n)
{
	_cleanup_free_ char *unit = strdup(n->unit);
	_cleanup_free_ char *result = strdup(n->result ?: "failed");

	/* copies: the callback may take so long a way that it ends in here again */
	if (unit && result)
		w->failed(w->userdata, unit, result, (pid_t)n->main_pid);
}

/* What one signal says of one unit; NULL and 0 where it says nothing. */
typedef struct {
	const char *active_state, *sub_state, *result;
	uint32_t n_restarts, main_pid;
	bool has_restarts;
} Change;

static int change_read(sd_bus_message *m, Change *ret)
{
	Change c = { 0 };
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

static void note_type_part(UnitWatch *w, const char *unit, const Change *c)
{
	bool bad = c->result && strcmp(c->result, "success") != 0;
	Note *n = note_find(w, unit, bad || (c->has_restarts && c->n_restarts > 0));

	if (!n)
		return;
	if (bad)
		note_result(n, c->result);
	if (c->main_pid)
		n->main_pid = c->main_pid;
	if (c->has_restarts && c->n_restarts != n->n_restarts) {
		bool up = c->n_restarts == n->n_restarts + 1;
		bool seen = n->failed;

		n->n_restarts = c->n_restarts;
		n->failed = false;
		/* Restart=always counts clean exits too: only with a bad Result it was a failure. */
		if (up && !seen && n->result) {
			report(w, n);
			n = note_find(w, unit, false);
		}
	}
	if (n && c->result && !bad) {
		free(n->result);
		n->result = NULL;
	}
}

static void note_unit_part(UnitWatch *w, const char *unit, const Change *c)
{
	Note *n;

	if (strcmp(c->active_state, "failed") == 0) {
		n = note_find(w, unit, true);
		if (n && !n->failed) {
			n->failed = true;
			report(w, n);
		}
	} else if (strcmp(c->active_state, "inactive") == 0) {
		/* nothing to remember, and transient units have ever new names */
		note_drop(w, unit);
	} else if (!c->sub_state || strncmp(c->sub_state, "auto-restart", strlen("auto-restart")) != 0) {
		/* A new life. In auto-restart it is still the old one, whose NRestarts is yet to come. */
		n = note_find(w, unit, false);
		if (n)
			n->failed = false;
	}
}

static int on_properties(sd_bus_message *m, void *userdata, sd_bus_error *e)
{
	UnitWatch *w = userdata;
	_cleanup_free_ char *unit = NULL;
	const char *interface;
	Change c;

	if (sd_bus_path_decode(sd_bus_message_get_path(m), SYSTEMD_UNITS, &unit) <= 0)
		return 0;
	if (sd_bus_message_read_basic(m, 's', &interface) < 0 || change_read(m, &c) < 0)
		return 0;

	/* The part of the type (Service, Mount, ...) comes first: Result is known before the state is. */
	if (strcmp(interface, SYSTEMD_UNIT) != 0)
		note_type_part(w, unit, &c);
	else if (c.active_state)
		note_unit_part(w, unit, &c);
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

void unit_watch_known(UnitWatch *w, const char *failed)
{
	_cleanup_free_ char *copy = strdup(failed);
	char *rest = NULL;

	if (!copy || w->listed)
		return;
	for (char *unit = strtok_r(copy, " ", &rest); unit; unit = strtok_r(NULL, " ", &rest)) {
		Note *n = note_find(w, unit, true);

		if (n)
			n->failed = true;
	}
	w->primed = true;
}

char *unit_watch_failed(const UnitWatch *w)
{
	char *text = NULL;
	size_t n = 0;
	FILE *f = w->listed ? open_memstream(&text, &n) : NULL;

	if (!f)
		return NULL;
	for (const Note *note = w->notes; note; note = note->next)
		if (note->failed)
			fprintf(f, "%s%s", ftell(f) ? " " : "", note->unit);
	if (fclose(f) != 0) {
		free(text);
		return NULL;
	}
	return text;
}

/* The units that are failed now. Those of the first connection were so before we looked. */
static int on_list(sd_bus_message *m, void *userdata, sd_bus_error *e)
{
	UnitWatch *w = userdata;
	const char *unit, *active;
	int r;

	if (sd_bus_message_is_method_error(m, NULL))
		return 0;
	for (Note *n = w->notes; n; n = n->next)
		n->now = false;
	r = sd_bus_message_enter_container(m, 'a', "(ssssssouso)");
	while (r >= 0 &&
	       (r = sd_bus_message_read(m, "(ssssssouso)", &unit, NULL, NULL, &active, NULL, NULL, NULL,
					NULL, NULL, NULL)) > 0) {
		Note *n;

		if (strcmp(active, "failed") != 0)
			continue;
		n = note_find(w, unit, true);
		if (n)
			n->now = true;
		if (!n || n->failed)
			continue;
		n->failed = true;
		if (w->primed)
			report(w, n);
	}
	/* what others knew to be failed, and is not any more */
	for (Note *n = w->notes; n && r >= 0 && !w->listed; n = n->next)
		n->failed &= n->now;
	w->primed = w->listed = true;
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

	w->bus = sd_bus_close_unref(w->bus);
	if (w->retry)
		return 0;
	w->backoff_usec = MIN(delay * 2, BACKOFF_MAX_USEC);
	return sd_event_add_time_relative(w->event, &w->retry, CLOCK_MONOTONIC, delay, delay / 10, on_retry, w);
}

/* The bus went away. It is not closed from inside its own handler. */
static int on_disconnected(sd_bus_message *m, void *userdata, sd_bus_error *e)
{
	UnitWatch *w = userdata;

	log_debug("the connection to systemd over the system bus is gone; trying again");
	if (!w->retry)
		(void)sd_event_add_time_relative(w->event, &w->retry, CLOCK_MONOTONIC, w->backoff_usec,
						 w->backoff_usec / 10, on_retry, w);
	w->backoff_usec = MIN(w->backoff_usec * 2, BACKOFF_MAX_USEC);
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
	return watch_retry(w);
}

int unit_watch_new(UnitWatch **ret, sd_event *event, UnitFailed failed, void *userdata)
{
	UnitWatch *w = calloc(1, sizeof(*w));
	int r;

	if (!w)
		return -ENOMEM;
	w->event = sd_event_ref(event);
	w->failed = failed;
	w->userdata = userdata;
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
	while (w->notes) {
		Note *n = w->notes;

		w->notes = n->next;
		note_free(n);
	}
	sd_event_unref(w->event);
	free(w);
	return NULL;
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
