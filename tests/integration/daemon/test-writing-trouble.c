/* SPDX-License-Identifier: MIT */
/* Sessions that write, and disks that are full, gone, read-only, or broken: said once, counted, gone on from by itself, and what is
 * there can be read all the time. */
#include "tests/integration/daemon/disk.h"
#include "tests/integration/daemon/writing.h"

#include <sched.h>
#include <stdio.h>
#include <sys/resource.h>

static void leave(House *h, Disk *d)
{
	house_close(h);
	disk_close(d);
	house_open(h);
}

static void remove_tree(const char *path)
{
	const char *argv[] = { "rm", "-rf", "--", path, NULL };

	g_assert_true(g_spawn_sync(NULL, (char **)argv, NULL, G_SPAWN_SEARCH_PATH, NULL, NULL, NULL, NULL,
				   NULL, NULL));
}

/* A few MiB fill up and are freed while two programs record. */
static void test_full(House *h, gconstpointer unused)
{
	char *output = output_of(h);
	Program p[2];
	SessionInfo i;
	u64 n = 0;
	Disk d;

	stop_well(h);
	if (!disk_small(&d, output, "size=6m"))
		return;
	start(h);
	disk_fill(&d, 3 << 20);
	program_start(h, &p[0], 0);
	program_start(h, &p[1], 0);
	while (!in_trouble(h)) {
		(void)program_ask(&p[0], "record 5000");
		(void)program_ask(&p[1], "record 5000");
		n += 10000;
	}
	/* said once, with what to do; and programs go on */
	g_assert_nonnull(strstr(house_info(h, "log").trouble, "No space left"));
	for (int k = 0; k < 20; k++) {
		(void)program_ask(&p[k & 1], "record 5000");
		n += 5000;
	}
	i = house_info(h, "log");
	g_assert_cmpuint(i.recorded + i.discarded, ==, n);
	/* up to here it can be read */
	g_assert_cmpuint(trace_count(output, "shop:order"), >, 0);
	disk_free(&d);
	house_until(h, out_of_trouble, h);
	(void)program_ask(&p[0], "record 100");
	n += 100;
	stop_well(h);
	i = check_sums(h, n);
	g_assert_cmpuint(i.unwritten, ==, 0);
	g_assert_cmpuint(i.discarded + i.overwritten, >, 0);
	g_assert_cmpuint(trace_count(output, "shop:order"), ==, i.written);
	program_end(&p[0]);
	program_end(&p[1]);
	leave(h, &d);
	g_free(output);
}

/* No room, and none to come: who wants a rotation hears of it, and another output is a way out at once. */
static void test_full_elsewhere(House *h, gconstpointer unused)
{
	char *output = output_of(h);
	char *other = g_build_filename(h->directory, "other", NULL);
	Answer a = { 0 };
	SessionInfo i;
	Program p;
	u64 n = 0;
	Disk d;

	stop_well(h);
	if (!disk_small(&d, output, "size=8m"))
		return;
	start(h);
	disk_fill(&d, 7 << 20);
	program_start(h, &p, 0);
	while (!in_trouble(h)) {
		(void)program_ask(&p, "record 3000");
		n += 3000;
	}
	g_assert_null(rotate(h, &a));
	g_assert_cmpint(a.failure.kind, ==, FAILURE_NO_SPACE);
	set_key(h, "output", other);
	house_until(h, out_of_trouble, h);
	(void)program_ask(&p, "record 100");
	n += 100;
	stop_well(h);
	i = check_sums(h, n);
	g_assert_cmpuint(i.written, ==, trace_count(output, "shop:order") + trace_count(other, "shop:order"));
	g_assert_cmpuint(trace_count(other, "shop:order"), >=, 100);
	program_end(&p);
	leave(h, &d);
	g_free(a.path);
	g_free(other);
	g_free(output);
}

