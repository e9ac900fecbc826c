/* SPDX-License-Identifier: MIT */
#include "tests/unit/daemon/sinks.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/vfs.h>

#include "daemon/removal.h"
#include "daemon/sink/uring.h"

const SinksCase sinks_cases[] = {
	{"write", IO_WRITE},
	{"mmap", IO_MMAP},
	{"splice", IO_SPLICE},
	{"direct", IO_DIRECT},
	{"direct-without-queue", IO_DIRECT, .no_queue = true},
	{"direct-without-room", IO_DIRECT, .no_room = true},
};
const size_t sinks_n_cases = G_N_ELEMENTS(sinks_cases);

/* ---- calls that fail ---- */

SinksFaults sinks_faults = {.only_fd = -1};

void sinks_faults_off(void)
{
	sinks_faults = (SinksFaults){.only_fd = -1};
}

typedef enum { PASS, SHORTER, FAIL } Fate;

static bool chance(int of_256)
{
	return of_256 > 0 && g_test_rand_int_range(0, 256) < of_256;
}

static Fate fate(SinksCall call, int fd)
{
	SinksFaults *f = &sinks_faults;
	int n = 0;

	if (f->only_fd >= 0 && fd != f->only_fd)
		return PASS;
	if (chance(f->interrupted[call])) {
		f->n_hit[call]++;
		errno = EINTR;
		return FAIL;
	}
	if (chance(f->error[call])) {
		while (n < (int)G_N_ELEMENTS(f->errnos) && f->errnos[n])
			n++;
		f->n_hit[call]++;
		errno = f->errnos[g_test_rand_int_range(0, n)];
		return FAIL;
	}
	if (chance(f->shorter[call])) {
		f->n_hit[call]++;
		return SHORTER;
	}
	return PASS;
}

ssize_t __real_pwritev64v2(int fd, const struct iovec *v, int n, off_t offset, int flags);
ssize_t __wrap_pwritev64v2(int fd, const struct iovec *v, int n, off_t offset, int flags);
ssize_t __wrap_pwritev64v2(int fd, const struct iovec *v, int n, off_t offset, int flags)
{
	Fate what = fate(CALL_WRITE, fd);

	if (what == FAIL)
		return -1;
	if (what == SHORTER) {
		/* O_DIRECT writes whole blocks */
		bool direct = fcntl(fd, F_GETFL) & O_DIRECT;
		struct iovec first = v[0];

		if (direct && first.iov_len > 4096)
			first.iov_len = first.iov_len / 2 & ~(size_t)4095;
		else if (!direct && first.iov_len > 1)
			first.iov_len = (size_t)g_test_rand_int_range(1, (gint32)MIN(first.iov_len, G_MAXINT32));
		return __real_pwritev64v2(fd, &first, 1, offset, flags);
	}
	return __real_pwritev64v2(fd, v, n, offset, flags);
}

ssize_t __real_splice(int in, loff_t *in_at, int out, loff_t *out_at, size_t n, unsigned flags);
ssize_t __wrap_splice(int in, loff_t *in_at, int out, loff_t *out_at, size_t n, unsigned flags);
ssize_t __wrap_splice(int in, loff_t *in_at, int out, loff_t *out_at, size_t n, unsigned flags)
{
	Fate what = fate(CALL_SPLICE, out);

	if (what == FAIL)
		return -1;
	if (what == SHORTER && n > 1)
		n = (size_t)g_test_rand_int_range(1, (gint32)MIN(n, 65536));
	return __real_splice(in, in_at, out, out_at, n, flags);
}

int __real_fallocate64(int fd, int mode, off_t offset, off_t n);
int __wrap_fallocate64(int fd, int mode, off_t offset, off_t n);
int __wrap_fallocate64(int fd, int mode, off_t offset, off_t n)
{
	if (sinks_faults.refuse_room) {
		errno = EOPNOTSUPP;
		return -1;
	}
	return fate(CALL_ALLOCATE, fd) == FAIL ? -1 : __real_fallocate64(fd, mode, offset, n);
}

int __real_ftruncate64(int fd, off_t size);
int __wrap_ftruncate64(int fd, off_t size);
int __wrap_ftruncate64(int fd, off_t size)
{
	Fate what = fate(CALL_CUT, fd);
	struct stat st;

	/* somebody else cuts it right behind */
	if (what == SHORTER && fstat(fd, &st) == 0 && size > st.st_size)
		return 0;
	return what == FAIL ? -1 : __real_ftruncate64(fd, size);
}

