/* SPDX-License-Identifier: MIT */
/* The field that a key stands for: what owning, copying, comparing and writing out its kind means; and the
 * note of where it was set. `base` is the SessionConfig or the DaemonConfig that the key belongs to. */
#pragma once

#include "conf/keys.h"

#define FIELD(T, base, k)	((T *)((char *)(base) + (k)->offset))
#define CONST_FIELD(T, base, k) ((const T *)((const char *)(base) + (k)->offset))

/* The per cent that belong to the bytes of a KEY_FREE. */
u32 *field_percent(const Key *k, void *base);

/* Frees what the key's field owns. */
void field_clear(const Key *k, void *base);
/* 0 or -ENOMEM; to's field must own nothing yet. */
int field_copy(const Key *k, const void *from, void *to);
bool field_equal(const Key *k, const void *a, const void *b);
/* As a file would say it: `"16M"`, `[ "*:*" ]`, `true`. Owned by the caller; NULL: no memory. */
char *field_text(const Key *k, const void *base);

/* Notes where a key was set; 0 or -ENOMEM. origins has n_keys elements. */
int origin_set(ConfigOrigin *origins, const Key *k, const char *file, int line);
/* Also NULL for NULL; returns NULL. */
ConfigOrigin *origins_free(ConfigOrigin *origins);
/* 0 or -ENOMEM. */
int origins_copy(const ConfigOrigin *origins, ConfigOrigin **ret);

int strings_copy(const Strings *from, Strings *ret);
void strings_clear(Strings *s);
