/* SPDX-License-Identifier: MIT */
/* A pass writes sub-buffers into slots that hold nothing that counts, then the table, then waits for the disk, once. Only then do
 * older versions, and what the ring has overwritten, become free. Whatever of it reaches the disk before the power fails, in any
 * order and torn anywhere, the pass before is whole: nothing here relies on an order of writes. If the disk refuses, the pass
 * has not been: what it wrote is free, and copied again. */
#include "daemon/backing/image.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/random.h>

#include "daemon/backing/imprint.h"
#include "daemon/backing/programs.h"
#include "daemon/bytes.h"
#include "daemon/capture.h"
#include "lib/atomic.h"

struct Image {
	char *label, *rings_name, *glossary_name, *programs_name; /* owned */
	Descriptions programs; /* owned */
	bool programs_changed;
	Glossary *glossary;				/* owned */
	u64 id;
	struct geometry geometry;
	struct record_clock clock;
	const Cpus *cpus;
	int fd;
	bool headed; /* block 0 is written */
	u64 pass;    /* the last one that is durable */
	Imprint *rings; /* owned */
	u32 n_rings;
	u8 *copy;    /* owned: a sub-buffer */
	u8 *table;   /* owned */
};

/* ---- birth and end ---- */

int image_new(Image **ret, const ImageOptions *o)
{
	_cleanup_(image_freep) Image *m = calloc(1, sizeof(*m));
	u64 largest;
	char safe[200];
	int r;

	if (!m)
		return -ENOMEM;
	m->fd = -1;
	if (getrandom(&m->id, sizeof(m->id), 0) != sizeof(m->id))
		return -EIO;
	m->label = strdup(o->label);
	trace_name(safe, sizeof(safe), o->label);
	if (asprintf(&m->rings_name, "%s.%u" BACKING_RINGS, safe, o->number) < 0)
		m->rings_name = NULL;
	if (asprintf(&m->glossary_name, "%s.%u" BACKING_GLOSSARY, safe, o->number) < 0)
		m->glossary_name = NULL;
	if (asprintf(&m->programs_name, "%s.%u" BACKING_PROGRAMS, safe, o->number) < 0)
		m->programs_name = NULL;
	if (!m->label || !m->rings_name || !m->glossary_name || !m->programs_name)
		return -ENOMEM;
	r = glossary_new(&m->glossary, m->id);
	if (r < 0)
		return r;
	m->geometry = o->geometry;
	m->clock = o->clock;
	m->cpus = o->cpus;
	m->n_rings = backing_n_rings(&o->geometry);
	m->rings = calloc(m->n_rings, sizeof(*m->rings));
	largest = MAX(geometry_sub_size(&o->geometry, 0), geometry_sub_size(&o->geometry, m->n_rings - 1));
	m->copy = malloc(largest);
	m->table = malloc(backing_table_size(&o->geometry));
	if (!m->rings || !m->copy || !m->table)
		return -ENOMEM;
	for (u32 i = 0; i < m->n_rings; i++)
		imprint_init(&m->rings[i], o->map, &o->geometry, i);
	*ret = steal_ptr(m);
	return 0;
}

Image *image_free(Image *m)
{
	if (!m)
		return NULL;
	for (u32 i = 0; m->rings && i < m->n_rings; i++)
		imprint_reset(&m->rings[i]);
	(void)glossary_free(m->glossary);
	(void)close_fd(m->fd);
	free(m->rings);
	free(m->copy);
	free(m->table);
	free(m->label);
	free(m->rings_name);
	free(m->glossary_name);
	free(m->programs_name);
	descriptions_clear(&m->programs);
	free(m);
	return NULL;
}

Glossary *image_glossary(const Image *m)
{
	return m->glossary;
}

void image_reset(Image *m)
{
	for (u32 i = 0; i < m->n_rings; i++)
		imprint_reset(&m->rings[i]);
	m->fd = close_fd(m->fd);
	m->headed = false;
	m->pass = 0;
	m->programs_changed = true;
	glossary_reset(m->glossary);
}

void image_describe(Image *m, Descriptions *programs)
{
	descriptions_clear(&m->programs);
	m->programs = *programs;
	*programs = (Descriptions){};
	m->programs_changed = true;
}

int image_remove(Image *m, int dir_fd)
{
	int r = 0;

	/* the rings first: a glossary without them says nothing */
	if (unlinkat(dir_fd, m->rings_name, 0) < 0 && errno != ENOENT)
		r = -errno;
	if (unlinkat(dir_fd, m->glossary_name, 0) < 0 && errno != ENOENT && r == 0)
		r = -errno;
	programs_remove(dir_fd, m->programs_name);
	return r;
}

/* ---- the disk ---- */

