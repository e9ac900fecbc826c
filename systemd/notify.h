/* SPDX-License-Identifier: MIT */
/* Readiness, status and watchdog, as sd_notify(3) has them. All are no-ops without NOTIFY_SOCKET. */
#pragma once

#include <systemd/sd-event.h>

/* Sends a one-line STATUS=. */
void notify_status(const char *format, ...) __attribute__((format(printf, 1, 2)));
void notify_ready(void);
/* RELOADING=1 with MONOTONIC_USEC (read by 253 and later), to be followed by notify_ready(). */
void notify_reloading(void);
void notify_stopping(void);
/* Turns on the loop's watchdog if the unit has one. 0 or -errno. */
int notify_watchdog(sd_event *event);
