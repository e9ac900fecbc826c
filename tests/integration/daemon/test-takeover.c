/* SPDX-License-Identifier: MIT */
/* The daemon dies, and the next one goes on: programs do not notice, and nothing that was recorded is missing or there twice. */
#include "tests/integration/daemon/keeper.h"

#include <fcntl.h>
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

/* Whether the metadata of a trace in it has the text. */
static bool metadata_has(const char *snapshot, const char *text)
{
	const char *argv[] = { "sh", "-c", "for t in \"$1\"/*/; do babeltrace2 -o ctf-metadata \"$t\"; done | grep -qF -- \"$2\"",
			       "sh", snapshot, text, NULL };
	int status;

	g_assert_true(g_spawn_sync(NULL, (char **)argv, NULL, G_SPAWN_SEARCH_PATH, NULL, NULL, NULL, NULL, &status, NULL));
	return status == 0;
}

/* Daemons are killed with the snapshot in their hands: the one that is there in the end is one, and says of whom. */
static void test_due(void)
{
	char *directory, **found;
	Keeper k;

	keeper_up(&k, FLIGHT(""));
	keeper_start(&k);
	directory = snapshots(&k);
	for (u32 i = 1; i <= 5; i++) {
		g_autofree char *pid = NULL;
		KeptProgram p;

		kept_program_start(&p, &k);
		(void)kept_program_ask(&p, "record 1000");
		pid = g_strdup_printf("pid = \"%d\"", (int)p.pid);
		(void)keeper_end(&k, SIGKILL);
		crash(&p);
		for (u32 turn = 0; turn < 3; turn++) {
			keeper_start(&k);
			(void)keeper_end(&k, SIGKILL);
		}
		keeper_start(&k);
		found = paths_await(directory, "-crash", i);
		g_assert_cmpuint(g_strv_length(found), ==, i);
		g_assert_true(metadata_has(found[i - 1], pid));
		g_assert_true(metadata_has(found[i - 1], "signal = \"11\""));
		g_strfreev(found);
	}
	/* nothing is due any more */
	(void)keeper_end(&k, SIGKILL);
	keeper_start(&k);
	(void)keeper_end(&k, SIGTERM);
	found = paths_await(directory, "-crash", 5);
	g_assert_cmpuint(g_strv_length(found), ==, 5);
	g_strfreev(found);
	g_free(directory);
	keeper_down(&k);
}

/* What came too soon stays counted. */
static void test_suppressed(void)
{
	char *directory, **found;
	KeptProgram p[3];
	Keeper k;

	keeper_up(&k, FLIGHT(""));
	keeper_configure(&k, "sessions: { flight: { autostart = true; events = [ \"shop:*\" ]; memory = \"8M\"; "
			     "snapshot: { on_crash = true; min_interval = \"1h\"; }; }; };");
	keeper_start(&k);
	directory = snapshots(&k);
	for (size_t i = 0; i < G_N_ELEMENTS(p); i++) {
		kept_program_start(&p[i], &k);
		(void)kept_program_ask(&p[i], "record 10");
	}
	crash(&p[0]);
	g_strfreev(paths_await(directory, "-crash", 1));
	/* the second is met and suppressed when one is left */
	(void)keeper_end(&k, SIGKILL);
	crash(&p[1]);
	keeper_spawn(&k);
	keeper_hear(&k, "1 program attached");
	(void)keeper_end(&k, SIGKILL);
	keeper_configure(&k, FLIGHT(""));
	keeper_start(&k);
	crash(&p[2]);
	found = paths_await(directory, "-crash", 2);
	g_assert_cmpuint(g_strv_length(found), ==, 2);
	g_assert_true(metadata_has(found[1], "since the last snapshot for a cause of this kind, 1 were not saved"));
	g_strfreev(found);
	g_free(directory);
	keeper_down(&k);
}

/* None is missing, or there twice; or says which. (Not in the order of their times: traces of several daemons lie so close together
 * that the tens of nanoseconds count by which each of them knows the time of day.) */
static void check_each_once(const GArray *v, u64 n)
{
	g_autofree u8 *seen = g_malloc0(n);
	u64 missing = 0, first_missing = n, twice = 0;

	for (u64 i = 0; i < v->len; i++) {
		u64 number = g_array_index(v, u64, i);

		g_assert_cmpuint(number, <, n);
		twice += seen[number];
		seen[number] = 1;
	}
	for (u64 i = n; i-- > 0;)
		if (!seen[i]) {
			missing++;
			first_missing = i;
		}
	if (missing || twice)
		g_error("of %" G_GUINT64_FORMAT ": %" G_GUINT64_FORMAT " missing, the first is %" G_GUINT64_FORMAT "; %" G_GUINT64_FORMAT
			" twice",
			(guint64)n, (guint64)missing, (guint64)first_missing, (guint64)twice);
}

