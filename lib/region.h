/* SPDX-License-Identifier: MIT */
/* A ring region as the daemon makes it: a sealed memfd whose memory is allocated here, so that it
 * is charged to the daemon and a lack of it is an error with numbers, not an OOM kill later. */
#pragma once

#include "lib/geometry.h"

struct region {
	int fd;  /* owned; sealed SHRINK | GROW | SEAL, and noexec where the kernel has it */
	u8 *map; /* owned; read-write, MAP_SHARED */
	u64 size;
	struct geometry geometry;
	u64 allocated; /* bytes charged so far */
};

#define REGION_NULL                                                                                \
	(struct region)                                                                            \
	{                                                                                          \
		.fd = -1                                                                           \
	}

/* Creates the memfd (named "tracer:NAME"), writes the header page for slot and generation,
 * allocates header, lines, the side rings and the rings listed in cpu_rings[0..n). Returns 0 or
 * -errno (-ENOMEM or -ENOSPC: not enough memory; nothing is left behind). */
int region_create(struct region *ret, const char *name, const struct geometry *g, u32 slot,
		  u32 generation, const u32 *rings, u32 n);
/* Maps a region that an earlier daemon made: fd (taken, also on failure) is sealed as that one sealed it and as large as g (checked;
 * the caller's own copy) says. Nothing that is in it is believed. 0; -EBADMSG: it is none; -errno. */
int region_adopt(struct region *ret, int fd, const struct geometry *g, u64 allocated);
/* Allocates one more ring (a CPU that appeared). 0 or -errno. */
int region_allocate_ring(struct region *r, u32 ring);
/* Gives the memory back although producers may still have it mapped: punches everything out. */
void region_punch(struct region *r);
/* Unmaps and closes. Accepts REGION_NULL and half-built ones. */
void region_close(struct region *r);
