/* SPDX-License-Identifier: MIT */
/* A failure that a person will read. */
#include "daemon/failure.h"

#include <stdarg.h>
#include <stdio.h>

/* One errno a kind, so that callers which only forward numbers still tell the kinds apart. */
static int failure_errno(FailureKind kind)
{
	switch (kind) {
	case FAILURE_NONE:
		return 0;
	case FAILURE_INVALID:
		return -EINVAL;
	case FAILURE_NO_SUCH_SESSION:
		return -ENOENT;
	case FAILURE_SESSION_EXISTS:
		return -EEXIST;
	case FAILURE_SESSION_RUNNING:
		return -EALREADY;
	case FAILURE_NOT_RUNNING:
		return -ESHUTDOWN;
	case FAILURE_NOT_CONTINUOUS:
		return -EOPNOTSUPP;
	case FAILURE_CONFIG:
		return -ENOEXEC;
	case FAILURE_NO_MEMORY:
		return -ENOMEM;
	case FAILURE_NO_SPACE:
		return -ENOSPC;
	case FAILURE_LIMIT:
		return -EDQUOT;
	case FAILURE_BUSY:
		return -EBUSY;
	case FAILURE_NOTHING:
		return -ENODATA;
	case FAILURE_IO:
		return -EIO;
	}
	return -EINVAL;
}

int failure_set(Failure *f, FailureKind kind, const char *format, ...)
{
	if (f) {
		va_list ap;

		f->kind = kind;
		va_start(ap, format);
		(void)vsnprintf(f->text, sizeof(f->text), format, ap);
		va_end(ap);
	}
	return failure_errno(kind);
}