/* Killed at any moment while it writes: every number is in one trace, once. The rings hold all of it: on a busy machine daemons may
 * be killed one after the other before they write at all. */
static void test_writing(const void *io)
{
	g_autofree char *name = g_strndup(io, strcspn(io, "+"));
	char *text = g_strdup_printf(
		"sessions: { log: { autostart = true; events = [ \"shop:*\" ]; policy = \"%s\"; memory = \"128M\"; "
		"flush_interval = \"2ms\"; io = \"%s\"; output_keep_free = \"0\"; }; };",
		g_str_has_suffix(io, "+") ? "overwrite" : "discard", name);
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
	check_each_once(v, n);
	g_array_unref(v);
	g_rand_free(random);
	kept_program_end(&p);
	g_free(directory);
	g_free(text);
	keeper_down(&k);
}

/* ---- what is damaged ---- */

/* Flips a byte of the first line of the account that has both texts in it. */
static void damage(const Keeper *k, const char *what, const char *and)
{
	int fd = keeper_fd(k, "state");
	g_autofree char *all = g_malloc0(1 << 20);
	bool done = false;

	g_assert_cmpint(fd, >=, 0);
	for (int half = 0; half < 2 && !done; half++) {
		const off_t at = 4096 + (off_t)half * (64 << 20);

		g_assert_cmpint(pread(fd, all, (1 << 20) - 1, at), >=, 0);
		for (char *p = all; *p && !done;) {
			char *end = strchr(p, '\n');

			if (!end)
				break;
			*end = 0;
			if (strstr(p, what) && strstr(p, and)) {
				char c = '?';

				g_assert_cmpint(pwrite(fd, &c, 1, at + (end - all) - 1), ==, 1);
				done = true;
			}
			p = end + 1;
		}
	}
	g_assert_true(done);
}

/* Every line of this kind. */
static void damage_all(const Keeper *k, const char *kind)
{
	int fd = keeper_fd(k, "state");
	g_autofree char *all = g_malloc0(1 << 20);

	for (int half = 0; half < 2; half++) {
		const off_t at = 4096 + (off_t)half * (64 << 20);

		g_assert_cmpint(pread(fd, all, (1 << 20) - 1, at), >=, 0);
		for (char *p = all; (p = strstr(p, kind)); p++)
			g_assert_cmpint(pwrite(fd, "?", 1, at + (p - all)), ==, 1);
	}
}

#define TWO                                                                                        \
	"sessions: { flight: { autostart = true; events = [ \"shop:*\" ]; memory = \"4M\";"      \
	" snapshot: { on_crash = true; min_interval = \"0\"; }; };"                                \
	" other: { autostart = true; events = [ \"shop:*\" ]; memory = \"4M\";"                   \
	" snapshot: { on_crash = true; min_interval = \"0\"; }; }; };"

/* One of two sessions' rings are not what is said of them: the other goes on, and it begins anew. */
static void test_damaged_owner(void)
{
	char *one, *two, **found;
	KeptProgram p;
	GArray *v;
	Keeper k;

	keeper_up(&k, TWO);
	keeper_start(&k);
	kept_program_start(&p, &k);
	(void)kept_program_ask(&p, "record 1000");
	(void)keeper_end(&k, SIGKILL);
	damage(&k, " owner number=", "session=other");
	keeper_start(&k);
	(void)kept_program_ask(&p, "record 10");
	(void)kept_program_ask(&p, "record 10");
	crash(&p);
	one = snapshots(&k);
	two = g_build_filename(k.state, "snapshots", "other", NULL);
	found = paths_await(one, "-crash", 1);
	check_run(found[0], 1020);
	g_strfreev(found);
	/* of the other, what came after */
	found = paths_await(two, "-crash", 1);
	v = trace_numbers(found[0], "shop:");
	g_assert_cmpuint(v->len, >=, 10);
	g_assert_cmpuint(g_array_index(v, u64, v->len - 1), ==, 1019);
	g_array_unref(v);
	g_strfreev(found);
	g_free(one);
	g_free(two);
	keeper_down(&k);
}

typedef struct {
	const char *name; /* of what is damaged */
	void (*damage)(Keeper *k);
} Damage;

