/* SPDX-License-Identifier: MIT */
/* Attaching and detaching: sessions that come and go, daemons that are late, wrong, dead or absent.
 */
#include "subject.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#define ALL ((uid_t)-1)

static void unwanted(void)
{
	Fake *f = fake_new();

	subject_run(fake_directory(f), "unwanted", "emit", "100", "disabled", "unwanted", NULL);
	g_assert_cmpint(fake_n_exchanges(f), ==, 0);
	/* a session that wants another provider changes nothing */
	fake_start(f, 0, "elsewhere:*", ALL);
	subject_run(fake_directory(f), "unwanted", "emit", "100", "disabled", "unwanted", NULL);
	g_assert_cmpint(fake_n_exchanges(f), ==, 0);
	fake_free(f);
}

static void eager(void)
{
	Fake *f = fake_new();
	Subject s;
	FakeExchange e;

	fake_start(f, 3, "subject:*", ALL);
	s = subject_start(fake_directory(f), "wait", "enabled", "emit", "50", "emit-other", "nofds",
			  "wait", NULL);
	subject_waits(&s);
	/* before anything was recorded */
	g_assert_cmpint(fake_n_exchanges(f), ==, 1);
	e = fake_exchange(f, 0);
	g_assert_cmpint(e.pid, ==, s.pid);
	g_assert_cmpint(e.hello.vpid, ==, s.pid);
	g_assert_cmpint(e.hello.flags, ==, WIRE_HELLO_EAGER | WIRE_HELLO_TRIGGERS);
	g_assert_true(e.hello.cookie[0] | e.hello.cookie[1]);
	{
		/* what it says of itself: the file it came from, and an id that is in that file */
		g_autofree char *link = g_strdup_printf("/proc/%d/exe", (int)s.pid);
		g_autofree char *exe = g_file_read_link(link, NULL), *bytes = NULL;
		gsize size;

		g_assert_cmpstr(e.exe, ==, exe);
		g_assert_true(g_file_get_contents(exe, &bytes, &size, NULL));
		g_assert_cmpuint(e.n_build_id, >=, 8);
		g_assert_nonnull(memmem(bytes, size, e.build_id, e.n_build_id));
	}
	subject_go(&s);
	subject_waits(&s);
	g_assert_cmpint(fake_n_exchanges(f), ==, 1);
	g_assert_cmpint(count_records(f, 3, "subject:number", s.pid), ==, 51);
	g_assert_cmpint(count_records(f, 3, NULL, 0), ==, 51);
	subject_go(&s);
	g_free(subject_end(&s, 0));
	fake_free(f);
}

/* A session that starts later, one that ends, one that follows in the same slot. */
static void lazy(void)
{
	Fake *f = fake_new();
	Subject s =
	    subject_start(fake_directory(f), "emit", "5", "wait", "emit", "5", "wait", "emit", "5",
			  "wait", "emit", "5", "wait", "emit", "5", "nofds", "wait", NULL);

	subject_waits(&s);
	fake_start(f, 0, "subject:number", ALL);
	subject_go(&s);
	subject_waits(&s);
	g_assert_cmpint(count_records(f, 0, "subject:number", s.pid), ==, 5);
	fake_start(f, 63, "*", ALL);
	subject_go(&s);
	subject_waits(&s);
	g_assert_cmpint(count_records(f, 0, NULL, 0), ==, 10);
	g_assert_cmpint(count_records(f, 63, NULL, 0), ==, 5);
	fake_stop(f, 63);
	subject_go(&s);
	subject_waits(&s);
	g_assert_cmpint(count_records(f, 0, NULL, 0), ==, 15);
	g_assert_cmpint(count_records(f, 63, NULL, 0), ==, 5);
	fake_stop(f, 0);
	fake_start(f, 0, "subject:number", ALL);
	subject_go(&s);
	subject_waits(&s);
	/* the new one's rings, and not the old one's generation */
	g_assert_cmpint(count_records(f, 0, NULL, 0), ==, 5);
	g_assert_cmpint(fake_n_exchanges(f), <=, 4);
	subject_go(&s);
	g_free(subject_end(&s, 0));
	fake_free(f);
}

