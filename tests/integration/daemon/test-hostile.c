/* SPDX-License-Identifier: MIT */
/* A hostile program of another user: the daemon lives, says so, drops it; the rings of other users are untouched. */
#include "tests/integration/daemon/attack.h"

#include "systemd/journal.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

static const char config[] = "daemon: { sync_timeout = \"300ms\"; };"
			     "sessions: { flight: { autostart = true; events = [ \"shop:*\" ]; memory = "
			     "\"1M\"; }; };";

/* Connections that say nothing stay until the test closes them, so that nothing else makes the daemon ask for its programs. */
static const char patient[] = "daemon: { sync_timeout = \"60s\"; };"
			      "sessions: { flight: { autostart = true; events = [ \"shop:*\" ]; memory = "
			      "\"1M\"; }; later: { events = [ \"shop:*\" ]; memory = \"1M\"; }; };";

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

/* A connection that says nothing; -1: there is no room for it in the queue. */
static int stand_in_queue(House *h)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	g_assert_cmpint(fd, >=, 0);
	(void)g_snprintf(address.sun_path, sizeof(address.sun_path), "%s/producer.sock", h->runtime);
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0)
		return fd;
	g_assert_cmpint(errno, ==, EAGAIN);
	(void)close(fd);
	return -1;
}

/* A program whose patience was over before it was read: of its own accord it would not ask again, so those that failed are asked to. */
static void test_gave_up(House *h, gconstpointer unused)
{
	Asked a = { h, board_retries(h->manager->ground.board) };

	(void)close(stand_in_queue(h));
	house_until(h, asks_again, &a);
}

/* ---- no room ---- */

#define FEW 3

typedef struct {
	House *h;
	Program *program;
	const char *session;
	u64 n;
} Recorded;

/* A record each time: the program synchronises with the first after it was asked to, and if that takes too long for it,
 * with another. */
static bool is_recorded(void *userdata)
{
	Recorded *r = userdata;

	(void)program_ask(r->program, "record 1");
	r->n++;
	return house_info(r->h, r->session).recorded > 0;
}

static ProducerInfo the_producer(House *h)
{
	ProducerInfo info;

	g_assert_cmpuint(manager_n_producers(h->manager), ==, 1);
	g_assert_true(manager_producer(h->manager, 0, &info));
	return info;
}

static bool few_are_in(void *userdata)
{
	return listener_n_exchanges(((House *)userdata)->manager->listener) == FEW;
}

/* A user's connections are all taken, or everybody's: who finds none is refused, and asks again when it is told to. */
static void quota(House *h, bool everybodys)
{
	Account *account = h->manager->ground.account;
	AccountLimits usual = *account_limits(account), low = usual;
	Asked a = { h, board_retries(h->manager->ground.board) };
	int fds[FEW];
	Program p;
	Recorded r = { h, &p, "flight", 0 };

	g_assert_cmpuint(usual.per_user[CHARGE_CONNECTIONS], ==, LISTENER_MAX_CONNECTIONS_PER_USER);
	g_assert_cmpuint(usual.total[CHARGE_CONNECTIONS], ==, LISTENER_MAX_CONNECTIONS);
	(everybodys ? low.total : low.per_user)[CHARGE_CONNECTIONS] = FEW;
	account_set_limits(account, &low);
	for (u32 i = 0; i < FEW; i++)
		fds[i] = stand_in_queue(h);
	house_until(h, few_are_in, h);
	/* it asks as it begins */
	program_start(h, &p, 0);
	g_assert_cmpuint(manager_n_producers(h->manager), ==, 0);
	g_assert_true(few_are_in(h));
	account_set_limits(account, &usual);
	house_until(h, asks_again, &a);
	house_until(h, is_recorded, &r);
	g_assert_cmpuint(house_info(h, "flight").recorded + the_producer(h).missed, ==, r.n);
	g_assert_cmpuint(the_producer(h).failed, >=, 1);
	program_end(&p);
	for (u32 i = 0; i < FEW; i++)
		(void)close(fds[i]);
}

static void test_quota(House *h, gconstpointer unused)
{
	quota(h, false);
}

static void test_quota_of_all(House *h, gconstpointer unused)
{
	quota(h, true);
}

/* As many descriptors as a full queue takes, both ends of it; false: not to be had. */
static bool many_descriptors(void)
{
	struct rlimit r;

	g_assert_cmpint(getrlimit(RLIMIT_NOFILE, &r), ==, 0);
	r.rlim_cur = MAX(r.rlim_cur, MIN(r.rlim_max, 4096));
	return setrlimit(RLIMIT_NOFILE, &r) == 0 && r.rlim_cur >= 4096;
}

/* The queue is full, and the loop does not turn: nobody hears of a program that finds no place in it, so those that
 * failed are asked when the daemon sees how long it was. */
static void test_queue(House *h, gconstpointer unused)
{
	GArray *fds = g_array_new(false, false, sizeof(int));
	AccountLimits none = { 0 };
	struct pollfd answer;
	Failure f;
	Asked a;
	Program p;
	Recorded first = { h, &p, "flight", 0 }, r = { h, &p, "later", 0 };
	int fd;

	if (!many_descriptors()) {
		g_test_skip("no descriptors for so many connections");
		g_array_unref(fds);
		return;
	}
	/* a refusal would make the daemon ask as well */
	account_set_limits(h->manager->ground.account, &none);
	(void)g_setenv("TRACER_ATTACH_TIMEOUT", "200", true);
	program_start(h, &p, 0);
	house_until(h, is_recorded, &first);
	g_assert_cmpint(manager_start_session(h->manager, "later", &f), ==, 0);
	a = (Asked){ h, board_retries(h->manager->ground.board) };
	while ((fd = stand_in_queue(h)) >= 0)
		g_array_append_val(fds, fd);
	program_tell(&p, "record 3");
	answer = (struct pollfd){ .fd = p.out, .events = POLLIN };
	g_assert_cmpint(poll(&answer, 1, -1), ==, 1);
	g_assert_false(asks_again(&a));
	g_assert_nonnull(program_line(&p));
	house_until(h, asks_again, &a);
	g_assert_cmpuint(listener_n_exchanges(h->manager->listener), ==, fds->len);
	g_assert_cmpuint(house_info(h, "later").recorded, ==, 0);
	house_until(h, is_recorded, &r);
	g_assert_cmpuint(house_info(h, "flight").recorded + house_info(h, "later").recorded + the_producer(h).missed, ==,
			 first.n + 2 * (3 + r.n));
	g_assert_cmpuint(the_producer(h).failed, >=, 1);
	program_end(&p);
	for (u32 i = 0; i < fds->len; i++)
		(void)close(g_array_index(fds, int, i));
	g_array_unref(fds);
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
	g_test_add("/hostile/quota", House, patient, house_up, test_quota, house_down);
	g_test_add("/hostile/quota/everybodys", House, patient, house_up, test_quota_of_all, house_down);
	g_test_add("/hostile/queue", House, patient, house_up, test_queue, house_down);
	ADD("scribble", test_scribble);
	ADD("counters", test_counters);
	return g_test_run();
}
