/* SPDX-License-Identifier: MIT */
/* Side rings whose holder will never come back. */
#include "daemon/locks.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>

#include "lib/side.h"

u32 locks_tid_of_status(const char *status)
{
	const char *p = strstr(status, "\nNSpid:"), *end;
	u32 tid = 0;

	/* one number per namespace, the innermost last: that is what the thread sees and writes */
	if (!p)
		return 0;
	p += strlen("\nNSpid:");
	end = strchr(p, '\n');
	while (p && *p && p != end) {
		char *next;
		unsigned long n = strtoul(p, &next, 10);

		if (next == p)
			break;
		tid = (u32)n;
		p = next;
	}
	return tid;
}

/* False only if it is certain that the process has no such thread. */
static bool thread_exists(const Producer *p, u32 tid)
{
	bool found = false;
	struct dirent *e;
	char path[64];
	DIR *d;

	(void)snprintf(path, sizeof(path), "/proc/%d/task", (int)p->peer.pid);
	d = opendir(path);
	if (!d)
		return true; /* dying: its pidfd tells */
	while (!found && (e = readdir(d))) {
		_cleanup_close_ int fd = -1;
		char name[300], text[4096];
		ssize_t n;

		if (e->d_name[0] == '.')
			continue;
		(void)snprintf(name, sizeof(name), "%s/status", e->d_name);
		fd = openat(dirfd(d), name, O_RDONLY | O_CLOEXEC);
		n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
		if (n <= 0)
			continue;
		text[n] = 0;
		found = locks_tid_of_status(text) == tid;
	}
	(void)closedir(d);
	return found;
}

static const Producer *producer_numbered(const Roster *roster, u32 number)
{
	const Producer *p = NULL;

	while ((p = roster_next(roster, p)) && p->number != number)
		;
	return p;
}

void locks_check(Owner *o, const Roster *roster)
{
	const struct geometry *g = &o->region.geometry;
	const struct abi_ring *lines = (const struct abi_ring *)(o->region.map + ABI_PAGE);

	for (u32 i = 0; i < g->n_side; i++) {
		const struct abi_ring *line = &lines[g->n_ring + i];
		u32 number = 0, tid = 0;
		const Producer *p;
		u64 holder;

		holder = side_holder(line, &number, &tid) ? (u64)number << 32 | tid : 0;
		if (!o->holders) {
			if (!holder)
				continue;
			o->holders = calloc(g->n_side, sizeof(*o->holders));
			if (!o->holders)
				return;
		}
		if (holder && holder == o->holders[i]) {
			p = producer_numbered(roster, number);
			if (!p || !thread_exists(p, tid))
				(void)side_break((struct abi_ring *)line, number, tid);
		}
		o->holders[i] = holder;
	}
}
