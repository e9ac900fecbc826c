/* SPDX-License-Identifier: MIT */
/* The connection. sd-bus waits for a socket that is not there yet (watch_bind), queues the request for our name
 * behind the handshake, and says so when the bus is gone; the rest is one timer that builds the whole connection
 * again, with a delay that doubles while that fails. It also looks after a connection that does not come about: sd-bus
 * sees nothing of a socket in a file system that is mounted over the directory it watches. Everything on the connection
 * (objects, open questions to polkit) is thrown away with it: its callers are gone as well. */
#include "dbus/bus.h"

#include <stdio.h>

#include "dbus/announce.h"
#include "dbus/bus-internal.h"
#include "dbus/errors.h"
#include "dbus/pending-call.h"
#include "systemd/journal.h"

#define BACKOFF_MIN_USEC (100 * 1000ull)
/* longer than sd-bus itself waits for a handshake: a slow bus is not cut off each time */
#define BACKOFF_MAX_USEC (30 * 1000000ull)
#define LOOK_MIN_USEC	 (2 * 1000000ull)

int session_path(const char *name, char **ret)
{
	int r = sd_bus_path_encode(BUS_SESSION_PREFIX, name, ret);

	return r < 0 ? r : 0;
}

int session_path_name(const char *path, char **ret)
{
	_cleanup_free_ char *name = NULL, *canonical = NULL;
	int r;

	r = sd_bus_path_decode(path, BUS_SESSION_PREFIX, &name);
	if (r <= 0)
		return r;
	/* "_61" reads as "a" too; one object has one path */
	r = session_path(name, &canonical);
	if (r < 0)
		return r;
	if (strcmp(canonical, path) != 0)
		return 0;
	*ret = steal_ptr(name);
	return 1;
}

int bus_authorize(Bus *b, sd_bus_message *m, const char *action, const char *session, sd_bus_error *error)
{
	return authority_check(b->authority, m, action, session, error);
}

static void bus_disconnect(Bus *b)
{
	b->authority = authority_free(b->authority);
	pending_calls_forget(b);
	b->named = false;
	if (!b->bus)
		return;
	(void)sd_bus_detach_event(b->bus);
	b->bus = sd_bus_close_unref(b->bus);
}

/* Arms the timer for the next attempt, or (tentative) for a look whether the present one has come to anything. */
static void bus_arm(Bus *b, bool tentative)
{
	uint64_t now;

	if (!b->address)
		return;
	if (sd_event_now(b->event, CLOCK_MONOTONIC, &now) < 0)
		now = 0;
	b->tentative = tentative;
	(void)sd_event_source_set_time(b->reconnect, now + (tentative ? MAX(b->backoff_usec, LOOK_MIN_USEC) : b->backoff_usec));
	(void)sd_event_source_set_enabled(b->reconnect, SD_EVENT_ONESHOT);
}

static void bus_back_off(Bus *b, u64 least_usec)
{
	b->backoff_usec = MIN(MAX(b->backoff_usec, least_usec) * 2, BACKOFF_MAX_USEC);
}

/* The present connection lives until then, since its own callbacks come here. */
static void bus_retry(Bus *b)
{
	bus_arm(b, false);
	bus_back_off(b, 0);
}

static int on_disconnected(sd_bus_message *m, void *userdata, sd_bus_error *error)
{
	Bus *b = userdata;

	if (!b->complained)
		log_warning("Connection to the bus lost; tracing goes on, and so do attempts to reconnect");
	b->complained = true;
	b->named = false;
	bus_retry(b);
	return 0;
}

static void bus_named(Bus *b)
{
	b->named = true;
	b->backoff_usec = BACKOFF_MIN_USEC;
	if (b->tentative)
		(void)sd_event_source_set_enabled(b->reconnect, SD_EVENT_OFF);
	if (b->complained)
		log_notice("On the bus as %s now", BUS_NAME);
	b->complained = false;
}

static int on_name_acquired(sd_bus_message *m, void *userdata, sd_bus_error *error)
{
	const char *name;

	if (sd_bus_message_read(m, "s", &name) >= 0 && strcmp(name, BUS_NAME) == 0)
		bus_named(userdata);
	return 0;
}

