/* SPDX-License-Identifier: MIT */
#include "tests/unit/daemon/babeltrace.h"

#include <string.h>

/* Not g_strsplit(), whose strstr() a sanitizer makes quadratic. */
static void split_lines(Babeltrace *b)
{
	GPtrArray *lines = g_ptr_array_new();
	char *end;

	b->text = g_strdup(b->out);
	end = b->text + strlen(b->text);
	for (char *p = b->text; p < end;) {
		char *newline = memchr(p, '\n', (gsize)(end - p));

		if (newline)
			*newline = '\0';
		if (*p)
			g_ptr_array_add(lines, p);
		p = newline ? newline + 1 : end;
	}
	b->n = lines->len;
	g_ptr_array_add(lines, NULL);
	b->lines = (char **)g_ptr_array_free(lines, FALSE);
}

void babeltrace_run(Babeltrace *b, const char *path, const char *const *arguments)
{
	g_autoptr(GPtrArray) argv = g_ptr_array_new();
	g_autoptr(GError) error = NULL;

	g_ptr_array_add(argv, (char *)"babeltrace2");
	g_ptr_array_add(argv, (char *)path);
	for (; arguments && *arguments; arguments++)
		g_ptr_array_add(argv, (char *)*arguments);
	g_ptr_array_add(argv, NULL);
	*b = (Babeltrace){0};
	g_spawn_sync(NULL, (char **)argv->pdata, NULL, G_SPAWN_SEARCH_PATH, NULL, NULL, &b->out,
		     &b->err, &b->status, &error);
	g_assert_no_error(error);
	split_lines(b);
}

void babeltrace_clear(Babeltrace *b)
{
	g_free(b->out);
	g_free(b->err);
	g_free(b->text);
	g_free(b->lines);
	*b = (Babeltrace){0};
}

void babeltrace_assert_clean(const Babeltrace *b)
{
	g_auto(GStrv) lines = g_strsplit(b->err, "\n", -1);
	gboolean clean = b->status == 0;

	for (char **l = lines; *l; l++)
		if (**l && !strstr(*l, "Tracer discarded "))
			clean = FALSE;
	if (!clean)
		g_error("babeltrace2: status %d, said:\n%s", b->status, b->err);
}

guint64 babeltrace_discarded(const Babeltrace *b)
{
	static const char said[] = "Tracer discarded ";
	guint64 sum = 0;

	for (const char *p = b->err; (p = strstr(p, said)); p += sizeof(said)) {
		char *end;
		guint64 n = g_ascii_strtoull(p + sizeof(said) - 1, &end, 10);

		if (g_str_has_prefix(end, " event"))
			sum += n;
	}
	return sum;
}

guint babeltrace_count(const Babeltrace *b, const char *text)
{
	guint n = 0;

	for (guint i = 0; i < b->n; i++)
		n += strstr(b->lines[i], text) != NULL;
	return n;
}
