/* SPDX-License-Identifier: MIT */
#include "tests/integration/daemon/disk.h"

#include <fcntl.h>
#include <glib.h>
#include <linux/loop.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>

static bool run(const char *const *argv)
{
	int status = 0;

	return g_spawn_sync(NULL, (char **)argv, NULL,
			    G_SPAWN_SEARCH_PATH | G_SPAWN_STDOUT_TO_DEV_NULL | G_SPAWN_STDERR_TO_DEV_NULL, NULL, NULL,
			    NULL, NULL, &status, NULL) &&
	       status == 0;
}

bool disk_small(Disk *d, const char *path, const char *options)
{
	*d = (Disk){ .memory_fd = -1, .device_fd = -1 };
	(void)g_mkdir_with_parents(path, 0755);
	if (mount("tmpfs", path, "tmpfs", 0, options) < 0) {
		g_test_skip("no file system can be mounted here");
		return false;
	}
	d->path = g_strdup(path);
	d->ballast = g_build_filename(path, "ballast", NULL);
	return true;
}

/* A free one may be somebody else's the next moment. */
static bool device_open(Disk *d)
{
	int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);

	for (int turn = 0; control >= 0 && turn < 20 && d->device_fd < 0; turn++) {
		struct loop_config c = { .fd = (u32)d->memory_fd, .info.lo_flags = LO_FLAGS_AUTOCLEAR };
		int n = ioctl(control, LOOP_CTL_GET_FREE);

		(void)snprintf(d->device, sizeof(d->device), "/dev/loop%d", n);
		d->device_fd = n < 0 ? -1 : open(d->device, O_RDWR | O_CLOEXEC);
		if (d->device_fd >= 0 && ioctl(d->device_fd, LOOP_CONFIGURE, &c) < 0)
			d->device_fd = close_fd(d->device_fd);
	}
	close_fd(control);
	return d->device_fd >= 0;
}

static bool device_mount(const Disk *d)
{
	return mount(d->device, d->path, "ext4", 0, "errors=continue") == 0;
}

/* Takes the descriptor. */
static bool block_open(Disk *d, const char *path, int fd)
{
	d->memory_fd = fd;
	(void)g_mkdir_with_parents(path, 0755);
	if (fd >= 0 && ftruncate(fd, 64 << 20) == 0 && device_open(d) &&
	    run((const char *[]){ "mkfs.ext4", "-q", "-F", "-m", "0", "-O", "^has_journal", "-E", "nodiscard", d->device,
				  NULL }) &&
	    device_mount(d))
		return true;
	close_fd(d->device_fd);
	close_fd(d->memory_fd);
	g_test_skip("a small ext4 needs root, mkfs.ext4 and a loop device");
	return false;
}

bool disk_block(Disk *d, const char *path)
{
	*d = (Disk){ .memory_fd = -1, .device_fd = -1, .path = g_strdup(path) };
	if (block_open(d, path, memfd_create("disk", MFD_CLOEXEC | MFD_ALLOW_SEALING)))
		return true;
	g_free(d->path);
	return false;
}

bool disk_thin(Disk *d, const char *path, const char *size)
{
	char *below = g_strconcat(path, ".below", NULL), *options = g_strconcat("size=", size, NULL), *image;
	bool ok = disk_small(d, below, options);

	g_free(options);
	if (!ok) {
		g_free(below);
		return false;
	}
	g_free(d->path);
	d->path = g_strdup(path);
	d->below = below;
	image = g_build_filename(below, "image", NULL);
	ok = block_open(d, path, open(image, O_RDWR | O_CREAT | O_CLOEXEC, 0600));
	g_free(image);
	if (!ok) {
		(void)umount2(below, MNT_DETACH);
		g_free(d->path);
		g_free(below);
		g_free(d->ballast);
	}
	return ok;
}

void disk_fill(Disk *d, u64 bytes)
{
	int fd = open(d->ballast, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	g_assert_cmpint(fd, >=, 0);
	if (bytes != UINT64_MAX) {
		g_assert_cmpint(posix_fallocate(fd, 0, (off_t)bytes), ==, 0);
	} else {
		static const char page[4096];

		while (write(fd, page, sizeof(page)) > 0)
			;
	}
	(void)close(fd);
}

void disk_free(Disk *d)
{
	g_assert_cmpint(unlink(d->ballast), ==, 0);
}

void disk_read_only(Disk *d, bool read_only)
{
	if (mount(NULL, d->path, NULL, MS_REMOUNT | (read_only ? MS_RDONLY : 0), NULL) < 0)
		g_error("%s: %s", d->path, g_strerror(errno));
}

void disk_die(Disk *d)
{
	g_assert_cmpint(fcntl(d->memory_fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE), ==, 0);
}

bool disk_break(Disk *d)
{
	char *trigger = g_strdup_printf("/sys/fs/ext4/%s/trigger_fs_error", d->device + strlen("/dev/"));
	FILE *f = fopen(trigger, "we");
	bool ok = f && mount(NULL, d->path, NULL, MS_REMOUNT, "errors=remount-ro") == 0 && fputs("a test", f) >= 0;

	if (f)
		ok &= fclose(f) == 0;
	if (!ok)
		g_test_skip("this kernel has no way to break an ext4");
	g_free(trigger);
	return ok;
}

bool disk_mend(Disk *d)
{
	if (umount2(d->path, 0) < 0)
		return false;
	g_assert_true(device_mount(d));
	return true;
}

void disk_close(Disk *d)
{
	g_assert_cmpint(umount2(d->path, MNT_DETACH), ==, 0);
	/* it lets go of what is below it when nobody has it any more */
	d->device_fd = close_fd(d->device_fd);
	d->memory_fd = close_fd(d->memory_fd);
	if (d->below)
		g_assert_cmpint(umount2(d->below, MNT_DETACH), ==, 0);
	g_free(d->path);
	g_free(d->below);
	g_free(d->ballast);
}
