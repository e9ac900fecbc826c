/* SPDX-License-Identifier: MIT */
/* Copy (capture); then judge (sieve) and write (trace). By the time the first file is made
 * everything that will be written is known, its size too. */
#include "daemon/snapshot.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "daemon/part.h"
#include "daemon/removal.h"
#include "daemon/trace/index.h"
#include "daemon/trace/packet.h"

struct Snapshot {
	const SnapshotJob *job;
	PartContext context;
	Part *parts;
	size_t n_parts;
	char *programs; /* text of producers.json; owned */
	size_t programs_size;
	SnapshotResult result;
};

Snapshot *snapshot_free(Snapshot *run)
{
	if (!run)
		return NULL;
	for (size_t i = 0; i < run->n_parts; i++)
		part_clear(&run->parts[i]);
	free(run->parts);
	free(run->programs);
	capture_clear(&run->context.capture);
	free(run);
	return NULL;
}

/* ---- less of it ---- */

typedef struct {
	u64 begin, size;
	Sieve *sieve;
	size_t index;
} Candidate;

/* Newest first; those of one ring in order also where their times are equal. */
static int compare_candidates(const void *a, const void *b)
{
	const Candidate *x = a, *y = b;

	if (x->begin != y->begin)
		return x->begin < y->begin ? 1 : -1;
	if (x->sieve != y->sieve)
		return x->sieve < y->sieve ? -1 : 1;
	return x->index < y->index ? 1 : -1;
}

/* Takes the oldest packets of all rings away until the rest, with metadata and indexes, is within
 * max_size; the packet at the edge loses its oldest records. */
static int run_trim(Snapshot *run)
{
	static const u8 no_uuid[16];
	_cleanup_free_ Candidate *v = NULL;
	u64 budget = run->job->max_size, used = run->programs_size;
	size_t n = 0, keep;

	for (size_t i = 0; i < run->n_parts; i++) {
		Part *p = &run->parts[i];
		_cleanup_free_ char *text = NULL;
		size_t size;
		int r = part_metadata(p, &run->context, no_uuid, &text, &size);

		if (r < 0)
			return r;
		used += size + 512; /* numbers may become longer */
		for (size_t j = 0; j < p->n_rings; j++) {
			n += p->rings[j]->pinned ? 0 : p->sieves[j].n;
			used += p->sieves[j].n ? part_stream_overhead() : 0;
		}
	}
	v = calloc(n + 1, sizeof(*v));
	if (!v)
		return -ENOMEM;
	n = 0;
	for (size_t i = 0; i < run->n_parts; i++)
		for (size_t j = 0; j < run->parts[i].n_rings; j++)
			for (size_t k = 0; k < run->parts[i].sieves[j].n; k++) {
				Sieve *s = &run->parts[i].sieves[j];

				/* pinned ones stay, so there is less room for the rest */
				if (run->parts[i].rings[j]->pinned) {
					used += packet_size(s->pieces[k].size) + INDEX_ENTRY;
					continue;
				}
				v[n++] =
				    (Candidate){s->pieces[k].begin,
						packet_size(s->pieces[k].size) + INDEX_ENTRY, s, k};
			}
	qsort(v, n, sizeof(*v), compare_candidates);
	for (keep = 0; keep < n && used + v[keep].size <= budget; keep++)
		used += v[keep].size;
	if (keep == n)
		return 0;

	/* of one ring the kept are the newest, so those that go are its first ones */
	for (size_t i = keep; i < n; i++)
		v[i].sieve->to_trim++;
	if (v[keep].sieve->to_trim > 0 && budget > used + INDEX_ENTRY) {
		Sieve *s = v[keep].sieve;

		sieve_trim(s, s->to_trim - 1, budget - used - INDEX_ENTRY);
		s->to_trim = 0;
	}
	for (size_t i = 0; i < run->n_parts; i++)
		for (size_t j = 0; j < run->parts[i].n_rings; j++)
			sieve_trim(&run->parts[i].sieves[j], run->parts[i].sieves[j].to_trim,
				   UINT64_MAX);
	return 0;
}

/* ---- who ---- */

/* For programs that read; in a snapshot of limited size it takes a part of that. */
static int run_programs(Snapshot *run)
{
	const SnapshotJob *job = run->job;
	const char *separator = "\n\t\t";
	u64 left_out = 0;
	FILE *f = open_memstream(&run->programs, &run->programs_size);
	bool failed;

	if (!f)
		return -ENOMEM;
	(void)fputs("{\n\t\"session\": ", f);
	description_string(f, job->session);
	(void)fputs(",\n\t\"snapshot\": ", f);
	description_string(f, job->name);
	(void)fputs(",\n\t\"producers\": [", f);
	for (size_t i = 0; i < job->n_sources && separator; i++)
		separator = descriptions_write(&job->sources[i].producers, run->parts[i].name, separator,
					       job->max_size / 8, f, &left_out);
	(void)fprintf(f, "\n\t],\n\t\"left_out\": %" PRIu64 "\n}\n", (uint64_t)left_out);
	failed = ferror(f) || !separator;
	return fclose(f) == EOF || failed ? -ENOMEM : 0;
}

