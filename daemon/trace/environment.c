/* SPDX-License-Identifier: MIT */
#include "daemon/trace/environment.h"

#include <stdarg.h>
#include <stdio.h>

void environment_add(Environment *e, const char *key, const char *format, ...)
{
	_cleanup_free_ char *k = strdup(key), *value = NULL;
	TraceEnvironment *v;
	va_list ap;
	int r;

	va_start(ap, format);
	r = vasprintf(&value, format, ap);
	va_end(ap);
	if (r < 0)
		value = NULL;
	v = reallocarray(e->v, e->n + 1, sizeof(*v));
	if (v)
		e->v = v;
	if (!v || !k || !value) {
		e->failed = true;
		return;
	}
	e->v[e->n++] = (TraceEnvironment){steal_ptr(k), steal_ptr(value)};
}

void environment_clear(Environment *e)
{
	for (size_t i = 0; i < e->n; i++) {
		free((char *)e->v[i].key);
		free((char *)e->v[i].value);
	}
	free(e->v);
	*e = (Environment){0};
}
