/* SPDX-License-Identifier: MIT */
/* What lies between the cause of a snapshot and its place on disk: each window is held open while something happens in it. */
#include "tests/integration/daemon/gate.h"

#include "systemd/journal.h"

#include <signal.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>

#define SESSION(more)                                                                                  \
	"sessions: { flight: { autostart = true; events = [ \"shop:*\" ]; memory = \"1M\"; " more       \
	" }; };"

/* ---- snapshots that are waited for later ---- */

typedef struct {
	u32 n, n_failed;
	char *path[80]; /* in the order of their ends; NULL: failed */
	Failure failure; /* of the last that failed */
} Ends;

static void on_end(void *userdata, const char *path, const Failure *failure)
{
	Ends *e = userdata;

	g_assert_true((path == NULL) == (failure != NULL));
	g_assert_cmpuint(e->n, <, ELEMENTSOF(e->path));
	e->path[e->n++] = g_strdup(path);
	if (failure) {
		e->n_failed++;
		e->failure = *failure;
	}
}

static int ask(House *h, Ends *e, const SnapshotOptions *options, Failure *f)
{
	return manager_snapshot(h->manager, "flight", "manual", "a test", options, on_end, e, NULL, f);
}

typedef struct {
	const Ends *e;
	u32 n;
} Target;

static bool ends_reached(void *userdata)
{
	const Target *t = userdata;

	return t->e->n >= t->n;
}

static void await_ends(House *h, Ends *e, u32 n)
{
	Target t = { e, n };

	house_until(h, ends_reached, &t);
}

static void ends_clear(Ends *e)
{
	for (u32 i = 0; i < e->n; i++)
		g_free(e->path[i]);
	*e = (Ends){};
}

/* ---- what a trace says of itself ---- */

static char *owner_metadata(const char *snapshot)
{
	GDir *d = g_dir_open(snapshot, 0, NULL);
	char *path = NULL, *text = NULL;
	const char *name;

	g_assert_nonnull(d);
	while ((name = g_dir_read_name(d))) {
		if (g_str_equal(name, "producers.json"))
			continue;
		g_assert_null(path); /* one owner */
		path = g_build_filename(snapshot, name, "metadata", NULL);
	}
	g_assert_true(g_file_get_contents(path, &text, NULL, NULL));
	g_free(path);
	g_dir_close(d);
	return text;
}

static u64 number_behind(const char *text, const char *key)
{
	const char *at = strstr(text, key);

	if (!at)
		g_error("no %s in: %s", key, text);
	return g_ascii_strtoull(at + strlen(key), NULL, 10);
}

typedef struct {
	u64 written, kept, overwritten, trimmed, corrupt, lost;
} Sums;

/* The sums that the metadata says, held to its own lines ring by ring. */
static Sums trace_sums(const char *snapshot)
{
	static const char *const lost[] = { "lost_full = \"", "lost_held = \"", "lost_big = \"",
					    "lost_busy = \"", "lost_vfork = \"" };
	char *text = owner_metadata(snapshot);
	u64 written = 0;
	u32 n_rings = 0;
	Sums s = {
		.written = number_behind(text, "records_written = \""),
		.kept = number_behind(text, "records_kept = \""),
		.overwritten = number_behind(text, "records_overwritten = \""),
		.trimmed = number_behind(text, "records_trimmed = \""),
		.corrupt = number_behind(text, "records_corrupt = \""),
	};

	for (size_t i = 0; i < ELEMENTSOF(lost); i++)
		s.lost += number_behind(text, lost[i]);
	for (const char *ring = text; (ring = strstr(ring, "= \"written=")); ring++) {
		g_assert_cmpuint(number_behind(ring, "written="), ==,
				 number_behind(ring, "kept=") + number_behind(ring, "overwritten=") +
					 number_behind(ring, "trimmed=") +
					 number_behind(ring, "corrupt=") +
					 number_behind(ring, "after_cut="));
		written += number_behind(ring, "written=") - number_behind(ring, "after_cut=");
		n_rings++;
	}
	g_assert_cmpuint(n_rings, >, 0);
	g_assert_cmpuint(written, ==, s.written);
	g_assert_cmpuint(s.written, ==, s.kept + s.overwritten + s.trimmed + s.corrupt);
	g_free(text);
	return s;
}

