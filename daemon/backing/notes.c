/* SPDX-License-Identifier: MIT */
#include "daemon/backing/notes.h"

#include <stdarg.h>
#include <stdio.h>

void notes_add(Notes *notes, bool damage, const char *format, ...)
{
	char *text = NULL, **v = NULL;
	va_list ap;

	notes->n_damage += damage;
	if (notes->n < NOTES_MAX) {
		va_start(ap, format);
		if (vasprintf(&text, format, ap) < 0)
			text = NULL;
		va_end(ap);
		v = reallocarray(notes->v, notes->n + 1, sizeof(*v));
	}
	if (v)
		notes->v = v;
	if (!v || !text) {
		free(text);
		notes->n_more++;
		return;
	}
	notes->v[notes->n++] = text;
}

void notes_clear(Notes *notes)
{
	for (size_t i = 0; i < notes->n; i++)
		free(notes->v[i]);
	free(notes->v);
	*notes = (Notes){};
}
