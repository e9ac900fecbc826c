/* SPDX-License-Identifier: MIT */
/* An instrumented program that writes over every shared byte of its rings, between and while it records. Takes lines as the
 * subject does: "scribble N". */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/tracer.h"

TRACER_EVENT(shop, extra, TRACER_INFO, TRACER_U64(number))

static uint64_t seed = 0x9E3779B97F4A7C15ull;

static uint64_t random_u64(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed;
}

static struct {
	uint8_t *at;
	size_t size;
} maps[16];
static int n_maps;

/* The rings are where the library mapped a memfd of the daemon's. */
static void find_rings(void)
{
	FILE *f = fopen("/proc/self/maps", "re");
	char line[512];

	n_maps = 0;
	while (f && fgets(line, sizeof(line), f)) {
		uint64_t from, to;

		if (strstr(line, "memfd:tracer") && n_maps < 16 &&
		    sscanf(line, "%" SCNx64 "-%" SCNx64, &from, &to) == 2) {
			maps[n_maps].at = (uint8_t *)(uintptr_t)from;
			maps[n_maps++].size = (size_t)(to - from);
		}
	}
	if (f)
		(void)fclose(f);
}

int main(void)
{
	char line[128];
	uint64_t number = 0;

	(void)setvbuf(stdout, NULL, _IOLBF, 0);
	trace_shop_extra(number++);
	find_rings();
	(void)printf("ready %d\n", n_maps);
	while (fgets(line, sizeof(line), stdin)) {
		for (long i = strtol(line + strcspn(line, " "), NULL, 10); i > 0; i--) {
			/* few: a ring whose lock it wrote over makes it wait for itself, each time */
			for (int k = 0; k < 3; k++)
				trace_shop_extra(number++);
			for (int k = 0; k < n_maps; k++) {
				/* the control lines lie in the first pages, records everywhere */
				size_t room = random_u64() % 4 ? maps[k].size : 16384;
				uint64_t bytes = random_u64();

				memcpy(maps[k].at + random_u64() % (room - 8), &bytes, 8);
			}
		}
		(void)printf("scribbled %d\n", n_maps);
	}
	return 0;
}
