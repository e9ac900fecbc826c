/* SPDX-License-Identifier: MIT */
/* The public header as programs meet it: every compiler that is here, both languages, all warnings
 * errors; and mistakes, which must be explained in words. Environment: TRACER_HEADER_DIRECTORY. */
#include <glib.h>
#include <glib/gstdio.h>
#include <string.h>

static char *directory;

/* Compiles text; returns the compiler's messages if it fails, NULL if not. */
static char *compile(const char *compiler, const char *standard, const char *options,
		     const char *suffix, const char *text)
{
	g_autofree char *source = g_strdup_printf("%s/source.%s", directory, suffix);
	g_autofree char *object = g_build_filename(directory, "object.o", NULL);
	g_autofree char *command = NULL, *messages = NULL;
	g_autoptr(GError) error = NULL;
	int status;

	g_assert_true(g_file_set_contents(source, text, -1, NULL));
	command = g_strdup_printf("%s -std=%s %s -pedantic -Wall -Wextra -Werror -I%s -c %s -o %s",
				  compiler, standard, options, g_getenv("TRACER_HEADER_DIRECTORY"),
				  source, object);
	g_assert_true(g_spawn_command_line_sync(command, NULL, &messages, &status, &error));
	g_unlink(source);
	g_unlink(object);
	return status ? g_steal_pointer(&messages) : NULL;
}

static const struct {
	const char *name, *standard, *suffix;
} compilers[] = {
    {"gcc", "c11", "c"},    {"gcc", "gnu17", "c"},  {"clang", "c11", "c"},
    {"g++", "c++17", "cc"}, {"g++", "c++20", "cc"}, {"clang++", "c++17", "cc"},
};

static void compile_all(const char *text, const char *options)
{
	for (guint i = 0; i < G_N_ELEMENTS(compilers); i++) {
		g_autofree char *path = g_find_program_in_path(compilers[i].name), *messages = NULL;

		if (!path)
			continue;
		messages = compile(path, compilers[i].standard, options, compilers[i].suffix, text);
		if (messages)
			g_error("%s -std=%s: %s", compilers[i].name, compilers[i].standard,
				messages);
	}
}

static void fields(void)
{
	g_autoptr(GString) s = g_string_new("#include <tracer.h>\n");

	for (guint n = 0; n <= 20; n++) {
		g_string_append_printf(s, "TRACER_EVENT(p, e%u, TRACER_INFO", n);
		for (guint i = 0; i < n; i++)
			g_string_append_printf(
			    s, ", %s(f%u)",
			    (const char *[]){"TRACER_U8", "TRACER_STR", "TRACER_F64"}[i % 3], i);
		g_string_append(s, ")\n");
	}
	g_string_append(s, "void call(void);\nvoid call(void)\n{\n");
	for (guint n = 0; n <= 20; n++) {
		g_string_append_printf(s, "\tif (trace_enabled_p_e%u())\n\t\ttrace_p_e%u(", n, n);
		for (guint i = 0; i < n; i++)
			g_string_append_printf(s, "%s%s", i ? ", " : "",
					       (const char *[]){"1", "\"s\"", "2.0"}[i % 3]);
		g_string_append(s, ");\n");
	}
	g_string_append(s, "}\n");
	compile_all(s->str, "-O0 -fPIC");
	compile_all(s->str, "-O2 -Wconversion -Wshadow");
}

