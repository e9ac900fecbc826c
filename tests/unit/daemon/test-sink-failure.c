/* SPDX-License-Identifier: MIT */
/* Every strategy on disks that are full, fail, or answer by halves. */
#include "tests/unit/daemon/sinks.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "daemon/removal.h"
#include "daemon/sink/fault.h"

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

/* ---- a full disk ---- */

#define SMALL (24ull << 20)

static char *ballast_make(const char *directory, u64 size)
{
	char *path = g_build_filename(directory, "ballast", NULL);
	_cleanup_close_ int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	g_assert_cmpint(posix_fallocate(fd, 0, (off_t)size), ==, 0);
	return path;
}

/* Offers packets until one is refused or cannot be written: the error. */
static int fill_up(SinksFile *f, u64 most)
{
	int r = 0;

	for (int i = 0; i < 100000 && r == 0; i++) {
		r = sinks_offer(f, sinks_size_by_chance(most));
		if (r == 0 && i % 16 == 0)
			r = sink_flush(f->sink);
	}
	return r;
}

static void full(const SinksCase *c, const char *type)
{
	char *directory = sinks_mount(type, SMALL);
	u32 n_descriptors = sinks_n_descriptors();
	g_autofree char *ballast = NULL;
	SinksFile f;
	SinkSet *set;

	if (!directory)
		return;
	set = set_of(c);
	ballast = ballast_make(directory, 12u << 20);
	sinks_open(&f, set, directory, "a");
	g_assert_cmpint(fill_up(&f, 400000), ==, -ENOSPC);
	sinks_check_whole(&f);
	/* the last of it goes to small packets, until there is nothing */
	for (int i = 0; i < 20; i++)
		if (fill_up(&f, 3000) == -ENOSPC)
			break;
	sinks_check_whole(&f);
	/* it is no error to be asked again */
	g_assert_cmpint(sinks_offer(&f, 400000), ==, -ENOSPC);
	sinks_check_whole(&f);
	g_assert_cmpuint(f.bytes->len, >, 4u << 20);
	/* then there is space, and all goes on */
	g_assert_cmpint(unlink(ballast), ==, 0);
	sinks_flush(&f);
	for (int i = 0; i < 30; i++)
		g_assert_cmpint(sinks_offer(&f, sinks_size_by_chance(100000)), ==, 0);
	sinks_flush(&f);
	g_assert_cmpint(sinks_offer(&f, 400000), ==, 0);
	sinks_finish(&f);

	/* and once more to the end, and given up there */
	sinks_open(&f, set, directory, "b");
	g_assert_cmpint(fill_up(&f, 400000), ==, -ENOSPC);
	sinks_abandon(&f);
	sink_set_free(set);
	sinks_faults_off();
	g_assert_cmpuint(sinks_n_descriptors(), ==, n_descriptors);
	sinks_unmount(directory);
}

static void test_full_ext4(const void *data)
{
	full(data, "ext4");
}

static void test_full_tmpfs(const void *data)
{
	full(data, "tmpfs");
}

/* A file may not become longer: the same as a full disk, and not the end of the process. */
static void test_limit(const void *data)
{
	char *directory = sinks_disk();
	struct rlimit old, limit;
	SinksFile f;
	SinkSet *set;

	if (!directory)
		return;
	set = set_of(data);
	sinks_open(&f, set, directory, "a");
	g_assert_cmpint(getrlimit(RLIMIT_FSIZE, &old), ==, 0);
	limit = old;
	limit.rlim_cur = 2u << 20;
	g_assert_cmpint(setrlimit(RLIMIT_FSIZE, &limit), ==, 0);
	g_assert_cmpint(fill_up(&f, 400000), ==, -EFBIG);
	sinks_check_whole(&f);
	g_assert_cmpuint(sinks_file_size(&f), <=, 2u << 20);
	g_assert_cmpint(setrlimit(RLIMIT_FSIZE, &old), ==, 0);
	sinks_flush(&f);
	g_assert_cmpint(sinks_offer(&f, 400000), ==, 0);
	sinks_finish(&f);
	sink_set_free(set);
	gone(directory);
}

