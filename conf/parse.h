/* SPDX-License-Identifier: MIT */
/* One file's text into the typed structs. The only place that knows libconfig. */
#pragma once

#include "conf/config.h"

/* Applies text to *config, replacing it; on a text that does not parse *config stays as it is, and a group
 * with an error changes nothing of the session or the daemon it is about. `file` is what problems and
 * origins name. 0 (look at *problems) or -ENOMEM. */
int parse_text(const char *file, const char *text, size_t n, Config **config, ConfigProblems *problems);