static bool nobody_lives(void *userdata)
{
	return manager_n_producers(((House *)userdata)->manager) == 0;
}

/* ---- the window before the copy ---- */

/* Events that a program learns to record after the snapshot was begun and before its cut are in it; and no disk was touched
 * before the cut. */
static void test_late_class(House *h, gconstpointer unused)
{
	char *order[] = { (char *)"shop:order" }, *all[] = { (char *)"shop:*" };
	char *directory = g_build_filename(h->state, "snapshots", "flight", NULL);
	Failure f;
	Program p;
	Ends e = {};

	g_assert_cmpint(manager_set_events(h->manager, "flight", &(Strings){ order, 1 }, &f), ==, 0);
	program_start(h, &p, 0);
	(void)program_ask(&p, "record 10");
	gate_shut(GATE_BEFORE_COPY);
	g_assert_cmpint(ask(h, &e, NULL, &f), ==, 0);
	gate_await(h, GATE_BEFORE_COPY);
	g_assert_false(g_file_test(directory, G_FILE_TEST_EXISTS));
	g_assert_cmpint(manager_set_events(h->manager, "flight", &(Strings){ all, 1 }, &f), ==, 0);
	(void)program_ask(&p, "extra 3");
	g_assert_cmpuint(house_info(h, "flight").recorded, ==, 13);
	gate_go(GATE_BEFORE_COPY);
	await_ends(h, &e, 1);
	g_assert_cmpuint(trace_count(e.path[0], "shop:extra"), ==, 3);
	g_assert_cmpuint(trace_sums(e.path[0]).corrupt, ==, 0);
	g_assert_cmpuint(trace_sums(e.path[0]).kept, ==, 13);
	ends_clear(&e);
	program_end(&p);
	g_free(directory);
}

/* ---- the window behind the copy ---- */

static u32 n_ids(House *h)
{
	const Ids *ids = &manager_find(h->manager, "flight")->owners->ids;
	u32 n = 0;

	for (u32 i = 1; i < ids->n; i++)
		n += ids_entry(ids, i) != NULL;
	return n;
}

/* What the copy names keeps its name, although the program is gone, its records are overwritten, and its ids would be free. */
static void test_kept_ids(House *h, gconstpointer unused)
{
	char *extra[] = { (char *)"shop:extra" }, *order[] = { (char *)"shop:order" };
	Program a, b;
	Failure f;
	Ends e = {};

	g_assert_cmpint(manager_set_events(h->manager, "flight", &(Strings){ extra, 1 }, &f), ==, 0);
	program_start(h, &a, 0);
	(void)program_ask(&a, "extra 5");
	g_assert_cmpuint(n_ids(h), ==, 1);
	gate_shut(GATE_AFTER_COPY);
	g_assert_cmpint(ask(h, &e, NULL, &f), ==, 0);
	gate_await(h, GATE_AFTER_COPY);
	program_tell(&a, "exit 0");
	house_until(h, nobody_lives, h);
	program_end(&a);
	g_assert_cmpint(manager_set_events(h->manager, "flight", &(Strings){ order, 1 }, &f), ==, 0);
	program_start(h, &b, 0);
	(void)program_ask(&b, "lap 100000");
	g_assert_cmpuint(house_info(h, "flight").overwritten, >, 5);
	/* asked again, which is when ids are let go */
	g_assert_cmpint(manager_set_events(h->manager, "flight", &(Strings){ order, 1 }, &f), ==, 0);
	(void)program_ask(&b, "record 1");
	g_assert_cmpuint(n_ids(h), ==, 2);
	gate_go(GATE_AFTER_COPY);
	await_ends(h, &e, 1);
	g_assert_cmpuint(trace_count(e.path[0], "shop:extra"), ==, 5);
	/* and then no longer: it was free */
	g_assert_cmpint(manager_set_events(h->manager, "flight", &(Strings){ order, 1 }, &f), ==, 0);
	(void)program_ask(&b, "record 1");
	g_assert_cmpuint(n_ids(h), ==, 1);
	ends_clear(&e);
	program_end(&b);
}

