/* SPDX-License-Identifier: MIT */
/* Rings made by hand, kept on disk, and found again: whole, cut off in the middle of a pass, torn anywhere, written over. */
#include <fcntl.h>
#include <sys/stat.h>

#include "daemon/backing/format.h"
#include "daemon/backing/image.h"
#include "daemon/backing/recovery.h"
#include "daemon/backing/run.h"
#include "tests/unit/daemon/babeltrace.h"
#include "tests/unit/daemon/checker.h"

/* What the thread sanitizer looks for is seen in some of it as well, and it takes ten times as long over each. */
#ifdef __SANITIZE_THREAD__
#define SPARSE 5
#else
#define SPARSE 1
#endif

#define CONTEXTS (ABI_CONTEXT_VPID | ABI_CONTEXT_VTID)
#define SECTOR	 512
#define RINGS	 4 /* two of CPUs, two side rings */

/* fdatasync() as the kernel has it, or a disk that refuses. */
static int refuse_sync, refuse_write;
/* What was asked of it, in order: the file, and whether it was a write. */
static struct {
	int fd;
	bool write;
} asked[512];
static u32 n_asked;

static void note(int fd, bool is_write)
{
	if (n_asked == G_N_ELEMENTS(asked))
		return;
	asked[n_asked].fd = fd;
	asked[n_asked++].write = is_write;
}

int __real_fdatasync(int fd);
int __wrap_fdatasync(int fd);
int __wrap_fdatasync(int fd)
{
	note(fd, false);
	if (refuse_sync) {
		errno = EIO;
		return -1;
	}
	return __real_fdatasync(fd);
}
ssize_t __real_pwrite64(int fd, const void *p, size_t n, off_t at);
ssize_t __wrap_pwrite64(int fd, const void *p, size_t n, off_t at);
ssize_t __wrap_pwrite64(int fd, const void *p, size_t n, off_t at)
{
	note(fd, true);
	if (refuse_write && refuse_write-- == 1) {
		errno = ENOSPC;
		return -1;
	}
	return __real_pwrite64(fd, p, n, at);
}

typedef struct {
	Maker m;
	Cpus cpus;
	char *directory, *out;
	Run run;
	Image *image;
	ImageCounters counters;
	u64 base;
	u64 next[RINGS]; /* number of the next record */
} World;

static TraceClass classes[2];

/* Number n is stamped so: a record with another number, or another stamp, was never written. */
static u64 stamp(const World *w, u64 n)
{
	return w->base + n * 1000;
}

static void record(World *w, u32 ring, u32 n)
{
	for (; n; n--, w->next[ring]++)
		if (!maker_record(&w->m, ring, 1, stamp(w, w->next[ring]), &w->next[ring], 8))
			break;
}

static void world_up(World *w, u32 policy)
{
	static const u8 uuid[16] = { 1, 2, 3 };
	*w = (World){ .run = RUN_NULL };
	classes[0] = (TraceClass){ 1, maker_class("shop", "number", 6, "n", TRACER_TYPE_U64, 0, 0, NULL) };
	classes[1] = (TraceClass){ 2, maker_class("shop", "text", 6, "t", TRACER_TYPE_STR, 0, 0, "a", TRACER_TYPE_U16,
						  TRACER_SHAPE_FIXED, 3, NULL) };
	maker_init(&w->m, 2, policy, CONTEXTS);
	w->base = maker_now(&w->m) - 100 * NSEC_PER_SEC;
	w->directory = maker_directory();
	w->out = maker_directory();
	w->cpus.n_rings = w->cpus.n_possible = 2;
	w->cpus.cpu_of[0] = 4;
	w->cpus.cpu_of[1] = 6;
	g_assert_cmpint(run_make(&w->run, w->directory,
				 &(RunSession){ .session = "flight",
						.buffers = "per-user",
						.clock = w->m.clock,
						.clock_uuid = uuid }),
			==, 0);
	g_assert_cmpint(image_new(&w->image, &(ImageOptions){ .label = "user-1000",
							      .number = 7,
							      .map = w->m.region.map,
							      .geometry = w->m.region.geometry,
							      .clock = w->m.clock,
							      .cpus = &w->cpus }),
			==, 0);
	g_assert_cmpint(glossary_add(image_glossary(w->image), 1, classes[0].class), ==, 0);
	g_assert_cmpint(glossary_add(image_glossary(w->image), 2, classes[1].class), ==, 0);
}

