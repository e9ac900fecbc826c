/* SPDX-License-Identifier: MIT */
/* Every strategy on file systems that do what they are asked. */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "daemon/removal.h"
#include "tests/unit/daemon/sinks.h"

static SinkSet *set_of(const SinksCase *c)
{
	SinkSet *set = NULL;

	sinks_faults.refuse_queue = c->no_queue;
	sinks_faults.refuse_room = c->no_room;
	g_assert_cmpint(sink_set_new(&set, c->io), ==, 0);
	return set;
}

static void gone(char *directory)
{
	g_assert_cmpint(removal_run(AT_FDCWD, directory, NULL), ==, 0);
	g_free(directory);
	sinks_faults_off();
}

/* Two files side by side, with packets of all sizes: exactly the bytes that were given. */
static void test_content(const void *data)
{
	u32 n_descriptors = sinks_n_descriptors();
	char *directory = sinks_disk();
	SinksFile files[2];
	SinkSet *set;

	if (!directory)
		return;
	set = set_of(data);
	for (size_t i = 0; i < 2; i++)
		sinks_open(&files[i], set, directory, i ? "b" : "a");
	g_assert_cmpuint(sink_align(set), ==, g_str_equal(sink_set_name(set), "direct") ? 4096 : 8);
	for (int i = 0; i < 200; i++) {
		SinksFile *f = &files[g_test_rand_int_range(0, 2)];

		g_assert_cmpint(sinks_offer(f, sinks_size_by_chance(3u << 20)), ==, 0);
		if (g_test_rand_int_range(0, 20) == 0)
			sinks_flush(f);
		/* between two flushes too there is never half a packet in front of a reader */
		else if (g_test_rand_int_range(0, 20) == 0)
			sinks_check_whole(f);
	}
	/* beyond everything that is held ready, and back to small ones */
	g_assert_cmpint(sinks_offer(&files[0], 20u << 20), ==, 0);
	g_assert_cmpint(sinks_offer(&files[1], 20u << 20), ==, 0);
	for (int i = 0; i < 40; i++)
		g_assert_cmpint(sinks_offer(&files[i % 2], 1), ==, 0);
	sinks_finish(&files[0]);
	sinks_abandon(&files[1]); /* nothing failed: it is all there */
	sink_set_free(set);
	gone(directory);
	g_assert_cmpuint(sinks_n_descriptors(), ==, n_descriptors);
}

static void test_present(const void *data)
{
	char *directory = sinks_disk();
	SinksFile f;
	SinkSet *set;
	int fd = -1;

	if (!directory)
		return;
	set = set_of(data);
	sinks_open(&f, set, directory, "a");
	g_assert_cmpint(sinks_offer(&f, 100000), ==, 0);
	g_assert_true(sink_present(f.sink));
	g_assert_cmpint(unlink(f.path), ==, 0);
	g_assert_false(sink_present(f.sink));
	/* that is for the caller to judge: nothing fails */
	g_assert_cmpint(sink_finish(f.sink, &fd), ==, 0);
	close_fd(fd);
	g_byte_array_unref(f.bytes);
	g_array_unref(f.ends);
	g_free(f.path);
	sink_set_free(set);
	gone(directory);
}

static void test_wrong_sizes(const void *data)
{
	char *directory = sinks_disk();
	SinkPacket p = {.head = "abcdefgh", .head_size = 8, .fd = -1};
	SinksFile f;
	SinkSet *set;

	if (!directory)
		return;
	set = set_of(data);
	sinks_open(&f, set, directory, "a");
	g_assert_cmpint(sink_append(f.sink, &p), ==, -EINVAL);
	p.size = sink_align(set) + 1;
	g_assert_cmpint(sink_append(f.sink, &p), ==, -EINVAL);
	p.size = sink_align(set);
	p.records_size = p.size - p.head_size + 1;
	g_assert_cmpint(sink_append(f.sink, &p), ==, -EINVAL);
	p.records_size = UINT64_MAX - 7;
	g_assert_cmpint(sink_append(f.sink, &p), ==, -EINVAL);
	g_assert_cmpuint(sinks_file_size(&f), ==, 0);
	sinks_finish(&f); /* an empty one */
	sink_set_free(set);
	gone(directory);
}

