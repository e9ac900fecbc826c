/* SPDX-License-Identifier: MIT */
#include "daemon/part.h"

#include <inttypes.h>
#include <stdio.h>

#include "daemon/trace/environment.h"
#include "daemon/trace/index.h"
#include "daemon/trace/metadata.h"
#include "daemon/trace/packet.h"

static const char *const cause_names[ABI_LOST_CAUSES] = {
    [ABI_LOST_FULL] = "full", [ABI_LOST_HELD] = "held",   [ABI_LOST_BIG] = "big",
    [ABI_LOST_BUSY] = "busy", [ABI_LOST_VFORK] = "vfork",
};

static const char *policy_text(u32 policy)
{
	return policy == ABI_POLICY_BLOCK ? "block" : policy == ABI_POLICY_DISCARD ? "discard" : "overwrite";
}

int part_sift(Part *p, const PartContext *c, const SnapshotSource *source, size_t index)
{
	const SnapshotJob *job = c->job;
	const SieveLimit limit = {
	    .cut = c->capture.cut,
	    .keep_since = job->duration_ns && c->capture.cut > job->duration_ns
			      ? c->capture.cut - job->duration_ns
			      : 0,
	};
	/* pinned records stay, whatever is asked of the rest */
	const SieveLimit all = { .cut = limit.cut };
	u32 n_ring = source->geometry.n_ring;
	int r;

	p->source = source;
	r = class_table_new(&p->classes, p->source->classes, p->source->n_classes,
			    p->source->geometry.contexts);
	if (r < 0)
		return r;
	p->rings = calloc(c->capture.n_rings + 1, sizeof(*p->rings));
	p->sieves = calloc(c->capture.n_rings + 1, sizeof(*p->sieves));
	if (!p->rings || !p->sieves)
		return -ENOMEM;
	for (size_t i = 0; i < c->capture.n_rings; i++) {
		CaptureRing *ring = &c->capture.rings[i];

		if (ring->source != index)
			continue;
		r = sieve_ring(&p->sieves[p->n_rings], ring, p->classes, ring->pinned ? &all : &limit);
		if (r < 0)
			return r;
		p->rings[p->n_rings++] = ring;
	}
	/* side rings are numbered behind the last CPU, so that no reader takes two streams for one
	 * CPU's */
	p->side_cpu = n_ring;
	for (u32 i = 0; i < n_ring; i++)
		if (p->source->cpu_of_ring[i] < ABI_MAX_CPUS)
			p->side_cpu = MAX(p->side_cpu, p->source->cpu_of_ring[i] + 1);
	return class_table_used(p->classes, &p->used, &p->n_used);
}

void part_clear(Part *p)
{
	for (size_t i = 0; p->sieves && i < p->n_rings; i++)
		sieve_clear(&p->sieves[i]);
	class_table_free(p->classes);
	free(p->rings);
	free(p->sieves);
	free(p->used);
	free(p->name);
	*p = (Part){0};
}

/* ---- what is said ---- */

static void ring_name(char ret[40], const Part *p, u32 ring)
{
	u32 n_ring = p->source->geometry.n_ring;

	trace_ring_name(ret, &p->source->geometry, ring, ring < n_ring ? p->source->cpu_of_ring[ring] : 0);
}

static void say_ring(Environment *e, const Part *p, size_t i)
{
	const CaptureRing *ring = p->rings[i];
	const Sieve *s = &p->sieves[i];
	char name[40], key[64], lost[320];
	size_t n = 0;

	if (s->written == 0 && s->lost == 0 && s->corrupt_subs == 0 && ring->unpinned == 0)
		return;
	ring_name(name, p, ring->ring);
	(void)snprintf(key, sizeof(key), "ring_%s", name);
	lost[0] = '\0';
	for (u32 k = 0; k < ABI_LOST_CAUSES; k++)
		if (ring->lost[k])
			n += (size_t)snprintf(lost + n, sizeof(lost) - n, " lost_%s=%" PRIu64,
					      cause_names[k] ? cause_names[k] : "other",
					      (uint64_t)ring->lost[k]);
	if (ring->unpinned)
		n += (size_t)snprintf(lost + n, sizeof(lost) - n, " unpinned=%" PRIu64, (uint64_t)ring->unpinned);
	environment_add(e, key,
			"written=%" PRIu64 " kept=%" PRIu64 " overwritten=%" PRIu64
			" trimmed=%" PRIu64 " corrupt=%" PRIu64 " after_cut=%" PRIu64
			" clamped=%" PRIu64 " corrupt_sub_buffers=%" PRIu64 "%s",
			(uint64_t)s->written, (uint64_t)s->kept, (uint64_t)s->overwritten,
			(uint64_t)s->trimmed, (uint64_t)s->corrupt, (uint64_t)s->after_cut,
			(uint64_t)s->clamped, (uint64_t)s->corrupt_subs, lost);
}