static void world_down(World *w)
{
	(void)image_free(w->image);
	run_close(&w->run);
	maker_remove(w->directory);
	maker_remove(w->out);
	g_free(w->directory);
	g_free(w->out);
	maker_clear(&w->m);
}

static int pass(World *w)
{
	bool made = false;

	return image_pass(w->image, w->run.fd, 0, &made, &w->counters);
}

/* ---- files ---- */

typedef struct {
	char *path;
	guint8 *p;
	gsize n;
} File;

static File file_load(World *w, const char *tail)
{
	File f = { .path = g_strconcat(w->run.path, "/user-1000.7", tail, NULL) };

	g_assert_true(g_file_get_contents(f.path, (char **)&f.p, &f.n, NULL));
	return f;
}

/* In place, since the image has it open. */
static void file_store(const File *f, const guint8 *p, gsize n)
{
	int fd = open(f->path, O_WRONLY | O_CLOEXEC);

	g_assert_cmpint(fd, >=, 0);
	g_assert_cmpint(ftruncate(fd, (off_t)n), ==, 0);
	g_assert_cmpint(__real_pwrite64(fd, p, n, 0), ==, n);
	(void)close(fd);
}

static void file_clear(File *f)
{
	g_free(f->path);
	g_free(f->p);
}

/* ---- finding again ---- */

typedef struct {
	const World *w;
	GArray *numbers[RINGS];
	RecoveryResult result;
	Failure failure;
	Checked checked;
	int r;
} Recovered;

/* The rule that nothing may break: what is in the trace was written, as it was written, in order. */
static void on_record(void *userdata, u32 instance, const struct record *r)
{
	Recovered *v = userdata;
	GArray *a = v->numbers[instance];
	u64 n;

	g_assert_cmpuint(instance, <, RINGS);
	g_assert_cmpuint(r->id, ==, 1);
	memcpy(&n, r->body + 8, 8);
	g_assert_cmpuint(n, <, v->w->next[instance]);
	g_assert_cmpuint(r->time, ==, stamp(v->w, n));
	if (a->len)
		g_assert_cmpuint(n, >, g_array_index(a, u64, a->len - 1));
	g_array_append_val(a, n);
}

static void recover(const World *w, Recovered *v)
{
	*v = (Recovered){ .w = w };
	for (u32 i = 0; i < RINGS; i++)
		v->numbers[i] = g_array_new(FALSE, FALSE, sizeof(u64));
	v->r = recovery_run(&(RecoveryOptions){ .dir_fd = w->run.fd, .path = w->run.path, .directory = w->out }, &v->result,
			    &v->failure);
	if (v->r == 0) {
		g_autofree char *path = g_build_filename(w->out, v->result.name, NULL);

		checker_snapshot(&v->checked, path, classes, 2, CONTEXTS, on_record, v);
		g_assert_cmpuint(v->checked.n_records, ==, v->result.snapshot.n_records);
		maker_remove(path);
	} else {
		g_assert_cmpint(v->failure.kind, ==, FAILURE_NOTHING);
	}
}

static void recovered_clear(Recovered *v)
{
	for (u32 i = 0; i < RINGS; i++)
		g_array_unref(v->numbers[i]);
	recovery_clear(&v->result);
}

/* The oldest number that the ring still has whole. */
static u64 ring_oldest(World *w, u32 ring)
{
	u64 first = reader_first_whole(maker_offset(&w->m, ring), 65536, 4096);
	const struct abi_sub *h = (const void *)(maker_data(&w->m, ring) + (first & 65535));

	return first ? h->count : 0;
}

