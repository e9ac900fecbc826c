/* SPDX-License-Identifier: MIT */
/* The objects without a bus: a server and a client over a socketpair, in one loop. */
#pragma once

#include "dbus/bus.h"
#include "tests/unit/dbus/fake-manager.h"

#include <glib.h> /* last: it defines MIN and MAX over again, and lets them be */

typedef struct {
	sd_event *event;
	Manager *manager;
	Bus *service;
	sd_bus *server, *client;
} Peer;

Peer *peer_new(void);
/* With a manager of any kind; takes both over. */
Peer *peer_new_with(sd_event *event, Manager *m);
void peer_free(Peer *p);

/* Lets everything happen that can happen without waiting. */
void peer_settle(Peer *p);

/* Calls a method and runs the loop until it is answered. Asserts that it succeeds. */
sd_bus_message *peer_call(Peer *p, const char *path, const char *interface, const char *member,
			  const char *types, ...);
/* The same for a message that the caller made. *ret_error is set if it fails (returns NULL then). */
sd_bus_message *peer_send(Peer *p, sd_bus_message *call, sd_bus_error *ret_error);
/* Asserts that the call fails with this name and that the text holds `part`. */
void peer_call_fails(Peer *p, const char *path, const char *interface, const char *member, const char *name,
		     const char *part, const char *types, ...);

#define MANAGER BUS_PATH, BUS_MANAGER_INTERFACE
#define SESSION(n) BUS_SESSION_PREFIX "/" n, BUS_SESSION_INTERFACE

#define TEST(path, function)                                                                       \
	g_test_add(path, Fixture, NULL, fixture_set_up, function, fixture_tear_down)
typedef struct {
	Peer *p;
} Fixture;
void fixture_set_up(Fixture *f, const void *unused);
void fixture_tear_down(Fixture *f, const void *unused);
