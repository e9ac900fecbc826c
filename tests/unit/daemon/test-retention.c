/* SPDX-License-Identifier: MIT */
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "daemon/removal.h"
#include "daemon/retention.h"
#include "tests/unit/daemon/maker.h"

/* A snapshot `age` seconds old with `size` bytes in it. */
static char *snapshot_make(const char *directory, u64 age, u32 micro, size_t size)
{
	g_autoptr(GDateTime) now = g_date_time_new_now_utc();
	g_autoptr(GDateTime) then = g_date_time_add_seconds(now, -(double)age);
	g_autofree char *time = g_date_time_format(then, "%Y%m%dT%H%M%S");
	char *name = g_strdup_printf("%s.%06uZ-manual", time, micro);
	g_autofree char *trace = g_build_filename(directory, name, "user-0", "index", NULL);
	g_autofree char *file = g_build_filename(directory, name, "user-0", "cpu_0", NULL);
	g_autofree char *data = g_malloc0(size + 1);

	memset(data, 'x', size);
	g_assert_cmpint(g_mkdir_with_parents(trace, 0750), ==, 0);
	g_assert_true(g_file_set_contents(file, data, (gssize)size, NULL));
	return name;
}

static bool there(const char *directory, const char *name)
{
	g_autofree char *path = g_build_filename(directory, name, NULL);

	return g_file_test(path, G_FILE_TEST_EXISTS);
}

static void test_count(void)
{
	g_autofree char *directory = maker_directory();
	RetentionConfig c = {.max_count = 2};
	RetentionResult result;
	char *names[5];

	for (u32 i = 0; i < 5; i++) /* made newest first */
		names[i] = snapshot_make(directory, i * 10, i, 10000);
	g_assert_cmpint(retention_apply(directory, &c, NULL, &result), ==, 0);
	g_assert_cmpuint(result.n_removed, ==, 3);
	g_assert_cmpuint(result.bytes_removed, >=, 30000);
	for (u32 i = 0; i < 5; i++) {
		g_assert_true(there(directory, names[i]) == (i < 2));
		g_free(names[i]);
	}
	g_assert_cmpint(retention_apply(directory, &c, NULL, &result), ==, 0);
	g_assert_cmpuint(result.n_removed, ==, 0);
	maker_remove(directory);
}

static void test_size_and_age(void)
{
	g_autofree char *directory = maker_directory();
	RetentionConfig c = {.max_size = 250000};
	g_autofree char *temporary = g_build_filename(directory, ".20200101T000000.000000Z-crash.tmp", NULL);
	RetentionResult result;
	char *names[5];

	for (u32 i = 0; i < 5; i++)
		names[i] = snapshot_make(directory, i * 3600, i, 100000);
	/* also beside a job that is just writing */
	g_assert_cmpint(g_mkdir_with_parents(temporary, 0700), ==, 0);
	g_assert_cmpint(retention_limit(directory, &c, &result), ==, 0);
	g_assert_cmpuint(result.n_removed, ==, 3);
	g_assert_true(g_file_test(temporary, G_FILE_TEST_IS_DIR));
	for (u32 i = 0; i < 5; i++)
		g_assert_true(there(directory, names[i]) == (i < 2));
	g_assert_cmpint(retention_apply(directory, &c, NULL, &result), ==, 0);
	g_assert_cmpuint(result.n_removed, ==, 0);
	g_assert_false(g_file_test(temporary, G_FILE_TEST_EXISTS));
	c = (RetentionConfig){.max_age_ns = 1800 * NSEC_PER_SEC};
	g_assert_cmpint(retention_apply(directory, &c, NULL, &result), ==, 0);
	g_assert_cmpuint(result.n_removed, ==, 1);
	g_assert_true(there(directory, names[0]));
	/* the newest stays, however old and large */
	c = (RetentionConfig){
	    .max_age_ns = 1, .max_size = 1, .max_count = 1, .keep_free = UINT64_MAX};
	g_assert_cmpint(retention_apply(directory, &c, NULL, &result), ==, 0);
	g_assert_cmpuint(result.n_removed, ==, 0);
	g_assert_true(there(directory, names[0]));
	for (u32 i = 0; i < 5; i++)
		g_free(names[i]);
	maker_remove(directory);
}

