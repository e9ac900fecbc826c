/* SPDX-License-Identifier: MIT */
/* Sessions, programs and snapshots, end to end: a real manager, real programs, babeltrace2 as the judge. */
#include "tests/integration/daemon/house.h"

#include "systemd/journal.h"

#include <dirent.h>
#include <signal.h>
#include <sys/wait.h>

#define SESSION(name, more)                                                                        \
	"sessions: { " name ": { autostart = true; events = [ \"shop:*\" ]; memory = \"2M\"; " more   \
	" }; };"

static char *last_line(const char *path)
{
	char *all = trace_text(path), *last = strrchr(all, '\n');

	last = g_strdup(last ? last + 1 : all);
	g_free(all);
	return last;
}

static void test_record(House *h, gconstpointer unused)
{
	const char *path;
	SessionInfo i;
	ProducerInfo pi;
	EventInfo e;
	Program p;

	g_assert_null(house_snapshot(h, "flight")); /* nobody recorded yet, and it says so */
	program_start(h, &p, 0);
	g_assert_cmpstr(program_ask(&p, "record 1000"), ==, "recorded 1000");
	i = house_info(h, "flight");
	g_assert_cmpstr(i.state, ==, "running");
	g_assert_cmpuint(i.recorded, ==, 1000);
	g_assert_cmpuint(i.discarded, ==, 0);
	g_assert_cmpuint(i.overwritten, ==, 0);
	g_assert_cmpuint(i.n_producers, ==, 1);
	g_assert_cmpuint(i.memory, >, 1 << 20);
	g_assert_true(manager_producer(h->manager, 0, &pi));
	g_assert_cmpint(pi.pid, ==, p.pid);
	g_assert_cmpstr(pi.command, ==, "subject-daemon");
	g_assert_cmpuint(pi.n_sessions, ==, 1);
	g_assert_false(manager_producer(h->manager, 1, &pi));
	g_assert_true(manager_event(h->manager, 0, &e));
	g_assert_cmpstr(e.provider, ==, "other");
	path = house_snapshot(h, "flight");
	g_assert_nonnull(path);
	g_assert_cmpuint(trace_count(path, "shop:order"), ==, 1000);
	g_assert_cmpuint(house_info(h, "flight").written, ==, 1000);
	g_assert_cmpstr(house_info(h, "flight").last_snapshot, ==, path);
	program_end(&p);
}

static bool crash_seen(void *userdata)
{
	return ((House *)userdata)->n_crashes > 0;
}

/* data: 1: the parent reaps at once, 0: never (until the end). */
static void crash(House *h, bool reap, const char *signal_line)
{
	char *last, needle[32];
	Program p;

	program_start(h, &p, 0);
	(void)program_ask(&p, "record 100000");
	program_tell(&p, signal_line);
	if (reap) {
		siginfo_t si;

		g_assert_cmpint(waitid(P_PID, (id_t)p.pid, &si, WEXITED), ==, 0);
	}
	house_until(h, crash_seen, h);
	house_await_snapshots(h, 1);
	g_assert_nonnull(strstr(h->snapshot_path, "-crash"));
	g_assert_nonnull(strstr(h->snapshot_reason, "subject"));
	g_assert_nonnull(strstr(h->snapshot_reason, "killed by signal"));
	last = last_line(h->snapshot_path);
	(void)g_snprintf(needle, sizeof(needle), "number = %d,", 99999);
	if (!strstr(last, needle))
		g_error("the last record is '%s'", last);
	g_free(last);
	g_assert_cmpuint(manager_n_producers(h->manager), ==, 0);
	program_end(&p);
}

static void test_crash_reaped(House *h, gconstpointer unused)
{
	crash(h, true, "signal 11");
	g_assert_nonnull(strstr(h->snapshot_reason, "(SIGSEGV)"));
}

static void test_crash_zombie(House *h, gconstpointer unused)
{
	crash(h, false, "signal 6");
	g_assert_nonnull(strstr(h->snapshot_reason, "(SIGABRT)"));
}

static bool gone(void *userdata)
{
	return manager_n_producers(((House *)userdata)->manager) == 0;
}

