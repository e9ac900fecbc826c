/* SPDX-License-Identifier: MIT */
/* Programs under the policy block, with readers that are slow, stopped, dead, or gone. */
#include "subject.h"

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define ALL	((uid_t)-1)
#define LONG	60000000 /* a timeout that no test waits for */
#define RECORDS 100000	 /* several times what the rings hold */
#define RECORD	24	 /* bytes of one */
#define TRIES	20

static Fake *fake_block(u32 timeout_us)
{
	Fake *f = fake_new();

	fake_note_late(f);
	fake_memory(f, 1 << 20);
	fake_policy(f, ABI_POLICY_BLOCK, timeout_us);
	fake_start(f, 2, "subject:*", ALL);
	return f;
}

static bool has_ended(const Subject *s)
{
	siginfo_t i = { 0 };

	g_assert_no_errno(waitid(P_PID, (id_t)s->pid, &i, WEXITED | WNOHANG | WNOWAIT));
	return i.si_pid != 0;
}

static bool in_futex(pid_t pid, const char *task)
{
	g_autofree char *path = g_strdup_printf("/proc/%d/task/%s/syscall", pid, task), *text = NULL;

	return g_file_get_contents(path, &text, NULL, NULL) && g_ascii_isdigit(text[0]) &&
	       strtol(text, NULL, 10) == SYS_futex;
}

/* So many threads, and all of them sleep in a futex. */
static bool all_wait(pid_t pid, u32 n)
{
	g_autofree char *path = g_strdup_printf("/proc/%d/task", pid);
	g_autoptr(GDir) d = g_dir_open(path, 0, NULL);
	const char *task;

	while (d && (task = g_dir_read_name(d))) {
		if (!in_futex(pid, task))
			return false;
		n--;
	}
	return n == 0;
}

/* Until the program's n threads wait: there is nothing but room, and each other's end, that they could wait for, and on one
 * CPU they go on only by what we do. Or until it has ended, since it was not answered in time, or did not wait for long. */
static void until_it_waits(const Subject *s, u32 n)
{
	while (!has_ended(s) && !all_wait(s->pid, n))
		g_usleep(1000);
}

/* On the CPU that we are on: so that it has one ring, and waits when that is full. */
static void stay_here(cpu_set_t *before)
{
	cpu_set_t here;

	g_assert_no_errno(sched_getaffinity(0, sizeof(*before), before));
	CPU_ZERO(&here);
	CPU_SET(sched_getcpu(), &here);
	g_assert_no_errno(sched_setaffinity(0, sizeof(here), &here));
}

static void go_anywhere(const cpu_set_t *before)
{
	g_assert_no_errno(sched_setaffinity(0, sizeof(*before), before));
}

/* The verdict on a program that was answered too late is none; the test is run again. */
static bool unjudged(Fake *f)
{
	g_test_message("a program was not answered in time");
	fake_free(f);
	return false;
}

/* ---- each is true when it has found what it should, and false when the machine did not let it ---- */

/* A reader that takes a sub-buffer every now and then: the program takes its time, and nothing is lost. */
static bool slow_reader(void)
{
	Fake *f = fake_block(LONG);
	Subject s = subject_start(fake_directory(f), "emit", G_STRINGIFY(RECORDS), NULL);

	until_it_waits(&s, 1);
	while (!has_ended(&s)) {
		g_usleep(2000);
		(void)fake_consume(f, 2);
	}
	g_free(subject_end(&s, 0));
	if (fake_was_late(f))
		return unjudged(f);
	g_assert_cmpuint(fake_count(f, 2), ==, RECORDS);
	g_assert_cmpuint(fake_lost(f, 2, ABI_LOST_FULL), ==, 0);
	fake_free(f);
	return true;
}

/* The same by side rings alone, where sequences cannot be had. */
static bool slow_reader_side(void)
{
	bool judged;

	g_setenv("GLIBC_TUNABLES", "glibc.pthread.rseq=0", TRUE);
	judged = slow_reader();
	g_unsetenv("GLIBC_TUNABLES");
	return judged;
}

/* The daemon is gone: one timeout, however many records there are, and each is counted. */
static bool dead(void)
{
	Fake *f = fake_block(500000);
	gint64 begin = g_get_monotonic_time(), took;
	Subject s = subject_start(fake_directory(f), "emit", G_STRINGIFY(RECORDS), NULL);

	until_it_waits(&s, 1);
	fake_die(f);
	g_free(subject_end(&s, 0));
	took = g_get_monotonic_time() - begin;
	if (fake_was_late(f))
		return unjudged(f);
	g_test_message("took %" G_GINT64_FORMAT " us", took);
	g_assert_cmpint(took, >=, 500000);
	/* by themselves they would take hours */
	g_assert_cmpint(took, <, 30000000);
	g_assert_cmpuint(fake_count(f, 2) + fake_lost(f, 2, ABI_LOST_FULL), ==, RECORDS);
	g_assert_cmpuint(fake_lost(f, 2, ABI_LOST_FULL), >, 0);
	fake_free(f);
	return true;
}

