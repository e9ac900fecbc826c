/* SPDX-License-Identifier: MIT */
/* Copy (capture), judge (sieve), write (trace). By the time the first file is made everything that will be
 * written is known, its size too. */
#include "daemon/snapshot.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>

#include "daemon/capture.h"
#include "daemon/removal.h"
#include "daemon/sieve.h"
#include "daemon/trace/environment.h"
#include "daemon/trace/index.h"
#include "daemon/trace/metadata.h"
#include "daemon/trace/packet.h"

#define LEADING_PACKET (ALIGN_UP(PACKET_HEADER, PACKET_ALIGN) + INDEX_ENTRY)

/* One source on its way to disk. */
typedef struct {
	const SnapshotSource *source; /* borrowed */
	ClassTable *classes;	      /* owned */
	CaptureRing **rings;	      /* owned array; borrowed from the capture */
	Sieve *sieves;		      /* owned, one per ring */
	size_t n_rings;
	TraceClass *used; /* owned */
	size_t n_used;
	u32 side_cpu; /* number of the first side ring */
	char *name;   /* owned: its directory */
} Part;

typedef struct {
	const SnapshotJob *job;
	Capture capture;
	TraceClock clock;
	Part *parts;
	size_t n_parts;
	SnapshotResult result;
} Run;

static const char *const cause_names[ABI_LOST_CAUSES] = {
	[ABI_LOST_FULL] = "full", [ABI_LOST_HELD] = "held",   [ABI_LOST_BIG] = "big",
	[ABI_LOST_BUSY] = "busy", [ABI_LOST_VFORK] = "vfork",
};

static void run_clear(Run *run)
{
	for (size_t i = 0; i < run->n_parts; i++) {
		Part *p = &run->parts[i];

		for (size_t j = 0; p->sieves && j < p->n_rings; j++)
			sieve_clear(&p->sieves[j]);
		class_table_free(p->classes);
		free(p->rings);
		free(p->sieves);
		free(p->used);
		free(p->name);
	}
	free(run->parts);
	capture_clear(&run->capture);
}

/* ---- judging ---- */

static int part_sift(Run *run, Part *p, size_t index)
{
	const SnapshotJob *job = run->job;
	const SieveLimit limit = {
		.cut = run->capture.cut,
		.keep_since = job->duration_ns && run->capture.cut > job->duration_ns ?
				      run->capture.cut - job->duration_ns :
				      0,
	};
	u32 n_ring = p->source->geometry.n_ring;
	int r;

	r = class_table_new(&p->classes, p->source->classes, p->source->n_classes,
			    p->source->geometry.contexts);
	if (r < 0)
		return r;
	p->rings = calloc(run->capture.n_rings + 1, sizeof(*p->rings));
	p->sieves = calloc(run->capture.n_rings + 1, sizeof(*p->sieves));
	if (!p->rings || !p->sieves)
		return -ENOMEM;
	for (size_t i = 0; i < run->capture.n_rings; i++) {
		CaptureRing *ring = &run->capture.rings[i];

		if (ring->source != index)
			continue;
		r = sieve_ring(&p->sieves[p->n_rings], ring, p->classes, &limit);
		if (r < 0)
			return r;
		p->rings[p->n_rings++] = ring;
	}
	/* side rings are numbered behind the last CPU, so that no reader takes two streams for one CPU's */
	p->side_cpu = n_ring;
	for (u32 i = 0; i < n_ring; i++)
		if (p->source->cpu_of_ring[i] < ABI_MAX_CPUS)
			p->side_cpu = MAX(p->side_cpu, p->source->cpu_of_ring[i] + 1);
	return class_table_used(p->classes, &p->used, &p->n_used);
}

