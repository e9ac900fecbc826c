/* SPDX-License-Identifier: MIT */
/* A hostile program of another user: the daemon lives, says so, drops it; the rings of other users are untouched. */
#include "tests/integration/daemon/house.h"

#include "systemd/journal.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

#define NOBODY 65534

static const char config[] = "daemon: { sync_timeout = \"300ms\"; };"
			     "sessions: { flight: { autostart = true; events = [ \"shop:*\" ]; memory = "
			     "\"1M\"; }; };";

typedef struct {
	pid_t pid;
	int status;
	bool ended;
	int out;
} Attack;

/* root's programs and nobody's are told apart; without root both are ours, in one owner */
static void attack_begin(Attack *a, const char *mode)
{
	const char *path = g_getenv("TRACER_TEST_HOSTILE");
	int out[2];

	g_assert_cmpint(pipe2(out, O_CLOEXEC), ==, 0);
	*a = (Attack){ .out = out[0] };
	a->pid = fork();
	g_assert_cmpint(a->pid, >=, 0);
	if (a->pid == 0) {
		(void)dup2(out[1], 1);
		if (getuid() == 0 && (setgid(NOBODY) < 0 || setuid(NOBODY) < 0))
			_exit(126);
		(void)execl(path, "hostile", mode, NULL);
		_exit(127);
	}
	(void)close(out[1]);
}

static bool attack_over(void *userdata)
{
	Attack *a = userdata;

	if (!a->ended && waitpid(a->pid, &a->status, WNOHANG) == a->pid)
		a->ended = true;
	return a->ended;
}

/* The loop is woken at least every 10 ms, by a timer, to see whether the attack is over. */
static void attack_finish(House *h, Attack *a)
{
	u64 end = manager_now() + 60 * NSEC_PER_SEC;

	while (!attack_over(a)) {
		g_assert_cmpuint(manager_now(), <, end);
		house_turn(h, 10000);
	}
	(void)close(a->out);
	if (!WIFEXITED(a->status) || WEXITSTATUS(a->status))
		g_error("the attack ended with 0x%x", a->status);
}

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

static void test_descriptors(House *h, gconstpointer unused)
{
	attack(h, "descriptors");
}

static void test_deaf(House *h, gconstpointer unused)
{
	u32 generation = board_generation(h->manager->ground.board);

	attack(h, "deaf");
	/* it asked again for everybody, but not once per deaf ear */
	g_assert_cmpuint(board_generation(h->manager->ground.board) - generation, <=, 4);
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
	ADD("scribble", test_scribble);
	return g_test_run();
}
