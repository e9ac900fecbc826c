/* SPDX-License-Identifier: MIT */
/* A snapshot appears when it is on disk: at the moment of its rename every file of it, and every directory, was synced, with the
 * size that it has. (A power cut is not to be had in a test; the order of the calls is.) */
#include <fcntl.h>
#include <ftw.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/daemon/maker.h"

static struct {
	ino_t inode;
	off_t size;
} synced[200];
static u32 n_synced, n_looked, n_renamed;

/* NOLINTBEGIN(bugprone-reserved-identifier) */
int __real_fsync(int fd);
int __wrap_fsync(int fd);
int __wrap_fsync(int fd)
{
	struct stat st;

	g_assert_cmpint(fstat(fd, &st), ==, 0);
	g_assert_cmpuint(n_synced, <, G_N_ELEMENTS(synced));
	synced[n_synced].inode = st.st_ino;
	synced[n_synced++].size = st.st_size;
	return __real_fsync(fd);
}

static int look(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	for (u32 i = n_synced; i > 0; i--)
		if (synced[i - 1].inode == st->st_ino) {
			/* of a directory the size says nothing */
			if (S_ISREG(st->st_mode) && synced[i - 1].size != st->st_size)
				g_error("%s was written to after it was synced", path);
			n_looked++;
			return 0;
		}
	g_error("%s was not synced", path);
}

int __real_renameat2(int from_fd, const char *from, int to_fd, const char *to, unsigned flags);
int __wrap_renameat2(int from_fd, const char *from, int to_fd, const char *to, unsigned flags);
int __wrap_renameat2(int from_fd, const char *from, int to_fd, const char *to, unsigned flags)
{
	g_autofree char *path = g_strdup_printf("/proc/self/fd/%d/%s", from_fd, from);

	g_assert_cmpint(nftw(path, look, 16, FTW_PHYS), ==, 0);
	n_renamed++;
	return __real_renameat2(from_fd, from, to_fd, to, flags);
}
/* NOLINTEND(bugprone-reserved-identifier) */

static void test_snapshot(void)
{
	TraceClass class = { 1, maker_class("shop", "number", 6, "n", TRACER_TYPE_U64, 0, 0, NULL) };
	g_autofree char *path = NULL;
	const u64 n = 5;
	MakerJob j;
	Maker m;

	maker_init(&m, 2, ABI_POLICY_OVERWRITE, ABI_CONTEXT_VPID | ABI_CONTEXT_VTID);
	for (u32 ring = 0; ring < 3; ring++)
		g_assert_true(maker_record(&m, ring, 1, maker_now(&m), &n, 8));
	maker_job_init(&j, &m, 1, &class, 1);
	path = maker_job_run(&j);
	g_assert_cmpuint(j.result.n_records, ==, 3);
	g_assert_cmpuint(n_renamed, ==, 1);
	/* three directories; metadata; a stream and an index for each ring */
	g_assert_cmpuint(n_looked, >=, 3 + 1 + 2 * 3);
	/* and then the directory that it appeared in */
	g_assert_cmpuint(n_synced, >, n_looked);
	maker_job_clear(&j);
	maker_clear(&m);
	free((void *)class.class);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/synced/snapshot", test_snapshot);
	return g_test_run();
}