/* Nothing that is not ours is touched, whatever its age; links are not followed. */
static void test_strangers(void)
{
	static const char *const strangers[] = {
	    "notes",
	    "20200101T000000.000000Z",
	    "20200101T000000.000000Z-",
	    "20200101T000000.00000Z-manual",
	    "20200101 000000.000000Z-manual",
	    "20200101T000000.000000Z-man ual",
	    "x20200101T000000.000000Z-manual",
	    ".20200101T000000.000000Z-manual",
	    ".notes.tmp",
	    "lost+found",
	};
	g_autofree char *directory = maker_directory(), *outside = maker_directory();
	g_autofree char *outside_file = g_build_filename(outside, "precious", NULL);
	g_autofree char *link = g_build_filename(directory, "20200101T000000.000000Z-link", NULL);
	g_autofree char *file = g_build_filename(directory, "20200101T000000.000001Z-file", NULL);
	RetentionConfig c = {.max_count = 1, .max_age_ns = 1, .max_size = 1};
	RetentionResult result;
	g_autofree char *old = snapshot_make(directory, 100, 1, 10);
	g_autofree char *new = snapshot_make(directory, 1, 1, 10);
	g_autofree char *inner = g_build_filename(directory, old, "user-0", "out", NULL);

	g_assert_true(g_file_set_contents(outside_file, "x", 1, NULL));
	g_assert_true(g_file_set_contents(file, "x", 1, NULL));
	g_assert_cmpint(symlink(outside, link), ==, 0);
	g_assert_cmpint(symlink(outside, inner), ==, 0);
	for (size_t i = 0; i < ELEMENTSOF(strangers); i++) {
		g_autofree char *path = g_build_filename(directory, strangers[i], "inside", NULL);

		g_assert_cmpint(g_mkdir_with_parents(path, 0700), ==, 0);
	}
	g_assert_cmpint(retention_apply(directory, &c, NULL, &result), ==, 0);
	g_assert_cmpuint(result.n_removed, ==, 1);
	g_assert_false(there(directory, old));
	g_assert_true(there(directory, new));
	for (size_t i = 0; i < ELEMENTSOF(strangers); i++)
		g_assert_true(there(directory, strangers[i]));
	g_assert_true(g_file_test(link, G_FILE_TEST_IS_SYMLINK));
	g_assert_true(g_file_test(file, G_FILE_TEST_EXISTS));
	g_assert_true(g_file_test(outside_file, G_FILE_TEST_EXISTS));
	maker_remove(directory);
	maker_remove(outside);
}

static void test_leftovers(void)
{
	static const char *const temporaries[] = {
	    ".20200101T000000.000000Z-crash.tmp",
	    ".20200101T000000.000001Z-crash.tmp",
	    ".20200101T000000.000002Z-crash.tmp",
	};
	const char *const busy[] = {"20200101T000000.000001Z-crash",
				    ".20200101T000000.000002Z-crash.tmp", NULL};
	g_autofree char *directory = maker_directory();
	RetentionConfig c = {0};
	RetentionResult result;

	for (size_t i = 0; i < ELEMENTSOF(temporaries); i++) {
		g_autofree char *path =
		    g_build_filename(directory, temporaries[i], "user-0", "index", NULL);

		g_assert_cmpint(g_mkdir_with_parents(path, 0700), ==, 0);
	}
	g_assert_cmpint(retention_apply(directory, &c, busy, &result), ==, 0);
	g_assert_false(there(directory, temporaries[0]));
	g_assert_true(there(directory, temporaries[1]));
	g_assert_true(there(directory, temporaries[2]));
	g_assert_cmpint(retention_apply(directory, &c, NULL, NULL), ==, 0);
	g_assert_false(there(directory, temporaries[1]));
	/* a directory that is not there has nothing to remove */
	g_assert_cmpint(retention_apply("/nonexistent/directory", &c, NULL, &result), ==, 0);
	maker_remove(directory);
}