/* Clear while a snapshot is on its way: it has what was there, and the counters begin again. */
static void test_clear(House *h, gconstpointer unused)
{
	Failure f;
	Program p;
	Ends e = {};

	program_start(h, &p, 0);
	for (int i = 0; i < 2; i++) {
		Gate gate = i ? GATE_WRITING : GATE_AFTER_COPY;

		(void)program_ask(&p, "record 10");
		gate_shut(gate);
		g_assert_cmpint(ask(h, &e, NULL, &f), ==, 0);
		gate_await(h, gate);
		g_assert_cmpint(manager_clear_session(h->manager, "flight", &f), ==, 0);
		gate_go(gate);
		await_ends(h, &e, 1);
		g_assert_cmpuint(trace_count(e.path[0], "shop:order"), ==, 10);
		g_assert_cmpuint(house_info(h, "flight").recorded, ==, 0);
		g_assert_cmpuint(house_info(h, "flight").written, ==, 0);
		g_assert_cmpstr(house_info(h, "flight").last_snapshot, ==, e.path[0]);
		ends_clear(&e);
	}
	(void)program_ask(&p, "record 7");
	g_assert_nonnull(house_snapshot(h, "flight"));
	g_assert_cmpuint(house_info(h, "flight").recorded, ==, 7);
	g_assert_cmpuint(house_info(h, "flight").written, ==, 7);
	program_end(&p);
}

/* Removed while one is being written, one is copied and one waits: the first two are completed, and all memory comes back. */
static void test_remove(House *h, gconstpointer unused)
{
	Failure f;
	Program p;
	Ends e = {};

	program_start(h, &p, 0);
	(void)program_ask(&p, "record 10");
	gate_shut(GATE_WRITING);
	g_assert_cmpint(ask(h, &e, NULL, &f), ==, 0);
	gate_await(h, GATE_WRITING);
	gate_shut(GATE_AFTER_COPY);
	g_assert_cmpint(ask(h, &e, NULL, &f), ==, 0);
	gate_await(h, GATE_AFTER_COPY);
	g_assert_cmpint(ask(h, &e, NULL, &f), ==, 0);
	g_assert_cmpint(manager_remove_session(h->manager, "flight", &f), ==, 0);
	g_assert_cmpuint(e.n, ==, 1);
	g_assert_cmpint(e.failure.kind, ==, FAILURE_NO_SUCH_SESSION);
	gate_go(GATE_AFTER_COPY);
	gate_go(GATE_WRITING);
	await_ends(h, &e, 3);
	for (u32 i = 1; i < 3; i++) {
		g_assert_cmpuint(trace_count(e.path[i], "shop:order"), ==, 10);
		g_assert_cmpuint(trace_sums(e.path[i]).corrupt, ==, 0);
	}
	g_assert_cmpuint(account_total(h->manager->ground.account, CHARGE_MEMORY), ==, 0);
	program_tell(&p, "exit 0");
	house_until(h, nobody_lives, h);
	g_assert_cmpuint(classes_n(h->manager->ground.classes), ==, 0);
	ends_clear(&e);
	program_end(&p);
}

/* ---- behind a slow disk ---- */

/* The rings of a crash are cut while the disk has another snapshot still: what is recorded meanwhile costs it nothing. */
static void test_cut_at_once(House *h, gconstpointer unused)
{
	Program a, b;
	Failure f;
	Ends e = {};

	program_start(h, &a, 0);
	program_start(h, &b, 0);
	(void)program_ask(&a, "record 10");
	gate_shut(GATE_WRITING);
	g_assert_cmpint(ask(h, &e, NULL, &f), ==, 0);
	gate_await(h, GATE_WRITING);
	gate_shut(GATE_AFTER_COPY);
	program_tell(&a, "signal 11");
	gate_await(h, GATE_AFTER_COPY);
	(void)program_ask(&b, "lap 100000");
	gate_go(GATE_AFTER_COPY);
	gate_go(GATE_WRITING);
	house_await_snapshots(h, 2);
	g_assert_true(g_str_has_suffix(h->snapshot_path, "-crash"));
	g_assert_cmpuint(trace_count(h->snapshot_path, "customer = \"customer\""), ==, 10);
	ends_clear(&e);
	program_end(&a);
	program_end(&b);
}

