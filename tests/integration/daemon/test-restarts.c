/* SPDX-License-Identifier: MIT */
/* The daemon dies at the worst moments, again and again: in its own start, while a snapshot is due, while programs come and go,
 * with no memory for what it has to say. Moments are random; what is asserted holds at all of them. */
#include "tests/integration/daemon/keeper.h"

#include "daemon/ledger.h"
#include "lib/abi.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#define FLIGHT(settings)                                                                           \
	"sessions: { flight: { autostart = true; events = [ \"shop:*\" ]; memory = \"8M\"; " settings \
	" snapshot: { on_crash = true; min_interval = \"0\"; }; }; };"

static u32 some(u32 below)
{
	return (u32)g_test_rand_int_range(0, (gint32)below);
}

static void crash(KeptProgram *p)
{
	kept_program_tell(p, "signal 11");
	(void)waitpid(p->pid, NULL, 0);
	(void)fclose(p->to);
	(void)fclose(p->from);
	*p = (KeptProgram){ 0 };
}

static char *snapshots(const Keeper *k)
{
	return g_build_filename(k->state, "snapshots", "flight", NULL);
}

static void check_run(const char *path, u64 from, u64 to)
{
	GArray *v = trace_numbers(path, "shop:");

	g_assert_cmpuint(v->len, ==, to - from);
	for (u64 i = 0; i < v->len; i++)
		g_assert_cmpuint(g_array_index(v, u64, i), ==, from + i);
	g_array_unref(v);
}

/* What is below a directory, also what is hidden. */
static u32 n_entries(const char *directory)
{
	DIR *d = opendir(directory);
	u32 n = 0;

	for (struct dirent *e; d && (e = readdir(d));)
		n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
	if (d)
		(void)closedir(d);
	return n;
}

/* Ended in order, for nobody could say that it is a restart, and started with the store all the same: what should run does. */
static void test_ended(const void *io)
{
	char *text = g_strdup_printf(FLIGHT("io = \"%s\";"), (const char *)io), *directory, **found;
	KeptProgram p;
	Keeper k;

	keeper_up(&k, text);
	keeper_start(&k);
	kept_program_start(&p, &k);
	for (int i = 0; i < 3; i++) {
		(void)kept_program_ask(&p, "record 10");
		g_assert_cmpint(keeper_end(&k, SIGTERM), ==, 0);
		(void)kept_program_ask(&p, "record 10"); /* by nobody */
		keeper_start(&k);
		(void)kept_program_ask(&p, "record 10"); /* or by nobody yet */
	}
	(void)kept_program_ask(&p, "record 10");
	crash(&p);
	directory = snapshots(&k);
	found = paths_await(directory, "-crash", 1);
	check_run(found[0], 80, 100);
	g_strfreev(found);
	g_free(directory);
	g_free(text);
	keeper_down(&k);
}

/* Killed in its first milliseconds, from the very first daemon on. */
static void test_early(void)
{
	const int turns = g_test_slow() ? 200 : 40;
	char *directory, **found;
	u64 n = 0, first;
	KeptProgram p;
	Keeper k;

	keeper_up(&k, FLIGHT(""));
	for (int i = 0; i < turns; i++) {
		keeper_spawn(&k);
		g_usleep(some(30000));
		(void)keeper_end(&k, SIGKILL);
	}
	keeper_start(&k);
	kept_program_start(&p, &k);
	(void)sscanf(kept_program_ask(&p, "record 100"), "recorded %llu", (unsigned long long *)&first);
	n = first;
	(void)keeper_end(&k, SIGKILL);
	for (int i = 0; i < turns; i++) {
		keeper_spawn(&k);
		g_usleep(some(30000));
		kept_program_tell(&p, "record 10");
		(void)keeper_end(&k, SIGKILL);
		(void)kept_program_hear(&p);
		n += 10;
	}
	keeper_start(&k);
	crash(&p);
	directory = snapshots(&k);
	found = paths_await(directory, "-crash", 1);
	check_run(found[0], 0, n);
	g_strfreev(found);
	g_free(directory);
	keeper_down(&k);
}

