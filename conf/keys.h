/* SPDX-License-Identifier: MIT */
/* The one table of what can be configured: all that knows a key by name reads it here (files, the bus, copy and
 * comparison, the dump, the help, the manual's test). To add a key: a field in config.h, a line in keys.c,
 * its lines in tracer.conf and doc/tracer.conf.5 (a test asks for them). */
#pragma once

#include "conf/config.h"

typedef enum { GROUP_DAEMON, GROUP_SESSION, GROUP_SNAPSHOT } KeyGroup;

typedef enum {
	KEY_BOOL,     /* bool */
	KEY_CHOICE,   /* an enum, u32 or int: one of .choices, by name */
	KEY_LEVEL,    /* the same, or its number */
	KEY_COUNT,    /* u32 */
	KEY_SIZE,     /* u64, bytes */
	KEY_TIME,     /* u64, nanoseconds */
	KEY_FREE,     /* RetentionConfig's pair of bytes and per cent; offset is that of the bytes */
	KEY_PATH,     /* char *, NULL for "" */
	KEY_LIST,     /* Strings, each held to .check */
	KEY_CONTEXTS, /* u32 of bits: any of .choices */
	KEY_NAME,     /* says which session a list's element is: a file's matter, no field */
	KEY_RESET,    /* likewise: forget what earlier files said of this session */
} KeyKind;

typedef struct {
	const char *name;
	u32 value;
	bool later; /* a right word, but not in this version */
} KeyChoice;

typedef struct {
	KeyGroup group;
	const char *name;
	KeyKind kind;
	size_t offset; /* in SessionConfig, for the snapshot's keys too, or DaemonConfig */
	u64 min, max;
	bool none;	   /* 0 is right as well, below min: "no limit" */
	bool power_of_two;
	bool filled; /* a list that must not be empty */
	const KeyChoice *choices;
	int (*check)(const char *item, char **ret_text); /* says what is wrong with an item, without the key */
	ConfigKey doc;
} Key;

extern const Key keys[];
extern const size_t n_keys;

/* NULL if there is none. */
const Key *key_find(KeyGroup group, const char *name);
/* "memory", "snapshot.max_count", "daemon.clock" into ret (64 bytes are enough for all). */
const char *key_path(const Key *k, char ret[64]);
/* NULL: no key of the session or the snapshot has this path. */
const Key *key_find_path(const char *path);

/* What to say of a key that is not in the table: the nearest right one, the group where it belongs, or
 * that it is one of later versions. `where` names the group to a person. Returns -EINVAL, or -ENOMEM. */
int key_unknown(KeyGroup group, const char *name, const char *where, char **ret_text);

const char *choice_name(const KeyChoice *choices, u32 value);
