/* SPDX-License-Identifier: MIT */
/* Whole snapshots of made rings, read back by babeltrace2 and by the checker. */
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/daemon/babeltrace.h"
#include "tests/unit/daemon/checker.h"

#define CONTEXTS  (ABI_CONTEXT_VPID | ABI_CONTEXT_VTID)
#define N_CLASSES 3

static TraceClass classes[N_CLASSES];

static void classes_make(void)
{
	classes[0] =
	    (TraceClass){1, maker_class("shop", "number", 6, "n", TRACER_TYPE_U64, 0, 0, NULL)};
	classes[1] =
	    (TraceClass){2, maker_class("shop", "text", 4, "text", TRACER_TYPE_STR, 0, 0, NULL)};
	classes[2] = (TraceClass){
	    3, maker_class("shop", "list", 6, "list", TRACER_TYPE_U16, TRACER_SHAPE_VAR, 0, NULL)};
}

static void record_number(Maker *m, u32 ring, u64 n, u64 time)
{
	g_assert_true(maker_record(m, ring, 1, time, &n, 8));
}

/* The sums that always hold. */
static void check_sums(MakerJob *j, Maker *makers, size_t n)
{
	const SnapshotResult *s = &j->result;
	u64 written = 0;

	for (size_t i = 0; i < n; i++)
		for (u32 k = 0; k < makers[i].region.geometry.n_ring + 2; k++) {
			struct abi_ring *line = maker_line(&makers[i], k);

			written += line->count[line->offset & 1];
		}
	g_assert_cmpuint(s->n_records + s->n_after_cut + s->overwritten + s->trimmed +
			     s->corrupt_records,
			 ==, written);
}

/* Runs the job, lets both judges read, and returns what babeltrace2 said. */
static void judge(MakerJob *j, Maker *makers, size_t n, Babeltrace *b, Checked *c)
{
	g_autofree char *path = maker_job_run(j);

	check_sums(j, makers, n);
	checker_snapshot(c, path, classes, N_CLASSES, makers[0].region.geometry.contexts, NULL,
			 NULL);
	g_assert_cmpuint(c->n_records, ==, j->result.n_records);
	babeltrace_run(b, path, NULL);
	babeltrace_assert_clean(b);
	g_assert_cmpuint(b->n, ==, j->result.n_records);
	g_assert_cmpuint(babeltrace_discarded(b), ==, c->discarded);
	/* nothing of the making is left */
	g_autofree char *temporary = g_strdup_printf("%s/.%s.tmp", j->directory, j->job.name);
	g_assert_false(g_file_test(temporary, G_FILE_TEST_EXISTS));
}

static void test_simple(void)
{
	Maker m;
	MakerJob j;
	Babeltrace b;
	Checked c;
	u64 now;
	u8 list[] = {2, 0, 7, 0, 8, 0};

	maker_init(&m, 2, ABI_POLICY_OVERWRITE, CONTEXTS);
	now = maker_now(&m);
	record_number(&m, 0, 1234567, now - 1000);
	maker_record(&m, 1, 2, now - 900, "h\xc3\xa9llo \"x\"", 11);
	maker_record(&m, 2, 3, now - 800, list, sizeof(list)); /* a side ring */
	maker_job_init(&j, &m, 1, classes, N_CLASSES);
	judge(&j, &m, 1, &b, &c);
	g_assert_cmpuint(b.n, ==, 3);
	g_assert_nonnull(strstr(b.lines[0], "shop:number"));
	g_assert_nonnull(strstr(b.lines[0], "n = 1234567"));
	g_assert_nonnull(strstr(b.lines[0], "vpid = 42, vtid = 43"));
	g_assert_nonnull(strstr(b.lines[0], "cpu_id = 0"));
	g_assert_nonnull(strstr(b.lines[1], "héllo \\\"x\\\""));
	g_assert_nonnull(strstr(b.lines[1], "cpu_id = 1"));
	g_assert_nonnull(strstr(b.lines[2], "list = [ [0] = 7, [1] = 8 ]"));
	g_assert_nonnull(strstr(b.lines[2], "cpu_id = 2"));
	g_assert_cmpuint(c.n_streams, ==, 3);
	g_assert_cmpuint(c.first, ==, now - 1000);
	g_assert_cmpuint(j.result.begin, ==, now - 1000);
	g_assert_cmpuint(j.result.cut, >=, now);
	g_assert_false(j.result.late);
	g_assert_cmpfloat(j.result.reach, ==, 1);
	/* writers were let go */
	for (u32 i = 0; i < 4; i++)
		g_assert_cmpuint(maker_line(&m, i)->hold, ==, 0);
	babeltrace_clear(&b);
	maker_job_clear(&j);
	maker_clear(&m);
}

