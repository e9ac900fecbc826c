/* SPDX-License-Identifier: MIT */
/* How programs end, and what is made of it: by a kernel that says so, and by one that does not (the call is masked). */
#include "tests/integration/daemon/house.h"

#include "systemd/journal.h"

#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/ioctl.h>
#include <sys/wait.h>

/* Without it every wait in here would be for the kernel of the machine the tests run on. */
static bool masked;

int __real_ioctl(int fd, unsigned long request, void *argument);
int __wrap_ioctl(int fd, unsigned long request, void *argument);
int __wrap_ioctl(int fd, unsigned long request, void *argument)
{
	if (masked && _IOC_TYPE(request) == 0xFF && _IOC_NR(request) == 11) {
		errno = ENOTTY;
		return -1;
	}
	return __real_ioctl(fd, request, argument);
}

static bool gone(void *userdata)
{
	return manager_n_producers(((House *)userdata)->manager) == 0;
}

static void reap(Program *p)
{
	siginfo_t si;

	g_assert_cmpint(waitid(P_PID, (id_t)p->pid, &si, WEXITED), ==, 0);
}

/* It records and is told to end; its parent has reaped it when the daemon looks. */
static void end(House *h, Program *p, const char *how)
{
	program_start(h, p, 0);
	(void)program_ask(p, "record 10");
	program_tell(p, how);
	reap(p);
}

static void end_and_see(House *h, Program *p, const char *how)
{
	end(h, p, how);
	house_until(h, gone, h);
}

static u64 suppressed(House *h, CauseKind kind)
{
	return house_info(h, "flight").suppressed_by[kind];
}

/* What the daemon says from here on. */
static int said_fd = -1, said_before = -1;

static void said_begin(House *h)
{
	g_autofree char *path = g_build_filename(h->directory, "said", NULL);

	said_before = dup(STDERR_FILENO);
	said_fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	g_assert_cmpint(said_fd, >=, 0);
	(void)dup2(said_fd, STDERR_FILENO);
	journal_set_level(LOG_NOTICE);
}

static char *said_end(void)
{
	char *text = g_malloc0(1 << 16);

	journal_set_level(LOG_CRIT);
	(void)dup2(said_before, STDERR_FILENO);
	said_before = close_fd(said_before);
	g_assert_cmpint(pread(said_fd, text, (1 << 16) - 1, 0), >=, 0);
	said_fd = close_fd(said_fd);
	g_test_message("%s", text);
	return text;
}

static u32 count(const char *text, const char *word)
{
	u32 n = 0;

	while ((text = strstr(text, word))) {
		n++;
		text += strlen(word);
	}
	return n;
}

static void skip_unless_told(void)
{
	if (!death_is_told())
		g_test_skip("this kernel does not say how programs end");
}

/* ---- a kernel that says how ---- */

static void test_exit(House *h, gconstpointer unused)
{
	Program p;

	skip_unless_told();
	if (!death_is_told())
		return;
	end_and_see(h, &p, "exit 0");
	g_assert_cmpuint(jobs_n(h->manager->jobs), ==, 0);
	program_end(&p);
	end_and_see(h, &p, "signal 15");
	g_assert_cmpuint(jobs_n(h->manager->jobs), ==, 0);
	program_end(&p);
	end_and_see(h, &p, "exit 3");
	house_await_snapshots(h, 1);
	g_assert_nonnull(strstr(h->snapshot_path, "-exit"));
	g_assert_nonnull(strstr(h->snapshot_reason, "exited with 3"));
	g_assert_cmpuint(trace_count(h->snapshot_path, "shop:order"), ==, 30);
	g_assert_cmpuint(h->n_crashes, ==, 0);
	program_end(&p);
}