int __real_sync_file_range(int fd, off_t offset, off_t n, unsigned flags);
int __wrap_sync_file_range(int fd, off_t offset, off_t n, unsigned flags);
int __wrap_sync_file_range(int fd, off_t offset, off_t n, unsigned flags)
{
	return fate(CALL_WAIT, fd) == FAIL ? -1 : __real_sync_file_range(fd, offset, n, flags);
}

int __real_uring_new(Uring **ret, u32 entries);
int __wrap_uring_new(Uring **ret, u32 entries);
int __wrap_uring_new(Uring **ret, u32 entries)
{
	return sinks_faults.refuse_queue ? -EPERM : __real_uring_new(ret, entries);
}

int __real_uring_write(Uring *u, int fd, const struct iovec *v, u32 n, u64 offset, void *tag);
int __wrap_uring_write(Uring *u, int fd, const struct iovec *v, u32 n, u64 offset, void *tag);
int __wrap_uring_write(Uring *u, int fd, const struct iovec *v, u32 n, u64 offset, void *tag)
{
	sinks_faults.n_requests++;
	return fate(CALL_QUEUE, fd) == FAIL ? -EAGAIN : __real_uring_write(u, fd, v, n, offset, tag);
}

bool __real_uring_reap(Uring *u, bool wait, void **ret_tag, ssize_t *ret_result);
bool __wrap_uring_reap(Uring *u, bool wait, void **ret_tag, ssize_t *ret_result);
bool __wrap_uring_reap(Uring *u, bool wait, void **ret_tag, ssize_t *ret_result)
{
	Fate what;

	if ((sinks_faults.hold && !wait) || !__real_uring_reap(u, wait, ret_tag, ret_result))
		return false;
	/* it was written, and is said not to be: the same as a disk that fails late */
	what = fate(CALL_REAP, -1);
	if (what == FAIL)
		*ret_result = -errno;
	else if (what == SHORTER && *ret_result > 1)
		*ret_result = g_test_rand_int_range(1, (gint32)*ret_result);
	return true;
}

/* ---- a file under test ---- */

#define RING (24u << 20)

static int ring_fd = -1;
static u8 *ring;

static void ring_make(void)
{
	if (ring)
		return;
	ring_fd = memfd_create("ring", MFD_CLOEXEC);
	g_assert_cmpint(ftruncate(ring_fd, RING), ==, 0);
	ring = mmap(NULL, RING, PROT_READ | PROT_WRITE, MAP_SHARED, ring_fd, 0);
	g_assert_true(ring != MAP_FAILED);
}

static void fill(u8 *bytes, u64 size)
{
	u64 x = (u64)g_test_rand_int() << 32 | 1;

	for (u64 i = 0; i < size; i++) {
		if (i % 8 == 0)
			x = x * 6364136223846793005ull + 1442695040888963407ull;
		bytes[i] = (u8)(x >> (8 * (i % 8)));
	}
}

void sinks_open(SinksFile *f, SinkSet *set, const char *directory, const char *name)
{
	_cleanup_close_ int dir_fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	ring_make();
	*f = (SinksFile){.set = set, .path = g_build_filename(directory, name, NULL)};
	g_assert_cmpint(sink_open(&f->sink, set, dir_fd, name), ==, 0);
	f->bytes = g_byte_array_new();
	f->ends = g_array_new(false, false, sizeof(u64));
	g_assert_cmpuint(sink_size(f->sink), ==, 0);
}

u64 sinks_size_by_chance(u64 most)
{
	u64 up_to = 1ull << g_test_rand_int_range(0, 23);

	return (u64)g_test_rand_int() % (MIN(up_to, most) + 1);
}

