/* SPDX-License-Identifier: MIT */
#include "conf/frame.h"

#include <ctype.h>
#include <stdio.h>

#include "conf/word.h"

bool name_is_valid(const char *at, size_t n)
{
	if (n == 0 || !isalpha((unsigned char)*at) || word_kind(at, n) == WORD_BOOL)
		return false;
	for (size_t i = 1; i < n; i++)
		if (!isalnum((unsigned char)at[i]) && at[i] != '_' && at[i] != '-')
			return false;
	return true;
}

int frame_add_name(Frame *f, const char *at, size_t n, int line)
{
	Name *names;

	if (f->n_names == FRAME_MAX_NAMES)
		return -E2BIG;
	names = realloc(f->names, (f->n_names + 1) * sizeof(*names));
	if (!names)
		return -ENOMEM;
	f->names = names;
	names[f->n_names++] = (Name){ .at = at, .n = n, .line = line };
	return 0;
}

const Name *frame_find_name(const Frame *f, const char *at, size_t n)
{
	for (size_t i = 0; i < f->n_names; i++)
		if (f->names[i].n == n && memcmp(f->names[i].at, at, n) == 0)
			return &f->names[i];
	return NULL;
}

void frame_clear(Frame *f)
{
	free(f->names);
	*f = (Frame){ 0 };
}

const char *frame_key(const Frame *f, char ret[WORD_SHOWN + 8])
{
	ret[0] = '\0';
	if (f->n_names > 0 && f->want != WANT_NAME) {
		const Name *name = &f->names[f->n_names - 1];
		size_t n = MIN(name->n, (size_t)WORD_SHOWN);

		/* a name that is none may hold anything; its own message showed it */
		if (name_is_valid(name->at, name->n))
			(void)snprintf(ret, WORD_SHOWN + 8, "%.*s: ", (int)n, name->at);
	}
	return ret;
}

const char *frame_opens(const Frame *f, char ret[WORD_SHOWN + 32])
{
	char shown[WORD_SHOWN + 8];

	ret[0] = '\0';
	if (f->n_names > 0 && frame_is_group(f)) {
		const Name *name = &f->names[f->n_names - 1];

		(void)snprintf(ret, WORD_SHOWN + 32, " (%s)", problem_bytes(name->at, name->n, shown));
	}
	return ret;
}