/* The session ends, or gets other rings: whoever waits goes on at once. */
static bool leave(bool renewed)
{
	Fake *f = fake_block(LONG);
	cpu_set_t before;
	gint64 begin;
	Subject s;

	stay_here(&before);
	s = subject_start(fake_directory(f), "threads", "4", G_STRINGIFY(RECORDS), NULL);
	go_anywhere(&before);
	until_it_waits(&s, 5); /* the first one, for the others */
	begin = g_get_monotonic_time();
	if (renewed) {
		/* small ones, or to make them takes longer than the program waits for its answer */
		fake_policy(f, ABI_POLICY_OVERWRITE, LONG);
		fake_start(f, 2, "subject:*", ALL);
	} else {
		fake_stop(f, 2);
	}
	g_free(subject_end(&s, 0));
	g_assert_cmpint(g_get_monotonic_time() - begin, <, 30000000);
	if (fake_was_late(f))
		return unjudged(f);
	if (renewed)
		g_assert_cmpuint(fake_count(f, 2), >, 0);
	fake_free(f);
	return true;
}

static bool over(void)
{
	return leave(false);
}

static bool renewed(void)
{
	return leave(true);
}

/* A waiter that is stopped is in nobody's way; when it goes on, long after its deadline, it looks again and finds room: for
 * all that is left, so that it does not depend on us again. */
static bool stopped(void)
{
	Fake *f = fake_block(1000000);
	/* one and a half times what its ring holds */
	u64 n = fake_ring_size(f) / RECORD * 3 / 2;
	g_autofree char *records = g_strdup_printf("%" G_GUINT64_FORMAT, n);
	Subject s, other;
	cpu_set_t before;
	siginfo_t i;
	bool waits;

	stay_here(&before);
	s = subject_start(fake_directory(f), "emit", records, NULL);
	go_anywhere(&before);
	until_it_waits(&s, 1);
	g_assert_no_errno(kill(s.pid, SIGSTOP));
	g_assert_no_errno(waitid(P_PID, (id_t)s.pid, &i, WSTOPPED | WEXITED | WNOWAIT));
	/* not if we were away for its whole second */
	waits = i.si_code == CLD_STOPPED && fake_lost(f, 2, ABI_LOST_FULL) == 0;
	while (fake_consume(f, 2))
		;
	other = subject_start(fake_directory(f), "emit", "100", NULL);
	g_free(subject_end(&other, 0));
	g_usleep(1200000);
	g_assert_no_errno(kill(s.pid, SIGCONT));
	g_free(subject_end(&s, 0));
	if (fake_was_late(f) || !waits)
		return unjudged(f);
	g_assert_cmpuint(fake_count(f, 2), ==, n + 100);
	g_assert_cmpuint(fake_lost(f, 2, ABI_LOST_FULL), ==, 0);
	fake_free(f);
	return true;
}

/* Killed while it waits: nothing of it is left that others would wait for. */
static bool killed(void)
{
	Fake *f = fake_block(LONG);
	Subject s = subject_start(fake_directory(f), "emit", G_STRINGIFY(RECORDS), NULL);
	int status;

	until_it_waits(&s, 1);
	g_assert_no_errno(kill(s.pid, SIGKILL));
	g_assert_cmpint(waitpid(s.pid, &status, 0), ==, s.pid);
	close(s.in);
	close(s.out);
	while (fake_consume(f, 2))
		;
	subject_run(fake_directory(f), "emit", "100", NULL);
	if (fake_was_late(f))
		return unjudged(f);
	g_assert_true(WIFSIGNALED(status));
	g_assert_cmpuint(fake_lost(f, 2, ABI_LOST_FULL), ==, 0);
	fake_free(f);
	return true;
}

static void judge(gconstpointer test)
{
	bool (*run)(void) = (bool (*)(void))test;

	for (u32 i = 0; i < TRIES; i++)
		if (run())
			return;
	g_error("not once in " G_STRINGIFY(TRIES) " times");
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_data_func("/client/block/slow-reader", (gconstpointer)slow_reader, judge);
	g_test_add_data_func("/client/block/slow-reader/side", (gconstpointer)slow_reader_side, judge);
	g_test_add_data_func("/client/block/dead", (gconstpointer)dead, judge);
	g_test_add_data_func("/client/block/over", (gconstpointer)over, judge);
	g_test_add_data_func("/client/block/renewed", (gconstpointer)renewed, judge);
	g_test_add_data_func("/client/block/stopped", (gconstpointer)stopped, judge);
	g_test_add_data_func("/client/block/killed", (gconstpointer)killed, judge);
	return g_test_run();
}
