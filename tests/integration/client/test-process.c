/* SPDX-License-Identifier: MIT */
/* What programs do to themselves: fork in all its forms, descriptors, users, handlers, libraries
 * that come and go, and places where the kernel or a tool takes something away from us. */
#include "subject.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define ALL ((uid_t)-1)

/* The sanitizer needs stacks, static TLS and an address space of its own. */
static bool sanitized(void)
{
#ifdef __SANITIZE_ADDRESS__
	g_test_skip("not with the sanitizer");
	return true;
#else
	return false;
#endif
}

static bool need_root(void)
{
	if (geteuid() == 0)
		return true;
	g_test_skip("needs root");
	return false;
}

/* Every record comes from a thread that is its process's first, and says so. */
static u32 processes(Fake *f, u32 slot, u32 *ret_records)
{
	g_autoptr(GPtrArray) a = fake_records(f, slot, ALL);
	g_autoptr(GHashTable) seen = g_hash_table_new(NULL, NULL);

	for (u32 i = 0; i < a->len; i++) {
		FakeRecord *r = a->pdata[i];

		g_assert_cmpint(r->vpid, ==, r->vtid);
		g_hash_table_add(seen, GUINT_TO_POINTER(r->vpid));
	}
	*ret_records = a->len;
	return g_hash_table_size(seen);
}

static void forks(gconstpointer how)
{
	Fake *f = fake_new();
	u32 n, exchanges;

	fake_start(f, 0, "subject:number", ALL);
	subject_run(fake_directory(f), "emit", "3", how, "noforkmap", "emit", "2", how, "emit", "1",
		    "end", "nofds", "end", "emit", "1", "nofds", NULL);
	g_assert_cmpint(processes(f, 0, &n), ==, 3);
	g_assert_cmpint(n, ==, 7);
	/* each asked as itself */
	exchanges = fake_n_exchanges(f);
	g_assert_cmpint(exchanges, ==, 3);
	for (u32 i = 0; i < exchanges; i++)
		g_assert_cmpint(fake_exchange(f, i).hello.vpid, ==, fake_exchange(f, i).pid);
	fake_free(f);
}

/* The child was not wanted where the parent was, or the other way round. */
static void fork_unwanted(void)
{
	Fake *f = fake_new();
	u32 n;

	if (!need_root())
		return fake_free(f);
	fake_start(f, 0, "subject:number", 1234);
	subject_run(fake_directory(f), "emit", "3", "disabled", "fork", "setuid", "1234", "emit",
		    "2", "end", "disabled", NULL);
	g_assert_cmpint(processes(f, 0, &n), ==, 1);
	g_assert_cmpint(n, ==, 2);
	fake_free(f);
}

static void spawns(void)
{
	Fake *f = fake_new();
	u32 n;

	fake_start(f, 0, "subject:number", ALL);
	subject_run(fake_directory(f), "emit", "1", "spawn", "emit", "1", NULL);
	g_assert_cmpint(processes(f, 0, &n), ==, 2);
	g_assert_cmpint(n, ==, 4);
	g_assert_cmpuint(fake_lost(f, 0, ABI_LOST_VFORK), ==, 0);
	fake_free(f);
}

static void execs(void)
{
	Fake *f = fake_new();
	FakeExchange a, b;
	u32 n;

	fake_start(f, 0, "subject:number", ALL);
	subject_run(fake_directory(f), "emit", "1", "exec", NULL);
	g_assert_cmpint(processes(f, 0, &n), ==, 1);
	g_assert_cmpint(n, ==, 3);
	a = fake_exchange(f, 0);
	b = fake_exchange(f, 1);
	g_assert_cmpint(a.pid, ==, b.pid);
	g_assert_true(memcmp(a.hello.cookie, b.hello.cookie, sizeof(a.hello.cookie)));
	fake_free(f);
}