static int image_open(Image *m, int dir_fd, bool *ret_made)
{
	struct backing_image h = {
		.magic = BACKING_MAGIC_IMAGE,
		.version = BACKING_VERSION,
		.id = m->id,
		.ring_shift = m->geometry.ring_shift,
		.sub_shift = m->geometry.sub_shift,
		.side_shift = m->geometry.side_shift,
		.side_sub_shift = m->geometry.side_sub_shift,
		.n_ring = m->geometry.n_ring,
		.n_side = m->geometry.n_side,
		.pinned_shift = m->geometry.pinned_shift,
		.pinned_sub_shift = m->geometry.pinned_sub_shift,
		.n_pinned = m->geometry.n_pinned,
		.policy = m->geometry.policy,
		.contexts = m->geometry.contexts,
	};
	int r;

	if (m->fd < 0) {
		m->fd = openat(dir_fd, m->rings_name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0640);
		if (m->fd < 0)
			return -errno;
	}
	if (m->headed)
		return 0;
	(void)snprintf(h.label, sizeof(h.label), "%s", m->label);
	h.checksum = backing_checksum(0, &h, sizeof(h));
	r = write_at(m->fd, &h, sizeof(h), 0);
	if (r == 0 && ftruncate(m->fd, (off_t)backing_slots_at(&m->geometry, m->n_rings)) < 0)
		r = -errno;
	/* durable before anything that it explains; fsync: the size too */
	if (r == 0 && fsync(m->fd) < 0)
		r = -errno;
	if (r < 0)
		return r;
	m->headed = true;
	*ret_made = true;
	return 0;
}

/* ---- the end of a pass ---- */

static u32 ring_cpu(const Image *m, u32 ring)
{
	if (geometry_is_side(&m->geometry, ring))
		return 0;
	/* relaxed: set before the ring has memory, so before anything is in it */
	return load_relaxed_u32(&m->cpus->cpu_of[ring]);
}

/* The pass as the table will have it, in m->table. */
static u64 table_make(Image *m, const Pass *p)
{
	struct backing_table *t = (void *)m->table;
	struct backing_table_ring *v = (void *)(t + 1);
	u64 size = sizeof(*t) + m->n_rings * sizeof(*v);

	memset(m->table, 0, backing_table_size(&m->geometry));
	*t = (struct backing_table){
		.magic = BACKING_MAGIC_TABLE,
		.image = m->id,
		.pass = p->number,
		.begun = p->begun,
		.time = record_clock_now(&m->clock),
		.until = p->until,
		.realtime_offset = capture_realtime_offset(&m->clock),
		.glossary = glossary_size(m->glossary),
		.n_rings = m->n_rings,
	};
	for (u32 i = 0; i < m->n_rings; i++) {
		v[i] = m->rings[i].fresh;
		v[i].cpu = ring_cpu(m, i);
	}
	t->checksum = backing_checksum(0, m->table, size);
	return size;
}

/* What was copied becomes durable, or has not been. */
static int image_commit(Image *m, const Pass *p, ImageCounters *c)
{
	u64 size = table_make(m, p);
	int r = write_at(m->fd, m->table, size, backing_table_at(&m->geometry, p->number));

	if (r == 0 && fdatasync(m->fd) < 0)
		r = -errno;
	for (u32 i = 0; i < m->n_rings; i++)
		imprint_settle(&m->rings[i], r == 0);
	if (r == 0) {
		m->pass = p->number;
		c->sub_buffers += p->n_subs;
		c->bytes += p->n_bytes + size;
		/* nobody reads it before the next boot: the page cache is for others */
		(void)posix_fadvise(m->fd, 0, 0, POSIX_FADV_DONTNEED);
	}
	return r;
}

int image_pass(Image *m, int dir_fd, u64 until, bool *ret_made, ImageCounters *c)
{
	Pass p = {
		.image = m->id,
		.number = m->pass + 1,
		.dir_fd = dir_fd,
		.glossary = m->glossary,
		.glossary_name = m->glossary_name,
		.clock = &m->clock,
		.copy = m->copy,
		.begun = record_clock_now(&m->clock),
		.until = until,
		.changed = m->pass == 0,
	};
	u64 bytes;
	int r;

	r = image_open(m, dir_fd, ret_made);
	if (r == 0)
		r = glossary_flush(m->glossary, dir_fd, m->glossary_name, &bytes);
	if (r < 0)
		return r;
	c->bytes += bytes;
	p.fd = m->fd;
	for (u32 i = 0; i < m->n_rings && r == 0; i++)
		r = imprint_pass(&m->rings[i], &p);
	c->missed += p.n_missed;
	c->bytes += p.n_words;
	if (r < 0) {
		/* nothing of it counts; it is begun anew */
		for (u32 i = 0; i < m->n_rings; i++)
			imprint_settle(&m->rings[i], false);
		return r;
	}
	if (p.changed)
		r = image_commit(m, &p, c);
	c->passes += r == 0;
	/* records first: of whom they are is less */
	if (r == 0 && m->programs_changed) {
		r = programs_write(dir_fd, m->programs_name, m->id, &m->programs);
		m->programs_changed = r < 0;
		*ret_made |= r == 0;
	}
	return r;
}