/* The time of day that babeltrace2 shows is the time of day. */
static void test_time_of_day(void)
{
	Maker m;
	MakerJob j;
	Babeltrace b;
	g_autofree char *path = NULL;
	const char *const seconds[] = {"--clock-seconds", NULL};
	double real = (double)g_get_real_time() / 1e6;

	maker_init(&m, 1, ABI_POLICY_OVERWRITE, CONTEXTS);
	record_number(&m, 0, 1, maker_now(&m));
	maker_job_init(&j, &m, 1, classes, N_CLASSES);
	path = maker_job_run(&j);
	babeltrace_run(&b, path, seconds);
	babeltrace_assert_clean(&b);
	g_assert_cmpuint(b.n, ==, 1);
	g_assert_cmpfloat_with_epsilon(g_ascii_strtod(b.lines[0] + 1, NULL), real, 2);
	babeltrace_clear(&b);
	maker_job_clear(&j);
	maker_clear(&m);
}

static void test_modes(void)
{
	static const struct {
		const char *path;
		mode_t mode;
	} files[] = {
	    {"", S_IFDIR | 0750},
	    {"user-1000", S_IFDIR | 0750},
	    {"user-1000/index", S_IFDIR | 0750},
	    {"user-1000/metadata", S_IFREG | 0640},
	    {"user-1000/cpu_0", S_IFREG | 0640},
	    {"user-1000/index/cpu_0.idx", S_IFREG | 0640},
	};
	mode_t mask = umask(0077);
	Maker m;
	MakerJob j;
	g_autofree char *path = NULL;

	maker_init(&m, 1, ABI_POLICY_OVERWRITE, CONTEXTS);
	record_number(&m, 0, 1, maker_now(&m));
	maker_job_init(&j, &m, 1, classes, N_CLASSES);
	path = maker_job_run(&j);
	umask(mask);
	for (size_t i = 0; i < ELEMENTSOF(files); i++) {
		g_autofree char *file = g_build_filename(path, files[i].path, NULL);
		struct stat st;

		g_assert_cmpint(stat(file, &st), ==, 0);
		g_assert_cmpuint(st.st_mode, ==, files[i].mode);
	}
	maker_job_clear(&j);
	maker_clear(&m);
}

/* Nothing recorded at all, and no owner at all. */
static void test_empty(void)
{
	Maker m;
	MakerJob j;
	Babeltrace b;
	Checked c;

	maker_init(&m, 2, ABI_POLICY_OVERWRITE, CONTEXTS);
	maker_job_init(&j, &m, 1, classes, N_CLASSES);
	judge(&j, &m, 1, &b, &c);
	g_assert_cmpuint(b.n, ==, 0);
	babeltrace_clear(&b);
	j.job.n_sources = 0;
	j.job.name = "20261129T160102.123457Z-manual";
	judge(&j, &m, 0, &b, &c);
	g_assert_cmpuint(b.n, ==, 0);
	babeltrace_clear(&b);
	maker_job_clear(&j);
	maker_clear(&m);
}

/* Rings lapped several times: the newest 15 of 16 sub-buffers are there, without a hole. */
static void overwrite(bool urgent)
{
	Maker m;
	MakerJob j;
	Babeltrace b;
	Checked c;
	u64 now, n = 20000;

	maker_init(&m, 1, ABI_POLICY_OVERWRITE, CONTEXTS);
	now = maker_now(&m);
	for (u64 i = 0; i < n; i++)
		record_number(&m, 0, i, now - (n - i) * 1000);
	maker_job_init(&j, &m, 1, classes, N_CLASSES);
	j.job.urgent = urgent;
	judge(&j, &m, 1, &b, &c);
	g_assert_cmpuint(j.result.n_records, >, 2000);
	g_assert_cmpuint(j.result.overwritten, ==, n - j.result.n_records);
	g_assert_cmpfloat(j.result.reach, >=, 14.0 / 16);
	g_assert_cmpuint(babeltrace_discarded(&b), ==, 0);
	for (u64 i = 0; i < b.n; i++) {
		g_autofree char *text =
		    g_strdup_printf("{ n = %" G_GUINT64_FORMAT " }", n - b.n + i);

		g_assert_nonnull(strstr(b.lines[i], text));
	}
	babeltrace_clear(&b);
	maker_job_clear(&j);
	maker_clear(&m);
}

static void test_overwrite(void)
{
	overwrite(false);
}

/* The cut before all preparations: it has the same in it. */
static void test_urgent(void)
{
	overwrite(true);
}

