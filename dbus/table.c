/* SPDX-License-Identifier: MIT */
#include "dbus/table.h"

#include <stdarg.h>

#include "dbus/text.h"

#define CELL_MAX 512

Table table_make(const char *const *titles, size_t n)
{
	Table t = { .n_columns = MIN(n, (size_t)TABLE_COLUMNS_MAX) };

	for (size_t i = 0; i < t.n_columns; i++) {
		t.right[i] = titles[i][0] == '>';
		t.titles[i] = titles[i] + t.right[i];
	}
	return t;
}

void table_clear(Table *t)
{
	for (size_t i = 0; i < t->n_cells; i++)
		free(t->cells[i]);
	free(t->cells);
	t->cells = NULL;
	t->n_cells = 0;
}

int table_add(Table *t, const char *text)
{
	char clean[CELL_MAX], **cells, *cell;

	(void)text_clean(text && *text ? text : "-", clean, sizeof(clean));
	cells = realloc(t->cells, (t->n_cells + 1) * sizeof(*cells));
	if (!cells)
		return -ENOMEM;
	t->cells = cells;
	cell = strdup(clean);
	if (!cell)
		return -ENOMEM;
	t->cells[t->n_cells++] = cell;
	return 0;
}

int table_addf(Table *t, const char *format, ...)
{
	char text[CELL_MAX];
	va_list ap;

	va_start(ap, format);
	(void)vsnprintf(text, sizeof(text), format, ap);
	va_end(ap);
	return table_add(t, text);
}

static void cell_print(FILE *out, const char *text, size_t width, bool right, bool last)
{
	size_t columns = text_columns(text), pad = width > columns ? width - columns : 0;

	if (right)
		(void)fprintf(out, "%*s%s", (int)pad, "", text);
	else if (last)
		(void)fputs(text, out); /* no blanks at the end of a line */
	else
		(void)fprintf(out, "%s%*s", text, (int)pad, "");
	if (!last)
		(void)fputs("  ", out);
}

void table_print(Table *t, FILE *out, bool titles, const char *eol)
{
	size_t *widths = t->widths;

	for (size_t i = 0; titles && i < t->n_columns; i++)
		widths[i] = MAX(widths[i], text_columns(t->titles[i]));
	for (size_t i = 0; i < t->n_cells; i++)
		widths[i % t->n_columns] = MAX(widths[i % t->n_columns], text_columns(t->cells[i]));
	for (size_t i = 0; titles && i < t->n_columns; i++) {
		bool last = i + 1 == t->n_columns;

		cell_print(out, t->titles[i], widths[i], t->right[i], last);
		if (last)
			(void)fputs(eol, out);
	}
	for (size_t i = 0; i < t->n_cells; i++) {
		size_t column = i % t->n_columns;
		bool last = column + 1 == t->n_columns;

		cell_print(out, t->cells[i], widths[column], t->right[column], last);
		if (last)
			(void)fputs(eol, out);
	}
}