/* A clean end is no crash: an exit, or a signal that ends a service in order. */
static void clean_end(House *h, const char *how)
{
	Program p;

	program_start(h, &p, 0);
	(void)program_ask(&p, "record 10");
	program_tell(&p, how);
	house_until(h, gone, h);
	g_assert_cmpuint(h->n_crashes, ==, 0);
	g_assert_cmpuint(jobs_n(h->manager->jobs), ==, 0);
	/* its records are still there */
	g_assert_cmpuint(house_info(h, "flight").recorded, ==, 10);
	g_assert_cmpuint(trace_count(house_snapshot(h, "flight"), "shop:order"), ==, 10);
	program_end(&p);
}

static void test_exit(House *h, gconstpointer unused)
{
	clean_end(h, "exit 3");
}

static void test_terminated(House *h, gconstpointer unused)
{
	clean_end(h, "signal 15");
}

/* Without pidfds (old kernels, valgrind) a death is found by looking now and then. */
static void test_no_pidfd(House *h, gconstpointer unused)
{
	Producer *p;
	Program a;

	program_start(h, &a, 0);
	(void)program_ask(&a, "record 10");
	p = roster_find(&h->manager->roster, a.pid);
	g_assert_nonnull(p);
	p->death = sd_event_source_disable_unref(p->death);
	p->peer.pidfd = close_fd(p->peer.pidfd);
	g_assert_false(producer_check(p));
	program_end(&a);
	g_assert_true(producer_check(p));
	g_assert_cmpuint(manager_n_producers(h->manager), ==, 0);
	g_assert_cmpuint(house_info(h, "flight").recorded, ==, 10);
}

static void test_request(House *h, gconstpointer unused)
{
	Program p;

	program_start(h, &p, 0);
	(void)program_ask(&p, "record 5");
	g_assert_cmpstr(program_ask(&p, "snapshot slow request"), ==, "snapshot 0");
	house_await_snapshots(h, 1);
	g_assert_nonnull(strstr(h->snapshot_path, "-program"));
	g_assert_cmpstr(h->snapshot_reason, ==, "slow request");
	g_assert_cmpuint(trace_count(h->snapshot_path, "shop:order"), ==, 5);
	/* too soon: said to the program, and counted */
	g_assert_cmpstr(program_ask(&p, "snapshot again"), ==, "snapshot -16");
	g_assert_cmpuint(house_info(h, "flight").suppressed, ==, 1);
	g_assert_cmpint(manager_stop_session(h->manager, "flight", NULL, NULL, NULL), ==, 0);
	g_assert_cmpstr(program_ask(&p, "snapshot nobody"), ==, "snapshot -61");
	program_end(&p);
}

/* A program that stands still holds up nothing. */
static void test_stopped(House *h, gconstpointer unused)
{
	SessionConfig *c;
	Failure f;
	Program p;
	int status;

	program_start(h, &p, 0);
	(void)program_ask(&p, "record 100");
	g_assert_cmpint(kill(p.pid, SIGSTOP), ==, 0);
	g_assert_cmpint(waitpid(p.pid, &status, WUNTRACED), ==, p.pid);
	g_assert_cmpint(session_config_new(&c, "second"), ==, 0);
	g_assert_cmpint(manager_create_session(h->manager, c, NULL, &f), ==, 0);
	g_assert_cmpint(manager_start_session(h->manager, "second", &f), ==, 0);
	g_assert_cmpuint(trace_count(house_snapshot(h, "flight"), "shop:order"), ==, 100);
	g_assert_cmpint(manager_stop_session(h->manager, "flight", NULL, NULL, &f), ==, 0);
	g_assert_cmpint(manager_stop_session(h->manager, "flight", NULL, NULL, &f), <, 0);
	g_assert_cmpint(f.kind, ==, FAILURE_NOT_RUNNING);
	g_assert_cmpuint(trace_count(house_snapshot(h, "flight"), "shop:order"), ==, 100);
	g_assert_cmpint(manager_clear_session(h->manager, "flight", &f), ==, 0);
	g_assert_cmpuint(house_info(h, "flight").recorded, ==, 0);
	g_assert_cmpint(manager_remove_session(h->manager, "flight", &f), ==, 0);
	g_assert_cmpint(kill(p.pid, SIGCONT), ==, 0);
	(void)program_ask(&p, "record 7");
	g_assert_cmpuint(house_info(h, "second").recorded, ==, 7);
	program_end(&p);
}