static void daemonizes(void)
{
	Fake *f = fake_new();
	g_autofree char *out = NULL;
	Subject s;
	u32 n;

	fake_start(f, 0, "subject:number", ALL);
	s = subject_start(fake_directory(f), "emit", "2", "daemon", "emit", "3", "nofds", NULL);
	out = subject_end(&s, 0);
	g_assert_cmpint(processes(f, 0, &n), ==, 2);
	g_assert_cmpint(n, ==, 5);
	g_assert_cmpint(count_records(f, 0, NULL, s.pid), ==, 2);
	fake_free(f);
}

/* The child is pinned elsewhere: it would write into the ring of a CPU that it does not run on. */
static void vforks(void)
{
	Fake *f = fake_new();
	Subject s;

	if (sysconf(_SC_NPROCESSORS_ONLN) < 2) {
		g_test_skip("needs two CPUs");
		return fake_free(f);
	}
	fake_start(f, 0, "subject:number", ALL);
	fake_start(f, 5, "subject:*", ALL);
	s = subject_start(fake_directory(f), "vfork", "1000", "emit", "4", "vfork-fails", "emit",
			  "1", NULL);
	g_free(subject_end(&s, 0));
	g_assert_cmpint(count_records(f, 0, NULL, 0), ==, 6);
	g_assert_cmpint(count_records(f, 0, NULL, s.pid), ==, 6);
	g_assert_cmpuint(fake_lost(f, 0, ABI_LOST_VFORK), ==, 1000);
	g_assert_cmpuint(fake_lost(f, 5, ABI_LOST_VFORK), ==, 1000);
	fake_free(f);
}

static void vfork_nested(void)
{
	Subject s;
	Fake *f;

	/* whose own vfork keeps one return address, not one for each level */
	if (sanitized())
		return;
	f = fake_new();
	fake_start(f, 0, "subject:number", ALL);
	s = subject_start(fake_directory(f), "emit", "1", "vfork-vfork", "100", "emit", "1", NULL);
	g_free(subject_end(&s, 0));
	g_assert_cmpint(count_records(f, 0, NULL, s.pid), ==, 2);
	g_assert_cmpint(count_records(f, 0, NULL, 0), ==, 2);
	g_assert_cmpuint(fake_lost(f, 0, ABI_LOST_VFORK), ==, 300);
	fake_free(f);
}

/* What a vfork child forks has memory of its own, but no registration with the kernel unless it gets one: its
 * area would name the CPU that its grandparent was on. */
static void vfork_forks(void)
{
	Fake *f = fake_new();
	g_autoptr(GPtrArray) a = NULL;
	u32 n = 0;
	Subject s;

	if (sysconf(_SC_NPROCESSORS_ONLN) < 2) {
		g_test_skip("needs two CPUs");
		return fake_free(f);
	}
	fake_start(f, 0, "subject:number", ALL);
	s = subject_start(fake_directory(f), "vfork-fork", "50", "emit", "1", NULL);
	g_free(subject_end(&s, 0));
	a = fake_records(f, 0, ALL);
	for (u32 i = 0; i < a->len; i++) {
		FakeRecord *r = a->pdata[i];

		g_assert_cmpint(r->ring, ==, r->vpid == (u32)s.pid ? 0 : 1);
		n += r->vpid != (u32)s.pid;
	}
	g_assert_cmpint(a->len, ==, 52);
	g_assert_cmpint(n, ==, 50);
	fake_free(f);
}

/* Records of each thread of each process: vpid and vtid are the writer's own. */
static GHashTable *by_thread(Fake *f, u32 slot)
{
	g_autoptr(GPtrArray) a = fake_records(f, slot, ALL);
	GHashTable *t = g_hash_table_new_full(g_int64_hash, g_int64_equal, g_free, NULL);

	for (u32 i = 0; i < a->len; i++) {
		FakeRecord *r = a->pdata[i];
		gint64 key = (gint64)((u64)r->vpid << 32 | r->vtid);
		gpointer n = g_hash_table_lookup(t, &key);

		g_hash_table_insert(t, g_memdup2(&key, sizeof(key)),
				    GUINT_TO_POINTER(GPOINTER_TO_UINT(n) + 1));
	}
	return t;
}

