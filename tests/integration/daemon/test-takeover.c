/* SPDX-License-Identifier: MIT */
/* The daemon dies, and the next one goes on: programs do not notice, and nothing that was recorded is missing or there twice. */
#include "tests/integration/daemon/keeper.h"

#include <signal.h>
#include <sys/wait.h>

#define FLIGHT(settings)                                                                           \
	"sessions: { flight: { autostart = true; events = [ \"shop:*\" ]; memory = \"8M\"; " settings \
	" snapshot: { on_crash = true; min_interval = \"0\"; }; }; };"

static void check_run(const char *path, u64 n)
{
	GArray *v = trace_numbers(path, "shop:");

	g_assert_cmpuint(v->len, ==, n);
	for (u64 i = 0; i < n; i++)
		g_assert_cmpuint(g_array_index(v, u64, i), ==, i);
	g_array_unref(v);
}

static char *snapshots(const Keeper *k)
{
	return g_build_filename(k->state, "snapshots", "flight", NULL);
}

static void crash(KeptProgram *p)
{
	kept_program_tell(p, "signal 11");
	(void)waitpid(p->pid, NULL, 0);
	(void)fclose(p->to);
	(void)fclose(p->from);
	*p = (KeptProgram){ 0 };
}

/* Killed while it does nothing, and while a program records; it has the program again, and its records. */
static void test_flight(const void *buffers)
{
	char *text = g_strdup_printf(FLIGHT("buffers = \"%s\";"), (const char *)buffers), *directory, **found;
	KeptProgram p;
	Keeper k;

	keeper_up(&k, text);
	keeper_start(&k);
	kept_program_start(&p, &k);
	(void)kept_program_ask(&p, "record 1000");
	for (int i = 0; i < 10; i++) {
		(void)keeper_end(&k, SIGKILL);
		(void)kept_program_ask(&p, "record 100");
		keeper_start(&k);
		(void)kept_program_ask(&p, "record 100");
	}
	g_assert_cmpint(keeper_fd(&k, "state"), >=, 0);
	g_assert_cmpint(keeper_fd(&k, "ring-1"), >=, 0);
	g_assert_cmpint(keeper_fd(&k, "ring-2"), <, 0);
	crash(&p);
	directory = snapshots(&k);
	found = paths_await(directory, "-crash", 1);
	check_run(found[0], 3000);
	g_strfreev(found);
	g_free(directory);
	g_free(text);
	keeper_down(&k);
}

/* It crashes while nobody is there to see it: the next daemon takes the snapshot. */
static void test_crash_meanwhile(void)
{
	char *directory, **found;
	KeptProgram p;
	Keeper k;

	keeper_up(&k, FLIGHT(""));
	keeper_start(&k);
	kept_program_start(&p, &k);
	(void)kept_program_ask(&p, "record 1000");
	(void)keeper_end(&k, SIGKILL);
	(void)kept_program_ask(&p, "record 500");
	crash(&p);
	keeper_start(&k);
	directory = snapshots(&k);
	found = paths_await(directory, "-crash", 1);
	check_run(found[0], 1500);
	g_strfreev(found);
	g_free(directory);
	keeper_down(&k);
}

/* Killed at any moment while it writes: every number is in one trace, once. */
static void test_writing(const void *io)
{
	char *text = g_strdup_printf(
		"sessions: { log: { autostart = true; events = [ \"shop:*\" ]; policy = \"%s\"; memory = \"32M\"; "
		"flush_interval = \"2ms\"; io = \"%s\"; output_keep_free = \"0\"; }; };",
		g_str_has_suffix(io, "+") ? "overwrite" : "discard", strtok(g_strdup(io), "+"));
	const int turns = g_test_slow() ? 200 : 25;
	GRand *random = g_rand_new_with_seed((guint32)g_test_rand_int());
	char *directory;
	GArray *v;
	u64 n = 0;
	KeptProgram p;
	Keeper k;

	keeper_up(&k, text);
	keeper_start(&k);
	kept_program_start(&p, &k);
	for (int i = 0; i < turns; i++) {
		kept_program_tell(&p, "record 20000");
		/* while it records, or just after */
		g_usleep((gulong)g_rand_int_range(random, 0, 4000));
		(void)keeper_end(&k, SIGKILL);
		kept_program_tell(&p, "record 1000");
		keeper_start(&k);
		(void)kept_program_hear(&p);
		(void)kept_program_hear(&p);
		n += 21000;
	}
	(void)keeper_end(&k, SIGTERM);
	directory = g_build_filename(k.state, "traces", "log", NULL);
	v = trace_numbers(directory, "shop:");
	for (u64 i = 0; i < MIN(v->len, n); i++)
		if (g_array_index(v, u64, i) != i)
			g_error("place %" G_GUINT64_FORMAT " has %" G_GUINT64_FORMAT, (guint64)i,
				(guint64)g_array_index(v, u64, i));
	g_assert_cmpuint(v->len, ==, n);
	g_array_unref(v);
	g_rand_free(random);
	kept_program_end(&p);
	g_free(directory);
	g_free(text);
	keeper_down(&k);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_data_func("/takeover/flight/user", "per-user", test_flight);
	g_test_add_data_func("/takeover/flight/process", "per-process", test_flight);
	g_test_add_func("/takeover/crash-meanwhile", test_crash_meanwhile);
	g_test_add_data_func("/takeover/writing/auto", "auto", test_writing);
	g_test_add_data_func("/takeover/writing/write", "write", test_writing);
	g_test_add_data_func("/takeover/writing/mmap", "mmap", test_writing);
	g_test_add_data_func("/takeover/writing/splice", "splice", test_writing);
	g_test_add_data_func("/takeover/writing/overwrite", "auto+", test_writing);
	return g_test_run();
}
