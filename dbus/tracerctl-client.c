/* SPDX-License-Identifier: MIT */
#include "dbus/tracerctl.h"

#include <stdarg.h>

#include "dbus/errors.h"
#include "dbus/text.h"

int failed(int status, const char *format, ...)
{
	char text[2048], clean[2048];
	va_list ap;

	va_start(ap, format);
	(void)vsnprintf(text, sizeof(text), format, ap);
	va_end(ap);
	/* a message may have many lines (a configuration with several errors): each is cleaned by itself */
	(void)fputs("tracerctl: ", stderr);
	for (char *line = text, *end; line; line = end) {
		end = strchr(line, '\n');
		if (end)
			*end++ = 0;
		(void)fprintf(stderr, "%s\n", text_clean(line, clean, sizeof(clean)));
	}
	return status;
}

/* Nobody has the name, and nobody can be started for it. */
static bool daemon_absent(const sd_bus_error *e)
{
	return sd_bus_error_has_name(e, SD_BUS_ERROR_SERVICE_UNKNOWN) ||
	       sd_bus_error_has_name(e, SD_BUS_ERROR_NAME_HAS_NO_OWNER) ||
	       sd_bus_error_has_name(e, "org.freedesktop.systemd1.NoSuchUnit") ||
	       sd_bus_error_has_name(e, "org.freedesktop.DBus.Error.Spawn.ExecFailed") ||
	       sd_bus_error_has_name(e, "org.freedesktop.DBus.Error.Spawn.ChildExited") ||
	       sd_bus_error_has_name(e, "org.freedesktop.DBus.Error.Spawn.ServiceNotFound");
}

static bool daemon_unstartable(const sd_bus_error *e)
{
	return (e->name && (strncmp(e->name, "org.freedesktop.systemd1.", 25) == 0 ||
			    strncmp(e->name, "org.freedesktop.DBus.Error.Spawn.", 33) == 0)) ||
	       sd_bus_error_has_name(e, "org.freedesktop.DBus.Error.TimedOut");
}

int client_failed(const Options *o, const sd_bus_error *e, int r)
{
	const char *text = e && e->message ? e->message : strerror(r < 0 ? -r : EIO);

	if (!e || !e->name)
		return failed(r == -EACCES || r == -EPERM ? STATUS_PERMISSION : STATUS_FAILED, "%s", text);
	if (daemon_absent(e))
		return failed(STATUS_UNAVAILABLE, "tracerd is not running: %s",
			      o->user || o->address ? "start it with 'tracerd --user'" : "systemctl start tracer");
	if (daemon_unstartable(e))
		return failed(STATUS_UNAVAILABLE, "tracerd could not be started (%s): see journalctl -u tracer",
			      text);
	if (sd_bus_error_has_name(e, SD_BUS_ERROR_NO_REPLY))
		return failed(STATUS_UNAVAILABLE, "tracerd did not answer (%s): see journalctl -u tracer", text);
	if (sd_bus_error_has_name(e, SD_BUS_ERROR_INTERACTIVE_AUTHORIZATION_REQUIRED))
		return failed(STATUS_PERMISSION,
			      "A password is needed, and there is no terminal to ask for it: try sudo");
	if (sd_bus_error_has_name(e, SD_BUS_ERROR_ACCESS_DENIED) ||
	    sd_bus_error_has_name(e, SD_BUS_ERROR_AUTH_FAILED))
		return failed(STATUS_PERMISSION, "%s", text);
	if (sd_bus_error_has_name(e, SD_BUS_ERROR_INVALID_ARGS))
		return failed(STATUS_USAGE, "%s", text);
	if (sd_bus_error_has_name(e, ERROR_CONFIG_INVALID))
		return failed(STATUS_CONFIG, "%s", text);
	return failed(STATUS_FAILED, "%s", text);
}

static int connect_to(const char *address, sd_bus **ret)
{
	__attribute__((cleanup(sd_bus_unrefp))) sd_bus *bus = NULL;
	int r = sd_bus_new(&bus);

	if (r >= 0)
		r = sd_bus_set_address(bus, address);
	if (r >= 0)
		r = sd_bus_set_bus_client(bus, true);
	if (r >= 0)
		r = sd_bus_start(bus);
	if (r >= 0)
		*ret = steal_ptr(bus);
	return r;
}

int client_connect(const Options *o, sd_bus **ret)
{
	sd_bus *bus = NULL;
	int r;

	errors_register();
	if (o->address)
		r = connect_to(o->address, &bus);
	else
		r = o->user ? sd_bus_open_user(&bus) : sd_bus_open_system(&bus);
	if (r == -EINVAL && o->address)
		return failed(STATUS_USAGE, "'%s' is no D-Bus address", o->address);
	if (r < 0)
		return failed(STATUS_UNAVAILABLE, "No connection to the %s bus%s%s: %s%s",
			      o->address ? "given" : o->user ? "session" : "system", o->address ? " at " : "",
			      o->address ? o->address : "",
			      r == -ENOMEDIUM ? "its address is not known (DBUS_SESSION_BUS_ADDRESS)" :
						strerror(-r),
			      o->address ? "" :
			      o->user	 ? "; give --address=ADDRESS of the one that tracerd --user is on" :
					   "; is dbus running? (without one: tracerd --user, and "
					   "tracerctl --user)");
	if (!o->no_ask_password)
		(void)sd_bus_set_allow_interactive_authorization(bus, true);
	*ret = bus;
	return STATUS_OK;
}

int client_new_call(sd_bus *bus, const char *path, const char *interface, const char *member,
		    sd_bus_message **ret)
{
	return sd_bus_message_new_method_call(bus, ret, TRACER_NAME, path, interface, member);
}

int client_call(const Options *o, sd_bus *bus, sd_bus_message *call, bool change, sd_bus_error *error,
		sd_bus_message **ret_reply)
{
	int r;

	if (change)
		agent_start(o);
	/* The bus ends the call if the daemon goes away, so to wait for ever is to wait for a slow disk or a slow
	 * typist. */
	r = sd_bus_call(bus, call, change ? UINT64_MAX : 0, error, ret_reply);
	return r < 0 ? r : 0;
}

int client_get(sd_bus *bus, const char *member, sd_bus_error *error, sd_bus_message **ret_reply,
	       const char *types, ...)
{
	_cleanup_(message_unrefp) sd_bus_message *call = NULL;
	va_list ap;
	int r = client_new_call(bus, TRACER_PATH, TRACER_MANAGER_INTERFACE, member, &call);

	if (r < 0)
		return r;
	if (types) {
		va_start(ap, types);
		r = sd_bus_message_appendv(call, types, ap);
		va_end(ap);
		if (r < 0)
			return r;
	}
	r = sd_bus_call(bus, call, 0, error, ret_reply);
	return r < 0 ? r : 0;
}
