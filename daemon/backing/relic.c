/* SPDX-License-Identifier: MIT */
#include "daemon/backing/relic.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "daemon/backing/finds.h"
#include "daemon/backing/programs.h"
#include "lib/reader.h"

void relic_clear(Relic *r)
{
	for (u32 i = 0; r->rings && i < r->n_rings; i++)
		if (r->rings[i].copy)
			(void)munmap(r->rings[i].copy, r->rings[i].allocated);
	glossary_classes_clear(&r->classes);
	descriptions_clear(&r->programs);
	free(r->rings);
	free(r->cpu_of_ring);
	*r = (Relic){};
}

/* ---- what is missing ---- */

/* Records between the end of what is before a gap and what is behind it. */
static void missing_text(char ret[64], u64 from, u64 to)
{
	if (from == UINT64_MAX || to == UINT64_MAX || to < from)
		(void)snprintf(ret, 64, "an unknown number of records");
	else
		(void)snprintf(ret, 64, "%" PRIu64 " record%s", (uint64_t)(to - from), to - from == 1 ? "" : "s");
}

static void gap_say(const Relic *r, u32 ring, u64 first, u64 last, u64 from, u64 to, bool damage, Notes *notes)
{
	u64 sub_size = geometry_sub_size(&r->geometry, ring);
	char records[64], subs[64];

	missing_text(records, from, to);
	if (first == last)
		(void)snprintf(subs, sizeof(subs), "sub-buffer %" PRIu64, (uint64_t)(first / sub_size));
	else
		(void)snprintf(subs, sizeof(subs), "sub-buffers %" PRIu64 " to %" PRIu64, (uint64_t)(first / sub_size),
			       (uint64_t)(last / sub_size));
	notes_add(notes, damage, "owner %s, ring %u: %s %s, %s lost", r->label, ring, subs,
		  damage ? "torn or missing" : "not finished when the machine died", records);
}

/* Says what of [first, end) is not there, gap by gap. `count`: records up to `end`. */
static void gaps_say(const Relic *r, const Finds *d, u32 ring, const struct backing_table_ring *t, bool damage,
		     Notes *notes)
{
	u64 sub_size = geometry_sub_size(&r->geometry, ring), gap = UINT64_MAX, known = UINT64_MAX, last = 0;

	for (u64 p = t->first; p < t->end; p += sub_size) {
		const Found *f = finds_at(d, ring, p);
		bool there = finds_there(d, ring, t, p);

		if (there && gap != UINT64_MAX) {
			gap_say(r, ring, gap, last, known, f->before, damage, notes);
			gap = UINT64_MAX;
		}
		if (!there && gap == UINT64_MAX) {
			gap = p;
			if (f)
				known = f->count; /* some of it is there */
			else if (p == 0)
				known = 0;
		}
		if (there)
			known = f->count;
		last = p;
	}
	if (gap != UINT64_MAX)
		gap_say(r, ring, gap, last, known, t->count, damage, notes);
}

/* ---- one ring put together ---- */

/* How far what a cut-off pass has left may be ahead of the pass before, in laps: what lies between is counted one by one. */
#define LAPS_MAX 8

/* The last pass that is whole comes first: what is newer is used as far as it can be put behind it. */
static const Found *ring_newest(const Relic *r, const Finds *d, u32 ring, Notes *notes)
{
	u64 size = geometry_ring_size(&r->geometry, ring);
	const struct backing_table_ring *t = d->reference ? &d->reference->rings[ring] : NULL;
	size_t n = d->n_found[ring];

	if (t && t->end > t->first)
		while (n > 1 && d->found[ring][n - 1].position - MIN(d->found[ring][n - 1].position, t->first) >= LAPS_MAX * size &&
		       d->found[ring][0].position < t->end)
			n--;
	if (n < d->n_found[ring])
		notes_add(notes, false, "owner %s, ring %u: %zu newer sub-buffers are left out: the ring had gone round %u times since "
					"the last pass",
			  r->label, ring, d->n_found[ring] - n, LAPS_MAX);
	return &d->found[ring][n - 1];
}

/* Where what can be used begins: everything that the pass lists, and what is older without a hole. */
static u64 ring_begin(const Relic *r, const Finds *d, u32 ring, const Found *newest)
{
	u64 sub_size = geometry_sub_size(&r->geometry, ring), size = geometry_ring_size(&r->geometry, ring);
	u64 bottom = newest->position >= size ? newest->position - size + sub_size : 0, listed = newest->position;
	u64 begin = newest->position;

	if (d->reference && d->reference->rings[ring].end > d->reference->rings[ring].first)
		listed = MIN(listed, d->reference->rings[ring].first);
	if (newest->position - listed >= LAPS_MAX * size)
		listed = newest->position; /* nothing of it was found */
	bottom = MIN(bottom, listed);
	for (u64 p = newest->position; p > bottom;) {
		p -= sub_size;
		if (finds_at(d, ring, p))
			begin = p;
		else if (p < listed)
			break;
	}
	return begin;
}

