/* SPDX-License-Identifier: MIT */
#include "lib/control.h"

#include <fcntl.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>

#include "lib/fork.h"

#define CONTROL_DIRECTORY "/run/tracer"
#define TIMEOUT_MS	  200
#define TIMEOUT_MAX_MS	  60000

static struct abi_control_page none; /* zeros, for ever */
const struct abi_control_page *control_page = &none;

static _data_ bool opened;
static _data_ u32 timeout_ms = TIMEOUT_MS;
static _data_ char socket_path[sizeof(((struct sockaddr_un *)0)->sun_path)];

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

/* "DIRECTORY/name"; false: does not fit. Not snprintf(), which is a tenth of what our constructor costs. */
static bool join(char *to, size_t size, const char *directory, const char *name)
{
	size_t n = strlen(directory), k = strlen(name) + 1;

	if (n + 1 + k > size)
		return false;
	memcpy(to, directory, n);
	to[n] = '/';
	memcpy(to + n + 1, name, k);
	return true;
}

int control_map(const char *directory, bool builtin, const struct abi_control_page **ret)
{
	_cleanup_close_ int fd = -1;
	const struct abi_control_page *page;
	char path[sizeof(socket_path)];
	struct stat st;
	int n;

	if (!join(path, sizeof(path), directory, "control"))
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

/* Milliseconds in decimal; what is no such number, or out of range, changes nothing. */
static void timeout_read(const char *text)
{
	u32 ms = 0;

	if (!text || !*text)
		return;
	for (; *text >= '0' && *text <= '9' && ms <= TIMEOUT_MAX_MS; text++)
		ms = ms * 10 + (u32)(*text - '0');
	if (!*text && ms && ms <= TIMEOUT_MAX_MS)
		timeout_ms = ms;
}

void control_open(void)
{
	const char *directory = CONTROL_DIRECTORY, *asked;
	const struct abi_control_page *page;
	int saved = errno;

	if (opened)
		return;
	opened = true;

	/* A program with more rights than its caller does not let the caller say whom it listens
	 * to. A relative name would mean something else after chdir(). */
	asked = getauxval(AT_SECURE) ? NULL : getenv("TRACER_RUNTIME_DIR");
	timeout_read(getauxval(AT_SECURE) ? NULL : getenv("TRACER_ATTACH_TIMEOUT"));
	if (asked && *asked)
		directory = asked;
	if (directory[0] != '/')
		goto finish;
	if (!join(socket_path, sizeof(socket_path), directory, "producer.sock") ||
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

u64 control_timeout(void)
{
	return timeout_ms * NSEC_PER_MSEC;
}

const char *control_socket(void)
{
	return socket_path;
}
