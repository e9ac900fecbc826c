/* SPDX-License-Identifier: MIT */
/* The items of lists: what a pattern of events, a user, a process, a unit looks like. Each returns 0, or
 * -EINVAL with a sentence of what is wrong and what would be right (-ENOMEM). */
#pragma once

#include "lib/base.h"

enum { ITEM_MAX = 255, ITEMS_MAX = 256 };

int item_event(const char *s, char **ret_text);
int item_user(const char *s, char **ret_text);
int item_process(const char *s, char **ret_text);
int item_unit(const char *s, char **ret_text);
