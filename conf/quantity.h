/* SPDX-License-Identifier: MIT */
/* Sizes and times with their units: "16M", "500ms". Declared in config.h too, for who sees only that. */
#pragma once

#include "conf/config.h"

/* "10%" -> 10; 0, -EINVAL, or -ERANGE above 99: no disk has all of it free. */
int parse_percent(const char *s, u32 *ret);