/* All numbers of [from, to) are there. */
static void assert_run(const Recovered *v, u32 ring, u64 from, u64 to)
{
	const GArray *a = v->numbers[ring];
	u32 i = 0;

	while (i < a->len && g_array_index(a, u64, i) < from)
		i++;
	for (u64 n = from; n < to; n++, i++) {
		if (i >= a->len)
			g_error("ring %u ends before %" G_GUINT64_FORMAT " of %" G_GUINT64_FORMAT, ring, (guint64)n, (guint64)to);
		g_assert_cmpuint(g_array_index(a, u64, i), ==, n);
	}
}

/* ---- round trips ---- */

static void test_round_trip(void)
{
	World w;
	Recovered v;
	Babeltrace b;
	g_autofree char *path = NULL;

	world_up(&w, ABI_POLICY_OVERWRITE);
	record(&w, 0, 500);
	record(&w, 1, 3);
	record(&w, 2, 40);
	maker_lose(&w.m, 1, ABI_LOST_BIG, 5);
	g_assert_cmpint(pass(&w), ==, 0);
	g_assert_cmpuint(w.counters.passes, ==, 1);
	recover(&w, &v);
	g_assert_cmpint(v.r, ==, 0);
	g_assert_cmpstr(v.result.session, ==, "flight");
	g_assert_cmpuint(v.result.notes.n, ==, 0);
	g_assert_cmpuint(v.result.notes.n_damage, ==, 0);
	g_assert_cmpuint(v.result.n_owners, ==, 1);
	g_assert_cmpuint(v.result.synced, >, 0);
	g_assert_cmpuint(v.result.snapshot.lost[ABI_LOST_BIG], ==, 5);
	g_assert_cmpuint(v.result.snapshot.overwritten, ==, 0);
	g_assert_cmpuint(v.result.snapshot.corrupt_records, ==, 0);
	for (u32 i = 0; i < 3; i++) {
		g_assert_cmpuint(v.numbers[i]->len, ==, w.next[i]);
		assert_run(&v, i, 0, w.next[i]);
	}
	recovered_clear(&v);

	/* and by the reader that users have */
	recover(&w, &v);
	recovered_clear(&v);
	g_assert_cmpint(recovery_run(&(RecoveryOptions){ w.run.fd, w.run.path, w.out, "found" }, &v.result, &v.failure), ==, 0);
	path = g_build_filename(w.out, "found", NULL);
	babeltrace_run(&b, path, NULL);
	babeltrace_assert_clean(&b);
	g_assert_cmpuint(b.n, ==, 543);
	g_assert_cmpuint(babeltrace_count(&b, "cpu_id = 6"), ==, 3);
	babeltrace_clear(&b);
	recovery_clear(&v.result);
	world_down(&w);
}

/* Passes of every length, from nothing new to several laps: what the ring has is on disk after each, and no more than is new is
 * written. */
static void test_passes(gconstpointer policy)
{
	g_autoptr(GRand) rand = g_rand_new_with_seed(1);
	World w;

	world_up(&w, GPOINTER_TO_UINT(policy));
	for (u32 i = 0; i < 300 / SPARSE; i++) {
		u64 bytes = w.counters.bytes, before[RINGS];
		Recovered v;

		for (u32 k = 0; k < RINGS; k++) {
			before[k] = maker_offset(&w.m, k);
			if (g_rand_int_range(rand, 0, 3))
				record(&w, k, (u32)g_rand_int_range(rand, 0, i % 20 == 7 ? 9000 : 200));
		}
		g_assert_cmpint(pass(&w), ==, 0);
		for (u32 k = 0; k < RINGS; k++)
			before[k] = MIN(maker_offset(&w.m, k) - (before[k] & ~4095ull), 65536ull) + 4096;
		g_assert_cmpuint(w.counters.bytes - bytes, <=, before[0] + before[1] + before[2] + before[3] + 8192);
		recover(&w, &v);
		if (v.r < 0) {
			g_assert_cmpuint(w.next[0] + w.next[1] + w.next[2] + w.next[3], ==, 0);
			recovered_clear(&v);
			continue;
		}
		g_assert_cmpuint(v.result.notes.n_damage, ==, 0);
		g_assert_cmpuint(v.result.snapshot.corrupt_records, ==, 0);
		for (u32 k = 0; k < RINGS; k++)
			assert_run(&v, k, policy == GUINT_TO_POINTER(ABI_POLICY_OVERWRITE) ? ring_oldest(&w, k) : 0, w.next[k]);
		recovered_clear(&v);
	}
	world_down(&w);
}