/* Each cause has its own interval, and its own count, which the next snapshot says. */
static void test_by_cause(House *h, gconstpointer unused)
{
	g_autofree char *said = NULL;
	Session *s = manager_find(h->manager, "flight");
	Program p;

	skip_unless_told();
	if (!death_is_told())
		return;
	said_begin(h);
	for (u32 i = 0; i < 5; i++) {
		end_and_see(h, &p, "exit 3");
		program_end(&p);
	}
	end_and_see(h, &p, "signal 9");
	program_end(&p);
	house_await_snapshots(h, 2);
	g_assert_nonnull(strstr(h->snapshot_path, "-crash"));
	g_assert_cmpuint(suppressed(h, CAUSE_EXIT) + 1, <=, 5);
	g_assert_cmpuint(suppressed(h, CAUSE_EXIT), >=, 1); /* those that joined the first before it began are saved */
	g_assert_cmpuint(suppressed(h, CAUSE_CRASH), ==, 0);
	g_assert_cmpuint(house_info(h, "flight").suppressed, ==, suppressed(h, CAUSE_EXIT));
	/* one line for the series, and its number when it is over */
	s->triggers.of[CAUSE_EXIT].last -= 3600 * NSEC_PER_SEC;
	manager_settle_causes(h->manager);
	manager_settle_causes(h->manager);
	end_and_see(h, &p, "exit 4");
	house_await_snapshots(h, 3);
	said = said_end();
	g_assert_cmpuint(count(said, "further ones are counted"), ==, 1);
	if (suppressed(h, CAUSE_EXIT) > 1)
		g_assert_cmpuint(count(said, "more causes of kind 'exit'"), ==, 1);
	g_assert_nonnull(strstr(h->snapshot_reason, "exited with 4 (since the last snapshot"));
	program_end(&p);
}

/* The first sign takes the snapshot; what comes before it is written is among its reasons, what comes later is said. */
static void test_signs(House *h, gconstpointer unused)
{
	CoreDump core = { .signal = SIGSEGV, .file = "/var/lib/systemd/coredump/core.subject.zst" };
	g_autofree char *said = NULL;
	Program p;

	said_begin(h);
	end_and_see(h, &p, "signal 11");
	/* it was told of in this very turn, and the snapshot has not begun or is being copied */
	manager_on_unit_failed(h->manager, "elsewhere.service", "core-dump", 0);
	house_await_snapshots(h, 1);
	core.pid = p.pid;
	manager_on_core(h->manager, &core);
	house_turn(h, 0);
	core.pid = 1; /* none of ours */
	manager_on_core(h->manager, &core);
	g_assert_cmpuint(jobs_n(h->manager->jobs), ==, 0);
	g_assert_cmpuint(h->n_snapshots, ==, 1);
	g_assert_cmpuint(h->n_crashes, ==, 1);
	said = said_end();
	g_assert_cmpuint(count(said, "dumped core on signal 11 (SIGSEGV): /var/lib/systemd/coredump/core.subject.zst"),
			 ==, 1);
	g_assert_nonnull(strstr(strstr(said, "of snapshot "), h->snapshot_path));
	program_end(&p);
}

static void on_saved(void *userdata, const char *session, const char *path)
{
	g_string_append_printf(userdata, "%s=%s ", session, path);
}

/* What OnFailure= says is one more sign: no second snapshot of a crash, and none of sessions that it is nothing to. */
static void test_report(House *h, gconstpointer unused)
{
	g_autoptr(GString) said = g_string_new(NULL);
	g_autofree char *expected = NULL;
	Program p;

	program_start(h, &p, 0);
	(void)program_ask(&p, "record 10");
	free(roster_find(&h->manager->roster, p.pid)->peer.unit);
	roster_find(&h->manager->roster, p.pid)->peer.unit = strdup("shop.service");
	program_tell(&p, "signal 11");
	reap(&p);
	house_await_snapshots(h, 1);
	g_assert_cmpuint(manager_report_unit(h->manager, "shop.service", "it failed", on_saved, said), ==, 1);
	expected = g_strdup_printf("flight=%s ", h->snapshot_path);
	g_assert_cmpstr(said->str, ==, expected);
	g_assert_cmpuint(jobs_n(h->manager->jobs), ==, 0);
	program_end(&p);
	/* a unit that nobody recorded: the others tell what they have, idle ones have nothing */
	g_string_truncate(said, 0);
	g_assert_cmpuint(manager_report_unit(h->manager, "postgresql.service", "it failed", on_saved, said), ==, 1);
	g_assert_true(g_str_has_prefix(said->str, "flight=/"));
	house_await_snapshots(h, 2);
	g_assert_true(g_str_has_suffix(h->snapshot_path, "-unit"));
	g_assert_nonnull(strstr(said->str, h->snapshot_path));
	/* too soon */
	g_assert_cmpuint(manager_report_unit(h->manager, "mysql.service", "it failed", on_saved, said), ==, 0);
}