/* A snapshot is due, is being made, half of it is there: it is made once, whoever dies how often. */
static void test_due(void)
{
	const int turns = g_test_slow() ? 60 : 12;
	char *directory, **found;
	KeptProgram p;
	Keeper k;

	keeper_up(&k, FLIGHT(""));
	keeper_start(&k);
	kept_program_start(&p, &k);
	(void)kept_program_ask(&p, "record 20000");
	(void)keeper_end(&k, SIGKILL);
	crash(&p);
	directory = snapshots(&k);
	for (int i = 0; i < turns; i++) {
		keeper_start(&k);
		g_usleep(some(6000));
		(void)keeper_end(&k, SIGKILL);
	}
	keeper_start(&k);
	found = paths_await(directory, "-crash", 1);
	g_assert_cmpint(keeper_end(&k, SIGTERM), ==, 0);
	g_assert_cmpuint(g_strv_length(found), ==, 1);
	g_assert_cmpuint(n_entries(directory), ==, 1);
	check_run(found[0], 0, 20000);
	g_strfreev(found);
	g_free(directory);
	keeper_down(&k);
}

#define TRAFFIC                                                                                                       \
	"sessions: { one: { autostart = true; events = [ \"shop:order\" ]; policy = \"discard\"; memory = \"4M\";"    \
	" buffers = \"per-process\"; flush_interval = \"5ms\"; io = \"write\"; file_size = \"1M\"; file_count = 10000;"  \
	" output_keep_free = \"0\"; };"                                                                               \
	" two: { autostart = true; events = [ \"shop:*\" ]; policy = \"discard\"; memory = \"16M\";"                  \
	" flush_interval = \"2ms\"; io = \"mmap\"; file_interval = \"1s\"; file_count = 10000; output_keep_free = \"0\"; };" \
	" three: { autostart = true; events = [ \"shop:*\" ]; memory = \"4M\"; }; };"

typedef struct {
	long pid;
	u64 first, end; /* numbers that must be there */
} Recorded;

static void check_traffic(const Keeper *k, const char *session, const GArray *recorded)
{
	char *directory = g_build_filename(k->state, "traces", session, NULL);
	GHashTable *all = trace_records(directory, "shop:");

	for (guint i = 0; i < recorded->len; i++) {
		const Recorded *r = &g_array_index(recorded, Recorded, i);

		for (u64 n = r->first; n < r->end; n++) {
			char key[64];

			(void)snprintf(key, sizeof(key), "%ld %llu", r->pid, (unsigned long long)n);
			if (!g_hash_table_contains(all, key))
				g_error("session %s: %s is not there", session, key);
		}
	}
	g_hash_table_unref(all);
	g_free(directory);
}

/* Programs come and go, some while nobody is there; three sessions at once, each with rings and files of another kind. */
static void test_traffic(void)
{
	const int turns = g_test_slow() ? 60 : 12;
	GArray *recorded = g_array_new(false, false, sizeof(Recorded));
	KeptProgram p[3] = { 0 };
	u64 first[3] = { 0 };
	Keeper k;

	keeper_up(&k, TRAFFIC);
	keeper_start(&k);
	for (int i = 0; i < turns; i++) {
		for (int j = 0; j < 3; j++) {
			if (!p[j].pid) {
				kept_program_start(&p[j], &k);
				/* from here it is known to somebody: who is asked by it may be dead before it answers */
				(void)sscanf(kept_program_ask(&p[j], "record 1"), "recorded %llu",
					     (unsigned long long *)&first[j]);
			}
			kept_program_tell(&p[j], "record 2000");
		}
		g_usleep(some(5000));
		(void)keeper_end(&k, SIGKILL);
		for (int j = 0; j < 3; j++) {
			(void)kept_program_hear(&p[j]);
			(void)kept_program_ask(&p[j], "record 300");
		}
		/* one goes while nobody is there */
		{
			int j = i % 3;
			Recorded r = { p[j].pid, first[j], 0 };

			r.end = kept_program_exit(&p[j], "record 100");
			g_array_append_val(recorded, r);
		}
		keeper_start(&k);
	}
	for (int j = 0; j < 3; j++) {
		Recorded r = { p[j].pid, first[j], 0 };

		if (!p[j].pid)
			continue;
		r.end = kept_program_exit(&p[j], "record 100");
		g_array_append_val(recorded, r);
	}
	g_assert_cmpint(keeper_end(&k, SIGTERM), ==, 0);
	check_traffic(&k, "one", recorded);
	check_traffic(&k, "two", recorded);
	g_array_unref(recorded);
	keeper_down(&k);
}