/* Not the first thread forks, and the child has threads of its own, some on stacks of the parent's. */
static void fork_in_thread(void)
{
	Fake *f = fake_new();
	g_autoptr(GHashTable) t = NULL;
	GHashTableIter i;
	gpointer key, n;
	u32 first = 0, all = 0;

	fake_start(f, 0, "subject:number", ALL);
	subject_run(fake_directory(f), "emit", "4", "threads", "2", "4", "thread", "emit", "4",
		    "fork", "emit", "4", "threads", "3", "4", "thread", "emit", "4", "end", "nofds",
		    "end", "emit", "4", "end", "emit", "4", NULL);
	t = by_thread(f, 0);
	g_hash_table_iter_init(&i, t);
	while (g_hash_table_iter_next(&i, &key, &n)) {
		u64 ids = (u64) * (gint64 *)key;

		first += ids >> 32 == (u32)ids;
		all += GPOINTER_TO_UINT(n);
		/* 4 each, but the first thread and the one that forks, before and after */
		g_assert_cmpint(GPOINTER_TO_UINT(n) % 4, ==, 0);
		g_assert_cmpint(GPOINTER_TO_UINT(n), <=, 8);
	}
	/* main, 2, 1; in the child the one that was forked, which is its first, 3, 1 */
	g_assert_cmpint(g_hash_table_size(t), ==, 9);
	g_assert_cmpint(first, ==, 2);
	g_assert_cmpint(all, ==, 4 * 11);
	fake_free(f);
}

/* More threads than anything of ours has room for. */
static void thousand(void)
{
	Fake *f = fake_new();
	g_autoptr(GHashTable) t = NULL;
	GHashTableIter i;
	gpointer n;

	if (sanitized())
		return fake_free(f);
	fake_start(f, 0, "subject:number", ALL);
	subject_run(fake_directory(f), "threads", "1000", "20", "nofds", NULL);
	t = by_thread(f, 0);
	g_assert_cmpint(count_records(f, 0, NULL, 0), ==, 20000);
	g_assert_cmpint(fake_n_exchanges(f), ==, 1);
	/* a number is given to a later thread once its first owner is gone */
	g_hash_table_iter_init(&i, t);
	while (g_hash_table_iter_next(&i, NULL, &n))
		g_assert_cmpint(GPOINTER_TO_UINT(n) % 20, ==, 0);
	fake_free(f);
}

static void gives_up_root(void)
{
	Fake *f = fake_new();
	g_autoptr(GPtrArray) theirs = NULL, root = NULL;

	if (!need_root())
		return fake_free(f);
	fake_start(f, 0, "subject:number", ALL);
	subject_run(fake_directory(f), "emit", "1", "fork", "setuid", "1234", "noforkmap", "emit",
		    "2", "end", "emit", "1", NULL);
	root = fake_records(f, 0, 0);
	theirs = fake_records(f, 0, 1234);
	g_assert_cmpint(root->len, ==, 2);
	g_assert_cmpint(theirs->len, ==, 2);
	g_assert_cmpint(fake_exchange(f, 1).uid, ==, 1234);
	fake_free(f);
}

/* Inside one process, rings change with the user at the next synchronisation. */
static void changes_user(void)
{
	Fake *f = fake_new();
	g_autoptr(GPtrArray) theirs = NULL, root = NULL;
	Subject s;

	if (!need_root())
		return fake_free(f);
	fake_start(f, 0, "subject:number", ALL);
	s = subject_start(fake_directory(f), "emit", "1", "seteuid", "1234", "wait", "emit", "2",
			  NULL);
	subject_waits(&s);
	fake_bump(f);
	subject_go(&s);
	g_free(subject_end(&s, 0));
	root = fake_records(f, 0, 0);
	theirs = fake_records(f, 0, 1234);
	g_assert_cmpint(root->len, ==, 1);
	g_assert_cmpint(theirs->len, ==, 2);
	fake_free(f);
}