static void kinds(void)
{
	compile_all(
	    "#include <tracer.h>\n"
	    "#include <errno.h>\n"
	    "#include <stdio.h>\n"
	    "#define SIZE 4\n"
	    "TRACER_EVENT(p, a, TRACER_EMERG, TRACER_U8(a), TRACER_U16(b), TRACER_U32(c), "
	    "TRACER_U64(d))\n"
	    "TRACER_EVENT(p, b, TRACER_ALERT, TRACER_I8(a), TRACER_I16(b), TRACER_I32(c), "
	    "TRACER_I64(d))\n"
	    "TRACER_EVENT(p, c, 14, TRACER_F32(a), TRACER_F64(b), TRACER_BOOL(c), "
	    "TRACER_HEX64(d),\n"
	    "             TRACER_PTR(e), TRACER_STR(f), TRACER_BYTES(g))\n"
	    "TRACER_EVENT(p, d, TRACER_DEBUG, TRACER_U8_ARRAY(a, SIZE), TRACER_I64_ARRAY(b, 2 * "
	    "SIZE),\n"
	    "             TRACER_F32_SEQ(c), TRACER_U16_SEQ(d), TRACER_HEX64_SEQ(e))\n"
	    "TRACER_EVENT(linux, unix, TRACER_INFO, TRACER_I32(errno), TRACER_PTR(stdin))\n"
	    "TRACER_EVENT(p, keyword, TRACER_INFO, TRACER_I32(class), TRACER_I32(new), "
	    "TRACER_I32(int))\n"
	    "void call(const uint8_t *a, const int64_t *b, const float *c, const uint16_t *d);\n"
	    "void call(const uint8_t *a, const int64_t *b, const float *c, const uint16_t *d)\n"
	    "{\n"
	    "\tuint64_t e[2] = { 1, 2 };\n"
	    "\ttrace_p_a(1, 2, 3, 4);\n"
	    "\ttrace_p_b(-1, -2, -3, -4);\n"
	    "\ttrace_p_c(1.5f, 2.5, true, 0xff, a, \"s\", a, 3);\n"
	    "\ttrace_p_d(a, b, c, 3, d, 2, e, 2);\n"
	    "\ttrace_linux_unix(errno, stdin);\n"
	    "\ttrace_p_keyword(1, 2, 3);\n"
	    "\ttracer_printf(TRACER_ERR, \"%d %s\", 3, \"x\");\n"
	    "\t(void)tracer_snapshot(\"reason\");\n"
	    "\t(void)tracer_version();\n"
	    "}\n",
	    "-O2");
}

static void alone(void)
{
	compile_all("#include <tracer.h>\nint x = TRACER_INFO;\n", "");
	compile_all("#include <tracer.h>\n#include <tracer.h>\nTRACER_EVENT(unused, event, "
		    "TRACER_INFO, TRACER_U8(a))\n",
		    "");
}

/* A large program's events in one file: seconds, not minutes (a macro that grows with the square shows here). */
static void five_hundred(void)
{
	g_autoptr(GString) s = g_string_new("#include <tracer.h>\n");

	for (guint n = 0; n < 500; n++)
		g_string_append_printf(s, "TRACER_EVENT(p, e%u, TRACER_INFO, TRACER_U64(a), TRACER_U32(b), "
					  "TRACER_STR(c), TRACER_BYTES(d))\n"
					  "void call%u(void);\nvoid call%u(void)\n{\n"
					  "\ttrace_p_e%u(1, 2, \"s\", \"b\", 1);\n}\n",
				       n, n, n, n);
	/* ten times what it takes; the compilers differ little, so one of each language does */
	for (guint i = 0; i < G_N_ELEMENTS(compilers); i += 3) {
		g_autofree char *path = g_find_program_in_path(compilers[i].name), *messages = NULL, *limited = NULL;

		if (!path)
			continue;
		limited = g_strdup_printf("prlimit --cpu=60 %s", path);
		messages = compile(limited, compilers[i].standard, "-O0 -Wconversion -Wshadow",
				   compilers[i].suffix, s->str);
		if (messages)
			g_error("%s: %.2000s", compilers[i].name, messages);
	}
}

