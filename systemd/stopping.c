/* SPDX-License-Identifier: MIT */
#include "systemd/stopping.h"

#include <systemd/sd-bus.h>
#include <time.h>

#include "systemd/journal.h"

#define DESTINATION "org.freedesktop.systemd1"
#define TIMEOUT_USEC (1000 * 1000)

static u64 now_usec(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return (u64)ts.tv_sec * 1000000 + (u64)ts.tv_nsec / 1000;
}

/* Until we are let in. A call would wait for that by itself, and for a bus that does not answer without end. */
static int connect_until(sd_bus *bus, u64 end)
{
	int r = 0;

	while (r >= 0) {
		u64 now = now_usec();

		r = sd_bus_is_ready(bus);
		if (r != 0)
			return r < 0 ? r : 0;
		if (now >= end)
			return -ETIMEDOUT;
		r = sd_bus_process(bus, NULL);
		if (r == 0)
			r = sd_bus_wait(bus, end - now);
	}
	return r;
}

/* The type of the job of the unit this process is in: "restart", "stop". */
static int job_type(sd_bus *bus, u64 end, char **ret)
{
	_cleanup_(sd_bus_message_unrefp) sd_bus_message *reply = NULL;
	_cleanup_(sd_bus_error_free) sd_bus_error error = SD_BUS_ERROR_NULL;
	const char *unit, *job;
	u32 id;
	int r;

	r = connect_until(bus, end);
	/* of each call; there are three, and what does not answer the first is asked no more */
	if (r >= 0)
		r = sd_bus_set_method_call_timeout(bus, TIMEOUT_USEC);
	if (r >= 0)
		r = sd_bus_call_method(bus, DESTINATION, "/org/freedesktop/systemd1", DESTINATION ".Manager",
				       "GetUnitByPID", &error, &reply, "u", 0);
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
	/* not flushed: that waits as well, and nothing that matters is on its way */
	_cleanup_(sd_bus_close_unrefp) sd_bus *bus = NULL;
	_cleanup_free_ char *type = NULL;
	int r;

	if (!getenv("NOTIFY_SOCKET"))
		return false;
	r = user ? sd_bus_open_user(&bus) : sd_bus_open_system(&bus);
	if (r >= 0)
		r = job_type(bus, now_usec() + TIMEOUT_USEC, &type);
	if (r < 0)
		log_info("systemd cannot be asked whether this is a restart (%s): sessions end in order", strerror(-r));
	/* a restart's second half; "try-restart" and the like have become it by now */
	return type && strcmp(type, "restart") == 0;
}
