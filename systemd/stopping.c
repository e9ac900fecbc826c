/* SPDX-License-Identifier: MIT */
#include "systemd/stopping.h"

#include <systemd/sd-bus.h>

#include "systemd/journal.h"

#define DESTINATION "org.freedesktop.systemd1"
#define TIMEOUT_USEC (1000 * 1000)

/* The type of the job of the unit this process is in: "restart", "stop". */
static int job_type(sd_bus *bus, char **ret)
{
	_cleanup_(sd_bus_message_unrefp) sd_bus_message *reply = NULL;
	_cleanup_(sd_bus_error_free) sd_bus_error error = SD_BUS_ERROR_NULL;
	const char *unit, *job;
	u32 id;
	int r;

	r = sd_bus_call_method(bus, DESTINATION, "/org/freedesktop/systemd1", DESTINATION ".Manager", "GetUnitByPID",
			       &error, &reply, "u", 0);
	if (r >= 0)
		r = sd_bus_message_read(reply, "o", &unit);
	if (r >= 0) {
		_cleanup_(sd_bus_message_unrefp) sd_bus_message *property = NULL;

		r = sd_bus_get_property(bus, DESTINATION, unit, DESTINATION ".Unit", "Job", &error, &property, "(uo)");
		if (r >= 0)
			r = sd_bus_message_read(property, "(uo)", &id, &job);
		if (r >= 0 && id == 0)
			r = -ENOENT;
		if (r >= 0)
			r = sd_bus_get_property_string(bus, DESTINATION, job, DESTINATION ".Job", "JobType", &error,
						       ret);
	}
	return r < 0 ? r : 0;
}

bool stopping_is_restart(bool user)
{
	_cleanup_(sd_bus_flush_close_unrefp) sd_bus *bus = NULL;
	_cleanup_free_ char *type = NULL;
	int r;

	if (!getenv("NOTIFY_SOCKET"))
		return false;
	r = user ? sd_bus_open_user(&bus) : sd_bus_open_system(&bus);
	if (r >= 0)
		r = sd_bus_set_method_call_timeout(bus, TIMEOUT_USEC);
	if (r >= 0)
		r = job_type(bus, &type);
	if (r < 0)
		log_info("systemd cannot be asked whether this is a restart (%s): sessions end in order", strerror(-r));
	/* a restart's second half; "try-restart" and the like have become it by now */
	return type && strcmp(type, "restart") == 0;
}
