/* SPDX-License-Identifier: MIT */
/* Attaching and detaching, one step at a time; tests/stress/ring.c does it under threads that
 * record. */
#include "tests/unit/lib/ring.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

static const struct geometry small = {16, 12, 16, 12, 2, 1, ABI_POLICY_OVERWRITE, 0};
static u16 cpu_ring[ABI_MAX_CPUS];

static struct region make(const struct geometry *g)
{
	static const u32 rings[] = {0, 1};
	struct region r;

	g_assert_cmpint(region_create(&r, "slot-test", g, 0, 1, rings, 2), ==, 0);
	return r;
}

static bool mapped(void)
{
	FILE *f = fopen("/proc/self/maps", "re");
	char line[400];
	bool found = false;

	while (fgets(line, sizeof(line), f))
		found = found || strstr(line, "tracer:slot-test");
	(void)fclose(f);
	return found;
}

static void test_attach(void)
{
	_cleanup_(region_close) struct region r = make(&small);
	static const u16 ids[3] = {1, 2, 3};
	struct slot s = {0};
	u8 *map;

	g_assert_cmpint(slot_attach(&s, r.fd, &small, 7, cpu_ring, ids, 3), ==, 0);
	g_assert_cmpuint(s.generation, ==, 7);
	g_assert_cmpuint(s.data, ==, geometry_data(&small));
	g_assert_cmpuint(s.ring_mask, ==, 0xffff);
	g_assert_cmpuint(s.sub_mask, ==, 0xfff);
	g_assert_true(s.ids == ids && s.n_ids == 3);
	map = s.map;
	r.map[5000] = 99;
	g_assert_cmpuint(map[5000], ==, 99);
	/* twice is refused */
	g_assert_cmpint(slot_attach(&s, r.fd, &small, 8, cpu_ring, ids, 3), ==, -EBUSY);
	slot_detach(&s);
	g_assert_cmpuint(s.generation, ==, 0);
	g_assert_cmpuint(s.retired, ==, 0);
	/* covered: readable, writable, and nobody else's */
	g_assert_cmpuint(map[5000], ==, 0);
	map[5000] = 1;
	g_assert_cmpuint(r.map[5000], ==, 99);
	slot_detach(&s);
	/* the same addresses for the next */
	g_assert_cmpint(slot_attach(&s, r.fd, &small, 9, cpu_ring, ids, 3), ==, 0);
	g_assert_true(s.map == map);
	g_assert_cmpuint(map[5000], ==, 99);
	slot_detach(&s);
}

static void test_attach_larger(void)
{
	struct geometry large = small;
	_cleanup_(region_close) struct region a = make(&small), b = REGION_NULL;
	struct slot s = {0};
	u8 *before;

	large.ring_shift = 20;
	large.sub_shift = 16;
	b = make(&large);
	g_assert_cmpint(slot_attach(&s, a.fd, &small, 1, cpu_ring, NULL, 0), ==, 0);
	before = s.map;
	slot_detach(&s);
	g_assert_cmpint(slot_attach(&s, b.fd, &large, 2, cpu_ring, NULL, 0), ==, 0);
	before[100] = 1; /* the old range stays: somebody may be in a fault on it */
	s.map[geometry_size(&large) - 1] = 5;
	g_assert_cmpuint(b.map[geometry_size(&large) - 1], ==, 5);
	slot_detach(&s);
	before = s.range;
	g_assert_cmpint(slot_attach(&s, a.fd, &small, 3, cpu_ring, NULL, 0), ==, 0);
	g_assert_true(s.map == before);
	slot_detach(&s);
}

