/* SPDX-License-Identifier: MIT */
/* Reading, cutting and repairing traces that lie on disk: against babeltrace2, against the checker, against damage of every
 * kind, and by the number of packets that a search looks at. */
#include <fcntl.h>
#include <sys/stat.h>

#include "daemon/trace/extract.h"
#include "daemon/trace/file.h"
#include "daemon/trace/index.h"
#include "daemon/trace/packet.h"
#include "daemon/trace/metadata.h"
#include "daemon/trace/repair.h"
#include "daemon/trace/text.h"
#include "tests/unit/daemon/babeltrace.h"
#include "tests/unit/daemon/checker.h"

/* behind ours, as ever */
#include <glib/gstdio.h>

#define REAL_OFFSET (1700000000ull * NSEC_PER_SEC + 123456789)

static TraceClass classes[2];

static void classes_make(void)
{
	classes[0] = (TraceClass){1, maker_class("shop", "number", 6, "n", TRACER_TYPE_U64, 0, 0, NULL)};
	classes[1] = (TraceClass){2, maker_class("shop", "text", 4, "text", TRACER_TYPE_STR, 0, 0, NULL)};
}

/* ---- traces of the test's own ---- */

/* Appends a record: compact if it may be, a number or a text of odd length. */
static void record_put(GByteArray *a, u64 *clock, u64 time, u64 n)
{
	bool extended = time - *clock >= 1ull << 31, text = n % 5 == 4;
	u8 body[64];
	u32 size = 8, header = extended ? ABI_RECORD_EXTENDED : ABI_RECORD_HEADER, id = text ? 2 : 1;
	u16 head[2] = {extended ? ABI_ID_EXTENDED : (u16)id, 0};
	u32 low = (u32)time;

	memcpy(body, &n, 8);
	if (text)
		size = (u32)g_snprintf((char *)body, sizeof(body), "%0*" G_GUINT64_FORMAT, 1 + (int)(n % 7), n) + 1;
	head[1] = (u16)(header + size);
	/* a record begins at a multiple of 4, the content ends with the last one's last byte */
	while (a->len % 4)
		g_byte_array_append(a, (const u8 *)"", 1);
	g_byte_array_append(a, (u8 *)head, 4);
	if (extended) {
		g_byte_array_append(a, (u8 *)&id, 4);
		g_byte_array_append(a, (u8 *)&time, 8);
	} else {
		g_byte_array_append(a, (u8 *)&low, 4);
	}
	g_byte_array_append(a, body, size);
	*clock = time;
}

typedef struct {
	u32 n_packets, per_packet;
	u64 start, step;    /* times of records */
	u64 lost_at, lost;  /* before packet lost_at, so many */
	u32 pad;	    /* packet_size is a multiple of it */
	u32 long_gap;	    /* a gap of 10 s in the middle of each packet so many packets apart; 0: none */
} Shape;

/* Writes a stream file and its index by packet_encode(), for packets that are padded as a strategy wants it. */
static void stream_write(const char *owner, const char *name, const u8 uuid[16], const Shape *shape, u32 cpu)
{
	g_autofree char *path = g_build_filename(owner, name, NULL);
	g_autofree char *index = g_strdup_printf("%s/index/%s.idx", owner, name);
	g_autoptr(GByteArray) data = g_byte_array_new(), entries = g_byte_array_new();
	u8 head[PACKET_HEADER], entry[INDEX_ENTRY], index_head[INDEX_HEADER];
	u64 time = shape->start, n = 0, before = shape->start;

	index_encode_header(index_head);
	g_byte_array_append(entries, index_head, sizeof(index_head));
	for (u32 i = 0; i < shape->n_packets; i++) {
		g_autoptr(GByteArray) records = g_byte_array_new();
		u64 begin = before, clock = begin;
		PacketInfo info = {.begin = begin, .sequence = i, .cpu = cpu, .stream_instance = cpu};

		for (u32 k = 0; k < shape->per_packet; k++, time += shape->step) {
			if (shape->long_gap && i % shape->long_gap == 0 && k == shape->per_packet / 2)
				time += 10 * NSEC_PER_SEC;
			record_put(records, &clock, time, n++);
		}
		info.end = time; /* the next one's first record */
		info.discarded = shape->lost && i >= shape->lost_at ? shape->lost : 0;
		info.content_size = PACKET_HEADER + records->len;
		info.packet_size = ALIGN_UP(packet_size(records->len), (u64)shape->pad);
		packet_encode(head, uuid, &info);
		index_encode_entry(entry, data->len, &info);
		g_byte_array_append(entries, entry, sizeof(entry));
		g_byte_array_append(data, head, sizeof(head));
		g_byte_array_append(data, records->data, records->len);
		while (data->len % shape->pad)
			g_byte_array_append(data, (const u8 *)"", 1);
		before = info.end;
	}
	g_assert_true(g_file_set_contents(path, (char *)data->data, data->len, NULL));
	g_assert_true(g_file_set_contents(index, (char *)entries->data, entries->len, NULL));
}

