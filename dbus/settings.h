/* SPDX-License-Identifier: MIT */
/* The settings of a session as they travel on the bus: a{sv} under the keys of the configuration file. The group
 * `snapshot` is written "snapshot.max_count", or as a nested a{sv}. */
#pragma once

#include <systemd/sd-bus.h>

#include "conf/config.h"

/* Reads an a{sv} from m into c. Booleans are `b`, counts any integer type, sizes and times `s` in the file's form
 * ("16M", "10s"), lists `as`. So that a command line need not know types, `s` is also taken for everything else:
 * "true", "8", and lists with commas. Returns 0, or negative with *error naming the key (InvalidArgs). */
int settings_read(sd_bus_message *m, SessionConfig *c, sd_bus_error *error);

/* Appends an a{sv} with every setting of c: what settings_read() takes to make an equal session. */
int settings_append(sd_bus_message *m, const SessionConfig *c);