/* A full ring under discard keeps its beginning, whole, and says what came after. */
static void test_discard(void)
{
	Maker m;
	MakerJob j;
	Babeltrace b;
	Checked c;
	u64 now, kept = 0, n = 5000;

	maker_init(&m, 1, ABI_POLICY_DISCARD, CONTEXTS);
	now = maker_now(&m);
	for (u64 i = 0; i < n; i++)
		kept += maker_record(&m, 0, 1, now - (n - i) * 1000, &i, 8);
	g_assert_cmpuint(kept, <, n);
	g_assert_cmpuint(maker_offset(&m, 0), ==, 65536);
	maker_job_init(&j, &m, 1, classes, N_CLASSES);
	judge(&j, &m, 1, &b, &c);
	g_assert_cmpuint(j.result.n_records, ==, kept);
	g_assert_cmpuint(j.result.overwritten, ==, 0);
	g_assert_cmpuint(j.result.lost[ABI_LOST_FULL], ==, n - kept);
	g_assert_cmpuint(babeltrace_discarded(&b), ==, n - kept);
	g_assert_cmpfloat(j.result.reach, ==, 1);
	babeltrace_clear(&b);
	maker_job_clear(&j);
	maker_clear(&m);
}

/* Losses are told where they happened, in the first packet too; those before the trace are not told
 * as its. */
static void test_losses(void)
{
	Maker m;
	MakerJob j;
	Babeltrace b;
	Checked c;
	u64 now, n = 400;

	maker_init(&m, 1, ABI_POLICY_OVERWRITE, CONTEXTS);
	now = maker_now(&m);
	maker_lose(&m, 0, ABI_LOST_HELD, 1000); /* before anything */
	for (u64 i = 0; i < n; i++) {
		record_number(&m, 0, i, now - 1000000 + i);
		if (i == 10)
			maker_lose(&m, 0, ABI_LOST_BIG, 3); /* in the first packet */
		if (i == 200)
			maker_lose(&m, 0, ABI_LOST_VFORK, 5);
	}
	maker_lose(&m, 0, ABI_LOST_BUSY, 7); /* behind the last record */
	maker_job_init(&j, &m, 1, classes, N_CLASSES);
	judge(&j, &m, 1, &b, &c);
	g_assert_cmpuint(babeltrace_discarded(&b), ==, 15);
	g_assert_null(strstr(b.err, "may have"));
	g_assert_nonnull(strstr(b.err, "discarded 3 events"));
	g_assert_nonnull(strstr(b.err, "discarded 5 events"));
	g_assert_nonnull(strstr(b.err, "discarded 7 events"));
	g_assert_cmpuint(j.result.lost[ABI_LOST_HELD], ==, 1000);
	g_assert_cmpuint(j.result.lost[ABI_LOST_BUSY], ==, 7);
	babeltrace_clear(&b);
	maker_job_clear(&j);
	maker_clear(&m);
}

/* Silences longer than a compact stamp can say, inside a sub-buffer, and one just below. */
static void test_extended(void)
{
	static const u64 gaps[] = {0,          1000,       5000000000, 1000,
				   4294000000, 9000000000, 4293000000, 1};
	const char *const arguments[] = {"--clock-cycles", NULL};
	Maker m;
	MakerJob j;
	Babeltrace b;
	Checked c;
	u64 time;
	g_autofree char *path = NULL;

	maker_init(&m, 1, ABI_POLICY_OVERWRITE, CONTEXTS);
	time = maker_now(&m) - 30000000000;
	for (size_t i = 0; i < ELEMENTSOF(gaps); i++) {
		time += gaps[i];
		record_number(&m, 0, time, time);
	}
	maker_job_init(&j, &m, 1, classes, N_CLASSES);
	judge(&j, &m, 1, &b, &c);
	babeltrace_clear(&b);
	path = g_build_filename(j.directory, j.job.name, NULL);
	babeltrace_run(&b, path, arguments);
	babeltrace_assert_clean(&b);
	/* each record's number is its time */
	for (guint i = 0; i < b.n; i++)
		g_assert_cmpuint(g_ascii_strtoull(b.lines[i] + 1, NULL, 10), ==,
				 g_ascii_strtoull(strstr(b.lines[i], "n = ") + 4, NULL, 10));
	g_assert_cmpuint(b.n, ==, ELEMENTSOF(gaps));
	babeltrace_clear(&b);
	maker_job_clear(&j);
	maker_clear(&m);
}