static int on_name_reply(sd_bus_message *m, void *userdata, sd_bus_error *error)
{
	const sd_bus_error *e = sd_bus_message_get_error(m);
	Bus *b = userdata;
	u32 code = 0;

	if (!e) {
		/* 2: in the queue behind another owner; NameAcquired tells the rest */
		if (sd_bus_message_read(m, "u", &code) >= 0 && code == 2) {
			log_warning("Another process owns %s on the bus; waiting for it to go", BUS_NAME);
			b->complained = true;
		}
		return 1;
	}
	/* the connection broke before the answer: that is told elsewhere */
	if (sd_bus_is_open(b->bus) <= 0)
		return 1;
	if (!b->complained)
		log_error("Could not get the name %s on the bus: %s; is %s.conf in the bus's system.d?", BUS_NAME,
			  e->message ? e->message : e->name, BUS_NAME);
	b->complained = true;
	bus_retry(b);
	return 1;
}

/* All objects on b->bus. */
static int bus_populate(Bus *b)
{
	int r;

	r = authority_new(&b->authority, b->event, b->address && !b->user);
	if (r < 0)
		return r;
	r = manager_object_add(b);
	if (r < 0)
		return r;
	r = session_object_add(b);
	if (r < 0)
		return r;
	return log_control_add(b);
}

static int bus_connect(Bus *b)
{
	sd_bus *bus;
	int r;

	r = sd_bus_new(&b->bus);
	if (r < 0)
		return r;
	bus = b->bus;
	r = sd_bus_set_address(bus, b->address);
	if (r >= 0)
		r = sd_bus_set_description(bus, b->user ? "bus-user" : "bus-system");
	if (r >= 0)
		r = sd_bus_set_bus_client(bus, true);
	if (r >= 0)
		r = sd_bus_set_watch_bind(bus, true);
	if (r >= 0)
		r = bus_populate(b);
	/* matches can only be asked for on a connection that has been started; what they match is dispatched by
	 * the loop, later */
	if (r >= 0)
		r = sd_bus_start(bus);
	if (r >= 0)
		r = sd_bus_match_signal_async(bus, NULL, "org.freedesktop.DBus.Local", "/org/freedesktop/DBus/Local",
					      "org.freedesktop.DBus.Local", "Disconnected", on_disconnected, NULL,
					      b);
	if (r >= 0)
		r = sd_bus_match_signal_async(bus, NULL, "org.freedesktop.DBus", "/org/freedesktop/DBus",
					      "org.freedesktop.DBus", "NameAcquired", on_name_acquired, NULL, b);
	if (r >= 0)
		r = sd_bus_request_name_async(bus, NULL, BUS_NAME, SD_BUS_NAME_QUEUE, on_name_reply, b);
	if (r >= 0)
		r = sd_bus_attach_event(bus, b->event, SD_EVENT_PRIORITY_NORMAL);
	return r < 0 ? r : 0;
}

static void bus_connect_or_retry(Bus *b)
{
	int r;

	bus_disconnect(b);
	r = bus_connect(b);
	if (r >= 0) {
		bus_arm(b, true);
		return;
	}
	if (!b->complained)
		log_warning("Could not connect to the bus at %s: %s; trying again", b->address, strerror(-r));
	b->complained = true;
	bus_disconnect(b);
	bus_retry(b);
}

static int on_reconnect(sd_event_source *source, uint64_t usec, void *userdata)
{
	Bus *b = userdata;

	if (b->tentative) {
		/* its name may still be another's */
		if (sd_bus_is_ready(b->bus) > 0)
			return 0;
		bus_back_off(b, LOOK_MIN_USEC);
		if (!b->complained)
			log_warning("No bus at %s yet; tracing goes on, and so do attempts to connect", b->address);
		b->complained = true;
	}
	bus_connect_or_retry(b);
	return 0;
}

