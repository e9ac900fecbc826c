/* SPDX-License-Identifier: MIT */
/* Pinned events: what a program says first stays, whatever the rings do; with real programs. */
#include "tests/integration/daemon/house.h"

#include "lib/side.h"

#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>

#define FLIGHT(more)                                                                                        \
	"sessions: { flight: { autostart = true; memory = \"1M\"; pinned = [ \"shop:extra\" ]; " more " }; };"

/* A line for each record of the event, of one program or (0) of all. */
static u32 count(const char *path, const char *event, pid_t pid)
{
	char *text = trace_text(path), *vpid = g_strdup_printf("vpid = %d,", (int)pid);
	char *rest = NULL;
	u32 n = 0;

	/* not g_strsplit(), whose strstr() a sanitizer makes quadratic */
	for (char *l = strtok_r(text, "\n", &rest); l; l = strtok_r(NULL, "\n", &rest))
		n += strstr(l, event) && (!pid || strstr(l, vpid));
	g_free(vpid);
	g_free(text);
	return n;
}

static Owner *the_owner(House *h)
{
	Session *s = manager_find(h->manager, "flight");

	g_assert_nonnull(s->owners);
	g_assert_null(s->owners->next);
	return s->owners;
}

/* An environment entry of the one trace in the snapshot. */
static char *entry(const char *path, const char *key)
{
	g_autofree char *file = g_strdup_printf("%s/user-%u/metadata", path, (unsigned)getuid());
	g_autofree char *wanted = g_strdup_printf("\n\t%s = \"", key);
	g_autofree char *text = NULL;
	char *at, *end;

	g_assert_true(g_file_get_contents(file, &text, NULL, NULL));
	at = strstr(text, wanted);
	g_assert_nonnull(at);
	at += strlen(wanted);
	end = strchr(at, '"');
	return g_strndup(at, (gsize)(end - at));
}

static void entry_is(const char *path, const char *key, const char *expected)
{
	g_autofree char *value = entry(path, key);

	g_assert_cmpstr(value, ==, expected);
}

static bool nobody_left(void *userdata)
{
	return manager_n_producers(((House *)userdata)->manager) == 0;
}

/* The flight recorder comes round a thousand times; what the program said when it began is there, and the newest. */
static void test_wrap(House *h, gconstpointer unused)
{
	unsigned long laps = 1000, per_lap;
	SessionInfo i;
	const char *path;
	char last[64];
	Program p;
	u64 n;

	program_start(h, &p, 0);
	(void)program_ask(&p, "extra 5");
	/* 64 KiB in sub-buffers of 4 KiB, records of at least 24 bytes */
	per_lap = (1ul << the_owner(h)->region.geometry.ring_shift) / 24;
	n = strtoul(program_ask(&p, "lap %lu", laps * per_lap) + strlen("recorded "), NULL, 10);
	(void)program_ask(&p, "record 1");
	i = house_info(h, "flight");
	g_assert_cmpuint(i.recorded, ==, n + 1);
	g_assert_cmpuint(i.pinned, ==, 5);
	g_assert_cmpuint(i.unpinned, ==, 0);
	g_assert_cmpuint(i.discarded, ==, 0);
	g_assert_cmpuint(i.overwritten, >, (laps - 1) * per_lap);
	path = house_snapshot(h, "flight");
	g_assert_nonnull(path);
	g_assert_cmpuint(count(path, "shop:extra", p.pid), ==, 5);
	(void)snprintf(last, sizeof(last), "number = %lu,", (unsigned long)n);
	g_assert_cmpuint(count(path, last, 0), ==, 1);
	entry_is(path, "records_pinned", "5");
	entry_is(path, "records_unpinned", "0");
	{
		g_autofree char *ring = entry(path, "ring_pinned_0");

		g_assert_cmpint(g_str_has_prefix(ring, "written=5 kept=5 overwritten=0 trimmed=0 corrupt=0"), ==, 1);
	}
	program_end(&p);
}

/* What does not fit is recorded all the same, and said. */
static void test_full(House *h, gconstpointer unused)
{
	SessionInfo i;
	const char *path;
	Program p;

	program_start(h, &p, 0);
	(void)program_ask(&p, "extra 3000");
	i = house_info(h, "flight");
	g_assert_cmpuint(i.recorded, ==, 3000);
	g_assert_cmpuint(i.pinned, >, 500);
	g_assert_cmpuint(i.pinned + i.unpinned, ==, 3000);
	g_assert_cmpuint(i.discarded, ==, 0);
	g_assert_cmpfloat(i.fill, <, 1);
	path = house_snapshot(h, "flight");
	g_assert_nonnull(path);
	g_assert_cmpuint(count(path, "shop:extra", 0), >=, i.pinned);
	{
		g_autofree char *written = entry(path, "records_written"), *pinned = entry(path, "records_pinned");

		g_assert_cmpuint(strtoul(written, NULL, 10), ==, 3000);
		g_assert_cmpuint(strtoul(pinned, NULL, 10), ==, i.pinned);
	}
	program_end(&p);
}