static void pid_namespace(void)
{
	Fake *f = fake_new();

	if (!need_root())
		return fake_free(f);
	fake_start(f, 0, "subject:number", ALL);
	subject_run(fake_directory(f), "emit", "1", "newpid", "fork", "emit", "2", "end", NULL);
	/* as the child sees itself */
	g_assert_cmpint(count_records(f, 0, NULL, 1), ==, 2);
	g_assert_cmpint(fake_exchange(f, 1).hello.vpid, ==, 1);
	g_assert_cmpint(fake_exchange(f, 1).pid, !=, 1);
	fake_free(f);
}

static void changes_root(void)
{
	Fake *f = fake_new();
	Subject s;

	if (!need_root())
		return fake_free(f);
	/* the socket is out of reach; what was attached goes on */
	fake_start(f, 0, "subject:number", ALL);
	s = subject_start(fake_directory(f), "emit", "1", "chroot", fake_directory(f), "emit", "2",
			  "wait", "emit", "3", "nofds", NULL);
	subject_waits(&s);
	fake_start(f, 1, "subject:number", ALL);
	subject_go(&s);
	g_free(subject_end(&s, 0));
	g_assert_cmpint(count_records(f, 0, NULL, 0), ==, 6);
	g_assert_cmpint(count_records(f, 1, NULL, 0), ==, 0);
	g_assert_cmpint(fake_n_exchanges(f), ==, 1);
	fake_free(f);
}

/* ---- descriptors ---- */

static void reopens(void)
{
	Fake *f = fake_new();
	Subject s;

	fake_start(f, 0, "subject:number", ALL);
	s = subject_start(fake_directory(f), "emit", "1", "reopen", "emit", "1", "wait", "emit",
			  "1", "nofds", NULL);
	subject_waits(&s);
	fake_start(f, 1, "subject:number", ALL);
	subject_go(&s);
	g_free(subject_end(&s, 0));
	g_assert_cmpint(count_records(f, 0, NULL, 0), ==, 3);
	g_assert_cmpint(count_records(f, 1, NULL, 0), ==, 1);
	fake_free(f);
}

/* While the main thread waits for the answer, another one does its part. */
typedef struct {
	Subject subject;
	GAsyncQueue *done;
} Others;

static void let_others_record(void *data)
{
	Others *o = data;

	subject_go(&o->subject);
	subject_waits(&o->subject);
	g_async_queue_push(o->done, o);
}

static void reopens_during(void)
{
	Fake *f = fake_new();
	Subject s = subject_start(fake_directory(f), "wait", "reopen-during", "nofds", "wait",
				  "emit", "1", "nofds", NULL);
	Others o = {s, g_async_queue_new()};

	subject_waits(&s);
	fake_before_answer(f, let_others_record, &o);
	fake_start(f, 0, "subject:number", ALL);
	subject_go(&s);
	/* its output is read by one of us at a time */
	g_assert_true(g_async_queue_pop(o.done) == &o);
	subject_waits(&s);
	fake_before_answer(f, NULL, NULL);
	fake_bump(f);
	subject_go(&s);
	g_free(subject_end(&s, 0));
	g_assert_cmpint(count_records(f, 0, NULL, 0), ==, 1);
	g_async_queue_unref(o.done);
	fake_free(f);
}

/* The numbers name sockets of the program's own before the answer is there: nothing is read from those. */
static void replaces_during(void)
{
	Fake *f = fake_new();
	Subject s = subject_start(fake_directory(f), "wait", "replace-during", "wait", "emit", "1", NULL);
	Others o = {s, g_async_queue_new()};

	subject_waits(&s);
	fake_before_answer(f, let_others_record, &o);
	fake_start(f, 0, "subject:number", ALL);
	subject_go(&s);
	g_assert_true(g_async_queue_pop(o.done) == &o);
	subject_waits(&s);
	fake_before_answer(f, NULL, NULL);
	fake_bump(f);
	subject_go(&s);
	g_free(subject_end(&s, 0));
	g_assert_cmpint(count_records(f, 0, NULL, 0), ==, 1);
	g_async_queue_unref(o.done);
	fake_free(f);
}

