/* SPDX-License-Identifier: MIT */
/* /org/tracer/Tracer1/session/NAME: the interface org.tracer.Tracer1.Session. The objects are not made; they are
 * found, name by name, in the manager, so that they cannot outlive a session. */
#pragma once

#include "dbus/bus-internal.h"
