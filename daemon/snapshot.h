/* SPDX-License-Identifier: MIT */
/* One snapshot: one cut over all rings of a session, held, copied, checked, and written as traces.
 * Runs on worker threads with its own copy of everything it needs, and touches no daemon state. */
#pragma once

#include "daemon/capture.h"
#include "daemon/description.h"
#include "daemon/failure.h"
#include "daemon/trace/trace.h"
#include "lib/record.h"
#include "lib/region.h"

/* One owner's rings. The region stays mapped until the job is freed (the session holds a
 * reference). */
typedef struct {
	u8 *map;
	struct geometry geometry;
	const char *label;   /* directory name of its trace: "user-1000", "unit-nginx.service",
				"process-4711-nginx" */
	/* Not looked at by snapshot_copy(): whoever asks fills them in behind the copy, so that
	 * whatever a program was told before its record is among them. */
	TraceClass *classes; /* owned array; classes are borrowed and live as long as the job */
	size_t n_classes;
	Descriptions producers; /* owned; users' names are looked up behind that */
	u32 *cpu_of_ring; /* owned; n_ring entries: the CPU whose ring it is */
} SnapshotSource;

typedef struct {
	const char *session, *trigger, *reason;
	const char *directory; /* the session's snapshots; exists when it is written */
	const char *name;      /* of the snapshot: "20261129T160102.123456Z-manual" */
	struct record_clock clock;
	TraceClock trace_clock; /* realtime_offset_ns is taken at the cut */
	TraceEnvironment *environment; /* extra pairs: policy, unit, pid, signal ... */
	size_t n_environment;
	SnapshotSource *sources;
	size_t n_sources;
	u64 duration_ns, max_size; /* 0: all */
	bool urgent; /* of a crash: see CaptureLimit */
	bool discard; /* policy: nothing is overwritten, so nothing has to be held */
	const char *hostname, *boot_id; /* where it was recorded; NULL: here, in this boot */
} SnapshotJob;

typedef struct {
	u64 cut;         /* trace clock */
	u64 begin;       /* oldest record kept */
	u64 n_records;   /* kept */
	u64 n_after_cut; /* walked off */
	u64 overwritten; /* written before the cut, no longer in the rings; no record is in two of
			  * n_records, n_after_cut, overwritten, trimmed, corrupt_records, and their
			  * sum is all that was ever written */
	u64 trimmed;     /* whole, but outside duration or max_size */
	u64 lost[ABI_LOST_CAUSES];
	u64 clamped;         /* stamps that went backwards, put right */
	u64 corrupt_subs;    /* sub-buffers dropped, whole or in part, because they could not be
				believed */
	u64 corrupt_records; /* records of those, as headers counted, and records that do not fit
				their class */
	u64 n_bytes;         /* of files */
	u64 hold_ns;         /* how long writers were held off at most */
	bool late;           /* the copy took longer than ABI_HOLD_NS */
	double reach; /* the least part of a full ring that was kept, 0..1; 1 if none was full */
} SnapshotResult;

/* The rings as they were at the cut, in memory of their own. */
typedef struct Snapshot Snapshot;

/* The cut and the copy: touches no disk, since what takes time must not come between a crash and
 * its cut. The job stays the caller's and lives as long as what is returned. 0, or -errno with *f
 * set. */
int snapshot_copy(Snapshot **ret, const SnapshotJob *job, Failure *f);
/* The same of rings that were found elsewhere: takes the capture, whose rings' `source` are indexes of job->sources. 0 or
 * -ENOMEM (nothing was taken). */
int snapshot_found(Snapshot **ret, const SnapshotJob *job, Capture *capture);
Snapshot *snapshot_free(Snapshot *s);
DEFINE_CLEANUP(Snapshot *, snapshot_free)
/* Judges and writes it, once, into DIRECTORY/.NAME.tmp, and renames to DIRECTORY/NAME when every
 * byte is written and synced. Returns 0, or -errno with *f set and nothing left behind. Blocks for
 * as long as the disk does. */
int snapshot_write(Snapshot *s, SnapshotResult *ret, Failure *f);
/* Both. */
int snapshot_run(const SnapshotJob *job, SnapshotResult *ret, Failure *f);
