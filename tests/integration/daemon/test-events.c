/* SPDX-License-Identifier: MIT */
/* on_event: an event that is recorded takes a snapshot with itself in it, and others know nothing of it. */
#include "tests/integration/daemon/house.h"

#include "systemd/journal.h"

#include <signal.h>
#include <stdio.h>

#define FLIGHT(more)                                                                               \
	"sessions: { flight: { autostart = true; events = [ \"shop:*\" ]; memory = \"1M\"; " more " }; };"
#define ON_EXTRA FLIGHT("snapshot: { on_event = [ \"shop:extra\" ]; };")

static ProducerInfo producer(House *h)
{
	ProducerInfo pi;

	g_assert_true(manager_producer(h->manager, 0, &pi));
	return pi;
}

static void no_snapshot(House *h)
{
	house_turn(h, 0);
	g_assert_cmpuint(jobs_n(h->manager->jobs), ==, 0);
}

static void test_event(House *h, gconstpointer unused)
{
	g_autofree char *text = NULL, *last = NULL;
	Program p;

	program_start(h, &p, 0);
	g_assert_cmpstr(program_ask(&p, "record 1000"), ==, "recorded 1000");
	no_snapshot(h);
	g_assert_cmpstr(program_ask(&p, "extra 1"), ==, "recorded 1001");
	house_await_snapshots(h, 1);
	g_assert_true(g_str_has_suffix(h->snapshot_path, "-event"));
	g_assert_nonnull(strstr(h->snapshot_reason, "event shop:extra of "));
	g_assert_nonnull(strstr(h->snapshot_reason, "subject-daemon"));
	text = trace_text(h->snapshot_path);
	last = g_strdup(strrchr(text, '\n'));
	g_assert_nonnull(strstr(last, "shop:extra"));
	g_assert_cmpuint(trace_count(h->snapshot_path, "shop:order"), ==, 1000);
	program_end(&p);
}

/* A flood of triggers is a flood of records, and of hardly any notices: one a second. None counts as missed. */
static void test_flood(House *h, gconstpointer unused)
{
	u64 seconds = manager_now();
	Program p;

	program_start(h, &p, 0);
	g_assert_cmpstr(program_ask(&p, "extra 300000"), ==, "recorded 300000");
	house_await_snapshots(h, 1);
	(void)program_ask(&p, "extra 1");
	no_snapshot(h);
	seconds = (manager_now() - seconds) / NSEC_PER_SEC;
	/* who comes round while the copy holds the ring, discards and counts */
	g_assert_cmpuint(house_info(h, "flight").recorded + house_info(h, "flight").discarded, ==, 300001);
	g_assert_cmpuint(house_info(h, "flight").suppressed_by[CAUSE_EVENT], <=, seconds + 1);
	g_assert_cmpuint(h->n_snapshots, ==, 1); /* min_interval */
	(void)program_ask(&p, "record 1");
	g_assert_cmpuint(producer(h).missed, ==, 0);
	g_assert_cmpuint(producer(h).failed, ==, 0);
	program_end(&p);
}

/* What a session does not record triggers nothing in it, whatever the patterns say. */
static void test_unrecorded(House *h, gconstpointer unused)
{
	Program p;

	program_start(h, &p, 0);
	(void)program_ask(&p, "record 10");
	(void)program_ask(&p, "threads 1"); /* records other:thing, too */
	(void)program_ask(&p, "join");
	no_snapshot(h);
	g_assert_cmpuint(house_info(h, "flight").suppressed, ==, 0);
	program_end(&p);
}

static void test_configured_later(House *h, gconstpointer unused)
{
	Failure f;
	Program p;

	program_start(h, &p, 0);
	(void)program_ask(&p, "extra 1");
	no_snapshot(h);
	house_configure(h, ON_EXTRA);
	g_assert_cmpint(manager_reload(h->manager, &f), ==, 0);
	(void)program_ask(&p, "extra 1");
	house_await_snapshots(h, 1);
	g_assert_cmpuint(trace_count(h->snapshot_path, "shop:extra"), ==, 2); /* the same rings */
	house_configure(h, FLIGHT(""));
	g_assert_cmpint(manager_reload(h->manager, &f), ==, 0);
	(void)program_ask(&p, "extra 1");
	no_snapshot(h);
	g_assert_cmpuint(house_info(h, "flight").recorded, ==, 3);
	program_end(&p);
}

/* Where the daemon cannot be told, the program records on, and counts what it could not say. */
static void test_alone(House *h, gconstpointer unused)
{
	g_autofree char *is = g_build_filename(h->runtime, "producer.sock", NULL);
	g_autofree char *away = g_build_filename(h->runtime, "away.sock", NULL);
	Failure f;
	Program p;

	program_start(h, &p, 0);
	(void)program_ask(&p, "record 1");
	g_assert_cmpint(rename(is, away), ==, 0);
	g_assert_cmpstr(program_ask(&p, "extra 1"), ==, "recorded 2");
	g_assert_cmpint(rename(away, is), ==, 0);
	no_snapshot(h);
	g_assert_cmpuint(house_info(h, "flight").recorded, ==, 2);
	house_configure(h, FLIGHT(""));
	g_assert_cmpint(manager_reload(h->manager, &f), ==, 0);
	(void)program_ask(&p, "record 1");
	g_assert_cmpuint(producer(h).failed, ==, 1);
	program_end(&p);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	(void)signal(SIGPIPE, SIG_IGN);
	journal_set_level(g_test_verbose() ? LOG_DEBUG : LOG_CRIT);
#define ADD(name, config, fn) g_test_add("/events/" name, House, config, house_up, fn, house_down)
	ADD("event", ON_EXTRA, test_event);
	ADD("flood", ON_EXTRA, test_flood);
	ADD("unrecorded", FLIGHT("snapshot: { on_event = [ \"other:*\" ]; };"), test_unrecorded);
	ADD("configured-later", FLIGHT(""), test_configured_later);
	ADD("alone", ON_EXTRA, test_alone);
	return g_test_run();
}
