/* SPDX-License-Identifier: MIT */
/* /org/tracer/Tracer1: the interface org.tracer.Tracer1.Manager, and ObjectManager for the sessions below. */
#pragma once

#include "dbus/bus-internal.h"

/* The lists of one reply end here: a message of more than 32 MiB would cost us the connection. What programs
 * may register is limited far below it. */
#define LIST_BYTES_MAX (16u * 1024 * 1024)
