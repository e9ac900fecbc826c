/* SPDX-License-Identifier: MIT */
/* Method calls that answer when a snapshot is on disk. */
#pragma once

#include "dbus/bus-internal.h"

/* The body of SnapshotSession and Session.Snapshot: reads `sa{sv}`'s options (the reason is read already), takes
 * the snapshot and replies, now or later. As a method handler returns. */
int snapshot_call(Bus *b, sd_bus_message *m, const char *session, const char *reason, sd_bus_error *error);

/* The body of SnapshotUnit. */
int snapshot_call_unit(Bus *b, sd_bus_message *m, const char *unit, const char *reason, sd_bus_error *error);
/* The body of SnapshotAll. */
int snapshot_call_all(Bus *b, sd_bus_message *m, const char *reason, sd_bus_error *error);
