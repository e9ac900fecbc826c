/* SPDX-License-Identifier: MIT */
/* What a fuzz target has where no engine drives it: files and directories of inputs, and numbers that a seed makes again. */
#pragma once

#include <stdio.h>

#include "lib/base.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

/* With an engine too: what must be. */
static inline void must(bool condition, const char *what)
{
	if (condition)
		return;
	fprintf(stderr, "%s\n", what);
	abort();
}

/* Tries a copy of the input that is no larger than it, so that a read beyond its end is seen. */
void replay_try(const u8 *p, size_t n);
/* Hands what is in each file, and in those below each directory, but for hidden ones, to `each`: of a file `max` bytes at most. How
 * many files there were. */
size_t replay_paths(char **paths, int n_paths, size_t max, void (*each)(u8 *p, size_t n));

/* The numbers to come. */
void replay_seed(u64 seed);
u64 replay_roll(void);