/* A dead process whose crash waits behind two slow snapshots: its rings are there for it, and go afterwards. */
static void test_dead_waits(House *h, gconstpointer unused)
{
	Program a, b;
	Failure f;
	Ends e = {};
	char *of_a;

	program_start(h, &a, 0);
	program_start(h, &b, 0);
	(void)program_ask(&a, "record 10");
	(void)program_ask(&b, "record 1");
	gate_shut(GATE_WRITING);
	g_assert_cmpint(ask(h, &e, NULL, &f), ==, 0); /* being written */
	gate_await(h, GATE_WRITING);
	gate_shut(GATE_BEFORE_COPY);
	g_assert_cmpint(ask(h, &e, NULL, &f), ==, 0); /* begun */
	gate_await(h, GATE_BEFORE_COPY);
	g_assert_cmpint(ask(h, &e, NULL, &f), ==, 0); /* waits, and will be overtaken */
	g_assert_cmpint(ask(h, &e, NULL, &f), ==, 0);
	program_tell(&a, "signal 11");
	while (h->n_crashes == 0)
		house_turn(h, 1000000);
	gate_go(GATE_BEFORE_COPY);
	gate_go(GATE_WRITING);
	await_ends(h, &e, 2);
	house_await_snapshots(h, 3);
	g_assert_true(g_str_has_suffix(h->snapshot_path, "-crash"));
	of_a = g_strdup_printf("%s/process-%d-subject-daemon", h->snapshot_path, (int)a.pid);
	g_assert_cmpuint(trace_count(of_a, "shop:order"), ==, 10);
	g_free(of_a);
	await_ends(h, &e, 4);
	g_assert_cmpuint(house_info(h, "flight").n_owners, ==, 1);
	g_assert_cmpuint(house_info(h, "flight").recorded, ==, 11);
	g_assert_cmpuint(house_info(h, "flight").overwritten, ==, 10);
	ends_clear(&e);
	program_end(&a);
	program_end(&b);
}

/* Nor do they go with one snapshot while others wait that were asked for when they were there. */
static void test_dead_wanted(House *h, gconstpointer unused)
{
	Program p;
	Failure f;
	Ends e = {};

	program_start(h, &p, 0);
	(void)program_ask(&p, "record 10");
	program_tell(&p, "exit 0");
	house_until(h, nobody_lives, h);
	for (int i = 0; i < 5; i++)
		g_assert_cmpint(ask(h, &e, NULL, &f), ==, 0);
	await_ends(h, &e, 5);
	g_assert_cmpuint(e.n_failed, ==, 0);
	for (u32 i = 0; i < e.n; i++)
		g_assert_cmpuint(trace_count(e.path[i], "shop:order"), ==, 10);
	g_assert_cmpuint(house_info(h, "flight").n_owners, ==, 0);
	ends_clear(&e);
	program_end(&p);
}

/* A snapshot that was told to take less does not make a dead process's rings go. */
static void test_dead_kept(House *h, gconstpointer unused)
{
	Program p;
	Failure f;
	Ends e = {};

	program_start(h, &p, 0);
	(void)program_ask(&p, "record 10");
	program_tell(&p, "exit 0");
	house_until(h, nobody_lives, h);
	g_assert_cmpint(ask(h, &e, &(SnapshotOptions){ .duration_ns = 1 }, &f), ==, 0);
	await_ends(h, &e, 1);
	g_assert_cmpuint(trace_sums(e.path[0]).trimmed, ==, 10);
	g_assert_cmpuint(house_info(h, "flight").n_owners, ==, 1);
	g_assert_cmpuint(trace_count(house_snapshot(h, "flight"), "shop:order"), ==, 10);
	g_assert_cmpuint(house_info(h, "flight").n_owners, ==, 0);
	ends_clear(&e);
	program_end(&p);
}

/* A thousand requests at once: as many as may wait are taken, the rest are told, each ends once, and a crash is not among
 * those that are refused, nor behind the others. */
static void test_thousand(House *h, gconstpointer unused)
{
	u32 taken = 0, refused = 0;
	Program p;
	Failure f;
	Ends e = {};

	program_start(h, &p, 0);
	(void)program_ask(&p, "record 10");
	gate_shut(GATE_BEFORE_COPY);
	g_assert_cmpint(ask(h, &e, NULL, &f), ==, 0);
	gate_await(h, GATE_BEFORE_COPY);
	for (int i = 0; i < 1000; i++) {
		if (ask(h, &e, NULL, &f) == 0) {
			taken++;
			continue;
		}
		g_assert_cmpint(f.kind, ==, FAILURE_BUSY);
		refused++;
	}
	g_assert_cmpuint(taken, ==, JOBS_MAX);
	g_assert_cmpuint(refused, ==, 1000 - JOBS_MAX);
	program_tell(&p, "signal 11");
	while (h->n_crashes == 0)
		house_turn(h, 1000000);
	gate_go(GATE_BEFORE_COPY);
	house_await_snapshots(h, 2);
	g_assert_true(g_str_has_suffix(h->snapshot_path, "-crash"));
	await_ends(h, &e, taken + 1);
	g_assert_cmpuint(e.n_failed, ==, 0);
	g_assert_cmpuint(h->n_snapshots, ==, taken + 2);
	g_assert_cmpuint(jobs_n(h->manager->jobs), ==, 0);
	ends_clear(&e);
	program_end(&p);
}