/* The first error that a person reads says what is wrong. */
static void mistakes(void)
{
	g_autofree char *longer = g_strnfill(128, 'n'), *name = NULL, *provider = NULL,
			*field = NULL;
	g_autoptr(GString) many = g_string_new("TRACER_EVENT(p, e, TRACER_INFO");
	struct {
		const char *text, *message;
	} cases[] = {
	    {"TRACER_EVENT(p, e, 15)", "the level is one of TRACER_EMERG to TRACER_DEBUG"},
	    {"TRACER_EVENT(p, e, -1, TRACER_U8(a))",
	     "the level is one of TRACER_EMERG to TRACER_DEBUG"},
	    {"TRACER_EVENT(p, e, TRACER_INFO, TRACER_U63(a))", "unknown kind of field"},
	    {"TRACER_EVENT(p, e, TRACER_INFO, TRACER_U8(b), int a)", "unknown kind of field"},
	    {"TRACER_EVENT(p, e, TRACER_INFO, TRACER_U8_ARRAY(a, 0))",
	     "an array has 1 to 65535 elements"},
	    {"TRACER_EVENT(p, e, TRACER_INFO, TRACER_U8_ARRAY(a, 65536))",
	     "an array has 1 to 65535 elements"},
	    {"TRACER_EVENT(p, e, TRACER_INFO, TRACER_U64_ARRAY(a, 9000))",
	     "larger than a record can be"},
	    {NULL, "more than 20 fields"},
	    {NULL, "the name of an event has 1 to 127 letters"},
	    {NULL, "the name of a provider has 1 to 127 letters"},
	    {NULL, "the name of a field has 1 to 127 letters"},
	};

	for (guint i = 0; i < 21; i++)
		g_string_append_printf(many, ", TRACER_U8(f%u)", i);
	g_string_append(many, ")");
	name = g_strdup_printf("TRACER_EVENT(p, %s, TRACER_INFO)", longer);
	provider = g_strdup_printf("TRACER_EVENT(%s, e, TRACER_INFO)", longer);
	field = g_strdup_printf("TRACER_EVENT(p, e, TRACER_INFO, TRACER_STR(%s))", longer);
	cases[7].text = many->str;
	cases[8].text = name;
	cases[9].text = provider;
	cases[10].text = field;
	for (guint k = 0; k < G_N_ELEMENTS(cases); k++)
		for (guint i = 0; i < G_N_ELEMENTS(compilers); i++) {
			g_autofree char *path = g_find_program_in_path(compilers[i].name),
					*messages = NULL;
			g_autofree char *text =
			    g_strdup_printf("#include <tracer.h>\n%s\n", cases[k].text);
			char *error;

			if (!path)
				continue;
			messages = compile(path, compilers[i].standard, "-fsyntax-only",
					   compilers[i].suffix, text);
			if (!messages)
				g_error("%s takes %s", compilers[i].name, cases[k].text);
			error = strstr(messages, "error:");
			g_assert_nonnull(error);
			error = g_strndup(error, strcspn(error, "\n"));
			if (!strstr(error, cases[k].message))
				g_error("%s says '%s' of %s", compilers[i].name, error,
					cases[k].text);
			g_free(error);
		}
}

/* Arguments are typed, and formats are checked. */
static void types(void)
{
	g_autofree char *a = NULL, *b = NULL, *c = NULL, *gcc = g_find_program_in_path("gcc");

	if (!gcc)
		return g_test_skip("gcc");
	a = compile(gcc, "c11", "", "c",
		    "#include <tracer.h>\nTRACER_EVENT(p, e, TRACER_INFO, TRACER_STR(s))\n"
		    "void f(void);\nvoid f(void)\n{\n\ttrace_p_e(7);\n}\n");
	g_assert_nonnull(a);
	b = compile(gcc, "c11", "", "c",
		    "#include <tracer.h>\nTRACER_EVENT(p, e, TRACER_INFO, TRACER_STR(s))\n"
		    "void f(void);\nvoid f(void)\n{\n\ttrace_p_e(\"a\", 7);\n}\n");
	g_assert_nonnull(strstr(b, "too many arguments"));
	c = compile(gcc, "c11", "", "c",
		    "#include <tracer.h>\nvoid f(void);\nvoid f(void)\n{\n\ttracer_printf(3, "
		    "\"%s\", 7);\n}\n");
	g_assert_nonnull(strstr(c, "format"));
}

int main(int argc, char **argv)
{
	int r;

	g_test_init(&argc, &argv, NULL);
	directory = g_dir_make_tmp("tracer-header-XXXXXX", NULL);
	g_test_add_func("/header/fields", fields);
	g_test_add_func("/header/kinds", kinds);
	g_test_add_func("/header/alone", alone);
	g_test_add_func("/header/five-hundred", five_hundred);
	g_test_add_func("/header/mistakes", mistakes);
	g_test_add_func("/header/types", types);
	r = g_test_run();
	g_rmdir(directory);
	g_free(directory);
	return r;
}
