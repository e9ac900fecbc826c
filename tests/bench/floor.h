/* SPDX-License-Identifier: MIT */
/* The floor below the strategies of a session: raw ways of getting bytes into a file, without rings, records or checks.
 * Some of them catch signals on the way; they are here to be measured, the daemon does nothing of the kind. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct {
	/* where the bytes come from */
	uint8_t *ring;	    /* mapped shared: what a program wrote */
	uint64_t ring_size; /* a power of two, a multiple of `piece` */
	int ring_fd;	    /* the memfd below it */
	bool fill;	    /* the bytes are made where they go from; otherwise they are in the ring already */

	/* where they go */
	int fd;
	uint64_t size;	/* of the file, a multiple of `piece` */
	uint64_t piece; /* bytes of a sub-buffer, a power of two and a multiple of 4096 */
	uint64_t step;	/* mmap-sigbus: how much the file grows at a time; a multiple of 4096 */
} Floor;

typedef struct {
	const char *name;
	int flags;		   /* for open(), besides O_RDWR */
	int (*run)(const Floor *f); /* 0, or a negative errno with an unfinished file */
	const char *title;
} Way;

extern const Way ways[];
extern const size_t n_ways;

/* The bytes that belong at `at` in the file. Records of 32 bytes, each says which one it is: what is torn, missing or doubled
 * shows. `period`: where they begin again. */
void floor_bytes(void *to, uint64_t at, uint64_t n, uint64_t period);

/* /proc/meminfo, in bytes. What lies in shared memory is no page cache to us, though the kernel counts it there. */
typedef struct {
	int64_t cached, dirty; /* dirty: and what is being written back */
} Meter;

Meter meter_read(void);
/* Looks at the meter every few milliseconds on a thread of its own, for the highest values between the two calls. */
int meter_start(void);
Meter meter_stop(void);
/* Milliseconds that all CPUs of the machine were busy, for whomever: flushers and interrupts too. */
double meter_busy_ms(void);
