/* SPDX-License-Identifier: MIT */
/* A snapshot says which programs its records are of, also of those that are gone. With real programs. */
#include "tests/integration/daemon/house.h"

#include <signal.h>
#include <stdio.h>

#define FLIGHT "sessions: { flight: { autostart = true; memory = \"1M\"; snapshot: { on_crash = false; }; }; };"

/* Judged by another reader of JSON: `expression` of what the file says, d. */
static void json(const char *snapshot, const char *expression)
{
	g_autofree char *file = g_build_filename(snapshot, "producers.json", NULL);
	const char *argv[] = { "python3", "-c",
			       "import json,sys\nd=json.load(open(sys.argv[1]))\np=d['producers']\n"
			       "if not eval(sys.argv[2]): sys.exit(sys.argv[2]+': '+json.dumps(d,indent=1))",
			       file, expression, NULL };
	g_autofree char *err = NULL;
	int status;

	g_assert_true(g_spawn_sync(NULL, (char **)argv, NULL, G_SPAWN_SEARCH_PATH, NULL, NULL, NULL, &err, &status, NULL));
	if (status)
		g_error("%s", err);
}

static void json_of(const char *snapshot, pid_t pid, const char *expression)
{
	g_autofree char *whole = g_strdup_printf("[bool(%s) for x in p if x['pid'] == %d] == [True]", expression, (int)pid);

	json(snapshot, whole);
}

static char *metadata(const char *snapshot)
{
	g_autofree char *file = g_strdup_printf("%s/user-%u/metadata", snapshot, (unsigned)getuid());
	char *text;

	g_assert_true(g_file_get_contents(file, &text, NULL, NULL));
	return text;
}

static bool nobody_left(void *userdata)
{
	return manager_n_producers(((House *)userdata)->manager) == 0;
}

static bool one_left(void *userdata)
{
	return manager_n_producers(((House *)userdata)->manager) == 1;
}

static void test_living(House *h, gconstpointer unused)
{
	g_autofree char *link = NULL, *exe = NULL, *wanted = NULL, *text = NULL, *line = NULL;
	ProducerInfo info;
	const char *path;
	Program p;

	program_start(h, &p, 0);
	(void)program_ask(&p, "record 1");
	link = g_strdup_printf("/proc/%d/exe", (int)p.pid);
	exe = g_file_read_link(link, NULL);
	g_assert_true(manager_producer(h->manager, 0, &info));
	g_assert_cmpstr(info.exe, ==, exe);
	g_assert_cmpuint(strlen(info.build_id), ==, 40);
	/* it began within the last minute, by a clock of 100 ticks a second */
	g_assert_cmpuint(info.started / NSEC_PER_USEC, <=, (u64)g_get_real_time() + 20000);
	g_assert_cmpuint(info.started / NSEC_PER_USEC, >, (u64)g_get_real_time() - 60 * 1000000);
	path = house_snapshot(h, "flight");
	g_assert_nonnull(path);
	json(path, "d['session'] == 'flight' and len(p) == 1 and d['left_out'] == 0");
	wanted = g_strdup_printf("x['exe'] == '%s' and x['build_id'] == '%s' and x['vpid'] == x['pid'] and x['uid'] == %u "
				 "and x['user'] == '%s' and x['command'] == 'subject-daemon' and x['start_ticks'] == %lu and "
				 "x['owner'] == 'user-%u' and 'ended' not in x and x['started'].endswith('Z')",
				 exe, info.build_id, (unsigned)getuid(), g_get_user_name(),
				 (unsigned long)info.start_ticks, (unsigned)getuid());
	json_of(path, p.pid, wanted);
	text = metadata(path);
	line = g_strdup_printf("\tproducers = \"1\";\n\tproducer_1_pid = \"%d\";\n", (int)p.pid);
	g_assert_nonnull(strstr(text, line));
	g_assert_nonnull(strstr(text, "producer_1_exe = \"/"));
	g_assert_nonnull(strstr(text, "producer_1_started = \"20"));
	g_assert_null(strstr(text, "producer_1_ended"));
	program_end(&p);
}

