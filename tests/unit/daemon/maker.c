/* SPDX-License-Identifier: MIT */
#include "tests/unit/daemon/maker.h"

#include <fcntl.h>
#include <stdarg.h>
#include <sys/stat.h>

#include "daemon/removal.h"

void maker_init(Maker *m, u32 n_ring, u32 policy, u32 contexts)
{
	const struct geometry g = {16, 12, 16, 12, n_ring, 2, policy, contexts};
	u32 rings[64];

	for (u32 i = 0; i < n_ring; i++)
		rings[i] = i;
	m->region = REGION_NULL;
	m->clock = (struct record_clock){ABI_CLOCK_MONOTONIC, 0};
	g_assert_cmpint(region_create(&m->region, "test", &g, 0, 1, rings, n_ring), ==, 0);
}

void maker_clear(Maker *m)
{
	region_close(&m->region);
}

u64 maker_now(const Maker *m)
{
	return record_clock_now(&m->clock);
}

struct abi_ring *maker_line(Maker *m, u32 ring)
{
	return (struct abi_ring *)(m->region.map + ABI_PAGE) + ring;
}

u8 *maker_data(Maker *m, u32 ring)
{
	return m->region.map + geometry_ring_at(&m->region.geometry, ring);
}

u64 maker_offset(Maker *m, u32 ring)
{
	return maker_line(m, ring)->offset & ~3ull;
}

void maker_lose(Maker *m, u32 ring, u32 cause, u64 n)
{
	maker_line(m, ring)->lost[cause] += n;
}

bool maker_record(Maker *m, u32 ring, u32 id, u64 time, const void *body, u32 size)
{
	const struct geometry *g = &m->region.geometry;
	struct abi_ring *line = maker_line(m, ring);
	u8 *data = maker_data(m, ring);
	u64 ring_size = geometry_ring_size(g, ring), sub = geometry_sub_size(g, ring);
	u32 ids[2] = {0}, contexts = 0;

	if (g->contexts & ABI_CONTEXT_VPID)
		ids[contexts++] = 42;
	if (g->contexts & ABI_CONTEXT_VTID)
		ids[contexts++] = 43;
	contexts *= 4;

	for (;;) {
		u64 offset = line->offset & ~3ull, count = line->count[line->offset & 1];
		u64 bit = (line->offset & 1) ^ 1, in = offset & (sub - 1);
		struct abi_sub *h = (struct abi_sub *)(data + ((offset - in) & (ring_size - 1)));
		u32 start = in ? 0 : ABI_SUB_HEADER, header, length, step;
		bool extended = in && (id > ABI_ID_MAX || time - line->base >= ABI_COMPACT_LIMIT);
		u8 *p;

		if (!in) {
			u64 lost = 0;

			if (g->policy == ABI_POLICY_DISCARD &&
			    offset + sub > ring_size + line->consumed) {
				line->lost[ABI_LOST_FULL]++;
				return false;
			}
			for (u32 i = 0; i < ABI_LOST_CAUSES; i++)
				lost += line->lost[i];
			*h = (struct abi_sub){offset, time, count, lost, 0, {0}};
		}
		header = extended ? ABI_RECORD_EXTENDED : ABI_RECORD_HEADER;
		length = header + contexts + size;
		step = ALIGN_UP(length, 4u);
		if (in + start + step > sub) {
			g_assert_cmpuint(in, !=, 0);
			h->end = offset;
			line->count[bit] = count;
			line->offset = (offset - in + sub) | bit;
			continue;
		}
		p = data + ((offset + start) & (ring_size - 1));
		if (extended) {
			u16 head[2] = {ABI_ID_EXTENDED, (u16)length};

			memcpy(p, head, 4);
			memcpy(p + 4, &id, 4);
			memcpy(p + 8, &time, 8);
		} else {
			u16 head[2] = {(u16)id, (u16)length};
			u32 low = (u32)time;

			memcpy(p, head, 4);
			memcpy(p + 4, &low, 4);
		}
		memcpy(p + header, ids, contexts);
		if (size)
			memcpy(p + header + contexts, body, size);
		if (in + start + step == sub)
			h->end = offset + start + step;
		line->count[bit] = count + 1;
		line->offset = (offset + start + step) | bit;
		if (!in || extended)
			line->base = time;
		return true;
	}
}

struct event_class *maker_class(const char *provider, const char *name, int level, ...)
{
	/* they live as long as the test: the list keeps them from being called leaks */
	static GPtrArray *all;
	struct event_class *c = g_malloc0(sizeof(*c) + CLASS_MAX_FIELDS * sizeof(c->fields[0]));
	const char *field;
	va_list ap;

	if (!all)
		all = g_ptr_array_new();
	g_ptr_array_add(all, c);
	c->provider = (char *)provider;
	c->name = (char *)name;
	c->level = (u8)level;
	va_start(ap, level);
	while ((field = va_arg(ap, const char *))) {
		struct class_field *f = &c->fields[c->n_fields++];

		f->name = (char *)field;
		f->type = (u8)va_arg(ap, int);
		f->shape = (u8)va_arg(ap, int);
		f->count = (u16)va_arg(ap, int);
	}
	va_end(ap);
	return c;
}

char *maker_directory(void)
{
	/* in memory where there is such a place: hundreds of snapshots, each synced, take a disk
	 * half a minute */
	const char *base = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : g_get_tmp_dir();
	char *path = g_build_filename(base, "tracer-test-XXXXXX", NULL);

	g_assert_nonnull(g_mkdtemp(path));
	return path;
}

void maker_remove(const char *path)
{
	g_assert_cmpint(removal_run(AT_FDCWD, path, NULL), ==, 0);
}

void maker_job_init(MakerJob *j, Maker *makers, size_t n, TraceClass *classes, size_t n_classes)
{
	static const char *const labels[] = {"user-1000", "unit-a.service", "process-7-x",
					     "user-0"};

	*j = (MakerJob){0};
	j->directory = maker_directory();
	for (size_t i = 0; i < n; i++) {
		j->sources[i] = (SnapshotSource){
		    .map = makers[i].region.map,
		    .geometry = makers[i].region.geometry,
		    .label = labels[i],
		    .classes = classes,
		    .n_classes = n_classes,
		    .cpu_of_ring = j->cpus[i],
		};
		for (u32 k = 0; k < 64; k++)
			j->cpus[i][k] = k;
	}
	j->job = (SnapshotJob){
	    .session = "flight",
	    .trigger = "manual",
	    .reason = "a test",
	    .directory = j->directory,
	    .name = "20261129T160102.123456Z-manual",
	    .clock = makers[0].clock,
	    .trace_clock = {.uuid = {1, 2, 3}, .description = "test"},
	    .sources = j->sources,
	    .n_sources = n,
	};
}

void maker_job_clear(MakerJob *j)
{
	maker_remove(j->directory);
	g_free(j->directory);
}

char *maker_job_run(MakerJob *j)
{
	int r = snapshot_run(&j->job, &j->result, &j->failure);

	if (r < 0)
		g_error("snapshot_run: %d: %s", r, j->failure.text);
	return g_build_filename(j->directory, j->job.name, NULL);
}