/* A pass with nothing new touches no disk. */
static void test_idle(void)
{
	World w;
	u64 bytes;

	world_up(&w, ABI_POLICY_OVERWRITE);
	record(&w, 0, 10);
	g_assert_cmpint(pass(&w), ==, 0);
	bytes = w.counters.bytes;
	refuse_sync = 1;
	g_assert_cmpint(pass(&w), ==, 0);
	refuse_sync = 0;
	g_assert_cmpuint(w.counters.bytes, ==, bytes);
	world_down(&w);
}

/* ---- the power fails ---- */

/* In the middle of a pass: each sector is as before, or as after, or (the one that was being written) neither. All that the pass
 * before had is there, whatever came. */
static void power_cut(u32 more, u32 seed)
{
	g_autoptr(GRand) rand = g_rand_new_with_seed(seed);
	File before, after, glossary;
	g_autofree guint8 *mix = NULL;
	u64 oldest[RINGS], next[RINGS];
	World w;

	world_up(&w, ABI_POLICY_OVERWRITE);
	for (u32 i = 0; i < 3; i++) {
		for (u32 k = 0; k < RINGS; k++)
			record(&w, k, (u32)g_rand_int_range(rand, 1, 4000));
		g_assert_cmpint(pass(&w), ==, 0);
	}
	for (u32 k = 0; k < RINGS; k++) {
		oldest[k] = ring_oldest(&w, k);
		next[k] = w.next[k];
	}
	before = file_load(&w, BACKING_RINGS);
	glossary = file_load(&w, BACKING_GLOSSARY);
	for (u32 k = 0; k < RINGS; k++)
		record(&w, k, (u32)g_rand_int_range(rand, 1, (gint32)more));
	g_assert_cmpint(pass(&w), ==, 0);
	after = file_load(&w, BACKING_RINGS);
	g_assert_cmpuint(before.n, ==, after.n);
	mix = g_malloc(after.n);
	for (u32 turn = 0; turn < 25; turn++) {
		gint32 odds = g_rand_int_range(rand, 0, 101);
		Recovered v;

		for (gsize at = 0; at < after.n; at += SECTOR) {
			const guint8 *from = g_rand_int_range(rand, 0, 100) < odds ? after.p : before.p;

			memcpy(mix + at, from + at, SECTOR);
			if (memcmp(before.p + at, after.p + at, SECTOR) != 0 && g_rand_int_range(rand, 0, 40) == 0)
				for (u32 i = 0; i < SECTOR; i++)
					mix[at + i] = (guint8)g_rand_int(rand);
		}
		file_store(&before, mix, after.n);
		recover(&w, &v);
		g_assert_cmpint(v.r, ==, 0);
		for (u32 i = 0; i < v.result.notes.n && v.result.notes.n_damage; i++)
			g_printerr("%s\n", v.result.notes.v[i]);
		g_assert_cmpuint(v.result.notes.n_damage, ==, 0);
		for (u32 k = 0; k < RINGS; k++)
			assert_run(&v, k, oldest[k], next[k]);
		recovered_clear(&v);
	}
	/* whole it has everything */
	{
		Recovered v;

		file_store(&before, after.p, after.n);
		recover(&w, &v);
		g_assert_cmpuint(v.result.notes.n, ==, 0);
		for (u32 k = 0; k < RINGS; k++)
			assert_run(&v, k, ring_oldest(&w, k), w.next[k]);
		recovered_clear(&v);
	}
	file_clear(&before);
	file_clear(&after);
	file_clear(&glossary);
	world_down(&w);
}