/* One event of a provider is wanted, another is not; and classes that the daemon has not seen. */
static void scope(void)
{
	Fake *f = fake_new();

	fake_start(f, 1, "subject:number", ALL);
	subject_run(fake_directory(f), "emit", "3", "late", "values", "nofds", NULL);
	g_assert_cmpint(fake_n_exchanges(f), ==, 1);
	g_assert_cmpint(count_records(f, 1, NULL, 0), ==, 3);
	/* one that takes only others' processes */
	fake_start(f, 1, "subject:*", 12345);
	subject_run(fake_directory(f), "emit", "3", "emit", "3", "disabled", "nofds", NULL);
	g_assert_cmpint(fake_n_exchanges(f), ==, 2);
	fake_free(f);
}

static u64 u64_at(const FakeRecord *r, u32 at)
{
	u64 v;

	g_assert_cmpint(at + 8, <=, r->size);
	memcpy(&v, r->fields + at, 8);
	return v;
}

static const FakeRecord *next_of(GPtrArray *a, u32 *i, const char *event)
{
	for (; *i < a->len; (*i)++)
		if (!strcmp(((FakeRecord *)a->pdata[*i])->event, event))
			return a->pdata[(*i)++];
	g_error("no record of %s", event);
}

static gint by_time(gconstpointer a, gconstpointer b)
{
	const FakeRecord *x = *(FakeRecord *const *)a, *y = *(FakeRecord *const *)b;

	return x->time < y->time ? -1 : x->time > y->time;
}

static void values(void)
{
	/* clang-format off */
	static const u8 scalars[] = {
		1, 2, 0, 3, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0,
		0xff, 0xfe, 0xff, 0xfd, 0xff, 0xff, 0xff, 0xfc, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
		0, 0, 0xc0, 0x3f, 0, 0, 0, 0, 0, 0, 4, 0xc0, 1,
		0xef, 0xcd, 0xab, 0, 0, 0, 0, 0, 0x34, 0x12, 0, 0, 0, 0, 0, 0,
	};
	static const u8 arrays[] = {
		1, 0, 2, 0, 3, 0, 10, 0, 0, 0, 20, 0, 0, 0, 30, 0, 0, 0, 40, 0, 0, 0, 50, 0, 0, 0,
		2, 0, 0xff, 0xff, 0xff, 0xff, 7, 0, 0, 0, 0, 0, 0x7f,
	};
	/* clang-format on */
	Fake *f = fake_new();
	g_autoptr(GPtrArray) a = NULL;
	const FakeRecord *r;
	u32 i = 0;

	fake_start(f, 0, "*", ALL);
	subject_run(fake_directory(f), "values", NULL);
	a = fake_records(f, 0, ALL);
	g_ptr_array_sort(a, by_time);
	r = next_of(a, &i, "subject:empty");
	g_assert_cmpint(r->size, ==, 0);
	r = next_of(a, &i, "subject:scalars");
	g_assert_cmpmem(r->fields, r->size, scalars, sizeof(scalars));
	r = next_of(a, &i, "subject:text");
	g_assert_cmpmem(r->fields, r->size, "\1short\0\2(null)\0\3", 16);
	r = next_of(a, &i, "subject:text");
	g_assert_cmpint(r->size, ==, 1 + 5000 + 1 + 1 + 1);
	g_assert_cmpint(strlen((const char *)r->fields + 1), ==, 4999);
	g_assert_cmpmem(r->fields + 5000, 4, "\0\2\0\3", 4);
	r = next_of(a, &i, "subject:text");
	g_assert_cmpint(r->size, ==, 1 + 5000 + 1 + 1000 + 1);
	g_assert_cmpint(r->fields[5001], ==, 2);
	g_assert_cmpint(strlen((const char *)r->fields + 5002), ==, 999);
	g_assert_cmpint(r->fields[6002], ==, 3);
	r = next_of(a, &i, "subject:blob");
	g_assert_cmpmem(r->fields, r->size, "\4\0\0\1\2\3\xef\xbe", 8);
	r = next_of(a, &i, "subject:blob");
	g_assert_cmpint(r->size, ==, 2 + 300 + 2);
	for (u32 k = 0; k < 300; k++)
		g_assert_cmpint(r->fields[2 + k], ==, k & 0xff);
	g_assert_cmpmem(r->fields, 2, "\x2c\1", 2);
	g_assert_cmpmem(r->fields + 302, 2, "\xef\xbe", 2);
	r = next_of(a, &i, "subject:blob");
	g_assert_cmpmem(r->fields, r->size, "\0\0\xef\xbe", 4);
	r = next_of(a, &i, "subject:arrays");
	g_assert_cmpmem(r->fields, r->size, arrays, sizeof(arrays));
	r = next_of(a, &i, "linux:stdin");
	g_assert_cmpint(r->size, ==, 12);
	fake_free(f);
}