int sinks_offer(SinksFile *f, u64 size)
{
	u64 offset = (u64)g_test_rand_int_range(0, (gint32)(RING - size)), old = f->bytes->len;
	u32 head_size = (u32)g_test_rand_int_range(0, 200), align = sink_align(f->set);
	g_autofree u8 *head = g_malloc(head_size + 1), *private = g_malloc(size + 1);
	bool from_ring = g_test_rand_int_range(0, 4) > 0;
	SinkPacket p = {
		.head = head,
		.head_size = head_size,
		.records = from_ring ? ring + offset : private,
		.records_size = size,
		.fd = from_ring ? ring_fd : -1,
		.fd_offset = from_ring ? offset : 0,
		.n_records = (u64)g_test_rand_int_range(1, 1000),
		.mark = f->ends->len + 1, /* how many packets: a refused one is offered again */
	};
	int r;

	p.size = MAX(ALIGN_UP(p.head_size + p.records_size, (u64)align), align);
	if (g_test_rand_int_range(0, 4) == 0)
		p.size += align * (u64)g_test_rand_int_range(0, 20000 / (gint32)align + 3);
	fill(head, head_size);
	fill((u8 *)p.records, p.records_size);
	g_byte_array_append(f->bytes, head, head_size);
	g_byte_array_append(f->bytes, p.records, (guint)p.records_size);
	g_byte_array_set_size(f->bytes, (guint)(old + p.size));
	memset(f->bytes->data + old + head_size + p.records_size, 0, p.size - head_size - p.records_size);

	r = sink_append(f->sink, &p);
	/* it is ours again, whatever became of it */
	memset(head, 0xee, head_size);
	memset((u8 *)p.records, 0xee, p.records_size);
	if (r < 0) {
		g_byte_array_set_size(f->bytes, (guint)old);
	} else {
		u64 end = old + p.size;

		g_assert_cmpint(r, ==, 0);
		g_array_append_val(f->ends, end);
		f->n_records += p.n_records;
	}
	g_assert_cmpuint(sink_size(f->sink), ==, f->bytes->len);
	(void)sinks_check_mark(f);
	return r;
}

u64 sinks_check_mark(SinksFile *f)
{
	_cleanup_close_ int fd = open(f->path, O_RDONLY | O_CLOEXEC);
	u64 n = sink_mark(f->sink), begin = n > 1 ? g_array_index(f->ends, u64, n - 2) : 0, end;
	g_autofree u8 *there = NULL;

	g_assert_cmpuint(n, >=, f->marked);
	g_assert_cmpuint(n, <=, f->ends->len);
	if (n == f->marked)
		return n;
	f->marked = n;
	end = g_array_index(f->ends, u64, n - 1);
	if (fd < 0) /* removed by the test */
		return n;
	there = g_malloc(end - begin);
	g_assert_cmpint(pread(fd, there, end - begin, (off_t)begin), ==, (gssize)(end - begin));
	g_assert_cmpint(memcmp(there, f->bytes->data + begin, end - begin), ==, 0);
	return n;
}

int sinks_descriptor(const SinksFile *f)
{
	struct stat st, other;

	g_assert_cmpint(stat(f->path, &st), ==, 0);
	for (int fd = 0; fd < 1024; fd++)
		if (fstat(fd, &other) == 0 && other.st_ino == st.st_ino && other.st_dev == st.st_dev)
			return fd;
	g_assert_not_reached();
}

u64 sinks_file_size(const SinksFile *f)
{
	struct stat st;

	g_assert_cmpint(stat(f->path, &st), ==, 0);
	return (u64)st.st_size;
}

static void check_bytes(SinksFile *f, u64 size)
{
	_cleanup_close_ int fd = open(f->path, O_RDONLY | O_CLOEXEC);
	g_autofree u8 *there = g_malloc(size + 1);
	u64 n = 0;

	while (n < size) {
		ssize_t r = pread(fd, there + n, size - n, (off_t)n);

		g_assert_cmpint(r, >, 0);
		n += (u64)r;
	}
	/* an empty one has no memory */
	if (size == 0 || memcmp(there, f->bytes->data, size) == 0)
		return;
	for (n = 0; there[n] == f->bytes->data[n];)
		n++;
	g_error("byte %" G_GUINT64_FORMAT " of %" G_GUINT64_FORMAT " differs", n, size);
}

void sinks_check_whole(SinksFile *f)
{
	u64 size = sinks_file_size(f), taken = f->bytes->len;
	bool whole = size == 0;

	g_assert_cmpuint(size, <=, taken);
	for (guint i = 0; i < f->ends->len; i++)
		whole |= g_array_index(f->ends, u64, i) == size;
	g_assert_true(whole);
	check_bytes(f, size);
}

void sinks_flush(SinksFile *f)
{
	g_assert_cmpint(sink_flush(f->sink), ==, 0);
	g_assert_cmpuint(sinks_file_size(f), ==, f->bytes->len);
	g_assert_cmpuint(sinks_check_mark(f), ==, f->ends->len);
	sinks_check_whole(f);
}