static void test_power_cut(void)
{
	for (u32 seed = 1; seed <= 4; seed++) {
		power_cut(20, seed);
		power_cut(1500, seed);
		power_cut(20000, seed); /* laps: all slots that are free are written */
	}
}

/* The very first pass. */
static void test_power_cut_first(void)
{
	World w;
	File f;

	world_up(&w, ABI_POLICY_OVERWRITE);
	record(&w, 0, 600);
	g_assert_cmpint(pass(&w), ==, 0);
	f = file_load(&w, BACKING_RINGS);
	for (gsize at = 0; at <= f.n; at += SECTOR * SPARSE) {
		g_autofree guint8 *p = g_memdup2(f.p, f.n);
		Recovered v;

		memset(p + at, 0, f.n - at);
		file_store(&f, p, f.n);
		recover(&w, &v);
		if (at == 0) /* behind the label there are zeros anyway */
			g_assert_cmpuint(v.result.notes.n_damage, ==, 1);
		else
			g_assert_cmpuint(v.result.notes.n_damage, <=, 1); /* no table, but sub-buffers: not here */
		recovered_clear(&v);
	}
	file_clear(&f);
	world_down(&w);
}

/* ---- damage ---- */

/* Anything at any sector: cut off there, a bit flipped there, filled there. Never a record that was not; and what is damaged of the
 * pass that was finished is said. */
static void damage(World *w, const char *tail, const File *f)
{
	for (gsize at = 0; at < f->n; at += SECTOR * SPARSE)
		for (u32 kind = 0; kind < 3; kind++) {
			g_autofree guint8 *p = g_memdup2(f->p, f->n);
			gsize n = f->n, end = MIN(at + SECTOR, f->n);
			Recovered v;

			if (kind == 0)
				n = at;
			else if (kind == 1)
				p[at + at / SECTOR % (end - at)] ^= (guint8)(1 << at / SECTOR % 8);
			else
				memset(p + at, 0xA5, end - at);
			file_store(f, p, n);
			recover(w, &v);
			if (v.r == 0 && v.result.snapshot.corrupt_records + v.result.snapshot.corrupt_subs)
				g_assert_cmpuint(v.result.notes.n, >=, 1);
			recovered_clear(&v);
		}
	file_store(f, f->p, f->n);
}

static void test_damage(void)
{
	World w;
	File rings, glossary, session;

	world_up(&w, ABI_POLICY_OVERWRITE);
	for (u32 i = 0; i < 4; i++) {
		record(&w, 0, 1000);
		record(&w, 2, 150);
		g_assert_cmpint(pass(&w), ==, 0);
	}
	rings = file_load(&w, BACKING_RINGS);
	glossary = file_load(&w, BACKING_GLOSSARY);
	session = (File){ .path = g_build_filename(w.run.path, BACKING_SESSION, NULL) };
	g_assert_true(g_file_get_contents(session.path, (char **)&session.p, &session.n, NULL));
	damage(&w, BACKING_RINGS, &rings);
	damage(&w, BACKING_GLOSSARY, &glossary);
	damage(&w, BACKING_SESSION, &session);
	file_clear(&rings);
	file_clear(&glossary);
	file_clear(&session);
	world_down(&w);
}