/* Two declarations of one name with other fields: neither is recorded as the other. */
static void conflict(void)
{
	Fake *f = fake_new();
	g_autoptr(GPtrArray) a = NULL;
	const FakeRecord *r;

	fake_start(f, 0, "subject:conflict", ALL);
	subject_run(fake_directory(f), "conflict", NULL);
	a = fake_records(f, 0, ALL);
	g_assert_cmpint(a->len, ==, 1);
	r = a->pdata[0];
	g_assert_cmpint(r->size == 8 ? u64_at(r, 0) == 7
				     : r->size == 5 && !strcmp((char *)r->fields, "text"),
			==, 1);
	fake_free(f);
}

static void text(void)
{
	Fake *f = fake_new();
	g_autoptr(GPtrArray) a = NULL;
	const FakeRecord *r;

	/* a program that prints, but is not asked, tells nothing */
	fake_start(f, 0, "subject:number", ALL);
	subject_run(fake_directory(f), "printf", "hello", NULL);
	g_assert_cmpint(count_records(f, 0, NULL, 0), ==, 0);
	fake_start(f, 0, "tracer:printf", ALL);
	subject_run(fake_directory(f), "emit", "1", "printf", "hello", "nofds", NULL);
	a = fake_records(f, 0, ALL);
	g_ptr_array_sort(a, by_time);
	g_assert_cmpint(a->len, ==, 2);
	r = a->pdata[0];
	g_assert_cmpmem(r->fields, r->size, "hello 42", 9);
	r = a->pdata[1];
	g_assert_cmpint(r->size, ==, 512);
	g_assert_cmpint(strlen((const char *)r->fields), ==, 511);
	fake_free(f);
}

/* ---- daemons that fail ---- */

/* Whoever is started from here on waits as long as it does of its own accord, or as it would for others. */
static void impatient(bool is)
{
	if (is)
		g_setenv("TRACER_ATTACH_TIMEOUT", "", TRUE);
	else
		g_unsetenv("TRACER_ATTACH_TIMEOUT");
}

static void failing(gconstpointer data)
{
	FakeBehaviour b = (FakeBehaviour)GPOINTER_TO_INT(data);
	Fake *f = fake_new();
	FakeExchange e;
	Subject s;

	fake_behave(f, b);
	impatient(b == FAKE_SILENT);
	s = subject_start(fake_directory(f), "wait", "emit", "10", "nofds", "wait", "emit", "10",
			  "nofds", "wait", "emit", "10", "nofds", "wait", NULL);
	impatient(false);
	subject_waits(&s);
	fake_start(f, 0, "subject:number", ALL);
	subject_go(&s);
	subject_waits(&s);
	/* tried once for ten calls; nothing recorded */
	g_assert_cmpint(fake_n_exchanges(f), ==, 1);
	g_assert_cmpint(count_records(f, 0, NULL, 0), ==, 0);
	subject_go(&s);
	subject_waits(&s);
	g_assert_cmpint(fake_n_exchanges(f), ==, 1);
	/* a new generation is the retry, and brings the account */
	fake_behave(f, FAKE_ANSWERS);
	fake_bump(f);
	subject_go(&s);
	subject_waits(&s);
	g_assert_cmpint(fake_n_exchanges(f), ==, 2);
	e = fake_exchange(f, 1);
	g_assert_cmpuint(e.hello.missed, ==, 20);
	g_assert_cmpuint(e.hello.failed, ==, 1);
	g_assert_cmpint(count_records(f, 0, NULL, s.pid), ==, 10);
	subject_go(&s);
	g_free(subject_end(&s, 0));
	fake_free(f);
}

