/* SPDX-License-Identifier: MIT */
/* Which pass was the last that is whole? A table is written with its pass, and the next pass begins only when the disk has
 * taken both: so where two tables are found, all that the older one lists must be there, and whatever of it is not is damage.
 * What the newer one lists is there as well, or that pass was cut off, and what of it arrived is used on top. Where there is one
 * table only, of a pass that was not the first, the other was being written over: then this one is that older one. */
#include "daemon/backing/relic.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "daemon/backing/format.h"
#include "daemon/backing/programs.h"
#include "daemon/bytes.h"
#include "lib/reader.h"

#define POSITION_LIMIT (1ull << 62)

/* A sub-buffer that was found whole. */
typedef struct {
	u64 position, end; /* `end`: the boundary behind it, if the ring had gone on */
	u64 before;	   /* records of the ring before it, as its header says */
	u64 count;	   /* ... and up to `end`; UINT64_MAX: not known */
	u64 pass, time, lost;
	u64 at; /* in the file */
	u32 size;
	bool complete;
} Found;

typedef struct {
	bool valid;
	struct backing_table head;
	struct backing_table_ring *rings; /* owned */
} Table;

typedef struct {
	int fd;
	u64 size;
	u64 id;
	Table tables[2]; /* the newer one first */
	bool cut_off;	 /* tables[0] is of a pass that was not finished */
	const Table *reference; /* of the last pass that was; NULL: none was */
	Found **found;	 /* owned: of each ring, sorted by position, the best of each */
	size_t *n_found; /* owned */
	u32 n_torn;
	u8 *copy; /* owned: a sub-buffer */
} Reading;

static void reading_clear(Reading *d, u32 n_rings)
{
	for (u32 i = 0; d->found && i < n_rings; i++)
		free(d->found[i]);
	free(d->found);
	free(d->n_found);
	free(d->tables[0].rings);
	free(d->tables[1].rings);
	free(d->copy);
	(void)close_fd(d->fd);
}

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

/* Its own word for the checksum is 0 while it is computed. */
static bool sum_matches(void *p, u64 size, u64 *word)
{
	u64 sum = *word;

	*word = 0;
	return backing_checksum(0, p, size) == sum;
}

/* ---- heads ---- */

static int head_read(Relic *r, Reading *d, const char *name, Notes *notes)
{
	struct backing_image h;
	struct stat st;

	if (d->fd < 0 || fstat(d->fd, &st) < 0 || !S_ISREG(st.st_mode)) {
		notes_add(notes, true, "%s: cannot be read: %s", name, d->fd < 0 ? strerror(errno) : "no file");
		return -EBADMSG;
	}
	d->size = (u64)st.st_size;
	if (read_at(d->fd, &h, sizeof(h), 0) != sizeof(h) || h.magic != BACKING_MAGIC_IMAGE ||
	    !sum_matches(&h, sizeof(h), &h.checksum)) {
		notes_add(notes, true, "%s: its first block is torn or none of ours; nothing of these rings can be read", name);
		return -EBADMSG;
	}
	if (h.version != BACKING_VERSION) {
		notes_add(notes, true, "%s: is of version %u, which this program does not know", name, h.version);
		return -EBADMSG;
	}
	r->geometry = (struct geometry){ .ring_shift = h.ring_shift,
					 .sub_shift = h.sub_shift,
					 .side_shift = h.side_shift,
					 .side_sub_shift = h.side_sub_shift,
					 .pinned_shift = h.pinned_shift,
					 .pinned_sub_shift = h.pinned_sub_shift,
					 .n_ring = h.n_ring,
					 .n_side = h.n_side,
					 .n_pinned = h.n_pinned,
					 .policy = h.policy,
					 .contexts = h.contexts };
	h.label[sizeof(h.label) - 1] = '\0';
	if (geometry_check(&r->geometry) < 0 || !h.label[0]) {
		notes_add(notes, true, "%s: its first block says what cannot be; nothing of these rings can be read", name);
		return -EBADMSG;
	}
	(void)snprintf(r->label, sizeof(r->label), "%s", h.label);
	d->id = h.id;
	return 0;
}

static bool table_ring_valid(const struct backing_table_ring *t, u64 size, u64 sub_size)
{
	return t->first <= t->end && t->end <= POSITION_LIMIT && t->first % sub_size == 0 && t->end % 4 == 0 &&
	       t->end - t->first <= size;
}

