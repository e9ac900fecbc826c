/* SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "floor.h"

enum { INTERVAL_NS = 10000000 };

static pthread_t thread;
static atomic_bool over;
static Meter peak; /* the thread's until it is joined */

static int64_t field(const char *text, const char *name)
{
	const char *at = strstr(text, name);

	if (!at) {
		fprintf(stderr, "io-floor: /proc/meminfo does not say \"%s\"\n", name + 1);
		exit(1);
	}
	return strtoll(at + strlen(name), NULL, 10) * 1024;
}

Meter meter_read(void)
{
	char text[8192] = "\n";
	FILE *file = fopen("/proc/meminfo", "re");
	size_t n = file ? fread(text + 1, 1, sizeof(text) - 2, file) : 0;

	if (!n) {
		perror("io-floor: /proc/meminfo");
		exit(1);
	}
	fclose(file);
	text[n + 1] = 0;
	return (Meter){ .cached = field(text, "\nCached:") - field(text, "\nShmem:"),
			.dirty = field(text, "\nDirty:") + field(text, "\nWriteback:") };
}

static void *watch(void *userdata)
{
	struct timespec pause = { 0, INTERVAL_NS };

	/* relaxed: nothing is read that the one who sets it wrote before */
	while (!atomic_load_explicit(&over, memory_order_relaxed)) {
		Meter now = meter_read();

		if (now.cached > peak.cached)
			peak.cached = now.cached;
		if (now.dirty > peak.dirty)
			peak.dirty = now.dirty;
		nanosleep(&pause, NULL);
	}
	return NULL;
}

int meter_start(void)
{
	peak = meter_read();
	return -pthread_create(&thread, NULL, watch, NULL);
}

Meter meter_stop(void)
{
	atomic_store_explicit(&over, true, memory_order_relaxed);
	pthread_join(thread, NULL);
	return peak;
}

double meter_busy_ms(void)
{
	uint64_t user, nice, system, idle, wait, irq, soft;
	FILE *file = fopen("/proc/stat", "re");

	if (!file ||
	    fscanf(file, "cpu %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64, &user,
		   &nice, &system, &idle, &wait, &irq, &soft) != 7) {
		fprintf(stderr, "io-floor: cannot read /proc/stat\n");
		exit(1);
	}
	fclose(file);
	return (double)(user + nice + system + irq + soft) * 1e3 / (double)sysconf(_SC_CLK_TCK);
}