/* 200 ms, once, and no longer. */
static void bounded(void)
{
	Fake *f = fake_new();
	g_autofree char *out = NULL;
	Subject s;
	long first, second;

	fake_behave(f, FAKE_SILENT);
	impatient(true);
	s = subject_start(fake_directory(f), "wait", "bounded", "bounded", NULL);
	impatient(false);
	subject_waits(&s);
	fake_start(f, 0, "subject:number", ALL);
	subject_go(&s);
	out = subject_end(&s, 0);
	g_assert_cmpint(sscanf(out, "%ld %ld", &first, &second), ==, 2);
	g_assert_cmpint(first, >=, 195);
	g_assert_cmpint(first, <, 10000);
	g_assert_cmpint(second, <, 195);
	fake_free(f);
}

/* A daemon that does not even accept: the queue of its socket is full, and connect() would wait. */
static void queue_full(void)
{
	Fake *f = fake_new();
	g_autofree char *path = g_build_filename(fake_directory(f), "producer.sock", NULL),
			*out = NULL;
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	int listener, waiting[2];
	long first, second;
	Subject s;

	g_strlcpy(a.sun_path, path, sizeof(a.sun_path));
	fake_die(f);
	unlink(path);
	listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	g_assert_no_errno(bind(listener, (struct sockaddr *)&a, sizeof(a)));
	g_assert_no_errno(listen(listener, 0));
	for (u32 i = 0; i < 2; i++) {
		waiting[i] = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		if (connect(waiting[i], (struct sockaddr *)&a, sizeof(a)) < 0)
			g_assert_cmpint(errno, ==, EAGAIN);
	}
	impatient(true);
	s = subject_start(fake_directory(f), "wait", "bounded", "bounded", "nofds", NULL);
	impatient(false);
	subject_waits(&s);
	fake_start(f, 0, "subject:number", ALL);
	subject_go(&s);
	out = subject_end(&s, 0);
	g_assert_cmpint(sscanf(out, "%ld %ld", &first, &second), ==, 2);
	g_assert_cmpint(first, >=, 195);
	g_assert_cmpint(first, <, 10000);
	g_assert_cmpint(second, <, 195);
	for (u32 i = 0; i < 2; i++)
		close(waiting[i]);
	close(listener);
	fake_free(f);
}

static void stop_it(void *data)
{
	siginfo_t i;
	Subject *s = data;

	g_assert_no_errno(kill(s->pid, SIGSTOP));
	/* it does not run any more; its end is somebody else's to wait for */
	g_assert_no_errno(waitid(P_PID, (id_t)s->pid, &i, WSTOPPED | WNOWAIT));
}

