/* SPDX-License-Identifier: MIT */
/* tracerd on D-Bus: the connection, its name, and the objects behind it. The bus is optional to tracing: all of
 * this starts before there is a bus, outlives it, and comes back with it. */
#pragma once

#include <systemd/sd-bus.h>
#include <systemd/sd-event.h>

#include "daemon/manager.h"

#define BUS_NAME	      "org.tracer.Tracer1"
#define BUS_PATH	      "/org/tracer/Tracer1"
#define BUS_SESSION_PREFIX    "/org/tracer/Tracer1/session"
#define BUS_MANAGER_INTERFACE "org.tracer.Tracer1.Manager"
#define BUS_SESSION_INTERFACE "org.tracer.Tracer1.Session"

typedef struct Bus Bus;

/* Serves `m` on the bus at `address`; NULL means the system bus, or with `user` the session bus (each as its
 * environment variable says, else at its usual place). `user` also means that polkit is not asked. Becomes the
 * observer of `m`. Returns 0, also when nobody listens at the address yet; -ENOMEDIUM if `user` and there is no
 * address to be found; -EINVAL for an address that is none; -ENOMEM.
 *
 * The Bus must be freed before the Manager. */
int bus_new(Bus **ret, sd_event *event, Manager *m, const char *address, bool user);

/* What to do about the error of a bus_new(). */
const char *bus_advice(int error);

/* The same on a connection that exists already, without a bus daemon at its other end (a socketpair with
 * sd_bus_set_server). Takes a reference of its own; nothing is reconnected. */
int bus_new_peer(Bus **ret, sd_event *event, Manager *m, sd_bus *peer);

/* Ends the service. Callers who wait for a snapshot get an error. NULL is fine; returns NULL. */
Bus *bus_free(Bus *b);
DEFINE_CLEANUP(Bus *, bus_free)
