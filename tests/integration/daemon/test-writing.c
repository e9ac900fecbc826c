/* SPDX-License-Identifier: MIT */
/* Sessions that write continuously: nothing is lost or doubled that is not counted, whatever the disk does. Everything that is
 * compared was read by babeltrace2. */
#include "tests/integration/daemon/writing.h"

#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>

static void test_empty(House *h, gconstpointer unused)
{
	char *output = output_of(h);
	SessionInfo i;

	for (int turn = 0; turn < 3; turn++) {
		stop_well(h);
		i = check_sums(h, 0);
		g_assert_cmpuint(i.discarded, ==, 0);
		g_assert_cmpuint(count_entries(output), ==, 0);
		start(h);
	}
	g_free(output);
}

static void test_burst(House *h, gconstpointer unused)
{
	char *output = output_of(h);
	SessionInfo i;
	Program p;

	program_start(h, &p, 0);
	(void)program_ask(&p, "record 5000");
	stop_well(h);
	i = check_sums(h, 5000);
	g_assert_cmpuint(i.written, ==, 5000);
	check_all(output, 5000);
	/* what was stopped goes on where it was */
	start(h);
	(void)program_ask(&p, "record 300000");
	stop_well(h);
	i = check_sums(h, 305000);
	check_counted(output, 305000, i.discarded + i.overwritten);
	program_end(&p);
	g_free(output);
}

static const char *const strategies[] = { "write", "mmap", "splice", "direct", "auto" };

/* The same events out of each; changed while the session runs, and while a program records. */
static void test_strategies(House *h, gconstpointer unused)
{
	char *output = output_of(h);
	Traces t = { h, 0 };
	Program p;

	program_start(h, &p, 0);
	for (u32 i = 0; i < 3 * ELEMENTSOF(strategies); i++) {
		SessionConfig *c = session_config_copy(manager_find(h->manager, "log")->config);
		const char *name = strategies[i % ELEMENTSOF(strategies)];
		char *text = NULL;
		Failure f;

		g_assert_cmpint(session_config_set(
					c, "io", &(ConfigValue){ .type = CONFIG_STRING, .string = name }, &text),
				==, 0);
		g_assert_cmpint(manager_configure_session(h->manager, c, &f), ==, 0);
		(void)program_ask(&p, "record 10000");
		/* each strategy gets its share */
		t.n += 10000;
		house_until(h, enough_written, &t);
	}
	stop_well(h);
	(void)check_sums(h, 150000);
	check_all(output, 150000);
	g_assert_cmpuint(count_entries(output), >=, ELEMENTSOF(strategies));
	program_end(&p);
	g_free(output);
}

/* What does not end the trace that is being written must not leave it with a configuration that is gone. */
static void test_configure(House *h, gconstpointer unused)
{
	char *output = output_of(h);
	Traces t = { h, 100 };
	Program p;

	program_start(h, &p, 0);
	(void)program_ask(&p, "record 100");
	house_until(h, enough_written, &t);
	set_key(h, "flush_interval", "30ms");
	set_key(h, "flush_interval", "40ms");
	/* more classes: the metadata is said again */
	(void)program_ask(&p, "extra 100");
	stop_well(h);
	(void)check_sums(h, 200);
	g_assert_cmpuint(count_entries(output), ==, 1);
	g_assert_cmpuint(trace_count(output, "shop:"), ==, 200);
	program_end(&p);
	g_free(output);
}

static bool has_ended(void *userdata)
{
	return !manager_find(((House *)userdata)->manager, "log")->writing;
}

/* Into memory only, and back to the disk before that has quite ended: never two that empty the same rings. */
static void test_none(House *h, gconstpointer unused)
{
	char *output = output_of(h);
	Traces t = { h, 0 };
	Program p;

	program_start(h, &p, 0);
	for (int i = 0; i < 40; i++) {
		(void)program_ask(&p, "record 1000");
		t.n += 1000;
		set_key(h, "io", "none");
		if (i & 1)
			house_until(h, has_ended, h);
		set_key(h, "io", i & 2 ? "write" : "auto");
	}
	house_until(h, enough_written, &t);
	stop_well(h);
	(void)check_sums(h, t.n);
	check_all(output, t.n);
	program_end(&p);
	g_free(output);
}

