/* SPDX-License-Identifier: MIT */
/* Programs under the policy block, with readers that are slow, stopped, dead, or gone. */
#include "subject.h"

#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define ALL	((uid_t)-1)
#define LONG	60000000 /* a timeout that no test waits for */
#define RECORDS 100000	 /* several times what the rings hold */

static Fake *fake_block(u32 timeout_us)
{
	Fake *f = fake_new();

	fake_memory(f, 1 << 20);
	fake_policy(f, ABI_POLICY_BLOCK, timeout_us);
	fake_start(f, 2, "subject:*", ALL);
	return f;
}

/* Until the program sleeps in a futex: there is nothing else that it could wait for. */
static void until_it_waits(pid_t pid)
{
	g_autofree char *path = g_strdup_printf("/proc/%d/syscall", pid);

	for (;;) {
		g_autofree char *text = NULL;

		g_assert_true(g_file_get_contents(path, &text, NULL, NULL));
		if (strtol(text, NULL, 10) == SYS_futex && g_ascii_isdigit(text[0]))
			return;
		g_usleep(1000);
	}
}

static bool has_ended(const Subject *s)
{
	siginfo_t i = { 0 };

	g_assert_no_errno(waitid(P_PID, (id_t)s->pid, &i, WEXITED | WNOHANG | WNOWAIT));
	return i.si_pid != 0;
}

/* A reader that takes a sub-buffer every now and then: the program takes its time, and nothing is lost. */
static void slow_reader(void)
{
	Fake *f = fake_block(LONG);
	Subject s = subject_start(fake_directory(f), "emit", G_STRINGIFY(RECORDS), NULL);

	until_it_waits(s.pid);
	while (!has_ended(&s)) {
		g_usleep(2000);
		(void)fake_consume(f, 2);
	}
	g_free(subject_end(&s, 0));
	g_assert_cmpuint(fake_count(f, 2), ==, RECORDS);
	g_assert_cmpuint(fake_lost(f, 2, ABI_LOST_FULL), ==, 0);
	fake_free(f);
}

/* The same by side rings alone, where sequences cannot be had. */
static void slow_reader_side(void)
{
	g_setenv("GLIBC_TUNABLES", "glibc.pthread.rseq=0", TRUE);
	slow_reader();
	g_unsetenv("GLIBC_TUNABLES");
}

/* The daemon is gone: one timeout, however many records there are, and each is counted. */
static void dead(void)
{
	Fake *f = fake_block(500000);
	gint64 begin = g_get_monotonic_time(), took;
	Subject s = subject_start(fake_directory(f), "emit", G_STRINGIFY(RECORDS), NULL);

	until_it_waits(s.pid);
	fake_die(f);
	g_free(subject_end(&s, 0));
	took = g_get_monotonic_time() - begin;
	g_test_message("took %" G_GINT64_FORMAT " us", took);
	g_assert_cmpint(took, >=, 500000);
	/* by themselves they would take hours */
	g_assert_cmpint(took, <, 30000000);
	g_assert_cmpuint(fake_count(f, 2) + fake_lost(f, 2, ABI_LOST_FULL), ==, RECORDS);
	g_assert_cmpuint(fake_lost(f, 2, ABI_LOST_FULL), >, 0);
	fake_free(f);
}

/* The session ends, or gets other rings: whoever waits goes on at once. */
static void over(gconstpointer renewed)
{
	Fake *f = fake_block(LONG);
	Subject s = subject_start(fake_directory(f), "threads", "4", G_STRINGIFY(RECORDS), NULL);
	gint64 begin;

	until_it_waits(s.pid); /* the main thread, for the others: */
	while (fake_count(f, 2) == 0 || fake_consume(f, 2) == 0)
		g_usleep(1000);
	begin = g_get_monotonic_time();
	if (renewed) {
		fake_memory(f, 64 << 20); /* room for all */
		fake_policy(f, ABI_POLICY_BLOCK, LONG);
		fake_start(f, 2, "subject:*", ALL);
	} else {
		fake_stop(f, 2);
	}
	g_free(subject_end(&s, 0));
	g_assert_cmpint(g_get_monotonic_time() - begin, <, 30000000);
	if (renewed)
		g_assert_cmpuint(fake_count(f, 2), >, 0);
	fake_free(f);
}

/* A waiter that is stopped is in nobody's way; when it goes on, long after its deadline, it looks again and finds room. */
static void stopped(void)
{
	Fake *f = fake_block(1000000);
	Subject s = subject_start(fake_directory(f), "emit", G_STRINGIFY(RECORDS), NULL), other;
	siginfo_t i;

	until_it_waits(s.pid);
	g_assert_no_errno(kill(s.pid, SIGSTOP));
	g_assert_no_errno(waitid(P_PID, (id_t)s.pid, &i, WSTOPPED | WNOWAIT));
	for (u32 k = 0; k < 8; k++)
		g_assert_cmpuint(fake_consume(f, 2), >, 0);
	other = subject_start(fake_directory(f), "emit", "100", NULL);
	g_free(subject_end(&other, 0));
	g_usleep(1200000);
	g_assert_no_errno(kill(s.pid, SIGCONT));
	while (!has_ended(&s))
		if (!fake_consume(f, 2))
			g_usleep(100);
	g_free(subject_end(&s, 0));
	g_assert_cmpuint(fake_count(f, 2), ==, RECORDS + 100);
	g_assert_cmpuint(fake_lost(f, 2, ABI_LOST_FULL), ==, 0);
	fake_free(f);
}

/* Killed while it waits: nothing of it is left that others would wait for. */
static void killed(void)
{
	Fake *f = fake_block(LONG);
	Subject s = subject_start(fake_directory(f), "emit", G_STRINGIFY(RECORDS), NULL);
	int status;

	until_it_waits(s.pid);
	g_assert_no_errno(kill(s.pid, SIGKILL));
	g_assert_cmpint(waitpid(s.pid, &status, 0), ==, s.pid);
	close(s.in);
	close(s.out);
	while (fake_consume(f, 2))
		;
	subject_run(fake_directory(f), "emit", "100", NULL);
	g_assert_cmpuint(fake_lost(f, 2, ABI_LOST_FULL), ==, 0);
	fake_free(f);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/client/block/slow-reader", slow_reader);
	g_test_add_func("/client/block/slow-reader/side", slow_reader_side);
	g_test_add_func("/client/block/dead", dead);
	g_test_add_data_func("/client/block/over", NULL, over);
	g_test_add_data_func("/client/block/renewed", "renewed", over);
	g_test_add_func("/client/block/stopped", stopped);
	g_test_add_func("/client/block/killed", killed);
	return g_test_run();
}