/* A place where nothing can be written is refused while there is one where it can: a mistake in a word costs no record. */
static void test_nowhere(House *h, gconstpointer unused)
{
	char *output = output_of(h);
	char *nowhere = g_build_filename(h->config, "x", NULL);
	SessionConfig *c;
	char *text = NULL;
	SessionInfo i;
	Program p;
	Failure f;

	program_start(h, &p, 0);
	(void)program_ask(&p, "record 1000");
	c = session_config_copy(manager_find(h->manager, "log")->config);
	g_assert_cmpint(session_config_set(c, "output", &(ConfigValue){ .type = CONFIG_STRING, .string = nowhere }, &text), ==, 0);
	g_assert_cmpint(manager_configure_session(h->manager, c, &f), <, 0);
	g_assert_cmpint(f.kind, ==, FAILURE_IO);
	g_assert_nonnull(strstr(f.text, nowhere));
	c = session_config_free(c);
	(void)program_ask(&p, "record 1000");
	stop_well(h);
	i = check_sums(h, 2000);
	g_assert_cmpuint(i.written, ==, 2000);
	g_assert_cmpuint(h->n_troubles, ==, 0);
	g_assert_cmpuint(trace_count(output, "shop:order"), ==, 2000);
	program_end(&p);
	g_free(nowhere);
	g_free(output);
}

/* An output may be a directory that others use: what only looks a little like a trace that was not finished stays as it is. */
static void test_foreign(House *h, gconstpointer unused)
{
	static const char *const names[] = { "mine.active", "20261130T112703.888655Z-mine.active", "x20261130T112703.888655Z-trace.active" };
	char *output = output_of(h);
	Program p;

	stop_well(h);
	for (size_t i = 0; i < G_N_ELEMENTS(names); i++) {
		g_autofree char *part = g_build_filename(output, names[i], "user-0", NULL);

		g_assert_cmpint(g_mkdir_with_parents(part, 0700), ==, 0);
	}
	start(h);
	program_start(h, &p, 0);
	(void)program_ask(&p, "record 1000");
	stop_well(h);
	for (size_t i = 0; i < G_N_ELEMENTS(names); i++) {
		g_autofree char *part = g_build_filename(output, names[i], "user-0", NULL);

		g_assert_true(g_file_test(part, G_FILE_TEST_IS_DIR));
	}
	program_end(&p);
	g_free(output);
}

static bool is_gone(void *path)
{
	return !g_file_test(path, G_FILE_TEST_EXISTS);
}

/* What is older than output_age goes (but for the newest), also from under a session that ends no trace. */
static void test_age(House *h, gconstpointer unused)
{
	char *output = output_of(h);
	char *old = g_build_filename(output, "20201130T000000.000000Z-trace", NULL);
	char *newest = g_build_filename(output, "20201130T000000.000001Z-trace", NULL);

	stop_well(h);
	g_assert_cmpint(g_mkdir_with_parents(old, 0700), ==, 0);
	g_assert_cmpint(g_mkdir_with_parents(newest, 0700), ==, 0);
	start(h);
	house_until(h, is_gone, old);
	g_assert_false(is_gone(newest));
	g_free(newest);
	g_free(old);
	g_free(output);
}

/* A strategy that the file system does not take: said, nothing but tries that leave nothing, and another one is the way out. */
static void test_unsuited(House *h, gconstpointer unused)
{
	char *output = output_of(h);
	Program p;
	Disk d;

	stop_well(h);
	if (!disk_small(&d, output, "size=8m"))
		return;
	start(h);
	program_start(h, &p, 0);
	(void)program_ask(&p, "record 100");
	house_until(h, in_trouble, h);
	for (int i = 0; i < 10; i++) {
		house_turn(h, 100000);
		g_assert_cmpuint(count_entries(output), <=, 1);
	}
	set_key(h, "io", "write");
	house_until(h, out_of_trouble, h);
	stop_well(h);
	(void)check_sums(h, 100);
	check_all(output, 100);
	g_assert_cmpuint(count_entries(output), ==, 1);
	program_end(&p);
	leave(h, &d);
	g_free(output);
}

