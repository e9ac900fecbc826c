/* SPDX-License-Identifier: MIT */
/* A disk that does not answer for a while, stood in for by a gate before the end of every trace (linked in by --wrap). */
#include "tests/integration/daemon/house.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/file.h>
#include <sys/resource.h>

#include "daemon/output.h"

#define CONFIG_WITH(settings)                                                                           \
	"sessions: { log: { autostart = true; events = [ \"shop:*\" ]; output_keep_free = \"0\"; "         \
	"policy = \"discard\"; io = \"write\"; flush_interval = \"20ms\"; " settings " }; };"
#define CONFIG CONFIG_WITH("")

/* More than may be on their way at one time. */
#define ROTATIONS (OUTPUT_MAX_CLOSING + 2)

static struct {
	pthread_mutex_t lock;
	pthread_cond_t wake;
	bool shut;
	int n; /* who came to it */
} gate = { .lock = PTHREAD_MUTEX_INITIALIZER, .wake = PTHREAD_COND_INITIALIZER };

/* NOLINTBEGIN(bugprone-reserved-identifier): the linker's names */
int __real_chunk_close(Chunk *c);
int __wrap_chunk_close(Chunk *c);
int __wrap_chunk_close(Chunk *c)
{
	(void)pthread_mutex_lock(&gate.lock);
	gate.n++;
	while (gate.shut)
		(void)pthread_cond_wait(&gate.wake, &gate.lock);
	(void)pthread_mutex_unlock(&gate.lock);
	return __real_chunk_close(c);
}
/* NOLINTEND(bugprone-reserved-identifier) */

static void gate_set(bool shut)
{
	(void)pthread_mutex_lock(&gate.lock);
	gate.shut = shut;
	gate.n = 0;
	(void)pthread_cond_broadcast(&gate.wake);
	(void)pthread_mutex_unlock(&gate.lock);
}

static int gate_reached(void)
{
	int n;

	(void)pthread_mutex_lock(&gate.lock);
	n = gate.n;
	(void)pthread_mutex_unlock(&gate.lock);
	return n;
}

typedef struct {
	House *h;
	int n; /* answers */
	int closing;
	char *paths[ROTATIONS];
	bool stopped;
} Answers;

static void on_rotated(void *userdata, const char *path, const Failure *failure)
{
	Answers *a = userdata;

	g_assert_cmpint(a->n, <, ROTATIONS);
	a->paths[a->n++] = g_strdup(path);
}

static void on_stopped(void *userdata, const Failure *failure)
{
	Answers *a = userdata;

	g_assert_false(a->stopped);
	g_assert_null(failure);
	a->stopped = true;
}

/* Threads come to the gate without a word to the loop. */
static bool all_closing(void *userdata)
{
	house_turn(((Answers *)userdata)->h, 1000);
	return gate_reached() >= ((Answers *)userdata)->closing;
}

static bool all_answered(void *userdata)
{
	return ((Answers *)userdata)->n == ROTATIONS;
}

static bool is_stopped(void *userdata)
{
	return ((Answers *)userdata)->stopped;
}

static void begin(House *h, Answers *a, Program *p, int n)
{
	Failure f;

	gate_set(true);
	for (int i = 0; i < n; i++) {
		(void)program_ask(p, "record 100");
		g_assert_cmpint(manager_rotate_session(h->manager, "log", on_rotated, a, &f), ==, 0);
		a->closing = MIN(i + 1, OUTPUT_MAX_CLOSING);
		house_until(h, all_closing, a);
	}
}

static void check(House *h, Answers *a)
{
	SessionInfo i = house_info(h, "log");

	g_assert_cmpuint(i.recorded, ==, 100 * ROTATIONS);
	g_assert_cmpuint(i.written, ==, 100 * ROTATIONS);
	g_assert_cmpuint(trace_count(i.output, "shop:order"), ==, 100 * ROTATIONS);
	for (int k = 0; k < ROTATIONS; k++)
		g_free(a->paths[k]);
}

static u64 cpu_usec(void)
{
	struct rusage r;

	g_assert_cmpint(getrusage(RUSAGE_SELF, &r), ==, 0);
	return (u64)(r.ru_utime.tv_sec + r.ru_stime.tv_sec) * 1000000 + (u64)(r.ru_utime.tv_usec + r.ru_stime.tv_usec);
}