/* The rings of a session go on where it was stopped. */
static void test_restart(House *h, gconstpointer unused)
{
	Program p;

	program_start(h, &p, 0);
	(void)program_ask(&p, "record 10");
	g_assert_cmpint(manager_stop_session(h->manager, "flight", NULL, NULL, NULL), ==, 0);
	(void)program_ask(&p, "record 10");
	g_assert_cmpint(manager_start_session(h->manager, "flight", NULL), ==, 0);
	(void)program_ask(&p, "record 10");
	g_assert_cmpuint(house_info(h, "flight").recorded, ==, 20);
	g_assert_cmpuint(trace_count(house_snapshot(h, "flight"), "shop:order"), ==, 20);
	program_end(&p);
}

static void test_set_events(House *h, gconstpointer unused)
{
	char *only[] = { (char *)"shop:extra" }, *both[] = { (char *)"shop:*" };
	char *bad[] = { (char *)"a:b:c" };
	Failure f;
	Program p;
	u32 slot_generation;

	program_start(h, &p, 0);
	(void)program_ask(&p, "record 10");
	slot_generation = manager_find(h->manager, "flight")->generation;
	g_assert_cmpint(manager_set_events(h->manager, "flight", &(Strings){ only, 1 }, &f), ==, 0);
	(void)program_ask(&p, "extra 3");
	(void)program_ask(&p, "record 10");
	g_assert_cmpuint(house_info(h, "flight").recorded, ==, 13);
	g_assert_cmpint(manager_set_events(h->manager, "flight", &(Strings){ both, 1 }, &f), ==, 0);
	(void)program_ask(&p, "record 10");
	g_assert_cmpuint(house_info(h, "flight").recorded, ==, 23);
	g_assert_cmpuint(manager_find(h->manager, "flight")->generation, ==, slot_generation);
	g_assert_cmpint(manager_set_events(h->manager, "flight", &(Strings){ bad, 1 }, &f), <, 0);
	g_assert_cmpint(f.kind, ==, FAILURE_INVALID);
	g_assert_cmpuint(trace_count(house_snapshot(h, "flight"), "shop:"), ==, 23);
	program_end(&p);
}

static void test_exec(House *h, gconstpointer unused)
{
	ProducerInfo i;
	Program p;
	u32 number;

	program_start(h, &p, 0);
	(void)program_ask(&p, "record 10");
	number = roster_find(&h->manager->roster, p.pid)->number;
	g_assert_nonnull(program_ask(&p, "exec"));
	(void)program_ask(&p, "record 10");
	g_assert_cmpuint(manager_n_producers(h->manager), ==, 1);
	g_assert_cmpuint(roster_find(&h->manager->roster, p.pid)->number, !=, number);
	g_assert_true(manager_producer(h->manager, 0, &i));
	g_assert_cmpuint(house_info(h, "flight").recorded, ==, 20);
	g_assert_cmpuint(house_info(h, "flight").n_producers, ==, 1);
	program_end(&p);
}

/* Rings of a process live until its crash is on disk, then their memory is back. */
static void test_per_process(House *h, gconstpointer unused)
{
	Program a, b;
	u64 memory;

	program_start(h, &a, 0);
	(void)program_ask(&a, "record 10");
	memory = account_total(h->manager->ground.account, CHARGE_MEMORY);
	program_start(h, &b, 0);
	(void)program_ask(&b, "record 20");
	g_assert_cmpuint(house_info(h, "flight").n_owners, ==, 2);
	g_assert_cmpuint(account_total(h->manager->ground.account, CHARGE_MEMORY), ==, 2 * memory);
	program_tell(&b, "signal 11");
	house_await_snapshots(h, 1);
	g_assert_cmpuint(trace_count(h->snapshot_path, "shop:order"), ==, 30);
	g_assert_cmpuint(house_info(h, "flight").n_owners, ==, 1);
	g_assert_cmpuint(account_total(h->manager->ground.account, CHARGE_MEMORY), ==, memory);
	g_assert_cmpuint(house_info(h, "flight").recorded, ==, 30); /* sums never fall */
	program_end(&a);
	program_end(&b);
}

/* Of the rings of the dead only the newest few are kept. */
static void test_many_dead(House *h, gconstpointer unused)
{
	for (int i = 0; i < 20; i++) {
		Program p;

		program_start(h, &p, 0);
		(void)program_ask(&p, "record 1");
		program_tell(&p, "exit 0");
		house_until(h, gone, h);
		program_end(&p);
	}
	g_assert_cmpuint(house_info(h, "flight").n_owners, <=, 10);
	g_assert_cmpuint(house_info(h, "flight").recorded, ==, 20);
}