static void lose_ring(Keeper *k)
{
	for (guint i = k->names->len; i > 0; i--)
		if (g_str_equal(g_ptr_array_index(k->names, i - 1), "ring-1")) {
			(void)close(g_array_index(k->fds, int, i - 1));
			g_ptr_array_remove_index(k->names, i - 1);
			g_array_remove_index(k->fds, i - 1);
		}
}

static void other_file(Keeper *k, const char *name)
{
	for (guint i = 0; i < k->names->len; i++)
		if (g_str_equal(g_ptr_array_index(k->names, i), name)) {
			char *path = g_build_filename(k->directory, "strange", NULL);
			int fd;

			g_assert_true(g_file_set_contents(path, "strange", -1, NULL));
			fd = open(path, O_RDWR | O_CLOEXEC);
			(void)close(g_array_index(k->fds, int, i));
			g_array_index(k->fds, int, i) = fd;
			g_free(path);
		}
}

static void strange_ring(Keeper *k)
{
	other_file(k, "ring-1");
}

static void strange_state(Keeper *k)
{
	other_file(k, "state");
}

static void strange_marks(Keeper *k)
{
	other_file(k, "marks");
}

static void strange_program(Keeper *k)
{
	for (guint i = 0; i < k->names->len; i++)
		if (g_str_has_prefix(g_ptr_array_index(k->names, i), "program-"))
			other_file(k, g_ptr_array_index(k->names, i));
}

static void no_ids(Keeper *k)
{
	damage_all(k, " ids owner");
}

static void no_classes(Keeper *k)
{
	damage_all(k, " class number");
}

static void no_programs(Keeper *k)
{
	damage_all(k, " program number");
}

static void no_sessions(Keeper *k)
{
	damage_all(k, " session name");
}

static void no_configs(Keeper *k)
{
	damage_all(k, " config name");
}

static void no_head(Keeper *k)
{
	g_assert_cmpint(pwrite(keeper_fd(k, "state"), "????????", 8, 0), ==, 8);
}

static void long_tip(Keeper *k)
{
	const u64 tip = UINT64_MAX;

	g_assert_cmpint(pwrite(keeper_fd(k, "state"), &tip, sizeof(tip), 24), ==, sizeof(tip));
}

static void garbage(Keeper *k)
{
	GRand *r = g_rand_new_with_seed((guint32)g_test_rand_int());

	for (int i = 0; i < 4000; i++) {
		u8 c = (u8)g_rand_int(r);

		(void)!pwrite(keeper_fd(k, "state"), &c, 1, 4096 + g_rand_int_range(r, 0, 8192));
		(void)!pwrite(keeper_fd(k, "state"), &c, 1, 4096 + (64 << 20) + g_rand_int_range(r, 0, 8192));
	}
	g_rand_free(r);
}

/* Whatever is wrong: the daemon comes up, and records and keeps crashes. */
static void test_damaged(const void *damage)
{
	const Damage *d = damage;
	char *directory, **found;
	KeptProgram p;
	GArray *v;
	Keeper k;

	keeper_up(&k, FLIGHT("io = \"none\";"));
	keeper_start(&k);
	kept_program_start(&p, &k);
	(void)kept_program_ask(&p, "record 1000");
	(void)keeper_end(&k, SIGKILL);
	d->damage(&k);
	keeper_start(&k);
	(void)kept_program_ask(&p, "record 10");
	(void)kept_program_ask(&p, "record 10");
	crash(&p);
	directory = snapshots(&k);
	found = paths_await(directory, "-crash", 1);
	v = trace_numbers(found[0], "shop:");
	g_assert_cmpuint(v->len, >=, 10);
	g_assert_cmpuint(g_array_index(v, u64, v->len - 1), ==, 1019);
	g_array_unref(v);
	g_strfreev(found);
	g_free(directory);
	/* and nothing strange stays in the store for ever */
	(void)keeper_end(&k, SIGKILL);
	keeper_start(&k);
	g_assert_cmpuint(keeper_n(&k), <=, 5);
	keeper_down(&k);
}

/* All n records are on its disk. */
static void await_backed(const Keeper *k, u64 n)
{
	g_autofree char *backing = g_build_filename(k->directory, "backing", NULL);
	g_autofree char *output = g_build_filename(k->directory, "output", NULL);
	const char *recover[] = { g_getenv("TRACER_TEST_TRACERCTL"), "recover", backing, output, NULL };
	const char *remove[] = { "rm", "-rf", "--", output, NULL };
	bool all = false;

	for (u32 i = 0; i < 1000 && !all; i++) {
		GArray *v;
		int status;

		g_assert_true(g_spawn_sync(NULL, (char **)recover, NULL,
					   G_SPAWN_STDOUT_TO_DEV_NULL | G_SPAWN_STDERR_TO_DEV_NULL, NULL, NULL, NULL, NULL,
					   &status, NULL));
		if (g_file_test(output, G_FILE_TEST_IS_DIR)) {
			v = trace_numbers(output, "shop:");
			all = v->len == n;
			g_array_unref(v);
		}
		g_assert_true(g_spawn_sync(NULL, (char **)remove, NULL, G_SPAWN_SEARCH_PATH, NULL, NULL, NULL, NULL, NULL, NULL));
	}
	g_assert_true(all);
}