/* Programs whose rings are full wait for nobody, for a while, and then go on; behind the next daemon's start nothing is lost. */
static void test_block(void)
{
	GHashTable *all;
	char *directory;
	KeptProgram p;
	u64 n = 0;
	Keeper k;

	keeper_up(&k, "sessions: { log: { autostart = true; events = [ \"shop:*\" ]; policy = \"block\"; memory = \"1M\"; "
		      "block_timeout = \"20ms\"; flush_interval = \"2ms\"; io = \"write\"; output_keep_free = \"0\"; }; };");
	keeper_start(&k);
	kept_program_start(&p, &k);
	for (int i = 0; i < 5; i++) {
		(void)kept_program_ask(&p, "record 5000");
		(void)keeper_end(&k, SIGKILL);
		(void)kept_program_ask(&p, "record 100000"); /* more than there is room for */
		keeper_start(&k);
		n += 105000;
	}
	/* until it is let in again it may not wait: then all of it is there */
	for (int i = 0; i < 3; i++)
		(void)kept_program_ask(&p, "pace 1000");
	(void)kept_program_ask(&p, "record 100000");
	n += 103000;
	(void)keeper_end(&k, SIGTERM);
	directory = g_build_filename(k.state, "traces", "log", NULL);
	all = trace_records(directory, "shop:");
	for (u64 i = n - 100000; i < n; i++) {
		char key[64];

		(void)snprintf(key, sizeof(key), "%d %llu", (int)p.pid, (unsigned long long)i);
		g_assert_true(g_hash_table_contains(all, key));
	}
	g_assert_cmpuint(g_hash_table_size(all), >, 5 * 5000);
	g_hash_table_unref(all);
	g_free(directory);
	kept_program_end(&p);
	keeper_down(&k);
}

/* Threads without rseq, whose rings have a lock; and one that died with all of them in hand while nobody was there. */
static void test_sides(void)
{
	KeptProgram p, holder;
	char *directory;
	u64 n = 0;
	Keeper k;

	keeper_up(&k, "sessions: { log: { autostart = true; events = [ \"shop:*\" ]; policy = \"discard\"; memory = \"32M\"; "
		      "flush_interval = \"2ms\"; io = \"auto\"; output_keep_free = \"0\"; }; };");
	(void)g_setenv("GLIBC_TUNABLES", "glibc.pthread.rseq=0", true);
	keeper_start(&k);
	kept_program_start(&p, &k);
	(void)g_unsetenv("GLIBC_TUNABLES");
	for (int i = 0; i < 10; i++) {
		kept_program_tell(&p, "record 5000");
		g_usleep(some(3000));
		(void)keeper_end(&k, SIGKILL);
		(void)kept_program_hear(&p);
		(void)kept_program_ask(&p, "record 100");
		keeper_start(&k);
		n += 5100;
	}
	kept_program_start_other(&holder, &k, g_getenv("TRACER_TEST_HOLDER"), "live");
	(void)keeper_end(&k, SIGKILL);
	kept_program_end(&holder);
	keeper_start(&k);
	(void)kept_program_ask(&p, "record 1000");
	n += 1000;
	(void)keeper_end(&k, SIGTERM);
	directory = g_build_filename(k.state, "traces", "log", NULL);
	check_run(directory, 0, n);
	g_free(directory);
	kept_program_end(&p);
	keeper_down(&k);
}

/* A program writes over all of its rings while nobody is there: another one's are as they were. */
static void test_scribbled(void)
{
	char *directory, **found;
	KeptProgram p, bad;
	GHashTable *all;
	u32 n = 0;
	long pid;
	Keeper k;

	keeper_up(&k, FLIGHT("buffers = \"per-process\";"));
	keeper_start(&k);
	kept_program_start(&p, &k);
	kept_program_start_other(&bad, &k, g_getenv("TRACER_TEST_SCRIBBLER"), NULL);
	(void)kept_program_ask(&p, "record 1000");
	for (int i = 0; i < 5; i++) {
		(void)keeper_end(&k, SIGKILL);
		(void)kept_program_ask(&bad, "scribble 300");
		(void)kept_program_ask(&p, "record 100");
		keeper_start(&k);
		(void)kept_program_ask(&bad, "scribble 100");
	}
	pid = p.pid;
	crash(&p);
	kept_program_end(&bad);
	directory = snapshots(&k);
	found = paths_await(directory, "-crash", 1);
	all = trace_records(found[0], "shop:order");
	for (u32 i = 0; i < 1500; i++) {
		char key[64];

		(void)snprintf(key, sizeof(key), "%ld %u", pid, i);
		n += g_hash_table_contains(all, key);
	}
	g_assert_cmpuint(n, ==, 1500);
	g_hash_table_unref(all);
	g_strfreev(found);
	g_free(directory);
	keeper_down(&k);
}

