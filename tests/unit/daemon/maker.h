/* SPDX-License-Identifier: MIT */
/* Rings made by hand, with times of the test's choosing: the writer's rules of abi.h, one thread,
 * no sequences. And event classes, and jobs. */
#pragma once

#include "daemon/snapshot.h"
#include "lib/reader.h"

/* behind ours, since it takes MIN and MAX for itself */
#include <glib.h>

typedef struct {
	struct region region;
	struct record_clock clock;
} Maker;

/* Small rings: 64 KiB with 16 sub-buffers; n_ring per CPU and two side rings. */
void maker_init(Maker *m, u32 n_ring, u32 policy, u32 contexts);
void maker_clear(Maker *m);
u64 maker_now(const Maker *m);

/* Appends a record with vpid 42 and vtid 43 (as the contexts say) and `body`. False: lost and
 * counted. */
bool maker_record(Maker *m, u32 ring, u32 id, u64 time, const void *body, u32 size);
void maker_lose(Maker *m, u32 ring, u32 cause, u64 n);
struct abi_ring *maker_line(Maker *m, u32 ring);
u8 *maker_data(Maker *m, u32 ring);
u64 maker_offset(Maker *m, u32 ring);

/* maker_class("shop", "order", 6, "id", TYPE, SHAPE, COUNT, ..., NULL) */
struct event_class *maker_class(const char *provider, const char *name, int level, ...);

/* A job over makers: directory, name and the rest are filled; classes are shared by all sources. */
typedef struct {
	SnapshotJob job;
	SnapshotSource sources[4];
	u32 cpus[4][64];
	char *directory; /* of the job, fresh, removed by maker_job_clear() */
	SnapshotResult result;
	Failure failure;
} MakerJob;

void maker_job_init(MakerJob *j, Maker *makers, size_t n, TraceClass *classes, size_t n_classes);
void maker_job_clear(MakerJob *j);
/* Runs it and asserts success and the sums; returns the path of the snapshot (g_free). */
char *maker_job_run(MakerJob *j);
char *maker_directory(void);
void maker_remove(const char *path);