/* Stopped while there is no room: what does not fit is said, stays in memory, and is written when it is started again. */
static void test_full_stop(House *h, gconstpointer unused)
{
	char *output = output_of(h);
	Program p;
	SessionInfo i;
	Answer a;
	u64 n = 0;
	Disk d;

	stop_well(h);
	if (!disk_small(&d, output, "size=8m"))
		return;
	start(h);
	disk_fill(&d, 7 << 20);
	program_start(h, &p, 0);
	while (!in_trouble(h)) {
		(void)program_ask(&p, "record 3000");
		n += 3000;
	}
	a = stop(h);
	g_assert_cmpint(a.failure.kind, ==, FAILURE_NO_SPACE);
	g_assert_nonnull(strstr(a.failure.text, output));
	i = house_info(h, "log");
	g_assert_cmpuint(i.recorded + i.discarded, ==, n);
	g_assert_cmpuint(i.recorded, >, i.written);
	disk_free(&d);
	start(h);
	stop_well(h);
	i = check_sums(h, n);
	g_assert_cmpuint(i.unwritten, ==, 0);
	check_counted(output, n, i.discarded);
	program_end(&p);
	leave(h, &d);
	g_free(output);
}

/* The directory goes away under it, then another file system takes its place: it is said, and writing goes on in what is there. */
static void test_lost(House *h, gconstpointer unused)
{
	char *output = output_of(h);
	Traces t = { h, 0 };
	u64 before;
	Program p;
	Disk d;

	program_start(h, &p, 0);
	(void)program_ask(&p, "record 1000");
	/* a consumer that has not begun yet makes the directory anew, and nothing was lost */
	house_until(h, enough_written, &(Traces){ h, 1000 });
	t.n = h->n_troubles + 1;
	remove_tree(output);
	house_until(h, enough_troubles, &t);
	house_until(h, out_of_trouble, h);
	before = house_info(h, "log").written;
	(void)program_ask(&p, "extra 1000");
	house_until(h, enough_written, &(Traces){ h, before + 1000 });
	t.n = h->n_troubles + 1;
	if (disk_small(&d, output, "size=32m")) {
		house_until(h, enough_troubles, &t);
		house_until(h, out_of_trouble, h);
		(void)program_ask(&p, "extra 500");
		stop_well(h);
		(void)check_sums(h, 2500);
		g_assert_cmpuint(trace_count(output, "shop:extra"), ==, 500);
		leave(h, &d);
		g_assert_cmpuint(trace_count(output, "shop:extra"), ==, 1000);
	}
	g_assert_cmpuint(before, <=, 2500);
	program_end(&p);
	g_free(output);
}

/* No output at all at the start: recorded all the same, and written once there is one. */
static void test_no_output(House *h, gconstpointer unused)
{
	char *output = output_of(h), *parent = g_path_get_dirname(output);
	Failure f = FAILURE_NULL;
	Program p;

	stop_well(h);
	remove_tree(parent);
	g_assert_true(g_file_set_contents(parent, "", 0, NULL));
	/* who starts it by hand hears of it */
	g_assert_cmpint(manager_start_session(h->manager, "log", &f), <, 0);
	g_assert_cmpint(f.kind, ==, FAILURE_IO);
	g_assert_nonnull(strstr(f.text, output));
	/* the daemon's own start does not depend on it */
	house_close(h);
	house_open(h);
	program_start(h, &p, 0);
	(void)program_ask(&p, "record 1000");
	house_until(h, in_trouble, h);
	g_assert_cmpint(unlink(parent), ==, 0);
	house_until(h, out_of_trouble, h);
	stop_well(h);
	(void)check_sums(h, 1000);
	check_all(output, 1000);
	program_end(&p);
	g_free(parent);
	g_free(output);
}

/* ---- read-only ---- */

