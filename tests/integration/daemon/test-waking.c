/* SPDX-License-Identifier: MIT */
/* Who wakes a consumer that rests, and whom it wakes. All who sleep here wake up in time without it, since nobody relies on
 * being called: so it is not looked at how long it takes, but whether the call is made. */
#include "tests/integration/daemon/writing.h"

#include "lib/atomic.h"
#include "systemd/journal.h"

#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>

/* Nothing is due: it rests for as long as it may. */
#define IDLE(policy) CONFIG("io = \"write\"; policy = \"" policy "\"; memory = \"1M\"; flush_interval = \"1h\";")

static const struct abi_control *head(House *h)
{
	return &board_page(h->manager->ground.board)->head;
}

static u32 slot(House *h)
{
	return manager_find(h->manager, "log")->slot;
}

/* ---- orders wake it ---- */

/* Sleeps where the consumer does, and is woken when it is called, by nothing else. */
typedef struct {
	const u32 *word;
	u32 tid, woken;
	GThread *thread;
} Sleeper;

static gpointer sleep_there(gpointer userdata)
{
	Sleeper *s = userdata;

	store_release_u32(&s->tid, (u32)syscall(SYS_gettid));
	/* 1: it rests, and wants to be called */
	while (syscall(SYS_futex, s->word, FUTEX_WAIT, 1, NULL, NULL, 0) < 0)
		(void)sched_yield();
	store_release_u32(&s->woken, 1);
	return NULL;
}

static bool is_asleep(void *userdata)
{
	Sleeper *s = userdata;
	u32 tid = load_acquire_u32(&s->tid);
	g_autofree char *path = g_strdup_printf("/proc/self/task/%u/syscall", tid), *text = NULL;
	unsigned long call, word;

	return tid && g_file_get_contents(path, &text, NULL, NULL) && sscanf(text, "%lu 0x%lx", &call, &word) == 2 &&
	       call == SYS_futex && word == (unsigned long)(uintptr_t)s->word;
}

static bool is_woken(void *userdata)
{
	return load_acquire_u32(&((Sleeper *)userdata)->woken);
}

static Sleeper *sleeper_new(House *h)
{
	Sleeper *s = g_new0(Sleeper, 1);

	s->word = &head(h)->wake[slot(h)];
	s->thread = g_thread_new("sleeper", sleep_there, s);
	house_until(h, is_asleep, s);
	g_assert_false(is_woken(s));
	return s;
}

static void sleeper_free(House *h, Sleeper *s)
{
	house_until(h, is_woken, s);
	(void)g_thread_join(s->thread);
	g_free(s);
}

static void test_order(House *h, gconstpointer unused)
{
	Sleeper *s = sleeper_new(h);
	Answer a = { 0 };

	g_assert_null(rotate(h, &a)); /* there is nothing yet */
	sleeper_free(h, s);
}

static void test_stop(House *h, gconstpointer unused)
{
	Sleeper *s = sleeper_new(h);

	/* without an end of the session, which calls for itself */
	set_key(h, "io", "none");
	sleeper_free(h, s);
}

/* ---- it wakes writers ---- */

/* It may not be answered in time, on a busy machine: then it is asked again. */
static bool is_recorded(void *userdata)
{
	Program *p = userdata;

	(void)program_ask(p, "record 1");
	return house_info(p->house, "log").recorded > 0;
}

/* Whoever waits for room is told of it, and not when there is no more than before. */
static void test_progress(House *h, gconstpointer unused)
{
	const u32 *progress = &head(h)->progress[slot(h)];
	u32 before = load_acquire_u32(progress);
	Answer a = { 0 };
	Program p;

	program_start(h, &p, 0);
	house_until(h, is_recorded, &p);
	(void)program_ask(&p, "record 100000"); /* several times what the rings hold */
	g_assert_cmpuint(load_acquire_u32(progress), !=, before);
	(void)rotate(h, &a);
	(void)rotate(h, &a); /* behind all that the first has given */
	before = load_acquire_u32(progress);
	for (u32 i = 0; i < 5; i++)
		g_assert_null(rotate(h, &a));
	g_assert_cmpuint(load_acquire_u32(progress), ==, before);
	stop_well(h);
	program_end(&p);
	g_free(a.path);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	(void)signal(SIGPIPE, SIG_IGN);
	journal_set_level(g_test_verbose() ? LOG_DEBUG : LOG_CRIT);
	g_test_add("/waking/order", House, IDLE("discard"), house_up, test_order, house_down);
	g_test_add("/waking/stop", House, IDLE("discard"), house_up, test_stop, house_down);
	g_test_add("/waking/progress", House, IDLE("block"), house_up, test_progress, house_down);
	return g_test_run();
}
