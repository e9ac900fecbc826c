/* SPDX-License-Identifier: MIT */
#include "daemon/removal.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

/* A snapshot is three deep; what is deeper is not ours, and would cost a descriptor a step. */
#define MAX_DEPTH 16

typedef struct {
	bool remove;
	dev_t device;
	u64 bytes;
	int error; /* the first */
} Walk;

static void fail(Walk *w, int error)
{
	if (w->error == 0 && error != -ENOENT)
		w->error = error;
}

static void walk(Walk *w, int at, const char *name, int depth)
{
	struct stat st;

	if (fstatat(at, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
		fail(w, -errno);
		return;
	}
	if (depth == 0)
		w->device = st.st_dev;
	w->bytes += (u64)st.st_blocks * 512;
	if (S_ISDIR(st.st_mode)) {
		int fd = st.st_dev != w->device ? -EXDEV
			 : depth == MAX_DEPTH
			     ? -ELOOP
			     : openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		DIR *d = fd < 0 ? NULL : fdopendir(fd);

		if (!d) {
			fail(w, fd < -1 ? fd : -errno);
			close_fd(fd);
			return;
		}
		for (struct dirent *e = readdir(d); e; e = readdir(d))
			if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
				walk(w, fd, e->d_name, depth + 1);
		closedir(d);
	}
	if (w->remove && unlinkat(at, name, S_ISDIR(st.st_mode) ? AT_REMOVEDIR : 0) < 0)
		fail(w, -errno);
}

int removal_run(int at_fd, const char *name, u64 *ret_bytes)
{
	Walk w = {.remove = true};

	walk(&w, at_fd, name, 0);
	if (ret_bytes)
		*ret_bytes = w.bytes;
	return w.error;
}

u64 removal_size(int at_fd, const char *name)
{
	Walk w = {.remove = false};

	walk(&w, at_fd, name, 0);
	return w.bytes;
}
