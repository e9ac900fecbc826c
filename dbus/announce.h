/* SPDX-License-Identifier: MIT */
/* Tells the bus what happened: signals at once, changes of properties gathered per turn of the loop. */
#pragma once

#include "dbus/bus-internal.h"

/* Becomes the manager's observer. */
int announce_start(Bus *b);
void announce_stop(Bus *b);

/* This session may have changed, whether the manager said so already or not; there need be none of this name. */
void announce_session(Bus *b, const char *name);

/* Sends what is gathered now. Methods call it before their reply, so that whoever has the reply has been told. */
void announce_flush(Bus *b);

/* Answers a method that changed something and returns nothing. */
int announce_reply(Bus *b, sd_bus_message *m);
