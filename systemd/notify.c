/* SPDX-License-Identifier: MIT */
/* Readiness, status and watchdog: the daemon's side of sd_notify(3). */
#include "systemd/notify.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <systemd/sd-daemon.h>
#include <time.h>

#include "lib/base.h"

#define READY_PAUSE_NS (10 * 1000 * 1000)
#define READY_TRIES    100

void notify_status(const char *format, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, format);
	(void)vsnprintf(text, sizeof(text), format, ap);
	va_end(ap);

	/* a newline would begin another assignment, and the text may hold a session's name */
	for (char *p = text; *p; p++)
		if (*p == '\n' || *p == '\r')
			*p = ' ';
	(void)sd_notifyf(/* unset_environment= */ 0, "STATUS=%s", text);
}

/* What systemd waits for: if it does not hear it, it ends us. The socket's want of memory is over soon, or never. */
void notify_ready(void)
{
	struct timespec pause = { .tv_nsec = READY_PAUSE_NS };

	for (int i = 0; sd_notify(0, "READY=1") < 0 && i < READY_TRIES; i++)
		(void)clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
}

void notify_reloading(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	(void)sd_notifyf(0, "RELOADING=1\nMONOTONIC_USEC=%" PRIu64,
			 (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000);
}

void notify_stopping(void)
{
	(void)sd_notify(0, "STOPPING=1");
}

int notify_watchdog(sd_event *event)
{
	int r = sd_event_set_watchdog(event, 1);

	return r < 0 ? r : 0;
}
