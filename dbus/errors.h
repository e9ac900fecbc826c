/* SPDX-License-Identifier: MIT */
/* The names of what can go wrong, on both ends of the bus: the daemon turns a Failure into one of them, and
 * tracerctl turns one of them into an exit status. doc/org.tracer.Tracer1.5 lists them. */
#pragma once

#include <systemd/sd-bus.h>

#include "daemon/failure.h"

#define ERROR_NO_SUCH_SESSION "org.tracer.Tracer1.Error.NoSuchSession"
#define ERROR_SESSION_EXISTS  "org.tracer.Tracer1.Error.SessionExists"
#define ERROR_SESSION_RUNNING "org.tracer.Tracer1.Error.SessionRunning"
#define ERROR_NOT_RUNNING     "org.tracer.Tracer1.Error.NotRunning"
#define ERROR_NOT_CONTINUOUS  "org.tracer.Tracer1.Error.NotContinuous"
#define ERROR_CONFIG_INVALID  "org.tracer.Tracer1.Error.ConfigInvalid"
#define ERROR_NO_MEMORY	      "org.tracer.Tracer1.Error.NoMemory"
#define ERROR_NO_SPACE	      "org.tracer.Tracer1.Error.NoSpace"
#define ERROR_LIMIT_EXCEEDED  "org.tracer.Tracer1.Error.LimitExceeded"
#define ERROR_BUSY	      "org.tracer.Tracer1.Error.Busy"
#define ERROR_NOTHING	      "org.tracer.Tracer1.Error.NothingRecorded"
#define ERROR_IO	      "org.tracer.Tracer1.Error.IO"

/* Registers the map from these names to errno with sd-bus; once per process, again is harmless. */
void errors_register(void);

/* The D-Bus name of a kind of failure. Never NULL. */
const char *error_name(FailureKind kind);

/* Fills `error` from a failure, or from the negative errno `r` where the failure says nothing, and returns the
 * negative errno that a sd-bus handler hands back. */
int error_from_failure(sd_bus_error *error, const Failure *failure, int r);