static void limited_done(void *userdata, const char *path, const Failure *failure)
{
	House *h = userdata;

	g_assert_nonnull(path);
	g_free(h->done_path);
	h->done_path = g_strdup(path);
	h->done = true;
}

static bool is_done(void *userdata)
{
	return ((House *)userdata)->done;
}

/* Who asks for the newest gets the pinned ones as well. */
static void test_limited(House *h, gconstpointer unused)
{
	static const SnapshotOptions options[] = { { .duration_ns = NSEC_PER_MSEC },
						   { .max_size = 64 << 10 },
						   { .duration_ns = NSEC_PER_MSEC, .max_size = 64 << 10 } };
	Failure f = FAILURE_NULL;
	Program p;

	program_start(h, &p, 0);
	(void)program_ask(&p, "extra 7");
	(void)program_ask(&p, "pace 3000");
	for (u32 i = 0; i < ELEMENTSOF(options); i++) {
		h->done = false;
		g_assert_cmpint(manager_snapshot(h->manager, "flight", "manual", "a test", &options[i], limited_done, h,
						 NULL, &f),
				==, 0);
		house_until(h, is_done, h);
		g_assert_cmpuint(count(h->done_path, "shop:extra", 0), ==, 7);
		if (options[i].duration_ns)
			g_assert_cmpuint(count(h->done_path, "shop:order", 0), <, 3000);
	}
	program_end(&p);
}

/* A service that is restarted over and over: the newest start is there, and so is that of a program that went on all the time. */
static void test_restarted(House *h, gconstpointer unused)
{
	const char *path;
	SessionInfo i;
	Program lives, p;
	u32 last = 0;

	program_start(h, &lives, 0);
	(void)program_ask(&lives, "extra 11");
	for (u32 turn = 0; turn < 40; turn++) {
		program_start(h, &p, 0);
		(void)program_ask(&p, "extra 200");
		i = house_info(h, "flight");
		g_assert_cmpuint(i.unpinned, ==, 0);
		g_assert_cmpuint(i.recorded, ==, 11 + (turn + 1) * 200u);
		last = (u32)p.pid;
		if (turn < 39) {
			u32 changes = h->n_producer_changes;

			program_end(&p);
			while (h->n_producer_changes == changes)
				house_turn(h, 100000);
		}
	}
	g_assert_cmpuint(i.pinned, <, 11 + 40 * 200u); /* some were given away ... */
	g_assert_cmpuint(i.pinned, >, 11 + 15 * 200u); /* ... and as few as need be */
	g_assert_cmpuint(i.overwritten + i.pinned, ==, i.recorded);
	(void)program_ask(&p, "lap 100000");
	path = house_snapshot(h, "flight");
	g_assert_nonnull(path);
	g_assert_cmpuint(count(path, "shop:extra", (pid_t)last), ==, 200);
	g_assert_cmpuint(count(path, "shop:extra", lives.pid), ==, 11);
	{
		g_autofree char *pinned = entry(path, "records_pinned");

		g_assert_cmpuint(strtoul(pinned, NULL, 10), ==, i.pinned);
	}
	program_end(&p);
	program_end(&lives);
	house_until(h, nobody_left, h);
}

/* More programs than rings: the others are recorded as without. */
static void test_many(House *h, gconstpointer unused)
{
	Program p[18];
	SessionInfo i;

	for (u32 k = 0; k < ELEMENTSOF(p); k++) {
		program_start(h, &p[k], 0);
		(void)program_ask(&p[k], "extra 10");
	}
	i = house_info(h, "flight");
	g_assert_cmpuint(i.pinned, ==, 160);
	g_assert_cmpuint(i.unpinned, ==, 20);
	g_assert_cmpuint(i.recorded, ==, 180);
	for (u32 k = 0; k < ELEMENTSOF(p); k++)
		program_end(&p[k]);
	house_until(h, nobody_left, h);
}

/* A wrapper that becomes the service, a child, and a handler that comes in between. */
static void test_ways(House *h, gconstpointer unused)
{
	const char *path;
	SessionInfo i;
	unsigned long n;
	Program p;

	program_start(h, &p, 0);
	(void)program_ask(&p, "extra 1");
	(void)program_ask(&p, "exec");
	(void)program_ask(&p, "extra 2");
	(void)program_ask(&p, "fork 3");
	i = house_info(h, "flight");
	g_assert_cmpuint(i.pinned, ==, 6);
	n = strtoul(program_ask(&p, "storm 300") + strlen("recorded "), NULL, 10);
	i = house_info(h, "flight");
	g_assert_cmpuint(i.recorded, ==, 6 + n);
	g_assert_cmpuint(i.pinned + i.unpinned, ==, 6 + n);
	g_assert_cmpuint(i.discarded, ==, 0);
	path = house_snapshot(h, "flight");
	g_assert_nonnull(path);
	g_assert_cmpuint(count(path, "shop:extra", 0), ==, 6 + n);
	program_end(&p);
}