/* What is overwritten while nothing is written is counted as it happens, and no counter falls on the way there or back. */
static void test_none_overwrite(House *h, gconstpointer unused)
{
	char *output = g_strdup(manager_find(h->manager, "log")->output);
	Traces t = { h, 1000 };
	SessionInfo i, before = { 0 };
	Program p;
	u64 n = 0;

	program_start(h, &p, 0);
	if (session_is_continuous(manager_find(h->manager, "log"))) {
		(void)program_ask(&p, "record 1000");
		n += 1000;
		house_until(h, enough_written, &t);
		set_key(h, "io", "none");
		house_until(h, has_ended, h);
		before = house_info(h, "log");
		g_assert_cmpuint(before.written, ==, n);
	}
	for (int turn = 0; turn < 4; turn++) {
		(void)program_ask(&p, "record 100000");
		n += 100000;
		i = house_info(h, "log");
		g_assert_cmpuint(i.recorded, ==, n);
		g_assert_cmpuint(i.written, ==, before.written);
		/* a ring has room for so many at most */
		g_assert_cmpuint(n - i.written - i.overwritten, <=, (1 << 20) / 24);
		g_assert_cmpuint(i.overwritten, >=, before.overwritten + 100000 - (1 << 20) / 24);
		before = i;
	}
	set_key(h, "io", "write");
	i = house_info(h, "log");
	g_assert_cmpuint(i.overwritten, >=, before.overwritten);
	(void)program_ask(&p, "record 100");
	n += 100;
	stop_well(h);
	i = check_sums(h, n);
	g_assert_cmpuint(i.overwritten, >=, before.overwritten);
	check_counted(output, n, i.overwritten);
	program_end(&p);
	g_free(output);
}

/* Events and output change under a program that records; nothing that was wanted is missing. */
static void test_changes(House *h, gconstpointer unused)
{
	char *first = output_of(h), *second = g_build_filename(h->directory, "elsewhere", NULL), *text = NULL;
	const char *patterns[] = { "shop:*", "other:*" };
	Traces t = { h, 1 };
	SessionConfig *c;
	Program p;
	Failure f;

	program_start(h, &p, 0);
	(void)program_ask(&p, "record 1000");
	g_assert_cmpint(manager_set_events(h->manager, "log", &(Strings){ (char **)patterns, 2 }, &f), ==, 0);
	(void)program_ask(&p, "record 1000");
	c = session_config_copy(manager_find(h->manager, "log")->config);
	g_assert_cmpint(session_config_set(c, "output",
					   &(ConfigValue){ .type = CONFIG_STRING, .string = second }, &text),
			==, 0);
	g_assert_cmpint(manager_configure_session(h->manager, c, &f), ==, 0);
	/* what was there goes to the first one, whenever the consumer comes to hear of the second */
	house_until(h, enough_traces, &t);
	(void)program_ask(&p, "record 1000");
	stop_well(h);
	(void)check_sums(h, 3000);
	g_assert_cmpuint(count_entries(first), ==, 1);
	g_assert_cmpuint(count_entries(second), ==, 1);
	g_assert_cmpuint(trace_count(first, "shop:order") + trace_count(second, "shop:order"), ==, 3000);
	g_assert_cmpuint(trace_count(second, "shop:order"), >, 0);
	program_end(&p);
	g_free(first);
	g_free(second);
}

/* A trace is there and readable as soon as it is said to be; each record is in exactly one. */
static void test_rotate(House *h, gconstpointer unused)
{
	char *output = output_of(h);
	Answer a = { 0 };
	Program p;
	u32 n = 0;

	program_start(h, &p, 0);
	for (int i = 0; i < 10; i++) {
		const char *path;

		(void)program_ask(&p, "record 700");
		path = rotate(h, &a);
		g_assert_nonnull(path);
		g_assert_cmpuint(trace_count(path, "shop:order"), ==, 700);
		n += 700;
	}
	g_assert_null(rotate(h, &a));
	g_assert_cmpint(a.failure.kind, ==, FAILURE_NOTHING);
	stop_well(h);
	(void)check_sums(h, n);
	check_all(output, n);
	g_assert_cmpuint(count_entries(output), ==, 10);
	g_free(a.path);
	program_end(&p);
	g_free(output);
}

