/* SPDX-License-Identifier: MIT */
/* A hostile program of another user: the daemon lives, says so, drops it; the rings of other users are untouched. */
#include "tests/integration/daemon/attack.h"

#include "systemd/journal.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

static const char config[] = "daemon: { sync_timeout = \"300ms\"; };"
			     "sessions: { flight: { autostart = true; events = [ \"shop:*\" ]; memory = "
			     "\"1M\"; }; };";

static bool quiet(void *userdata)
{
	House *h = userdata;

	return listener_n_exchanges(h->manager->listener) == 0 && manager_n_producers(h->manager) <= 1;
}

static void attack(House *h, gconstpointer mode)
{
	Account *account = h->manager->ground.account;
	Program p;
	Attack a;

	program_start(h, &p, 0);
	(void)program_ask(&p, "record 100");
	attack_begin(&a, mode);
	for (int i = 0; i < 5; i++)
		(void)program_ask(&p, "record 20"); /* served meanwhile */
	attack_finish(h, &a);
	house_until(h, quiet, h);
	g_assert_cmpuint(account_total(account, CHARGE_CONNECTIONS), ==, 0);
	g_assert_cmpuint(account_total(account, CHARGE_PRODUCERS), ==, 1);
	if (getuid() == 0)
		g_assert_cmpuint(account_of(account, NOBODY, CHARGE_CLASSES), <=, 64);
	(void)program_ask(&p, "record 100");
	g_assert_cmpuint(trace_count(house_snapshot(h, "flight"), "customer"), ==, 300);
	program_end(&p);
}

static void test_malformed(House *h, gconstpointer unused)
{
	attack(h, "malformed");
}

static void test_flood(House *h, gconstpointer unused)
{
	attack(h, "flood");
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

static void test_descriptors(House *h, gconstpointer unused)
{
	u32 before = n_descriptors();

	attack(h, "descriptors");
	/* none of the six thousand that were sent to us; the rings of its one owner stay */
	g_assert_cmpuint(n_descriptors(), <=, before + 2);
}

static void test_deaf(House *h, gconstpointer unused)
{
	u32 generation = board_generation(h->manager->ground.board), retries = board_retries(h->manager->ground.board);
	gint64 begun = g_get_monotonic_time();

	attack(h, "deaf");
	/* those that failed may ask again, but not once per deaf ear; and nothing is news to the others */
	g_assert_cmpuint(board_retries(h->manager->ground.board) - retries, <=,
			 (g_get_monotonic_time() - begun) / G_USEC_PER_SEC + 2);
	g_assert_cmpuint(board_generation(h->manager->ground.board), ==, generation);
}

typedef struct {
	House *h;
	u32 retries;
} Asked;

static bool asks_again(void *userdata)
{
	Asked *a = userdata;

	return board_retries(a->h->manager->ground.board) != a->retries;
}

/* A program whose patience was over before it was read: of its own accord it would not ask again, so those that failed are asked to. */
static void test_gave_up(House *h, gconstpointer unused)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	Asked a = { h, board_retries(h->manager->ground.board) };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	(void)g_snprintf(address.sun_path, sizeof(address.sun_path), "%s/producer.sock", h->runtime);
	g_assert_cmpint(connect(fd, (struct sockaddr *)&address, sizeof(address)), ==, 0);
	(void)close(fd);
	house_until(h, asks_again, &a);
}