/* Not synced: that is cheaper behind the traces, whose first commit of the journal has this file as well. */
static int write_programs(Snapshot *run, int dir_fd, int *ret_fd)
{
	_cleanup_close_ int fd = openat(dir_fd, "producers.json", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW,
					0640);
	size_t done = 0;

	if (fd < 0 || fchmod(fd, 0640) < 0)
		return -errno;
	while (done < run->programs_size) {
		ssize_t n = write(fd, run->programs + done, run->programs_size - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		done += (size_t)n;
	}
	run->result.n_bytes += done;
	*ret_fd = steal_fd(fd);
	return 0;
}

/* ---- writing ---- */

static int write_all_parts(Snapshot *run, int parent, const char *temporary)
{
	_cleanup_close_ int fd = -1, programs = -1;
	int r = 0;

	if (mkdirat(parent, temporary, 0750) < 0)
		return -errno;
	fd = openat(parent, temporary, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0 || fchmod(fd, 0750) < 0)
		return -errno;
	r = write_programs(run, fd, &programs);
	for (size_t i = 0; i < run->n_parts && r == 0; i++) {
		u64 bytes = 0;

		r = part_write(&run->parts[i], &run->context, fd, &bytes);
		run->result.n_bytes += bytes;
	}
	if (r == 0 && (fsync(programs) < 0 || fsync(fd) < 0))
		r = -errno;
	return r;
}

/* No name is ever taken over from another snapshot. File systems without RENAME_NOREPLACE answer
 * EINVAL: there a directory that is in the way and not empty still makes rename() fail. */
static int publish(int parent, const char *temporary, const char *name)
{
	if (renameat2(parent, temporary, parent, name, RENAME_NOREPLACE) < 0) {
		if (errno != EINVAL && errno != ENOSYS)
			return -errno;
		if (renameat(parent, temporary, parent, name) < 0)
			return -errno;
	}
	/* The snapshot is there, whole, for everybody; if the directory cannot be synced, a power
	 * cut may still take it back, which is no reason to take it back ourselves. */
	(void)fsync(parent);
	return 0;
}

static u64 run_size(const Snapshot *run)
{
	u64 size = 0;

	for (size_t i = 0; i < run->n_parts; i++)
		size += part_size(&run->parts[i]);
	return size + run->programs_size;
}

static int run_failure(const Snapshot *run, int error, int parent, Failure *f)
{
	const SnapshotJob *job = run->job;
	struct statvfs v;

	if (error == -ENOMEM)
		return failure_set(
		    f, FAILURE_NO_MEMORY,
		    "snapshot of session '%s' failed: not enough memory to copy its rings; "
		    "make `memory` of the session smaller or give the daemon more",
		    job->session);
	if (error == -ENOSPC || error == -EDQUOT) {
		u64 available = 0;

		if (parent >= 0 && fstatvfs(parent, &v) == 0)
			available = (u64)v.f_bavail * v.f_frsize;
		return failure_set(
		    f, FAILURE_NO_SPACE,
		    "snapshot of session '%s' failed: %s in %s: it needs %" PRIu64
		    " bytes, %" PRIu64 " are available; nothing of it was kept; free space, or "
		    "lower snapshot.max_count, snapshot.max_size or snapshot.duration",
		    job->session, strerror(-error), job->directory, (uint64_t)run_size(run),
		    (uint64_t)available);
	}
	return failure_set(f, FAILURE_IO, "snapshot of session '%s' failed: cannot write %s/%s: %s",
			   job->session, job->directory, job->name, strerror(-error));
}

static int run_write(Snapshot *run, Failure *f)
{
	const SnapshotJob *job = run->job;
	_cleanup_free_ char *temporary = NULL;
	_cleanup_close_ int parent = -1;
	int r;

	if (asprintf(&temporary, ".%s.tmp", job->name) < 0) {
		temporary = NULL;
		return run_failure(run, -ENOMEM, -1, f);
	}
	parent = open(job->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (parent < 0)
		return run_failure(run, -errno, -1, f);
	r = write_all_parts(run, parent, temporary);
	if (r == -EEXIST) /* somebody else's: not ours to remove */
		return run_failure(run, r, parent, f);
	if (r == 0)
		r = publish(parent, temporary, job->name);
	if (r < 0) {
		(void)removal_run(parent, temporary, NULL);
		(void)fsync(parent);
		return run_failure(run, r, parent, f);
	}
	return 0;
}

/* ---- the whole ---- */

static int run_capture(Snapshot *run)
{
	const SnapshotJob *job = run->job;
	const CaptureLimit limit = {
	    .duration_ns = job->duration_ns,
	    .ring_bytes = job->max_size,
	    .urgent = job->urgent,
	};
	_cleanup_free_ CaptureSource *sources = calloc(job->n_sources + 1, sizeof(*sources));

	if (!sources)
		return -ENOMEM;
	for (size_t i = 0; i < job->n_sources; i++)
		sources[i] = (CaptureSource){job->sources[i].map, &job->sources[i].geometry};
	return capture_take(&run->context.capture, sources, job->n_sources, &job->clock, &limit);
}

/* Directories of owners must differ, also once their labels are made file names. */
static int part_name(Snapshot *run, Part *p)
{
	char safe[200];

	trace_name(safe, sizeof(safe), p->source->label);
	for (u32 turn = 1;; turn++) {
		_cleanup_free_ char *name = NULL;
		bool taken = false;
		int r =
		    turn == 1 ? asprintf(&name, "%s", safe) : asprintf(&name, "%s+%u", safe, turn);

		if (r < 0) {
			name = NULL;
			return -ENOMEM;
		}
		for (size_t i = 0; i < run->n_parts; i++)
			taken |= run->parts[i].name && strcmp(run->parts[i].name, name) == 0;
		if (!taken) {
			p->name = steal_ptr(name);
			return 0;
		}
	}
}

/* Stands in a session that no program has joined: a trace that says so. */
static const SnapshotSource nobody = {.label = "nobody"};

static int run_sift(Snapshot *run)
{
	const SnapshotJob *job = run->job;
	int r = 0;

	run->context.clock = job->trace_clock;
	run->context.clock.realtime_offset_ns = run->context.capture.realtime_offset_ns;
	run->parts = calloc(job->n_sources + 1, sizeof(*run->parts));
	if (!run->parts)
		return -ENOMEM;
	for (size_t i = 0; i < MAX(job->n_sources, (size_t)1) && r == 0; i++) {
		Part *p = &run->parts[run->n_parts++];

		/* readers take a directory without any trace for a mistake */
		r = part_sift(p, &run->context, job->n_sources ? &job->sources[i] : &nobody, i);
		if (r == 0)
			r = part_name(run, p);
	}
	for (size_t i = 0; i < job->n_sources; i++)
		descriptions_resolve(&job->sources[i].producers);
	if (r == 0)
		r = run_programs(run);
	if (r == 0 && job->max_size > 0)
		r = run_trim(run);
	return r;
}

static void run_sum(Snapshot *run)
{
	SnapshotResult *sum = &run->result;

	sum->cut = sum->begin = run->context.capture.cut;
	sum->hold_ns = run->context.capture.hold_ns;
	sum->late = run->context.capture.late;
	sum->reach = 1;
	for (size_t i = 0; i < run->n_parts; i++) {
		const Part *p = &run->parts[i];

		sum->begin = MIN(sum->begin, part_begin(p, &run->context));
		for (size_t j = 0; j < p->n_rings; j++) {
			const Sieve *s = &p->sieves[j];

			sum->n_records += s->kept;
			sum->n_after_cut += s->after_cut;
			sum->overwritten += s->overwritten;
			sum->trimmed += s->trimmed;
			sum->clamped += s->clamped;
			sum->corrupt_subs += s->corrupt_subs;
			sum->corrupt_records += s->corrupt;
			if (!p->rings[j]->pinned)
				sum->reach = MIN(sum->reach, s->reach);
			for (u32 k = 0; k < ABI_LOST_CAUSES; k++)
				sum->lost[k] += p->rings[j]->lost[k];
		}
	}
}

int snapshot_copy(Snapshot **ret, const SnapshotJob *job, Failure *f)
{
	_cleanup_(snapshot_freep) Snapshot *run = calloc(1, sizeof(*run));
	int r;

	if (!run)
		return failure_set(f, FAILURE_NO_MEMORY, "out of memory");
	run->job = run->context.job = job;
	r = run_capture(run);
	if (r < 0)
		return run_failure(run, r, -1, f);
	*ret = steal_ptr(run);
	return 0;
}

int snapshot_found(Snapshot **ret, const SnapshotJob *job, Capture *capture)
{
	Snapshot *run = calloc(1, sizeof(*run));

	if (!run)
		return -ENOMEM;
	run->job = run->context.job = job;
	run->context.capture = *capture;
	*capture = (Capture){0};
	*ret = run;
	return 0;
}

int snapshot_write(Snapshot *run, SnapshotResult *ret, Failure *f)
{
	int r = run_sift(run);

	if (r < 0)
		return run_failure(run, r, -1, f);
	run_sum(run);
	r = run_write(run, f);
	if (r == 0)
		*ret = run->result;
	return r;
}

int snapshot_run(const SnapshotJob *job, SnapshotResult *ret, Failure *f)
{
	_cleanup_(snapshot_freep) Snapshot *run = NULL;
	int r = snapshot_copy(&run, job, f);

	return r < 0 ? r : snapshot_write(run, ret, f);
}