/* ---- faults by chance ---- */

static void test_faults(const void *data)
{
	const SinksCase *c = data;
	char *directory = sinks_disk();
	u32 n_descriptors = sinks_n_descriptors(), n_failed = 0;
	u64 n_hit = 0;
	SinksFile files[2];
	SinkSet *set;

	if (!directory)
		return;
	set = set_of(c);
	for (size_t i = 0; i < 2; i++)
		sinks_open(&files[i], set, directory, i ? "b" : "a");
	for (int i = 0; i < 600; i++) {
		SinksFile *f = &files[g_test_rand_int_range(0, 2)];
		int r;

		/* what a mapping meets are pages that are not there; so large that one of them is met for certain */
		if (c->io == IO_MMAP && g_test_rand_int_range(0, 8) == 0) {
			sinks_faults_off();
			sinks_faults.shorter[CALL_CUT] = 256;
			g_assert_cmpint(sinks_offer(f, 10000), ==, -EIO);
			n_failed++;
			sinks_faults_off();
			sinks_check_whole(f);
		}
		sinks_faults = (SinksFaults){
			.only_fd = -1,
			.refuse_room = c->no_room,
			.errnos = {EIO, ENOSPC, EDQUOT},
			.error = {80, 40, 40, [CALL_WAIT] = 20, [CALL_QUEUE] = 40, [CALL_REAP] = 80},
			.interrupted = {60, 60, 60, 60, [CALL_WAIT] = 20, [CALL_REAP] = 40},
			.shorter = {80, 80, [CALL_REAP] = 60},
		};
		r = g_test_rand_int_range(0, 8) ? sinks_offer(f, sinks_size_by_chance(50000)) : sink_flush(f->sink);
		for (size_t k = 0; k < N_CALLS; k++)
			n_hit += sinks_faults.n_hit[k];
		g_assert_true(r == 0 || r == -EIO || r == -ENOSPC || r == -EDQUOT);
		if (r == 0)
			continue;
		n_failed++;
		sinks_check_whole(f);
		if (g_test_rand_int_range(0, 4) == 0) {
			sinks_faults_off();
			sinks_faults.refuse_room = c->no_room;
			/* what the disk said late is said once; then all is well */
			(void)sink_flush(f->sink);
			sinks_flush(f);
		}
	}
	g_test_message("%" G_GUINT64_FORMAT " faults, %u failures", n_hit, n_failed);
	g_assert_cmpuint(n_hit, >, c->io == IO_MMAP ? 5 : 100);
	g_assert_cmpuint(n_failed, >, 0);
	sinks_faults_off();
	sinks_faults.refuse_room = c->no_room;
	for (size_t i = 0; i < 2; i++) {
		(void)sink_flush(files[i].sink);
		sinks_finish(&files[i]);
	}
	sink_set_free(set);
	gone(directory);
	g_assert_cmpuint(sinks_n_descriptors(), ==, n_descriptors);
}

/* Half a packet is there, and cannot even be cut off: it is when there is a chance. */
static void test_torn(const void *data)
{
	const SinksCase *c = data;
	char *directory = sinks_disk();
	SinksFile f;
	SinkSet *set;

	if (!directory)
		return;
	set = set_of(c);
	sinks_open(&f, set, directory, "a");
	for (int i = 0; i < 300; i++) {
		sinks_faults = (SinksFaults){
			.only_fd = -1,
			.refuse_room = c->no_room,
			.errnos = {EIO},
			.error = {60, 60, 10, [CALL_CUT] = 128, [CALL_QUEUE] = 128, [CALL_REAP] = 80},
			.shorter = {120, 120, [CALL_REAP] = 60},
		};
		(void)sinks_offer(&f, sinks_size_by_chance(200000));
	}
	sinks_faults.error[CALL_CUT] = 256;
	(void)sinks_offer(&f, 100000);
	sinks_faults_off();
	sinks_faults.refuse_room = c->no_room;
	sinks_flush(&f);
	sinks_finish(&f);
	sink_set_free(set);
	gone(directory);
}