/* What was recorded while the copy ran is left out and counted, also in sub-buffers of its own. */
static void test_after_cut(void)
{
	Maker m;
	MakerJob j;
	Babeltrace b;
	Checked c;
	u64 now;

	maker_init(&m, 3, ABI_POLICY_OVERWRITE, CONTEXTS);
	now = maker_now(&m);
	for (u64 i = 0; i < 100; i++)
		record_number(&m, 0, i, now - 1000 + i);
	/* an idle ring that wakes behind the cut, with a stamp that could be taken for one 4.29 s
	 * ago */
	record_number(&m, 1, 0, now - 6000000000);
	for (u64 i = 0; i < 300; i++) {
		record_number(&m, 0, 1000 + i, now + 60000000000 + i);
		record_number(&m, 1, 1000 + i, now + 60000000000 + i);
		record_number(&m, 2, 1000 + i, now + 60000000000 + i);
	}
	maker_job_init(&j, &m, 1, classes, N_CLASSES);
	judge(&j, &m, 1, &b, &c);
	g_assert_cmpuint(j.result.n_records, ==, 101);
	g_assert_cmpuint(j.result.n_after_cut, ==, 900);
	g_assert_cmpuint(j.result.clamped, ==, 0);
	g_assert_cmpuint(c.n_streams, ==, 2);
	babeltrace_clear(&b);
	maker_job_clear(&j);
	maker_clear(&m);
}

static void test_duration(void)
{
	Maker m;
	MakerJob j;
	Babeltrace b;
	Checked c;
	u64 now, n = 2000;

	maker_init(&m, 2, ABI_POLICY_OVERWRITE, CONTEXTS);
	now = maker_now(&m);
	for (u64 i = 0; i < n; i++)
		record_number(&m, (u32)i & 1, i, now - (n - i) * 10000000); /* 20 s, every 10 ms */
	maker_job_init(&j, &m, 1, classes, N_CLASSES);
	j.job.duration_ns = 5000000000;
	judge(&j, &m, 1, &b, &c);
	/* exact to the record */
	g_assert_cmpuint(c.first, >=, j.result.cut - j.job.duration_ns);
	g_assert_cmpuint(c.first, <=, j.result.cut - j.job.duration_ns + 10000000);
	g_assert_cmpuint(j.result.trimmed, ==, n - j.result.n_records);
	g_assert_cmpuint(j.result.overwritten, ==, 0);
	g_assert_cmpuint(j.result.corrupt_records, ==, 0);
	babeltrace_clear(&b);
	/* longer than there is: all */
	j.job.duration_ns = 3600000000000;
	j.job.name = "20261129T160102.123457Z-manual";
	judge(&j, &m, 1, &b, &c);
	g_assert_cmpuint(j.result.n_records, ==, n);
	babeltrace_clear(&b);
	/* nothing is that new */
	j.job.duration_ns = 1;
	j.job.name = "20261129T160102.123458Z-manual";
	judge(&j, &m, 1, &b, &c);
	g_assert_cmpuint(j.result.n_records, ==, 0);
	g_assert_cmpuint(j.result.trimmed, ==, n);
	babeltrace_clear(&b);
	maker_job_clear(&j);
	maker_clear(&m);
}

static u64 tree_bytes(const char *path)
{
	g_autoptr(GDir) dir = g_dir_open(path, 0, NULL);
	const char *name;
	u64 sum = 0;

	while ((name = g_dir_read_name(dir))) {
		g_autofree char *child = g_build_filename(path, name, NULL);
		struct stat st;

		g_assert_cmpint(lstat(child, &st), ==, 0);
		sum += S_ISDIR(st.st_mode) ? tree_bytes(child) : (u64)st.st_size;
	}
	return sum;
}

static void test_max_size(void)
{
	static const u64 sizes[] = {100000, 50000, 20000, 12345, 8000, 100};
	Maker m;
	u64 now, n = 12000;

	maker_init(&m, 2, ABI_POLICY_OVERWRITE, CONTEXTS);
	now = maker_now(&m);
	for (u64 i = 0; i < n; i++)
		record_number(&m, i % 7 == 0, i, now - (n - i) * 1000);
	for (size_t k = 0; k < ELEMENTSOF(sizes); k++) {
		MakerJob j;
		Babeltrace b;
		Checked c;
		g_autofree char *path = NULL;

		maker_job_init(&j, &m, 1, classes, N_CLASSES);
		j.job.max_size = sizes[k];
		judge(&j, &m, 1, &b, &c);
		path = g_build_filename(j.directory, j.job.name, NULL);
		g_assert_cmpuint(tree_bytes(path), ==, j.result.n_bytes);
		g_assert_cmpuint(j.result.corrupt_records, ==, 0);
		if (sizes[k] >= 8000) {
			g_assert_cmpuint(j.result.n_bytes, <=, sizes[k]);
			g_assert_cmpuint(j.result.n_bytes, >, sizes[k] - 3000);
			/* the newest is there */
			g_assert_nonnull(strstr(b.lines[b.n - 1], "n = 11999 "));
			/* each ring reaches to the same time, but for a packet */
			for (guint i = 1; i < b.n; i++)
				g_assert_cmpuint(
				    g_ascii_strtoull(strstr(b.lines[i], "n = ") + 4, NULL, 10), >=,
				    n - 1 - 3 * b.n);
		} else
			g_assert_cmpuint(j.result.n_records, ==, 0);
		babeltrace_clear(&b);
		maker_job_clear(&j);
	}
	maker_clear(&m);
}