static void test_refused(void)
{
	_cleanup_(region_close) struct region r = make(&small);
	struct geometry other = small;
	struct slot s = {0};
	int fd;

	g_assert_cmpint(slot_attach(&s, r.fd, &small, 0, cpu_ring, NULL, 0), ==, -EINVAL);
	g_assert_cmpint(slot_attach(&s, -1, &small, 1, cpu_ring, NULL, 0), ==, -EBADF);
	other.side_shift = 17;
	g_assert_cmpint(slot_attach(&s, r.fd, &other, 1, cpu_ring, NULL, 0), ==, -EBADMSG);
	other = small;
	other.sub_shift = 2;
	g_assert_cmpint(slot_attach(&s, r.fd, &other, 1, cpu_ring, NULL, 0), ==, -EBADMSG);
	/* right size, no seal: it could be shortened under us */
	fd = memfd_create("unsealed", MFD_ALLOW_SEALING);
	g_assert_cmpint(ftruncate(fd, (off_t)geometry_size(&small)), ==, 0);
	g_assert_cmpint(slot_attach(&s, fd, &small, 1, cpu_ring, NULL, 0), ==, -EBADMSG);
	g_assert_cmpint(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), ==, 0);
	g_assert_cmpint(slot_attach(&s, fd, &small, 1, cpu_ring, NULL, 0), ==, 0);
	slot_detach(&s);
	g_assert_cmpint(ftruncate(fd, (off_t)geometry_size(&small) + 4096), ==, 0);
	g_assert_cmpint(slot_attach(&s, fd, &small, 1, cpu_ring, NULL, 0), ==, -EBADMSG);
	(void)close(fd);
	/* a pipe has no seals at all */
	{
		int p[2];

		g_assert_cmpint(pipe(p), ==, 0);
		g_assert_cmpint(slot_attach(&s, p[0], &small, 1, cpu_ring, NULL, 0), <, 0);
		(void)close(p[0]);
		(void)close(p[1]);
	}
	g_assert_cmpuint(s.generation, ==, 0);
	g_assert_cmpuint(s.retired, ==, 0);
}

/* a forked child has no ring mapped */
static void test_fork(void)
{
	_cleanup_(region_close) struct region r = make(&small);
	struct slot s = {0};
	pid_t child;
	int status;

	(void)munmap(r.map, r.size);
	r.map = NULL;
	g_assert_cmpint(slot_attach(&s, r.fd, &small, 1, cpu_ring, NULL, 0), ==, 0);
	g_assert_true(mapped());
	child = fork();
	if (!child)
		_exit(mapped());
	g_assert_cmpint(waitpid(child, &status, 0), ==, child);
	g_assert_cmpint(status, ==, 0);
	slot_detach(&s);
	g_assert_false(mapped());
}

struct user {
	struct slot *slot;
	int go[2];
	int in[2];
};
static void *use(void *arg)
{
	struct user *u = arg;
	sigset_t signals;
	char byte = 0;

	g_assert_true(slot_enter(u->slot, 1, &signals));
	g_assert_cmpint(write(u->in[1], &byte, 1), ==, 1);
	g_assert_cmpint(read(u->go[0], &byte, 1), ==, 1);
	slot_leave(u->slot, &signals);
	return NULL;
}
static void *detach(void *arg)
{
	slot_detach(arg);
	return NULL;
}

/* A user keeps the mapping: the detach waits for it; one that never leaves, and the slot is retired
 * with its mapping in place. */
static void test_users(gconstpointer data)
{
	bool leaves = GPOINTER_TO_UINT(data);
	_cleanup_(region_close) struct region r = make(&small);
	struct slot s = {0};
	struct user u = {.slot = &s};
	pthread_t user, detacher;
	sigset_t signals;
	char byte = 0;

	g_assert_cmpint(pipe(u.go), ==, 0);
	g_assert_cmpint(pipe(u.in), ==, 0);
	g_assert_cmpint(slot_attach(&s, r.fd, &small, 1, cpu_ring, NULL, 0), ==, 0);
	g_assert_cmpint(pthread_create(&user, NULL, use, &u), ==, 0);
	g_assert_cmpint(read(u.in[0], &byte, 1), ==, 1);
	g_assert_cmpuint(s.users, ==, 1);
	g_assert_cmpint(pthread_create(&detacher, NULL, detach, &s), ==, 0);
	if (!leaves)
		g_assert_cmpint(pthread_join(detacher, NULL), ==, 0);
	s.map[6000] = 77;
	g_assert_cmpuint(r.map[6000], ==, 77); /* still the ring */
	g_assert_cmpint(write(u.go[1], &byte, 1), ==, 1);
	g_assert_cmpint(pthread_join(user, NULL), ==, 0);
	if (leaves)
		g_assert_cmpint(pthread_join(detacher, NULL), ==, 0);
	g_assert_false(slot_enter(&s, 1, &signals));
	g_assert_cmpuint(s.users, ==, 0);
	g_assert_cmpuint(s.retired, ==, !leaves);
	g_assert_cmpuint(s.map[6000], ==, leaves ? 0 : 77);
	if (!leaves)
		g_assert_cmpint(slot_attach(&s, r.fd, &small, 2, cpu_ring, NULL, 0), ==, -EBUSY);
	for (u32 i = 0; i < 2; i++) {
		(void)close(u.go[i]);
		(void)close(u.in[i]);
	}
}