static int table_read(const Relic *r, Reading *d, u32 which, Table *ret)
{
	u64 size = sizeof(struct backing_table) + (u64)r->n_rings * sizeof(struct backing_table_ring);
	_cleanup_free_ u8 *p = malloc(size);
	struct backing_table *t = (void *)p;

	if (!p)
		return -ENOMEM;
	if (read_at(d->fd, p, size, backing_table_at(&r->geometry, which)) != (ssize_t)size || t->magic != BACKING_MAGIC_TABLE ||
	    t->image != d->id || t->n_rings != r->n_rings || t->pass == 0 || (t->pass & 1) != which ||
	    !sum_matches(p, size, &t->checksum))
		return 0;
	ret->rings = calloc(r->n_rings, sizeof(*ret->rings));
	if (!ret->rings)
		return -ENOMEM;
	memcpy(ret->rings, t + 1, r->n_rings * sizeof(*ret->rings));
	for (u32 i = 0; i < r->n_rings; i++)
		if (!table_ring_valid(&ret->rings[i], geometry_ring_size(&r->geometry, i),
				      geometry_sub_size(&r->geometry, i)))
			return 0;
	ret->head = *t;
	ret->valid = true;
	return 0;
}

static int tables_read(const Relic *r, Reading *d)
{
	for (u32 which = 0; which < 2; which++) {
		int k = table_read(r, d, which, &d->tables[which]);

		if (k < 0)
			return k;
	}
	if (!d->tables[0].valid || (d->tables[1].valid && d->tables[1].head.pass > d->tables[0].head.pass)) {
		Table t = d->tables[0];

		d->tables[0] = d->tables[1];
		d->tables[1] = t;
	}
	/* tables of passes that do not follow one another are of no one image */
	if (d->tables[1].valid && d->tables[1].head.pass + 1 != d->tables[0].head.pass)
		d->tables[1].valid = false;
	return 0;
}

/* ---- slots ---- */

/* The slot at `at`, into d->copy. 1; 0: nothing was ever written there, or not by us; -EBADMSG: torn. */
static int slot_read(const Relic *r, Reading *d, u32 ring, u64 at, Found *ret)
{
	u64 sub_size = geometry_sub_size(&r->geometry, ring);
	u8 *room = d->copy + offsetof(struct abi_sub, room);
	struct backing_slot h;
	struct abi_sub sub;
	u64 sum;

	if (read_at(d->fd, d->copy, ABI_SUB_HEADER, at) != ABI_SUB_HEADER)
		return 0;
	memcpy(&h, room, sizeof(h));
	if (h.magic != BACKING_MAGIC_SLOT || h.image != d->id)
		return 0;
	if (h.ring != ring || h.size <= ABI_SUB_HEADER || h.size > sub_size || h.size % 4 ||
	    h.position > POSITION_LIMIT || h.position % sub_size ||
	    read_at(d->fd, d->copy + ABI_SUB_HEADER, h.size - ABI_SUB_HEADER, at + ABI_SUB_HEADER) != h.size - ABI_SUB_HEADER)
		return -EBADMSG;
	sum = h.checksum;
	memset(room + offsetof(struct backing_slot, checksum), 0, sizeof(u64));
	if (backing_checksum(0, d->copy, h.size) != sum)
		return -EBADMSG;
	memcpy(&sub, d->copy, sizeof(sub));
	*ret = (Found){
		.position = h.position,
		.end = h.complete ? h.position + sub_size : h.position + h.size,
		.before = sub.position == h.position ? sub.count : UINT64_MAX,
		.count = h.count,
		.pass = h.pass,
		.time = h.time,
		.lost = h.lost,
		.at = at,
		.size = h.size,
		.complete = h.complete != 0,
	};
	return 1;
}

/* By position; of one position the best first: the one that goes furthest, then the newest. */
static int compare_found(const void *a, const void *b)
{
	const Found *x = a, *y = b;

	if (x->position != y->position)
		return x->position < y->position ? -1 : 1;
	if (x->end != y->end)
		return x->end > y->end ? -1 : 1;
	return x->pass > y->pass ? -1 : x->pass < y->pass ? 1 : 0;
}

static int ring_scan(const Relic *r, Reading *d, u32 ring)
{
	u64 sub_size = geometry_sub_size(&r->geometry, ring), at = backing_slots_at(&r->geometry, ring);
	u64 begin = at, end = MIN(d->size, at + backing_n_slots(&r->geometry, ring) * sub_size);
	size_t allocated = 0, n = 0, k = 0;
	Found *v = NULL;

	while (at < end) {
		/* holes are skipped, so that an image with room for four thousand CPUs is read as fast as one for two */
		off_t data = lseek(d->fd, (off_t)at, SEEK_DATA);
		Found f;
		int found;

		if (data < 0 && errno == ENXIO)
			break;
		if (data > (off_t)at) {
			at = begin + ((u64)data - begin) / sub_size * sub_size;
			if (at >= end)
				break;
		}
		found = slot_read(r, d, ring, at, &f);
		at += sub_size;
		d->n_torn += found < 0;
		if (found <= 0)
			continue;
		if (n == allocated) {
			size_t more = allocated ? allocated * 2 : 32;
			Found *w = reallocarray(v, more, sizeof(*w));

			if (!w) {
				free(v);
				return -ENOMEM;
			}
			v = w;
			allocated = more;
		}
		v[n++] = f;
	}
	if (n)
		qsort(v, n, sizeof(*v), compare_found);
	for (size_t i = 0; i < n; i++)
		if (k == 0 || v[k - 1].position != v[i].position)
			v[k++] = v[i];
	d->found[ring] = v;
	d->n_found[ring] = k;
	return 0;
}

