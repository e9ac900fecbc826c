/* SPDX-License-Identifier: MIT */
/* Which programs and events a session takes, which failures it answers, and what a reload changes of it: all with real
 * programs. */
#include "tests/integration/daemon/attack.h"

#include "systemd/journal.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>

#define SCOPED(scope) "sessions: { flight: { autostart = true; memory = \"1M\"; " scope " }; };"

/* What the subject has enabled of shop:order, shop:extra and other:thing, which are all of level info. */
typedef struct {
	const char *name, *config, *root, *nobody;
} Case;

static const Case cases[] = {
	{ "everything", SCOPED(""), "1 1 1", "1 1 1" },
	{ "provider", SCOPED("events = [ \"shop:*\" ];"), "1 1 0", "1 1 0" },
	{ "event", SCOPED("events = [ \"shop:extra\" ];"), "0 1 0", "0 1 0" },
	{ "two", SCOPED("events = [ \"shop:ord*\", \"other\" ];"), "1 0 1", "1 0 1" },
	{ "globs", SCOPED("events = [ \"*:?hing\", \"s*p:*a\" ];"), "0 1 1", "0 1 1" },
	{ "exclude", SCOPED("exclude = [ \"shop:ex*\" ];"), "1 0 1", "1 0 1" },
	{ "exclude-wins", SCOPED("events = [ \"shop:extra\" ]; exclude = [ \"shop\" ];"), "0 0 0",
	  "0 0 0" },
	{ "level-below", SCOPED("level = \"notice\";"), "0 0 0", "0 0 0" },
	{ "level-equal", SCOPED("level = \"info\";"), "1 1 1", "1 1 1" },
	{ "user-by-number", SCOPED("users = [ \"65534\" ];"), "0 0 0", "1 1 1" },
	{ "user-by-name", SCOPED("users = [ \"root\" ];"), "1 1 1", "0 0 0" },
	{ "user-unknown", SCOPED("users = [ \"no-such-user-x\" ];"), "0 0 0", "0 0 0" },
	{ "process", SCOPED("processes = [ \"nginx\", \"subject-d*\" ];"), "1 1 1", "1 1 1" },
	{ "process-other", SCOPED("processes = [ \"nginx\", \"subject\" ];"), "0 0 0", "0 0 0" },
	{ "unit-other", SCOPED("units = [ \"tracer-scopes-none.service\" ];"), "0 0 0", "0 0 0" },
	{ "all-must-hold", SCOPED("users = [ \"root\" ]; processes = [ \"nginx\" ];"), "0 0 0", "0 0 0" },
};

static void enabled(House *h, uid_t uid, const char *expected)
{
	char *line = g_strdup_printf("enabled %s", expected);
	Program p;

	program_start(h, &p, uid);
	(void)program_ask(&p, "record 1");
	g_assert_cmpstr(program_ask(&p, "enabled"), ==, line);
	g_assert_cmpuint(house_info(h, "flight").n_producers, ==, strchr(expected, '1') != NULL);
	program_end(&p);
	g_free(line);
}

static bool nobody_left(void *userdata)
{
	return manager_n_producers(((House *)userdata)->manager) == 0;
}

static void test_case(gconstpointer data)
{
	const Case *c = data;
	House h = {};

	house_up(&h, c->config);
	if (getuid() == 0) {
		enabled(&h, 0, c->root);
		house_until(&h, nobody_left, &h);
		enabled(&h, NOBODY, c->nobody);
	} else {
		g_test_skip("two users are needed: run as root");
	}
	house_down(&h, NULL);
}

/* ---- units ---- */

#define UNIT	    "tracer-scopes-test.service"
#define UNIT_CGROUP "/sys/fs/cgroup/system.slice/" UNIT

static bool move_to(const char *cgroup, pid_t pid)
{
	char path[256], text[16];
	int n = snprintf(text, sizeof(text), "%d", (int)pid), fd;
	bool done;

	(void)snprintf(path, sizeof(path), "%s/cgroup.procs", cgroup);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	done = fd >= 0 && write(fd, text, (size_t)n) == n;
	(void)close_fd(fd);
	return done;
}

