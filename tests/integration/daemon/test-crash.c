/* SPDX-License-Identifier: MIT */
/* tracer_crash_handler(): a fault is told of before the program is gone, once, and then happens as if nobody had looked. */
#include "tests/integration/daemon/house.h"

#include "systemd/journal.h"

#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#define CONFIG                                                                                     \
	"sessions: { flight: { autostart = true; events = [ \"shop:*\" ]; memory = \"1M\"; "       \
	"snapshot: { min_interval = \"0\"; }; }; };"

static bool gone(void *userdata)
{
	return manager_n_producers(((House *)userdata)->manager) == 0;
}

static void start(House *h, Program *p, const char *words)
{
	program_start_words(h, p, g_getenv("TRACER_TEST_CRASHER"), words);
	g_assert_cmpstr(p->line, ==, "ready");
}

/* Its end, as its parent sees it. */
static siginfo_t end_of(Program *p)
{
	siginfo_t si;

	g_assert_cmpint(waitid(P_PID, (id_t)p->pid, &si, WEXITED | WNOWAIT), ==, 0);
	return si;
}

static bool crash_seen(void *userdata)
{
	return ((House *)userdata)->n_crashes > 0;
}

typedef struct {
	const char *verb;
	int signal;
} Way;

/* The same death with and without, but for who tells of it first. */
static void test_way(House *h, gconstpointer data)
{
	static const char *const handlers[] = { "record 10 ready wait ", "handler record 10 ready wait ",
						"handler handler record 10 ready wait handler " };
	const Way *way = data;
	siginfo_t si[G_N_ELEMENTS(handlers)];

	for (u32 i = 0; i < G_N_ELEMENTS(handlers); i++) {
		g_autofree char *words = g_strconcat(handlers[i], way->verb, NULL);
		g_autofree char *caught = g_strdup_printf("caught signal %d (SIG%s)", way->signal,
							  sigabbrev_np(way->signal));
		Program p;

		start(h, &p, words);
		program_tell(&p, "go");
		h->n_crashes = 0;
		house_until(h, crash_seen, h);
		house_await_snapshots(h, i + 1);
		si[i] = end_of(&p);
		g_assert_cmpint(si[i].si_status, ==, way->signal);
		g_assert_cmpint(si[i].si_code, ==, si[0].si_code); /* CLD_DUMPED or CLD_KILLED */
		if (i == 0)
			g_assert_null(strstr(h->snapshot_reason, "caught"));
		else
			g_assert_nonnull(strstr(h->snapshot_reason, caught));
		program_end(&p);
		house_until(h, gone, h);
		/* the pidfd has told of it as well by now */
		g_assert_cmpuint(jobs_n(h->manager->jobs), ==, 0);
		g_assert_cmpuint(h->n_snapshots, ==, i + 1);
		g_assert_cmpuint(h->n_crashes, ==, 1);
		g_assert_cmpuint(trace_count(h->snapshot_path, "shop:order"), ==, (i + 1) * 10);
	}
}

/* A stack that has overflowed, also a thread's, which asks for an alternate one of its own. */
static void test_overflow(House *h, gconstpointer words)
{
	Program p;

	start(h, &p, words);
	program_tell(&p, "go");
	house_await_snapshots(h, 1);
	g_assert_nonnull(strstr(h->snapshot_reason, "caught signal 11 (SIGSEGV) at address 0x"));
	g_assert_cmpint(end_of(&p).si_status, ==, SIGSEGV);
	program_end(&p);
}

/* The program's own handler is called, with what the kernel said and under the mask that it asked for. */
static void test_return(House *h, gconstpointer unused)
{
	Program p;

	start(h, &p, "own-return 11 handler record 10 ready wait fault say wait");
	g_assert_cmpstr(program_ask(&p, "go"), ==, "alive 11 2"); /* SEGV_ACCERR */
	house_await_snapshots(h, 1);
	g_assert_nonnull(strstr(h->snapshot_reason, "caught signal 11 (SIGSEGV) at address 0x"));
	program_tell(&p, "go");
	g_assert_cmpint(end_of(&p).si_code, ==, CLD_EXITED);
	program_end(&p);
	house_until(h, gone, h);
	g_assert_cmpuint(h->n_crashes, ==, 1);
}

static void test_exit(House *h, gconstpointer unused)
{
	siginfo_t si;
	Program p;

	start(h, &p, "own-exit 6 handler record 10 ready wait abort");
	program_tell(&p, "go");
	house_await_snapshots(h, 1);
	g_assert_nonnull(strstr(h->snapshot_reason, "caught signal 6 (SIGABRT) in thread"));
	si = end_of(&p);
	g_assert_cmpint(si.si_code, ==, CLD_EXITED);
	g_assert_cmpint(si.si_status, ==, 42);
	program_end(&p);
	house_until(h, gone, h);
	g_assert_cmpuint(h->n_snapshots, ==, 1);
}