static int find_program(void *userdata, const char *line)
{
	if (g_str_has_prefix(line, "program number")) {
		g_free(*(char **)userdata);
		*(char **)userdata = g_strdup(line);
	}
	return 0;
}

/* Under its number there is another process now: it is not taken for the one that was. */
static void test_reused(void)
{
	char *directory, *line = NULL, *at, *other, **found;
	LedgerDamage damage;
	KeptProgram p;
	Ledger *l;
	Keeper k;

	keeper_up(&k, FLIGHT(""));
	keeper_start(&k);
	kept_program_start(&p, &k);
	(void)kept_program_ask(&p, "record 100");
	(void)keeper_end(&k, SIGKILL);
	/* as if that had begun at another time */
	g_assert_cmpint(ledger_open(&l, fcntl(keeper_fd(&k, "state"), F_DUPFD_CLOEXEC, 0)), ==, 0);
	g_assert_cmpint(ledger_read(l, find_program, &line, &damage), ==, 0);
	at = strstr(line, "start_time=");
	g_assert_nonnull(at);
	other = g_strdup_printf("%.*sstart_time=1%s", (int)(at - line), line, strchr(at, ' '));
	g_assert_cmpint(ledger_append(l, other), ==, 0);
	(void)ledger_free(l);
	for (guint i = k.names->len; i > 0; i--)
		if (g_str_has_prefix(g_ptr_array_index(k.names, i - 1), "program-")) {
			(void)close(g_array_index(k.fds, int, i - 1));
			g_ptr_array_remove_index(k.names, i - 1);
			g_array_remove_index(k.fds, i - 1);
		}
	keeper_start(&k);
	/* it asks, for the generation is another one, and is known as who it is */
	(void)kept_program_ask(&p, "record 100");
	(void)kept_program_ask(&p, "record 100");
	crash(&p);
	directory = snapshots(&k);
	found = paths_await(directory, "-crash", 1);
	check_run(found[0], 0, 300);
	g_strfreev(found);
	g_free(directory);
	g_free(other);
	g_free(line);
	keeper_down(&k);
}

/* There is no memory for the line that says what an id means, and then the daemon dies: the id gets no other meaning, for records that
 * have it are in the rings. Recording goes on all the while. */
static void test_unsaid(void)
{
	struct rlimit none = { 4096, 4096 };
	char *directory, *main_thread, **found;
	KeptProgram p;
	GArray *v;
	long pid;
	Keeper k;

	keeper_up(&k, "sessions: { flight: { autostart = true; events = [ \"shop:order\" ]; memory = \"8M\";"
		      " snapshot: { on_crash = true; min_interval = \"0\"; }; }; };");
	keeper_start(&k);
	kept_program_start(&p, &k);
	(void)kept_program_ask(&p, "record 100");
	g_assert_cmpint(prlimit(k.daemon, RLIMIT_FSIZE, &none, NULL), ==, 0);
	keeper_configure(&k, "sessions: { flight: { autostart = true; events = [ \"shop:*\" ]; memory = \"8M\";"
			     " snapshot: { on_crash = true; min_interval = \"0\"; }; }; };");
	(void)kill(k.daemon, SIGHUP);
	keeper_hear(&k, "READY=1");
	(void)kept_program_ask(&p, "extra 10");
	(void)kept_program_ask(&p, "extra 10");
	(void)keeper_end(&k, SIGKILL);
	keeper_configure(&k, "sessions: { flight: { autostart = true; events = [ \"shop:order\", \"other:*\" ]; memory = \"8M\";"
			     " snapshot: { on_crash = true; min_interval = \"0\"; }; }; };");
	keeper_start(&k);
	(void)kept_program_ask(&p, "record 10");
	(void)kept_program_ask(&p, "threads 1");
	(void)kept_program_ask(&p, "join");
	pid = p.pid;
	crash(&p);
	directory = snapshots(&k);
	found = paths_await(directory, "-crash", 1);
	/* nothing that the main thread recorded as an extra is there as anything else */
	main_thread = g_strdup_printf("vtid = %ld }", pid);
	v = trace_numbers(found[0], main_thread);
	for (u32 i = 0; i < v->len; i++)
		g_assert_true(g_array_index(v, u64, i) < 100 || g_array_index(v, u64, i) >= 120);
	g_assert_cmpuint(v->len, >=, 100);
	g_array_unref(v);
	g_free(main_thread);
	g_strfreev(found);
	g_free(directory);
	keeper_down(&k);
}