static bool dying(void *userdata)
{
	Producer *p = roster_next(&((House *)userdata)->manager->roster, NULL);

	return p && p->grace;
}

/* systemd speaks of a failure before it reaps, the kernel of the status behind it: the death comes first all the same. */
static void test_zombie(House *h, gconstpointer unused)
{
	Producer *producer;
	Program p;

	skip_unless_told();
	if (!death_is_told())
		return;
	program_start(h, &p, 0);
	(void)program_ask(&p, "record 10");
	producer = roster_find(&h->manager->roster, p.pid);
	free(producer->peer.unit);
	producer->peer.unit = strdup("shop.service");
	producer->peer.start_time++; /* the status of a zombie is hidden from a daemon that is not root */
	program_tell(&p, "exit 3");
	house_until(h, dying, h);
	manager_on_unit_failed(h->manager, "shop.service", "exit-code", p.pid);
	g_assert_cmpuint(jobs_n(h->manager->jobs), ==, 0);
	manager_on_unit_failed(h->manager, "other.service", "exit-code", 0); /* and nobody waits for another's death */
	g_assert_cmpuint(jobs_n(h->manager->jobs), ==, 1);
	house_await_snapshots(h, 1);
	program_end(&p);
	house_await_snapshots(h, 2);
	g_assert_true(g_str_has_suffix(h->snapshot_path, "-exit"));
	g_assert_nonnull(strstr(h->snapshot_reason, "exited with 3; unit shop.service failed: exit-code"));
	g_assert_cmpuint(jobs_n(h->manager->jobs), ==, 0);
}

static void test_on_coredump(House *h, gconstpointer unused)
{
	CoreDump core = { .signal = SIGABRT };
	Program p;

	end_and_see(h, &p, "signal 6");
	g_assert_cmpuint(jobs_n(h->manager->jobs), ==, 0); /* on_crash = false */
	core.pid = p.pid;
	manager_on_core(h->manager, &core);
	house_await_snapshots(h, 1);
	g_assert_nonnull(strstr(h->snapshot_path, "-coredump"));
	g_assert_nonnull(strstr(h->snapshot_reason, "dumped core on signal 6 (SIGABRT)"));
	g_assert_cmpuint(trace_count(h->snapshot_path, "shop:order"), ==, 10);
	program_end(&p);
}

/* Twenty die at once, and another comes before the snapshot has begun: the rings of all are in it. */
static void test_disaster(House *h, gconstpointer unused)
{
	Program p[20], late;

	for (u32 i = 0; i < 20; i++) {
		program_start(h, &p[i], 0);
		(void)program_ask(&p[i], "record 10");
	}
	for (u32 i = 0; i < 20; i++)
		program_tell(&p[i], "signal 11");
	for (u32 i = 0; i < 20; i++)
		reap(&p[i]);
	program_start(h, &late, 0);
	(void)program_ask(&late, "record 1");
	house_await_snapshots(h, 1);
	g_assert_cmpuint(trace_count(h->snapshot_path, "shop:order"), >=, 200);
	g_assert_cmpuint(h->n_crashes, ==, 20);
	for (u32 i = 0; i < 20; i++)
		program_end(&p[i]);
	program_end(&late);
}

/* ---- one that does not ---- */

static void blind_up(House *h, gconstpointer config)
{
	masked = true;
	g_assert_false(death_is_told());
	house_up(h, config);
}

static void blind_down(House *h, gconstpointer unused)
{
	house_down(h, NULL);
	masked = false;
}