/* A disk that never writes again: what is kept stays kept, is bounded, and is counted when it is given up. */
static void test_dead(const void *data)
{
	const SinksCase *c = data;
	char *directory = sinks_disk();
	SinksFile f;
	SinkSet *set;
	int fd = -1;

	if (!directory)
		return;
	set = set_of(c);
	sinks_open(&f, set, directory, "a");
	for (int i = 0; i < 50; i++)
		g_assert_cmpint(sinks_offer(&f, sinks_size_by_chance(200000)), ==, 0);
	sinks_flush(&f);
	sinks_faults.errnos[0] = EIO;
	sinks_faults.error[CALL_WRITE] = sinks_faults.error[CALL_SPLICE] = sinks_faults.error[CALL_ALLOCATE] =
		sinks_faults.error[CALL_QUEUE] = 256;
	g_assert_cmpint(fill_up(&f, 400000), ==, -EIO);
	for (int i = 0; i < 20; i++)
		g_assert_cmpint(fill_up(&f, 400000), ==, -EIO);
	sinks_check_whole(&f);
	if (c->io == IO_DIRECT) {
		g_assert_cmpint(sink_finish(f.sink, &fd), ==, -EIO);
		g_assert_cmpint(fd, ==, -1);
	}
	sinks_abandon(&f);
	sink_set_free(set);
	gone(directory);
}

/* One file fails, for a time: the others of its set do not feel it. */
static void test_neighbour(const void *data)
{
	char *directory = sinks_disk();
	SinksFile good, bad;
	SinkSet *set;
	int r = 0;

	if (!directory)
		return;
	set = set_of(data);
	sinks_open(&bad, set, directory, "bad");
	sinks_faults.only_fd = sinks_descriptor(&bad);
	sinks_faults.errnos[0] = EIO;
	sinks_faults.error[CALL_WRITE] = sinks_faults.error[CALL_SPLICE] = sinks_faults.error[CALL_ALLOCATE] =
		sinks_faults.error[CALL_QUEUE] = 256;
	sinks_open(&good, set, directory, "good");
	for (int i = 0; i < 60; i++) {
		r = sinks_offer(&bad, sinks_size_by_chance(1u << 20));
		g_assert_true(r == 0 || r == -EIO);
		g_assert_cmpint(sinks_offer(&good, sinks_size_by_chance(1u << 20)), ==, 0);
		if (i % 10 == 0)
			sinks_flush(&good);
	}
	g_assert_cmpint(r, ==, -EIO);
	sinks_check_whole(&bad);
	sinks_faults.only_fd = -1;
	memset(sinks_faults.error, 0, sizeof(sinks_faults.error));
	sinks_flush(&bad);
	g_assert_cmpint(sinks_offer(&bad, 100000), ==, 0);
	sinks_finish(&bad);
	sinks_finish(&good);
	sink_set_free(set);
	gone(directory);
}

/* ---- the disk says it late ---- */

static void test_late(const void *data)
{
	char *directory = sinks_disk();
	SinksFile f;
	SinkSet *set;

	if (!directory)
		return;
	set = set_of(data);
	sinks_open(&f, set, directory, "a");
	sinks_faults.errnos[0] = EIO;
	sinks_faults.error[CALL_WAIT] = 256;
	for (int i = 0; i < 20; i++)
		g_assert_cmpint(sinks_offer(&f, 1u << 20), ==, 0);
	g_assert_cmpuint(sinks_faults.n_hit[CALL_WAIT], >, 0);
	sinks_faults_off();
	g_assert_cmpint(sink_flush(f.sink), ==, -EIO);
	sinks_flush(&f);
	sinks_finish(&f);
	sink_set_free(set);
	gone(directory);
}

/* ---- SIGBUS ---- */