/* An owner's trace with n streams, each a little later than the one before. */
static void owner_write(const char *trace, const char *owner, u8 number, const Shape *shape, u32 n_streams)
{
	g_autofree char *path = g_build_filename(trace, owner, NULL), *index = g_build_filename(path, "index", NULL);
	g_autofree char *file = g_build_filename(path, "metadata", NULL);
	_cleanup_free_ char *text = NULL;
	u8 uuid[16] = {number, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
	const TraceEnvironment pairs[] = {{"session", "flight"}, {"reason", "}; \nclock {\n\toffset_s = 1;"}};
	const TraceClock clock = {.uuid = {9}, .realtime_offset_ns = REAL_OFFSET, .description = "test"};
	size_t size;

	g_assert_cmpint(g_mkdir_with_parents(index, 0750), ==, 0);
	g_assert_cmpint(metadata_write(&text, &size,
				       &(Metadata){.uuid = uuid,
						   .clock = &clock,
						   .environment = pairs,
						   .n_environment = ELEMENTSOF(pairs),
						   .classes = classes,
						   .n_classes = ELEMENTSOF(classes)}),
			==, 0);
	g_assert_true(g_file_set_contents(file, text, (gssize)size, NULL));
	for (u32 i = 0; i < n_streams; i++) {
		g_autofree char *name = g_strdup_printf("cpu_%u", i);
		Shape s = *shape;

		s.start += i * 7;
		stream_write(path, name, uuid, &s, i);
	}
}

static Extract *extract_open(const char *path)
{
	Failure f = FAILURE_NULL;
	Extract *e = NULL;

	if (extract_new(&e, path, &f) < 0)
		g_error("%s", f.text);
	return e;
}

static ExtractResult extract(const char *path, u64 from, u64 to, const char *output)
{
	_cleanup_(extract_freep) Extract *e = extract_open(path);
	ExtractResult result;
	Failure f = FAILURE_NULL;

	if (extract_write(e, from, to, output, &result, &f) < 0)
		g_error("%s", f.text);
	return result;
}

static gint compare_lines(gconstpointer a, gconstpointer b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Lines that babeltrace2 prints of `path`, of [from, to] if from is not 0; sorted, since events of one time have no order. */
static char *shown(const char *path, u64 from, u64 to, guint *ret_n)
{
	g_autofree char *begin = g_strdup_printf("--begin=%" G_GUINT64_FORMAT ".%09" G_GUINT64_FORMAT,
						 (guint64)(from / NSEC_PER_SEC), (guint64)(from % NSEC_PER_SEC));
	g_autofree char *end = g_strdup_printf("--end=%" G_GUINT64_FORMAT ".%09" G_GUINT64_FORMAT,
					       (guint64)(to / NSEC_PER_SEC), (guint64)(to % NSEC_PER_SEC));
	const char *const arguments[] = {"--clock-seconds", "--no-delta", from ? begin : NULL, end, NULL};
	g_autoptr(GPtrArray) lines = g_ptr_array_new();
	Babeltrace b;
	char *text;

	babeltrace_run(&b, path, arguments);
	babeltrace_assert_clean(&b);
	for (guint i = 0; i < b.n; i++)
		g_ptr_array_add(lines, b.lines[i]);
	g_ptr_array_sort(lines, compare_lines);
	g_ptr_array_add(lines, NULL);
	text = g_strjoinv("\n", (char **)lines->pdata);
	*ret_n = b.n;
	babeltrace_clear(&b);
	return text;
}

static void checked(Checked *sum, const char *path)
{
	checker_snapshot(sum, path, classes, ELEMENTSOF(classes), 0, NULL, NULL);
}

/* ---- extracting ---- */

static const Shape plain = {.n_packets = 20, .per_packet = 9, .start = 5000, .step = 100, .pad = 8};

/* What babeltrace2 shows of a range of the source is what it shows of all of the extract. */
static void compare_range(const char *trace, const char *directory, u64 from, u64 to)
{
	g_autofree char *output = g_build_filename(directory, "extract", NULL);
	g_autofree char *expected = NULL, *have = NULL;
	guint n_expected, n;
	Checked sum;

	expected = shown(trace, from, to, &n_expected);
	if (n_expected == 0) {
		_cleanup_(extract_freep) Extract *e = extract_open(trace);
		ExtractResult result;
		Failure f = FAILURE_NULL;

		g_assert_cmpint(extract_write(e, from, to, output, &result, &f), <, 0);
		g_assert_cmpint(f.kind, ==, FAILURE_NOTHING);
		g_assert_false(g_file_test(output, G_FILE_TEST_EXISTS));
		return;
	}
	(void)extract(trace, from, to, output);
	have = shown(output, 0, 0, &n);
	g_assert_cmpuint(n, ==, n_expected);
	g_assert_cmpstr(have, ==, expected);
	checked(&sum, output);
	g_assert_cmpuint(sum.n_records, ==, n);
	g_assert_cmpuint(sum.first + REAL_OFFSET, >=, from);
	g_assert_cmpuint(sum.last + REAL_OFFSET, <=, to);
	maker_remove(output);
}

static void test_ranges(gconstpointer data)
{
	g_autofree char *directory = maker_directory(), *trace = g_build_filename(directory, "trace", NULL);
	Shape shape = plain;
	u64 last;

	shape.pad = GPOINTER_TO_UINT(data) & 1 ? 4096 : 8;
	shape.long_gap = GPOINTER_TO_UINT(data) & 2 ? 3 : 0;
	last = 5000 + 180 * 100 + (shape.long_gap ? 7 * 10 * NSEC_PER_SEC : 0);
	owner_write(trace, "user-0", 1, &shape, 2);
	owner_write(trace, "user-1000", 2, &shape, 1);
	/* on records, between them, on packets' edges */
	compare_range(trace, directory, REAL_OFFSET + 5000, REAL_OFFSET + 5000);
	compare_range(trace, directory, REAL_OFFSET + 4000, REAL_OFFSET + 4999);
	compare_range(trace, directory, REAL_OFFSET + last + 100, REAL_OFFSET + last + 10000);
	compare_range(trace, directory, REAL_OFFSET + 1, REAL_OFFSET + last * 2);
	for (u64 k = 0; k < 12; k++) {
		u64 from = 5000 + k * (last / 13) / 100 * 100 + (k % 3 == 0 ? 0 : k % 3 == 1 ? 7 : 50);

		compare_range(trace, directory, REAL_OFFSET + from, REAL_OFFSET + from + k * k * 350 + k % 2);
	}
	maker_remove(directory);
}

/* The smallest range that holds a record holds it alone, for every record: no edge is special. */
static void test_every_record(void)
{
	g_autofree char *directory = maker_directory(), *trace = g_build_filename(directory, "trace", NULL);
	g_autofree char *output = g_build_filename(directory, "extract", NULL);
	Shape shape = plain;

	shape.n_packets = 4;
	owner_write(trace, "user-0", 1, &shape, 1);
	for (u64 i = 0; i < 36; i++) {
		u64 time = 5000 + i * 100;
		Checked sum;

		(void)extract(trace, REAL_OFFSET + time, REAL_OFFSET + time, output);
		checked(&sum, output);
		g_assert_cmpuint(sum.n_records, ==, 1);
		g_assert_cmpuint(sum.first, ==, time);
		maker_remove(output);
	}
	maker_remove(directory);
}

/* Two extracts that meet have all records together, each once; likewise their losses at least once. */
static void test_losses(void)
{
	g_autofree char *directory = maker_directory(), *trace = g_build_filename(directory, "trace", NULL);
	g_autofree char *output = g_build_filename(directory, "extract", NULL);
	Shape shape = plain;

	shape.lost_at = 10;
	shape.lost = 17;
	owner_write(trace, "user-0", 1, &shape, 1);
	for (u64 cut = 4000; cut < 5000 + 181 * 100; cut += 450) {
		u64 records = 0, discarded = 0;

		for (int side = 0; side < 2; side++) {
			_cleanup_(extract_freep) Extract *e = extract_open(trace);
			ExtractResult result;
			Failure f = FAILURE_NULL;
			Babeltrace b;
			Checked sum;
			int r = extract_write(e, side ? REAL_OFFSET + cut + 1 : 0,
					      side ? UINT64_MAX : REAL_OFFSET + cut, output, &result, &f);

			if (r < 0) {
				g_assert_cmpint(f.kind, ==, FAILURE_NOTHING);
				continue;
			}
			checked(&sum, output);
			records += sum.n_records;
			discarded += sum.discarded;
			g_assert_cmpuint(sum.discarded, ==, result.discarded);
			if (side == 0 && cut < 5000 + 90 * 100)
				g_assert_cmpuint(sum.discarded, ==, 0); /* the loss is later */
			if (side == 1 && cut > 5000 + 100 * 100)
				g_assert_cmpuint(sum.discarded, ==, 0);
			babeltrace_run(&b, output, NULL);
			babeltrace_assert_clean(&b);
			g_assert_cmpuint(babeltrace_discarded(&b), ==, sum.discarded);
			babeltrace_clear(&b);
			maker_remove(output);
		}
		g_assert_cmpuint(records, ==, 180);
		g_assert_cmpuint(discarded, >=, 17);
		g_assert_cmpuint(discarded, <=, 34);
	}
	maker_remove(directory);
}

static u64 touched(const char *path, u64 time)
{
	MetadataText text;
	TraceFile f;
	TracePacket p, before;
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), r;

	g_assert_cmpint(metadata_text_read(&text, fd), ==, 0);
	g_assert_cmpint(trace_file_open(&f, fd, "cpu_0", text.uuid), ==, 0);
	r = trace_file_find(&f, time, &p, &before);
	g_assert_cmpint(r, >=, 0);
	if (r > 0) {
		g_assert_cmpuint(p.info.end, >=, time);
		if (before.offset != UINT64_MAX)
			g_assert_cmpuint(before.info.end, <, time);
		else
			g_assert_cmpuint(p.offset, ==, 0);
	}
	r = (int)f.touched;
	trace_file_close(&f);
	metadata_text_clear(&text);
	(void)close(fd);
	return (u64)r;
}

/* The packets that a search looks at are as many as the logarithm says, wherever it ends. */
static void test_logarithm(void)
{
	g_autofree char *directory = maker_directory(), *owner = g_build_filename(directory, "trace", "user-0", NULL);
	g_autofree char *trace = g_build_filename(directory, "trace", NULL);
	g_autofree char *index = g_build_filename(owner, "index", "cpu_0.idx", NULL);
	g_autofree char *output = g_build_filename(directory, "extract", NULL);
	u64 most[2] = {0};
	ExtractResult result;

	for (int size = 0; size < 2; size++) {
		Shape shape = {.n_packets = size ? 16384 : 256, .per_packet = 2, .start = 5000, .step = 10, .pad = 8};

		owner_write(trace, "user-0", 1, &shape, 1);
		for (u64 k = 0; k <= 64; k++)
			most[size] = MAX(most[size], touched(owner, 4000 + k * (shape.n_packets * 20 + 2000) / 64));
		g_test_message("%u packets: at most %" G_GUINT64_FORMAT " looked at", shape.n_packets, most[size]);
	}
	/* first and last, the steps, and the neighbour */
	g_assert_cmpuint(most[0], <=, 2 + 8 + 2);
	g_assert_cmpuint(most[1], <=, 2 + 14 + 2);
	/* what is copied is looked at besides */
	result = extract(trace, REAL_OFFSET + 100000, REAL_OFFSET + 100100, output);
	g_assert_cmpuint(result.n_packets, <=, 7);
	g_assert_cmpuint(result.n_touched, <=, 18 + 2 + result.n_packets);
	/* and without its index, all are */
	g_assert_cmpint(g_unlink(index), ==, 0);
	g_assert_cmpuint(touched(owner, 20000), >, 500);
	maker_remove(directory);
}

/* Whatever the index says, the result is the same. */
static void test_index_lies(void)
{
	g_autofree char *directory = maker_directory(), *owner = g_build_filename(directory, "trace", "user-0", NULL);
	g_autofree char *trace = g_build_filename(directory, "trace", NULL);
	g_autofree char *index = g_build_filename(owner, "index", "cpu_0.idx", NULL);
	g_autofree char *output = g_build_filename(directory, "extract", NULL);
	g_autofree char *right = NULL;
	g_autoptr(GRand) rand = g_rand_new_with_seed(4711);
	gsize size;

	owner_write(trace, "user-0", 1, &plain, 1);
	g_assert_true(g_file_get_contents(index, &right, &size, NULL));
	for (int turn = 0; turn < 400; turn++) {
		g_autofree char *wrong = g_memdup2(right, size);
		gsize n = size;
		Checked sum;

		if (turn % 4 == 0) {
			n = (gsize)g_rand_int_range(rand, 0, (gint32)size);
		} else if (turn % 4 == 1) { /* entries in another order */
			gsize a = (gsize)g_rand_int_range(rand, 0, 20), b = (gsize)g_rand_int_range(rand, 0, 20);

			memcpy(wrong + INDEX_HEADER + a * INDEX_ENTRY, right + INDEX_HEADER + b * INDEX_ENTRY, INDEX_ENTRY);
		} else {
			for (int k = 0; k < turn % 4; k++)
				wrong[g_rand_int_range(rand, 0, (gint32)size)] ^= (char)g_rand_int_range(rand, 1, 256);
		}
		g_assert_true(g_file_set_contents(index, wrong, (gssize)n, NULL));
		(void)extract(trace, REAL_OFFSET + 9950, REAL_OFFSET + 12050, output);
		checked(&sum, output);
		g_assert_cmpuint(sum.n_records, ==, 21);
		g_assert_cmpuint(sum.first, ==, 10000);
		maker_remove(output);
	}
	maker_remove(directory);
}

/* One owner's trace, a trace, and a session's output with several. */
static void test_places(void)
{
	static const char *const names[] = {"20261129T160102.123456Z-trace", "20261129T160202.123456Z-trace",
					    "20261129T160302.123456Z-trace.active"};
	g_autofree char *directory = maker_directory(), *session = g_build_filename(directory, "audit", NULL);
	g_autofree char *hidden = g_build_filename(session, ".20261129T160002.123456Z-trace.tmp", NULL);
	g_autofree char *output = g_build_filename(directory, "extract", NULL);
	g_autofree char *file = NULL, *text = NULL, *again = g_build_filename(directory, "again", NULL);
	Checked sum;
	guint n;

	owner_write(hidden, "user-0", 9, &plain, 1);
	for (u32 i = 0; i < 3; i++) {
		g_autofree char *trace = g_build_filename(session, names[i], NULL);
		g_autofree char *owner = g_build_filename(trace, "user-0", NULL);
		g_autofree char *copied = g_build_filename(output, "user-0", "cpu_1", NULL);
		Shape shape = plain;

		shape.start += i * 20000;
		owner_write(trace, "user-0", (u8)(i * 2), &shape, 2);
		owner_write(trace, "user-7", (u8)(i * 2 + 1), &shape, 1);
		g_assert_cmpuint(extract(owner, 0, UINT64_MAX, output).n_traces, ==, 1);
		g_assert_true(g_file_test(copied, G_FILE_TEST_EXISTS));
		maker_remove(output);
		g_assert_cmpuint(extract(trace, 0, UINT64_MAX, output).n_traces, ==, 2);
		checked(&sum, output);
		g_assert_cmpuint(sum.n_records, ==, 180 * 3);
		maker_remove(output);
	}
	/* the end of the first, the beginning of the second */
	g_assert_cmpuint(extract(session, REAL_OFFSET + 22000, REAL_OFFSET + 26000, output).n_traces, ==, 4);
	for (u32 i = 0; i < 3; i++) {
		g_autofree char *path = g_build_filename(output, names[i], NULL);

		g_assert_cmpint(g_file_test(path, G_FILE_TEST_IS_DIR), ==, i < 2);
	}
	text = shown(output, 0, 0, &n);
	g_assert_cmpuint(n, ==, 3 * 10 + 11 + 10 + 11);
	/* extracted once more: the pairs are there once */
	g_assert_cmpuint(extract(output, REAL_OFFSET + 22500, UINT64_MAX, again).n_traces, ==, 4);
	g_free(text);
	text = shown(again, 0, 0, &n);
	g_free(text);
	file = g_build_filename(again, names[0], "user-7", "metadata", NULL);
	g_assert_true(g_file_get_contents(file, &text, NULL, NULL));
	g_assert_nonnull(strstr(text, "/extract/20261129T160102.123456Z-trace/user-7\";"));
	g_assert_nonnull(strstr(text, "\trange = \"2023-11-14T22:13:20.123479289Z to "));
	g_assert_null(strstr(strstr(text, "extracted_from") + 1, "extracted_from"));
	maker_remove(directory);
}

static void test_refused(void)
{
	g_autofree char *directory = maker_directory(), *trace = g_build_filename(directory, "trace", NULL);
	g_autofree char *output = g_build_filename(directory, "extract", NULL);
	g_autofree char *nowhere = g_build_filename(directory, "no", "where", NULL);
	const char *const outputs[] = {trace, nowhere, "/", ".", ".."};
	Extract *e = NULL;
	ExtractResult result;
	Failure f = FAILURE_NULL;
	g_autoptr(GDir) dir = NULL;

	owner_write(trace, "user-0", 1, &plain, 1);
	g_assert_cmpint(extract_new(&e, nowhere, &f), <, 0);
	g_assert_nonnull(strstr(f.text, "No such file"));
	g_assert_cmpint(g_mkdir(output, 0700), ==, 0);
	g_assert_cmpint(extract_new(&e, output, &f), <, 0);
	g_assert_nonnull(strstr(f.text, "no trace of tracer"));
	e = extract_open(trace);
	for (size_t i = 0; i < ELEMENTSOF(outputs); i++)
		g_assert_cmpint(extract_write(e, 0, UINT64_MAX, outputs[i], &result, &f), <, 0);
	/* an empty directory is somebody's as well */
	g_assert_cmpint(extract_write(e, 0, UINT64_MAX, output, &result, &f), <, 0);
	g_assert_nonnull(strstr(f.text, "exists already"));
	g_assert_cmpint(g_rmdir(output), ==, 0);
	g_assert_cmpint(extract_write(e, 2, 1, output, &result, &f), <, 0);
	g_assert_cmpint(extract_write(e, 1, 2, output, &result, &f), <, 0);
	g_assert_cmpint(f.kind, ==, FAILURE_NOTHING);
	extract_free(e);
	/* nothing is left of any try */
	dir = g_dir_open(directory, 0, NULL);
	g_assert_cmpstr(g_dir_read_name(dir), ==, "trace");
	g_assert_null(g_dir_read_name(dir));
	maker_remove(directory);
}

/* tracerctl with the words of `line`, in `directory`: its status, and what it said. */
static int command(const char *directory, const char *const *words, char **ret_said)
{
	g_autoptr(GPtrArray) argv = g_ptr_array_new();
	g_autoptr(GError) error = NULL;
	g_autofree char *out = NULL, *err = NULL;
	char **environment = g_environ_setenv(g_get_environ(), "TZ", "UTC", TRUE);
	int status;

	g_ptr_array_add(argv, (char *)TRACERCTL);
	for (; *words; words++)
		g_ptr_array_add(argv, (char *)*words);
	g_ptr_array_add(argv, NULL);
	/* no bus anywhere */
	environment = g_environ_setenv(environment, "DBUS_SYSTEM_BUS_ADDRESS", "unix:path=/nonexistent", TRUE);
	g_spawn_sync(directory, (char **)argv->pdata, environment, 0, NULL, NULL, &out, &err, &status, &error);
	g_assert_no_error(error);
	g_strfreev(environment);
	*ret_said = g_strconcat(out, err, NULL);
	g_test_message("%s", *ret_said);
	g_assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

/* The command, without a daemon or a bus. */
static void test_command(void)
{
	g_autofree char *directory = maker_directory(), *trace = g_build_filename(directory, "trace", NULL);
	g_autofree char *output = g_build_filename(directory, "out", NULL);
	static const struct {
		const char *from, *to;
		u64 n; /* records */
	} fine[] = {
		{NULL, NULL, 180},
		{"22:13:20.123462", "22:13:20.1234630", 10}, /* 5211 to 6211 of the trace's clock */
		{"2023-11-14 22:13:20.123462", "2023-11-14T22:13:20.123463Z", 10},
		{"+1us", NULL, 170},
		{"+0", "+0", 1},
		{"-1us", NULL, 10}, /* the end is that of the last packet */
		{"-1h", "+1h", 180},
	};
	static const struct {
		const char *from, *to, *says;
		int status;
	} wrong[] = {
		{"yesterday", NULL, "--from=yesterday: write it like", 2},
		{NULL, "2023-02-30", "no such time", 2},
		{"+10us", "+5us", "--from is later than --to; the trace is of 2023-11-14 22:13:20.123461789 to ", 1},
		{"2024-01-01", NULL, "nothing was recorded in that time; the trace is of 2023-11-14 22:13:20.", 1},
	};
	g_autofree char *said = NULL;

	owner_write(trace, "user-0", 1, &plain, 1);
	for (size_t i = 0; i < ELEMENTSOF(fine) + ELEMENTSOF(wrong); i++) {
		bool good = i < ELEMENTSOF(fine);
		size_t k = i - ELEMENTSOF(fine);
		const char *from = good ? fine[i].from : wrong[k].from, *to = good ? fine[i].to : wrong[k].to;
		const char *words[8] = {"extract", "trace", "out"};
		g_autofree char *text = NULL;
		size_t n = 3;
		Checked sum;
		int status;

		if (from) {
			words[n++] = "--from";
			words[n++] = from;
		}
		if (to) {
			words[n++] = "--to";
			words[n++] = to;
		}
		status = command(directory, words, &text);
		if (good) {
			g_assert_cmpint(status, ==, 0);
			g_assert_true(g_str_has_prefix(text, "out: 1 traces, 1 streams, "));
			checked(&sum, output);
			g_assert_cmpuint(sum.n_records, ==, fine[i].n);
			maker_remove(output);
		} else {
			g_assert_cmpint(status, ==, wrong[k].status);
			g_assert_nonnull(strstr(text, wrong[k].says));
			g_assert_false(g_file_test(output, G_FILE_TEST_EXISTS));
		}
	}
	g_assert_cmpint(command(directory, (const char *const[]){"extract", "trace", "trace", NULL}, &said), ==, 2);
	g_assert_nonnull(strstr(said, "trace: exists already"));
	g_free(said);
	g_assert_cmpint(command(directory, (const char *const[]){"extract", ".", "o", "--no-legend", NULL}, &said), ==, 0);
	g_assert_cmpstr(said, ==, "o\n");
	g_free(said);
	g_assert_cmpint(command(directory, (const char *const[]){"extract", "trace", NULL}, &said), ==, 2);
	g_free(said);
	g_assert_cmpint(command(directory, (const char *const[]){"list", "--from", "+1s", NULL}, &said), ==, 2);
	g_assert_nonnull(strstr(said, "no meaning for list"));
	maker_remove(directory);
}

/* Bytes of any file at random: nothing crashes, and what comes out is a trace, whatever it says. */
static void test_hostile(void)
{
	g_autofree char *directory = maker_directory(), *owner = g_build_filename(directory, "trace", "user-0", NULL);
	g_autofree char *trace = g_build_filename(directory, "trace", NULL);
	g_autofree char *output = g_build_filename(directory, "extract", NULL);
	const char *const names[] = {"cpu_0", "index/cpu_0.idx", "metadata"};
	g_autoptr(GRand) rand = NULL;
	guint32 seed = (guint32)g_get_monotonic_time();
	char *right[3];
	gsize size[3];
	Shape shape = plain;

	g_test_message("seed %u", seed);
	rand = g_rand_new_with_seed(seed);
	shape.n_packets = 6;
	owner_write(trace, "user-0", 1, &shape, 1);
	for (int i = 0; i < 3; i++) {
		g_autofree char *path = g_build_filename(owner, names[i], NULL);

		g_assert_true(g_file_get_contents(path, &right[i], &size[i], NULL));
	}
	for (int turn = 0; turn < 3000; turn++) {
		int which = turn % 8 < 5 ? 0 : turn % 8 - 5;
		g_autofree char *path = g_build_filename(owner, names[which], NULL);
		g_autofree char *wrong = g_memdup2(right[which], size[which]);
		ExtractResult result;
		RepairResult repaired;
		Failure f = FAILURE_NULL;
		Extract *e = NULL;
		int n = g_rand_int_range(rand, 1, 4), fd;

		for (; n > 0; n--) {
			gsize at = (gsize)g_rand_int_range(rand, 0, (gint32)size[which]);

			/* headers are where it hurts */
			if (which == 0 && g_rand_boolean(rand))
				at %= PACKET_HEADER + 16;
			wrong[at] = (char)(g_rand_boolean(rand) ? g_rand_int_range(rand, 0, 256) : wrong[at] ^ 1 << g_rand_int_range(rand, 0, 8));
		}
		g_assert_true(g_file_set_contents(path, wrong, (gssize)size[which], NULL));
		if (extract_new(&e, trace, &f) == 0) {
			u64 from = (u64)g_rand_int_range(rand, 0, 12000);

			if (extract_write(e, REAL_OFFSET + from, REAL_OFFSET + from + 3000, output, &result, &f) == 0)
				maker_remove(output);
			extract_free(e);
		}
		fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		g_assert_cmpint(trace_repair(fd, "trace", &repaired, &f), ==, 0);
		/* what it left is whole in its own eyes */
		n = (int)repaired.n_packets;
		g_assert_cmpint(trace_repair(fd, "trace", &repaired, &f), ==, 0);
		g_assert_cmpuint(repaired.n_packets, ==, (guint)n);
		g_assert_cmpuint(repaired.bytes_cut, ==, 0);
		(void)close(fd);
		for (int i = 0; i < 3; i++) {
			g_autofree char *back = g_build_filename(owner, names[i], NULL);

			g_assert_true(g_file_set_contents(back, right[i], (gssize)size[i], NULL));
		}
	}
	for (int i = 0; i < 3; i++)
		g_free(right[i]);
	maker_remove(directory);
}

/* ---- repair ---- */

static RepairResult repair(const char *directory)
{
	int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	RepairResult result;
	Failure f = FAILURE_NULL;

	if (trace_repair(fd, "trace", &result, &f) < 0)
		g_error("%s", f.text);
	(void)close(fd);
	return result;
}

/* Cut at every byte of the last packet, with and without zeros behind: all before it stays, and reads. */
static void test_cut(gconstpointer data)
{
	g_autofree char *directory = maker_directory(), *owner = g_build_filename(directory, "trace", "user-0", NULL);
	g_autofree char *trace = g_build_filename(directory, "trace", NULL);
	g_autofree char *file = g_build_filename(owner, "cpu_0", NULL), *index = g_build_filename(owner, "index", "cpu_0.idx", NULL);
	g_autofree char *right = NULL, *right_index = NULL;
	Shape shape = plain;
	gsize size, index_size;
	PacketInfo info;
	u64 offset;
	bool zeros = GPOINTER_TO_UINT(data) & 1;

	shape.n_packets = 4;
	shape.pad = GPOINTER_TO_UINT(data) & 2 ? 256 : 8;
	owner_write(trace, "user-0", 1, &shape, 1);
	g_assert_true(g_file_get_contents(file, &right, &size, NULL));
	g_assert_true(g_file_get_contents(index, &right_index, &index_size, NULL));
	index_decode_entry(&offset, &info, (u8 *)right_index + INDEX_HEADER + 3 * INDEX_ENTRY);
	for (u64 cut = offset; cut < size; cut++) {
		/* the last record is a number: with zeros in its place it is whole for all that anybody can tell: only a header
		 * that is written behind its records would show it */
		u64 content = offset + info.content_size, number = zeros ? content - 8 : content;
		bool whole = cut >= number;
		RepairResult result;
		Checked sum;

		for (u64 k = cut; zeros && !whole && k < number && right[k] == 0; k++)
			whole = k + 1 == number;
		g_assert_true(g_file_set_contents(file, right, (gssize)cut, NULL));
		if (zeros)
			g_assert_cmpint(truncate(file, (off_t)size + 100000), ==, 0);
		result = repair(directory);
		checked(&sum, trace);
		g_assert_cmpuint(sum.n_packets, ==, whole ? 4 : 3);
		g_assert_cmpuint(sum.n_records, ==, whole ? 36 : 27);
		g_assert_cmpuint(result.n_packets, ==, sum.n_packets);
		g_assert_cmpuint(result.n_owners, ==, 1);
		g_assert_cmpuint(result.n_cut, ==, zeros || (cut > offset && !whole));
		if (!zeros)
			g_assert_cmpuint(result.bytes_cut, ==, whole ? 0 : cut - offset);
		else
			g_assert_cmpuint(result.bytes_cut, ==, size + 100000 - (whole ? size : offset));
		g_assert_cmpuint(result.bytes_torn, <=, whole ? 0 : cut - offset);
		/* once more: nothing is left to do */
		result = repair(directory);
		g_assert_cmpuint(result.n_cut, ==, 0);
		g_assert_cmpuint(result.bytes_cut, ==, 0);
	}
	maker_remove(directory);
}

/* Everything else that a daemon leaves. */
static void test_leftovers(void)
{
	g_autofree char *directory = maker_directory(), *trace = g_build_filename(directory, "trace", NULL);
	g_autofree char *owner = g_build_filename(trace, "user-0", NULL), *other = g_build_filename(trace, "user-1", NULL);
	g_autofree char *third = g_build_filename(trace, "user-2", NULL);
	g_autofree char *metadata_tmp = g_build_filename(owner, ".metadata.tmp", NULL);
	g_autofree char *index = g_build_filename(owner, "index", "cpu_0.idx", NULL);
	g_autofree char *index_tmp = g_build_filename(owner, "index", ".cpu_0.idx.tmp", NULL);
	g_autofree char *index_1 = g_build_filename(owner, "index", "cpu_1.idx", NULL);
	g_autofree char *index_of_none = g_build_filename(owner, "index", "cpu_9.idx", NULL);
	g_autofree char *empty = g_build_filename(owner, "cpu_7", NULL), *zeros = g_build_filename(owner, "cpu_8", NULL);
	g_autofree char *fifo = g_build_filename(owner, "cpu_10", NULL);
	g_autofree char *other_index = g_build_filename(other, "index", NULL);
	g_autofree char *third_metadata = g_build_filename(third, "metadata", NULL);
	g_autofree char *third_file = g_build_filename(third, "cpu_0", NULL);
	g_autofree char *right = NULL, *have = NULL, *text = NULL;
	gsize size, have_size;
	RepairResult result;
	struct stat st;
	Babeltrace b;
	guint n;

	owner_write(trace, "user-0", 1, &plain, 3);
	owner_write(trace, "user-1", 2, &plain, 2);
	owner_write(trace, "user-2", 3, &plain, 1);
	g_assert_true(g_file_get_contents(index, &right, &size, NULL));
	result = repair(directory);
	g_assert_cmpuint(result.n_owners, ==, 3);
	g_assert_cmpuint(result.n_streams, ==, 6);
	g_assert_cmpuint(result.n_packets, ==, 120);
	g_assert_cmpuint(result.n_cut, ==, 0);

	g_assert_true(g_file_set_contents(metadata_tmp, "/* CTF 1.8 */ tra", -1, NULL));
	g_assert_true(g_file_set_contents(index_tmp, "x", -1, NULL));
	g_assert_true(g_file_set_contents(index_of_none, "x", -1, NULL));
	g_assert_true(g_file_set_contents(index, right, (gssize)size - 100, NULL)); /* lags behind, and torn */
	g_assert_cmpint(g_unlink(index_1), ==, 0);
	g_assert_true(g_file_set_contents(empty, "", 0, NULL));
	g_assert_true(g_file_set_contents(zeros, "", 0, NULL));
	g_assert_cmpint(truncate(zeros, 1 << 20), ==, 0);
	g_assert_cmpint(mkfifo(fifo, 0600), ==, 0);
	maker_remove(other_index);
	/* cut in the middle: no metadata that anybody can use */
	g_assert_cmpint(stat(third_metadata, &st), ==, 0);
	g_assert_cmpint(truncate(third_metadata, 300), ==, 0);
	g_assert_cmpint(truncate(third_file, 777), ==, 0);
	result = repair(directory);
	g_assert_cmpuint(result.n_owners, ==, 2);
	g_assert_cmpuint(result.n_unusable, ==, 1);
	g_assert_cmpstr(result.unusable, ==, "user-2");
	g_assert_cmpuint(result.n_streams, ==, 5);
	g_assert_cmpuint(result.n_packets, ==, 100);
	g_assert_cmpuint(result.n_cut, ==, 1);
	g_assert_cmpuint(result.bytes_cut, ==, 1 << 20);
	g_assert_cmpuint(result.bytes_torn, ==, 0);
	g_assert_true(g_file_get_contents(index, &have, &have_size, NULL));
	g_assert_cmpmem(have, have_size, right, size);
	for (size_t i = 0; i < 5; i++)
		g_assert_false(g_file_test(((char *[]){metadata_tmp, index_tmp, index_of_none, empty, zeros})[i],
					   G_FILE_TEST_EXISTS));
	g_assert_true(g_file_test(index_1, G_FILE_TEST_EXISTS));
	/* left as it is */
	g_assert_cmpint(stat(third_metadata, &st), ==, 0);
	g_assert_cmpint(st.st_size, ==, 300);
	g_assert_cmpint(stat(third_file, &st), ==, 0);
	g_assert_cmpint(st.st_size, ==, 777);
	g_assert_cmpint(g_unlink(fifo), ==, 0);
	babeltrace_run(&b, owner, NULL);
	babeltrace_assert_clean(&b);
	g_assert_cmpuint(b.n, ==, 3 * 180);
	babeltrace_clear(&b);
	text = shown(other, 0, 0, &n);
	g_assert_cmpuint(n, ==, 2 * 180);
	maker_remove(directory);
}

/* A packet in the middle that is none ends the stream there: nothing behind it can be found again. */
static void test_hole(void)
{
	g_autofree char *directory = maker_directory(), *trace = g_build_filename(directory, "trace", NULL);
	g_autofree char *file = g_build_filename(trace, "user-0", "cpu_0", NULL), *data = NULL;
	g_autofree char *output = g_build_filename(directory, "extract", NULL);
	Shape shape = plain;
	RepairResult result;
	ExtractResult extracted;
	Checked sum;
	gsize size;

	shape.pad = 4096;
	owner_write(trace, "user-0", 1, &shape, 1);
	g_assert_true(g_file_get_contents(file, &data, &size, NULL));
	g_assert_cmpuint(size, ==, 20 * 4096);
	memset(data + 12 * 4096, 0, 4096); /* a write that did not get there, others behind it did */
	g_assert_true(g_file_set_contents(file, data, (gssize)size, NULL));
	/* before it is repaired, what is whole can be had as well, and it is said that more is not */
	extracted = extract(trace, REAL_OFFSET + 5000, UINT64_MAX, output);
	g_assert_cmpuint(extracted.n_damaged, ==, 1);
	g_assert_cmpstr(extracted.damaged, ==, "cpu_0");
	checked(&sum, output);
	g_assert_cmpuint(sum.n_records, ==, 12 * 9);
	result = repair(directory);
	g_assert_cmpuint(result.n_packets, ==, 12);
	g_assert_cmpuint(result.bytes_cut, ==, 8 * 4096);
	g_assert_cmpuint(result.bytes_torn, >, 7 * 4096);
	checked(&sum, trace);
	g_assert_cmpuint(sum.n_records, ==, 12 * 9);
	/* nothing to be repaired */
	g_assert_cmpint(trace_repair(AT_FDCWD, "/nonexistent/trace", &result, &(Failure){0}), <, 0);
	maker_remove(directory);
}

/* ---- the metadata read back ---- */

static void test_text(void)
{
	g_autofree char *directory = maker_directory(), *owner = g_build_filename(directory, "user-0", NULL);
	int fd;
	MetadataText text, copy;
	u8 uuid[16] = {0xfe, 0xdc, 1};
	const TraceEnvironment pairs[] = {{"session", "two\n};"}, {"new", "x"}};
	char *copied;
	size_t size;

	owner_write(directory, "user-0", 7, &plain, 0);
	fd = open(owner, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	g_assert_cmpint(metadata_text_read(&text, fd), ==, 0);
	g_assert_cmpuint(text.offset, ==, REAL_OFFSET);
	g_assert_cmpuint(text.uuid[0], ==, 7);
	g_assert_cmpuint(text.uuid[15], ==, 16);
	g_assert_cmpint(metadata_text_copy(&text, uuid, pairs, 2, &copied, &size), ==, 0);
	g_assert_cmpuint(strlen(copied), ==, size);
	g_assert_cmpint(metadata_text_parse(&copy, copied, size), ==, 0);
	g_assert_cmpmem(copy.uuid, 16, uuid, 16);
	g_assert_cmpuint(copy.offset, ==, REAL_OFFSET);
	g_assert_nonnull(strstr(copied, "\n\tsession = \"two\\n};\";\n\tnew = \"x\";\n};\n"));
	g_assert_null(strstr(copied, "flight"));
	g_assert_nonnull(strstr(copied, "reason = "));
	/* every beginning of it is refused, and none is read beyond; but for what stands behind the last block that counts */
	for (size_t n = 0; n < text.size; n++) {
		char *part = g_strndup(text.text, n);
		MetadataText m;
		int r = metadata_text_parse(&m, part, n);

		if (r < 0)
			g_assert_cmpint(r, ==, -EBADMSG);
		else
			g_assert_nonnull(strstr(part, "align(32);\n};"));
		g_free(part);
	}
	metadata_text_clear(&text);
	metadata_text_clear(&copy);
	(void)close(fd);
	maker_remove(directory);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	classes_make();
	g_test_add_func("/extract/metadata", test_text);
	g_test_add_data_func("/extract/ranges/plain", GUINT_TO_POINTER(0), test_ranges);
	g_test_add_data_func("/extract/ranges/padded", GUINT_TO_POINTER(1), test_ranges);
	g_test_add_data_func("/extract/ranges/long-gaps", GUINT_TO_POINTER(3), test_ranges);
	g_test_add_func("/extract/every-record", test_every_record);
	g_test_add_func("/extract/losses", test_losses);
	g_test_add_func("/extract/logarithm", test_logarithm);
	g_test_add_func("/extract/index-lies", test_index_lies);
	g_test_add_func("/extract/places", test_places);
	g_test_add_func("/extract/refused", test_refused);
	g_test_add_func("/extract/command", test_command);
	g_test_add_func("/extract/hostile", test_hostile);
	g_test_add_data_func("/repair/cut", GUINT_TO_POINTER(0), test_cut);
	g_test_add_data_func("/repair/cut-with-zeros", GUINT_TO_POINTER(1), test_cut);
	g_test_add_data_func("/repair/cut-padded", GUINT_TO_POINTER(2), test_cut);
	g_test_add_data_func("/repair/cut-padded-with-zeros", GUINT_TO_POINTER(3), test_cut);
	g_test_add_func("/repair/leftovers", test_leftovers);
	g_test_add_func("/repair/hole", test_hole);
	return g_test_run();
}