/* Killed while it changed a session, or ended it: the page lost the bits of one that the next daemon goes on with. Programs that were
 * attached and new ones record into it. */
static void test_masks(void)
{
	static const u64 zeros[ABI_BUCKETS];
	char *directory, **found, *path;
	KeptProgram p, other;
	Keeper k;
	int fd;

	keeper_up(&k, FLIGHT(""));
	keeper_start(&k);
	kept_program_start(&p, &k);
	(void)kept_program_ask(&p, "record 100");
	(void)keeper_end(&k, SIGKILL);
	path = g_build_filename(k.runtime, "control", NULL);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	g_assert_cmpint(fd, >=, 0);
	g_assert_cmpint(pwrite(fd, zeros, sizeof(zeros), offsetof(struct abi_control_page, mask)), ==, sizeof(zeros));
	(void)close(fd);
	keeper_start(&k);
	(void)kept_program_ask(&p, "record 100");
	kept_program_start(&other, &k);
	(void)kept_program_ask(&other, "record 50");
	crash(&p);
	crash(&other);
	directory = snapshots(&k);
	found = paths_await(directory, "-crash", 2);
	{
		GArray *v = trace_numbers(found[1], "shop:");

		g_assert_cmpuint(v->len, ==, 250);
		g_array_unref(v);
	}
	g_strfreev(found);
	g_free(directory);
	g_free(path);
	keeper_down(&k);
}

static u32 n_descriptors(pid_t pid)
{
	g_autofree char *path = g_strdup_printf("/proc/%d/fd", (int)pid);

	return n_entries(path);
}

/* However often: no descriptor and no line more than after the first. */
static void test_often(void)
{
	const int turns = g_test_slow() ? 200 : 30;
	u32 least[2] = { UINT32_MAX, UINT32_MAX }, stored = 0;
	off_t size = 0;
	KeptProgram p;
	Keeper k;

	keeper_up(&k, TRAFFIC);
	keeper_start(&k);
	kept_program_start(&p, &k);
	for (int i = 0; i < turns; i++) {
		u64 tip;

		(void)kept_program_ask(&p, "record 100");
		(void)keeper_end(&k, SIGKILL);
		keeper_start(&k);
		(void)kept_program_ask(&p, "record 100");
		keeper_hear(&k, NULL);
		g_assert_cmpint(pread(keeper_fd(&k, "state"), &tip, sizeof(tip), 24), ==, sizeof(tip));
		/* files of traces are closed by threads in their own time: the least of many turns is what does not go */
		if (i > 5)
			least[i >= turns / 2] = MIN(least[i >= turns / 2], n_descriptors(k.daemon));
		if (i == 5) {
			stored = keeper_n(&k);
			size = (off_t)(tip >> 1);
		}
		if (i > 5) {
			g_assert_cmpuint(keeper_n(&k), ==, stored);
			/* it is written anew once there is as much again, and something */
			g_assert_cmpint((off_t)(tip >> 1), <, 3 * size + (128 << 10));
		}
	}
	/* one a turn would be more, as many as there are turns */
	g_assert_cmpuint(least[1], <=, least[0] + (u32)turns / 3);
	kept_program_end(&p);
	keeper_down(&k);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_data_func("/restarts/ended/memory", "none", test_ended);
	g_test_add_data_func("/restarts/ended/writing", "write", test_ended);
	g_test_add_func("/restarts/early", test_early);
	g_test_add_func("/restarts/due", test_due);
	g_test_add_func("/restarts/traffic", test_traffic);
	g_test_add_func("/restarts/block", test_block);
	g_test_add_func("/restarts/sides", test_sides);
	g_test_add_func("/restarts/scribbled", test_scribbled);
	g_test_add_func("/restarts/reused", test_reused);
	g_test_add_func("/restarts/unsaid", test_unsaid);
	g_test_add_func("/restarts/masks", test_masks);
	g_test_add_func("/restarts/often", test_often);
	return g_test_run();
}