static Producer *only(House *h)
{
	Producer *p = roster_next(&h->manager->roster, NULL);

	g_assert_nonnull(p);
	return p;
}

static void put_into_unit(House *h)
{
	free(only(h)->peer.unit);
	only(h)->peer.unit = strdup("shop.service");
}

/* Gone is not crashed. */
static void test_blind_silence(House *h, gconstpointer unused)
{
	Program p;

	g_assert_true(h->manager->blind);
	g_assert_nonnull(h->manager->units); /* systemd may know */
	end_and_see(h, &p, "signal 11");
	g_assert_cmpuint(jobs_n(h->manager->jobs), ==, 0);
	g_assert_cmpuint(h->n_crashes, ==, 0);
	program_end(&p);
}

static void test_blind_death(House *h, gconstpointer unused)
{
	Program p;

	end_and_see(h, &p, "exit 0"); /* it cannot be told from a crash: that is what was asked for */
	house_await_snapshots(h, 1);
	g_assert_nonnull(strstr(h->snapshot_path, "-death"));
	g_assert_nonnull(strstr(h->snapshot_reason, "nothing says how it ended"));
	g_assert_cmpuint(h->n_crashes, ==, 0);
	program_end(&p);
}

static void test_blind_unit(House *h, gconstpointer unused)
{
	Program p;

	program_start(h, &p, 0);
	(void)program_ask(&p, "record 10");
	put_into_unit(h);
	program_tell(&p, "signal 9");
	reap(&p);
	house_until(h, gone, h);
	/* another process of the unit, another unit, and an end that no signal brought */
	manager_on_unit_failed(h->manager, "shop.service", "signal", p.pid + 1);
	manager_on_unit_failed(h->manager, "other.service", "signal", 0);
	manager_on_unit_failed(h->manager, "shop.service", "exit-code", p.pid);
	g_assert_cmpuint(jobs_n(h->manager->jobs), ==, 0);
	manager_on_unit_failed(h->manager, "shop.service", "oom-kill", p.pid);
	manager_on_unit_failed(h->manager, "shop.service", "oom-kill", p.pid);
	house_await_snapshots(h, 1);
	g_assert_nonnull(strstr(h->snapshot_path, "-crash"));
	g_assert_nonnull(strstr(h->snapshot_reason, "unit shop.service failed: oom-kill"));
	g_assert_cmpuint(trace_count(h->snapshot_path, "shop:order"), ==, 10);
	g_assert_cmpuint(h->n_crashes, ==, 1);
	program_end(&p);
}

/* systemd speaks while the daemon still waits for a status: the death that follows is no other one. */
static void test_blind_unit_first(House *h, gconstpointer unused)
{
	Program p;

	program_start(h, &p, 0);
	(void)program_ask(&p, "record 10");
	put_into_unit(h);
	only(h)->peer.start_time++; /* the status of a zombie is hidden from a daemon that is not root */
	program_tell(&p, "signal 11");
	house_until(h, dying, h);
	manager_on_unit_failed(h->manager, "shop.service", "core-dump", p.pid);
	house_await_snapshots(h, 1);
	g_assert_nonnull(strstr(h->snapshot_path, "-crash"));
	program_end(&p);
	house_until(h, gone, h);
	g_assert_cmpuint(jobs_n(h->manager->jobs), ==, 0);
	g_assert_cmpuint(h->n_snapshots, ==, 1);
	g_assert_cmpuint(h->n_crashes, ==, 1);
}

static void test_blind_core(House *h, gconstpointer unused)
{
	CoreDump core = { .signal = SIGSEGV, .file = "/c/core" };
	Program p;

	end_and_see(h, &p, "signal 11");
	g_assert_nonnull(h->manager->cores); /* the journal may know */
	core.pid = p.pid;
	manager_on_core(h->manager, &core);
	manager_on_core(h->manager, &core);
	house_await_snapshots(h, 1);
	g_assert_nonnull(strstr(h->snapshot_path, "-crash"));
	g_assert_nonnull(strstr(h->snapshot_reason, "dumped core on signal 11 (SIGSEGV): /c/core"));
	g_assert_cmpuint(h->n_crashes, ==, 1);
	program_end(&p);
}