/* Forked in the middle of an exchange of its parent: the child has copies of what that had open. */
static void forks_during(void)
{
	Fake *f = fake_new();
	Subject s = subject_start(fake_directory(f), "wait", "fork-during", NULL);
	Others o = {s, g_async_queue_new()};
	u32 n;

	subject_waits(&s);
	fake_before_answer(f, let_others_record, &o);
	fake_start(f, 0, "subject:number", ALL);
	subject_go(&s);
	g_assert_true(g_async_queue_pop(o.done) == &o);
	fake_before_answer(f, NULL, NULL);
	subject_go(&s);
	g_free(subject_end(&s, 0));
	g_assert_cmpint(processes(f, 0, &n), ==, 2);
	g_assert_cmpint(n, ==, 2);
	fake_free(f);
	g_async_queue_unref(o.done);
}

static void no_stdio(void)
{
	Fake *f = fake_new();
	u32 n;

	fake_start(f, 0, "subject:number", ALL);
	subject_run(fake_directory(f), "nostdio", "fork", "emit", "3", "nofds", "end", "nofds",
		    NULL);
	g_assert_cmpint(processes(f, 0, &n), ==, 1);
	g_assert_cmpint(n, ==, 3);
	fake_free(f);
}

static void full_table(void)
{
	Fake *f = fake_new();
	Subject s =
	    subject_start(fake_directory(f), "fullfds", "wait", "emit", "1", "wait", "close", "30",
			  "emit", "1", "wait", "close", "31", "emit", "1", NULL);

	subject_waits(&s);
	fake_start(f, 0, "subject:number", ALL);
	subject_go(&s);
	subject_waits(&s);
	g_assert_cmpint(fake_n_exchanges(f), ==, 0);
	/* room for the socket, not for the ring */
	fake_bump(f);
	subject_go(&s);
	subject_waits(&s);
	g_assert_cmpint(fake_n_exchanges(f), ==, 1);
	g_assert_cmpint(count_records(f, 0, NULL, 0), ==, 0);
	fake_bump(f);
	subject_go(&s);
	g_free(subject_end(&s, 0));
	g_assert_cmpint(count_records(f, 0, NULL, 0), ==, 1);
	g_assert_cmpint(fake_exchange(f, 1).hello.failed, ==, 2);
	fake_free(f);
}

/* ---- handlers, threads ---- */

static void alarm_it(void *data)
{
	for (int i = 0; i < 10; i++)
		kill(*(pid_t *)data, SIGALRM);
}

static void handler_during(void)
{
	Fake *f = fake_new();
	Subject s =
	    subject_start(fake_directory(f), "ticks", "0", "wait", "emit", "5", "nofds", NULL);

	subject_waits(&s);
	fake_before_answer(f, alarm_it, &s.pid);
	fake_start(f, 0, "subject:*", ALL);
	subject_go(&s);
	g_free(subject_end(&s, 0));
	g_assert_cmpint(fake_n_exchanges(f), ==, 1);
	g_assert_cmpint(count_records(f, 0, "subject:number", 0), ==, 5);
	g_assert_cmpint(count_records(f, 0, "subject:tick", 0), >=, 1);
	fake_free(f);
}

static void small_stack(void)
{
	Fake *f = fake_new();
	Subject s;

	if (sanitized())
		return fake_free(f);
	/* once with nothing attached, so that the handler itself synchronises */
	s = subject_start(fake_directory(f), "wait", "smallstack", "smallstack", NULL);
	subject_waits(&s);
	fake_start(f, 0, "subject:tick", ALL);
	subject_go(&s);
	g_free(subject_end(&s, 0));
	g_assert_cmpint(count_records(f, 0, "subject:tick", 0), ==, 2);
	fake_free(f);
}