/* One sub-buffer of the middle: the others are there, and it is named with what was in it. */
static void test_named(void)
{
	World w;
	File f;
	Recovered v;
	u64 first = UINT64_MAX;
	gsize slots;

	world_up(&w, ABI_POLICY_OVERWRITE);
	record(&w, 1, 1000);
	g_assert_cmpint(pass(&w), ==, 0);
	g_assert_cmpint(pass(&w), ==, 0);
	record(&w, 1, 1000);
	g_assert_cmpint(pass(&w), ==, 0);
	f = file_load(&w, BACKING_RINGS);
	slots = backing_slots_at(&w.m.region.geometry, 1);
	for (gsize at = slots; at < backing_slots_at(&w.m.region.geometry, 2) && first == UINT64_MAX; at += 4096) {
		struct abi_sub h;

		memcpy(&h, f.p + at, sizeof(h));
		if (h.position != 3 * 4096)
			continue;
		first = h.count;
		f.p[at + 2000] ^= 1;
	}
	g_assert_cmpuint(first, !=, UINT64_MAX);
	file_store(&f, f.p, f.n);
	recover(&w, &v);
	g_assert_cmpint(v.r, ==, 0);
	g_assert_cmpuint(v.result.notes.n_damage, ==, 1);
	{
		/* 4096 - 128 bytes of 24: 165 records in each */
		g_autofree char *text = g_strdup("owner user-1000, ring 1: sub-buffer 3 torn or missing, 165 records lost");
		bool said = false;

		for (u32 i = 0; i < v.result.notes.n; i++)
			said |= strcmp(v.result.notes.v[i], text) == 0;
		if (!said)
			g_error("not said: %s; but: %s", text, v.result.notes.v[0]);
	}
	g_assert_cmpuint(v.result.snapshot.corrupt_records, ==, 165);
	g_assert_cmpuint(v.numbers[1]->len, ==, 2000 - 165);
	assert_run(&v, 1, 0, first);
	assert_run(&v, 1, first + 165, 2000);
	g_assert_cmpuint(v.checked.discarded, ==, 165);
	recovered_clear(&v);
	file_clear(&f);
	world_down(&w);
}

/* Without its glossary nothing can be decoded, and nothing is guessed. */
static void test_no_glossary(void)
{
	World w;
	File f;
	Recovered v;

	world_up(&w, ABI_POLICY_OVERWRITE);
	record(&w, 0, 100);
	g_assert_cmpint(pass(&w), ==, 0);
	f = file_load(&w, BACKING_GLOSSARY);
	g_assert_cmpint(unlink(f.path), ==, 0);
	recover(&w, &v);
	g_assert_cmpint(v.r, ==, 0);
	g_assert_cmpuint(v.result.snapshot.n_records, ==, 0);
	g_assert_cmpuint(v.result.snapshot.corrupt_records, ==, 100);
	g_assert_cmpuint(v.result.notes.n_damage, ==, 1);
	recovered_clear(&v);
	file_clear(&f);
	world_down(&w);
}

/* ---- the disk refuses ---- */

static void test_refused(void)
{
	World w;
	Recovered v;
	u64 next;

	world_up(&w, ABI_POLICY_OVERWRITE);
	record(&w, 0, 300);
	refuse_sync = 1;
	g_assert_cmpint(pass(&w), ==, -EIO);
	refuse_sync = 0;
	g_assert_cmpint(pass(&w), ==, 0);
	next = w.next[0];
	/* whichever write of a pass fails: what was is there, and the next pass has all */
	for (int nth = 1; nth <= 12; nth++) {
		u64 passes = w.counters.passes;
		int r;

		record(&w, 0, 700);
		g_assert_cmpint(glossary_add(image_glossary(w.image), (u32)(2 + nth), classes[1].class), ==, 0);
		refuse_write = nth;
		r = pass(&w);
		g_assert_true(r == -ENOSPC || (r == 0 && refuse_write));
		refuse_write = 0;
		if (r < 0) {
			g_assert_cmpuint(w.counters.passes, ==, passes);
			recover(&w, &v);
			g_assert_cmpuint(v.result.notes.n_damage, ==, 0);
			assert_run(&v, 0, MIN(next, ring_oldest(&w, 0)), next);
			recovered_clear(&v);
		}
		g_assert_cmpint(pass(&w), ==, 0);
		next = w.next[0];
		recover(&w, &v);
		g_assert_cmpuint(v.result.notes.n_damage, ==, 0);
		assert_run(&v, 0, ring_oldest(&w, 0), next);
		recovered_clear(&v);
	}
	world_down(&w);
}