/* Its handler has spoken: gone is crashed then. Also if the daemon finds the death first, and reads the notice after it. */
static void test_blind_handler(House *h, gconstpointer unused)
{
	for (u32 i = 1; i <= 2; i++) {
		Program p;

		h->n_crashes = 0;
		program_start_words(h, &p, g_getenv("TRACER_TEST_CRASHER"), "handler record 10 ready wait fault");
		program_tell(&p, "go");
		if (i == 2)
			reap(&p);
		house_await_snapshots(h, i);
		g_assert_nonnull(strstr(h->snapshot_path, "-crash"));
		g_assert_nonnull(strstr(h->snapshot_reason, "caught signal 11"));
		program_end(&p);
		house_until(h, gone, h);
		g_assert_cmpuint(jobs_n(h->manager->jobs), ==, 0);
		g_assert_cmpuint(h->n_snapshots, ==, i);
		g_assert_cmpuint(h->n_crashes, ==, 1);
	}
}

/* A death that led to a snapshot as such is explained, not saved again. */
static void test_blind_both(House *h, gconstpointer unused)
{
	CoreDump core = { .signal = SIGSEGV, .file = "/c/core" };
	g_autofree char *said = NULL;
	Program p;

	said_begin(h);
	end_and_see(h, &p, "signal 11");
	house_await_snapshots(h, 1);
	core.pid = p.pid;
	manager_on_core(h->manager, &core);
	said = said_end();
	g_assert_cmpuint(jobs_n(h->manager->jobs), ==, 0);
	g_assert_cmpuint(h->n_crashes, ==, 1);
	g_assert_nonnull(strstr(said, "-death: "));
	g_assert_nonnull(strstr(said, "/c/core"));
	program_end(&p);
}

#define FLIGHT(more)                                                                               \
	"sessions: { flight: { autostart = true; events = [ \"shop:*\" ]; memory = \"1M\"; " more " }; };"

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	(void)signal(SIGPIPE, SIG_IGN);
	journal_set_level(g_test_verbose() ? LOG_DEBUG : LOG_CRIT);
#define ADD(name, config, fn) g_test_add("/deaths/" name, House, config, house_up, fn, house_down)
#define BLIND(name, config, fn) g_test_add("/deaths/blind/" name, House, config, blind_up, fn, blind_down)
	ADD("exit", FLIGHT("snapshot: { on_exit_failure = true; };"), test_exit);
	ADD("by-cause", FLIGHT("snapshot: { on_exit_failure = true; min_interval = \"1h\"; };"), test_by_cause);
	ADD("signs", FLIGHT(""), test_signs);
	ADD("report",
	    "sessions: { flight: { autostart = true; events = [ \"shop:*\" ]; memory = \"1M\"; }; "
	    "idle: { autostart = true; events = [ \"nobody:*\" ]; memory = \"1M\"; }; };",
	    test_report);
	ADD("zombie",
	    FLIGHT("snapshot: { on_exit_failure = true; on_unit_failure = [ \"*\" ]; min_interval = \"0\"; };"),
	    test_zombie);
	ADD("on-coredump", FLIGHT("snapshot: { on_crash = false; on_coredump = true; };"), test_on_coredump);
	ADD("disaster", FLIGHT("buffers = \"per-process\"; snapshot: { min_interval = \"0\"; };"), test_disaster);
	BLIND("silence", FLIGHT("snapshot: { on_exit_failure = true; };"), test_blind_silence);
	BLIND("death", FLIGHT("snapshot: { on_unknown_death = true; };"), test_blind_death);
	BLIND("unit", FLIGHT(""), test_blind_unit);
	BLIND("unit-first", FLIGHT(""), test_blind_unit_first);
	BLIND("core", FLIGHT(""), test_blind_core);
	BLIND("handler", FLIGHT("snapshot: { min_interval = \"0\"; };"), test_blind_handler);
	BLIND("both", FLIGHT("snapshot: { on_unknown_death = true; };"), test_blind_both);
	return g_test_run();
}
