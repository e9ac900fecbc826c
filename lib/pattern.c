/* SPDX-License-Identifier: MIT */
#include "lib/pattern.h"

#include "lib/tracer.h"

#define PATTERN_MAX 255

/* Only the last '*' needs to be taken back: if a later run can be matched at all, the shortest
 * match of the earlier ones leaves it the most room. */
static bool match(const char *p, size_t n_p, const char *t, size_t n_t)
{
	size_t i = 0, k = 0, star = SIZE_MAX, mark = 0;

	while (k < n_t) {
		if (i < n_p && p[i] == '*') {
			star = i++;
			mark = k;
		} else if (i < n_p && (p[i] == '?' || p[i] == t[k])) {
			i++;
			k++;
		} else if (star != SIZE_MAX) {
			i = star + 1;
			k = ++mark;
		} else {
			return false;
		}
	}
	while (i < n_p && p[i] == '*')
		i++;
	return i == n_p;
}

bool pattern_match(const char *pattern, const char *text)
{
	return match(pattern, strlen(pattern), text, strlen(text));
}

bool pattern_match_event(const char *pattern, const char *provider, const char *event)
{
	const char *colon = strchr(pattern, ':');
	size_t n = colon ? (size_t)(colon - pattern) : strlen(pattern);

	return match(pattern, n, provider, strlen(provider)) &&
	       (!colon || pattern_match(colon + 1, event));
}

bool pattern_literal_provider(const char *pattern, char *ret, size_t size)
{
	size_t n = strcspn(pattern, ":"), glob = strcspn(pattern, "*?");

	if (glob < n || n >= size)
		return false;
	memcpy(ret, pattern, n);
	ret[n] = '\0';
	return true;
}

bool pattern_valid(const char *pattern)
{
	size_t n = strnlen(pattern, PATTERN_MAX + 1), colons = 0;

	if (!n || n > PATTERN_MAX)
		return false;
	for (size_t i = 0; i < n; i++) {
		if (pattern[i] < 0x20 || pattern[i] > 0x7e)
			return false;
		if (pattern[i] == ':')
			colons++;
	}
	/* nothing is named by an empty half */
	return colons <= 1 && pattern[0] != ':' && pattern[n - 1] != ':';
}

static const char *const levels[] = {
    [TRACER_EMERG] = "emerg",
    [TRACER_ALERT] = "alert",
    [TRACER_CRIT] = "crit",
    [TRACER_ERR] = "err",
    [TRACER_WARNING] = "warning",
    [TRACER_NOTICE] = "notice",
    [TRACER_INFO] = "info",
    [TRACER_DEBUG_SYSTEM] = "debug_system",
    [TRACER_DEBUG_PROGRAM] = "debug_program",
    [TRACER_DEBUG_PROCESS] = "debug_process",
    [TRACER_DEBUG_MODULE] = "debug_module",
    [TRACER_DEBUG_UNIT] = "debug_unit",
    [TRACER_DEBUG_FUNCTION] = "debug_function",
    [TRACER_DEBUG_LINE] = "debug_line",
    [TRACER_DEBUG] = "debug",
};

int level_from_name(const char *name)
{
	for (size_t i = 0; i < ELEMENTSOF(levels); i++)
		if (!strcmp(name, levels[i]))
			return (int)i;
	/* "0".."14", without signs, blanks or leading zeros */
	if (name[0] >= '0' && name[0] <= '9') {
		if (!name[1])
			return name[0] - '0';
		if (name[0] == '1' && name[1] >= '0' && name[1] <= '4' && !name[2])
			return 10 + name[1] - '0';
	}
	return -EINVAL;
}

const char *level_name(int level)
{
	return level >= 0 && (size_t)level < ELEMENTSOF(levels) ? levels[level] : NULL;
}