/* One thread synchronises, the others skip and count; none waits for it. */
static void threads(void)
{
	Fake *f = fake_new();
	Subject s = subject_start(fake_directory(f), "wait", "emit-during", "1000", "wait", "emit",
				  "1", NULL);
	Others o = {s, g_async_queue_new()};

	subject_waits(&s);
	fake_before_answer(f, let_others_record, &o);
	fake_start(f, 0, "subject:number", ALL);
	subject_go(&s);
	g_assert_true(g_async_queue_pop(o.done) == &o);
	subject_waits(&s);
	g_assert_cmpint(fake_n_exchanges(f), ==, 1);
	g_assert_cmpint(count_records(f, 0, NULL, s.pid), ==, 1);
	fake_before_answer(f, NULL, NULL);
	fake_bump(f);
	subject_go(&s);
	g_free(subject_end(&s, 0));
	g_assert_cmpint(count_records(f, 0, NULL, s.pid), ==, 2);
	g_assert_cmpuint(fake_exchange(f, 1).hello.missed, ==, 1000);
	g_async_queue_unref(o.done);
	fake_free(f);
}

static void keeps_errno(void)
{
	Fake *f = fake_new();
	Subject s = subject_start(fake_directory(f), "errno", "wait", "errno", "errno", "wait",
				  "errno", "wait", "errno", NULL);

	subject_waits(&s);
	fake_start(f, 0, "subject:number", ALL);
	subject_go(&s);
	subject_waits(&s);
	fake_start(f, 0, "subject:number", ALL); /* detaches */
	subject_go(&s);
	subject_waits(&s);
	fake_die(f);
	fake_bump(f);
	subject_go(&s);
	g_free(subject_end(&s, 0));
	g_assert_cmpint(count_records(f, 0, NULL, 0), ==, 2);
	fake_free(f);
}

static void cancelled(void)
{
	Fake *f = fake_new();
	Subject s = subject_start(fake_directory(f), "wait", "cancel", "nofds", NULL);

	subject_waits(&s);
	fake_start(f, 0, "subject:number", ALL);
	subject_go(&s);
	g_free(subject_end(&s, 0));
	g_assert_cmpint(count_records(f, 0, NULL, 0), ==, 1);
	fake_free(f);
}

/* ---- libraries ---- */

static void unloads(void)
{
	Fake *f = fake_new();

	fake_start(f, 0, "*", ALL);
	subject_run(fake_directory(f), "emit", "1", "plugin", g_getenv("PLUGIN"), "10000",
		    "emit", "1", "nofds", NULL);
	g_assert_cmpint(count_records(f, 0, "plugin:call", 0), ==, 10000);
	g_assert_cmpint(count_records(f, 0, "subject:number", 0), ==, 2);
	/* its classes keep their numbers: told once */
	g_assert_cmpint(fake_n_exchanges(f), ==, 2);
	fake_free(f);
}

static void copy_file(const char *from, const char *to, mode_t mode)
{
	g_autofree char *bytes = NULL;
	gsize n;

	g_assert_true(g_file_get_contents(from, &bytes, &n, NULL));
	g_assert_true(g_file_set_contents(to, bytes, (gssize)n, NULL));
	g_assert_no_errno(chmod(to, mode));
}