/* One that dies with its ring's lock, and the next that gets the ring. */
static void test_lock(House *h, gconstpointer unused)
{
	const Owner *o;
	struct abi_ring *line;
	Program p;
	u32 ring, number;

	program_start(h, &p, 0);
	(void)program_ask(&p, "extra 1");
	o = the_owner(h);
	ring = o->attachments->pinned;
	number = o->attachments->producer->number;
	g_assert_true(geometry_is_pinned(&o->region.geometry, ring));
	line = (struct abi_ring *)(o->region.map + ABI_PAGE) + ring;
	line->lock = (u64)number << 32 | (u32)p.pid;
	program_end(&p);
	house_until(h, nobody_left, h);
	g_assert_cmpuint(line->lock, ==, 0);
}

/* Somebody writes over all of it, all the time: honest programs and the daemon go on. */
static void test_scribble(House *h, gconstpointer unused)
{
	const char *path;
	Program p, bad;

	program_start_other(h, &bad, g_getenv("TRACER_TEST_SCRIBBLER"), NULL);
	program_start(h, &p, 0);
	for (u32 k = 0; k < 5; k++) {
		(void)program_ask(&bad, "scribble 5");
		(void)program_ask(&p, "extra 20");
		(void)house_info(h, "flight");
		path = house_snapshot(h, "flight");
		g_assert_nonnull(path);
		g_free(trace_text(path));
		program_end(&p);
		program_start(h, &p, 0);
	}
	program_end(&p);
	program_end(&bad);
	house_until(h, nobody_left, h);
}

static void reload(House *h, const char *text)
{
	Failure f = FAILURE_NULL;

	house_configure(h, text);
	g_assert_cmpint(manager_reload(h->manager, &f), ==, 0);
}

/* Other patterns are told to programs that run; that there are any takes new rings. */
static void test_reload(House *h, gconstpointer unused)
{
	const Session *s = manager_find(h->manager, "flight");
	Failure f = FAILURE_NULL;
	SessionInfo i;
	Program p;
	u64 memory;

	program_start(h, &p, 0);
	(void)program_ask(&p, "extra 2");
	(void)program_ask(&p, "record 2");
	reload(h, "sessions: { flight: { autostart = true; memory = \"1M\"; pinned = [ \"shop:order\" ]; }; };");
	g_assert_cmpuint(s->n_renewals, ==, 0);
	(void)program_ask(&p, "extra 4");
	(void)program_ask(&p, "record 8");
	i = house_info(h, "flight");
	g_assert_cmpuint(i.pinned, ==, 2 + 8);
	g_assert_cmpuint(i.recorded, ==, 16);
	memory = i.memory;
	reload(h, FLIGHT(""));
	g_assert_cmpuint(s->n_renewals, ==, 0);
	(void)program_ask(&p, "extra 16");
	g_assert_cmpuint(house_info(h, "flight").pinned, ==, 2 + 8 + 16);

	reload(h, FLIGHT("pinned_memory = \"1M\";"));
	g_assert_cmpuint(s->n_renewals, ==, 1);
	g_assert_cmpuint(house_info(h, "flight").recorded, ==, 0);
	(void)program_ask(&p, "extra 3");
	i = house_info(h, "flight");
	g_assert_cmpuint(i.pinned, ==, 3);
	g_assert_cmpuint(i.memory, >, memory + (700 << 10));
	reload(h, "sessions: { flight: { autostart = true; memory = \"1M\"; }; };");
	g_assert_cmpuint(s->n_renewals, ==, 2);
	(void)program_ask(&p, "extra 3");
	i = house_info(h, "flight");
	g_assert_cmpuint(i.pinned, ==, 0);
	g_assert_cmpuint(i.recorded, ==, 3);
	g_assert_cmpuint(i.memory, <, memory);

	/* one that writes has no use for it, and says so */
	house_configure(h, FLIGHT("io = \"write\";"));
	g_assert_cmpint(manager_reload(h->manager, &f), <, 0);
	g_assert_nonnull(strstr(f.text, "pinned: a session that writes continuously keeps every event"));
	(void)program_ask(&p, "extra 3");
	g_assert_cmpuint(house_info(h, "flight").recorded, ==, 6);
	program_end(&p);
}

#define ADD(name, config, test)                                                                             \
	g_test_add("/pinned/" name, House, config, house_up, test, house_down)

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	ADD("wrapped-a-thousand-times", FLIGHT(""), test_wrap);
	ADD("full", FLIGHT(""), test_full);
	ADD("full-discard", FLIGHT("policy = \"discard\";"), test_full);
	ADD("limited", FLIGHT(""), test_limited);
	ADD("restarted", FLIGHT("pinned_memory = \"128K\";"), test_restarted);
	ADD("many", FLIGHT("pinned_memory = \"128K\";"), test_many);
	ADD("ways", FLIGHT(""), test_ways);
	ADD("lock-per-process", FLIGHT("buffers = \"per-process\";"), test_lock);
	ADD("lock", FLIGHT(""), test_lock);
	ADD("scribble", FLIGHT(""), test_scribble);
	ADD("reload", FLIGHT(""), test_reload);
	return g_test_run();
}