/* Several owners: each its own trace, its own uuid, one clock. */
static void test_owners(void)
{
	Maker m[3];
	MakerJob j;
	Babeltrace b;
	Checked c;
	u64 now;

	for (u32 i = 0; i < 3; i++)
		maker_init(&m[i], 1, ABI_POLICY_OVERWRITE, i == 2 ? 0 : CONTEXTS);
	now = maker_now(&m[0]);
	for (u64 i = 0; i < 30; i++)
		record_number(&m[i % 2], 0, i, now - 1000 + i);
	maker_job_init(&j, m, 3, classes, N_CLASSES);
	j.sources[1].label = "user-1000"; /* the same as the first */
	j.sources[2].label = "../../\x1b[2J";
	judge(&j, m, 3, &b, &c);
	/* muxed in the order of time */
	for (guint i = 0; i < 30; i++) {
		g_autofree char *text = g_strdup_printf("n = %u ", i);

		g_assert_nonnull(strstr(b.lines[i], text));
	}
	g_autofree char *second =
	    g_build_filename(j.directory, j.job.name, "user-1000+2", "metadata", NULL);
	g_autofree char *third = g_build_filename(j.directory, j.job.name, "_._..___2J", NULL);
	g_assert_true(g_file_test(second, G_FILE_TEST_IS_REGULAR));
	g_assert_true(g_file_test(third, G_FILE_TEST_IS_DIR));
	babeltrace_clear(&b);
	maker_job_clear(&j);
	for (u32 i = 0; i < 3; i++)
		maker_clear(&m[i]);
}

/* Records that are not what their class says go alone; their neighbours stay. */
static void test_bad_records(void)
{
	static const u8 list_too_long[] = {9, 0, 1, 0}, list_too_short[] = {1, 0, 1, 0, 2, 0};
	Maker m;
	MakerJob j;
	Babeltrace b;
	Checked c;
	u64 time;

	maker_init(&m, 1, ABI_POLICY_OVERWRITE, CONTEXTS);
	time = maker_now(&m) - 20000000000;
	record_number(&m, 0, 0, time);
	maker_record(&m, 0, 77, time + 1, "abcdefgh", 8); /* no such class */
	maker_record(&m, 0, 1, time + 2, "abcdefghi", 9); /* left over */
	maker_record(&m, 0, 1, time + 3, "abc", 3);       /* short */
	maker_record(&m, 0, 2, time + 4, "no end", 6);
	maker_record(&m, 0, 2, time + 5, "two\0ends", 9);
	maker_record(&m, 0, 3, time + 6, list_too_long, sizeof(list_too_long));
	maker_record(&m, 0, 3, time + 7, list_too_short, sizeof(list_too_short));
	record_number(&m, 0, 1, time + 8);
	/* a silence that only a bad record says: what follows counts from it */
	maker_record(&m, 0, 77, time + 9000000000, "x", 1);
	record_number(&m, 0, 2, time + 9000000001);
	maker_job_init(&j, &m, 1, classes, N_CLASSES);
	judge(&j, &m, 1, &b, &c);
	g_assert_cmpuint(j.result.n_records, ==, 3);
	g_assert_cmpuint(j.result.corrupt_records, ==, 8);
	g_assert_cmpuint(j.result.corrupt_subs, ==, 0);
	g_assert_cmpuint(babeltrace_discarded(&b), ==, 8);
	g_assert_cmpuint(c.last, ==, time + 9000000001);
	g_assert_cmpuint(j.result.clamped, ==, 0);
	babeltrace_clear(&b);
	maker_job_clear(&j);
	maker_clear(&m);
}

/* Stamps that go back, or ahead, are put right and counted; the others keep their times. */
static void test_backwards(void)
{
	static const int64_t stamps[] = {0,  10,          5,  20,         30000000000,
					 21, -7000000000, 22, 4294967290, 23};
	Maker m;
	MakerJob j;
	Babeltrace b;
	Checked c;
	u64 now;

	maker_init(&m, 1, ABI_POLICY_OVERWRITE, CONTEXTS);
	now = maker_now(&m) - 1000000;
	for (size_t i = 0; i < ELEMENTSOF(stamps); i++)
		record_number(&m, 0, i, now + (u64)stamps[i]);
	maker_job_init(&j, &m, 1, classes, N_CLASSES);
	judge(&j, &m, 1, &b, &c);
	g_assert_cmpuint(j.result.n_records, ==, ELEMENTSOF(stamps));
	g_assert_cmpuint(j.result.clamped, ==, 4);
	g_assert_cmpuint(c.first, ==, now);
	g_assert_cmpuint(c.last, ==, now + 23);
	babeltrace_clear(&b);
	maker_job_clear(&j);
	maker_clear(&m);
}