static void test_jump(House *h, gconstpointer unused)
{
	Program p;

	/* the second time finds the handler in place, and no signal blocked for ever */
	start(h, &p, "own-jump 4 handler record 10 ready wait raise 4 wait raise 4 wait");
	g_assert_cmpstr(program_ask(&p, "go"), ==, "out");
	g_assert_cmpstr(program_ask(&p, "go"), ==, "out");
	house_await_snapshots(h, 1);
	g_assert_cmpuint(h->n_crashes, ==, 1);
	program_end(&p);
}

/* Later handlers win, and who ignores a signal goes on ignoring it. */
static void test_left_alone(House *h, gconstpointer unused)
{
	Program p;

	start(h, &p, "ignore 8 handler own-return 11 record 10 ready wait raise 8 fault say wait");
	g_assert_cmpstr(program_ask(&p, "go"), ==, "alive 11 2");
	house_turn(h, 0);
	g_assert_cmpuint(h->n_crashes, ==, 0);
	program_tell(&p, "go");
	(void)end_of(&p);
	program_end(&p);
}

/* A program that lives by its faults is told of once a second at most, opens nothing for ever, and is one crash. */
static void test_loop(House *h, gconstpointer unused)
{
	Program p;
	char before[64];

	start(h, &p, "own-return 11 handler record 10 ready wait descriptors wait loop 20000 wait descriptors wait");
	(void)g_strlcpy(before, program_ask(&p, "go"), sizeof(before));
	g_assert_cmpstr(program_ask(&p, "go"), ==, "looped");
	g_assert_cmpstr(program_ask(&p, "go"), ==, before);
	house_await_snapshots(h, 1);
	g_assert_cmpuint(h->n_crashes, ==, 1);
	g_assert_cmpuint(h->n_snapshots, ==, 1);
	program_end(&p);
}

/* A daemon that does not run delays nobody's death, and hears of it when it does. */
static void test_deaf(House *h, gconstpointer unused)
{
	Program p;

	start(h, &p, "handler record 10 ready wait fault");
	program_tell(&p, "go");
	g_assert_cmpint(end_of(&p).si_status, ==, SIGSEGV);
	program_end(&p);
	house_await_snapshots(h, 1);
	house_until(h, gone, h);
	g_assert_cmpuint(h->n_crashes, ==, 1);
	/* nor does one that is not there */
	start(h, &p, "handler record 10 ready wait fault");
	house_close(h);
	program_tell(&p, "go");
	g_assert_cmpint(end_of(&p).si_status, ==, SIGSEGV);
	program_end(&p);
	house_open(h);
}

static void test_environment(House *h, gconstpointer unused)
{
	Program p;

	(void)g_setenv("TRACER_CRASH_HANDLER", "1", true);
	start(h, &p, "record 10 ready wait fault");
	(void)g_setenv("TRACER_CRASH_HANDLER", "0", true);
	program_tell(&p, "go");
	house_await_snapshots(h, 1);
	g_assert_nonnull(strstr(h->snapshot_reason, "caught"));
	program_end(&p);
	house_until(h, gone, h);
	start(h, &p, "record 10 ready wait fault");
	(void)g_unsetenv("TRACER_CRASH_HANDLER");
	program_tell(&p, "go");
	house_await_snapshots(h, 2);
	g_assert_null(strstr(h->snapshot_reason, "caught"));
	program_end(&p);
}