/* Rotations that wait for the disk wait asleep, and are each answered once. */
static void test_wait(House *h, gconstpointer unused)
{
	Answers a = { h };
	Program p;
	u64 before;
	int n = 0;

	program_start(h, &p, 0);
	begin(h, &a, &p, ROTATIONS);
	before = cpu_usec();
	for (gint64 until = g_get_monotonic_time() + 500000; g_get_monotonic_time() < until;)
		house_turn(h, 100000);
	g_assert_cmpuint(cpu_usec() - before, <, 200000);
	g_assert_cmpint(a.n, ==, 0);
	gate_set(false);
	house_until(h, all_answered, &a);
	/* the first that waited takes what was recorded before the second as well, which may find nothing then */
	for (int i = 0; i < ROTATIONS; i++)
		n += a.paths[i] != NULL;
	g_assert_cmpint(n, >=, ROTATIONS - 1);
	check(h, &a);
	program_end(&p);
}

/* Stopped meanwhile: who waits for a rotation is answered, once, and so is who waits for the stop. */
static void test_stop(House *h, gconstpointer unused)
{
	Answers a = { h };
	Failure f;
	Program p;

	program_start(h, &p, 0);
	begin(h, &a, &p, ROTATIONS);
	g_assert_cmpint(manager_stop_session(h->manager, "log", on_stopped, &a, &f), ==, 0);
	house_turn(h, 10000);
	g_assert_false(a.stopped);
	gate_set(false);
	house_until(h, is_stopped, &a);
	g_assert_cmpint(a.n, ==, ROTATIONS);
	check(h, &a);
	program_end(&p);
}

/* The output is lost and opened anew while a trace is on its way: that one is not taken for what a dead daemon left. */
static void test_anew(House *h, gconstpointer unused)
{
	char *other = g_build_filename(h->directory, "other", NULL), *first = g_strdup(house_info(h, "log").output);
	const char *const outputs[] = { other, first };
	Answers a = { h };
	Program p;
	Failure f;

	program_start(h, &p, 0);
	begin(h, &a, &p, 1);
	for (u32 i = 0; i < ELEMENTSOF(outputs); i++) {
		SessionConfig *c = session_config_copy(manager_find(h->manager, "log")->config);
		ConfigValue v = { .type = CONFIG_STRING, .string = outputs[i] };
		char *text = NULL;

		g_assert_cmpint(session_config_set(c, "output", &v, &text), ==, 0);
		g_assert_cmpint(manager_configure_session(h->manager, c, &f), ==, 0);
		(void)program_ask(&p, "record 100");
		a.closing = (int)i + 2;
		g_assert_cmpint(manager_rotate_session(h->manager, "log", on_rotated, &a, &f), ==, 0);
		house_until(h, all_closing, &a);
	}
	/* the first of them still has its working name */
	house_turn(h, 100000);
	g_assert_cmpint(a.n, ==, 0);
	gate_set(false);
	g_assert_cmpint(manager_stop_session(h->manager, "log", on_stopped, &a, &f), ==, 0);
	house_until(h, is_stopped, &a);
	g_assert_cmpint(a.n, ==, 3);
	for (int i = 0; i < 3; i++) {
		g_assert_nonnull(a.paths[i]);
		g_assert_cmpuint(trace_count(a.paths[i], "shop:order"), ==, 100);
		g_free(a.paths[i]);
	}
	g_assert_cmpuint(h->n_troubles, ==, 0);
	program_end(&p);
	g_free(first);
	g_free(other);
}

typedef struct {
	House *h;
	u64 n;
} Count;

static bool all_written(void *userdata)
{
	Count *c = userdata;

	house_turn(c->h, 1000);
	return house_info(c->h, "log").written >= c->n;
}

static bool few_owners(void *userdata)
{
	Count *c = userdata;

	house_turn(c->h, 1000);
	return house_info(c->h, "log").n_owners <= c->n;
}

/* Programs that come while rotations wait for the disk are served, and those that go leave no memory. */
static void test_crowd(House *h, gconstpointer unused)
{
	Count written = { h, 100 * ROTATIONS }, owners = { h, 12 };
	Answers a = { h };
	Failure f;
	Program p;

	program_start(h, &p, 0);
	begin(h, &a, &p, ROTATIONS);
	for (int i = 0; i < 20; i++) {
		Program one;

		program_start(h, &one, 0);
		(void)program_ask(&one, "record 100");
		program_end(&one);
		written.n += 100;
	}
	house_until(h, all_written, &written);
	house_until(h, few_owners, &owners);
	g_assert_cmpint(a.n, ==, 0);
	gate_set(false);
	house_until(h, all_answered, &a);
	g_assert_cmpint(manager_stop_session(h->manager, "log", on_stopped, &a, &f), ==, 0);
	house_until(h, is_stopped, &a);
	g_assert_cmpuint(house_info(h, "log").written, ==, written.n);
	g_assert_cmpuint(trace_count(house_info(h, "log").output, "shop:order"), ==, written.n);
	for (int i = 0; i < ROTATIONS; i++)
		g_free(a.paths[i]);
	program_end(&p);
}

