/* SPDX-License-Identifier: MIT */
#include "daemon/quarantine.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>

#include "systemd/journal.h"
#include "systemd/messages.h"

enum { BLOCK = 1 << 16 };

static int copy_some(int from, int to, off_t at, off_t end)
{
	char block[BLOCK];

	while (at < end) {
		ssize_t n = pread(from, block, (size_t)MIN(end - at, (off_t)BLOCK), at), k;

		if (n <= 0)
			return n < 0 ? -errno : 0;
		for (ssize_t done = 0; done < n; done += k) {
			k = pwrite(to, block + done, (size_t)(n - done), at + done);
			if (k <= 0)
				return k < 0 ? -errno : -EIO;
		}
		at += n;
	}
	return 0;
}

/* Only what is there: rings of CPUs that do not exist are holes, and stay holes. */
static int copy(int from, int dir_fd, const char *name)
{
	_cleanup_close_ int to = openat(dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	struct stat st;
	off_t at = 0;

	if (to < 0 || fstat(from, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return 0;
	if (ftruncate(to, st.st_size) < 0)
		return -errno;
	while ((at = lseek(from, at, SEEK_DATA)) >= 0) {
		off_t hole = lseek(from, at, SEEK_HOLE);
		int r = hole < 0 ? -errno : copy_some(from, to, at, hole);

		if (r < 0)
			return r;
		at = hole;
	}
	return errno == ENXIO ? 0 : -errno;
}

void quarantine_take(const Passed *passed, int ledger_fd, const char *state_directory, u32 faults)
{
	time_t now = time(NULL);
	char path[4096], stamp[32];
	_cleanup_close_ int dir_fd = -1;
	struct tm tm;
	int r = 0;

	(void)gmtime_r(&now, &tm);
	(void)strftime(stamp, sizeof(stamp), "%Y%m%dT%H%M%SZ", &tm);
	(void)snprintf(path, sizeof(path), "%s/quarantine", state_directory);
	(void)mkdir(state_directory, 0750);
	(void)mkdir(path, 0700);
	(void)snprintf(path, sizeof(path), "%s/quarantine/%s", state_directory, stamp);
	if (mkdir(path, 0700) < 0)
		r = -errno;
	dir_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir_fd < 0 && r == 0)
		r = -errno;
	if (dir_fd >= 0)
		r = copy(ledger_fd, dir_fd, "state");
	for (size_t i = 0; r == 0 && i < passed->n; i++)
		if (passed->v[i].fd >= 0 && !strchr(passed->v[i].name, '/'))
			r = copy(passed->v[i].fd, dir_fd, passed->v[i].name);
	journal_log(LOG_CRIT, &(JournalFields){ .message_id = MESSAGE_STATE_SET_ASIDE, .path = path },
		    "%u daemons in a row died by their own fault soon after they were given this memory; it is set "
		    "aside in %s%s%s, and all sessions begin anew",
		    faults, path, r < 0 ? ", but not all of it could be copied: " : "", r < 0 ? strerror(-r) : "");
}