/* Records in the sub-buffer at p: for a count that nobody wrote down. */
static u64 records_walk(const u8 *p, u32 size)
{
	struct abi_sub h;
	u64 n = 0;

	memcpy(&h, p, sizeof(h));
	for (u32 at = ABI_SUB_HEADER; at < size; n++) {
		u64 clock = h.begin;
		struct record unused;
		u32 step = record_parse(p + at, size - at, &clock, &unused);

		if (step == 0)
			break;
		at += step;
	}
	return n;
}

static int ring_place(const Relic *r, Finds *d, u32 ring, const Found *f, CaptureRing *c, bool newest)
{
	u8 *to = c->copy + (f->position - c->first);
	struct abi_sub h;

	if (finds_copy(d, ring, f) < 0)
		return -EBADMSG;
	memcpy(to, d->copy, f->size);
	memcpy(&h, to, sizeof(h));
	if (!f->complete && !newest) {
		/* its ring went on, and what it was then is not here: its content ends where this copy did */
		h.end = f->end;
		memcpy(to, &h, sizeof(h));
	}
	if (newest && c->count == UINT64_MAX)
		c->count = f->before == UINT64_MAX ? 0 : f->before + records_walk(to, f->size);
	return 0;
}

static void ring_losses(const Finds *d, u32 ring, u64 said, CaptureRing *c)
{
	u64 sum = 0;

	if (!d->tables[0].valid)
		return;
	for (u32 k = 0; k < ABI_LOST_CAUSES; k++) {
		c->lost[k] = d->tables[0].rings[ring].lost[k];
		if (__builtin_add_overflow(sum, c->lost[k], &sum))
			sum = UINT64_MAX;
	}
	/* newer than the table: by which cause is not known */
	if (said > sum)
		c->lost[ABI_LOST_CAUSES - 1] += said - sum;
}