/* A broken sub-buffer is left out, in part where it can be, and said; older and newer ones stay. */
static void test_broken_subs(void)
{
	Maker m;
	MakerJob j;
	Babeltrace b;
	Checked c;
	u64 now, n = 1500;
	struct abi_sub *h;
	u8 *data;

	maker_init(&m, 1, ABI_POLICY_OVERWRITE, CONTEXTS);
	now = maker_now(&m);
	for (u64 i = 0; i < n; i++)
		record_number(&m, 0, i, now - (n - i) * 1000);
	data = maker_data(&m, 0);
	h = (struct abi_sub *)(data + 2 * 4096);
	h->position ^= 1 << 20;
	h = (struct abi_sub *)(data + 4 * 4096);
	h->end += 4096;
	data[6 * 4096 + 128 + 24 * 10 + 2] = 3; /* the length of its eleventh record */
	maker_job_init(&j, &m, 1, classes, N_CLASSES);
	judge(&j, &m, 1, &b, &c);
	g_assert_cmpuint(j.result.corrupt_subs, ==, 3);
	/* a sub-buffer takes (4096 - 128) / 24 = 165 */
	g_assert_cmpuint(j.result.corrupt_records, ==, 165 + 165 + 155);
	g_assert_cmpuint(j.result.n_records, ==, n - 485);
	g_assert_cmpuint(babeltrace_discarded(&b), ==, 485);
	g_assert_nonnull(strstr(b.err, "packet"));
	babeltrace_clear(&b);
	maker_job_clear(&j);
	maker_clear(&m);
}

/* Positions and counts that cannot be. */
static void test_absurd_lines(void)
{
	static const u64 words[] = {1,
				    2,
				    3,
				    4,
				    64,
				    128,
				    129,
				    4096,
				    65536,
				    1ull << 40,
				    1ull << 62,
				    1ull << 63,
				    UINT64_MAX,
				    UINT64_MAX - 3,
				    UINT64_MAX - 4095};
	for (size_t i = 0; i < ELEMENTSOF(words) * 4; i++) {
		Maker m;
		MakerJob j;
		Babeltrace b;
		Checked c;
		u64 now, word = words[i / 4];
		g_autofree char *path = NULL;

		maker_init(&m, 2, i & 2 ? ABI_POLICY_DISCARD : ABI_POLICY_OVERWRITE, CONTEXTS);
		now = maker_now(&m);
		for (u64 k = 0; k < 1000; k++) {
			record_number(&m, 0, k, now - 2000 + k);
			record_number(&m, 1, k, now - 2000 + k);
		}
		if (i & 1) {
			maker_line(&m, 0)->offset = word;
			maker_line(&m, 0)->lost[3] = word;
		} else {
			maker_line(&m, 0)->count[0] = maker_line(&m, 0)->count[1] = word;
			maker_line(&m, 0)->consumed = word;
		}
		maker_job_init(&j, &m, 1, classes, N_CLASSES);
		path = maker_job_run(&j);
		checker_snapshot(&c, path, classes, N_CLASSES, CONTEXTS, NULL, NULL);
		babeltrace_run(&b, path, NULL);
		babeltrace_assert_clean(&b);
		/* the other ring is whole */
		g_assert_cmpuint(babeltrace_count(&b, "cpu_id = 1 "), ==, 1000);
		babeltrace_clear(&b);
		maker_job_clear(&j);
		maker_clear(&m);
	}
}

/* Nothing is left behind when the disk is full, and the words have numbers. It fills up at another
 * place for each size: at a directory, a stream, an index, the metadata. */