/* A packet that was taken is in the file when its request is done, and not before that: so long nobody may think so. */
static void test_held(void)
{
	char *directory = sinks_disk();
	SinksFile f[2];
	SinkSet *set;
	u32 n;

	if (!directory)
		return;
	g_assert_cmpint(sink_set_new(&set, IO_DIRECT), ==, 0);
	for (u32 i = 0; i < 2; i++) {
		g_autofree char *name = g_strdup_printf("%u", i);

		sinks_open(&f[i], set, directory, name);
		g_assert_cmpint(sinks_offer(&f[i], 100000), ==, 0);
		g_assert_cmpuint(sinks_check_mark(&f[i]), ==, 0);
	}
	sinks_faults.hold = true;
	sink_push(f[0].sink);
	n = sinks_faults.n_requests;
	if (n > 0) {
		/* also where it is asked for: what was not heard of is not there */
		g_assert_cmpint(sinks_offer(&f[0], 5000), ==, 0);
		g_assert_cmpint(sinks_offer(&f[1], 5000), ==, 0);
		g_assert_cmpuint(sinks_check_mark(&f[0]), ==, 0);
		g_assert_cmpuint(sinks_check_mark(&f[1]), ==, 0);
		sinks_faults.hold = false;
		/* with what had gathered behind it */
		sink_set_settle(set);
		g_assert_cmpuint(sinks_check_mark(&f[0]), ==, 2);
		g_assert_cmpuint(sinks_check_mark(&f[1]), ==, 0);
	} else {
		g_test_message("there is no queue here: written on the spot");
		g_assert_cmpuint(sinks_check_mark(&f[0]), ==, 1);
	}
	sinks_faults_off();
	for (u32 i = 0; i < 2; i++) {
		sinks_flush(&f[i]);
		sinks_finish(&f[i]);
	}
	sink_set_free(set);
	gone(directory);
}

/* ---- opening ---- */

static int try_open(SinkSet *set, const char *directory, const char *name)
{
	_cleanup_close_ int dir_fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	Sink *s = NULL;
	int r = sink_open(&s, set, dir_fd, name);

	if (r == 0)
		g_assert_cmpuint(sink_abandon(s), ==, 0);
	return r;
}

static bool is_empty(const char *directory)
{
	g_autoptr(GDir) d = g_dir_open(directory, 0, NULL);

	return g_dir_read_name(d) == NULL;
}

static void test_open(const void *data)
{
	char *directory = sinks_disk();
	u32 n_descriptors = sinks_n_descriptors();
	SinkSet *set;

	if (!directory)
		return;
	set = set_of(data);
	g_assert_cmpint(try_open(set, "/proc/self/no-such", "a"), ==, -EBADF);
	g_assert_cmpint(try_open(set, directory, "a"), ==, 0);
	g_assert_cmpint(try_open(set, directory, "a"), ==, -EEXIST);
	g_assert_false(is_empty(directory)); /* what was there is not ours to remove */
	sink_set_free(set);
	gone(directory);
	g_assert_cmpuint(sinks_n_descriptors(), ==, n_descriptors);
}

static void test_refused(void)
{
	char *memory = sinks_mount("tmpfs", 1u << 20), *disk;
	u32 n_descriptors = sinks_n_descriptors();
	static const Io ios[] = {IO_WRITE, IO_MMAP, IO_SPLICE};
	SinkSet *set = NULL;

	if (!memory)
		return;
	g_assert_cmpint(sink_set_new(&set, IO_NONE), ==, -EINVAL);
	g_assert_cmpint(sink_set_new(&set, (Io)99), ==, -EINVAL);
	/* memory has no disk to go to directly */
	g_assert_cmpint(sink_set_new(&set, IO_DIRECT), ==, 0);
	g_assert_cmpint(try_open(set, memory, "a"), ==, -EOPNOTSUPP);
	g_assert_true(is_empty(memory));
	set = sink_set_free(set);
	for (size_t i = 0; i < G_N_ELEMENTS(ios); i++) {
		g_assert_cmpint(sink_set_new(&set, ios[i]), ==, 0);
		g_assert_cmpint(try_open(set, memory, "a"), ==, 0);
		g_autofree char *path = g_build_filename(memory, "a", NULL);
		g_assert_cmpint(unlink(path), ==, 0);
		set = sink_set_free(set);
	}
	/* a file system without fallocate */
	sinks_faults.refuse_room = true;
	g_assert_cmpint(sink_set_new(&set, IO_MMAP), ==, 0);
	g_assert_cmpint(try_open(set, memory, "a"), ==, -EOPNOTSUPP);
	g_assert_true(is_empty(memory));
	set = sink_set_free(set);
	sinks_faults_off();
	/* ... and one that takes no pages */
	sinks_faults.error[CALL_SPLICE] = 256;
	sinks_faults.errnos[0] = EINVAL;
	g_assert_cmpint(sink_set_new(&set, IO_SPLICE), ==, 0);
	g_assert_cmpint(try_open(set, memory, "a"), ==, -EOPNOTSUPP);
	g_assert_true(is_empty(memory));
	sinks_faults_off();
	/* the pipe is as empty as before */
	g_assert_cmpint(try_open(set, memory, "a"), ==, 0);
	set = sink_set_free(set);

	/* `auto` decides by the first file, and stays with it */
	g_assert_cmpint(sink_set_new(&set, IO_AUTO), ==, 0);
	g_assert_cmpstr(sink_set_name(set), ==, "auto");
	g_assert_cmpint(try_open(set, memory, "a"), ==, -EEXIST);
	g_assert_cmpstr(sink_set_name(set), ==, "auto");
	g_assert_cmpint(try_open(set, memory, "b"), ==, 0);
	g_assert_cmpstr(sink_set_name(set), ==, "write");
	g_assert_cmpuint(sink_align(set), ==, 8);
	set = sink_set_free(set);
	disk = sinks_disk();
	if (disk) {
		g_assert_cmpint(sink_set_new(&set, IO_AUTO), ==, 0);
		g_assert_cmpint(try_open(set, disk, "a"), ==, 0);
		g_assert_cmpstr(sink_set_name(set), ==, "direct");
		g_assert_cmpint(try_open(set, memory, "c"), ==, -EOPNOTSUPP);
		set = sink_set_free(set);
		sinks_faults.refuse_room = true;
		g_assert_cmpint(sink_set_new(&set, IO_AUTO), ==, 0);
		g_assert_cmpint(try_open(set, disk, "b"), ==, 0);
		g_assert_cmpstr(sink_set_name(set), ==, "write");
		set = sink_set_free(set);
		gone(disk);
	}
	g_assert_cmpuint(sinks_n_descriptors(), ==, n_descriptors);
	sinks_unmount(memory);
}