static void test_scope(House *h, gconstpointer unused)
{
	Program p;

	program_start(h, &p, 0);
	(void)program_ask(&p, "record 10");
	g_assert_cmpuint(house_info(h, "flight").n_producers, ==, 0);
	g_assert_cmpuint(house_info(h, "flight").n_owners, ==, 0);
	g_assert_cmpuint(house_info(h, "flight").memory, ==, 0);
	program_end(&p);
}

static void test_limits(House *h, gconstpointer unused)
{
	Program p[20];
	Failure f;
	SessionConfig *c;

	/* 16 producers a user, by the configuration; the seventeenth is told so and works on */
	for (u32 i = 0; i < 20; i++) {
		program_start(h, &p[i], 0);
		g_assert_cmpstr(program_ask(&p[i], "record 3"), ==, "recorded 3");
	}
	g_assert_cmpuint(manager_n_producers(h->manager), ==, 16);
	g_assert_cmpuint(house_info(h, "flight").recorded, ==, 48);
	for (u32 i = 0; i < 20; i++)
		program_end(&p[i]);
	/* a session that would not fit, with numbers */
	g_assert_cmpint(session_config_new(&c, "huge"), ==, 0);
	c->memory = 1ull << 30;
	g_assert_cmpint(manager_create_session(h->manager, c, NULL, &f), ==, 0);
	g_assert_cmpint(manager_start_session(h->manager, "huge", &f), <, 0);
	g_assert_cmpint(f.kind, ==, FAILURE_NO_MEMORY);
	g_assert_nonnull(strstr(f.text, "8M"));
}

static void test_reload(House *h, gconstpointer unused)
{
	Program p;
	Failure f;

	program_start(h, &p, 0);
	(void)program_ask(&p, "record 10");
	house_configure(h, "sessions: { flight: { memory = \"many\"; evnts = []; }; };");
	g_assert_cmpint(manager_reload(h->manager, &f), <, 0);
	g_assert_cmpint(f.kind, ==, FAILURE_CONFIG);
	g_assert_nonnull(strstr(f.text, "tracer.conf:1"));
	(void)program_ask(&p, "record 10");
	g_assert_cmpuint(house_info(h, "flight").recorded, ==, 20);
	/* untouched sessions go on, without a new generation of their slot */
	house_configure(h, "sessions: { flight: { autostart = true; events = [ \"shop:*\" ]; memory = "
			   "\"2M\"; }; new: { autostart = true; memory = \"1M\"; }; };");
	g_assert_cmpint(manager_reload(h->manager, &f), ==, 0);
	(void)program_ask(&p, "record 10");
	g_assert_cmpuint(house_info(h, "flight").recorded, ==, 30);
	g_assert_cmpuint(house_info(h, "new").recorded, ==, 10);
	house_configure(h, "sessions: { new: { autostart = true; memory = \"2M\"; }; };");
	g_assert_cmpint(manager_reload(h->manager, &f), ==, 0);
	g_assert_null(manager_find(h->manager, "flight"));
	g_assert_cmpuint(house_info(h, "new").recorded, ==, 0); /* other rings */
	(void)program_ask(&p, "record 10");
	g_assert_cmpuint(house_info(h, "new").recorded, ==, 10);
	program_end(&p);
}

static void test_on_stop(House *h, gconstpointer unused)
{
	Program p;
	char *path;

	program_start(h, &p, 0);
	(void)program_ask(&p, "record 10");
	house_close(h);
	g_assert_cmpuint(h->n_snapshots, ==, 1);
	path = g_strdup(h->snapshot_path);
	g_assert_cmpuint(trace_count(path, "shop:order"), ==, 10);
	g_free(path);
	/* without a daemon the program works on; with the next one it records again */
	g_assert_cmpstr(program_ask(&p, "record 10"), ==, "recorded 20");
	house_open(h);
	(void)program_ask(&p, "record 10");
	g_assert_cmpuint(house_info(h, "flight").recorded, ==, 10);
	program_end(&p);
}

static u32 n_descriptors(void)
{
	DIR *d = opendir("/proc/self/fd");
	u32 n = 0;

	while (readdir(d))
		n++;
	(void)closedir(d);
	return n;
}

/* Sessions come and go under eight recording threads: memory is back where it was, and no record is in a
 * session that did not want it. */