/* ---- the counters, end to end ---- */

/* What the session says, what the trace says and what the program did are one. */
static void test_sums(House *h, gconstpointer unused)
{
	const bool discard = manager_find(h->manager, "flight")->config->policy == POLICY_DISCARD;
	SessionInfo i;
	Program p;
	Failure f;
	Ends e = {};
	Sums s;

	program_start(h, &p, 0);
	(void)program_ask(&p, "record 60000");
	/* running and idle, then stopped: the same */
	for (int turn = 0; turn < 2; turn++) {
		const char *path = house_snapshot(h, "flight");

		g_assert_nonnull(path);
		s = trace_sums(path);
		i = house_info(h, "flight");
		g_assert_cmpuint(i.recorded + i.discarded, ==, 60000);
		g_assert_cmpuint(i.recorded, ==, s.written);
		g_assert_cmpuint(i.overwritten, ==, s.overwritten);
		g_assert_cmpuint(i.discarded, ==, s.lost);
		g_assert_cmpuint(i.written, ==, (u32)(turn + 1) * s.kept);
		g_assert_cmpuint(trace_count(path, "shop:order"), ==, s.kept);
		g_assert_cmpuint(s.corrupt, ==, 0);
		if (discard)
			g_assert_cmpuint(s.lost, >, 0);
		else
			g_assert_cmpuint(s.overwritten, >, 0);
		if (turn == 0)
			g_assert_cmpint(manager_stop_session(h->manager, "flight", NULL, NULL, &f), ==, 0);
	}
	/* less of it: what is left out is said to be */
	g_assert_cmpint(ask(h, &e, &(SnapshotOptions){ .max_size = 100000 }, &f), ==, 0);
	await_ends(h, &e, 1);
	s = trace_sums(e.path[0]);
	g_assert_cmpuint(s.written, ==, i.recorded);
	g_assert_cmpuint(s.overwritten, ==, i.overwritten);
	g_assert_cmpuint(s.trimmed, >, 0);
	g_assert_cmpuint(house_info(h, "flight").written, ==, i.written + s.kept);
	ends_clear(&e);
	program_end(&p);
}

/* ---- disks ---- */

static void remove_tree(const char *path)
{
	const char *argv[] = { "rm", "-rf", "--", path, NULL };

	g_assert_true(g_spawn_sync(NULL, (char **)argv, NULL, G_SPAWN_SEARCH_PATH, NULL, NULL, NULL, NULL,
				   NULL, NULL));
}

/* The session's directory goes away under a snapshot, and is something else: each is said, and the next one is whole. */
static void test_directory(House *h, gconstpointer unused)
{
	char *parent = g_build_filename(h->state, "snapshots", NULL);
	char *directory = g_build_filename(parent, "flight", NULL);
	Program p;
	Failure f;
	Ends e = {};

	program_start(h, &p, 0);
	(void)program_ask(&p, "record 10");
	gate_shut(GATE_WRITING);
	g_assert_cmpint(ask(h, &e, NULL, &f), ==, 0);
	gate_await(h, GATE_WRITING);
	remove_tree(directory);
	gate_go(GATE_WRITING);
	await_ends(h, &e, 1);
	g_assert_cmpint(e.failure.kind, ==, FAILURE_IO);
	g_assert_nonnull(strstr(e.failure.text, directory));

	g_assert_true(g_file_set_contents(directory, "", 0, NULL));
	g_assert_null(house_snapshot(h, "flight"));
	g_assert_cmpint(h->done_failure.kind, ==, FAILURE_IO);
	g_assert_nonnull(strstr(h->done_failure.text, directory));
	g_assert_cmpuint(house_info(h, "flight").written, ==, 0);
	g_assert_cmpint(unlink(directory), ==, 0);
	g_assert_cmpuint(trace_count(house_snapshot(h, "flight"), "shop:order"), ==, 10);
	ends_clear(&e);
	program_end(&p);
	g_free(directory);
	g_free(parent);
}