/* Directories of owners must differ, also once their labels are made file names. */
static int part_name(Run *run, Part *p)
{
	char safe[200];

	trace_name(safe, sizeof(safe), p->source->label);
	for (u32 turn = 1;; turn++) {
		_cleanup_free_ char *name = NULL;
		bool taken = false;
		int r = turn == 1 ? asprintf(&name, "%s", safe) : asprintf(&name, "%s+%u", safe, turn);

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

/* ---- what is said ---- */

static void time_text(char ret[40], u64 ns)
{
	time_t s = (time_t)(ns / NSEC_PER_SEC);
	struct tm tm;
	size_t n;

	gmtime_r(&s, &tm);
	n = strftime(ret, 40, "%Y-%m-%dT%H:%M:%S", &tm);
	(void)snprintf(ret + n, 40 - n, ".%09" PRIu64 "Z", (uint64_t)(ns % NSEC_PER_SEC));
}

static void boot_id(char ret[40])
{
	_cleanup_close_ int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, ret, 36);

	ret[MAX(n, (ssize_t)0)] = '\0';
}

static void ring_name(char ret[40], const Part *p, u32 ring)
{
	u32 n_ring = p->source->geometry.n_ring;

	if (ring < n_ring)
		(void)snprintf(ret, 40, "cpu_%u", p->source->cpu_of_ring[ring]);
	else
		(void)snprintf(ret, 40, "side_%u", ring - n_ring);
}

static void say_ring(Environment *e, const Part *p, size_t i)
{
	const CaptureRing *ring = p->rings[i];
	const Sieve *s = &p->sieves[i];
	char name[40], key[64], lost[320];
	size_t n = 0;

	if (s->written == 0 && s->lost == 0 && s->corrupt_subs == 0)
		return;
	ring_name(name, p, ring->ring);
	(void)snprintf(key, sizeof(key), "ring_%s", name);
	lost[0] = '\0';
	for (u32 k = 0; k < ABI_LOST_CAUSES; k++)
		if (ring->lost[k])
			n += (size_t)snprintf(lost + n, sizeof(lost) - n, " lost_%s=%" PRIu64,
					      cause_names[k] ? cause_names[k] : "other",
					      (uint64_t)ring->lost[k]);
	environment_add(e, key,
			"written=%" PRIu64 " kept=%" PRIu64 " overwritten=%" PRIu64 " trimmed=%" PRIu64
			" corrupt=%" PRIu64 " after_cut=%" PRIu64 " clamped=%" PRIu64
			" corrupt_sub_buffers=%" PRIu64 "%s",
			(uint64_t)s->written, (uint64_t)s->kept, (uint64_t)s->overwritten,
			(uint64_t)s->trimmed, (uint64_t)s->corrupt, (uint64_t)s->after_cut,
			(uint64_t)s->clamped, (uint64_t)s->corrupt_subs, lost);
}

static void say_sums(Environment *e, const Part *p)
{
	u64 lost[ABI_LOST_CAUSES] = { 0 };
	Sieve sum = { 0 };

	for (size_t i = 0; i < p->n_rings; i++) {
		const Sieve *s = &p->sieves[i];

		sum.written += s->written;
		sum.kept += s->kept;
		sum.overwritten += s->overwritten;
		sum.trimmed += s->trimmed;
		sum.corrupt += s->corrupt;
		sum.after_cut += s->after_cut;
		sum.clamped += s->clamped;
		for (u32 k = 0; k < ABI_LOST_CAUSES; k++)
			lost[k] += p->rings[i]->lost[k];
	}
	environment_add(e, "records_kept", "%" PRIu64, (uint64_t)sum.kept);
	environment_add(e, "records_written", "%" PRIu64, (uint64_t)(sum.written - sum.after_cut));
	environment_add(e, "records_overwritten", "%" PRIu64, (uint64_t)sum.overwritten);
	environment_add(e, "records_trimmed", "%" PRIu64, (uint64_t)sum.trimmed);
	environment_add(e, "records_corrupt", "%" PRIu64, (uint64_t)sum.corrupt);
	environment_add(e, "records_clamped", "%" PRIu64, (uint64_t)sum.clamped);
	for (u32 k = 0; k < ABI_LOST_CAUSES; k++) {
		char key[40];

		if (!cause_names[k])
			continue;
		(void)snprintf(key, sizeof(key), "lost_%s", cause_names[k]);
		environment_add(e, key, "%" PRIu64, (uint64_t)lost[k]);
	}
}

/* The oldest record kept, or the cut. */
static u64 part_begin(const Run *run, const Part *p)
{
	u64 begin = run->capture.cut;

	for (size_t i = 0; i < p->n_rings; i++)
		if (p->sieves[i].n > 0)
			begin = MIN(begin, p->sieves[i].pieces[0].begin);
	return begin;
}

static int part_metadata(const Run *run, const Part *p, const u8 *uuid, char **ret, size_t *ret_size)
{
	_cleanup_(environment_clear) Environment e = { 0 };
	const SnapshotJob *job = run->job;
	u64 real = run->clock.realtime_offset_ns;
	char host[256] = "", boot[40], from[40], until[40];

	(void)gethostname(host, sizeof(host) - 1);
	boot_id(boot);
	time_text(from, part_begin(run, p) + real);
	time_text(until, run->capture.cut + real);
	environment_add(&e, "hostname", "%s", host);
	environment_add(&e, "boot_id", "%s", boot);
	environment_add(&e, "session", "%s", job->session);
	environment_add(&e, "owner", "%s", p->source->label);
	environment_add(&e, "trigger", "%s", job->trigger);
	environment_add(&e, "reason", "%s", job->reason ? job->reason : "");
	environment_add(&e, "snapshot", "%s", job->name);
	for (size_t i = 0; i < job->n_environment; i++)
		environment_add(&e, job->environment[i].key, "%s", job->environment[i].value);
	environment_add(&e, "policy", "%s",
			p->source->geometry.policy == ABI_POLICY_DISCARD ? "discard" : "overwrite");
	environment_add(&e, "covers_from", "%s", from);
	environment_add(&e, "covers_until", "%s", until);
	environment_add(&e, "cut_ns", "%" PRIu64, (uint64_t)run->capture.cut);
	if (job->duration_ns)
		environment_add(&e, "asked_duration_ns", "%" PRIu64, (uint64_t)job->duration_ns);
	if (job->max_size)
		environment_add(&e, "asked_max_size", "%" PRIu64, (uint64_t)job->max_size);
	environment_add(&e, "hold_ns", "%" PRIu64, (uint64_t)run->capture.hold_ns);
	environment_add(&e, "late", "%s", run->capture.late ? "yes" : "no");
	environment_add(&e, "side_ring_cpu_id", "%u", p->side_cpu);
	say_sums(&e, p);
	for (size_t i = 0; i < p->n_rings; i++)
		say_ring(&e, p, i);
	if (e.failed)
		return -ENOMEM;

	return metadata_write(ret, ret_size,
			      &(Metadata){
				      .uuid = uuid,
				      .clock = &run->clock,
				      .contexts = p->source->geometry.contexts,
				      .environment = e.v,
				      .n_environment = e.n,
				      .classes = p->used,
				      .n_classes = p->n_used,
			      });
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

/* What a stream file and its index take beside its packets. */
static u64 stream_overhead(void)
{
	return INDEX_HEADER + LEADING_PACKET;
}

/* Takes the oldest packets of all rings away until the rest, with metadata and indexes, is within max_size; the
 * packet at the edge loses its oldest records. */
static int run_trim(Run *run)
{
	static const u8 no_uuid[16];
	_cleanup_free_ Candidate *v = NULL;
	u64 budget = run->job->max_size, used = 0;
	size_t n = 0, keep;

	for (size_t i = 0; i < run->n_parts; i++) {
		Part *p = &run->parts[i];
		_cleanup_free_ char *text = NULL;
		size_t size;
		int r = part_metadata(run, p, no_uuid, &text, &size);

		if (r < 0)
			return r;
		used += size + 512; /* numbers may become longer */
		for (size_t j = 0; j < p->n_rings; j++) {
			n += p->sieves[j].n;
			used += p->sieves[j].n ? stream_overhead() : 0;
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

				v[n++] = (Candidate){ s->pieces[k].begin,
						      packet_size(s->pieces[k].size) + INDEX_ENTRY, s, k };
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
			sieve_trim(&run->parts[i].sieves[j], run->parts[i].sieves[j].to_trim, UINT64_MAX);
	return 0;
}

/* ---- writing ---- */

static u64 stream_size(const Sieve *s)
{
	u64 size = 0;

	if (s->n == 0)
		return 0;
	for (size_t i = 0; i < s->n; i++)
		size += packet_size(s->pieces[i].size);
	return size + packet_size(0);
}

/* A loss is said as the difference between two packets. One that falls into the first packet's time needs
 * another before it: an empty one, at its begin. */
static int write_stream(Trace *trace, const Part *p, size_t i)
{
	const Sieve *s = &p->sieves[i];
	PacketInfo info = {
		.stream_instance = p->rings[i]->ring,
		.begin = s->pieces[0].begin,
		.end = s->pieces[0].begin,
	};
	char name[40];
	int r;

	ring_name(name, p, p->rings[i]->ring);
	info.cpu = info.stream_instance < p->source->geometry.n_ring ?
			   p->source->cpu_of_ring[info.stream_instance] :
			   p->side_cpu + info.stream_instance - p->source->geometry.n_ring;
	r = trace_stream_begin(trace, name, stream_size(s));
	if (r == 0 && s->pieces[0].discarded > s->discarded_base) {
		r = trace_stream_packet(trace, &info, NULL, 0);
		info.sequence++;
	}
	for (size_t j = 0; j < s->n && r == 0; j++) {
		const Piece *piece = &s->pieces[j];

		if (j > 0)
			info.sequence += piece->gap;
		info.begin = piece->begin;
		info.end = piece->end;
		info.discarded = piece->discarded - s->discarded_base;
		r = trace_stream_packet(trace, &info, piece->records, piece->size);
		info.sequence++;
	}
	return r < 0 ? r : trace_stream_end(trace);
}

static int write_part(Run *run, Part *p, int dir_fd)
{
	_cleanup_(trace_freep) Trace *trace = NULL;
	_cleanup_free_ char *text = NULL;
	size_t size;
	int r;

	r = trace_new(&trace, dir_fd, p->name);
	for (size_t i = 0; i < p->n_rings && r == 0; i++)
		if (p->sieves[i].n > 0)
			r = write_stream(trace, p, i);
	if (r == 0)
		r = part_metadata(run, p, trace_uuid(trace), &text, &size);
	if (r == 0)
		r = trace_finish(trace, text, size);
	if (r == 0)
		run->result.n_bytes += trace_bytes(trace);
	return r;
}

static int write_all_parts(Run *run, int parent, const char *temporary)
{
	_cleanup_close_ int fd = -1;
	int r = 0;

	if (mkdirat(parent, temporary, 0750) < 0)
		return -errno;
	fd = openat(parent, temporary, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0 || fchmod(fd, 0750) < 0)
		return -errno;
	for (size_t i = 0; i < run->n_parts && r == 0; i++)
		r = write_part(run, &run->parts[i], fd);
	if (r == 0 && fsync(fd) < 0)
		r = -errno;
	return r;
}

/* No name is ever taken over from another snapshot. File systems without RENAME_NOREPLACE answer EINVAL: there
 * a directory that is in the way and not empty still makes rename() fail. */
static int publish(int parent, const char *temporary, const char *name)
{
	if (renameat2(parent, temporary, parent, name, RENAME_NOREPLACE) < 0) {
		if (errno != EINVAL && errno != ENOSYS)
			return -errno;
		if (renameat(parent, temporary, parent, name) < 0)
			return -errno;
	}
	/* The snapshot is there, whole, for everybody; if the directory cannot be synced, a power cut may still
	 * take it back, which is no reason to take it back ourselves. */
	(void)fsync(parent);
	return 0;
}

static u64 run_size(const Run *run)
{
	u64 size = 0;

	for (size_t i = 0; i < run->n_parts; i++)
		for (size_t j = 0; j < run->parts[i].n_rings; j++)
			size += stream_size(&run->parts[i].sieves[j]);
	return size;
}

static int run_failure(const Run *run, int error, int parent, Failure *f)
{
	const SnapshotJob *job = run->job;
	struct statvfs v;

	if (error == -ENOMEM)
		return failure_set(f, FAILURE_NO_MEMORY,
				   "snapshot of session '%s' failed: not enough memory to copy its rings; "
				   "make `memory` of the session smaller or give the daemon more",
				   job->session);
	if (error == -ENOSPC || error == -EDQUOT) {
		u64 available = 0;

		if (parent >= 0 && fstatvfs(parent, &v) == 0)
			available = (u64)v.f_bavail * v.f_frsize;
		return failure_set(f, FAILURE_NO_SPACE,
				   "snapshot of session '%s' failed: %s in %s: it needs %" PRIu64
				   " bytes, %" PRIu64 " are available; nothing of it was kept; free space, or "
				   "lower snapshot.max_count, snapshot.max_size or snapshot.duration",
				   job->session, strerror(-error), job->directory, (uint64_t)run_size(run),
				   (uint64_t)available);
	}
	return failure_set(f, FAILURE_IO, "snapshot of session '%s' failed: cannot write %s/%s: %s",
			   job->session, job->directory, job->name, strerror(-error));
}

static int run_write(Run *run, Failure *f)
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

static int run_capture(Run *run)
{
	const SnapshotJob *job = run->job;
	const CaptureLimit limit = {
		.duration_ns = job->duration_ns,
		.ring_bytes = job->max_size,
	};
	_cleanup_free_ CaptureSource *sources = calloc(job->n_sources + 1, sizeof(*sources));

	if (!sources)
		return -ENOMEM;
	for (size_t i = 0; i < job->n_sources; i++)
		sources[i] = (CaptureSource){ job->sources[i].map, &job->sources[i].geometry };
	return capture_take(&run->capture, sources, job->n_sources, &job->clock, &limit);
}

/* Stands in a session that no program has joined: a trace that says so. */
static const SnapshotSource nobody = { .label = "nobody" };

static int run_sift(Run *run)
{
	const SnapshotJob *job = run->job;
	int r = 0;

	run->clock = job->trace_clock;
	run->clock.realtime_offset_ns = run->capture.realtime_offset_ns;
	run->parts = calloc(job->n_sources + 1, sizeof(*run->parts));
	if (!run->parts)
		return -ENOMEM;
	for (size_t i = 0; i < MAX(job->n_sources, (size_t)1) && r == 0; i++) {
		Part *p = &run->parts[run->n_parts++];

		/* readers take a directory without any trace for a mistake */
		p->source = job->n_sources ? &job->sources[i] : &nobody;
		r = part_name(run, p);
		if (r == 0)
			r = part_sift(run, p, i);
	}
	if (r == 0 && job->max_size > 0)
		r = run_trim(run);
	return r;
}

static void run_sum(Run *run)
{
	SnapshotResult *sum = &run->result;

	sum->cut = sum->begin = run->capture.cut;
	sum->hold_ns = run->capture.hold_ns;
	sum->late = run->capture.late;
	sum->reach = 1;
	for (size_t i = 0; i < run->n_parts; i++) {
		const Part *p = &run->parts[i];

		sum->begin = MIN(sum->begin, part_begin(run, p));
		for (size_t j = 0; j < p->n_rings; j++) {
			const Sieve *s = &p->sieves[j];

			sum->n_records += s->kept;
			sum->n_after_cut += s->after_cut;
			sum->overwritten += s->overwritten;
			sum->trimmed += s->trimmed;
			sum->clamped += s->clamped;
			sum->corrupt_subs += s->corrupt_subs;
			sum->corrupt_records += s->corrupt;
			sum->reach = MIN(sum->reach, s->reach);
			for (u32 k = 0; k < ABI_LOST_CAUSES; k++)
				sum->lost[k] += p->rings[j]->lost[k];
		}
	}
}

int snapshot_run(const SnapshotJob *job, SnapshotResult *ret, Failure *f)
{
	_cleanup_(run_clear) Run run = { .job = job };
	int r;

	r = run_capture(&run);
	if (r == 0)
		r = run_sift(&run);
	if (r < 0)
		return run_failure(&run, r, -1, f);
	run_sum(&run);
	if (job->copied) {
		r = job->copied(job->userdata, f);
		if (r < 0)
			return r;
	}
	r = run_write(&run, f);
	if (r == 0)
		*ret = run.result;
	return r;
}
