/* SPDX-License-Identifier: MIT */
/* Machines that are not like this one: CPUs that come online later, kernels that tell less of a death. */
#include "tests/integration/daemon/house.h"

#include "systemd/journal.h"

#include <errno.h>
#include <glib/gstdio.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define FLIGHT                                                                                     \
	"sessions: { flight: { autostart = true; events = [ \"shop:*\" ]; memory = \"1M\"; snapshot: { " \
	"on_crash = true; min_interval = \"0\"; }; }; second: { autostart = true; memory = \"1M\"; }; };"

/* ---- CPUs ---- */

static void cpus_say(House *h, const char *name, const char *list)
{
	char *path = g_build_filename(cpus_directory, name, NULL);

	g_assert_true(g_file_set_contents(path, list, -1, NULL));
	g_free(path);
}

/* A machine of eight CPUs, two of them online. */
static void machine_up(House *h, gconstpointer text)
{
	static char directory[64];

	(void)g_strlcpy(directory, "/tmp/cpus-XXXXXX", sizeof(directory));
	g_assert_nonnull(g_mkdtemp(directory));
	cpus_directory = directory;
	cpus_say(h, "possible", "0-7\n");
	cpus_say(h, "online", "0-1\n");
	house_up(h, text);
}

static void machine_down(House *h, gconstpointer unused)
{
	char *possible = g_build_filename(cpus_directory, "possible", NULL);
	char *online = g_build_filename(cpus_directory, "online", NULL);

	house_down(h, unused);
	(void)g_unlink(possible);
	(void)g_unlink(online);
	(void)g_rmdir(cpus_directory);
	g_free(possible);
	g_free(online);
}

static u16 ring_of(House *h, u32 cpu)
{
	return board_page(h->manager->ground.board)->cpu_ring[cpu];
}

static void tick(House *h)
{
	(void)manager_on_tick(h->manager->tick, 0, h->manager);
}

/* Bytes that the kernel holds for all regions. */
static u64 bytes_held(House *h)
{
	u64 n = 0;

	for (Session *s = h->manager->sessions; s; s = s->next) {
		struct stat st;

		g_assert_cmpint(fstat(s->owners->region.fd, &st), ==, 0);
		n += (u64)st.st_blocks * 512;
	}
	return n;
}

static void test_hotplug(House *h, gconstpointer unused)
{
	u64 memory, one, held;
	Program p;

	g_assert_cmpuint(ring_of(h, 0), ==, 0);
	g_assert_cmpuint(ring_of(h, 1), ==, 1);
	g_assert_cmpuint(ring_of(h, 5), ==, ABI_NO_RING);
	program_start(h, &p, 0);
	(void)program_ask(&p, "record 10");
	memory = account_total(h->manager->ground.account, CHARGE_MEMORY);
	one = geometry_ring_size(&manager_first(h->manager)->owners->region.geometry, 2);
	held = bytes_held(h);
	cpus_say(h, "online", "0-1,5\n");
	tick(h);
	/* memory in every region, charged, and only then the map */
	g_assert_cmpuint(bytes_held(h), ==, held + 2 * one);
	g_assert_cmpuint(account_total(h->manager->ground.account, CHARGE_MEMORY), ==, memory + 2 * one);
	g_assert_cmpuint(ring_of(h, 5), ==, 2);
	/* one that goes keeps its ring, and has it again when it comes back */
	cpus_say(h, "online", "0-1\n");
	tick(h);
	cpus_say(h, "online", "0-1,5\n");
	tick(h);
	g_assert_cmpuint(ring_of(h, 5), ==, 2);
	g_assert_cmpuint(h->manager->cpus->n_rings, ==, 3);
	/* more than the machine can have */
	cpus_say(h, "online", "0-20\n");
	tick(h);
	g_assert_cmpuint(h->manager->cpus->n_rings, ==, 8);
	g_assert_cmpuint(ring_of(h, 20), ==, ABI_NO_RING);
	(void)program_ask(&p, "record 10");
	g_assert_cmpuint(house_info(h, "flight").recorded, ==, 20);
	g_assert_cmpuint(trace_count(house_snapshot(h, "flight"), "shop:order"), ==, 20);
	program_end(&p);
}

