/* SPDX-License-Identifier: MIT */
/* The control page, as a program that mapped it long ago sees it. */
#include "daemon/board.h"
#include "lib/atomic.h"

#include <fcntl.h>
#include <glib.h>
#include <glib/gstdio.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>

typedef struct {
	char *directory, *path;
	int fd;
	Cpus cpus;
	Failure warning, failure;
} Fixture;

static void fixture_up(Fixture *x, gconstpointer data)
{
	x->directory = g_dir_make_tmp("board-XXXXXX", NULL);
	x->path = g_build_filename(x->directory, "control", NULL);
	x->fd = open(x->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	g_assert_cmpint(cpus_init(&x->cpus), ==, 0);
}

static void fixture_down(Fixture *x, gconstpointer data)
{
	(void)close(x->fd);
	(void)g_remove(x->path);
	(void)g_rmdir(x->directory);
	g_free(x->path);
	g_free(x->directory);
}

static Board *open_as(Fixture *x, ClockChoice clock)
{
	Board *b = NULL;

	g_assert_cmpint(board_open(&b, x->fd, clock, &x->cpus, NULL, &x->warning, &x->failure), ==, 0);
	return b;
}

static const struct abi_control_page *map_as_program(Fixture *x)
{
	int fd = open(x->path, O_RDONLY);
	void *p = mmap(NULL, ABI_CONTROL_SIZE, PROT_READ, MAP_SHARED, fd, 0);

	g_assert_true(p != MAP_FAILED);
	(void)close(fd);
	return p;
}

static void test_create(Fixture *x, gconstpointer data)
{
	mode_t saved = umask(077);
	Board *b = open_as(x, CLOCK_MONO);
	const struct abi_control_page *p = map_as_program(x);
	struct stat st;

	(void)umask(saved);
	g_assert_cmpint(stat(x->path, &st), ==, 0);
	g_assert_cmpint(st.st_mode & 07777, ==, 0644);
	g_assert_cmpint(st.st_size, ==, ABI_CONTROL_SIZE);
	g_assert_cmpuint(p->head.magic, ==, ABI_CONTROL_MAGIC);
	g_assert_cmpuint(p->head.clock, ==, ABI_CLOCK_MONOTONIC);
	g_assert_cmpuint(p->head.generation, !=, 0);
	for (u32 i = 0; i < ABI_MAX_CPUS; i++)
		g_assert_cmpuint(p->cpu_ring[i], ==, x->cpus.ring_of[i]);
	(void)board_free(b);
}

/* The inode, the mapping, the clock and the count outlive daemons; dead sessions do not. */
static void test_outlives(Fixture *x, gconstpointer data)
{
	Board *b = open_as(x, CLOCK_MONO);
	const struct abi_control_page *p = map_as_program(x);
	u64 all[SCOPE_WORDS];
	u32 generation;
	u8 uuid[16];
	GStatBuf before, after;

	memset(all, 0xff, sizeof(all));
	g_assert_cmpuint(board_session_begin(b, 3, all), ==, p->head.slot_generation[3]);
	generation = p->head.generation;
	memcpy(uuid, p->head.clock_uuid, 16);
	g_assert_cmpuint(p->mask[1023], ==, 1 << 3);
	g_assert_cmpint(g_stat(x->path, &before), ==, 0);
	{
		/* killed: its lock goes with it, the page stays as it was */
		u8 copy[ABI_CONTROL_SIZE];
		int fd = open(x->path, O_RDWR);

		memcpy(copy, p, sizeof(copy));
		(void)board_free(b);
		g_assert_cmpint(pwrite(fd, copy, sizeof(copy), 0), ==, sizeof(copy));
		(void)close(fd);
	}
	g_assert_cmpuint(p->mask[0], ==, 1 << 3);
	b = open_as(x, CLOCK_MONO);
	g_assert_cmpint(g_stat(x->path, &after), ==, 0);
	g_assert_cmpuint(before.st_ino, ==, after.st_ino);
	g_assert_cmpuint(p->mask[0], ==, 0);
	g_assert_cmpuint(p->head.slot_generation[3], ==, 0);
	g_assert_cmpuint(p->head.generation, >, generation);
	g_assert_cmpmem(uuid, 16, p->head.clock_uuid, 16);
	(void)board_free(b);
}

static void test_slots(Fixture *x, gconstpointer data)
{
	Board *b = open_as(x, CLOCK_MONO);
	const struct abi_control_page *p = map_as_program(x);
	u64 one[SCOPE_WORDS] = { 1 }, other[SCOPE_WORDS] = { 2 };
	u32 g1, g2, generation;

	for (int i = 0; i < ABI_MAX_SLOTS; i++) {
		g_assert_cmpint(board_slot_find(b), ==, i);
		(void)board_session_begin(b, (u32)i, one);
	}
	g_assert_cmpint(board_slot_find(b), ==, -ENOSPC);
	g_assert_cmpuint(p->mask[0], ==, UINT64_MAX);
	board_session_end(b, 9);
	g_assert_cmpuint(p->mask[0], ==, UINT64_MAX & ~(1ull << 9));
	g_assert_cmpint(board_slot_find(b), ==, 9);
	g1 = board_session_begin(b, 9, one);
	/* other patterns: programs that are attached keep recording */
	generation = p->head.generation;
	board_session_change(b, 9, other);
	g_assert_cmpuint(p->head.slot_generation[9], ==, g1);
	g_assert_cmpuint(p->head.generation, !=, generation);
	g_assert_cmpuint(p->mask[0] >> 9 & 1, ==, 0);
	g_assert_cmpuint(p->mask[1], ==, 1ull << 9);
	/* as they are: nobody asks again; half of them stored by who died: they are put right */
	generation = p->head.generation;
	board_session_keep(b, 9, other);
	g_assert_cmpuint(p->head.generation, ==, generation);
	board_session_keep(b, 9, one);
	g_assert_cmpuint(p->head.generation, !=, generation);
	g_assert_cmpuint(p->mask[0] >> 9 & 1, ==, 1);
	g_assert_cmpuint(p->mask[1], ==, 0);
	g_assert_cmpuint(p->head.slot_generation[9], ==, g1);
	/* other rings: they must not */
	g2 = board_session_renew(b, 9);
	g_assert_cmpuint(g2, !=, g1);
	g_assert_cmpuint(p->head.slot_generation[9], ==, g2);
	(void)board_free(b);
	g_assert_cmpuint(p->mask[0] | p->mask[1], ==, 0);
}

static gpointer call_later(gpointer data)
{
	const u32 *wake = data;

	/* as a program does it: by a mapping that it cannot write to */
	while (!load_relaxed_u32(wake))
		;
	while (syscall(SYS_futex, wake, FUTEX_WAKE, 1, NULL, NULL, 0) == 0)
		g_thread_yield();
	return NULL;
}

static gint n_waiting;

static gpointer wait_for_progress(gpointer data)
{
	const u32 *progress = data;
	u32 was = load_acquire_u32(progress);

	(void)g_atomic_int_add(&n_waiting, 1);

	/* bounded: a waking that does not come fails the test */
	return GINT_TO_POINTER(syscall(SYS_futex, progress, FUTEX_WAIT, was, &(struct timespec){ 20, 0 }, NULL, 0) == 0 ||
			       errno == EAGAIN);
}

static void test_beacon(Fixture *x, gconstpointer data)
{
	Board *b = open_as(x, CLOCK_MONO);
	const struct abi_control_page *p = map_as_program(x);
	Beacon beacon = board_beacon(b, 5);
	GThread *t;
	gint64 begin;

	g_assert_cmpint(beacon_arm(&beacon), ==, 0);
	g_assert_cmpuint(p->head.wake[5], ==, 1);
	g_assert_cmpuint(p->head.wake[4] | p->head.wake[6], ==, 0);
	/* nobody: in pieces, and no longer than was asked for */
	begin = g_get_monotonic_time();
	g_assert_true(beacon_wait(&beacon, 20 * NSEC_PER_MSEC));
	g_assert_true(beacon_wait(&beacon, 20 * NSEC_PER_MSEC));
	g_assert_false(beacon_wait(&beacon, NSEC_PER_MSEC));
	g_assert_cmpint(g_get_monotonic_time() - begin, >=, 2000 + 4000 + 1000);
	beacon_disarm(&beacon);
	g_assert_cmpuint(p->head.wake[5], ==, 0);
	/* not armed: no sleep */
	begin = g_get_monotonic_time();
	g_assert_true(beacon_wait(&beacon, NSEC_PER_SEC));
	/* called by a program */
	beacon.patience = BEACON_WAIT_MAX;
	g_assert_cmpint(beacon_arm(&beacon), ==, 0);
	t = g_thread_new("program", call_later, (gpointer)&p->head.wake[5]);
	g_assert_true(beacon_wait(&beacon, UINT64_MAX));
	g_assert_cmpuint(beacon.patience, ==, BEACON_WAIT_MIN);
	g_thread_join(t);
	/* called from inside before it sleeps: it does not */
	beacon_call(&beacon);
	beacon.patience = BEACON_WAIT_MAX;
	g_assert_true(beacon_wait(&beacon, UINT64_MAX));
	g_assert_cmpuint(beacon.patience, ==, BEACON_WAIT_MIN);
	(void)board_free(b);
}

static void test_progress(Fixture *x, gconstpointer data)
{
	Board *b = open_as(x, CLOCK_MONO);
	const struct abi_control_page *p = map_as_program(x);
	u64 one[SCOPE_WORDS] = { 1 };

	for (u32 what = 0; what < 4; what++) {
		Beacon beacon = board_beacon(b, 7);
		u32 was = p->head.progress[7];
		GThread *t[3];

		(void)board_session_begin(b, 7, one);
		g_assert_cmpuint(p->head.progress[7], !=, was);
		was = p->head.progress[7];
		g_assert_cmpint(beacon_arm(&beacon), ==, 0);
		for (u32 i = 0; i < 3; i++)
			t[i] = g_thread_new("writer", wait_for_progress, (gpointer)&p->head.progress[7]);
		while (g_atomic_int_get(&n_waiting) < 3)
			g_thread_yield();
		g_atomic_int_set(&n_waiting, 0);
		/* asleep or not yet: each of them goes on */
		while (p->head.progress[7] == was) {
			switch (what) {
			case 0:
				beacon_progress(&beacon);
				break;
			case 1:
				(void)board_session_renew(b, 7);
				break;
			case 2:
				board_session_end(b, 7);
				break;
			default:
				/* the next daemon's first act, for those of one that was killed */
				(void)board_free(b);
				b = open_as(x, CLOCK_MONO);
			}
		}
		for (u32 i = 0; i < 3; i++)
			g_assert_true(GPOINTER_TO_INT(g_thread_join(t[i])));
		/* who sleeps for a session that is over does not sleep on */
		g_assert_cmpuint(p->head.wake[7], ==, what == 0);
		board_session_end(b, 7);
	}
	(void)board_free(b);
}

/* Numbers come around after 2^32 changes; 0 means "no session" and is left out. */
static void test_wrap(Fixture *x, gconstpointer data)
{
	Board *b = open_as(x, CLOCK_MONO);
	u64 one[SCOPE_WORDS] = { 1 };
	struct abi_control_page *p;
	int fd = open(x->path, O_RDWR);

	p = mmap(NULL, ABI_CONTROL_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	p->head.generation = UINT32_MAX;
	g_assert_cmpuint(board_session_begin(b, 0, one), ==, 1);
	(void)munmap(p, ABI_CONTROL_SIZE);
	(void)close(fd);
	(void)board_free(b);
}

static void test_two_daemons(Fixture *x, gconstpointer data)
{
	Board *b = open_as(x, CLOCK_MONO), *second = NULL;

	g_assert_cmpint(board_open(&second, x->fd, CLOCK_MONO, &x->cpus, NULL, &x->warning, &x->failure),
			==, -EBUSY);
	g_assert_null(second);
	g_assert_cmpint(x->failure.kind, ==, FAILURE_BUSY);
	(void)board_free(b);
	(void)board_free(open_as(x, CLOCK_MONO));
}

static void test_broken_files(Fixture *x, gconstpointer data)
{
	static const size_t sizes[] = { 0, 1, 63, 4096, ABI_CONTROL_SIZE - 1, ABI_CONTROL_SIZE };

	for (size_t i = 0; i < ELEMENTSOF(sizes); i++) {
		char *junk = g_malloc(ABI_CONTROL_SIZE);
		const struct abi_control_page *p;
		GStatBuf st;
		Board *b;

		memset(junk, 0xa5, ABI_CONTROL_SIZE);
		g_assert_true(g_file_set_contents(x->path, junk, (gssize)sizes[i], NULL));
		g_free(junk);
		b = open_as(x, CLOCK_MONO);
		p = map_as_program(x);
		g_assert_cmpint(g_stat(x->path, &st), ==, 0);
		g_assert_cmpint(st.st_size, ==, ABI_CONTROL_SIZE);
		g_assert_cmpuint(p->head.magic, ==, ABI_CONTROL_MAGIC);
		g_assert_cmpuint(p->head.size, ==, ABI_CONTROL_SIZE);
		for (u32 k = 0; k < ABI_BUCKETS; k++)
			g_assert_cmpuint(p->mask[k], ==, 0);
		for (u32 k = 0; k < ABI_MAX_SLOTS; k++)
			g_assert_cmpuint(p->head.slot_generation[k], ==, 0);
		(void)board_free(b);
	}
	/* what is no file is not written through */
	(void)g_remove(x->path);
	g_assert_cmpint(symlink("/dev/null", x->path), ==, 0);
	{
		Board *b = NULL;

		g_assert_cmpint(board_open(&b, x->fd, CLOCK_MONO, &x->cpus, NULL, &x->warning,
					   &x->failure),
				<, 0);
		g_assert_null(b);
	}
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
#define ADD(name, fn) g_test_add("/board/" name, Fixture, NULL, fixture_up, fn, fixture_down)
	ADD("create", test_create);
	ADD("outlives", test_outlives);
	ADD("slots", test_slots);
	ADD("beacon", test_beacon);
	ADD("progress", test_progress);
	ADD("wrap", test_wrap);
	ADD("two-daemons", test_two_daemons);
	ADD("broken-files", test_broken_files);
	return g_test_run();
}
