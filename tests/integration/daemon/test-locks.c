/* SPDX-License-Identifier: MIT */
/* Side rings whose holder will never come back, and one whose holder will. A program without rseq, which has only side
 * rings to record into, is the judge. */
#include "tests/integration/daemon/house.h"

#include "lib/atomic.h"
#include "lib/side.h"
#include "systemd/journal.h"

#include <signal.h>
#include <sys/wait.h>

static const char config[] = "sessions: { flight: { autostart = true; events = [ \"shop:*\" ]; memory = "
			     "\"1M\"; }; };";

static const Owner *the_owner(House *h)
{
	const Session *s = manager_find(h->manager, "flight");

	g_assert_cmpuint(s->n_owners, ==, 1);
	return s->owners;
}

static u32 n_held(House *h)
{
	const Owner *o = the_owner(h);
	const struct geometry *g = &o->region.geometry;
	u32 n = 0, number, tid;

	for (u32 i = 0; i < g->n_side; i++)
		n += side_holder((const struct abi_ring *)(o->region.map + ABI_PAGE) + g->n_ring + i, &number,
				 &tid);
	return n;
}

static void tick(House *h)
{
	(void)manager_on_tick(h->manager->tick, 0, h->manager);
}

/* A program that can only use side rings. */
static void judge_start(House *h, Program *p)
{
	(void)g_setenv("GLIBC_TUNABLES", "glibc.pthread.rseq=0", true);
	program_start(h, p, 0);
	(void)g_unsetenv("GLIBC_TUNABLES");
}

static void holder_start(House *h, Program *p, const char *how)
{
	program_start_other(h, p, g_getenv("TRACER_TEST_HOLDER"), how);
	g_assert_cmpstr(p->line, ==, "held");
	g_assert_cmpuint(n_held(h), ==, the_owner(h)->region.geometry.n_side);
}

/* The judge loses what it records while the locks are held, and nothing afterwards. */
static void judge(House *h, Program *p, bool held)
{
	SessionInfo before = house_info(h, "flight"), after;

	(void)program_ask(p, "record 3");
	after = house_info(h, "flight");
	g_assert_cmpuint(after.recorded - before.recorded, ==, held ? 0 : 3);
	g_assert_cmpuint(after.lost[ABI_LOST_BUSY] - before.lost[ABI_LOST_BUSY], ==, held ? 3 : 0);
	g_assert_cmpuint(after.corrupt, ==, 0);
}

static bool unheld(void *userdata)
{
	return n_held(userdata) == 0;
}

/* Its holder is there, standing still: it may go on at any moment. */
static void test_live(House *h, gconstpointer unused)
{
	Program p, q;

	judge_start(h, &q);
	judge(h, &q, false);
	holder_start(h, &p, "live");
	g_assert_cmpint(kill(p.pid, SIGSTOP), ==, 0);
	g_assert_cmpint(waitpid(p.pid, NULL, WUNTRACED), ==, p.pid);
	for (int i = 0; i < 5; i++)
		tick(h);
	g_assert_cmpuint(n_held(h), >, 0);
	judge(h, &q, true);
	program_end(&p);
	house_until(h, unheld, h);
	judge(h, &q, false);
	program_end(&q);
}

static void test_dead(House *h, gconstpointer unused)
{
	Program p, q;

	judge_start(h, &q);
	judge(h, &q, false);
	holder_start(h, &p, "die");
	judge(h, &q, true);
	program_tell(&p, "go");
	house_until(h, unheld, h); /* with its death, without a tick */
	judge(h, &q, false);
	program_end(&p);
	program_end(&q);
}

/* One whose process lives on: found by the second look, not by the first. */
static void gone(House *h, const char *how)
{
	Program p, q;

	judge_start(h, &q);
	judge(h, &q, false);
	holder_start(h, &p, how);
	g_assert_cmpstr(program_ask(&p, "go"), ==, "held");
	judge(h, &q, true);
	tick(h);
	g_assert_cmpuint(n_held(h), >, 0);
	tick(h);
	g_assert_cmpuint(n_held(h), ==, 0);
	judge(h, &q, false);
	program_end(&p);
	program_end(&q);
}

static void test_thread(House *h, gconstpointer unused)
{
	gone(h, "thread");
}

static void test_exec(House *h, gconstpointer unused)
{
	gone(h, "exec");
}

/* Of a producer that the daemon does not know, with the number of a thread that there is: whoever has the ring can write
 * that. */
static void test_unknown(House *h, gconstpointer unused)
{
	const struct geometry *g;
	u64 word = 0xFFFFFFF0ull << 32 | (u32)getpid();
	struct abi_ring *lines;
	Program q;

	judge_start(h, &q);
	judge(h, &q, false);
	g = &the_owner(h)->region.geometry;
	lines = (struct abi_ring *)(the_owner(h)->region.map + ABI_PAGE) + g->n_ring;
	for (u32 i = 0; i < g->n_side; i++)
		store_release_u64(&lines[i].lock, word);
	judge(h, &q, true);
	tick(h);
	g_assert_cmpuint(n_held(h), ==, g->n_side);
	tick(h);
	g_assert_cmpuint(n_held(h), ==, 0);
	judge(h, &q, false);
	program_end(&q);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	(void)signal(SIGPIPE, SIG_IGN);
	journal_set_level(g_test_verbose() ? LOG_DEBUG : LOG_CRIT);
#define ADD(name, fn) g_test_add("/locks/" name, House, config, house_up, fn, house_down)
	ADD("live", test_live);
	ADD("dead", test_dead);
	ADD("thread", test_thread);
	ADD("exec", test_exec);
	ADD("unknown", test_unknown);
	return g_test_run();
}
