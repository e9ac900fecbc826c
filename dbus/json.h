/* SPDX-License-Identifier: MIT */
/* Writes JSON, of values given one by one or taken from a D-Bus message as they come. */
#pragma once

#include <stdio.h>
#include <systemd/sd-bus.h>

#include "lib/base.h"

#define JSON_DEPTH_MAX 32

typedef struct {
	FILE *out;
	bool pretty;
	unsigned depth;
	bool filled[JSON_DEPTH_MAX + 1]; /* something stands at this depth already */
	bool keyed;			 /* a key was written, its value comes next */
} Json;

void json_open(Json *j, char bracket); /* '{' or '[' */
void json_close(Json *j, char bracket);
void json_key(Json *j, const char *key);
void json_string(Json *j, const char *text);
void json_unsigned(Json *j, u64 n);

/* The next complete value of m: arrays of dict entries become objects, structs and other arrays arrays. 0 or -errno. */
int json_value(Json *j, sd_bus_message *m);
/* The next a{sv} of m as an object's members, with keys as "last_snapshot" for "LastSnapshot". */
int json_properties(Json *j, sd_bus_message *m);