static void test_sigbus(void)
{
	static const SinksCase c = {"mmap", IO_MMAP};
	char *directory = sinks_disk();
	SinksFile f;
	SinkSet *set;

	if (!directory)
		return;
	set = set_of(&c);
	sinks_open(&f, set, directory, "a");
	for (int i = 0; i < 20; i++) {
		g_assert_cmpint(sinks_offer(&f, sinks_size_by_chance(200000)), ==, 0);
		/* somebody cuts the file under the mapping */
		sinks_faults.shorter[CALL_CUT] = 256;
		g_assert_cmpint(sinks_offer(&f, 200000), ==, -EIO);
		sinks_faults_off();
		g_assert_cmpuint(sinks_file_size(&f), ==, sink_size(f.sink));
		/* what was refused may be offered again */
		g_assert_cmpint(sinks_offer(&f, 200000), ==, 0);
		sinks_check_whole(&f);
	}
	sinks_finish(&f);
	sink_set_free(set);
	gone(directory);
}

static u8 *hole_make(void)
{
	int fd = memfd_create("hole", MFD_CLOEXEC);
	u8 *map = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	g_assert_true(map != MAP_FAILED);
	close_fd(fd);
	return map;
}

static void on_other(int sig)
{
	_exit(7);
}

static int child_run(void (*run)(void))
{
	pid_t pid = fork();
	int status = 0;

	g_assert_cmpint(pid, >=, 0);
	if (pid == 0) {
		run();
		_exit(0);
	}
	g_assert_cmpint(waitpid(pid, &status, 0), ==, pid);
	return status;
}

static void child_default(void)
{
	(void)signal(SIGBUS, SIG_DFL);
	g_assert_cmpint(fault_install(), ==, 0);
	(void)*(volatile u8 *)hole_make();
}

static void child_sent(void)
{
	(void)signal(SIGBUS, SIG_DFL);
	g_assert_cmpint(fault_install(), ==, 0);
	(void)raise(SIGBUS);
}

static void child_ignored(void)
{
	(void)signal(SIGBUS, SIG_IGN);
	g_assert_cmpint(fault_install(), ==, 0);
	(void)raise(SIGBUS);
}

static void child_other(void)
{
	(void)signal(SIGBUS, on_other);
	g_assert_cmpint(fault_install(), ==, 0);
	(void)*(volatile u8 *)hole_make();
}

static void child_ours(void)
{
	u8 bytes[64], *hole = hole_make();

	(void)signal(SIGBUS, on_other);
	if (fault_install() != 0)
		_exit(1);
	for (int i = 0; i < 3; i++)
		if (fault_copy(bytes, hole, sizeof(bytes)) != -EIO || fault_copy(hole, bytes, sizeof(bytes)) != -EIO ||
		    fault_copy(hole, NULL, 1) != -EIO || fault_copy(bytes, bytes + 32, 32) != 0)
			_exit(2);
	/* outside it is the other's again */
	(void)*(volatile u8 *)hole;
}

/* What is not of a copy goes where it went before. First of all tests: the handler is installed once per process. */
static void test_chain(void)
{
	int status = child_run(child_default);

	g_assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS);
	status = child_run(child_sent);
	g_assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS);
	status = child_run(child_ignored);
	g_assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	status = child_run(child_other);
	g_assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 7);
	status = child_run(child_ours);
	g_assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 7);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/sink-failure/sigbus/chain", test_chain);
	g_test_add_func("/sink-failure/sigbus/mmap", test_sigbus);
	for (size_t i = 0; i < sinks_n_cases; i++) {
		const SinksCase *c = &sinks_cases[i];
		bool direct = c->io == IO_DIRECT;
		const struct {
			const char *name;
			GTestDataFunc run;
			bool not;
		} tests[] = {
			{"full/ext4", test_full_ext4},
			{"full/tmpfs", test_full_tmpfs, direct},
			{"limit", test_limit},
			{"faults", test_faults},
			{"torn", test_torn},
			{"dead", test_dead},
			{"neighbour", test_neighbour},
			{"late", test_late, direct},
		};

		for (size_t k = 0; k < G_N_ELEMENTS(tests); k++) {
			g_autofree char *path = g_strdup_printf("/sink-failure/%s/%s", c->name, tests[k].name);

			if (!tests[k].not)
				g_test_add_data_func(path, c, tests[k].run);
		}
	}
	return g_test_run();
}
