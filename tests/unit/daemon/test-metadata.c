/* SPDX-License-Identifier: MIT */
/* The TSDL text, as babeltrace2 understands it: every field type, hostile names and strings. */
#include "daemon/trace/metadata.h"
#include "tests/unit/daemon/babeltrace.h"
#include "tests/unit/daemon/checker.h"

static char *metadata_of(MakerJob *j)
{
	g_autofree char *file =
	    g_build_filename(j->directory, j->job.name, "user-1000", "metadata", NULL);
	char *text;

	g_assert_true(g_file_get_contents(file, &text, NULL, NULL));
	return text;
}

/* One record of each type, alone, as a fixed array of two, and as a sequence of three. */
static void test_types(void)
{
	static const struct {
		int type;
		const char *bytes;
		u32 size;
		const char *shown;
	} types[] = {
	    {TRACER_TYPE_U8, "\xc8", 1, "200"},
	    {TRACER_TYPE_U16, "\x60\xea", 2, "60000"},
	    {TRACER_TYPE_U32, "\x00\x28\x6b\xee", 4, "4000000000"},
	    {TRACER_TYPE_U64, "\xff\xff\xff\xff\xff\xff\xff\xff", 8, "18446744073709551615"},
	    {TRACER_TYPE_I8, "\x9c", 1, "-100"},
	    {TRACER_TYPE_I16, "\xd0\x8a", 2, "-30000"},
	    {TRACER_TYPE_I32, "\x00\x6c\xca\x88", 4, "-2000000000"},
	    {TRACER_TYPE_I64, "\x00\x00\x00\x00\x00\x00\x00\x80", 8, "-9223372036854775808"},
	    {TRACER_TYPE_F32, "\x00\x00\xc0\x3f", 4, "1.5"},
	    {TRACER_TYPE_F64, "\x00\x00\x00\x00\x00\x00\x04\xc0", 8, "-2.5"},
	    {TRACER_TYPE_BOOL, "\x01", 1, "1"},
	    {TRACER_TYPE_HEX64, "\xef\xbe\xad\xde\x00\x00\x00\x00", 8, "0xDEADBEEF"},
	    {TRACER_TYPE_PTR, "\xbe\xba\xfe\xca\xff\x7f\x00\x00", 8, "0x7FFFCAFEBABE"},
	    {TRACER_TYPE_STR, "text", 5, "\"text\""},
	    {TRACER_TYPE_BYTE, "\xab", 1, "0xAB"},
	};
	TraceClass classes[ELEMENTSOF(types)];
	Maker m;
	MakerJob j;
	Babeltrace b;
	g_autofree char *path = NULL;
	u64 now;

	maker_init(&m, 1, ABI_POLICY_OVERWRITE, ABI_CONTEXT_VTID);
	now = maker_now(&m) - 1000;
	for (u32 i = 0; i < ELEMENTSOF(types); i++) {
		u8 body[64];
		u32 n = 1;

		/* an odd byte in front: nothing is aligned */
		classes[i] = (TraceClass){
		    i + 1, maker_class("all", "types", (int)i, "odd", TRACER_TYPE_U8, 0, 0, "one",
				       types[i].type, TRACER_SHAPE_ONE, 0, "pair", types[i].type,
				       TRACER_SHAPE_FIXED, 2, "some", types[i].type,
				       TRACER_SHAPE_VAR, 0, NULL)};
		body[0] = 7;
		for (u32 k = 0; k < 6; k++) {
			if (k == 3) {
				body[n++] = 3;
				body[n++] = 0;
			}
			memcpy(body + n, types[i].bytes, types[i].size);
			n += types[i].size;
		}
		g_assert_true(maker_record(&m, 0, i + 1, now + i, body, n));
	}
	maker_job_init(&j, &m, 1, classes, ELEMENTSOF(classes));
	path = maker_job_run(&j);
	babeltrace_run(&b, path, NULL);
	babeltrace_assert_clean(&b);
	g_assert_cmpuint(b.n, ==, ELEMENTSOF(types));
	for (u32 i = 0; i < ELEMENTSOF(types); i++) {
		const char *s = types[i].shown;
		g_autofree char *text = g_strdup_printf(
		    "{ odd = 7, one = %s, pair = [ [0] = %s, [1] = %s ], _some_length = 3, "
		    "some = [ [0] = %s, [1] = %s, [2] = %s ] }",
		    s, s, s, s, s, s);

		g_test_message("%s", b.lines[i]);
		g_assert_nonnull(strstr(b.lines[i], text));
		g_assert_nonnull(strstr(b.lines[i], "{ vtid = 43 }"));
	}
	babeltrace_clear(&b);
	maker_job_clear(&j);
	maker_clear(&m);
}