/* A backing has the only copy of rings that are damaged: it becomes a snapshot before it goes. With all rings it does not. */
static void test_damaged_backed(void)
{
	char *text, *directory, **found;
	KeptProgram p;
	GDir *d;
	Keeper k;

	keeper_up(&k, "");
	text = g_strdup_printf(FLIGHT("backing = \"%s/backing\"; sync_interval = \"10ms\";"), k.directory);
	keeper_configure(&k, text);
	keeper_start(&k);
	kept_program_start(&p, &k);
	(void)kept_program_ask(&p, "record 1000");
	await_backed(&k, 1000);
	(void)keeper_end(&k, SIGKILL);
	g_assert_cmpint(keeper_fd(&k, "ring-1"), >=, 0);
	strange_ring(&k);
	keeper_start(&k);
	directory = snapshots(&k);
	found = paths_await(directory, "-recovered", 1);
	check_run(found[0], 1000);
	g_strfreev(found);
	(void)kept_program_ask(&p, "record 10");
	(void)kept_program_ask(&p, "record 10");
	(void)keeper_end(&k, SIGKILL);
	keeper_start(&k);
	crash(&p);
	g_strfreev(paths_await(directory, "-crash", 1));
	d = g_dir_open(directory, 0, NULL);
	for (const char *name, *last = NULL; (name = g_dir_read_name(d));) {
		if (!g_str_has_suffix(name, "-recovered"))
			continue;
		g_assert_null(last);
		last = name;
	}
	g_dir_close(d);
	g_free(directory);
	g_free(text);
	keeper_down(&k);
}

/* ---- daemons that die of it ---- */

/* As if this had gone on before, and once been killed over it. */
static void older_ones(const char *aside)
{
	static const char *const names[] = { "20200101T000000.000000Z-faults", "20200102T000000.000000Z-faults",
					     "20200103T000000.000000Z-faults", "20200104T000000.000000Z-faults",
					     ".20200105T000000.000000Z-faults.tmp" };

	for (size_t i = 0; i < G_N_ELEMENTS(names); i++) {
		char *path = g_build_filename(aside, names[i], NULL);

		g_assert_cmpint(g_mkdir_with_parents(path, 0700), ==, 0);
		g_free(path);
	}
}

/* By a fault of its own, soon, again and again: the memory is set aside. By SIGKILL, as often as you like: it is not. */
static void test_faults(void)
{
	char *aside, **found;
	KeptProgram p;
	Keeper k;

#ifdef __SANITIZE_ADDRESS__
	/* whose handler it is that a fault meets then */
	g_test_skip("not with the sanitizer");
	return;
#endif
	keeper_up(&k, FLIGHT("io = \"none\";"));
	keeper_start(&k);
	kept_program_start(&p, &k);
	(void)kept_program_ask(&p, "record 1000");
	aside = g_build_filename(k.state, "quarantine", NULL);
	for (int i = 0; i < 5; i++) {
		(void)keeper_end(&k, SIGKILL);
		keeper_start(&k);
	}
	for (int i = 0; i < 3; i++) {
		g_assert_false(g_file_test(aside, G_FILE_TEST_EXISTS));
		g_assert_true(WIFSIGNALED(keeper_end(&k, SIGSEGV)));
		if (i == 2)
			older_ones(aside);
		keeper_start(&k);
	}
	/* the newest three: two of those that were there, and this one */
	found = paths_await(aside, "-faults", 3);
	g_assert_cmpuint(g_strv_length(found), ==, 3);
	g_assert_true(g_str_has_suffix(found[0], "20200103T000000.000000Z-faults"));
	g_assert_true(g_str_has_suffix(found[1], "20200104T000000.000000Z-faults"));
	g_free(found[0]);
	found[0] = g_steal_pointer(&found[2]);
	{
		char *state = g_build_filename(found[0], "state", NULL), *ring = g_build_filename(found[0], "ring-1", NULL);

		g_assert_true(g_file_test(state, G_FILE_TEST_IS_REGULAR));
		g_assert_true(g_file_test(ring, G_FILE_TEST_IS_REGULAR));
		g_free(state);
		g_free(ring);
	}
	g_strfreev(found);
	/* it begins anew, and records */
	(void)kept_program_ask(&p, "record 10");
	(void)kept_program_ask(&p, "record 10");
	crash(&p);
	g_free(aside);
	aside = snapshots(&k);
	found = paths_await(aside, "-crash", 1);
	g_strfreev(found);
	g_free(aside);
	keeper_down(&k);
}