/* The answer is there in time, and the program gets no CPU until it is late: nothing is thrown away that only has to be read. */
static void late_but_there(void)
{
	Fake *f = fake_new();
	gint64 answered;
	Subject s;

	impatient(true);
	s = subject_start(fake_directory(f), "wait", "emit", "3", "nofds", "wait", "emit", "2", NULL);
	impatient(false);
	subject_waits(&s);
	fake_before_answer(f, stop_it, &s);
	fake_start(f, 0, "subject:number", ALL);
	fake_start(f, 1, "subject:*", ALL);
	subject_go(&s);
	while (fake_n_exchanges(f) < 1)
		g_usleep(1000);
	/* it waits for 200 ms in all, and had begun before this */
	for (answered = g_get_monotonic_time(); g_get_monotonic_time() < answered + 210000;)
		g_usleep(10000);
	g_assert_no_errno(kill(s.pid, SIGCONT));
	subject_waits(&s);
	for (u32 i = 0; i < 2; i++)
		g_assert_cmpint(count_records(f, i, NULL, s.pid), ==, 3);
	subject_go(&s);
	g_free(subject_end(&s, 0));
	g_assert_cmpint(fake_n_exchanges(f), ==, 1);
	for (u32 i = 0; i < 2; i++)
		g_assert_cmpint(count_records(f, i, NULL, s.pid), ==, 5);
	fake_free(f);
}

static void asked(Fake *f, u32 n)
{
	while (fake_n_exchanges(f) < n)
		g_usleep(1000);
	g_assert_cmpuint(fake_n_exchanges(f), ==, n);
}

/* The daemon says that somebody was not heard: who failed asks again, at a time of its own, and nobody else does. */
static void retries(void)
{
	Fake *f = fake_new();
	Subject fails, well;
	gint64 told;

	fake_start(f, 0, "subject:*", ALL);
	well = subject_start(fake_directory(f), "emit", "1", "wait", "emit-on", "nofds", NULL);
	subject_waits(&well);
	fake_behave(f, FAKE_REFUSES);
	fails = subject_start(fake_directory(f), "emit", "1", "emit-on", "emit-on", "nofds", NULL);
	asked(f, 2);
	subject_go(&well);
	/* not of its own accord */
	for (gint64 begun = g_get_monotonic_time(); g_get_monotonic_time() < begun + 700000;)
		g_usleep(10000);
	asked(f, 2);
	g_assert_cmpuint(fake_exchange(f, 1).pid, ==, fails.pid);
	/* within half a second, and within one the next time */
	for (u32 turn = 0; turn < 2; turn++) {
		told = g_get_monotonic_time();
		if (turn == 1)
			fake_behave(f, FAKE_ANSWERS);
		fake_retry(f);
		asked(f, 3 + turn);
		g_test_message("asked again after %d ms", (int)(g_get_monotonic_time() - told) / 1000);
		g_assert_cmpuint(fake_exchange(f, 2 + turn).pid, ==, fails.pid);
		g_assert_cmpuint(fake_exchange(f, 2 + turn).hello.failed, ==, 1 + turn);
	}
	subject_go(&fails);
	subject_waits(&fails);
	/* heard: nothing is asked any more */
	fake_retry(f);
	for (gint64 begun = g_get_monotonic_time(); g_get_monotonic_time() < begun + 700000;)
		g_usleep(10000);
	subject_go(&fails);
	subject_waits(&fails);
	g_free(subject_end(&fails, 0));
	subject_go(&well);
	subject_waits(&well);
	g_free(subject_end(&well, 0));
	g_assert_cmpuint(count_records(f, 0, NULL, fails.pid), >, 0);
	g_assert_cmpuint(fake_n_exchanges(f), ==, 4);
	fake_free(f);
}

static void patience(void)
{
	static const char *const values[] = { "700", "", "0", "60001", "99999999999", "-1", "7x" };

	for (u32 i = 0; i < G_N_ELEMENTS(values); i++) {
		Fake *f = fake_new();
		g_autofree char *out = NULL;
		long first, second;
		Subject s;

		fake_behave(f, FAKE_SILENT);
		(void)g_setenv("TRACER_ATTACH_TIMEOUT", values[i], true);
		s = subject_start(fake_directory(f), "wait", "bounded", "bounded", NULL);
		impatient(false);
		subject_waits(&s);
		fake_start(f, 0, "subject:number", ALL);
		subject_go(&s);
		out = subject_end(&s, 0);
		g_assert_cmpint(sscanf(out, "%ld %ld", &first, &second), ==, 2);
		g_assert_cmpint(first, >=, i ? 195 : 695);
		/* what was taken for a number would be a minute, or nothing */
		g_assert_cmpint(first, <, 30000);
		fake_free(f);
	}
}

