/* SPDX-License-Identifier: MIT */
/* What sinks leave on a disk: when their process is killed, and to others when it is nearly full. */
#include "daemon/sink/sink.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/wait.h>

#include <glib.h> /* behind base.h: both define MIN */

#include "daemon/removal.h"

/* Not a power of two of pages, so that packets lie across windows and steps; a multiple of every alignment. */
#define PACKET (68u << 10)

static const struct {
	const char *name;
	Io io;
} strategies[] = {{"write", IO_WRITE}, {"mmap", IO_MMAP}, {"splice", IO_SPLICE}, {"direct", IO_DIRECT}};

static char *directory_make(void)
{
	char *path = g_strdup("/var/tmp/tracer-test-XXXXXX");

	g_assert_nonnull(g_mkdtemp(path));
	return path;
}

static void directory_remove(char *path)
{
	g_assert_cmpint(removal_run(AT_FDCWD, path, NULL), ==, 0);
	g_free(path);
}

/* 0, or what sink_open() said: the file system may not take the strategy. */
static int begin(SinkSet **ret_set, Sink **ret, Io io, int dir_fd, const char *name)
{
	int r;

	g_assert_cmpint(sink_set_new(ret_set, io), ==, 0);
	r = sink_open(ret, *ret_set, dir_fd, name);
	if (r < 0)
		*ret_set = sink_set_free(*ret_set);
	return r;
}

static int append(Sink *s, u8 byte)
{
	static u8 bytes[PACKET];

	memset(bytes, byte, PACKET);
	return sink_append(s, &(SinkPacket){.records = bytes, .records_size = PACKET, .size = PACKET, .fd = -1});
}

/* ---- killed ---- */

/* In the child: appends `n` packets, flushes after `flushed` of them, and is killed. */
static void record_and_die(Io io, int dir_fd, u32 n, u32 flushed)
{
	SinkSet *set;
	Sink *s;

	if (begin(&set, &s, io, dir_fd, "a") == -EOPNOTSUPP)
		_exit(77);
	for (u32 i = 0; i < n; i++) {
		if (append(s, (u8)(i + 1)) != 0)
			_exit(1);
		if (i + 1 == flushed && sink_flush(s) != 0)
			_exit(2);
	}
	(void)raise(SIGKILL);
}

static void killed(Io io, u32 n, u32 flushed)
{
	char *directory = directory_make();
	_cleanup_close_ int dir_fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	g_autofree char *path = g_build_filename(directory, "a", NULL), *there = NULL;
	int status = 0;
	gsize size = 0;
	pid_t pid = fork();

	g_assert_cmpint(pid, >=, 0);
	if (pid == 0) {
		record_and_die(io, dir_fd, n, flushed);
		_exit(3);
	}
	g_assert_cmpint(waitpid(pid, &status, 0), ==, pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
		g_test_skip("the file system of /var/tmp does not take it");
	} else {
		g_assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
		/* what is still on its way to the disk may come after the death: whole packets, too */
		g_assert_true(g_file_get_contents(path, &there, &size, NULL));
		g_assert_cmpuint(size % PACKET, ==, 0);
		g_assert_cmpuint(size / PACKET, >=, flushed);
		g_assert_cmpuint(size / PACKET, <=, n);
		for (gsize i = 0; i < size; i++)
			if ((u8)there[i] != (u8)(i / PACKET + 1))
				g_error("byte %zu is %u", i, (u8)there[i]);
	}
	directory_remove(directory);
}

static void test_killed(const void *data)
{
	Io io = *(const Io *)data;

	killed(io, 1, 1);
	/* beyond a window of mmap, and not a multiple of it */
	killed(io, 150, 150);
	/* with some of it on its way */
	killed(io, 150, 100);
}

/* ---- a disk that is nearly full ---- */