/* A tenth of a second each, under two threads that record all the time. */
static void test_interval(House *h, gconstpointer unused)
{
	char *output = output_of(h);
	Traces t = { h, 5 };
	SessionInfo i;
	Program p;
	u64 said = 0;
	GArray *v;

	program_start(h, &p, 0);
	(void)program_ask(&p, "threads 1");
	house_until(h, enough_traces, &t);
	(void)sscanf(program_ask(&p, "join"), "joined %lu", &said);
	stop_well(h);
	i = check_sums(h, said);
	v = numbers(output, "shop:");
	g_assert_cmpuint(v->len, ==, i.written);
	for (u32 k = 1; k < v->len; k++)
		g_assert_cmpuint(g_array_index(v, u64, k - 1), <, g_array_index(v, u64, k));
	g_assert_cmpuint(said - v->len, ==, i.discarded);
	g_array_unref(v);
	program_end(&p);
	g_free(output);
}

/* The same for a minute (ten seconds, but with -m slow), at a rate that a reader can follow: every number, in one trace each. */
static void test_minute(House *h, gconstpointer unused)
{
	const u32 seconds = g_test_slow() ? 60 : 10;
	char *output = output_of(h);
	SessionInfo i;
	Program p;

	program_start(h, &p, 0);
	for (u32 k = 0; k < seconds; k++)
		(void)program_ask(&p, "pace 20000");
	stop_well(h);
	i = check_sums(h, 20000 * seconds);
	check_counted(output, 20000 * seconds, i.discarded);
	g_assert_cmpuint(count_entries(output), >, 2);
	g_test_message("%u traces, %u discarded", count_entries(output), (unsigned)i.discarded);
	program_end(&p);
	g_free(output);
}

/* ---- programs ---- */

/* One owner scribbles over all of its rings all the time: the others' traces are whole. */
static void check_kept(const char *path, u64 n, u64 discarded)
{
	GArray *v = numbers(path, "shop:");

	/* what a disk was too slow for; the bad one's are among those */
	g_assert_cmpuint(v->len, <=, n);
	g_assert_cmpuint(v->len + discarded, >=, n);
	for (u32 i = 1; i < v->len; i++)
		g_assert_cmpuint(g_array_index(v, u64, i - 1), <, g_array_index(v, u64, i));
	g_array_unref(v);
}

static void test_hostile(House *h, gconstpointer unused)
{
	char *output = output_of(h);
	Program good, bad;
	SessionInfo i;
	GDir *d;
	u64 n = 0;

	program_start(h, &good, 0);
	program_start_other(h, &bad, g_getenv("TRACER_TEST_SCRIBBLER"), NULL);
	for (int turn = 0; turn < 40; turn++) {
		(void)program_ask(&good, "record 2000");
		n += 2000;
		(void)program_ask(&bad, "scribble 20");
	}
	stop_well(h);
	i = house_info(h, "log");
	g_assert_cmpuint(i.corrupt, >, 0);
	/* the good one's trace: all that was not refused, in order; the bad one's may be anything, but babeltrace2 opens it */
	d = g_dir_open(output, 0, NULL);
	for (const char *chunk; (chunk = g_dir_read_name(d));) {
		char *path = g_build_filename(output, chunk, NULL);
		GDir *owners = g_dir_open(path, 0, NULL);

		for (const char *owner; (owner = g_dir_read_name(owners));) {
			char *trace = g_build_filename(path, owner, NULL);

			if (strstr(owner, "subject"))
				check_kept(trace, n, i.discarded);
			g_free(trace);
		}
		g_dir_close(owners);
		g_free(path);
	}
	g_dir_close(d);
	program_end(&good);
	program_end(&bad);
	g_free(output);
}

typedef struct {
	House *h;
	u32 n;
} Owners;

static bool few_owners(void *userdata)
{
	Owners *o = userdata;

	return house_info(o->h, "log").n_owners <= o->n;
}

/* Directories of indexes that this process has open. */
static u32 count_indexes(void)
{
	GDir *d = g_dir_open("/proc/self/fd", 0, NULL);
	u32 n = 0;

	for (const char *name; (name = g_dir_read_name(d));) {
		char *link = g_build_filename("/proc/self/fd", name, NULL);
		char *target = g_file_read_link(link, NULL);

		n += target && g_str_has_suffix(target, "/index");
		g_free(target);
		g_free(link);
	}
	g_dir_close(d);
	return n;
}