/* A deadline that is over: looked at once, and not waited for. */
static void test_deadline(void)
{
	_cleanup_(region_close) struct region r = make(&small);
	struct slot s = { 0 };
	gint64 before;

	g_assert_cmpint(slot_attach(&s, r.fd, &small, 1, cpu_ring, NULL, 0), ==, 0);
	s.users = 1;
	before = g_get_monotonic_time();
	slot_detach_until(&s, (u64)before * NSEC_PER_USEC + 3 * NSEC_PER_MSEC);
	g_assert_cmpint(g_get_monotonic_time() - before, >=, 3000);
	/* far from the 100 ms that it may take alone, also on a busy machine */
	g_assert_cmpint(g_get_monotonic_time() - before, <, 90000);
	g_assert_cmpuint(s.retired, ==, 1);
}

/* In a program that locks all that it maps, neither the rings of absent CPUs nor a cover come into being. */
static void lock_all(void)
{
	struct geometry wide = small;
	static const u32 rings[] = { 0 };
	struct region r = REGION_NULL;
	struct slot s = { 0 };
	unsigned char *resident;
	struct stat before, after;
	size_t pages;

	wide.n_ring = 64;
	wide.ring_shift = 18;
	g_assert_cmpint(region_create(&r, "slot-test", &wide, 0, 1, rings, 1), ==, 0);
	g_assert_no_errno(mlockall(MCL_FUTURE));
	g_assert_no_errno(fstat(r.fd, &before));
	g_assert_cmpint(slot_attach(&s, r.fd, &wide, 1, cpu_ring, NULL, 0), ==, 0);
	g_assert_no_errno(fstat(r.fd, &after));
	g_assert_cmpint(after.st_blocks, ==, before.st_blocks);
	s.map[5000] = 7;
	g_assert_cmpint(r.map[5000], ==, 7);
	slot_detach(&s);
	s.map[5000] = 1;
	pages = s.range_size / ABI_PAGE;
	g_assert_cmpuint(s.retired, ==, 0);
	g_assert_no_errno(munlockall());
	resident = g_malloc(pages);
	g_assert_no_errno(mincore(s.range, s.range_size, resident));
	for (size_t i = 0; i < pages; i++)
		g_assert_cmpint(resident[i] & 1, ==, i == 1);
	g_free(resident);
	region_close(&r);
}

static void test_locked(void)
{
	if (g_test_subprocess()) {
		lock_all();
		return;
	}
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	return g_test_skip("a sanitizer's shadow would be locked as well");
#endif
	if (geteuid() != 0)
		return g_test_skip("locking memory needs root");
	g_test_trap_subprocess(NULL, 0, 0);
	g_test_trap_assert_passed();
}

static void test_enter_signals(void)
{
	_cleanup_(region_close) struct region r = make(&small);
	struct slot s = {0};
	sigset_t before, saved, now;

	g_assert_cmpint(slot_attach(&s, r.fd, &small, 1, cpu_ring, NULL, 0), ==, 0);
	sigemptyset(&before);
	sigaddset(&before, SIGUSR2);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	g_assert_true(slot_enter(&s, 1, &saved));
	pthread_sigmask(SIG_BLOCK, NULL, &now);
	g_assert_true(sigismember(&now, SIGUSR1) && sigismember(&now, SIGSEGV));
	slot_leave(&s, &saved);
	pthread_sigmask(SIG_BLOCK, NULL, &now);
	g_assert_true(!sigismember(&now, SIGUSR1) && sigismember(&now, SIGUSR2));
	g_assert_false(slot_enter(&s, 2, &saved));
	g_assert_false(slot_enter(&s, 0, &saved));
	pthread_sigmask(SIG_BLOCK, NULL, &now);
	g_assert_true(!sigismember(&now, SIGUSR1) && sigismember(&now, SIGUSR2));
	slot_detach(&s);
	g_assert_false(slot_enter(&s, 0, &saved));
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_assert_cmpint(slot_register(), ==, 0);
	g_test_add_func("/slot/attach", test_attach);
	g_test_add_func("/slot/attach-larger", test_attach_larger);
	g_test_add_func("/slot/refused", test_refused);
	g_test_add_func("/slot/fork", test_fork);
	g_test_add_data_func("/slot/users/leave", GUINT_TO_POINTER(1), test_users);
	g_test_add_data_func("/slot/users/stay", GUINT_TO_POINTER(0), test_users);
	g_test_add_func("/slot/deadline", test_deadline);
	g_test_add_func("/slot/locked", test_locked);
	g_test_add_func("/slot/signals", test_enter_signals);
	return g_test_run();
}
