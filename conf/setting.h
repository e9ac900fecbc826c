/* SPDX-License-Identifier: MIT */
/* One key's value: from a value of any origin into the struct, held to the table; and back. `base` is the
 * SessionConfig or the DaemonConfig that the key belongs to. */
#pragma once

#include "conf/keys.h"

/* 0, -EINVAL with a sentence that begins with the key's path, -ENOMEM. Nothing changes unless 0. */
int setting_set(const Key *k, void *base, const ConfigValue *value, char **ret_text);
/* Sets the table's default; 0 or -ENOMEM (the table itself is right: a test says so). */
int setting_default(const Key *k, void *base);
/* Frees what the key's field owns. */
void setting_clear(const Key *k, void *base);
/* 0 or -ENOMEM; to's field must own nothing yet. */
int setting_copy(const Key *k, const void *from, void *to);
bool setting_equal(const Key *k, const void *a, const void *b);
/* As a file would say it: `"16M"`, `[ "*:*" ]`, `true`. Owned by the caller; NULL: no memory. */
char *setting_text(const Key *k, const void *base);

/* Notes where a key was set; 0 or -ENOMEM. origins has n_keys elements. */
int origin_set(ConfigOrigin *origins, const Key *k, const char *file, int line);
/* Also NULL for NULL; returns NULL. */
ConfigOrigin *origins_free(ConfigOrigin *origins);
/* 0 or -ENOMEM. */
int origins_copy(const ConfigOrigin *origins, ConfigOrigin **ret);

int strings_copy(const Strings *from, Strings *ret);
void strings_clear(Strings *s);