/* Made read-only by root, which needs a moment when no trace is open; and writable again. */
static void test_read_only(House *h, gconstpointer unused)
{
	char *output = output_of(h);
	Answer a = { 0 };
	SessionInfo i;
	Program p;
	u32 before;
	u64 n = 0;
	Disk d;

	stop_well(h);
	if (!disk_small(&d, output, "size=32m"))
		return;
	start(h);
	program_start(h, &p, 0);
	for (int turn = 0; turn < 2; turn++) {
		(void)program_ask(&p, "record 1000");
		n += 1000;
		g_assert_nonnull(rotate(h, &a));
		before = h->n_troubles;
		disk_read_only(&d, true);
		(void)program_ask(&p, "record 1000");
		n += 1000;
		house_until(h, in_trouble, h);
		g_assert_nonnull(strstr(house_info(h, "log").trouble, "Read-only"));
		/* tried again and again, and said once */
		for (int k = 0; k < 10; k++) {
			(void)program_ask(&p, "record 10");
			n += 10;
			house_turn(h, 100000);
		}
		g_assert_cmpuint(h->n_troubles, ==, before + 1);
		i = house_info(h, "log");
		g_assert_cmpuint(i.recorded + i.discarded, ==, n);
		g_assert_cmpuint(i.discarded, ==, 0);
		g_assert_cmpuint(trace_count(output, "shop:order"), ==, i.written);
		g_assert_null(rotate(h, &a));
		g_assert_cmpint(a.failure.kind, ==, FAILURE_IO);
		disk_read_only(&d, false);
		house_until(h, out_of_trouble, h);
	}
	stop_well(h);
	(void)check_sums(h, n);
	check_all(output, n);
	program_end(&p);
	leave(h, &d);
	g_free(a.path);
	g_free(output);
}

typedef struct {
	House *h;
	Disk *d;
	Program *p;
	u64 n; /* recorded */
} Mend;

static bool in_trouble_busy(void *userdata)
{
	Mend *m = userdata;

	(void)program_ask(m->p, "record 5000");
	m->n += 5000;
	house_turn(m->h, 1000);
	return in_trouble(m->h);
}

static bool is_mended(void *userdata)
{
	Mend *m = userdata;

	house_turn(m->h, 1000);
	return disk_mend(m->d);
}

/* Made so by the kernel, since the disk is broken, under traces that are open; and mounted anew. What is finished stays readable. */
static void test_broken(House *h, gconstpointer unused)
{
	char *output = output_of(h), *finished;
	Answer a = { 0 };
	SessionInfo i;
	Program p;
	Mend mend;
	Disk d;

	stop_well(h);
	if (!disk_block(&d, output))
		return;
	start(h);
	program_start(h, &p, 0);
	mend = (Mend){ h, &d, &p, 2000 };
	(void)program_ask(&p, "record 1000");
	finished = g_strdup(rotate(h, &a));
	(void)program_ask(&p, "record 1000");
	house_until(h, enough_written, &(Traces){ h, mend.n });
	if (disk_break(&d)) {
		house_until(h, in_trouble_busy, &mend);
		g_assert_nonnull(strstr(house_info(h, "log").trouble, "Read-only"));
		for (int k = 0; k < 10; k++)
			house_turn(h, 100000);
		g_assert_cmpuint(h->n_troubles, ==, 1);
		check_all(finished, 1000);
		house_until(h, is_mended, &mend);
		house_until(h, out_of_trouble, h);
		(void)program_ask(&p, "extra 100");
		mend.n += 100;
		g_assert_cmpuint(trace_count(rotate(h, &a), "shop:extra"), ==, 100);
	}
	check_all(finished, 1000);
	stop_well(h);
	i = check_sums(h, mend.n);
	g_assert_cmpuint(i.written, >=, 2000);
	program_end(&p);
	leave(h, &d);
	g_free(a.path);
	g_free(finished);
	g_free(output);
}

/* ---- a disk that fails ---- */

/* A device promises more than it has: full below a file system that has room. */
static void test_thin(House *h, gconstpointer unused)
{
	char *output = output_of(h);
	Answer a = { 0 };
	Program p;
	Mend m;
	Disk d;

	stop_well(h);
	if (!disk_thin(&d, output, "24m"))
		return;
	start(h);
	program_start(h, &p, 0);
	m = (Mend){ h, &d, &p, 1000 };
	(void)program_ask(&p, "record 1000");
	house_until(h, enough_written, &(Traces){ h, m.n });
	disk_fill(&d, UINT64_MAX);
	house_until(h, in_trouble_busy, &m);
	for (int k = 0; k < 10; k++) {
		(void)program_ask(&p, "record 10");
		m.n += 10;
		house_turn(h, 100000);
	}
	disk_free(&d);
	house_until(h, out_of_trouble, h);
	g_test_message("said %u times", h->n_troubles);
	/* What was written before may be anything: a loop device takes a write that its file was too full for to the end for a whole
	 * one. */
	(void)rotate(h, &a);
	house_until(h, out_of_trouble, h);
	(void)program_ask(&p, "extra 100");
	m.n += 100;
	g_assert_nonnull(rotate(h, &a));
	g_assert_cmpuint(trace_count(a.path, "shop:extra"), ==, 100);
	stop_well(h);
	(void)check_sums(h, m.n);
	program_end(&p);
	leave(h, &d);
	g_free(a.path);
	g_free(output);
}

