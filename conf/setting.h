/* SPDX-License-Identifier: MIT */
/* One key's value, whoever gives it, held to the table and put into the struct. `base` is the SessionConfig or
 * the DaemonConfig that the key belongs to. */
#pragma once

#include "conf/keys.h"

/* 0, -EINVAL with a sentence that begins with the key's path, -ENOMEM. Nothing changes unless 0. */
int setting_set(const Key *k, void *base, const ConfigValue *value, char **ret_text);
/* Sets the table's default; 0 or -ENOMEM (the table itself is right: a test says so). */
int setting_default(const Key *k, void *base);