/* Traces are counted like snapshots; one that is being written is neither counted, nor removed, nor swept. */
static void test_traces(void)
{
	static const char *const active[] = {
	    "20200101T000000.000000Z-trace.active",
	    "20300101T000000.000000Z-trace.active",
	    ".20200101T000000.000000Z-trace.active.tmp",
	};
	g_autofree char *parent = maker_directory();
	g_autofree char *directory = g_build_filename(parent, "session", NULL);
	RetentionConfig c = {.max_count = 2, .max_size = 100, .max_age_ns = NSEC_PER_SEC};
	RetentionResult result;
	char names[4][64];

	for (u32 i = 0; i < ELEMENTSOF(names); i++) {
		g_autofree char *path = NULL;

		(void)g_snprintf(names[i], sizeof(names[i]), "2026010%uT000000.000000Z-trace", i + 1);
		path = g_build_filename(directory, names[i], "user-0", "index", NULL);
		g_assert_cmpint(g_mkdir_with_parents(path, 0750), ==, 0);
	}
	for (size_t i = 0; i < ELEMENTSOF(active); i++) {
		g_autofree char *path = g_build_filename(directory, active[i], "user-0", NULL);

		g_assert_cmpint(g_mkdir_with_parents(path, 0750), ==, 0);
	}
	g_assert_cmpint(retention_apply(directory, &(RetentionConfig){.max_count = 3}, NULL, &result), ==, 0);
	g_assert_cmpuint(result.n_removed, ==, 1);
	g_assert_false(there(directory, names[0]));
	g_assert_true(there(directory, names[1]));
	/* the newest finished one stays, though one that is newer yet is being written */
	g_assert_cmpint(retention_apply(directory, &c, NULL, &result), ==, 0);
	g_assert_cmpuint(result.n_removed, ==, 2);
	g_assert_true(there(directory, names[3]));
	g_assert_cmpint(retention_sweep(parent), ==, 0);
	for (size_t i = 0; i < ELEMENTSOF(active); i++)
		g_assert_true(there(directory, active[i]));
	maker_remove(parent);
}

static void test_keep_free(void)
{
	g_autofree char *directory = maker_directory();
	RetentionConfig c = {0};
	RetentionResult result;
	struct statvfs v;
	char *names[4];
	u64 available;

	if (mount("tmpfs", directory, "tmpfs", 0, "size=1m,mode=0700") < 0) {
		g_test_skip("cannot mount a small tmpfs (needs root)");
		maker_remove(directory);
		return;
	}
	for (u32 i = 0; i < 4; i++)
		names[i] = snapshot_make(directory, i * 10, i, 200000);
	g_assert_cmpint(statvfs(directory, &v), ==, 0);
	available = (u64)v.f_bavail * v.f_frsize;
	c.keep_free = available + 250000; /* two must go */
	g_assert_true(retention_room(directory, &c, 100000));
	/* all four could go, and give 800 KB and their directories */
	g_assert_true(retention_room(directory, &c, 540000));
	g_assert_false(retention_room(directory, &c, 620000));
	g_assert_cmpint(retention_apply(directory, &c, NULL, &result), ==, 0);
	g_assert_cmpuint(result.n_removed, ==, 2);
	for (u32 i = 0; i < 4; i++)
		g_assert_true(there(directory, names[i]) == (i < 2));
	c = (RetentionConfig){.keep_free_percent = 70};
	g_assert_cmpint(retention_apply(directory, &c, NULL, &result), ==, 0);
	g_assert_cmpuint(result.n_removed, ==, 1);
	g_assert_true(there(directory, names[0]));
	g_assert_false(retention_room(directory, &c, 400000));
	g_assert_true(retention_room(directory, &(RetentionConfig){0}, 1ull << 50));
	for (u32 i = 0; i < 4; i++)
		g_free(names[i]);
	g_assert_cmpint(umount(directory), ==, 0);
	maker_remove(directory);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/retention/count", test_count);
	g_test_add_func("/retention/size-and-age", test_size_and_age);
	g_test_add_func("/retention/strangers", test_strangers);
	g_test_add_func("/retention/leftovers", test_leftovers);
	g_test_add_func("/retention/traces", test_traces);
	g_test_add_func("/retention/keep-free", test_keep_free);
	return g_test_run();
}