/* EIO for everything that is written: said once, as long as it lasts, and another disk is the way out. */
static void test_eio(House *h, gconstpointer unused)
{
	char *output = output_of(h), *other = g_build_filename(h->directory, "other", NULL);
	SessionInfo i;
	Program p;
	Mend m;
	Disk d;

	stop_well(h);
	if (!disk_block(&d, output))
		return;
	start(h);
	program_start(h, &p, 0);
	m = (Mend){ h, &d, &p, 1000 };
	(void)program_ask(&p, "record 1000");
	house_until(h, enough_written, &(Traces){ h, m.n });
	disk_die(&d);
	house_until(h, in_trouble_busy, &m);
	g_assert_nonnull(strstr(house_info(h, "log").trouble, "Input/output error"));
	for (int k = 0; k < 40; k++) {
		(void)in_trouble_busy(&m);
		house_turn(h, 50000);
	}
	g_assert_cmpuint(h->n_troubles, ==, 1);
	g_assert_true(in_trouble(h));
	set_key(h, "output", other);
	house_until(h, out_of_trouble, h);
	(void)program_ask(&p, "extra 100");
	m.n += 100;
	stop_well(h);
	i = check_sums(h, m.n);
	g_assert_cmpuint(trace_count(other, "shop:extra"), ==, 100);
	g_assert_cmpuint(trace_count(other, "shop:order"), <=, i.written - 100);
	program_end(&p);
	leave(h, &d);
	g_free(other);
	g_free(output);
}

/* ---- programs that wait ---- */

/* Under `block` a full disk costs each ring one timeout, however long it lasts: then events are counted, and nothing stalls. */
static void test_full_block(House *h, gconstpointer unused)
{
	char *output = output_of(h);
	u64 before;
	SessionInfo i;
	Program p;
	unsigned long n = 0;
	Disk d;

	stop_well(h);
	if (!disk_small(&d, output, "size=8m"))
		return;
	start(h);
	disk_fill(&d, 7 << 20);
	program_start(h, &p, 0);
	while (!in_trouble(h)) {
		(void)program_ask(&p, "record 5000");
		n += 5000;
	}
	/* every ring is full */
	(void)program_ask(&p, "lap 30000");
	before = manager_now();
	for (int k = 0; k < 100; k++)
		g_assert_cmpint(sscanf(program_ask(&p, "record 5000"), "recorded %lu", &n), ==, 1);
	/* had it waited each time, it would be half a minute at least */
	g_assert_cmpuint(manager_now() - before, <, 15 * NSEC_PER_SEC);
	i = house_info(h, "log");
	g_assert_cmpuint(i.discarded, >=, 500000);
	g_assert_cmpuint(i.recorded + i.discarded, ==, n);
	disk_free(&d);
	house_until(h, out_of_trouble, h);
	(void)program_ask(&p, "record 100");
	n += 100;
	stop_well(h);
	g_assert_cmpuint(h->n_troubles, ==, 1);
	i = check_sums(h, n);
	g_assert_cmpuint(i.unwritten, ==, 0);
	g_assert_cmpuint(trace_count(output, "shop:order"), ==, i.written);
	program_end(&p);
	leave(h, &d);
	g_free(output);
}

/* ---- files that may not be larger ---- */

static void limit_files(u64 size)
{
	struct rlimit l;

	g_assert_cmpint(getrlimit(RLIMIT_FSIZE, &l), ==, 0);
	l.rlim_cur = size == UINT64_MAX ? l.rlim_max : size;
	g_assert_cmpint(setrlimit(RLIMIT_FSIZE, &l), ==, 0);
}

