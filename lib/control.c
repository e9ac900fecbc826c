/* SPDX-License-Identifier: MIT */
#include "lib/control.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>

#include "lib/fork.h"

#define CONTROL_DIRECTORY "/run/tracer"

static struct abi_control_page none; /* zeros, for ever */
const struct abi_control_page *control_page = &none;

static bool opened;
static char socket_path[sizeof(((struct sockaddr_un *)0)->sun_path)];

/* The page decides what this process records and which socket it sends its event classes to, and a
 * file that is shortened under its mapping kills: so it must come from somebody who may do us harm
 * anyway. That is root and ourselves; and, in the built-in directory, whoever owns that directory,
 * because only root can make one in /run: the daemon's own user. Nobody else may write to it. */
static bool owner_believed(const struct stat *file, const char *directory, bool builtin)
{
	struct stat d;

	if (file->st_mode & (S_IWGRP | S_IWOTH))
		return false;
	if (file->st_uid == 0 || file->st_uid == geteuid())
		return true;
	return builtin && lstat(directory, &d) == 0 && S_ISDIR(d.st_mode) &&
	       d.st_uid == file->st_uid;
}

int control_map(const char *directory, bool builtin, const struct abi_control_page **ret)
{
	_cleanup_close_ int fd = -1;
	const struct abi_control_page *page;
	char path[sizeof(socket_path)];
	struct stat st;
	int n;

	n = snprintf(path, sizeof(path), "%s/control", directory);
	if (n < 0 || (size_t)n >= sizeof(path))
		return -ENAMETOOLONG;
	/* system calls, because open() is a cancellation point; O_NONBLOCK, because of fifos */
	fd = (int)syscall(SYS_openat, AT_FDCWD, path,
			  O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK);
	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode) || st.st_size < ABI_CONTROL_SIZE)
		return -EBADMSG;
	if (!owner_believed(&st, directory, builtin))
		return -EPERM;
	page = mmap(NULL, ABI_CONTROL_SIZE, PROT_READ, MAP_SHARED, fd, 0);
	if (page == MAP_FAILED)
		return -errno;
	if (page->head.magic != ABI_CONTROL_MAGIC || page->head.size != ABI_CONTROL_SIZE)
		n = -EBADMSG;
	else if (page->head.major != ABI_MAJOR)
		n = -EPROTONOSUPPORT;
	else
		n = 0;
	if (n < 0) {
		(void)munmap((void *)page, ABI_CONTROL_SIZE);
		return n;
	}
	*ret = page;
	return 0;
}

void control_open(void)
{
	const char *directory = CONTROL_DIRECTORY, *asked;
	const struct abi_control_page *page;
	int saved = errno, n;

	if (opened)
		return;
	opened = true;

	/* A program with more rights than its caller does not let the caller say whom it listens
	 * to. A relative name would mean something else after chdir(). */
	asked = getauxval(AT_SECURE) ? NULL : getenv("TRACER_RUNTIME_DIR");
	if (asked && *asked)
		directory = asked;
	if (directory[0] != '/')
		goto finish;
	n = snprintf(socket_path, sizeof(socket_path), "%s/producer.sock", directory);
	if (n < 0 || (size_t)n >= sizeof(socket_path) ||
	    control_map(directory, directory != asked, &page) < 0) {
		socket_path[0] = '\0';
		goto finish;
	}
	/* Without wiped memory a child would record as its parent: then rather nothing. Without the
	 * registration nothing can be detached (slot.c), but recording is right. */
	if (fork_prepare() == 0) {
		(void)slot_register();
		control_page = page;
	} else {
		(void)munmap((void *)page, ABI_CONTROL_SIZE);
		socket_path[0] = '\0';
	}
finish:
	errno = saved;
}

__attribute__((constructor(101))) static void control_construct(void)
{
	control_open();
}

const char *control_socket(void)
{
	return socket_path;
}