/* Fifty processes with rings of their own come and go: all is in the trace, and their memory goes. */
static void test_processes(House *h, gconstpointer unused)
{
	char *output = output_of(h);
	Owners o = { h, 12 };

	for (int i = 0; i < 50; i++) {
		Program p;

		program_start(h, &p, 0);
		(void)program_ask(&p, "record 100");
		program_end(&p);
	}
	house_until(h, few_owners, &o);
	/* nor do descriptors gather with the owners that one trace has seen */
	g_assert_cmpuint(count_indexes(), <=, 12);
	stop_well(h);
	(void)check_sums(h, 5000);
	g_assert_cmpuint(trace_count(output, "shop:order"), ==, 5000);
	g_free(output);
}

#define MANY 200

/* So many programs with rings of their own, whose writers wait for room; some are stopped while they record, some of those and of the
 * others die. Nobody waits for them, what they leave is written, and their memory goes. */
static void test_many(House *h, gconstpointer unused)
{
	Program *p = g_new0(Program, MANY);
	char *output = output_of(h);
	/* twelve that are gone may be kept */
	Owners o = { h, MANY / 2 + 12 };
	Answer a = { 0 };
	SessionInfo i;
	u64 memory, told = 0;

	for (u32 k = 0; k < MANY; k++) {
		program_start(h, &p[k], 0);
		(void)program_ask(&p[k], "record 50");
	}
	memory = house_info(h, "log").memory;
	g_assert_cmpuint(house_info(h, "log").n_owners, ==, MANY);
	for (u32 k = 0; k < MANY; k += 4) {
		program_tell(&p[k], "record 5000");
		g_assert_cmpint(kill(p[k].pid, SIGSTOP), ==, 0);
	}
	for (u32 k = 0; k < MANY; k++)
		if (k % 4)
			(void)program_ask(&p[k], "record 200");
	g_assert_nonnull(rotate(h, &a));
	/* one half, and with it one half of those that are stopped */
	for (u32 k = 0; k < MANY; k++)
		if (k % 8 < 4)
			program_end(&p[k]);
	house_until(h, few_owners, &o);
	i = house_info(h, "log");
	g_assert_cmpuint(i.memory, <=, memory / MANY * o.n);
	g_assert_cmpuint(i.n_producers, ==, MANY / 2);
	for (u32 k = 4; k < MANY; k += 8) {
		g_assert_cmpint(kill(p[k].pid, SIGCONT), ==, 0);
		/* the answer to what it was told before it was stopped may be this one's */
		g_assert_nonnull(program_ask(&p[k], "record 1"));
		told++;
	}
	g_assert_cmpuint(told, ==, MANY / 8);
	/* those that answered the first line may be at the second yet */
	for (u32 k = 0; k < MANY; k++)
		if (k % 8 >= 4) {
			program_tell(&p[k], "exit 0");
			g_assert_cmpint(waitpid(p[k].pid, NULL, 0), ==, p[k].pid);
			p[k].source = sd_event_source_disable_unref(p[k].source);
			(void)close(p[k].in);
			(void)close(p[k].out);
		}
	stop_well(h);
	i = house_info(h, "log");
	g_assert_cmpuint(i.recorded, ==, i.written);
	g_assert_cmpuint(i.unreadable + i.unwritten + i.overwritten, ==, 0);
	/* all of those that lived to their end, and what the others came to */
	g_assert_cmpuint(i.recorded + i.discarded, >=, MANY * 50 + MANY * 3 / 4 * 200 + MANY / 8 * 5001);
	g_assert_cmpuint(i.recorded + i.discarded, <=, MANY * 50 + MANY * 3 / 4 * 200 + MANY / 4 * 5000 + MANY / 8);
	g_assert_cmpuint(trace_count(output, "shop:order"), ==, i.written);
	g_free(a.path);
	g_free(output);
	g_free(p);
}

/* A snapshot of a session that writes has what is in its rings. */
static void test_snapshot(House *h, gconstpointer unused)
{
	Program p;

	program_start(h, &p, 0);
	(void)program_ask(&p, "record 100");
	g_assert_cmpuint(trace_count(house_snapshot(h, "log"), "shop:order"), <=, 100);
	stop_well(h);
	(void)check_sums(h, 100);
	program_end(&p);
}

/* Removed while it runs: what it recorded is written all the same. */
static void test_remove(House *h, gconstpointer unused)
{
	char *output = output_of(h);
	Traces t = { h, 1 };
	Program p;
	Failure f;

	program_start(h, &p, 0);
	(void)program_ask(&p, "record 1000");
	g_assert_cmpint(manager_remove_session(h->manager, "log", &f), ==, 0);
	house_until(h, enough_traces, &t);
	check_all(output, 1000);
	program_end(&p);
	g_free(output);
}