static void say_sums(Environment *e, const Part *p)
{
	u64 lost[ABI_LOST_CAUSES] = {0}, pinned = 0, unpinned = 0;
	Sieve sum = {0};

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
		pinned += p->rings[i]->pinned ? s->kept : 0;
		unpinned += p->rings[i]->unpinned;
	}
	environment_add(e, "records_kept", "%" PRIu64, (uint64_t)sum.kept);
	environment_add(e, "records_written", "%" PRIu64, (uint64_t)(sum.written - sum.after_cut));
	environment_add(e, "records_overwritten", "%" PRIu64, (uint64_t)sum.overwritten);
	environment_add(e, "records_trimmed", "%" PRIu64, (uint64_t)sum.trimmed);
	environment_add(e, "records_corrupt", "%" PRIu64, (uint64_t)sum.corrupt);
	environment_add(e, "records_clamped", "%" PRIu64, (uint64_t)sum.clamped);
	if (p->source->geometry.n_pinned) {
		environment_add(e, "records_pinned", "%" PRIu64, (uint64_t)pinned);
		environment_add(e, "records_unpinned", "%" PRIu64, (uint64_t)unpinned);
	}
	for (u32 k = 0; k < ABI_LOST_CAUSES; k++) {
		char key[40];

		if (!cause_names[k])
			continue;
		(void)snprintf(key, sizeof(key), "lost_%s", cause_names[k]);
		environment_add(e, key, "%" PRIu64, (uint64_t)lost[k]);
	}
}

u64 part_begin(const Part *p, const PartContext *c)
{
	u64 begin = c->capture.cut;

	for (size_t i = 0; i < p->n_rings; i++)
		if (p->sieves[i].n > 0 && !p->rings[i]->pinned)
			begin = MIN(begin, p->sieves[i].pieces[0].begin);
	return begin;
}

int part_metadata(const Part *p, const PartContext *c, const u8 *uuid, char **ret, size_t *ret_size)
{
	_cleanup_(environment_clear) Environment e = {0};
	const SnapshotJob *job = c->job;
	u64 real = c->clock.realtime_offset_ns;

	if (job->hostname) {
		environment_add(&e, "hostname", "%s", job->hostname);
		environment_add(&e, "boot_id", "%s", job->boot_id);
	} else {
		environment_add_host(&e);
	}
	environment_add(&e, "session", "%s", job->session);
	environment_add(&e, "owner", "%s", p->source->label);
	environment_add(&e, "trigger", "%s", job->trigger);
	environment_add(&e, "reason", "%s", job->reason ? job->reason : "");
	environment_add(&e, "snapshot", "%s", job->name);
	for (size_t i = 0; i < job->n_environment; i++)
		environment_add(&e, job->environment[i].key, "%s", job->environment[i].value);
	environment_add(&e, "policy", "%s", policy_text(p->source->geometry.policy));
	environment_add_time(&e, "covers_from", part_begin(p, c) + real);
	environment_add_time(&e, "covers_until", c->capture.cut + real);
	environment_add(&e, "cut_ns", "%" PRIu64, (uint64_t)c->capture.cut);
	if (job->duration_ns)
		environment_add(&e, "asked_duration_ns", "%" PRIu64, (uint64_t)job->duration_ns);
	if (job->max_size)
		environment_add(&e, "asked_max_size", "%" PRIu64, (uint64_t)job->max_size);
	environment_add(&e, "hold_ns", "%" PRIu64, (uint64_t)c->capture.hold_ns);
	environment_add(&e, "late", "%s", c->capture.late ? "yes" : "no");
	environment_add(&e, "side_ring_cpu_id", "%u", p->side_cpu);
	say_sums(&e, p);
	descriptions_say(&p->source->producers, 0, &e);
	for (size_t i = 0; i < p->n_rings; i++)
		say_ring(&e, p, i);
	if (e.failed)
		return -ENOMEM;

	return metadata_write(ret, ret_size,
			      &(Metadata){
				  .uuid = uuid,
				  .clock = &c->clock,
				  .contexts = p->source->geometry.contexts,
				  .environment = e.v,
				  .n_environment = e.n,
				  .classes = p->used,
				  .n_classes = p->n_used,
			      });
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

u64 part_size(const Part *p)
{
	u64 size = 0;

	for (size_t i = 0; i < p->n_rings; i++)
		size += stream_size(&p->sieves[i]);
	return size;
}

u64 part_stream_overhead(void)
{
	return INDEX_HEADER + INDEX_ENTRY + packet_size(0);
}

/* A loss is said as the difference between two packets. One that falls into the first packet's time
 * needs another before it: an empty one, at its begin. */
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
	info.cpu = info.stream_instance < p->source->geometry.n_ring
		       ? p->source->cpu_of_ring[info.stream_instance]
		       : p->side_cpu + info.stream_instance - p->source->geometry.n_ring;
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

int part_write(const Part *p, const PartContext *c, int dir_fd, u64 *ret_bytes)
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
		r = part_metadata(p, c, trace_uuid(trace), &text, &size);
	if (r == 0)
		r = trace_finish(trace, text, size);
	if (r == 0)
		*ret_bytes = trace_bytes(trace);
	return r;
}