static u32 n_entries(const char *path)
{
	GDir *d = g_dir_open(path, 0, NULL);
	u32 n = 0;

	while (g_dir_read_name(d))
		n++;
	g_dir_close(d);
	return n;
}

/* A full disk: said with numbers, nothing half is left, programs and rings are as before, and with room all is there. */
static void test_full(House *h, gconstpointer unused)
{
	char *parent = g_build_filename(h->state, "snapshots", NULL);
	char *directory = g_build_filename(parent, "flight", NULL);
	Program p;

	g_assert_cmpint(g_mkdir_with_parents(parent, 0755), ==, 0);
	if (mount("tmpfs", parent, "tmpfs", 0, "size=64k") < 0) {
		g_test_skip("cannot mount a small tmpfs (needs root)");
	} else {
		program_start(h, &p, 0);
		(void)program_ask(&p, "record 5000");
		g_assert_null(house_snapshot(h, "flight"));
		g_assert_cmpint(h->done_failure.kind, ==, FAILURE_NO_SPACE);
		g_assert_nonnull(strstr(h->done_failure.text, "available"));
		g_assert_cmpuint(n_entries(directory), ==, 0);
		g_assert_cmpuint(house_info(h, "flight").written, ==, 0);
		(void)program_ask(&p, "record 5");
		g_assert_cmpint(mount("tmpfs", parent, "tmpfs", MS_REMOUNT, "size=4m"), ==, 0);
		g_assert_cmpuint(trace_count(house_snapshot(h, "flight"), "shop:order"), ==, 5005);
		program_end(&p);
		g_assert_cmpint(umount(parent), ==, 0);
	}
	g_free(directory);
	g_free(parent);
}

/* Nothing to save, and what to do about it. */
static void test_nothing(House *h, gconstpointer unused)
{
	g_assert_null(house_snapshot(h, "flight"));
	g_assert_cmpint(h->done_failure.kind, ==, FAILURE_NOTHING);
	g_assert_nonnull(strstr(h->done_failure.text, "tracerctl producers"));
	g_assert_cmpint(manager_stop_session(h->manager, "flight", NULL, NULL, NULL), ==, 0);
	g_assert_null(house_snapshot(h, "flight"));
	g_assert_cmpint(h->done_failure.kind, ==, FAILURE_NOTHING);
	g_assert_nonnull(strstr(h->done_failure.text, "tracerctl start flight"));
}

static void up(House *h, gconstpointer config)
{
	house_up(h, config);
	gates_open(h);
}

static void down(House *h, gconstpointer config)
{
	gates_close();
	house_down(h, config);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	(void)signal(SIGPIPE, SIG_IGN);
	journal_set_level(g_test_verbose() ? LOG_DEBUG : LOG_CRIT);
#define ADD(name, config, fn) g_test_add("/exact/" name, House, config, up, fn, down)
#define CRASH	 "snapshot: { on_crash = true; };"
#define PROCESS	 "buffers = \"per-process\"; "
	ADD("late-class", SESSION(""), test_late_class);
	ADD("kept-ids", SESSION(""), test_kept_ids);
	ADD("clear", SESSION(""), test_clear);
	ADD("remove", SESSION(""), test_remove);
	ADD("cut-at-once", SESSION(CRASH), test_cut_at_once);
	ADD("dead/waits", SESSION(PROCESS CRASH), test_dead_waits);
	ADD("dead/wanted", SESSION(PROCESS), test_dead_wanted);
	ADD("dead/kept", SESSION(PROCESS), test_dead_kept);
	ADD("thousand", SESSION("snapshot: { on_crash = true; max_count = 100; };"), test_thousand);
	ADD("sums/overwrite", SESSION(""), test_sums);
	ADD("sums/discard", SESSION("policy = \"discard\";"), test_sums);
	ADD("directory", SESSION(""), test_directory);
	ADD("full", SESSION("snapshot: { keep_free = \"0\"; };"), test_full);
	ADD("nothing", SESSION(""), test_nothing);
	return g_test_run();
}