static void poor_in_tls(gconstpointer keys)
{
	Fake *f = fake_new();
	g_autoptr(GPtrArray) argv = g_ptr_array_new_with_free_func(g_free);
	Subject s;
	u32 n;
	g_autofree char *out = NULL;

	if (sanitized())
		return fake_free(f);
	g_ptr_array_add(argv, g_strdup(g_getenv("HOST")));
	g_ptr_array_add(argv, g_strdup(g_getenv("PLUGIN")));
	g_ptr_array_add(argv, g_strdup("7"));
	for (u32 i = 0; i < 40; i++) {
		char *to = g_strdup_printf("%s/tls%u.so", fake_directory(f), i);

		copy_file(g_getenv("TLS"), to, 0755);
		g_ptr_array_add(argv, to);
	}
	g_ptr_array_add(argv, NULL);
	fake_start(f, 0, "plugin:call", ALL);
	if (keys)
		g_setenv("HOST_KEYS", "1", TRUE);
	s = subject_start_v(fake_directory(f), (char **)argv->pdata);
	out = subject_end(&s, 0);
	g_unsetenv("HOST_KEYS");
	g_assert_cmpint(count_records(f, 0, "plugin:call", s.pid), ==, 7);
	g_assert_cmpint(processes(f, 0, &n), ==, 1);
	for (u32 i = 3; argv->pdata[i]; i++)
		unlink(argv->pdata[i]);
	fake_free(f);
}

/* A program with more rights than its caller does not let him choose its daemon. */
static void secure(void)
{
	static const struct {
		mode_t mode;
		u32 n;
	} cases[] = {{0755, 3}, {04755, 0}};

	if (!need_root())
		return;
	for (u32 i = 0; i < G_N_ELEMENTS(cases); i++) {
		Fake *f = fake_new();
		g_autofree char *copy = g_build_filename(fake_directory(f), "copy", NULL);
		int status;
		pid_t pid;

		copy_file(g_getenv("SECURE"), copy, cases[i].mode);
		fake_start(f, 0, "subject:number", ALL);
		pid = fork();
		if (pid == 0) {
			g_setenv("TRACER_RUNTIME_DIR", fake_directory(f), TRUE);
			if (setresgid(65534, 65534, 65534) < 0 ||
			    setresuid(65534, 65534, 65534) < 0)
				_exit(4);
			execl(copy, copy, "emit", "3", NULL);
			_exit(5);
		}
		g_assert_cmpint(waitpid(pid, &status, 0), ==, pid);
		g_assert_cmpint(status, ==, 0);
		g_assert_cmpint(count_records(f, 0, NULL, 0), ==, cases[i].n);
		unlink(copy);
		fake_free(f);
	}
}

/* ---- places ---- */

/* Records in the side rings are numbered behind those of the CPUs. */
static u32 in_side_rings(Fake *f, u32 *ret_all)
{
	g_autoptr(GPtrArray) a = fake_records(f, 0, ALL);
	u32 n = 0;

	for (u32 i = 0; i < a->len; i++)
		n += ((FakeRecord *)a->pdata[i])->ring >= (u32)sysconf(_SC_NPROCESSORS_CONF);
	*ret_all = a->len;
	return n;
}

static void no_rseq(void)
{
	Fake *f = fake_new();
	u32 n;

	fake_start(f, 0, "subject:number", ALL);
	g_setenv("GLIBC_TUNABLES", "glibc.pthread.rseq=0", TRUE);
	subject_run(fake_directory(f), "emit", "100", "fork", "emit", "50", "end", "nofds", NULL);
	g_unsetenv("GLIBC_TUNABLES");
	g_assert_cmpint(in_side_rings(f, &n), ==, 150);
	g_assert_cmpint(n, ==, 150);
	fake_free(f);
}

static bool need_tool(const char *name, char **ret)
{
	*ret = g_find_program_in_path(name);
	if (*ret)
		return true;
	g_test_skip(name);
	return false;
}

static void run_tool(Fake *f, ...)
{
	g_autoptr(GPtrArray) argv = g_ptr_array_new();
	g_autofree char *out = NULL;
	va_list list;
	char *arg;
	Subject s;

	va_start(list, f);
	while ((arg = va_arg(list, char *)))
		g_ptr_array_add(argv, arg);
	va_end(list);
	g_ptr_array_add(argv, NULL);
	s = subject_start_v(fake_directory(f), (char **)argv->pdata);
	out = subject_end(&s, 0);
}

