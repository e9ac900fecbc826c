/* SPDX-License-Identifier: MIT */
#include "conf/suggest.h"

enum { WORD_MAX = 64 };

static char fold(char c)
{
	if (c >= 'A' && c <= 'Z')
		return (char)(c - 'A' + 'a');
	return c == '-' ? '_' : c;
}

/* Three rows of the table are enough for Levenshtein's distance with swaps of neighbours. */
size_t suggest_distance(const char *a, const char *b)
{
	size_t n_a = strnlen(a, WORD_MAX + 1), n_b = strnlen(b, WORD_MAX + 1);
	size_t rows[3][WORD_MAX + 1];
	size_t *before = rows[0], *above = rows[1], *row = rows[2];

	if (n_a > WORD_MAX || n_b > WORD_MAX)
		return SIZE_MAX;
	for (size_t j = 0; j <= n_b; j++) {
		above[j] = j;
		before[j] = 0;
	}
	for (size_t i = 1; i <= n_a; i++) {
		size_t *spare = before;

		row[0] = i;
		for (size_t j = 1; j <= n_b; j++) {
			char x = fold(a[i - 1]), y = fold(b[j - 1]);

			row[j] = MIN(above[j - 1] + (x != y), MIN(above[j], row[j - 1]) + 1);
			if (i > 1 && j > 1 && x == fold(b[j - 2]) && y == fold(a[i - 2]))
				row[j] = MIN(row[j], before[j - 2] + 1);
		}
		before = above;
		above = row;
		row = spare;
	}
	return above[n_b];
}

/* "warn" for "warning", "critical" for "crit" */
static bool begins(const char *a, const char *b)
{
	size_t n = 0;

	while (a[n] && b[n] && fold(a[n]) == fold(b[n]))
		n++;
	return n >= 3 && (!a[n] || !b[n]);
}

const char *suggest_nearest(const char *word, const char *const *words, size_t n)
{
	size_t best = SIZE_MAX;
	const char *nearest = NULL;

	for (size_t i = 0; i < n; i++) {
		/* doubled: a beginning is nearer than two slips, but one slip in a longer word is nearer still */
		size_t d = 2 * suggest_distance(word, words[i]);

		if (d > 3 && begins(word, words[i]))
			d = 3;
		if (d < best) {
			best = d;
			nearest = words[i];
		}
	}
	/* Beyond a third of the letters it is another word, and a wrong guess misleads. */
	if (!nearest || best / 2 > MAX(strlen(word), strlen(nearest)) / 3 + 1)
		return NULL;
	return nearest;
}