/* As libdbus and sd-bus look for it, but without connecting: the bus need not be there. */
static int address_find(bool user, char **ret)
{
	const char *e = secure_getenv(user ? "DBUS_SESSION_BUS_ADDRESS" : "DBUS_SYSTEM_BUS_ADDRESS");
	_cleanup_free_ char *escaped = NULL;

	if (e && *e) {
		*ret = strdup(e);
		return *ret ? 0 : -ENOMEM;
	}
	if (!user) {
		*ret = strdup("unix:path=/run/dbus/system_bus_socket");
		return *ret ? 0 : -ENOMEM;
	}
	e = secure_getenv("XDG_RUNTIME_DIR");
	if (!e || !*e)
		return -ENOMEDIUM;
	/* Addresses escape what is not [-0-9A-Za-z_/.\*]; a runtime directory with such a name is refused below
	 * by sd-bus, not misread. */
	if (asprintf(&escaped, "unix:path=%s/bus", e) < 0) {
		escaped = NULL;
		return -ENOMEM;
	}
	*ret = steal_ptr(escaped);
	return 0;
}

/* sd-bus passes over what it does not know and calls it refused; a typo should be told now, not retried for ever. */
static bool address_valid(const char *address)
{
	static const char *const transports[] = { "unix:", "tcp:", "unixexec:", "x-machine-unix:" };

	for (const char *part = address; part; part = strchr(part, ';')) {
		part += *part == ';';
		for (size_t i = 0; i < ELEMENTSOF(transports); i++)
			if (strncmp(part, transports[i], strlen(transports[i])) == 0)
				return true;
	}
	return false;
}

static int bus_alloc(Bus **ret, sd_event *event, Manager *m)
{
	Bus *b = calloc(1, sizeof(*b));

	if (!b)
		return -ENOMEM;
	errors_register();
	b->event = sd_event_ref(event);
	b->manager = m;
	b->backoff_usec = BACKOFF_MIN_USEC;
	b->view.bus = b;
	*ret = b;
	return 0;
}

int bus_new(Bus **ret, sd_event *event, Manager *m, const char *address, bool user)
{
	_cleanup_(bus_freep) Bus *b = NULL;
	int r;

	r = bus_alloc(&b, event, m);
	if (r < 0)
		return r;
	b->user = user;
	if (address) {
		b->address = strdup(address);
		r = b->address ? 0 : -ENOMEM;
	} else {
		r = address_find(user, &b->address);
	}
	if (r < 0)
		return r;
	if (!address_valid(b->address))
		return -EINVAL;
	r = sd_event_add_time(event, &b->reconnect, CLOCK_MONOTONIC, 0, 10000, on_reconnect, b);
	if (r < 0)
		return r;
	(void)sd_event_source_set_description(b->reconnect, "bus-reconnect");
	r = sd_event_source_set_enabled(b->reconnect, SD_EVENT_OFF);
	if (r < 0)
		return r;
	r = announce_start(b);
	if (r < 0)
		return r;
	bus_connect_or_retry(b);
	*ret = steal_ptr(b);
	return 0;
}

const char *bus_advice(int error)
{
	if (error == -ENOMEDIUM)
		return "nothing says where the session bus is; give --address, or set DBUS_SESSION_BUS_ADDRESS or "
		       "XDG_RUNTIME_DIR";
	if (error == -EINVAL)
		return "its address is none; unix:path=/run/dbus/system_bus_socket would be one";
	return strerror(-error);
}

int bus_new_peer(Bus **ret, sd_event *event, Manager *m, sd_bus *peer)
{
	_cleanup_(bus_freep) Bus *b = NULL;
	int r;

	r = bus_alloc(&b, event, m);
	if (r < 0)
		return r;
	b->bus = sd_bus_ref(peer);
	r = bus_populate(b);
	if (r < 0)
		return r;
	r = announce_start(b);
	if (r < 0)
		return r;
	r = sd_bus_attach_event(peer, event, SD_EVENT_PRIORITY_NORMAL);
	if (r < 0)
		return r;
	*ret = steal_ptr(b);
	return 0;
}

Bus *bus_free(Bus *b)
{
	if (!b)
		return NULL;
	pending_calls_abandon(b);
	announce_stop(b);
	b->reconnect = sd_event_source_disable_unref(b->reconnect);
	if (b->bus)
		(void)sd_bus_flush(b->bus); /* what was announced last, and answers */
	bus_disconnect(b);
	free(b->address);
	sd_event_unref(b->event);
	free(b);
	return NULL;
}
