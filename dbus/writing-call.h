/* SPDX-License-Identifier: MIT */
/* Method calls about sessions that write continuously: those that answer when a trace is complete, and the one that
 * changes how it is written. Both objects have each of them. */
#pragma once

#include "dbus/bus-internal.h"

/* Stop and StopSession: answers when what was recorded is written. As a method handler returns. */
int writing_call_stop(Bus *b, sd_bus_message *m, const char *session, sd_bus_error *error);
/* Rotate and RotateSession: answers with the path of the trace that was ended, once it is complete. */
int writing_call_rotate(Bus *b, sd_bus_message *m, const char *session, sd_bus_error *error);
/* Configure and ConfigureSession: reads the a{sv} that is next in m. */
int writing_call_configure(Bus *b, sd_bus_message *m, const char *session, sd_bus_error *error);