/* ---- limits and settings ---- */

/* What the store cannot hold is refused, and everything else goes on. */
static void test_full(void)
{
	KeptProgram p[4];
	Keeper k;

	(void)g_setenv("FDSTORE", "4", true); /* state, marks, and two */
	keeper_up(&k, FLIGHT("buffers = \"per-process\";"));
	keeper_start(&k);
	(void)g_unsetenv("FDSTORE");
	for (size_t i = 0; i < G_N_ELEMENTS(p); i++) {
		kept_program_start(&p[i], &k);
		(void)kept_program_ask(&p[i], "record 10");
	}
	(void)keeper_end(&k, SIGKILL);
	g_assert_cmpint(keeper_fd(&k, "ring-2"), >=, 0);
	g_assert_cmpuint(keeper_n(&k), ==, 4);
	for (size_t i = 0; i < G_N_ELEMENTS(p); i++)
		kept_program_end(&p[i]);
	keeper_down(&k);
}

/* The files say something else meanwhile: they are followed. */
static void test_configured(void)
{
	char *directory, **found;
	KeptProgram p;
	GArray *v;
	Keeper k;

	keeper_up(&k, FLIGHT("io = \"none\";"));
	keeper_start(&k);
	kept_program_start(&p, &k);
	(void)kept_program_ask(&p, "record 100");
	(void)keeper_end(&k, SIGKILL);
	keeper_configure(&k, FLIGHT("exclude = [ \"shop:order\" ];"));
	keeper_start(&k);
	(void)kept_program_ask(&p, "record 100");
	(void)kept_program_ask(&p, "extra 50");
	crash(&p);
	directory = snapshots(&k);
	found = paths_await(directory, "-crash", 1);
	v = trace_numbers(found[0], "shop:order");
	/* what ran on is there; the change may have come a call late */
	g_assert_cmpuint(v->len, >=, 100);
	g_assert_cmpuint(v->len, <, 200);
	g_array_unref(v);
	v = trace_numbers(found[0], "shop:extra");
	g_assert_cmpuint(v->len, ==, 50);
	g_array_unref(v);
	g_strfreev(found);
	g_free(directory);
	keeper_down(&k);
}

int main(int argc, char **argv)
{
	static const Damage damages[] = {
		{ "ring-lost", lose_ring },	  { "ring-strange", strange_ring }, { "state-strange", strange_state },
		{ "marks-strange", strange_marks }, { "program-strange", strange_program },
		{ "ids", no_ids },		  { "classes", no_classes },	    { "programs", no_programs },
		{ "sessions", no_sessions },
		{ "configurations", no_configs }, { "head", no_head },		    { "tip", long_tip },
		{ "garbage", garbage },
	};

	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/takeover/damaged/owner", test_damaged_owner);
	for (size_t i = 0; i < G_N_ELEMENTS(damages); i++) {
		char *name = g_strdup_printf("/takeover/damaged/%s", damages[i].name);

		g_test_add_data_func(name, &damages[i], test_damaged);
		g_free(name);
	}
	g_test_add_func("/takeover/damaged/backed", test_damaged_backed);
	g_test_add_func("/takeover/faults", test_faults);
	g_test_add_func("/takeover/full", test_full);
	g_test_add_func("/takeover/configured", test_configured);
	g_test_add_data_func("/takeover/flight/user", "per-user", test_flight);
	g_test_add_data_func("/takeover/flight/process", "per-process", test_flight);
	g_test_add_func("/takeover/crash-meanwhile", test_crash_meanwhile);
	g_test_add_func("/takeover/due", test_due);
	g_test_add_func("/takeover/suppressed", test_suppressed);
	g_test_add_data_func("/takeover/writing/auto", "auto", test_writing);
	g_test_add_data_func("/takeover/writing/write", "write", test_writing);
	g_test_add_data_func("/takeover/writing/mmap", "mmap", test_writing);
	g_test_add_data_func("/takeover/writing/splice", "splice", test_writing);
	g_test_add_data_func("/takeover/writing/overwrite", "auto+", test_writing);
	return g_test_run();
}