static void test_unit(House *h, gconstpointer unused)
{
	bool slice = mkdir("/sys/fs/cgroup/system.slice", 0755) == 0, unit;
	Program p;

	unit = mkdir(UNIT_CGROUP, 0755) == 0;
	program_start(h, &p, 0);
	if (!unit || !move_to(UNIT_CGROUP, p.pid)) {
		g_test_skip("no cgroup of our own can be made here");
	} else {
		ProducerInfo i;

		/* all that is started in the unit */
		g_assert_nonnull(program_ask(&p, "exec"));
		(void)program_ask(&p, "record 10");
		g_assert_true(manager_producer(h->manager, 0, &i));
		g_assert_cmpstr(i.unit, ==, UNIT);
		g_assert_cmpuint(house_info(h, "mine").recorded, ==, 10);
		g_assert_cmpuint(house_info(h, "other").recorded, ==, 0);
		g_assert_cmpstr(manager_find(h->manager, "mine")->owners->label, ==, "unit-" UNIT);
	}
	program_end(&p);
	if (unit)
		(void)rmdir(UNIT_CGROUP);
	if (slice)
		(void)rmdir("/sys/fs/cgroup/system.slice");
}

/* ---- failures of units ---- */

static void test_failure(House *h, gconstpointer unused)
{
	Program p;

	program_start(h, &p, 0);
	(void)program_ask(&p, "record 10");
	manager_on_unit_failed(h->manager, "sshd.socket", "resources", 0);
	g_assert_cmpuint(jobs_n(h->manager->jobs), ==, 0);
	/* the one that names it and the one whose glob does; neither who names another, nor who does not run */
	manager_on_unit_failed(h->manager, "nginx.service", "signal", 0);
	house_await_snapshots(h, 2);
	g_assert_cmpuint(jobs_n(h->manager->jobs), ==, 0);
	g_assert_nonnull(strstr(h->snapshot_path, "-unit"));
	g_assert_cmpstr(h->snapshot_reason, ==, "unit nginx.service failed: signal");
	g_assert_cmpuint(trace_count(h->snapshot_path, "shop:order"), ==, 10);
	g_assert_cmpstr(house_info(h, "exact").last_snapshot, !=, "");
	g_assert_cmpstr(house_info(h, "glob").last_snapshot, !=, "");
	g_assert_cmpstr(house_info(h, "else").last_snapshot, ==, "");
	g_assert_cmpstr(house_info(h, "idle").last_snapshot, ==, "");
	manager_on_unit_failed(h->manager, "shop.service", "exit-code", 0);
	house_await_snapshots(h, 3);
	program_end(&p);
}

/* ---- reload ---- */

#define ONE(name, more) name ": { autostart = true; events = [ \"shop:*\" ]; memory = \"1M\"; " more " }; "

/* Whatever is wrong with it, programs see nothing of it: not a byte of the control page changes. */
static void test_reload_broken(House *h, gconstpointer unused)
{
	static const char *const broken[] = {
		"sessions: { flight: { memory = \"many\"; }; };",
		"sessions: { flight: {",
		"daemon: { max_producers = \"few\"; }; sessions: { };",
		"sessions: { " ONE("flight", "policy = \"sideways\";") ONE("new", "") " };",
		"@include \"/nonexistent/file\"\n",
		"\xff\xfe",
	};
	struct abi_control_page *before = g_memdup2(board_page(h->manager->ground.board), sizeof(*before));
	const DaemonConfig daemon = h->manager->daemon;
	Program p;
	Failure f;

	program_start(h, &p, 0);
	(void)program_ask(&p, "record 10");
	for (size_t i = 0; i < ELEMENTSOF(broken); i++) {
		house_configure(h, broken[i]);
		g_assert_cmpint(manager_reload(h->manager, &f), <, 0);
		g_assert_cmpint(f.kind, ==, FAILURE_CONFIG);
		g_assert_cmpmem(before, sizeof(*before), board_page(h->manager->ground.board),
				sizeof(*before));
		g_assert_cmpmem(&daemon, sizeof(daemon), &h->manager->daemon, sizeof(daemon));
		g_assert_cmpuint(manager_n_sessions(h->manager), ==, 2);
	}
	g_assert_cmpint(remove(h->config), ==, 0);
	g_assert_cmpint(manager_reload(h->manager, &f), <, 0);
	g_assert_cmpmem(before, sizeof(*before), board_page(h->manager->ground.board), sizeof(*before));
	(void)program_ask(&p, "record 10");
	g_assert_cmpuint(house_info(h, "flight").recorded, ==, 20);
	program_end(&p);
	g_free(before);
}