static int ring_assemble(Relic *r, Finds *d, u32 ring, Notes *notes)
{
	CaptureRing *c = &r->rings[ring];
	u64 sub_size = geometry_sub_size(&r->geometry, ring), begin;
	const Found *newest;

	*c = (CaptureRing){ .ring = ring, .size = geometry_ring_size(&r->geometry, ring), .sub_size = sub_size };
	if (d->n_found[ring] == 0) {
		ring_losses(d, ring, 0, c);
		return 0;
	}
	newest = ring_newest(r, d, ring, notes);
	begin = ring_begin(r, d, ring, newest);
	ring_losses(d, ring, newest->lost, c);
	c->offset = newest->end;
	c->count = newest->count;
	c->first = c->oldest = begin;
	c->oldest_count = UINT64_MAX;
	c->allocated = newest->position + sub_size - begin;
	c->copy = mmap(NULL, c->allocated, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (c->copy == MAP_FAILED) {
		/* whatever the head says of its size: the other rings are others */
		notes_add(notes, true, "owner %s, ring %u: there are no addresses for its %" PRIu64 " bytes", r->label, ring,
			  (uint64_t)c->allocated);
		*c = (CaptureRing){ .ring = ring, .size = c->size, .sub_size = sub_size };
		return 0;
	}
	for (size_t i = 0; i < d->n_found[ring]; i++) {
		const Found *f = &d->found[ring][i];

		if (f->position < begin || f->position > newest->position)
			continue;
		if (ring_place(r, d, ring, f, c, f == newest) < 0) {
			notes_add(notes, true, "owner %s, ring %u: sub-buffer %" PRIu64 " reads as other bytes each time",
				  r->label, ring, (uint64_t)(f->position / sub_size));
			if (c->count == UINT64_MAX)
				c->count = 0;
			continue;
		}
		if (f->position == begin)
			c->oldest_count = f->before;
		r->cut = MAX(r->cut, f->time);
		r->n_sub_buffers++;
	}
	return 0;
}

static void rings_say(const Relic *r, const Finds *d, Notes *notes)
{
	if (d->n_torn)
		/* places that were being written: what of them counts is named below */
		notes_add(notes, false, "owner %s: %u places hold a sub-buffer that was not written to its end", r->label,
			  d->n_torn);
	for (u32 i = 0; i < r->n_rings; i++) {
		if (d->reference)
			gaps_say(r, d, i, &d->reference->rings[i], true, notes);
		if (d->cut_off) {
			struct backing_table_ring t = d->tables[0].rings[i];

			/* what the pass before lists was said already */
			if (d->reference)
				t.first = MAX(t.first, d->reference->rings[i].end & ~(geometry_sub_size(&r->geometry, i) - 1));
			gaps_say(r, d, i, &t, false, notes);
		}
	}
}

/* ---- the whole ---- */

static int classes_read(Relic *r, Finds *d, int dir_fd, const char *name, Notes *notes)
{
	size_t stem = strlen(name) - strlen(BACKING_RINGS);
	_cleanup_free_ char *glossary = NULL;
	_cleanup_close_ int fd = -1;
	struct stat st;
	int k;

	if (asprintf(&glossary, "%.*s" BACKING_GLOSSARY, (int)stem, name) < 0) {
		glossary = NULL;
		return -ENOMEM;
	}
	fd = openat(dir_fd, glossary, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
		/* nothing was recorded before the first class was known */
		if (d->tables[0].valid && r->n_sub_buffers)
			notes_add(notes, true, "%s: cannot be read: %s; no event of these rings can be decoded", glossary,
				  fd < 0 ? strerror(errno) : "no file");
		return 0;
	}
	k = glossary_read(&r->classes, fd, d->id);
	if (k == -ENOMEM)
		return k;
	if (k < 0)
		notes_add(notes, true, "%s: %s", glossary, strerror(-k));
	if (d->reference && r->classes.size < d->reference->head.glossary)
		notes_add(notes, true, "%s: its end is missing; events whose class was there count as corrupt", glossary);
	/* the last entry may have been torn by the power cut: then no record that needs it was written */
	if (r->classes.n_bad)
		notes_add(notes, r->classes.n_bad > 1, "%s: %u places are torn%s; events whose class was there count as corrupt",
			  glossary, r->classes.n_bad, r->classes.given_up ? ", and what is behind them was not looked at" : "");
	return 0;
}

/* Who they are of is for people: nothing of the rings depends on it. */
static int relic_programs(Relic *r, const Finds *d, int dir_fd, const char *name, Notes *notes)
{
	_cleanup_free_ char *programs = NULL;
	int k;

	if (asprintf(&programs, "%.*s" BACKING_PROGRAMS, (int)(strlen(name) - strlen(BACKING_RINGS)), name) < 0) {
		programs = NULL;
		return -ENOMEM;
	}
	k = programs_read(&r->programs, dir_fd, programs, d->id);
	if (k == -ENOMEM)
		return k;
	/* the first one is written behind the first pass */
	if (k < 0 && k != -ENOENT)
		notes_add(notes, true, "%s: cannot be read: %s; whose events these are is not known", programs,
			  k == -EBADMSG ? "it is torn" : strerror(-k));
	return 0;
}

/* Streams are named by CPU, so of rings with content no two may have one. */
static void cpus_read(Relic *r, const Finds *d)
{
	u64 seen[ABI_MAX_CPUS / 64] = {};
	bool valid = d->tables[0].valid;

	for (u32 i = 0; i < r->geometry.n_ring; i++) {
		u32 cpu = valid ? d->tables[0].rings[i].cpu : i;

		if (d->n_found[i] && (cpu >= ABI_MAX_CPUS || seen[cpu / 64] >> cpu % 64 & 1))
			valid = false;
		else if (d->n_found[i])
			seen[cpu / 64] |= 1ull << cpu % 64;
	}
	for (u32 i = 0; i < r->geometry.n_ring; i++)
		r->cpu_of_ring[i] = !valid ? i : d->n_found[i] ? d->tables[0].rings[i].cpu : 0;
}

static void relic_times(Relic *r, const Finds *d)
{
	const FoundTable *newest = &d->tables[0];

	if (newest->valid) {
		r->realtime_offset = newest->head.realtime_offset;
		r->cut = newest->head.time;
		r->until = newest->head.until; /* was so when it was written, also if the rest of it was cut off */
	}
	if (d->reference) {
		r->synced = d->reference->head.begun;
		r->pass = d->reference->head.pass;
	}
}

static int relic_load(Relic *r, Finds *d, int dir_fd, const char *name, Notes *notes)
{
	int k = finds_read(d, dir_fd, name, notes);

	if (k < 0)
		return k;
	(void)snprintf(r->label, sizeof(r->label), "%s", d->label);
	r->geometry = d->geometry;
	r->n_rings = d->n_rings;
	r->rings = calloc(r->n_rings, sizeof(*r->rings));
	r->cpu_of_ring = calloc(r->geometry.n_ring, sizeof(*r->cpu_of_ring));
	if (!r->rings || !r->cpu_of_ring)
		return -ENOMEM;
	relic_times(r, d);
	cpus_read(r, d);
	for (u32 i = 0; i < r->n_rings && k == 0; i++)
		k = ring_assemble(r, d, i, notes);
	if (k < 0)
		return k;
	if (!d->tables[0].valid && r->n_sub_buffers)
		notes_add(notes, true, "owner %s: neither table can be read; what the sub-buffers themselves say is used", r->label);
	rings_say(r, d, notes);
	k = classes_read(r, d, dir_fd, name, notes);
	return k < 0 ? k : relic_programs(r, d, dir_fd, name, notes);
}

int relic_read(Relic *ret, int dir_fd, const char *name, Notes *notes)
{
	Relic r = {};
	Finds d;
	int k = relic_load(&r, &d, dir_fd, name, notes);

	finds_clear(&d);
	if (k < 0)
		relic_clear(&r);
	else
		*ret = r;
	return k;
}
