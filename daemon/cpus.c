/* SPDX-License-Identifier: MIT */
/* Which CPUs there are, and which ring each one has. */
#include "daemon/cpus.h"

#include <fcntl.h>
#include <stdio.h>

#include "lib/atomic.h"

int cpus_parse(const char *list, u64 ret[ABI_MAX_CPUS / 64])
{
	memset(ret, 0, ABI_MAX_CPUS / 8);
	while (*list && *list != '\n') {
		unsigned long from, to;
		char *end;

		if (*list < '0' || *list > '9')
			return -EINVAL;
		from = to = strtoul(list, &end, 10);
		if (*end == '-') {
			list = end + 1;
			if (*list < '0' || *list > '9')
				return -EINVAL;
			to = strtoul(list, &end, 10);
		}
		if (to < from || (*end && *end != ',' && *end != '\n'))
			return -EINVAL;
		for (unsigned long i = from; i <= to && i < ABI_MAX_CPUS; i++)
			ret[i / 64] |= 1ull << i % 64;
		list = *end == ',' ? end + 1 : end;
	}
	return 0;
}

const char *cpus_directory = "/sys/devices/system/cpu";

static int cpus_read(const char *name, u64 ret[ABI_MAX_CPUS / 64])
{
	_cleanup_close_ int fd = -1;
	char path[256], text[4096];
	ssize_t n;

	(void)snprintf(path, sizeof(path), "%s/%s", cpus_directory, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	n = read(fd, text, sizeof(text) - 1);
	if (n < 0)
		return -errno;
	text[n] = 0;
	return cpus_parse(text, ret);
}

static int cpus_online(u64 ret[ABI_MAX_CPUS / 64])
{
	return cpus_read("online", ret);
}

int cpus_add(Cpus *c, u32 cpu)
{
	if (c->n_rings >= c->n_possible)
		return -ENOSPC;
	/* relaxed: pairs with feed_stream_name() in consumers */
	store_relaxed_u32(&c->cpu_of[c->n_rings], cpu);
	c->ring_of[cpu] = (u16)c->n_rings++;
	return 0;
}

int cpus_init(Cpus *ret)
{
	u64 set[ABI_MAX_CPUS / 64];
	long n;

	memset(ret, 0, sizeof(*ret));
	memset(ret->ring_of, 0xff, sizeof(ret->ring_of));
	if (cpus_read("possible", set) == 0) {
		for (u32 i = 0; i < ELEMENTSOF(set); i++)
			ret->n_possible += (u32)__builtin_popcountll(set[i]);
	}
	if (ret->n_possible == 0) { /* no sysfs: a container with /sys masked */
		n = sysconf(_SC_NPROCESSORS_CONF);
		ret->n_possible = (u32)MIN(MAX(n, 1), ABI_MAX_CPUS);
	}
	if (cpus_online(set) < 0) {
		n = MIN(MAX(sysconf(_SC_NPROCESSORS_ONLN), 1), (long)ret->n_possible);
		memset(set, 0, sizeof(set));
		for (long i = 0; i < n; i++)
			set[i / 64] |= 1ull << i % 64;
	}
	for (u32 i = 0; i < ABI_MAX_CPUS; i++)
		if (set[i / 64] >> i % 64 & 1)
			(void)cpus_add(ret, i);
	return ret->n_rings ? 0 : -ENODEV;
}

int cpus_adopt(Cpus *c, const u32 *cpu_of, u32 n)
{
	Cpus as_was = *c;

	if (n == 0 || n > c->n_possible)
		return -EINVAL;
	memset(as_was.ring_of, 0xff, sizeof(as_was.ring_of));
	as_was.n_rings = 0;
	for (u32 i = 0; i < n; i++) {
		if (cpu_of[i] >= ABI_MAX_CPUS || as_was.ring_of[cpu_of[i]] != ABI_NO_RING ||
		    cpus_add(&as_was, cpu_of[i]) < 0)
			return -EINVAL;
	}
	*c = as_was;
	return 0;
}

u32 cpus_appeared(const Cpus *c, u32 *cpus, u32 n)
{
	u64 set[ABI_MAX_CPUS / 64];
	u32 found = 0;

	if (cpus_online(set) < 0)
		return 0;
	for (u32 i = 0; i < ABI_MAX_CPUS && found < n; i++)
		if (set[i / 64] >> i % 64 & 1 && c->ring_of[i] == ABI_NO_RING)
			cpus[found++] = i;
	return found;
}
