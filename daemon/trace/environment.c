/* SPDX-License-Identifier: MIT */
#include "daemon/trace/environment.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>

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

void environment_add_host(Environment *e)
{
	_cleanup_close_ int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	char host[256] = "", boot[40] = "";
	ssize_t n = fd < 0 ? -1 : read(fd, boot, 36);

	boot[MAX(n, (ssize_t)0)] = '\0';
	(void)gethostname(host, sizeof(host) - 1);
	environment_add(e, "hostname", "%s", host);
	environment_add(e, "boot_id", "%s", boot);
}

void environment_add_time(Environment *e, const char *key, u64 ns)
{
	time_t s = (time_t)(ns / NSEC_PER_SEC);
	char text[40];
	struct tm tm;

	(void)gmtime_r(&s, &tm);
	(void)strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &tm);
	environment_add(e, key, "%s.%09" PRIu64 "Z", text, (uint64_t)(ns % NSEC_PER_SEC));
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
