/* SPDX-License-Identifier: MIT */
#include "daemon/trouble.h"

#include <stdio.h>

bool trouble_is_space(int error)
{
	return error == -ENOSPC || error == -EDQUOT;
}

bool trouble_is_short(int error)
{
	return trouble_is_space(error) || error == -EDOM || error == -ENOMEM || error == -EFBIG;
}

bool trouble_is(int r)
{
	return r < 0 && r != -EBUSY && r != -ENODATA;
}

char *trouble_text(const char *path, int error)
{
	const char *what = strerror(-error);
	char *text;
	int r;

	switch (error) {
	case -ENOSPC:
	case -EDQUOT:
		r = asprintf(&text, "%s: %s; events stay in memory as far as they fit, and writing goes on by "
			     "itself when there is space",
			     path, what);
		break;
	case -EDOM:
		r = asprintf(&text, "%s: no more is written, so that output_keep_free stays free; events stay in "
			     "memory as far as they fit, and writing goes on by itself when there is space",
			     path);
		break;
	case -EFBIG:
		r = asprintf(&text, "%s: %s: a file may not be as large as a packet of events, by LimitFSIZE= of the "
			     "service or by the file system; events stay in memory as far as they fit, and it is "
			     "tried again",
			     path, what);
		break;
	case -ESTALE:
		r = asprintf(&text, "%s: what was being written there was removed, or another file system took its "
			     "place",
			     path);
		break;
	case -EWOULDBLOCK:
		r = asprintf(&text, "%s: another session writes there, or finishes a trace; it is tried again, but if that lasts "
			     "give one of them another output",
			     path);
		break;
	default:
		r = asprintf(&text, "%s: cannot write: %s; events stay in memory as far as they fit, and it is "
			     "tried again",
			     path, what);
		break;
	}
	return r < 0 ? NULL : text;
}

char *trouble_text_unfinished(const char *path, int error)
{
	char *text;

	if (asprintf(&text, "%s: could not be finished, and not all of it may be on the disk: %s", path,
		     strerror(-error)) < 0)
		return NULL;
	return text;
}

int trouble_failure(Failure *f, const char *session, const char *path, int error)
{
	if (error == -ENODATA)
		return failure_set(f, FAILURE_NOTHING,
				   "session '%s' has written nothing since its last trace was finished, so there "
				   "is nothing to rotate",
				   session);
	if (trouble_is_space(error) || error == -EDOM)
		return failure_set(f, FAILURE_NO_SPACE, "session '%s': %s: %s", session, path,
				   error == -EDOM ? "no more is written, so that output_keep_free stays free" :
						    strerror(-error));
	return failure_set(f, FAILURE_IO, "session '%s': %s: %s", session, path, strerror(-error));
}

bool trouble_begin(Trouble *t, int error)
{
	t->retry_at = monotonic_ns() + TROUBLE_RETRY_NS;
	if (!t->on)
		t->n_said = 0;
	t->on = true;
	t->error = error;
	/* more memory will do, too: nothing is wrong with the file */
	t->space = trouble_is_short(error);
	for (u32 i = 0; i < t->n_said; i++)
		if (t->said[i] == error)
			return false;
	if (t->n_said == ELEMENTSOF(t->said))
		return false;
	t->said[t->n_said++] = error;
	return true;
}

bool trouble_end(Trouble *t)
{
	if (!t->on)
		return false;
	t->on = false;
	t->error = 0;
	return true;
}
