/* SPDX-License-Identifier: MIT */
/* What a line says of rings: their shape, and what was counted in them. Written and read beside one another, since what the one
 * does not know the other loses. */
#pragma once

#include "daemon/line.h"
#include "daemon/owner.h"

void line_geometry(Line *l, const struct geometry *g);
/* False: it has none, or one that cannot be; *ret is then left as it was. */
bool line_get_geometry(const char *line, struct geometry *ret);

void line_counters(Line *l, const OwnerCounters *c);
/* What is not there is 0. */
void line_get_counters(const char *line, OwnerCounters *ret);
