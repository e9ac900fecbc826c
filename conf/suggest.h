/* SPDX-License-Identifier: MIT */
/* The right word nearest to a wrong one. */
#pragma once

#include "lib/base.h"

/* How many letters must be changed, put in, left out or swapped with their neighbour; case and '-' for '_' cost
 * nothing, since they are what people get wrong without seeing it. Words longer than 64 bytes: SIZE_MAX. */
size_t suggest_distance(const char *a, const char *b);
/* The best of n words, or NULL if none is near enough to be what was meant. */
const char *suggest_nearest(const char *word, const char *const *words, size_t n);