/* No memory for the new rings: the CPU has none, in no session, and that is said; all else goes on. */
static void test_hotplug_poor(House *h, gconstpointer unused)
{
	Account *account = h->manager->ground.account;
	AccountLimits limits = *account_limits(account);
	int err[2], saved = dup(2);
	char text[1024];
	Program p;
	ssize_t n;

	program_start(h, &p, 0);
	(void)program_ask(&p, "record 10");
	limits.total[CHARGE_MEMORY] =
		account_total(account, CHARGE_MEMORY) +
		geometry_ring_size(&manager_first(h->manager)->owners->region.geometry, 2);
	account_set_limits(account, &limits);
	g_assert_cmpint(pipe(err), ==, 0);
	journal_set_level(LOG_WARNING);
	(void)dup2(err[1], 2);
	cpus_say(h, "online", "0-1,6\n");
	tick(h);
	(void)dup2(saved, 2);
	journal_set_level(LOG_CRIT);
	n = read(err[0], text, sizeof(text) - 1);
	g_assert_cmpint(n, >, 0);
	text[n] = 0;
	g_assert_nonnull(strstr(text, "CPU 6"));
	g_assert_cmpuint(ring_of(h, 6), ==, ABI_NO_RING);
	g_assert_cmpuint(account_total(account, CHARGE_MEMORY), <=, limits.total[CHARGE_MEMORY]);
	(void)program_ask(&p, "record 10");
	g_assert_cmpuint(house_info(h, "flight").recorded, ==, 20);
	g_assert_cmpuint(trace_count(house_snapshot(h, "flight"), "shop:order"), ==, 20);
	(void)close(saved);
	(void)close(err[0]);
	(void)close(err[1]);
	program_end(&p);
}

/* ---- kernels ---- */

#define SO_PEERPIDFD_ 77
#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (u32)offsetof(struct seccomp_data, field))
#define FAIL(error) BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (error))
#define IF(value, then, otherwise) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (u32)(value), then, otherwise)

/* From here on this process runs on a kernel that has neither SO_PEERPIDFD (6.5) nor PIDFD_GET_INFO (6.13), and without
 * `pidfd_open` is older than 5.3. */
static void kernel_age(bool pidfd_open)
{
	struct sock_filter f[] = {
		LOAD(nr),
		IF(__NR_getsockopt, 0, 3),
		LOAD(args[2]),
		IF(SO_PEERPIDFD_, 0, 6),
		FAIL(ENOPROTOOPT),
		IF(__NR_ioctl, 0, 3),
		LOAD(args[1]),
		/* of ioctls on pidfds: type 0xFF, number 11; of any size */
		BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0xffff),
		IF(0xff0b, 2, 1),
		IF(pidfd_open ? -1 : __NR_pidfd_open, 2, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		FAIL(ENOTTY),
		FAIL(ENOSYS),
	};
	struct sock_fprog program = { ELEMENTSOF(f), f };

	g_assert_cmpint(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), ==, 0);
	g_assert_cmpint(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), ==, 0);
}

static bool gone(void *userdata)
{
	House *h = userdata;

	for (Producer *p = roster_next(&h->manager->roster, NULL), *next; p; p = next) {
		next = roster_next(&h->manager->roster, p);
		(void)producer_check(p);
	}
	return manager_n_producers(h->manager) == 0;
}

/* The test's own process becomes the old machine, so each runs in one of its own. */
static void old_kernel(bool pidfd_open)
{
	House h = {};
	Program p;
	bool has;

	kernel_age(pidfd_open);
	house_up(&h, FLIGHT);
	program_start(&h, &p, 0);
	(void)program_ask(&p, "record 10");
	g_assert_cmpuint(house_info(&h, "flight").recorded, ==, 10);
	has = roster_find(&h.manager->roster, p.pid)->peer.pidfd >= 0;
	g_assert_true(has == pidfd_open);
	/* killed, and reaped at once: nothing tells how it ended, so it is no crash */
	g_assert_cmpint(kill(p.pid, SIGKILL), ==, 0);
	g_assert_cmpint(waitpid(p.pid, NULL, 0), ==, p.pid);
	house_until(&h, gone, &h);
	g_assert_cmpuint(h.n_crashes, ==, 0);
	g_assert_cmpuint(jobs_n(h.manager->jobs), ==, 0);
	/* all else works: what it recorded, its own request, the next program */
	g_assert_cmpuint(trace_count(house_snapshot(&h, "flight"), "shop:order"), ==, 10);
	program_end(&p);
	program_start(&h, &p, 0);
	(void)program_ask(&p, "record 5");
	g_assert_cmpstr(program_ask(&p, "snapshot old"), ==, "snapshot 0");
	house_await_snapshots(&h, 1);
	g_assert_cmpuint(house_info(&h, "flight").recorded, ==, 15);
	program_end(&p);
	house_down(&h, NULL);
}

static void kernel(bool pidfd_open)
{
	if (g_test_subprocess()) {
		old_kernel(pidfd_open);
		return;
	}
	g_test_trap_subprocess(NULL, 60 * G_USEC_PER_SEC, G_TEST_SUBPROCESS_INHERIT_STDERR);
	g_test_trap_assert_passed();
}

static void test_no_info(void)
{
	kernel(true);
}

static void test_no_pidfd(void)
{
	kernel(false);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	(void)signal(SIGPIPE, SIG_IGN);
	journal_set_level(g_test_verbose() ? LOG_DEBUG : LOG_CRIT);
	g_test_add("/machine/hotplug", House, FLIGHT, machine_up, test_hotplug, machine_down);
	g_test_add("/machine/hotplug-poor", House, FLIGHT, machine_up, test_hotplug_poor, machine_down);
	g_test_add_func("/machine/kernel-without-pidfd-info", test_no_info);
	g_test_add_func("/machine/kernel-without-pidfds", test_no_pidfd);
	return g_test_run();
}
