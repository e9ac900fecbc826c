/* SPDX-License-Identifier: MIT */
/* A dbus-daemon of the test's own, connections to it as whoever the test likes, and the service on it. */
#pragma once

#include <systemd/sd-bus.h>
#include <systemd/sd-event.h>

#include "dbus/bus.h"
#include "tests/unit/dbus/fake-manager.h"

#include <glib.h>

#define NOBODY 65534

/* The user `tracer` and the group `tracing`; where the machine has none, root can make some that only this process
 * and its children know. Call it first; without root, what needs them is skipped. */
void accounts_prepare(void);
bool accounts_there(void);
gid_t accounts_tracing(void);
uid_t accounts_tracer(void);

typedef struct {
	char *directory, *address, *policy; /* policy: a file included from the configuration, or NULL: all allowed */
	pid_t pid;
	sd_event *event;
	Manager *manager;
	Bus *service;
	sd_bus *caller;	/* as ourselves */
} PrivateBus;

/* Without a bus daemon yet */
PrivateBus *private_bus_new(const char *policy);
void private_bus_free(PrivateBus *b);
void private_bus_start(PrivateBus *b); /* returns when it listens */
void private_bus_stop(PrivateBus *b);

/* The service; returns when it has its name, if the bus runs. */
void private_bus_serve(PrivateBus *b);

/* A connection as this user, with these groups (gid alone if 0), in the loop. */
sd_bus *private_bus_connect(PrivateBus *b, uid_t uid, gid_t group);

/* Runs the loop until the name has an owner, or has none. */
void private_bus_await_name(PrivateBus *b, const char *name, bool owned);
/* Runs the loop until *flag. */
void private_bus_await(PrivateBus *b, const bool *flag);

/* A call whose answer arrives while the loop runs. */
typedef struct {
	bool done;
	char *error, *text; /* error: its name, or NULL */
	sd_bus_message *reply;
} Answer;
void answer_clear(Answer *a);
/* path NULL: the manager's */
void private_bus_call(sd_bus *from, Answer *a, const char *path, const char *interface, const char *member,
		      const char *types, ...);
/* The same and waits. */
void private_bus_ask(PrivateBus *b, sd_bus *from, Answer *a, const char *path, const char *interface,
		     const char *member, const char *types, ...);

/* Runs a program until it ends, while the loop goes on. */
typedef struct {
	int status; /* exit status, or 128 + signal */
	char *out, *err;
} Ran;
void ran_clear(Ran *r);
Ran private_bus_run(PrivateBus *b, const char *input, const char *const *argv);