static void file_free(SinksFile *f)
{
	g_byte_array_unref(f->bytes);
	g_array_unref(f->ends);
	g_free(f->path);
	*f = (SinksFile){0};
}

void sinks_finish(SinksFile *f)
{
	struct stat st;
	int fd = -1;

	g_assert_cmpint(sink_finish(f->sink, &fd), ==, 0);
	g_assert_cmpint(fsync(fd), ==, 0);
	g_assert_cmpint(fstat(fd, &st), ==, 0);
	g_assert_cmpuint(st.st_mode, ==, S_IFREG | 0640);
	g_assert_cmpuint((u64)st.st_size, ==, f->bytes->len);
	/* what was allocated ahead is given back; some blocks are the file system's own */
	g_assert_cmpuint((u64)st.st_blocks * 512, <=, (u64)st.st_size + (256u << 10));
	check_bytes(f, f->bytes->len);
	close_fd(fd);
	file_free(f);
}

void sinks_abandon(SinksFile *f)
{
	u64 lost = sink_abandon(f->sink), size = sinks_file_size(f);
	bool whole = size == 0;

	g_assert_cmpuint(lost, <=, f->n_records);
	for (guint i = 0; i < f->ends->len; i++)
		whole |= g_array_index(f->ends, u64, i) == size;
	g_assert_true(whole);
	g_assert_true((size == f->bytes->len) == (lost == 0));
	check_bytes(f, size);
	file_free(f);
}

/* ---- places ---- */

char *sinks_disk(void)
{
	char *path = g_strdup("/var/tmp/tracer-test-XXXXXX");
	struct statfs fs;

	g_assert_nonnull(g_mkdtemp(path));
	g_assert_cmpint(statfs(path, &fs), ==, 0);
	if (fs.f_type != TMPFS_MAGIC && fs.f_type != OVERLAYFS_SUPER_MAGIC)
		return path;
	g_test_skip("/var/tmp is not on a disk");
	(void)rmdir(path);
	g_free(path);
	return NULL;
}

static bool run(const char *const *argv)
{
	int status = -1;

	return g_spawn_sync(NULL, (char **)argv, NULL, G_SPAWN_SEARCH_PATH | G_SPAWN_STDERR_TO_DEV_NULL, NULL, NULL,
			    NULL, NULL, &status, NULL) &&
	       status == 0;
}

char *sinks_mount(const char *type, u64 size)
{
	static bool apart;
	g_autofree char *image = NULL, *options = g_strdup_printf("size=%" G_GUINT64_FORMAT, size);
	g_autofree char *path = g_strdup("/var/tmp/tracer-test-XXXXXX");
	bool ok;

	/* in a mount namespace of our own: nothing stays mounted, however the test ends */
	if (!apart && (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)) {
		g_test_skip("no file system can be mounted here: run as root");
		return NULL;
	}
	apart = true;
	g_assert_nonnull(g_mkdtemp(path));
	if (g_str_equal(type, "tmpfs")) {
		ok = mount("tmpfs", path, "tmpfs", 0, options) == 0;
	} else {
		_cleanup_close_ int fd = -1;

		image = g_strconcat(path, ".image", NULL);
		fd = open(image, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
		g_assert_cmpint(ftruncate(fd, (off_t)size), ==, 0);
		ok = run((const char *[]){"mkfs.ext4", "-q", "-F", "-m", "0", "-O", "^has_journal", image, NULL}) &&
		     run((const char *[]){"mount", "-o", "loop", image, path, NULL});
		/* the loop device has it open */
		(void)unlink(image);
	}
	if (ok)
		return g_steal_pointer(&path);
	(void)rmdir(path);
	g_test_skip(g_str_equal(type, "tmpfs") ? "tmpfs cannot be mounted here" : "ext4 cannot be made or mounted here");
	return NULL;
}

void sinks_unmount(char *directory)
{
	g_assert_cmpint(umount2(directory, 0), ==, 0);
	g_assert_cmpint(rmdir(directory), ==, 0);
	g_free(directory);
}

u32 sinks_n_descriptors(void)
{
	g_autoptr(GDir) d = g_dir_open("/proc/self/fd", 0, NULL);
	u32 n = 0;

	ring_make();
	while (g_dir_read_name(d))
		n++;
	return n;
}