/* What ran before goes on while the new exchange fails. */
static void keeps_old(void)
{
	Fake *f = fake_new();
	Subject s;

	fake_start(f, 0, "subject:number", ALL);
	s = subject_start(fake_directory(f), "emit", "5", "wait", "emit", "5", "wait", "emit", "5",
			  "wait", "emit", "5", NULL);
	subject_waits(&s);
	fake_behave(f, FAKE_REFUSES);
	fake_start(f, 1, "subject:number", ALL);
	subject_go(&s);
	subject_waits(&s);
	g_assert_cmpint(count_records(f, 0, NULL, 0), ==, 10);
	g_assert_cmpint(count_records(f, 1, NULL, 0), ==, 0);
	/* dead, with its masks standing */
	fake_die(f);
	fake_bump(f);
	subject_go(&s);
	subject_waits(&s);
	g_assert_cmpint(count_records(f, 0, NULL, 0), ==, 15);
	fake_behave(f, FAKE_ANSWERS);
	fake_revive(f);
	subject_go(&s);
	g_free(subject_end(&s, 0));
	g_assert_cmpint(count_records(f, 0, NULL, 0), ==, 20);
	g_assert_cmpint(count_records(f, 1, NULL, 0), ==, 5);
	fake_free(f);
}

/* All the slots that there are, some with another session by now whose answer is refused: those that stand go on,
 * and what the others miss is counted one by one. */
static void many(void)
{
	Fake *f = fake_new();
	FakeExchange e;
	Subject s;
	u32 n;

	fake_memory(f, 1 << 20);
	for (u32 i = 0; i < ABI_MAX_SLOTS; i++)
		fake_start(f, i, i % 2 ? "subject:number" : "subject:*", ALL);
	s = subject_start(fake_directory(f), "emit", "5", "wait", "emit", "7", "wait", "emit", "3", "wait",
			  "emit", "2", "nofds", "wait", NULL);
	subject_waits(&s);
	g_assert_cmpint(fake_n_exchanges(f), ==, 1);
	for (u32 i = 0; i < ABI_MAX_SLOTS; i++)
		g_assert_cmpint(count_records(f, i, NULL, s.pid), ==, 5);
	fake_behave(f, FAKE_REFUSES);
	fake_start(f, 10, "subject:number", ALL);
	fake_start(f, 63, "subject:number", ALL);
	fake_stop(f, 33);
	subject_go(&s);
	subject_waits(&s);
	n = fake_n_exchanges(f);
	g_assert_cmpint(n, ==, 2);
	for (u32 i = 0; i < ABI_MAX_SLOTS; i++)
		g_assert_cmpint(count_records(f, i, NULL, 0), ==,
				i == 10 || i == 63 ? 0 : i == 33 ? 5 : 12);
	fake_behave(f, FAKE_ANSWERS);
	fake_bump(f);
	subject_go(&s);
	subject_waits(&s);
	e = fake_exchange(f, n);
	g_assert_cmpuint(e.hello.missed, ==, 2 * 7);
	g_assert_cmpuint(e.hello.failed, ==, 1);
	for (u32 i = 0; i < ABI_MAX_SLOTS; i++)
		if (i != 33)
			g_assert_cmpint(count_records(f, i, NULL, 0), ==, i == 10 || i == 63 ? 3 : 15);
	/* two are left */
	for (u32 i = 0; i < ABI_MAX_SLOTS; i++)
		if (i != 7 && i != 63)
			fake_stop(f, i);
	subject_go(&s);
	subject_waits(&s);
	g_assert_cmpint(count_records(f, 7, NULL, 0), ==, 17);
	g_assert_cmpint(count_records(f, 63, NULL, 0), ==, 5);
	g_assert_cmpint(count_records(f, 10, NULL, 0), ==, 3);
	subject_go(&s);
	g_free(subject_end(&s, 0));
	fake_free(f);
}