/* An id's class is on disk before a record with it is written at all; and the disk is waited for once for everything else. */
static void test_order(void)
{
	World w;
	int glossary;

	world_up(&w, ABI_POLICY_OVERWRITE);
	record(&w, 0, 10);
	g_assert_cmpint(pass(&w), ==, 0);
	g_assert_cmpint(glossary_add(image_glossary(w.image), 3, classes[1].class), ==, 0);
	record(&w, 0, 600);
	n_asked = 0;
	g_assert_cmpint(pass(&w), ==, 0);
	g_assert_cmpuint(n_asked, >, 4);
	glossary = asked[0].fd;
	g_assert_true(asked[0].write);
	g_assert_true(asked[1].fd == glossary && !asked[1].write);
	for (u32 i = 2; i < n_asked; i++) {
		g_assert_cmpint(asked[i].fd, !=, glossary);
		g_assert_true(asked[i].write == (i + 1 < n_asked));
	}
	world_down(&w);
}

/* ---- runs ---- */

static void test_runs(void)
{
	static const u8 uuid[16] = {};
	const RunSession session = { .session = "flight", .buffers = "per-user", .clock_uuid = uuid };
	g_autofree char *directory = maker_directory(), *first = NULL, *half = NULL;
	Run a = RUN_NULL, b = RUN_NULL, c = RUN_NULL;

	g_assert_cmpint(run_claim(&c, directory, "flight", NULL), ==, 0);
	g_assert_cmpint(run_make(&a, directory, &session), ==, 0);
	g_assert_cmpint(run_make(&b, directory, &session), ==, 0);
	first = g_strdup(run_name(&a));
	half = g_strdup_printf("%s/flight/.20200101T000000.000000Z.tmp", directory);
	g_assert_cmpint(mkdir(half, 0700), ==, 0);
	/* both are in use */
	g_assert_cmpint(run_claim(&c, directory, "flight", NULL), ==, 0);
	g_assert_false(g_file_test(half, G_FILE_TEST_EXISTS));
	run_close(&a);
	g_assert_cmpint(run_claim(&c, directory, "flight", NULL), ==, 1);
	g_assert_cmpstr(run_name(&c), ==, first);
	g_assert_true(recovery_is_run(c.fd));
	g_assert_cmpint(run_claim(&a, directory, "flight", NULL), ==, 0);
	g_assert_cmpint(run_set_aside(&c), ==, 0);
	run_close(&c);
	g_assert_cmpint(run_claim(&c, directory, "flight", NULL), ==, 0);
	run_close(&b);
	g_assert_cmpint(run_claim(&c, directory, "flight", first), ==, 1);
	g_assert_cmpint(run_remove(&c), ==, 0);
	run_close(&c);
	g_assert_cmpint(run_claim(&c, directory, "flight", NULL), ==, 0);
	maker_remove(directory);
}

static void test_checksum(void)
{
	u8 v[300];

	/* the check value of CRC-64/XZ */
	g_assert_cmphex(backing_checksum(0, "123456789", 9), ==, 0x995DC9BBDF1939FAull);
	for (u32 i = 0; i < sizeof(v); i++)
		v[i] = (u8)(i * 7);
	for (u32 i = 0; i <= sizeof(v); i++)
		g_assert_cmphex(backing_checksum(backing_checksum(0, v, i), v + i, sizeof(v) - i), ==,
				backing_checksum(0, v, sizeof(v)));
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/backing/checksum", test_checksum);
	g_test_add_func("/backing/runs", test_runs);
	g_test_add_func("/backing/round-trip", test_round_trip);
	g_test_add_data_func("/backing/passes/overwrite", GUINT_TO_POINTER(ABI_POLICY_OVERWRITE), test_passes);
	g_test_add_data_func("/backing/passes/discard", GUINT_TO_POINTER(ABI_POLICY_DISCARD), test_passes);
	g_test_add_func("/backing/idle", test_idle);
	g_test_add_func("/backing/order", test_order);
	g_test_add_func("/backing/power-cut", test_power_cut);
	g_test_add_func("/backing/power-cut/first", test_power_cut_first);
	g_test_add_func("/backing/damage", test_damage);
	g_test_add_func("/backing/named", test_named);
	g_test_add_func("/backing/no-glossary", test_no_glossary);
	g_test_add_func("/backing/refused", test_refused);
	return g_test_run();
}