static const Found *found_at(const Reading *d, u32 ring, u64 position)
{
	size_t low = 0, high = d->n_found[ring];

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (d->found[ring][middle].position < position)
			low = middle + 1;
		else
			high = middle;
	}
	return low < d->n_found[ring] && d->found[ring][low].position == position ? &d->found[ring][low] : NULL;
}

/* ---- which pass ---- */

/* The sub-buffer at `position` is there as far as the table says. */
static bool sub_there(const Relic *r, const Reading *d, u32 ring, const struct backing_table_ring *t, u64 position)
{
	const Found *f = found_at(d, ring, position);

	return f && f->end >= MIN(position + geometry_sub_size(&r->geometry, ring), t->end);
}

static bool table_whole(const Relic *r, const Reading *d, const Table *t)
{
	for (u32 i = 0; i < r->n_rings; i++)
		for (u64 p = t->rings[i].first; p < t->rings[i].end; p += geometry_sub_size(&r->geometry, i))
			if (!sub_there(r, d, i, &t->rings[i], p))
				return false;
	return true;
}

static void reference_choose(Relic *r, Reading *d)
{
	const Table *newer = &d->tables[0], *older = &d->tables[1];

	if (!newer->valid)
		return;
	r->realtime_offset = newer->head.realtime_offset;
	r->cut = newer->head.time;
	r->until = newer->head.until; /* was so when it was written, also if the rest of it was cut off */
	d->cut_off = !table_whole(r, d, newer) && (older->valid || newer->head.pass == 1);
	if (!d->cut_off)
		d->reference = newer;
	else if (older->valid)
		d->reference = older;
	if (d->reference) {
		r->synced = d->reference->head.begun;
		r->pass = d->reference->head.pass;
	}
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
static void gaps_say(const Relic *r, const Reading *d, u32 ring, const struct backing_table_ring *t, bool damage,
		     Notes *notes)
{
	u64 sub_size = geometry_sub_size(&r->geometry, ring), gap = UINT64_MAX, known = UINT64_MAX, last = 0;

	for (u64 p = t->first; p < t->end; p += sub_size) {
		const Found *f = found_at(d, ring, p);
		bool there = sub_there(r, d, ring, t, p);

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
static const Found *ring_newest(const Relic *r, const Reading *d, u32 ring, Notes *notes)
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
static u64 ring_begin(const Relic *r, const Reading *d, u32 ring, const Found *newest)
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
		if (found_at(d, ring, p))
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

static int ring_place(const Relic *r, Reading *d, u32 ring, const Found *f, CaptureRing *c, bool newest)
{
	u8 *to = c->copy + (f->position - c->first);
	struct abi_sub h;
	Found again;

	/* read twice, so judged twice: a disk that gives other bytes the second time has lost this part */
	if (slot_read(r, d, ring, f->at, &again) <= 0 || again.position != f->position || again.size != f->size ||
	    again.end != f->end)
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

static void ring_losses(const Reading *d, u32 ring, u64 said, CaptureRing *c)
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

static int ring_assemble(Relic *r, Reading *d, u32 ring, Notes *notes)
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

static void rings_say(const Relic *r, const Reading *d, Notes *notes)
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

static int classes_read(Relic *r, Reading *d, int dir_fd, const char *name, Notes *notes)
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
static int relic_programs(Relic *r, const Reading *d, int dir_fd, const char *name, Notes *notes)
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
static void cpus_read(Relic *r, const Reading *d)
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

static int relic_load(Relic *r, Reading *d, int dir_fd, const char *name, Notes *notes)
{
	u64 largest;
	int k = head_read(r, d, name, notes);

	if (k < 0)
		return k;
	r->n_rings = backing_n_rings(&r->geometry);
	r->rings = calloc(r->n_rings, sizeof(*r->rings));
	r->cpu_of_ring = calloc(r->geometry.n_ring, sizeof(*r->cpu_of_ring));
	d->found = calloc(r->n_rings, sizeof(*d->found));
	d->n_found = calloc(r->n_rings, sizeof(*d->n_found));
	largest = MAX(geometry_sub_size(&r->geometry, 0), geometry_sub_size(&r->geometry, r->n_rings - 1));
	d->copy = malloc(largest);
	if (!r->rings || !r->cpu_of_ring || !d->found || !d->n_found || !d->copy)
		return -ENOMEM;
	k = tables_read(r, d);
	for (u32 i = 0; i < r->n_rings && k == 0; i++)
		k = ring_scan(r, d, i);
	if (k < 0)
		return k;
	reference_choose(r, d);
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
	Reading d = { .fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK) };
	Relic r = {};
	int k = relic_load(&r, &d, dir_fd, name, notes);

	reading_clear(&d, r.n_rings);
	if (k < 0)
		relic_clear(&r);
	else
		*ret = r;
	return k;
}