/* One that was killed, one that left, and one that became another: there as long as the rings may have something of them. */
static void test_dead(House *h, gconstpointer unused)
{
	g_autofree char *text = NULL, *expression = NULL;
	const char *path;
	pid_t killed, left;
	Program p, lives;

	program_start(h, &lives, 0);
	(void)program_ask(&lives, "record 1");
	program_start(h, &p, 0);
	(void)program_ask(&p, "record 1");
	killed = p.pid;
	g_assert_cmpint(kill(killed, SIGKILL), ==, 0);
	house_until(h, one_left, h);
	program_end(&p);
	program_start(h, &p, 0);
	(void)program_ask(&p, "record 1");
	(void)program_ask(&p, "exec");
	(void)program_ask(&p, "record 1");
	left = p.pid;
	program_end(&p);
	house_until(h, one_left, h);

	path = house_snapshot(h, "flight");
	g_assert_nonnull(path);
	json(path, "len(p) == 4 and d['left_out'] == 0");
	json_of(path, lives.pid, "'ended' not in x");
	json_of(path, killed, "x['ended'] >= x['started'] and x['exe'].endswith('subject-daemon') and "
			      "x['end'] in ('killed by signal 9 (SIGKILL)', 'ended')");
	expression = g_strdup_printf("sum(x['pid'] == %d for x in p) == 2 and sum(x.get('end') == 'became another program' "
				     "for x in p) == 1", (int)left);
	json(path, expression);
	text = metadata(path);
	g_assert_nonnull(strstr(text, "\tproducers = \"4\";"));
	g_assert_nonnull(strstr(text, "producer_1_ended = \"20"));

	/* their records have been overwritten, which is found out when the next program comes */
	for (u32 i = 0; i < 3; i++)
		(void)program_ask(&lives, "lap 50000");
	program_start(h, &p, 0);
	(void)program_ask(&p, "record 1");
	path = house_snapshot(h, "flight");
	g_assert_nonnull(path);
	json(path, "len(p) == 2 and all('ended' not in x for x in p)");
	program_end(&p);
	program_end(&lives);
	house_until(h, nobody_left, h);
}

/* Of a session that is no more: the snapshot was being taken. */
static void test_removed(House *h, gconstpointer unused)
{
	Failure f = FAILURE_NULL;
	const char *path;
	Program p;

	program_start(h, &p, 0);
	(void)program_ask(&p, "record 3");
	program_end(&p);
	house_until(h, nobody_left, h);
	path = house_snapshot(h, "flight");
	g_assert_nonnull(path);
	json(path, "len(p) == 1 and 'ended' in p[0]");
	g_assert_cmpint(manager_clear_session(h->manager, "flight", &f), ==, 0);
	program_start(h, &p, 0);
	(void)program_ask(&p, "record 3");
	path = house_snapshot(h, "flight");
	g_assert_nonnull(path);
	json(path, "len(p) == 1 and 'ended' not in p[0]");
	program_end(&p);
}

static void rotated(void *userdata, const char *path, const Failure *failure)
{
	g_assert_nonnull(path);
	((House *)userdata)->done = true;
}

static bool is_rotated(void *userdata)
{
	return ((House *)userdata)->done;
}

static bool traces_two(void *userdata)
{
	return ((House *)userdata)->n_traces >= 2;
}

/* A session that writes says it in each of its traces: of a program that ended before there was one, nothing. */
static void test_writing(House *h, gconstpointer unused)
{
	g_autofree char *output = g_build_filename(h->state, "traces", "flight", NULL), *first = NULL, *second = NULL;
	g_autofree char *killed = NULL, *lives = NULL;
	Failure f = FAILURE_NULL;
	const char *name;
	char *paths[2] = { NULL, NULL };
	Program p, q;
	GDir *d;
	u32 n = 0;

	program_start(h, &p, 0);
	(void)program_ask(&p, "record 1");
	killed = g_strdup_printf("_pid = \"%d\";", (int)p.pid);
	program_start(h, &q, 0);
	(void)program_ask(&q, "record 1");
	lives = g_strdup_printf("_pid = \"%d\";", (int)q.pid);
	program_end(&p);
	house_until(h, one_left, h);
	g_assert_cmpint(manager_rotate_session(h->manager, "flight", rotated, h, &f), ==, 0);
	house_until(h, is_rotated, h); /* else the next record may still be in the first */
	(void)program_ask(&q, "record 1");
	g_assert_cmpint(manager_stop_session(h->manager, "flight", NULL, NULL, &f), ==, 0);
	house_until(h, traces_two, h);
	d = g_dir_open(output, 0, NULL);
	g_assert_nonnull(d);
	while ((name = g_dir_read_name(d)))
		if (g_str_has_suffix(name, "-trace") && n < 2)
			paths[n++] = g_build_filename(output, name, NULL);
	g_dir_close(d);
	g_assert_cmpuint(n, ==, 2);
	if (strcmp(paths[0], paths[1]) > 0) {
		char *other = paths[0];

		paths[0] = paths[1];
		paths[1] = other;
	}
	first = metadata(paths[0]);
	second = metadata(paths[1]);
	g_assert_nonnull(strstr(first, "\tproducers = \"2\";"));
	g_assert_nonnull(strstr(first, killed));
	g_assert_nonnull(strstr(first, "producer_1_end = \""));
	g_assert_nonnull(strstr(first, lives));
	g_assert_nonnull(strstr(second, "\tproducers = \"1\";"));
	g_assert_null(strstr(second, killed));
	g_assert_nonnull(strstr(second, lives));
	g_assert_nonnull(strstr(second, "producer_1_build_id"));
	g_free(paths[0]);
	g_free(paths[1]);
	program_end(&q);
}

#define WRITES "sessions: { flight: { autostart = true; memory = \"1M\"; io = \"write\"; }; };"

#define ADD(name, test) g_test_add("/described/" name, House, FLIGHT, house_up, test, house_down)

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	ADD("living", test_living);
	ADD("dead", test_dead);
	ADD("cleared", test_removed);
	g_test_add("/described/writing", House, WRITES, house_up, test_writing, house_down);
	return g_test_run();
}
