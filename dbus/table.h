/* SPDX-License-Identifier: MIT */
/* Rows of text, aligned when all are there. */
#pragma once

#include <stdio.h>

#include "lib/base.h"

#define TABLE_COLUMNS_MAX 12

typedef struct {
	const char *titles[TABLE_COLUMNS_MAX];
	bool right[TABLE_COLUMNS_MAX]; /* numbers */
	size_t widths[TABLE_COLUMNS_MAX]; /* at least; what was printed last, so that tables can be aligned to each other */
	size_t n_columns;
	char **cells; /* n_rows * n_columns, owned */
	size_t n_cells;
} Table;

/* A title that begins with '>' makes its column right-aligned. */
#define TABLE(...)                                                                                 \
	table_make((const char *const[]){ __VA_ARGS__ },                                           \
		   sizeof((const char *const[]){ __VA_ARGS__ }) / sizeof(const char *))
Table table_make(const char *const *titles, size_t n);
void table_clear(Table *t);

/* The next cell, from left to right. Empty text shows as "-", and no control character gets to the terminal. 0 or
 * -ENOMEM. */
int table_add(Table *t, const char *text);
int table_addf(Table *t, const char *format, ...) _printf_(2, 3);

/* Writes all rows; `eol` ends each line. */
void table_print(Table *t, FILE *out, bool titles, const char *eol);