/* A file at its limit is a trace that is full: there is another behind it, and no trouble. */
static void test_limit(House *h, gconstpointer unused)
{
	char *output = output_of(h);
	SessionInfo i;
	Program p;

	program_start(h, &p, 0);
	(void)program_ask(&p, "record 10");
	house_until(h, enough_written, &(Traces){ h, 10 });
	/* of no alignment at all */
	limit_files((300 << 10) + 123);
	for (int k = 0; k < 40; k++)
		(void)program_ask(&p, "record 2500");
	stop_well(h);
	limit_files(UINT64_MAX);
	g_assert_cmpuint(h->n_troubles, ==, 0);
	i = check_sums(h, 100010);
	g_assert_cmpuint(i.discarded, ==, 0);
	check_all(output, 100010);
	g_assert_cmpuint(count_entries(output), >, 5);
	program_end(&p);
	g_free(output);
}

/* ---- descriptors that are all taken ---- */

static void limit_descriptors(bool limited)
{
	struct rlimit l;

	g_assert_cmpint(getrlimit(RLIMIT_NOFILE, &l), ==, 0);
	l.rlim_cur = limited ? 3 : l.rlim_max;
	g_assert_cmpint(setrlimit(RLIMIT_NOFILE, &l), ==, 0);
}

/* A trace that cannot be looked for is not lost: what is written to it stays in it, and goes on. */
static void test_no_descriptors(House *h, gconstpointer unused)
{
	char *output = output_of(h);
	cpu_set_t all, one;
	SessionInfo i;
	Program p;
	int cpu = 0;

	/* another processor would be another stream, whose file needs a descriptor indeed */
	g_assert_cmpint(sched_getaffinity(0, sizeof(all), &all), ==, 0);
	while (!CPU_ISSET(cpu, &all))
		cpu++;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	program_start(h, &p, 0);
	g_assert_cmpint(sched_setaffinity(p.pid, sizeof(one), &one), ==, 0);
	(void)program_ask(&p, "record 10");
	house_until(h, enough_written, &(Traces){ h, 10 });
	limit_descriptors(true);
	/* it looks for its trace every now and then while it writes */
	for (u64 n = 10; n < 40; n += 10) {
		(void)program_ask(&p, "record 10");
		house_until(h, enough_written, &(Traces){ h, n + 10 });
	}
	limit_descriptors(false);
	stop_well(h);
	i = check_sums(h, 40);
	g_assert_cmpuint(i.unwritten, ==, 0);
	g_assert_cmpuint(h->n_troubles, ==, 0);
	check_all(output, 40);
	program_end(&p);
	g_free(output);
}