static void reload(House *h, bool autostart)
{
	char *text = g_strdup_printf("sessions: { log: { autostart = %s; events = [ \"shop:*\" ]; output_keep_free = \"0\"; "
				     "policy = \"discard\"; io = \"write\"; flush_interval = \"20ms\"; }; };",
				     autostart ? "true" : "false");
	Failure f;

	house_configure(h, text);
	g_assert_cmpint(manager_reload(h->manager, &f), ==, 0);
	g_free(text);
}

static bool is_running(void *userdata)
{
	return strcmp(house_info(userdata, "log").state, "running") == 0;
}

/* Told to start while it still writes what it recorded: it does when that is done, unless something else was said meanwhile. */
static void test_start(House *h, gconstpointer unused)
{
	Answers a = { h }, stopped = { h };
	Failure f;
	Program p;

	program_start(h, &p, 0);
	begin(h, &a, &p, 1);
	reload(h, false);
	g_assert_cmpint(manager_stop_session(h->manager, "log", on_stopped, &a, &f), ==, 0);
	reload(h, true);
	g_assert_cmpstr(house_info(h, "log").state, ==, "stopping");
	if (strcmp(g_test_get_path(), "/closing/start/not") == 0)
		reload(h, false);
	else if (strcmp(g_test_get_path(), "/closing/start/stopped") == 0)
		g_assert_cmpint(manager_stop_session(h->manager, "log", on_stopped, &stopped, &f), ==, 0);
	else if (strcmp(g_test_get_path(), "/closing/start/ended") == 0)
		goto ended;
	gate_set(false);
	house_until(h, is_stopped, &a);
	if (strcmp(g_test_get_path(), "/closing/start") == 0) {
		g_assert_true(is_running(h));
		(void)program_ask(&p, "record 100");
		a.stopped = false;
		g_assert_cmpint(manager_stop_session(h->manager, "log", on_stopped, &a, &f), ==, 0);
		house_until(h, is_stopped, &a);
		g_assert_cmpuint(house_info(h, "log").written, ==, 200);
	} else {
		g_assert_cmpstr(house_info(h, "log").state, ==, "stopped");
	}
	g_assert_cmpint(stopped.stopped, ==, strcmp(g_test_get_path(), "/closing/start/stopped") == 0);
	/* once */
	house_turn(h, 10000);
	g_assert_cmpstr(house_info(h, "log").state, ==, "stopped");
ended:
	/* the end of the daemon waits for what is written, and starts nothing */
	gate_set(false);
	house_close(h);
	program_end(&p);
	house_open(h);
	g_free(a.paths[0]);
}

static bool other_in_trouble(void *userdata)
{
	house_turn(userdata, 1000);
	return house_info(userdata, "other").trouble[0] != 0;
}

static bool other_writes(void *userdata)
{
	house_turn(userdata, 1000);
	return house_info(userdata, "other").written >= 100;
}

static bool has_traces(void *userdata)
{
	Count *c = userdata;

	return c->h->n_traces >= c->n;
}

static bool is_locked(const char *path)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), r;

	g_assert_cmpint(fd, >=, 0);
	r = flock(fd, LOCK_EX | LOCK_NB);
	if (r < 0)
		g_assert_cmpint(errno, ==, EWOULDBLOCK);
	(void)close(fd);
	return r < 0;
}

/* It writes elsewhere while a trace is on its way to the disk. Who else wants the directory, of this daemon or of another, must not
 * take that trace for what a dead one left: it waits until it is finished. */
