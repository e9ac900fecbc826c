/* SPDX-License-Identifier: MIT */
#include "daemon/quarantine.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "daemon/retention.h"
#include "daemon/stamp.h"
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

/* What copies of all that was passed take on disk. */
static u64 bytes_of(const Passed *passed, int ledger_fd)
{
	struct stat st;
	u64 sum = fstat(ledger_fd, &st) == 0 ? (u64)st.st_blocks * 512 : 0;

	for (size_t i = 0; i < passed->n; i++)
		if (passed->v[i].fd >= 0 && fstat(passed->v[i].fd, &st) == 0 && S_ISREG(st.st_mode))
			sum += (u64)st.st_blocks * 512;
	return sum;
}

static int copy_all(const Passed *passed, int ledger_fd, const char *directory)
{
	_cleanup_close_ int dir_fd = mkdir(directory, 0700) < 0 ? -1 : open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int r;

	if (dir_fd < 0)
		return -errno;
	r = copy(ledger_fd, dir_fd, "state");
	for (size_t i = 0; r == 0 && i < passed->n; i++)
		if (passed->v[i].fd >= 0 && !strchr(passed->v[i].name, '/'))
			r = copy(passed->v[i].fd, dir_fd, passed->v[i].name);
	return r;
}

void quarantine_take(const Passed *passed, int ledger_fd, const char *state_directory, u32 faults)
{
	/* the last few tell as much as all of them, and a daemon that dies every minute must not fill the disk */
	static const RetentionConfig few = { .max_count = 3, .keep_free_percent = 5 };
	char directory[4000], path[4096], temporary[4096], stamp[STAMP_SIZE];
	bool room;
	int r = 0;

	stamp_write(stamp, realtime_ns());
	(void)snprintf(directory, sizeof(directory), "%s/quarantine", state_directory);
	(void)snprintf(path, sizeof(path), "%s/%s-faults", directory, stamp);
	(void)snprintf(temporary, sizeof(temporary), "%s/.%s-faults.tmp", directory, stamp);
	(void)mkdir(state_directory, 0750);
	(void)mkdir(directory, 0700);
	room = retention_room(directory, &few, bytes_of(passed, ledger_fd));
	if (room) {
		r = copy_all(passed, ledger_fd, temporary);
		/* half of it is better than nothing, and is said to be half */
		if (rename(temporary, path) < 0 && r == 0)
			r = -errno;
	}
	(void)retention_apply(directory, &few, NULL, NULL);
	journal_log(LOG_CRIT, &(JournalFields){ .message_id = MESSAGE_STATE_SET_ASIDE, .path = room ? path : directory },
		    "%u daemons in a row died by their own fault soon after they were given this memory; it %s %s%s%s, and "
		    "all sessions begin anew",
		    faults, room ? "is set aside in" : "has no room in", room ? path : directory,
		    room && r < 0 ? ", but not all of it could be copied: " : "", room && r < 0 ? strerror(-r) : "");
}