/* Only what a program says of itself counts. */
static void test_forged(House *h, gconstpointer unused)
{
	struct wire_crash m = { .header = wire_header(WIRE_CRASH, sizeof(m)), .signal = SIGSEGV };
	Program p;

	start(h, &p, "record 10 ready wait");
	memcpy(m.cookie, roster_find(&h->manager->roster, p.pid)->cookie, sizeof(m.cookie));
	for (u32 i = 0; i < 2; i++) {
		g_autofree char *path = g_build_filename(h->runtime, "producer.sock", NULL);
		struct sockaddr_un a = { .sun_family = AF_UNIX };
		int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
		char byte;

		(void)g_strlcpy(a.sun_path, path, sizeof(a.sun_path));
		g_assert_cmpint(connect(fd, (struct sockaddr *)&a, sizeof(a)), ==, 0);
		m.signal = i ? 4711 : SIGSEGV;
		g_assert_cmpint(send(fd, &m, sizeof(m), 0), ==, sizeof(m));
		while (recv(fd, &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN)
			house_turn(h, 10000); /* it hangs up without a word */
		(void)close(fd);
	}
	g_assert_cmpuint(h->n_crashes, ==, 0);
	g_assert_cmpuint(jobs_n(h->manager->jobs), ==, 0);
	program_end(&p);
}

/* To the daemon's socket, in one go; until it hangs up, or all is answered. */
static void say(House *h, const void *const *messages, const size_t *sizes, u32 n)
{
	g_autofree char *path = g_build_filename(h->runtime, "producer.sock", NULL);
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), type = 0;
	static u8 answer[WIRE_MAX];

	(void)g_strlcpy(a.sun_path, path, sizeof(a.sun_path));
	g_assert_cmpint(connect(fd, (struct sockaddr *)&a, sizeof(a)), ==, 0);
	for (u32 i = 0; i < n; i++)
		g_assert_cmpint(send(fd, messages[i], sizes[i], 0), ==, (gssize)sizes[i]);
	while (type != WIRE_DONE) {
		ssize_t got = recv(fd, answer, sizeof(answer), MSG_DONTWAIT);

		if (got == 0)
			break;
		if (got > 0)
			type = wire_check(answer, (size_t)got);
		else
			house_turn(h, 10000);
	}
	(void)close(fd);
}

/* A program that is known, and an image in its place that does not know its cookie (after an exec, say): who speaks is not the
 * one that recorded. Both are this process. */
static void test_forged_cookie(House *h, gconstpointer unused)
{
	struct wire_hello hello = { .header = wire_header(WIRE_HELLO, sizeof(hello)), .abi_major = ABI_MAJOR,
				    .abi_minor = ABI_MINOR, .n_classes = 1, .cookie = { 5, 6 } };
	struct wire_end end = { wire_header(WIRE_END, sizeof(end)) };
	struct wire_crash crash = { .header = wire_header(WIRE_CRASH, sizeof(crash)), .cookie = { 5, 7 }, .signal = SIGSEGV };
	const struct wire_crash *c = &crash;
	const size_t size = sizeof(crash);
	u8 class[] = { 14, 0, 6, 0, 's', 'h', 'o', 'p', 0, 'p', 'a', 'i', 'd', 0 };
	u8 classes[sizeof(struct wire_classes) + sizeof(class)];
	struct wire_classes head = { wire_header(WIRE_CLASSES, sizeof(classes)), 0, 1 };

	memcpy(classes, &head, sizeof(head));
	memcpy(classes + sizeof(head), class, sizeof(class));
	say(h, (const void *const[]){ &hello, classes, &end }, (const size_t[]){ sizeof(hello), sizeof(classes), sizeof(end) }, 3);
	g_assert_cmpuint(manager_n_producers(h->manager), ==, 1);
	say(h, (const void *const *)&c, &size, 1);
	g_assert_cmpuint(jobs_n(h->manager->jobs), ==, 0);
	g_assert_cmpuint(h->n_crashes, ==, 0);
	crash.cookie[1] = 6;
	say(h, (const void *const *)&c, &size, 1);
	house_until(h, crash_seen, h);
}

static void up(House *h, gconstpointer unused)
{
	house_up(h, CONFIG);
}

int main(int argc, char **argv)
{
	static const Way ways[] = {
		{ "fault", SIGSEGV },	{ "abort", SIGABRT },	{ "trap", SIGTRAP },	 { "divide", SIGFPE },
		{ "badsys", SIGSYS },	{ "raise 4", SIGILL },	{ "raise 7", SIGBUS },	 { "raise 11", SIGSEGV },
	};

	g_test_init(&argc, &argv, NULL);
	(void)signal(SIGPIPE, SIG_IGN);
	journal_set_level(g_test_verbose() ? LOG_DEBUG : LOG_CRIT);
	for (u32 i = 0; i < G_N_ELEMENTS(ways); i++) {
		g_autofree char *name = g_strconcat("/crash/way/", ways[i].verb, NULL);

		g_strdelimit(name, " ", '-');
		g_test_add(name, House, &ways[i], up, test_way, house_down);
	}
#define ADD(name, fn) g_test_add("/crash/" name, House, NULL, up, fn, house_down)
	g_test_add("/crash/overflow/main", House, "handler record 10 ready wait overflow", up, test_overflow,
		   house_down);
	g_test_add("/crash/overflow/thread", House, "record 10 ready wait thread handler overflow", up,
		   test_overflow, house_down);
	ADD("return", test_return);
	ADD("exit", test_exit);
	ADD("jump", test_jump);
	ADD("left-alone", test_left_alone);
	ADD("loop", test_loop);
	ADD("deaf", test_deaf);
	ADD("environment", test_environment);
	ADD("forged", test_forged);
	ADD("forged/cookie", test_forged_cookie);
	return g_test_run();
}