static void test_other(House *h, gconstpointer unused)
{
	char *elsewhere = g_build_filename(h->directory, "elsewhere", NULL), *first = g_strdup(house_info(h, "log").output);
	SessionConfig *c = session_config_copy(manager_find(h->manager, "log")->config);
	ConfigValue v = { .type = CONFIG_STRING, .string = elsewhere };
	char *text = NULL, *config;
	Count written = { h, 200 }, traces = { h, 1 };
	Answers a = { h };
	Failure f;
	Program p;

	program_start(h, &p, 0);
	begin(h, &a, &p, 1);
	g_assert_cmpint(session_config_set(c, "output", &v, &text), ==, 0);
	g_assert_cmpint(manager_configure_session(h->manager, c, &f), ==, 0);
	(void)program_ask(&p, "record 100");
	house_until(h, all_written, &written);
	g_assert_true(is_locked(elsewhere));
	g_assert_true(is_locked(first));
	config = g_strdup_printf("sessions: { log: { autostart = true; events = [ \"shop:*\" ]; output = \"%s\"; "
				 "output_keep_free = \"0\"; policy = \"discard\"; io = \"write\"; flush_interval = \"20ms\"; }; "
				 "other: { autostart = true; events = [ \"shop:*\" ]; output = \"%s\"; "
				 "output_keep_free = \"0\"; policy = \"discard\"; io = \"write\"; flush_interval = \"20ms\"; }; };",
				 elsewhere, first);
	house_configure(h, config);
	g_assert_cmpint(manager_reload(h->manager, &f), ==, 0);
	(void)program_ask(&p, "record 100");
	house_until(h, other_in_trouble, h);
	g_assert_nonnull(strstr(house_info(h, "other").trouble, "finishes"));
	g_assert_cmpint(a.n, ==, 0);
	gate_set(false);
	house_until(h, other_writes, h);
	house_until(h, has_traces, &traces);
	g_assert_cmpint(a.n, ==, 1);
	g_assert_nonnull(a.paths[0]);
	g_assert_cmpuint(trace_count(a.paths[0], "shop:order"), ==, 100);
	g_assert_cmpuint(trace_count(first, "shop:order"), ==, 200);
	g_free(a.paths[0]);
	g_free(config);
	g_free(elsewhere);
	g_free(first);
	program_end(&p);
}

static bool has_trace(void *userdata)
{
	return ((House *)userdata)->n_traces > 0;
}

/* Removed, and made again before it has written all: that is what is said, and then it can be. */
static void test_again(House *h, gconstpointer unused)
{
	SessionConfig *c = session_config_copy(manager_find(h->manager, "log")->config);
	Answers a = { h };
	Failure f = FAILURE_NULL;
	Program p;

	program_start(h, &p, 0);
	begin(h, &a, &p, 1);
	g_assert_cmpint(manager_remove_session(h->manager, "log", &f), ==, 0);
	g_assert_cmpint(manager_create_session(h->manager, c, NULL, &f), <, 0);
	g_assert_cmpint(f.kind, ==, FAILURE_BUSY);
	g_assert_nonnull(strstr(f.text, "removed"));
	gate_set(false);
	house_until(h, has_trace, h);
	while (manager_create_session(h->manager, c, NULL, &f) < 0) {
		g_assert_cmpint(f.kind, ==, FAILURE_BUSY);
		house_turn(h, 10000);
	}
	(void)program_ask(&p, "record 100");
	g_assert_cmpint(manager_stop_session(h->manager, "log", on_stopped, &a, &f), ==, 0);
	house_until(h, is_stopped, &a);
	g_assert_cmpuint(house_info(h, "log").written, ==, 100);
	g_assert_cmpint(a.n, ==, 1);
	g_free(a.paths[0]);
	program_end(&p);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add("/closing/wait", House, CONFIG, house_up, test_wait, house_down);
	g_test_add("/closing/stop", House, CONFIG, house_up, test_stop, house_down);
	g_test_add("/closing/again", House, CONFIG, house_up, test_again, house_down);
	g_test_add("/closing/anew", House, CONFIG, house_up, test_anew, house_down);
	g_test_add("/closing/start", House, CONFIG, house_up, test_start, house_down);
	g_test_add("/closing/start/not", House, CONFIG, house_up, test_start, house_down);
	g_test_add("/closing/start/stopped", House, CONFIG, house_up, test_start, house_down);
	g_test_add("/closing/start/ended", House, CONFIG, house_up, test_start, house_down);
	g_test_add("/closing/other", House, CONFIG, house_up, test_other, house_down);
	g_test_add("/closing/crowd", House, CONFIG_WITH("buffers = \"per-process\"; memory = \"1M\";"), house_up,
		   test_crowd, house_down);
	return g_test_run();
}
