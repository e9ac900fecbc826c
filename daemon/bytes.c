/* SPDX-License-Identifier: MIT */
#include "daemon/bytes.h"

#include <unistd.h>

ssize_t read_at(int fd, void *p, size_t size, u64 offset)
{
	size_t n = 0;

	while (n < size) {
		ssize_t got = pread(fd, (u8 *)p + n, size - n, (off_t)(offset + n));

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -errno;
		if (got == 0)
			break;
		n += (size_t)got;
	}
	return (ssize_t)n;
}

int write_at(int fd, const void *p, size_t size, u64 offset)
{
	size_t n = 0;

	while (n < size) {
		ssize_t put = pwrite(fd, (const u8 *)p + n, size - n, (off_t)(offset + n));

		if (put < 0 && errno == EINTR)
			continue;
		if (put <= 0)
			return put < 0 ? -errno : -EIO;
		n += (size_t)put;
	}
	return 0;
}