/* Not even one packet fits: that is trouble, said once, and over when the limit is. */
static void test_limit_none(House *h, gconstpointer unused)
{
	char *output = output_of(h);
	SessionInfo i;
	Program p;

	program_start(h, &p, 0);
	(void)program_ask(&p, "record 10");
	house_until(h, enough_written, &(Traces){ h, 10 });
	/* metadata has room, events have not */
	limit_files(20000);
	(void)program_ask(&p, "record 20000");
	house_until(h, in_trouble, h);
	g_assert_nonnull(strstr(house_info(h, "log").trouble, "too large"));
	for (int k = 0; k < 10; k++)
		house_turn(h, 100000);
	g_assert_cmpuint(h->n_troubles, ==, 1);
	g_assert_cmpuint(count_entries(output), <=, 3);
	limit_files(UINT64_MAX);
	house_until(h, out_of_trouble, h);
	stop_well(h);
	i = check_sums(h, 20010);
	g_assert_cmpuint(i.unwritten, ==, 0);
	check_counted(output, 20010, i.discarded);
	program_end(&p);
	g_free(output);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
#define ADD(name, config, fn) g_test_add("/writing/trouble/" name, House, config, house_up, fn, house_down)
	ADD("full/discard", CONFIG("policy = \"discard\"; io = \"auto\"; memory = \"1M\"; flush_interval = \"50ms\";"),
	    test_full);
	ADD("full/overwrite",
	    CONFIG("policy = \"overwrite\"; io = \"write\"; memory = \"1M\"; flush_interval = \"50ms\";"), test_full);
	ADD("full/mmap", CONFIG("policy = \"discard\"; io = \"mmap\"; memory = \"1M\"; flush_interval = \"50ms\";"),
	    test_full);
	ADD("full/stop", CONFIG("policy = \"discard\"; io = \"auto\"; memory = \"1M\"; flush_interval = \"50ms\";"),
	    test_full_stop);
	ADD("full/elsewhere",
	    CONFIG("policy = \"discard\"; io = \"write\"; memory = \"1M\"; flush_interval = \"50ms\";"),
	    test_full_elsewhere);
	ADD("nowhere", CONFIG("policy = \"discard\"; io = \"write\"; flush_interval = \"20ms\";"), test_nowhere);
	ADD("foreign", CONFIG("policy = \"discard\"; io = \"write\"; flush_interval = \"20ms\";"), test_foreign);
	ADD("age", CONFIG("policy = \"discard\"; io = \"write\"; flush_interval = \"20ms\"; output_age = \"1min\";"), test_age);
	ADD("unsuited", CONFIG("policy = \"discard\"; io = \"direct\"; flush_interval = \"20ms\";"), test_unsuited);
	ADD("lost", CONFIG("policy = \"discard\"; io = \"write\"; flush_interval = \"50ms\";"), test_lost);
	ADD("lost/auto", CONFIG("policy = \"discard\"; io = \"auto\"; flush_interval = \"50ms\";"), test_lost);
	ADD("no-output", CONFIG("policy = \"discard\"; io = \"write\"; flush_interval = \"50ms\";"), test_no_output);
	ADD("no-descriptors", CONFIG("policy = \"discard\"; io = \"write\"; flush_interval = \"20ms\";"), test_no_descriptors);
	ADD("read-only", CONFIG("policy = \"discard\"; io = \"auto\"; flush_interval = \"20ms\";"), test_read_only);
	ADD("broken/write", CONFIG("policy = \"discard\"; io = \"write\"; flush_interval = \"20ms\";"), test_broken);
	ADD("broken/direct", CONFIG("policy = \"discard\"; io = \"direct\"; flush_interval = \"20ms\";"), test_broken);
	ADD("thin/write", CONFIG("policy = \"discard\"; io = \"write\"; memory = \"1M\"; flush_interval = \"20ms\";"), test_thin);
	ADD("thin/mmap", CONFIG("policy = \"discard\"; io = \"mmap\"; memory = \"1M\"; flush_interval = \"20ms\";"), test_thin);
	ADD("thin/direct", CONFIG("policy = \"discard\"; io = \"direct\"; memory = \"1M\"; flush_interval = \"20ms\";"), test_thin);
	ADD("eio/write", CONFIG("policy = \"discard\"; io = \"write\"; memory = \"1M\"; flush_interval = \"20ms\";"), test_eio);
	ADD("eio/mmap", CONFIG("policy = \"discard\"; io = \"mmap\"; memory = \"1M\"; flush_interval = \"20ms\";"), test_eio);
	ADD("eio/direct", CONFIG("policy = \"discard\"; io = \"direct\"; memory = \"1M\"; flush_interval = \"20ms\";"), test_eio);
	ADD("full/block",
	    CONFIG("policy = \"block\"; io = \"write\"; memory = \"1M\"; flush_interval = \"50ms\"; block_timeout = \"300ms\";"),
	    test_full_block);
#define LIMIT(io) CONFIG("policy = \"block\"; block_timeout = \"20s\"; memory = \"2M\"; flush_interval = \"20ms\"; io = \"" io "\";")
	ADD("limit/write", LIMIT("write"), test_limit);
	ADD("limit/mmap", LIMIT("mmap"), test_limit);
	ADD("limit/splice", LIMIT("splice"), test_limit);
	ADD("limit/direct", LIMIT("direct"), test_limit);
#define LIMIT_NONE(io) CONFIG("policy = \"discard\"; memory = \"2M\"; flush_interval = \"20ms\"; io = \"" io "\";")
	ADD("limit/none/write", LIMIT_NONE("write"), test_limit_none);
	ADD("limit/none/splice", LIMIT_NONE("splice"), test_limit_none);
	ADD("limit/none/direct", LIMIT_NONE("direct"), test_limit_none);
	return g_test_run();
}
