/* SPDX-License-Identifier: MIT */
#include "daemon/sink/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/vfs.h>

/* Write-back begins once so much is new: large enough for a disk to like it, and a page that two packets share is rarely
 * written twice. */
#define START_STEP (1ull << 20)
/* So much stays behind what is written: what the disk may lag before the writer feels it. */
#define LAG (8ull << 20)

static const u8 zeros[4096];

u32 file_vectors(const SinkPacket *p, u64 from, struct iovec v[FILE_VECTORS])
{
	u64 at = 0;
	u32 n = 0;
	const struct {
		const u8 *bytes;
		u64 size;
	} parts[] = {{p->head, p->head_size}, {p->records, p->records_size}};

	for (size_t i = 0; i < ELEMENTSOF(parts); at += parts[i].size, i++) {
		u64 skip = from > at ? MIN(from - at, parts[i].size) : 0;

		if (skip < parts[i].size)
			v[n++] = (struct iovec){(void *)(parts[i].bytes + skip), parts[i].size - skip};
	}
	for (at = MAX(at, from); at < p->size && n < FILE_VECTORS; n++) {
		u64 part = MIN(p->size - at, sizeof(zeros));

		v[n] = (struct iovec){(void *)zeros, part};
		at += part;
	}
	return n;
}

ssize_t file_write_some(int fd, const struct iovec *v, u32 n, u64 offset, int flags)
{
	ssize_t done;

	do
		done = pwritev2(fd, v, (int)n, (off_t)offset, flags);
	while (done < 0 && errno == EINTR);
	if (done < 0)
		return -errno;
	/* a file that takes nothing and gives no reason would be written for ever */
	return done == 0 ? -EIO : done;
}

int file_cut(File *f, u64 size)
{
	int r;

	do
		r = ftruncate(f->fd, (off_t)size) < 0 ? -errno : 0;
	while (r == -EINTR);
	f->torn = r < 0;
	/* cutting gives back the blocks behind the end as well */
	if (r == 0)
		f->room = MIN(f->room, size);
	return r;
}

int file_lengthen(File *f, u64 size)
{
	int r;

	do
		r = ftruncate(f->fd, (off_t)size) < 0 ? -errno : 0;
	while (r == -EINTR);
	return r;
}

/* How much to ask for: not more than a part of what is left, since the other files of the session, and everybody else on the
 * disk, need room as well; and a step that is refused has taken all there was before it says so. */
static u64 room_step(const File *f, u64 needed)
{
	struct statfs fs;
	u64 step = FILE_STEP;

	if (fstatfs(f->fd, &fs) == 0)
		step = MIN(step, (u64)fs.f_bavail * (u64)fs.f_bsize / 4 & ~(u64)4095);
	return MAX(step, needed);
}

int file_make_room(File *f, u64 end)
{
	u64 old = f->room, step;
	int r;

	if (end <= old)
		return 0;
	for (step = room_step(f, end - old);;) {
		r = fallocate(f->fd, FALLOC_FL_KEEP_SIZE, (off_t)old, (off_t)step) < 0 ? -errno : 0;
		if (r == 0) {
			f->room = old + step;
			return 0;
		}
		/* near the end of a disk, of a quota or of a limit a smaller step may do; and a signal that keeps coming
		 * must not find the same long call each time */
		if (r == -EINTR || r == -ENOSPC || r == -EDQUOT || r == -EFBIG) {
			if (step > end - old) {
				step = MAX(step / 2, end - old);
				continue;
			}
			if (r == -EINTR)
				continue;
		}
		break;
	}
	/* A refused step may have taken all that was left. What holds packets lies below `old`. */
	if (r == -ENOSPC || r == -EDQUOT) {
		struct stat st;

		/* to its own size: that gives back blocks behind the end */
		if (fstat(f->fd, &st) == 0 && (u64)st.st_size <= old)
			(void)file_cut(f, (u64)st.st_size);
	}
	return r == -ENOSYS ? -EOPNOTSUPP : r;
}

void file_write_back(File *f, u64 size)
{
	u64 end = size & ~(START_STEP - 1), drop, from;

	if (end <= f->started)
		return;
	/* What fails here is either not supported, and then nothing is gained, or an error of the disk, and then waiting
	 * below says so. */
	(void)sync_file_range(f->fd, (off_t)f->started, (off_t)(end - f->started), SYNC_FILE_RANGE_WRITE);
	f->started = end;
	if (end < f->dropped + LAG + START_STEP)
		return;
	drop = end - LAG;
	/* With WRITE in the middle, since a shared page may have been made dirty again. The call takes the error away from a
	 * later fsync(): it has to be kept. */
	if (sync_file_range(f->fd, (off_t)f->dropped, (off_t)(drop - f->dropped),
			    SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER) < 0 &&
	    (errno == EIO || errno == ENOSPC || errno == EDQUOT))
		f->late_error = -errno;
	/* Pages come in larger pieces, and one that lies across the end of a range stays: it is caught the next time. */
	from = f->dropped > LAG ? f->dropped - LAG : 0;
	(void)posix_fadvise(f->fd, (off_t)from, (off_t)(drop - from), POSIX_FADV_DONTNEED);
	f->dropped = drop;
}

int file_take_error(File *f)
{
	int r = f->late_error;

	f->late_error = 0;
	/* also where room was missing: with room again the bytes are not there */
	return r < 0 ? -EIO : 0;
}