/* ---- the page cache ---- */

static u64 cached(const char *path)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	u64 size = (u64)lseek(fd, 0, SEEK_END), n = 0;
	g_autofree u8 *pages = g_malloc(size / 4096 + 1);
	void *map = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);

	g_assert_true(map != MAP_FAILED);
	g_assert_cmpint(mincore(map, size, pages), ==, 0);
	for (u64 i = 0; i < (size + 4095) / 4096; i++)
		n += pages[i] & 1;
	munmap(map, size);
	return n * 4096;
}

static void fill_and_look(SinkSet *set, const char *directory, u32 packet)
{
	_cleanup_close_ int dir_fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	g_autofree u8 *bytes = g_malloc(packet);
	g_autofree char *path = g_build_filename(directory, "a", NULL);
	u64 most = 0;
	Sink *s = NULL;
	int fd = -1;

	memset(bytes, 'x', packet);
	g_assert_cmpint(sink_open(&s, set, dir_fd, "a"), ==, 0);
	for (u64 done = 0; done < 288ull << 20; done += packet) {
		g_assert_cmpint(
			sink_append(s, &(SinkPacket){.records = bytes, .records_size = packet, .size = packet, .fd = -1}),
			==, 0);
		if (done % (16u << 20) < packet && done >= packet)
			most = MAX(most, cached(path));
	}
	g_test_message("%s, packets of %u: up to %" G_GUINT64_FORMAT " KiB cached", sink_set_name(set), packet,
		       most >> 10);
	g_assert_cmpuint(most, <, 40u << 20);
	g_assert_cmpint(sink_finish(s, &fd), ==, 0);
	close_fd(fd);
	g_assert_cmpint(unlink(path), ==, 0);
}

static void test_cache(const void *data)
{
	char *directory = sinks_disk();
	SinkSet *set;

	if (!directory)
		return;
	set = set_of(data);
	fill_and_look(set, directory, 1u << 20);
	fill_and_look(set, directory, 48u << 10);
	sink_set_free(set);
	gone(directory);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	for (size_t i = 0; i < sinks_n_cases; i++) {
		const SinksCase *c = &sinks_cases[i];
		const struct {
			const char *name;
			GTestDataFunc run;
		} tests[] = {
			{"content", test_content}, {"present", test_present}, {"wrong-sizes", test_wrong_sizes},
			{"open", test_open},	   {"cache", test_cache},
		};

		for (size_t k = 0; k < G_N_ELEMENTS(tests); k++) {
			g_autofree char *path = g_strdup_printf("/sink/%s/%s", c->name, tests[k].name);

			/* without a file system's help it cannot be */
			if (c->no_room && c->io == IO_MMAP)
				continue;
			g_test_add_data_func(path, c, tests[k].run);
		}
	}
	g_test_add_func("/sink/refused", test_refused);
	g_test_add_func("/sink/held", test_held);
	return g_test_run();
}