static void test_no_space(void)
{
	g_autofree char *mount_point = maker_directory();
	u64 now, n = 3000;
	u32 failed = 0;
	Maker m;

	maker_init(&m, 2, ABI_POLICY_OVERWRITE, CONTEXTS);
	now = maker_now(&m);
	for (u64 i = 0; i < n; i++)
		record_number(&m, (u32)i & 1, i, now - (n - i) * 1000);
	for (u32 pages = 1; pages <= 40; pages++) {
		g_autofree char *options = g_strdup_printf("size=%uk,mode=0700", pages * 4);
		g_autoptr(GDir) dir = NULL;
		MakerJob j;
		int r;

		if (mount("tmpfs", mount_point, "tmpfs", 0, options) < 0) {
			g_test_skip("cannot mount a small tmpfs (needs root)");
			break;
		}
		maker_job_init(&j, &m, 1, classes, N_CLASSES);
		j.job.directory = mount_point;
		r = snapshot_run(&j.job, &j.result, &j.failure);
		dir = g_dir_open(mount_point, 0, NULL);
		if (r < 0) {
			g_autofree char *available =
			    g_strdup_printf(", %u are available", pages * 4096);

			failed++;
			g_assert_cmpint(r, ==, -ENOSPC);
			g_assert_cmpint(j.failure.kind, ==, FAILURE_NO_SPACE);
			g_assert_nonnull(strstr(j.failure.text, "flight"));
			g_assert_nonnull(strstr(j.failure.text, available));
			g_assert_null(g_dir_read_name(dir));
		} else {
			Checked c;
			g_autofree char *path = g_build_filename(mount_point, j.job.name, NULL);

			checker_snapshot(&c, path, classes, N_CLASSES, CONTEXTS, NULL, NULL);
			g_assert_cmpuint(c.n_records, ==, n);
		}
		for (u32 i = 0; i < 4; i++)
			g_assert_cmpuint(maker_line(&m, i)->hold, ==, 0);
		g_clear_pointer(&dir, g_dir_close);
		g_assert_cmpint(umount(mount_point), ==, 0);
		maker_job_clear(&j);
	}
	if (failed) /* 72 KB of records, and there were sizes enough for all of it */
		g_assert_cmpuint(failed, <, 30);
	maker_remove(mount_point);
	maker_clear(&m);
}

static guint n_descriptors(void)
{
	g_autoptr(GDir) d = g_dir_open("/proc/self/fd", 0, NULL);
	guint n = 0;

	while (g_dir_read_name(d))
		n++;
	return n;
}

/* More files than are kept open for the end: all are there, and closed. */
static void test_many_rings(void)
{
	guint before = n_descriptors();
	Maker m;
	MakerJob j;
	Babeltrace b;
	Checked c;
	u64 now;

	maker_init(&m, 64, ABI_POLICY_OVERWRITE, CONTEXTS);
	now = maker_now(&m);
	for (u32 i = 0; i < 66; i++)
		record_number(&m, i, i, now - 1000 + i);
	maker_job_init(&j, &m, 1, classes, N_CLASSES);
	judge(&j, &m, 1, &b, &c);
	g_assert_cmpuint(b.n, ==, 66);
	g_assert_cmpuint(c.n_streams, ==, 66);
	babeltrace_clear(&b);
	maker_job_clear(&j);
	maker_clear(&m);
	g_assert_cmpuint(n_descriptors(), ==, before);
}

static void test_in_the_way(void)
{
	Maker m;
	MakerJob j;
	g_autofree char *path = NULL, *temporary = NULL, *file = NULL;

	maker_init(&m, 1, ABI_POLICY_OVERWRITE, CONTEXTS);
	record_number(&m, 0, 1, maker_now(&m));
	maker_job_init(&j, &m, 1, classes, N_CLASSES);
	path = maker_job_run(&j);
	/* a second one of the same name does not take the first one's place */
	g_assert_cmpint(snapshot_run(&j.job, &j.result, &j.failure), ==, -EIO);
	g_assert_nonnull(strstr(j.failure.text, j.job.name));
	file = g_build_filename(path, "user-1000", "metadata", NULL);
	g_assert_true(g_file_test(file, G_FILE_TEST_EXISTS));
	temporary = g_strdup_printf("%s/.%s.tmp", j.directory, j.job.name);
	g_assert_false(g_file_test(temporary, G_FILE_TEST_EXISTS));
	/* no directory */
	j.job.directory = "/nonexistent/directory";
	g_assert_cmpint(snapshot_run(&j.job, &j.result, &j.failure), ==, -EIO);
	g_assert_nonnull(strstr(j.failure.text, "/nonexistent/directory"));
	maker_job_clear(&j);
	maker_clear(&m);
}

/* Rings of lies: bytes of records, headers and lines changed at random. Whatever is written must
 * read. */
