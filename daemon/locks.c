/* SPDX-License-Identifier: MIT */
/* Side and pinned rings whose holder will never come back. */
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

/* The tid that the thread sees itself with, by the task's directory; 0 if it cannot be read. */
static u32 task_tid(int dir_fd, const char *task, bool *ret_nested)
{
	_cleanup_close_ int fd = -1;
	char name[300], text[4096];
	const char *p;
	ssize_t n;

	(void)snprintf(name, sizeof(name), "%s/status", task);
	fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (n <= 0)
		return 0;
	text[n] = 0;
	p = strstr(text, "\nNSpid:\t");
	if (ret_nested && p)
		*ret_nested = p[strlen("\nNSpid:\t") + strcspn(p + strlen("\nNSpid:\t"), "\t\n")] == '\t';
	return locks_tid_of_status(text);
}

/* False only if it is certain that the process has no such thread. The number is the program's own claim, and so is the
 * number of its threads: what a look costs is bounded by *budget, in tasks. */
static bool thread_exists(const Producer *p, u32 tid, u32 *budget)
{
	bool found = false, nested = false;
	struct dirent *e;
	char path[64];
	DIR *d;

	(void)snprintf(path, sizeof(path), "/proc/%d/task", (int)p->peer.pid);
	d = opendir(path);
	if (!d)
		return true; /* dying: its pidfd tells */
	(void)snprintf(path, sizeof(path), "%d", (int)p->peer.pid);
	if (!task_tid(dirfd(d), path, &nested)) {
		(void)closedir(d);
		return true; /* as above, or its first thread is a zombie: nothing is certain */
	}
	/* outside pid namespaces the number is the name */
	if (!nested) {
		(void)snprintf(path, sizeof(path), "%u", (unsigned)tid);
		found = faccessat(dirfd(d), path, F_OK, 0) == 0 || errno != ENOENT;
		(void)closedir(d);
		return found;
	}
	while (!found && (e = readdir(d))) {
		if (e->d_name[0] == '.')
			continue;
		if (*budget == 0) {
			found = true; /* not known */
			break;
		}
		--*budget;
		found = task_tid(dirfd(d), e->d_name, NULL) == tid;
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

void locks_check(Owner *o, const Roster *roster, u32 *budget)
{
	const struct geometry *g = &o->region.geometry;
	const struct abi_ring *lines = (const struct abi_ring *)(o->region.map + ABI_PAGE);

	for (u32 i = 0; i < g->n_side + g->n_pinned; i++) {
		const struct abi_ring *line = &lines[g->n_ring + i];
		u32 number = 0, tid = 0;
		const Producer *p;
		u64 holder;

		holder = side_holder(line, &number, &tid) ? (u64)number << 32 | tid : 0;
		if (!o->holders) {
			if (!holder)
				continue;
			o->holders = calloc(g->n_side + g->n_pinned, sizeof(*o->holders));
			if (!o->holders)
				return;
		}
		if (holder && holder == o->holders[i]) {
			p = producer_numbered(roster, number);
			if (!p || !thread_exists(p, tid, budget))
				(void)side_break((struct abi_ring *)line, number, tid);
		}
		o->holders[i] = holder;
	}
}