/* ---- no page, or one that must not be believed ---- */

static void no_daemon(void)
{
	g_autofree char *d = g_dir_make_tmp("tracer-XXXXXX", NULL),
			*path = g_build_filename(d, "control", NULL);
	g_autofree char *out = NULL;
	Subject s;

	subject_run(d, "emit", "10", "disabled", "nofds", NULL);
	subject_run("/nowhere", "emit", "10", "nofds", NULL);
	subject_run("relative", "emit", "10", "nofds", NULL);
	s = subject_start(d, "snapshot", "x", NULL);
	out = subject_end(&s, 0);
	g_assert_cmpint(atoi(out), ==, -ENOENT);
	/* a fifo must not hold the constructor up */
	g_assert_no_errno(mkfifo(path, 0644));
	subject_run(d, "emit", "10", "nofds", NULL);
	unlink(path);
	rmdir(d);
}

static void bad_page(void)
{
	static const struct {
		off_t at;
		u8 byte;
		mode_t mode;
		uid_t owner;
	} cases[] = {
	    {0, 'X', 0644, 0},           /* magic */
	    {8, ABI_MAJOR + 1, 0644, 0}, /* major */
	    {13, 1, 0644, 0},            /* size */
	    {-1, 0, 0644, 0},            /* shorter */
	    {1000, 0, 0666, 0},          /* anybody's */
	    {1000, 0, 0644, 4242},       /* somebody else's */
	};

	for (u32 i = 0; i < G_N_ELEMENTS(cases); i++) {
		Fake *f = fake_new();
		g_autofree char *path = g_build_filename(fake_directory(f), "control", NULL);
		int fd = open(path, O_RDWR | O_CLOEXEC);

		if (cases[i].owner && geteuid() != 0) {
			close(fd);
			fake_free(f);
			continue;
		}
		fake_start(f, 0, "subject:*", ALL);
		if (cases[i].at < 0)
			g_assert_no_errno(truncate(path, 4096));
		else
			g_assert_cmpint(pwrite(fd, &cases[i].byte, 1, cases[i].at), ==, 1);
		g_assert_no_errno(chmod(path, cases[i].mode));
		if (cases[i].owner)
			g_assert_no_errno(chown(path, cases[i].owner, 0));
		subject_run(fake_directory(f), "emit", "5", "disabled", "nofds", NULL);
		g_assert_cmpint(fake_n_exchanges(f), ==, 0);
		if (cases[i].at < 0) /* whole again before the fake looks at it */
			g_assert_no_errno(truncate(path, ABI_CONTROL_SIZE));
		close(fd);
		fake_free(f);
	}
}

static void link_page(void)
{
	Fake *f = fake_new();
	g_autofree char *d = g_dir_make_tmp("tracer-XXXXXX", NULL),
			*link = g_build_filename(d, "control", NULL);
	g_autofree char *target = g_build_filename(fake_directory(f), "control", NULL);

	fake_start(f, 0, "subject:*", ALL);
	g_assert_no_errno(symlink(target, link));
	subject_run(d, "emit", "5", "disabled", NULL);
	unlink(link);
	rmdir(d);
	fake_free(f);
}