static void valgrind(void)
{
	g_autofree char *tool = NULL;
	Fake *f;
	u32 n;

	if (sanitized())
		return;
	if (!need_tool("valgrind", &tool))
		return;
	f = fake_new();
	fake_start(f, 0, "*", ALL);
	/* descriptors are valgrind's own affair */
	run_tool(f, tool, "-q", "--error-exitcode=9", g_getenv("SUBJECT"), "emit", "10", "values",
		 "fork", "emit", "5", "end", NULL);
	g_assert_cmpint(count_records(f, 0, "subject:number", 0), ==, 15);
	(void)in_side_rings(f, &n);
	g_assert_cmpint(n, ==, 15 + 10);
	fake_free(f);
}

/* A single-stepped sequence never comes to its end; the record does, in a side ring. */
static void stepping(void)
{
	g_autofree char *tool = NULL;
	Fake *f;
	u32 n;

	if (!need_tool("gdb", &tool))
		return;
	f = fake_new();
	fake_start(f, 0, "subject:number", ALL);
	run_tool(f, tool, "-q", "-nx", "-batch", "-ex", "set breakpoint pending on", "-ex",
		 "set debuginfod enabled off", "-ex", "break tracer_record_one_", "-ex", "run", "-ex",
		 "stepi 20000", "-ex", "delete", "-ex", "continue", "--args", g_getenv("SUBJECT"),
		 "emit", "3", NULL);
	g_assert_cmpint(in_side_rings(f, &n), >=, 1);
	g_assert_cmpint(n, ==, 3);
	fake_free(f);
}

int main(int argc, char **argv)
{
	/* in a build with the sanitizer: its search for leaks wants to trace a process that has
	 * another user by now, or a debugger */
	g_setenv("ASAN_OPTIONS", "detect_leaks=0", FALSE);
	g_test_init(&argc, &argv, NULL);
	g_test_add_data_func("/client/process/fork", "fork", forks);
	g_test_add_data_func("/client/process/clone", "clone", forks);
	g_test_add_func("/client/process/fork-unwanted", fork_unwanted);
	g_test_add_func("/client/process/spawn", spawns);
	g_test_add_func("/client/process/exec", execs);
	g_test_add_func("/client/process/daemon", daemonizes);
	g_test_add_func("/client/process/vfork", vforks);
	g_test_add_func("/client/process/vfork-nested", vfork_nested);
	g_test_add_func("/client/process/vfork-forks", vfork_forks);
	g_test_add_func("/client/process/fork-in-thread", fork_in_thread);
	g_test_add_func("/client/threads/thousand", thousand);
	g_test_add_func("/client/process/gives-up-root", gives_up_root);
	g_test_add_func("/client/process/changes-user", changes_user);
	g_test_add_func("/client/process/pid-namespace", pid_namespace);
	g_test_add_func("/client/process/chroot", changes_root);
	g_test_add_func("/client/fds/reopen", reopens);
	g_test_add_func("/client/fds/reopen-during", reopens_during);
	g_test_add_func("/client/fds/replace-during", replaces_during);
	g_test_add_func("/client/fds/fork-during", forks_during);
	g_test_add_func("/client/fds/no-stdio", no_stdio);
	g_test_add_func("/client/fds/full", full_table);
	g_test_add_func("/client/threads/handler-during-attach", handler_during);
	g_test_add_func("/client/threads/small-stack", small_stack);
	g_test_add_func("/client/threads/attach", threads);
	g_test_add_func("/client/threads/errno", keeps_errno);
	g_test_add_func("/client/threads/cancel", cancelled);
	g_test_add_func("/client/library/unload", unloads);
	g_test_add_data_func("/client/library/poor-in-tls", NULL, poor_in_tls);
	g_test_add_data_func("/client/library/poor-in-keys", "keys", poor_in_tls);
	g_test_add_func("/client/place/secure", secure);
	g_test_add_func("/client/place/no-rseq", no_rseq);
	g_test_add_func("/client/place/valgrind", valgrind);
	g_test_add_func("/client/place/gdb", stepping);
	return g_test_run();
}
