/* SPDX-License-Identifier: MIT */
#include "tests/unit/lib/ring.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

static const struct geometry small = {16, 12, 16, 12, 4, 2, ABI_POLICY_DISCARD, 1};

static u64 charged(int fd)
{
	struct stat st;

	g_assert_cmpint(fstat(fd, &st), ==, 0);
	return (u64)st.st_blocks * 512;
}

static u32 n_fds(void)
{
	DIR *d = opendir("/proc/self/fd");
	u32 n = 0;

	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

static void test_create(void)
{
	static const u32 rings[] = {0, 3};
	_cleanup_(region_close) struct region r = REGION_NULL;
	const struct abi_region *h;
	struct stat st;

	g_assert_cmpint(region_create(&r, "name", &small, 5, 77, rings, 2), ==, 0);
	g_assert_cmpint(fstat(r.fd, &st), ==, 0);
	g_assert_cmpuint((u64)st.st_size, ==, geometry_size(&small));
	g_assert_cmpuint(r.size, ==, geometry_size(&small));
	g_assert_cmpuint(r.allocated, ==, geometry_memory(&small, 2));
	g_assert_cmpuint(charged(r.fd), ==, geometry_memory(&small, 2));
	h = (const struct abi_region *)r.map;
	g_assert_cmpuint(h->magic, ==, ABI_REGION_MAGIC);
	g_assert_cmpuint(h->slot, ==, 5);
	g_assert_cmpuint(h->generation, ==, 77);
	g_assert_cmpuint(h->size, ==, r.size);
	g_assert_cmpuint(h->n_ring, ==, 4);
	g_assert_cmpuint(h->policy, ==, ABI_POLICY_DISCARD);
	/* one more CPU */
	g_assert_cmpint(region_allocate_ring(&r, 1), ==, 0);
	g_assert_cmpuint(charged(r.fd), ==, geometry_memory(&small, 3));
	g_assert_cmpint(region_allocate_ring(&r, 4), ==, -EINVAL); /* a side ring has its memory */
	g_assert_cmpint(region_allocate_ring(&r, 0xffffffff), ==, -EINVAL);
}

static void test_sealed(void)
{
	_cleanup_(region_close) struct region r = REGION_NULL;

	g_assert_cmpint(region_create(&r, "name", &small, 0, 1, NULL, 0), ==, 0);
	g_assert_cmpint(fcntl(r.fd, F_GET_SEALS) & (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), ==,
			F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
	g_assert_cmpint(ftruncate(r.fd, 4096), ==, -1);
	g_assert_cmpint(ftruncate(r.fd, (off_t)r.size * 2), ==, -1);
	g_assert_cmpint(fcntl(r.fd, F_ADD_SEALS, F_SEAL_WRITE), ==, -1);
	g_assert_cmpint(fcntl(r.fd, F_GETFD) & FD_CLOEXEC, ==, FD_CLOEXEC);
}

static void test_punch(void)
{
	static const u32 rings[] = {0, 1, 2, 3};
	_cleanup_(region_close) struct region r = REGION_NULL;
	_cleanup_(region_close) struct region none = REGION_NULL;

	g_assert_cmpint(region_create(&r, "name", &small, 0, 1, rings, 4), ==, 0);
	r.map[r.size - 1] = 1;
	region_punch(&r);
	g_assert_cmpuint(charged(r.fd), ==, 0);
	g_assert_cmpuint(r.allocated, ==, 0);
	g_assert_cmpuint(r.map[r.size - 1], ==, 0);
	region_punch(&none);
}

/* no memory, wrong arguments: an error, and nothing left behind */
static void test_refused(void)
{
	static const u32 outside[] = {0, 4};
	struct region r = REGION_NULL;
	struct geometry broken = small;
	u32 before = n_fds();

	broken.sub_shift = 3;
	g_assert_cmpint(region_create(&r, "name", &broken, 0, 1, NULL, 0), ==, -EBADMSG);
	g_assert_cmpint(region_create(&r, "name", &small, 0, 1, outside, 2), ==, -EINVAL);
	g_assert_cmpint(r.fd, ==, -1);
	g_assert_null(r.map);
	g_assert_cmpuint(n_fds(), ==, before);
}

static void test_no_memory(void)
{
	static const u32 rings[] = {0};

	if (g_test_subprocess()) {
		struct rlimit limit = {1 << 18, 1 << 18};
		struct region r = REGION_NULL;
		u32 before;

		signal(SIGXFSZ, SIG_IGN);
		g_assert_cmpint(setrlimit(RLIMIT_FSIZE, &limit), ==, 0);
		before = n_fds();
		g_assert_cmpint(region_create(&r, "name", &small, 0, 1, rings, 1), <, 0);
		g_assert_cmpint(r.fd, ==, -1);
		g_assert_cmpuint(n_fds(), ==, before);
		return;
	}
	g_test_trap_subprocess(NULL, 0, 0);
	g_test_trap_assert_passed();
}

static void test_long_name(void)
{
	_cleanup_(region_close) struct region r = REGION_NULL;
	char name[1000];

	memset(name, 'x', sizeof(name) - 1);
	name[sizeof(name) - 1] = 0;
	g_assert_cmpint(region_create(&r, name, &small, 0, 1, NULL, 0), ==, 0);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/region/create", test_create);
	g_test_add_func("/region/sealed", test_sealed);
	g_test_add_func("/region/punch", test_punch);
	g_test_add_func("/region/refused", test_refused);
	g_test_add_func("/region/no-memory", test_no_memory);
	g_test_add_func("/region/long-name", test_long_name);
	return g_test_run();
}