static u64 room_left(int dir_fd)
{
	struct statfs fs;

	g_assert_cmpint(fstatfs(dir_fd, &fs), ==, 0);
	return (u64)fs.f_bavail * (u64)fs.f_bsize;
}

static bool run(const char *const *argv)
{
	int status = -1;

	return g_spawn_sync(NULL, (char **)argv, NULL,
			    G_SPAWN_SEARCH_PATH | G_SPAWN_STDOUT_TO_DEV_NULL | G_SPAWN_STDERR_TO_DEV_NULL, NULL, NULL, NULL,
			    NULL, &status, NULL) &&
	       status == 0;
}

/* In a mount namespace of our own, so that nothing stays mounted however this ends. */
static bool mount_small(const char *directory)
{
	static bool apart;
	g_autofree char *image = g_strdup_printf("%s.image", directory);
	_cleanup_close_ int fd = -1;
	bool ok;

	if (!apart && (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0))
		return false;
	apart = true;
	fd = open(image, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	ok = fd >= 0 && ftruncate(fd, 48 << 20) == 0 &&
	     run((const char *[]){"mkfs.ext4", "-q", "-F", "-m", "0", image, NULL}) &&
	     run((const char *[]){"mount", "-o", "loop", image, directory, NULL});
	(void)unlink(image);
	return ok;
}

/* There is less than a step of room: the first file takes a part of it, and the others get theirs; then what is left can
 * be used to the end. */
static void test_nearly_full(const void *data)
{
	char *directory = directory_make();
	_cleanup_close_ int dir_fd = -1;
	Sink *files[4] = {NULL};
	SinkSet *set;
	u64 before, n = 0;
	int r = 0;

	if (!mount_small(directory)) {
		g_test_skip("cannot mount a small ext4 (needs root, mkfs.ext4 and a loop device)");
		directory_remove(directory);
		return;
	}
	dir_fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	before = room_left(dir_fd);
	g_assert_cmpuint(before, >, 16u << 20);
	g_assert_cmpuint(before, <, 64u << 20);
	for (size_t i = 0; i < G_N_ELEMENTS(files); i++) {
		char name[] = {(char)('a' + i), 0};

		if (i == 0)
			g_assert_cmpint(begin(&set, &files[0], *(const Io *)data, dir_fd, name), ==, 0);
		else
			g_assert_cmpint(sink_open(&files[i], set, dir_fd, name), ==, 0);
		g_assert_cmpint(append(files[i], 'x'), ==, 0);
		g_assert_cmpint(sink_flush(files[i]), ==, 0);
		if (i == 0)
			g_assert_cmpuint(room_left(dir_fd), >=, before / 2);
	}
	g_assert_cmpuint(room_left(dir_fd), >=, before / 5);
	/* what the others do not use they give back */
	for (size_t i = 1; i < G_N_ELEMENTS(files); i++) {
		int fd = -1;

		g_assert_cmpint(sink_finish(files[i], &fd), ==, 0);
		close_fd(fd);
	}
	while (r == 0) {
		r = append(files[0], 'x');
		if (r == 0)
			r = sink_flush(files[0]);
		n += r == 0;
	}
	g_assert_cmpint(r, ==, -ENOSPC);
	g_assert_cmpuint(n * PACKET, >=, before / 8 * 7);
	(void)sink_abandon(files[0]);
	sink_set_free(set);
	dir_fd = close_fd(dir_fd);
	g_assert_cmpint(umount(directory), ==, 0);
	directory_remove(directory);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	for (size_t i = 0; i < G_N_ELEMENTS(strategies); i++) {
		g_autofree char *dead = g_strdup_printf("/sink-disk/killed/%s", strategies[i].name);
		g_autofree char *full = g_strdup_printf("/sink-disk/nearly-full/%s", strategies[i].name);

		g_test_add_data_func(dead, &strategies[i].io, test_killed);
		g_test_add_data_func(full, &strategies[i].io, test_nearly_full);
	}
	return g_test_run();
}
