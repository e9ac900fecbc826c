/* SPDX-License-Identifier: MIT */
/* org.freedesktop.LogControl1, so that `systemctl service-log-level tracer debug` works. Writing is privileged in
 * the eyes of sd-bus, which asks the bus daemon (never polkit, and nobody else) who it is. */
#include "dbus/bus-internal.h"
#include "systemd/journal.h"

#define LOG_PATH      "/org/freedesktop/LogControl1"
#define LOG_INTERFACE "org.freedesktop.LogControl1"

static const char *const level_names[] = {
	[LOG_EMERG] = "emerg", [LOG_ALERT] = "alert",	[LOG_CRIT] = "crit", [LOG_ERR] = "err",
	[LOG_WARNING] = "warning", [LOG_NOTICE] = "notice", [LOG_INFO] = "info", [LOG_DEBUG] = "debug",
};

static int get_level(sd_bus *bus, const char *path, const char *interface, const char *property,
		     sd_bus_message *reply, void *userdata, sd_bus_error *error)
{
	return sd_bus_message_append(reply, "s", level_names[MIN((unsigned)journal_level(), (unsigned)LOG_DEBUG)]);
}

static int set_level(sd_bus *bus, const char *path, const char *interface, const char *property,
		     sd_bus_message *value, void *userdata, sd_bus_error *error)
{
	const char *name;
	int r = sd_bus_message_read(value, "s", &name);

	if (r < 0)
		return r;
	for (int i = LOG_EMERG; i <= LOG_DEBUG; i++)
		if (strcmp(name, level_names[i]) == 0) {
			journal_set_level(i);
			log_info("Log level set to %s", name);
			return 0;
		}
	return sd_bus_error_setf(error, SD_BUS_ERROR_INVALID_ARGS,
				 "'%s' is no log level; they are emerg, alert, crit, err, warning, notice, info, debug",
				 name);
}

static int get_target(sd_bus *bus, const char *path, const char *interface, const char *property,
		      sd_bus_message *reply, void *userdata, sd_bus_error *error)
{
	return sd_bus_message_append(reply, "s", "auto");
}

static int set_target(sd_bus *bus, const char *path, const char *interface, const char *property,
		      sd_bus_message *value, void *userdata, sd_bus_error *error)
{
	const char *target;
	int r = sd_bus_message_read(value, "s", &target);

	if (r < 0 || strcmp(target, "auto") == 0)
		return r;
	return sd_bus_error_setf(error, SD_BUS_ERROR_INVALID_ARGS,
				 "The only target is 'auto': the journal where there is one, standard error elsewhere");
}

static int get_identifier(sd_bus *bus, const char *path, const char *interface, const char *property,
			  sd_bus_message *reply, void *userdata, sd_bus_error *error)
{
	return sd_bus_message_append(reply, "s", "tracerd");
}

static const sd_bus_vtable log_vtable[] = {
	SD_BUS_VTABLE_START(0),
	SD_BUS_WRITABLE_PROPERTY("LogLevel", "s", get_level, set_level, 0, 0),
	SD_BUS_WRITABLE_PROPERTY("LogTarget", "s", get_target, set_target, 0, 0),
	SD_BUS_PROPERTY("SyslogIdentifier", "s", get_identifier, 0, SD_BUS_VTABLE_PROPERTY_CONST),
	SD_BUS_VTABLE_END,
};

int log_control_add(Bus *b)
{
	int r = sd_bus_add_object_vtable(b->bus, NULL, LOG_PATH, LOG_INTERFACE, log_vtable, b);

	return r < 0 ? r : 0;
}