static void test_churn(House *h, gconstpointer unused)
{
	u32 descriptors, rounds = 0;
	u64 end, with_records = 0;
	Program p;

	program_start(h, &p, 0);
	(void)program_ask(&p, "enabled");
	(void)program_ask(&p, "threads 8");
	descriptors = n_descriptors();
	for (end = manager_now() + 15 * NSEC_PER_SEC; rounds < 300 && manager_now() < end; rounds++) {
		char *shop[] = { (char *)"shop:*" }, *other[] = { (char *)"other:*" };
		bool is_shop = rounds % 2;
		SessionConfig *c;
		const char *path;
		SessionInfo i;
		Failure f;

		g_assert_cmpint(session_config_new(&c, "churn"), ==, 0);
		{
			ConfigValue v = { .type = CONFIG_STRINGS,
					  .strings = { is_shop ? shop : other, 1 } };
			char *text = NULL;

			g_assert_cmpint(session_config_set(c, "events", &v, &text), ==, 0);
		}
		c->memory = 1 << 20;
		c->policy = rounds % 3 == 0 ? POLICY_DISCARD : POLICY_OVERWRITE;
		g_assert_cmpint(manager_create_session(h->manager, c, NULL, &f), ==, 0);
		g_assert_cmpint(manager_start_session(h->manager, "churn", &f), ==, 0);
		for (int turn = 0; turn < 5; turn++)
			house_turn(h, 2000);
		i = house_info(h, "churn");
		with_records += i.recorded > 0;
		if (i.recorded && rounds % 100 < 2) { /* the judge takes longer than all else */
			path = house_snapshot(h, "churn");
			g_assert_nonnull(path);
			g_assert_cmpuint(trace_count(path, is_shop ? "other:" : "shop:"), ==, 0);
			g_assert_cmpuint(house_info(h, "churn").corrupt, ==, 0);
		}
		g_assert_cmpint(manager_remove_session(h->manager, "churn", &f), ==, 0);
	}
	g_test_message("%u rounds, %u with records", rounds, (unsigned)with_records);
	g_assert_cmpuint(with_records, >, rounds / 2);
	g_assert_nonnull(program_ask(&p, "join"));
	house_turn(h, 0);
	g_assert_cmpuint(account_total(h->manager->ground.account, CHARGE_MEMORY), ==, 0);
	program_end(&p);
	house_until(h, gone, h);
	g_assert_cmpuint(classes_n(h->manager->ground.classes), ==, 0);
	g_assert_cmpuint(n_descriptors(), <=, descriptors);
}

int main(int argc, char **argv)
{
	sigset_t mask;

	g_test_init(&argc, &argv, NULL);
	(void)signal(SIGPIPE, SIG_IGN);
	(void)sigemptyset(&mask);
	journal_set_level(g_test_verbose() ? LOG_DEBUG : LOG_CRIT);
#define ADD(name, config, fn) g_test_add("/manager/" name, House, config, house_up, fn, house_down)
	ADD("record", SESSION("flight", ""), test_record);
	ADD("crash/reaped", SESSION("flight", "snapshot: { on_crash = true; };"), test_crash_reaped);
	ADD("crash/zombie", SESSION("flight", "snapshot: { on_crash = true; };"), test_crash_zombie);
	ADD("exit", SESSION("flight", "snapshot: { on_crash = true; };"), test_exit);
	ADD("terminated", SESSION("flight", "snapshot: { on_crash = true; };"), test_terminated);
	ADD("no-pidfd", SESSION("flight", ""), test_no_pidfd);
	ADD("request", SESSION("flight", ""), test_request);
	ADD("stopped", SESSION("flight", ""), test_stopped);
	ADD("restart", SESSION("flight", ""), test_restart);
	ADD("set-events", SESSION("flight", ""), test_set_events);
	ADD("exec", SESSION("flight", ""), test_exec);
	ADD("per-process",
	    SESSION("flight", "buffers = \"per-process\"; snapshot: { on_crash = true; };"),
	    test_per_process);
	ADD("many-dead", SESSION("flight", "buffers = \"per-process\";"), test_many_dead);
	ADD("scope", SESSION("flight", "processes = [ \"nginx*\" ];"), test_scope);
	ADD("limits",
	    "daemon: { max_producers_per_user = 16; max_memory = \"8M\"; };" SESSION("flight", ""),
	    test_limits);
	ADD("reload", SESSION("flight", ""), test_reload);
	ADD("on-stop", SESSION("flight", "on_stop = \"snapshot\";"), test_on_stop);
	ADD("churn", "sessions: { };", test_churn);
	return g_test_run();
}