/* Eight threads record while sessions change policy and memory, come, and go; one that nothing is said of goes on in its
 * rings, and nothing that is read is torn. */
static void test_reload_load(House *h, gconstpointer unused)
{
	static const char *const configs[] = {
		"sessions: { " ONE("flight", "") ONE("second", "") " };",
		"sessions: { " ONE("flight", "") ONE("second", "policy = \"discard\";") " };",
		"sessions: { " ONE("flight", "") " second: { autostart = true; events = [ \"shop:*\" ]; "
		"memory = \"4M\"; }; };",
		"sessions: { " ONE("flight", "") " };",
		"sessions: { " ONE("flight", "") ONE("second", "") " third: { autostart = true; memory = "
		"\"1M\"; events = [ \"other\" ]; }; };",
	};
	u32 generation = manager_find(h->manager, "flight")->generation;
	u64 recorded = 0;
	Program p;
	Failure f;

	program_start(h, &p, 0);
	(void)program_ask(&p, "enabled");
	(void)program_ask(&p, "threads 8");
	for (u32 i = 0; i < 60; i++) {
		SessionInfo info;
		Session *s;

		house_configure(h, configs[i % ELEMENTSOF(configs)]);
		g_assert_cmpint(manager_reload(h->manager, &f), ==, 0);
		for (int turn = 0; turn < 5; turn++)
			house_turn(h, 2000);
		info = house_info(h, "flight");
		g_assert_cmpuint(info.recorded, >=, recorded);
		recorded = info.recorded;
		s = manager_find(h->manager, "second");
		g_assert_true(!s == (i % ELEMENTSOF(configs) == 3));
		if (i < 50)
			continue;
		g_assert_cmpuint(trace_count(house_snapshot(h, "flight"), "other:"), ==, 0);
		if (s && house_info(h, "second").recorded)
			g_assert_cmpuint(trace_count(house_snapshot(h, "second"), "other:"), ==, 0);
	}
	g_assert_cmpuint(manager_find(h->manager, "flight")->generation, ==, generation);
	for (Session *s = h->manager->sessions; s; s = s->next)
		g_assert_cmpuint(house_info(h, s->config->name).corrupt, ==, 0);
	g_assert_cmpuint(recorded, >, 0);
	g_assert_nonnull(program_ask(&p, "join"));
	program_end(&p);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	(void)signal(SIGPIPE, SIG_IGN);
	journal_set_level(g_test_verbose() ? LOG_DEBUG : LOG_CRIT);
	for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
		char *path = g_strdup_printf("/scopes/%s", cases[i].name);

		g_test_add_data_func(path, &cases[i], test_case);
		g_free(path);
	}
#define ADD(name, config, fn) g_test_add(name, House, config, house_up, fn, house_down)
	ADD("/scopes/unit",
	    "sessions: { " ONE("mine", "buffers = \"per-unit\"; units = [ \"tracer-scopes-*\" ];")
	    ONE("other", "units = [ \"nginx.service\" ];") " };", test_unit);
	ADD("/failures/units",
	    "sessions: { " ONE("exact", "snapshot: { on_unit_failure = [ \"nginx.service\" ]; };")
	    ONE("glob", "snapshot: { min_interval = \"0\"; on_unit_failure = [ \"*.service\" ]; };")
	    ONE("else", "snapshot: { on_unit_failure = [ \"ngin.service\", \"mysql*\" ]; };")
	    "idle: { snapshot: { on_unit_failure = [ \"*\" ]; }; }; };", test_failure);
	ADD("/reload/broken", "sessions: { " ONE("flight", "") ONE("second", "") " };", test_reload_broken);
	ADD("/reload/load", "sessions: { " ONE("flight", "") ONE("second", "") " };", test_reload_load);
	return g_test_run();
}