static void test_scribble(House *h, gconstpointer unused)
{
	char word[64], *victim;
	u32 n_snapshots = 0;
	Program p;
	Attack a;

	if (getuid() != 0) {
		g_test_skip("two users are needed: run as root");
		return;
	}
	program_start(h, &p, 0);
	(void)program_ask(&p, "record 1000");
	attack_begin(&a, "scribble");
	/* it has its ring once the loop has answered it */
	while (!attack_over(&a)) {
		const char *path;

		house_turn(h, 1000);
		if (house_info(h, "flight").n_owners < 2)
			continue;
		path = house_snapshot(h, "flight");
		g_assert_nonnull(path);
		n_snapshots++;
		victim = g_build_filename(path, "user-0", NULL);
		g_assert_cmpuint(trace_count(victim, "customer"), ==, 1000);
		g_free(victim);
		/* its own trace may be nonsense, but readable nonsense */
		g_free(trace_text(path));
	}
	(void)read(a.out, word, sizeof(word));
	attack_finish(h, &a);
	g_assert_cmpuint(n_snapshots, >=, 3);
	{
		SessionInfo i = house_info(h, "flight"); /* figures out of scribbled lines do not crash */

		g_test_message("%u snapshots, recorded %llu, corrupt %llu", n_snapshots,
			       (unsigned long long)i.recorded, (unsigned long long)i.corrupt);
	}
	g_assert_cmpint(manager_remove_session(h->manager, "flight", NULL), ==, 0);
	g_assert_cmpuint(account_total(h->manager->ground.account, CHARGE_MEMORY), ==, 0);
	program_end(&p);
}

static Owner *owner_of(House *h, uid_t uid)
{
	Owner *o = manager_find(h->manager, "flight")->owners;

	while (o && o->key.uid != uid)
		o = o->next;
	return o;
}

/* Its own numbers are nonsense: they are not believed, nobody else's suffer, no sum falls or wraps, and it shows. */
static void test_counters(House *h, gconstpointer unused)
{
	u64 recorded = 0, lost = 0, begin = manager_now();
	SessionInfo i;
	OwnerCounters c = {};
	Program p;
	Attack a;

	if (getuid() != 0) {
		g_test_skip("two users are needed: run as root");
		return;
	}
	program_start(h, &p, 0);
	(void)program_ask(&p, "record 1000");
	attack_begin(&a, "counters");
	while (!attack_over(&a)) {
		house_turn(h, 1000);
		i = house_info(h, "flight");
		g_assert_cmpuint(i.recorded, >=, MAX(recorded, 1000));
		g_assert_cmpuint(i.discarded, >=, lost);
		recorded = i.recorded;
		lost = i.discarded;
	}
	attack_finish(h, &a);
	i = house_info(h, "flight");
	g_assert_cmpuint(i.corrupt, ==, 1); /* said once */
	/* at most an event a nanosecond, on every line of the region, and the second of grace */
	g_assert_cmpuint(i.recorded + i.discarded, <,
			 (manager_now() - begin + 2 * NSEC_PER_SEC) * 100);
	(void)owner_count(owner_of(h, 0), &c);
	g_assert_cmpuint(c.recorded, ==, 1000);
	g_assert_cmpuint(c.discarded, ==, 0);
	g_assert_false(owner_of(h, 0)->liar);
	g_assert_true(owner_of(h, NOBODY)->liar);
	/* and whoever is honest is still counted */
	(void)program_ask(&p, "record 500");
	g_assert_cmpuint(house_info(h, "flight").recorded, ==, i.recorded + 500);
	g_assert_cmpint(manager_clear_session(h->manager, "flight", NULL), ==, 0);
	g_assert_cmpuint(house_info(h, "flight").corrupt, ==, 0);
	(void)program_ask(&p, "record 5");
	g_assert_cmpuint(house_info(h, "flight").recorded, ==, 5);
	program_end(&p);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	(void)signal(SIGPIPE, SIG_IGN);
	journal_set_level(g_test_verbose() ? LOG_DEBUG : LOG_CRIT);
#define ADD(name, fn) g_test_add("/hostile/" name, House, config, house_up, fn, house_down)
	ADD("malformed", test_malformed);
	ADD("flood", test_flood);
	ADD("descriptors", test_descriptors);
	ADD("deaf", test_deaf);
	ADD("gave-up", test_gave_up);
	ADD("scribble", test_scribble);
	ADD("counters", test_counters);
	return g_test_run();
}