static void snapshot(void)
{
	Fake *f = fake_new();
	g_autofree char *out = NULL, *reason = NULL, *longer = g_strnfill(300, 'r'), *cut = NULL;
	Subject s = subject_start(fake_directory(f), "snapshot", "slow request", "nofds", NULL);

	out = subject_end(&s, 0);
	g_assert_cmpstr(out, ==, "0\n");
	reason = fake_snapshot_reason(f);
	g_assert_cmpstr(reason, ==, "slow request");
	g_clear_pointer(&out, g_free);

	/* cut, but not inside a character: 254 bytes before an e-acute */
	memcpy(longer + 254, "\xc3\xa9", 2);
	s = subject_start(fake_directory(f), "snapshot", longer, NULL);
	out = subject_end(&s, 0);
	g_assert_cmpstr(out, ==, "0\n");
	cut = fake_snapshot_reason(f);
	g_assert_cmpint(strlen(cut), ==, 254);
	g_clear_pointer(&out, g_free);

	fake_behave(f, FAKE_REFUSES);
	s = subject_start(fake_directory(f), "snapshot", "again", NULL);
	out = subject_end(&s, 0);
	g_assert_cmpint(atoi(out), ==, -EBUSY);
	g_clear_pointer(&out, g_free);

	fake_behave(f, FAKE_SILENT);
	impatient(true);
	s = subject_start(fake_directory(f), "snapshot", "again", NULL);
	impatient(false);
	out = subject_end(&s, 0);
	g_assert_cmpint(atoi(out), ==, -ETIMEDOUT);
	fake_free(f);
}

/* Sessions come and go under threads. */
static void churn(void)
{
	Fake *f = fake_new();
	Subject s = subject_start(fake_directory(f), "ticks", "5000", "threads", "4", "3000000",
				  "ticks", "0", "nofds", "wait", NULL);
	u32 n;

	for (u32 i = 0; i < 60; i++) {
		fake_start(f, i % 3, "subject:*", ALL);
		g_usleep(5000);
		if (i % 2)
			fake_stop(f, (i + 1) % 3);
	}
	subject_waits(&s);
	n = fake_n_exchanges(f);
	g_assert_cmpint(n, >, 1);
	for (u32 i = 0; i < 3; i++)
		(void)count_records(f, i, NULL, 0); /* every ring walks */
	subject_go(&s);
	g_free(subject_end(&s, 0));
	fake_free(f);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/client/unwanted", unwanted);
	g_test_add_func("/client/eager", eager);
	g_test_add_func("/client/lazy", lazy);
	g_test_add_func("/client/scope", scope);
	g_test_add_func("/client/values", values);
	g_test_add_func("/client/conflict", conflict);
	g_test_add_func("/client/printf", text);
	g_test_add_data_func("/client/daemon/refuses", GINT_TO_POINTER(FAKE_REFUSES), failing);
	g_test_add_data_func("/client/daemon/silent", GINT_TO_POINTER(FAKE_SILENT), failing);
	g_test_add_data_func("/client/daemon/hangs-up", GINT_TO_POINTER(FAKE_HANGS_UP), failing);
	g_test_add_data_func("/client/daemon/nonsense", GINT_TO_POINTER(FAKE_NONSENSE), failing);
	g_test_add_data_func("/client/daemon/wrong-ids", GINT_TO_POINTER(FAKE_WRONG_ID), failing);
	g_test_add_data_func("/client/daemon/no-fd", GINT_TO_POINTER(FAKE_NO_FD), failing);
	g_test_add_data_func("/client/daemon/two-fds", GINT_TO_POINTER(FAKE_TWO_FDS), failing);
	g_test_add_data_func("/client/daemon/twice", GINT_TO_POINTER(FAKE_TWICE), failing);
	g_test_add_data_func("/client/daemon/unsealed", GINT_TO_POINTER(FAKE_UNSEALED), failing);
	g_test_add_data_func("/client/daemon/wrong-size", GINT_TO_POINTER(FAKE_BIG), failing);
	g_test_add_func("/client/daemon/bounded", bounded);
	g_test_add_func("/client/daemon/patience", patience);
	g_test_add_func("/client/daemon/retries", retries);
	g_test_add_func("/client/daemon/queue-full", queue_full);
	g_test_add_func("/client/daemon/late-but-there", late_but_there);
	g_test_add_func("/client/daemon/keeps-old", keeps_old);
	g_test_add_func("/client/many", many);
	g_test_add_func("/client/page/none", no_daemon);
	g_test_add_func("/client/page/bad", bad_page);
	g_test_add_func("/client/page/link", link_page);
	g_test_add_func("/client/snapshot", snapshot);
	g_test_add_func("/client/churn", churn);
	return g_test_run();
}