/* The daemon ends in order: everything is written, and the next one goes on beside it. */
static void test_restart(House *h, gconstpointer unused)
{
	char *output = output_of(h);
	Program p;

	program_start(h, &p, 0);
	(void)program_ask(&p, "record 1000");
	house_close(h);
	check_all(output, 1000);
	house_open(h);
	(void)program_ask(&p, "record 1000");
	stop_well(h);
	(void)check_sums(h, 1000);
	check_all(output, 2000);
	program_end(&p);
	g_free(output);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
#define ADD(name, config, fn) g_test_add("/writing/" name, House, config, house_up, fn, house_down)
	ADD("empty", CONFIG("policy = \"discard\"; io = \"auto\";"), test_empty);
	ADD("burst/discard", CONFIG("policy = \"discard\"; io = \"auto\";"), test_burst);
	ADD("burst/small", CONFIG("policy = \"discard\"; io = \"write\"; memory = \"1M\";"), test_burst);
	ADD("burst/overwrite", CONFIG("policy = \"overwrite\"; io = \"auto\";"), test_burst);
	ADD("burst/overwrite-small", CONFIG("policy = \"overwrite\"; io = \"write\"; memory = \"1M\";"), test_burst);
	ADD("burst/block", CONFIG("policy = \"block\"; io = \"auto\"; memory = \"1M\"; block_timeout = \"20s\";"),
	    test_burst);
	ADD("strategies/block", CONFIG("policy = \"block\"; io = \"write\"; flush_interval = \"20ms\"; block_timeout = \"20s\";"),
	    test_strategies);
	ADD("strategies/overwrite", CONFIG("policy = \"overwrite\"; io = \"write\"; flush_interval = \"20ms\"; memory = \"64M\";"),
	    test_strategies);
	ADD("changes", CONFIG("policy = \"discard\"; io = \"auto\";"), test_changes);
	ADD("configure", CONFIG("policy = \"discard\"; io = \"auto\"; flush_interval = \"20ms\";"), test_configure);
	ADD("none", CONFIG("policy = \"discard\"; io = \"auto\"; flush_interval = \"20ms\";"), test_none);
	ADD("none/overwrite",
	    CONFIG("policy = \"overwrite\"; io = \"write\"; memory = \"1M\"; flush_interval = \"20ms\";"),
	    test_none_overwrite);
	ADD("none/first",
	    CONFIG("policy = \"overwrite\"; io = \"none\"; memory = \"1M\"; flush_interval = \"20ms\";"),
	    test_none_overwrite);
	ADD("rotate", CONFIG("policy = \"discard\"; io = \"auto\";"), test_rotate);
	ADD("rotate/mmap", CONFIG("policy = \"discard\"; io = \"mmap\";"), test_rotate);
	ADD("interval", CONFIG("policy = \"discard\"; io = \"auto\"; file_interval = \"100ms\"; memory = \"1M\";"),
	    test_interval);
	ADD("interval/minute", CONFIG("policy = \"discard\"; io = \"auto\"; file_interval = \"100ms\";"), test_minute);
	ADD("size", CONFIG("policy = \"discard\"; io = \"auto\"; file_size = \"1M\";"), test_minute);
	ADD("hostile", CONFIG("policy = \"discard\"; io = \"write\"; buffers = \"per-process\"; memory = \"4M\";"),
	    test_hostile);
	ADD("hostile/overwrite",
	    CONFIG("policy = \"overwrite\"; io = \"write\"; buffers = \"per-process\"; memory = \"8M\";"), test_hostile);
	ADD("processes", CONFIG("policy = \"discard\"; io = \"auto\"; buffers = \"per-process\"; memory = \"1M\";"),
	    test_processes);
	ADD("many",
	    CONFIG("policy = \"block\"; block_timeout = \"100ms\"; io = \"auto\"; buffers = \"per-process\"; memory = \"1M\"; "
		   "snapshot: { on_crash = false; };"),
	    test_many);
	ADD("snapshot", CONFIG("policy = \"discard\"; io = \"auto\";"), test_snapshot);
	ADD("remove", CONFIG("policy = \"discard\"; io = \"auto\";"), test_remove);
	ADD("restart", CONFIG("policy = \"discard\"; io = \"auto\";"), test_restart);
	return g_test_run();
}