/* Names that are words of TSDL, twice the same, and the like of generated ones. */
static void test_names(void)
{
	static const u8 body[] = {1, 2, 3, 4, 5, 6, 7, 1, 0, 8, 1, 0, 9};
	TraceClass classes[] = {
	    {1, maker_class("a.b-c", "event", 14, "event", TRACER_TYPE_U8, 0, 0, "struct",
			    TRACER_TYPE_U8, 0, 0, "a", TRACER_TYPE_U8, 0, 0, "a", TRACER_TYPE_U8, 0,
			    0, "_a", TRACER_TYPE_U8, 0, 0, "_a_length", TRACER_TYPE_U8, 0, 0,
			    "timestamp", TRACER_TYPE_U8, 0, 0, "a", TRACER_TYPE_U8,
			    TRACER_SHAPE_VAR, 0, "a", TRACER_TYPE_U8, TRACER_SHAPE_VAR, 0, NULL)},
	    {2, maker_class("empty", "event", 0, NULL)},
	    {3,
	     maker_class("zero", "array", 0, "none", TRACER_TYPE_U64, TRACER_SHAPE_FIXED, 0, NULL)},
	};
	Maker m;
	MakerJob j;
	Babeltrace b;
	g_autofree char *path = NULL, *text = NULL;
	u64 now;

	maker_init(&m, 1, ABI_POLICY_OVERWRITE, 0);
	now = maker_now(&m) - 1000;
	maker_record(&m, 0, 1, now, body, sizeof(body));
	maker_record(&m, 0, 2, now, NULL, 0);
	maker_record(&m, 0, 3, now, NULL, 0);
	maker_job_init(&j, &m, 1, classes, ELEMENTSOF(classes));
	path = maker_job_run(&j);
	babeltrace_run(&b, path, NULL);
	babeltrace_assert_clean(&b);
	g_assert_cmpuint(b.n, ==, 3);
	g_test_message("%s", b.lines[0]);
	g_assert_nonnull(strstr(b.lines[0], "a.b-c:event"));
	g_assert_nonnull(strstr(b.lines[0],
				"{ event = 1, struct = 2, a = 3, a_2 = 4, _a = 5, _a_length = 6, "
				"timestamp = 7, _a_length_2 = 1, a_3 = [ [0] = 8 ], "
				"_a_length_3 = 1, a_4 = [ [0] = 9 ] }"));
	text = metadata_of(&j);
	g_assert_nonnull(strstr(text, "loglevel = 14;"));
	babeltrace_clear(&b);
	maker_job_clear(&j);
	maker_clear(&m);
}

static void test_environment(void)
{
	static const char hostile[] =
	    "quote \" back \\ line\nfeed\ttab \x1b[2J\x01\x7f bell\a \xff\xc3 \xc2\x9b "
	    "\xed\xa0\x80 \xf4\x90\x80\x80 \xc0\xaf ok \xe2\x82\xac */ }; env { x = 1; \"";
	const char *const details[] = {"--component=sink.text.details", "--params=color=\"never\"",
				       NULL};
	TraceEnvironment pairs[] = {
	    {"unit", "nginx.service"}, {"pid", "4711"},      {"event", "keyword"},
	    {"1st", "digit"},          {"sp ace", "space"},  {"", "empty"},
	    {"pid", "twice"},          {"domain", "kernel"}, {"tracer_name", "lttng-modules"},
	};
	Maker m;
	MakerJob j;
	Babeltrace b;
	g_autofree char *path = NULL, *text = NULL;

	TraceClass class = {1, maker_class("p", "e", 0, NULL)};

	maker_init(&m, 1, ABI_POLICY_OVERWRITE, 0);
	g_assert_true(maker_record(&m, 0, 1, maker_now(&m), NULL, 0));
	maker_job_init(&j, &m, 1, &class, 1);
	j.job.reason = hostile;
	j.job.environment = pairs;
	j.job.n_environment = ELEMENTSOF(pairs);
	path = maker_job_run(&j);
	babeltrace_run(&b, path, details);
	babeltrace_assert_clean(&b);
	g_test_message("%s", b.out);
	for (const char *p = b.out; *p; p++)
		g_assert_true((u8)*p >= 0x20 || *p == '\n' || *p == '\t');
	g_assert_nonnull(strstr(b.out, "quote \" back \\ line"));
	g_assert_nonnull(
	    strstr(b.out, "\\x1B[2J\\x01\\x7F bell\\x07 \\xFF\\xC3 \\u009B \\xED\\xA0\\x80 "
			  "\\xF4\\x90\\x80\\x80 \\xC0\\xAF ok \xe2\x82\xac */ }; env { x = 1; \""));
	g_assert_nonnull(strstr(b.out, "unit: nginx.service"));
	g_assert_nonnull(strstr(b.out, "pid: 4711"));
	g_assert_nonnull(strstr(b.out, "_event: keyword"));
	g_assert_nonnull(strstr(b.out, "_1st: digit"));
	g_assert_nonnull(strstr(b.out, "sp_ace: space"));
	g_assert_nonnull(strstr(b.out, "domain: ust"));
	g_assert_nonnull(strstr(b.out, "tracer_name: tracer"));
	g_assert_null(strstr(b.out, "twice"));
	g_assert_null(strstr(b.out, "lttng-modules"));
	g_assert_nonnull(strstr(b.out, "session: flight"));
	g_assert_nonnull(strstr(b.out, "trigger: manual"));
	g_assert_nonnull(strstr(b.out, "owner: user-1000"));
	g_assert_nonnull(strstr(b.out, "boot_id: "));
	g_assert_nonnull(strstr(b.out, "records_kept: 1"));
	text = metadata_of(&j);
	g_assert_true(g_utf8_validate(text, -1, NULL));
	g_assert_true(g_str_has_prefix(text, "/* CTF 1.8 */\n"));
	g_assert_nonnull(strstr(text, "freq = 1000000000;"));
	g_assert_nonnull(strstr(text, "uuid = \"01020300-0000-0000-0000-000000000000\""));
	babeltrace_clear(&b);
	maker_job_clear(&j);
	maker_clear(&m);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/metadata/types", test_types);
	g_test_add_func("/metadata/names", test_names);
	g_test_add_func("/metadata/environment", test_environment);
	return g_test_run();
}