static void test_hostile(void)
{
	u32 seed = g_test_rand_int_range(0, 0x7FFFFFFF) | 1;
	int rounds = g_test_thorough() ? 2000 : 150;
	GRand *rand;

	g_test_message("seed %u", seed);
	rand = g_rand_new_with_seed(seed);
	for (int round = 0; round < rounds; round++) {
		Maker m;
		MakerJob j;
		Checked c;
		u64 time;
		u32 n = (u32)g_rand_int_range(rand, 1, 6000);
		int edits = g_rand_int_range(rand, 1, 40);
		g_autofree char *path = NULL;

		maker_init(&m, 2, g_rand_boolean(rand) ? ABI_POLICY_DISCARD : ABI_POLICY_OVERWRITE,
			   CONTEXTS);
		time = maker_now(&m) - 8000000000;
		for (u32 i = 0; i < n; i++) {
			u8 text[40];
			u32 id = (u32)g_rand_int_range(rand, 1, 4),
			    size = (u32)g_rand_int_range(rand, 1, 40);

			memset(text, 'a', sizeof(text));
			if (id == 1)
				size = 8;
			else if (id == 2)
				text[size - 1] = 0;
			else {
				text[0] = (u8)(size / 2);
				text[1] = 0;
				size = 2 + text[0] * 2u;
				size = MIN(size, 40u);
				text[0] = (u8)((size - 2) / 2);
			}
			time += (u64)g_rand_int_range(rand, 0, 2000000);
			(void)maker_record(&m, i % 3, id, time, text, size);
		}
		for (int i = 0; i < edits; i++) {
			u32 ring = (u32)g_rand_int_range(rand, 0, 3);
			u8 *data = maker_data(&m, ring);
			u8 *line = (u8 *)maker_line(&m, ring);
			u32 sub = (u32)g_rand_int_range(rand, 0, 16) * 4096;

			switch (g_rand_int_range(rand, 0, 5)) {
			case 0: /* one bit anywhere */
				data[g_rand_int_range(rand, 0, 65536)] ^=
				    (u8)(1 << g_rand_int_range(rand, 0, 8));
				break;
			case 1: /* a header */
				data[sub + (u32)g_rand_int_range(rand, 0, 40)] ^=
				    (u8)(1 << g_rand_int_range(rand, 0, 8));
				break;
			case 2: /* a stretch of noise */
				for (u32 k = 0, at = (u32)g_rand_int_range(rand, 0, 65000); k < 64;
				     k++)
					data[at + k] = (u8)g_rand_int(rand);
				break;
			case 3: /* the first records of a sub-buffer */
				data[sub + 128 + (u32)g_rand_int_range(rand, 0, 100)] =
				    (u8)g_rand_int(rand);
				break;
			default: /* the line, seldom */
				if (g_rand_int_range(rand, 0, 4) == 0)
					line[g_rand_int_range(rand, 0, 256)] ^=
					    (u8)(1 << g_rand_int_range(rand, 0, 8));
			}
		}
		maker_job_init(&j, &m, 1, classes, N_CLASSES);
		if (round % 5 == 1)
			j.job.duration_ns = 4000000000;
		if (round % 5 == 2)
			j.job.max_size = 30000;
		path = maker_job_run(&j);
		checker_snapshot(&c, path, classes, N_CLASSES, CONTEXTS, NULL, NULL);
		g_assert_cmpuint(c.n_records, ==, j.result.n_records);
		if (round % 5 == 0) {
			Babeltrace b;

			babeltrace_run(&b, path, NULL);
			babeltrace_assert_clean(&b);
			g_assert_cmpuint(b.n, ==, c.n_records);
			babeltrace_clear(&b);
		}
		maker_job_clear(&j);
		maker_clear(&m);
	}
	g_rand_free(rand);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	classes_make();
	g_test_add_func("/snapshot/simple", test_simple);
	g_test_add_func("/snapshot/time-of-day", test_time_of_day);
	g_test_add_func("/snapshot/modes", test_modes);
	g_test_add_func("/snapshot/empty", test_empty);
	g_test_add_func("/snapshot/overwrite", test_overwrite);
	g_test_add_func("/snapshot/urgent", test_urgent);
	g_test_add_func("/snapshot/discard", test_discard);
	g_test_add_func("/snapshot/losses", test_losses);
	g_test_add_func("/snapshot/extended", test_extended);
	g_test_add_func("/snapshot/after-cut", test_after_cut);
	g_test_add_func("/snapshot/duration", test_duration);
	g_test_add_func("/snapshot/max-size", test_max_size);
	g_test_add_func("/snapshot/owners", test_owners);
	g_test_add_func("/snapshot/bad-records", test_bad_records);
	g_test_add_func("/snapshot/backwards", test_backwards);
	g_test_add_func("/snapshot/broken-sub-buffers", test_broken_subs);
	g_test_add_func("/snapshot/absurd-lines", test_absurd_lines);
	g_test_add_func("/snapshot/no-space", test_no_space);
	g_test_add_func("/snapshot/many-rings", test_many_rings);
	g_test_add_func("/snapshot/in-the-way", test_in_the_way);
	g_test_add_func("/snapshot/hostile", test_hostile);
	return g_test_run();
}
