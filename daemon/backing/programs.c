/* SPDX-License-Identifier: MIT */
#include "daemon/backing/programs.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "daemon/backing/format.h"
#include "daemon/bytes.h"

/* Of one file: more than programs that may be attached at one time, and than dead ones that are kept. */
#define PROGRAMS_MAX 65536

static void pack(struct backing_program *ret, const Description *d)
{
	*ret = (struct backing_program){
		.pid = (u32)d->pid,
		.uid = d->uid,
		.vpid = d->vpid,
		.start_ticks = d->start_ticks,
		.started = d->started,
		.ended = d->ended,
	};
	(void)snprintf(ret->command, sizeof(ret->command), "%s", d->command);
	(void)snprintf(ret->unit, sizeof(ret->unit), "%s", d->unit);
	(void)snprintf(ret->how, sizeof(ret->how), "%s", d->how);
	(void)snprintf(ret->user, sizeof(ret->user), "%s", d->user);
	(void)snprintf(ret->exe, sizeof(ret->exe), "%s", d->exe);
	(void)snprintf(ret->build_id, sizeof(ret->build_id), "%s", d->build_id);
}

/* The checksum vouches for the bytes, and not for their sense. */
static void unpack(Description *ret, const struct backing_program *p)
{
#define TEXT(name) (void)snprintf(ret->name, sizeof(ret->name), "%.*s", (int)strnlen(p->name, sizeof(p->name)), p->name)
	*ret = (Description){
		.pid = (pid_t)p->pid,
		.uid = p->uid,
		.vpid = p->vpid,
		.start_ticks = p->start_ticks,
		.started = p->started,
		.ended = p->ended,
	};
	TEXT(command);
	TEXT(unit);
	TEXT(how);
	TEXT(user);
	TEXT(exe);
	TEXT(build_id);
#undef TEXT
}

static u64 checksum(const struct backing_programs *head, const struct backing_program *v)
{
	struct backing_programs h = *head;

	h.checksum = 0;
	return backing_checksum(backing_checksum(0, &h, sizeof(h)), v, (u64)h.n * sizeof(*v));
}

static void half_name(char ret[300], const char *name)
{
	(void)snprintf(ret, 300, ".%.290s.new", name);
}

int programs_write(int dir_fd, const char *name, u64 image, Descriptions *d)
{
	struct backing_programs head = {
		.magic = BACKING_MAGIC_PROGRAMS,
		.image = image,
		.n = (u32)MIN(d->n, (size_t)PROGRAMS_MAX),
		.left_out = d->n_left_out + (d->n - MIN(d->n, (size_t)PROGRAMS_MAX)),
		.left_until = d->left_until,
	};
	_cleanup_free_ struct backing_program *v = calloc(MAX(head.n, 1u), sizeof(*v));
	_cleanup_close_ int fd = -1;
	char half[300];
	int r;

	if (!v)
		return -ENOMEM;
	descriptions_resolve(d);
	for (u32 i = 0; i < head.n; i++)
		pack(&v[i], &d->v[i]);
	head.checksum = checksum(&head, v);
	half_name(half, name);
	fd = openat(dir_fd, half, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0640);
	if (fd < 0)
		return -errno;
	r = write_at(fd, &head, sizeof(head), 0);
	if (r == 0)
		r = write_at(fd, v, head.n * sizeof(*v), sizeof(head));
	if (r == 0 && fsync(fd) < 0)
		r = -errno;
	if (r == 0 && renameat(dir_fd, half, dir_fd, name) < 0)
		r = -errno;
	if (r < 0)
		(void)unlinkat(dir_fd, half, 0);
	return r;
}

void programs_remove(int dir_fd, const char *name)
{
	char half[300];

	half_name(half, name);
	(void)unlinkat(dir_fd, half, 0);
	(void)unlinkat(dir_fd, name, 0);
}

int programs_read(Descriptions *ret, int dir_fd, const char *name, u64 image)
{
	_cleanup_close_ int fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	_cleanup_free_ struct backing_program *v = NULL;
	struct backing_programs head;
	Descriptions d = {};
	struct stat st;
	size_t size;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode) || read_at(fd, &head, sizeof(head), 0) != sizeof(head) || head.magic != BACKING_MAGIC_PROGRAMS ||
	    head.image != image || head.n > PROGRAMS_MAX ||
	    (u64)st.st_size != sizeof(head) + (u64)head.n * sizeof(*v))
		return -EBADMSG;
	v = calloc(MAX(head.n, 1u), sizeof(*v));
	d.v = calloc(MAX(head.n, 1u), sizeof(*d.v));
	if (!v || !d.v) {
		descriptions_clear(&d);
		return -ENOMEM;
	}
	size = head.n * sizeof(*v);
	if (read_at(fd, v, size, sizeof(head)) != (ssize_t)size || checksum(&head, v) != head.checksum) {
		descriptions_clear(&d);
		return -EBADMSG;
	}
	for (u32 i = 0; i < head.n; i++)
		unpack(&d.v[i], &v[i]);
	d.n = d.n_all = head.n;
	d.n_left_out = head.left_out;
	d.left_until = head.left_until;
	*ret = d;
	return 0;
}
