/* SPDX-License-Identifier: MIT */
/* One user comes in numbers; every other user's programs attach all the same, and in time. */
#include "tests/integration/daemon/attack.h"

#include "systemd/journal.h"

#include <dirent.h>
#include <signal.h>

/* longer than the patience of a program (200 ms), so that the deadlines of an attacker do not save it */
#define DAEMON "daemon: { sync_timeout = \"2s\"; max_classes_per_user = 9000; };"
#define FLIGHT "flight: { autostart = true; events = [ \"shop:*\" ]; memory = \"1M\"; "        \
	       "snapshot: { on_crash = false; }; };"

static u32 n_descriptors(void)
{
	DIR *d = opendir("/proc/self/fd");
	u32 n = 0;

	while (readdir(d))
		n++;
	(void)closedir(d);
	return n;
}

static bool quiet(void *userdata)
{
	House *h = userdata;

	return listener_n_exchanges(h->manager->listener) == 0 &&
	       manager_n_producers(h->manager) == 0 && jobs_n(h->manager->jobs) == 0;
}

/* Programs that begin while the attack goes on: what they record arrives. */
static void attack(House *h, const char *mode, u32 least_programs)
{
	Account *account = h->manager->ground.account;
	u32 descriptors, n_programs = 0;
	u64 n_records = 0;
	Attack a;

	(void)g_setenv("TRACER_TEST_HOSTILE", g_getenv("TRACER_TEST_CROWD"), true);
	descriptors = n_descriptors();
	attack_begin(&a, mode);
	while (!attack_over(&a)) {
		Program p;

		program_start(h, &p, 0);
		g_assert_nonnull(program_ask(&p, "record 10"));
		n_programs++;
		n_records += 10;
		program_end(&p);
	}
	attack_finish(h, &a);
	house_until(h, quiet, h);
	g_test_message("%u programs came and went meanwhile", n_programs);
	g_assert_cmpuint(n_programs, >=, least_programs);
	for (Session *s = h->manager->sessions; s; s = s->next) {
		u64 found = s->past.recorded;

		for (Owner *o = s->owners; o; o = o->next) {
			OwnerCounters c = {};

			if (o->key.uid == 0)
				(void)owner_count(o, &c);
			found += c.recorded;
		}
		/* but for those that a busy machine kept longer than they are patient; without shares of the
		 * loop's time it is half of them and more */
		g_assert_cmpuint(found, <=, n_records);
		g_assert_cmpuint(found, >=, n_records * 6 / 10);
	}
	g_assert_cmpuint(account_total(account, CHARGE_CONNECTIONS), ==, 0);
	g_assert_cmpuint(account_total(account, CHARGE_PRODUCERS), ==, 0);
	/* the pages of owners stay; no more of an attacker's than one a session */
	g_assert_cmpuint(n_descriptors(), <=, descriptors + 2 * manager_n_sessions(h->manager));
}

static bool two_users(void)
{
	if (getuid() == 0)
		return true;
	g_test_skip("two users are needed: run as root");
	return false;
}

static void test_crowd(House *h, gconstpointer unused)
{
	if (two_users())
		attack(h, "crowd", 5);
}

static void test_heavy(House *h, gconstpointer unused)
{
	if (!two_users())
		return;
	/* as much work for the daemon as one program can cause */
	for (u32 i = 0; i < 20; i++) {
		char name[16], *events[] = { (char *)"s*:c*9*", (char *)"shop:*" };
		ConfigValue v = { .type = CONFIG_STRINGS, .strings = { events, 2 } };
		char *text = NULL;
		SessionConfig *c;

		(void)g_snprintf(name, sizeof(name), "more-%u", i);
		g_assert_cmpint(session_config_new(&c, name), ==, 0);
		g_assert_cmpint(session_config_set(c, "events", &v, &text), ==, 0);
		c->memory = 1 << 20;
		c->snapshot.on_crash = false;
		g_assert_cmpint(manager_create_session(h->manager, c, NULL, NULL), ==, 0);
		g_assert_cmpint(manager_start_session(h->manager, name, NULL), ==, 0);
	}
	attack(h, "heavy", 5);
}

static void test_turn(House *h, gconstpointer unused)
{
	if (two_users())
		attack(h, "turn", 0);
}

static void test_die(House *h, gconstpointer unused)
{
	if (two_users())
		attack(h, "die", 0);
}

static void test_classes(House *h, gconstpointer unused)
{
	if (two_users())
		attack(h, "classes", 0);
}

/* Another user's connection in a process that became root's. */
static void test_inherit(House *h, gconstpointer unused)
{
	Attack a;

	if (!two_users())
		return;
	(void)g_setenv("TRACER_TEST_HOSTILE", g_getenv("TRACER_TEST_CROWD"), true);
	(void)g_setenv("TRACER_TEST_ATTACKER_UID", "0", true);
	attack_begin(&a, "inherit");
	(void)g_unsetenv("TRACER_TEST_ATTACKER_UID");
	attack_finish(h, &a);
	house_until(h, quiet, h);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	(void)signal(SIGPIPE, SIG_IGN);
	journal_set_level(g_test_verbose() ? LOG_DEBUG : LOG_CRIT);
#define ADD(name, daemon, fn)                                                                      \
	g_test_add("/crowd/" name, House, daemon "sessions: { " FLIGHT " };", house_up, fn, house_down)
	ADD("crowd", DAEMON, test_crowd);
	ADD("heavy", DAEMON, test_heavy);
	ADD("turn", DAEMON, test_turn);
	ADD("die", DAEMON, test_die);
	ADD("classes", "daemon: { max_classes_per_user = 50; };", test_classes);
	ADD("inherit", DAEMON, test_inherit);
	return g_test_run();
}
