/* SPDX-License-Identifier: MIT */
/* The programs' side of `wake` and `progress`: who calls a consumer and how often, what a full ring under `block` costs a
 * writer, and what lets him go. The page is mapped twice, as the daemon and as a program have it. */
#include "tests/unit/lib/ring.h"

#include "lib/atomic.h"
#include "lib/waiter.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>

#define SLOT 3
#define ROOM (4096 - ABI_SUB_HEADER)
#define BODY 992 /* of a record of 1000 bytes */

struct page {
	struct abi_control *daemon;
	const struct abi_control *program;
};

static const u8 body[8192];

static struct page page_new(void)
{
	int fd = memfd_create("control", MFD_CLOEXEC), read_only;
	g_autofree char *path = g_strdup_printf("/proc/self/fd/%d", fd);
	struct page p;

	g_assert_no_errno(ftruncate(fd, ABI_CONTROL_SIZE));
	read_only = open(path, O_RDONLY | O_CLOEXEC);
	g_assert_cmpint(read_only, >=, 0);
	p.daemon = mmap(NULL, ABI_CONTROL_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	p.program = mmap(NULL, ABI_CONTROL_SIZE, PROT_READ, MAP_SHARED, read_only, 0);
	g_assert_true(p.daemon != MAP_FAILED && p.program != MAP_FAILED);
	p.daemon->slot_generation[SLOT] = 1;
	close(fd);
	close(read_only);
	return p;
}

static void page_free(struct page *p)
{
	(void)munmap(p->daemon, ABI_CONTROL_SIZE);
	(void)munmap((void *)p->program, ABI_CONTROL_SIZE);
}

static void progress(struct page *p)
{
	(void)fetch_add_seq_cst_u32(&p->daemon->progress[SLOT], 1);
	(void)syscall(SYS_futex, &p->daemon->progress[SLOT], FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static u64 now_ms(void)
{
	return (u64)g_get_monotonic_time() / 1000;
}

static void set_up(struct ring *r, struct page *p, gconstpointer writer, u32 policy, u32 timeout_ms)
{
	*p = page_new();
	ring_init(r, GPOINTER_TO_UINT(writer), policy, 0);
	slot_watch(&r->slot, p->program, SLOT, timeout_ms * 1000);
}

static void tear_down(struct ring *r, struct page *p)
{
	ring_deinit(r);
	page_free(p);
}

/* Until nothing fits any more, by a writer that does not wait. */
static u32 fill(struct ring *r, struct page *p)
{
	u32 n = 0, us = r->slot.block_timeout_us;

	r->slot.block_timeout_us = 0;
	while (ring_write(r, 1, body, BODY) == RECORD_DONE)
		n++;
	r->slot.block_timeout_us = us;
	return n;
}

static u64 lost(struct ring *r)
{
	u64 sum = 0;

	for (u32 i = 0; i < 3; i++) {
		struct reader reader;

		reader_init(&reader, r->region.map, &r->geometry, i);
		sum += reader_lost_by(&reader, ABI_LOST_FULL);
	}
	return sum;
}

static void consume(struct ring *r, struct page *p)
{
	reader_consume(&r->reader, load_relaxed_u64(&r->reader.line->consumed) + 4096);
	progress(p);
}

/* ---- calls ---- */

static volatile sig_atomic_t n_calls;

static void on_trap(int signal, siginfo_t *info, void *context)
{
	ucontext_t *c = context;

	(void)signal;
	(void)info;
	n_calls++;
#if defined(__x86_64__)
	c->uc_mcontext.gregs[REG_RAX] = -EAGAIN; /* and errno has to be kept all the same */
#else
	c->uc_mcontext.regs[0] = (unsigned long long)-EAGAIN;
#endif
}

/* From here on FUTEX_WAKE, the shared kind, is counted instead of made. For a child that ends with its test. */
static void count_calls(void)
{
	struct sigaction action = { .sa_sigaction = on_trap, .sa_flags = SA_SIGINFO | SA_NODEFER };
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_futex, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1])),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, FUTEX_WAKE, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { ELEMENTSOF(code), code };

	g_assert_no_errno(sigaction(SIGSYS, &action, NULL));
	g_assert_no_errno(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
	g_assert_no_errno(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program));
}

/* One call for each boundary while the consumer sleeps, none while it is awake; with records that fit exactly, that do not,
 * and in several parts (which take the full sequence each). */
static void calls_child(enum writer w)
{
	static const u32 sizes[] = { 992 - 8, 24, 32 - 8, 3952, 100 };
	struct record_part parts[2];
	struct ring r;
	struct page p;

	for (u32 k = 0; k < ELEMENTSOF(sizes); k++)
		for (u32 several = 0; several < 2; several++)
			for (u32 asleep = 0; asleep < 2; asleep++) {
				u64 before, boundaries, records = 0;

				set_up(&r, &p, GUINT_TO_POINTER(w), ABI_POLICY_OVERWRITE, 0);
				p.daemon->wake[SLOT] = asleep;
				before = (u64)n_calls;
				/* somewhere inside the sixth sub-buffer */
				while (ring_offset(&r) < 5 * 4096 + ABI_SUB_HEADER) {
					u64 head[3] = { 0 };

					parts[0] = (struct record_part){ &head[1], 8, 0 };
					parts[1] = (struct record_part){ body, sizes[k] - 8, 0 };
					errno = 77;
					g_assert_cmpint(several ? ring_write_parts(&r, 1, parts, 2) :
								  ring_write(&r, 1, body, sizes[k]),
							==, RECORD_DONE);
					g_assert_cmpint(errno, ==, 77);
					records++;
				}
				/* a record that fits exactly leaves it on the next boundary */
				boundaries = ring_offset(&r) / 4096;
				g_assert_cmpuint((u64)n_calls - before, ==, asleep ? boundaries : 0);
				g_assert_cmpuint(records, >, 4);
				tear_down(&r, &p);
			}
}

static void test_calls(gconstpointer data)
{
	if (!g_test_subprocess()) {
		g_test_trap_subprocess(NULL, 0, G_TEST_SUBPROCESS_INHERIT_STDERR);
		g_test_trap_assert_passed();
		return;
	}
	count_calls();
	calls_child(GPOINTER_TO_UINT(data));
}

/* A boundary whose entry is then refused is called for too: the consumer has that sub-buffer to take. */
static void test_call_refused(gconstpointer data)
{
	struct ring r;
	struct page p;
	u32 n;

	if (!g_test_subprocess()) {
		g_test_trap_subprocess(NULL, 0, G_TEST_SUBPROCESS_INHERIT_STDERR);
		g_test_trap_assert_passed();
		return;
	}
	count_calls();
	set_up(&r, &p, data, ABI_POLICY_DISCARD, 0);
	n = 16 * (ROOM / 1000);
	for (u32 i = 0; i < n; i++)
		g_assert_cmpint(ring_write(&r, 1, body, BODY), ==, RECORD_DONE);
	g_assert_cmpint(n_calls, ==, 0);
	p.daemon->wake[SLOT] = 1;
	g_assert_cmpint(ring_write(&r, 1, body, BODY), ==, RECORD_LOST);
	g_assert_cmpint(n_calls, ==, 1);
	/* nothing new happens there */
	g_assert_cmpint(ring_write(&r, 1, body, BODY), ==, RECORD_LOST);
	g_assert_cmpint(n_calls, ==, 1);
	tear_down(&r, &p);
}

/* ---- waiting ---- */

struct late {
	struct ring *r;
	struct page *p;
	u32 ms;
	void (*what)(struct ring *, struct page *);
};

static gpointer later(gpointer data)
{
	struct late *l = data;

	g_usleep(l->ms * 1000ul);
	l->what(l->r, l->p);
	return NULL;
}

static void over(struct ring *r, struct page *p)
{
	store_release_u32(&p->daemon->slot_generation[SLOT], 0);
	progress(p);
}

static void renewed(struct ring *r, struct page *p)
{
	store_release_u32(&p->daemon->slot_generation[SLOT], 9);
	progress(p);
}

static void detached(struct ring *r, struct page *p)
{
	slot_detach(&r->slot); /* nobody is woken: a slice later */
}

/* Stored as soon as there is room; nothing is counted; errno is kept. */
static void test_room(gconstpointer data)
{
	struct late l = { .ms = 60, .what = consume };
	struct ring r;
	struct page p;
	GThread *t;
	u64 begin;
	u32 n;

	set_up(&r, &p, data, ABI_POLICY_BLOCK, 20000);
	n = fill(&r, &p);
	l.r = &r;
	l.p = &p;
	t = g_thread_new("late", later, &l);
	begin = now_ms();
	errno = 77;
	g_assert_cmpint(ring_write(&r, 2, body, BODY), ==, RECORD_DONE);
	g_assert_cmpint(errno, ==, 77);
	/* a millisecond may be cut off at either end */
	g_assert_cmpuint(now_ms() - begin, >=, 49);
	g_assert_cmpuint(now_ms() - begin, <, 10000);
	g_thread_join(t);
	g_assert_cmpuint(ring_count(&r), ==, n + 1);
	g_assert_cmpuint(lost(&r), ==, 1); /* of fill() */
	tear_down(&r, &p);
}

static void stale(gconstpointer data, void (*what)(struct ring *, struct page *))
{
	struct late l = { .ms = 30, .what = what };
	struct ring r;
	struct page p;
	GThread *t;
	u64 begin;

	set_up(&r, &p, data, ABI_POLICY_BLOCK, 20000);
	(void)fill(&r, &p);
	l.r = &r;
	l.p = &p;
	t = g_thread_new("late", later, &l);
	begin = now_ms();
	g_assert_cmpint(ring_write(&r, 2, body, BODY), ==, RECORD_STALE);
	g_assert_cmpuint(now_ms() - begin, <, 10000);
	g_thread_join(t);
	tear_down(&r, &p);
}

static void test_over(gconstpointer data)
{
	stale(data, over);
}

static void test_renewed(gconstpointer data)
{
	stale(data, renewed);
}

static void test_detached(gconstpointer data)
{
	stale(data, detached);
}

/* Nobody reads: one timeout for all records there ever are, each counted; with progress they wait again. */
static void test_dead(gconstpointer data)
{
	struct ring r;
	struct page p;
	u64 begin, one;

	set_up(&r, &p, data, ABI_POLICY_BLOCK, 300);
	(void)fill(&r, &p);
	begin = now_ms();
	g_assert_cmpint(ring_write(&r, 2, body, BODY), ==, RECORD_LOST);
	one = now_ms() - begin;
	g_assert_cmpuint(one, >=, 299);
	for (u32 i = 0; i < 100000; i++)
		g_assert_cmpint(ring_write(&r, 2, body, 8), ==, RECORD_LOST);
	/* each by itself would take eight hours */
	g_assert_cmpuint(now_ms() - begin, <, 60000);
	g_assert_cmpuint(lost(&r), ==, 1 + 1 + 100000);
	/* alive, and nothing consumed: waits again */
	progress(&p);
	begin = now_ms();
	g_assert_cmpint(ring_write(&r, 2, body, BODY), ==, RECORD_LOST);
	g_assert_cmpuint(now_ms() - begin, >=, 299);
	tear_down(&r, &p);
}

static void consume_all(struct ring *r, struct page *p)
{
	reader_consume(&r->reader, ring_offset(r) & ~4095ull);
	progress(p);
}

/* A reader that had nothing to do for longer than a timeout, and so made no progress since a writer was last let go, is not
 * dead when the ring fills up at once. */
static void test_idle_reader(gconstpointer data)
{
	struct late l = { .ms = 50, .what = consume_all };
	struct ring r;
	struct page p;
	GThread *t;

	set_up(&r, &p, data, ABI_POLICY_BLOCK, 1500);
	l.r = &r;
	l.p = &p;
	for (u32 i = 0; i < 2; i++) {
		(void)fill(&r, &p);
		t = g_thread_new("late", later, &l);
		g_assert_cmpint(ring_write(&r, 2, body, BODY), ==, RECORD_DONE);
		g_thread_join(t);
		if (i == 0)
			g_usleep(1600000);
	}
	tear_down(&r, &p);
}

static gpointer only_progress(gpointer data)
{
	struct late *l = data;

	while (!load_acquire_u32(&l->ms)) {
		progress(l->p);
		g_usleep(20000);
	}
	return NULL;
}

/* Progress elsewhere, and no room here: the record waits for its timeout and no longer; and so does the next one, for the
 * reader lives. */
static void test_elsewhere(gconstpointer data)
{
	struct late l = { .ms = 0 };
	struct ring r;
	struct page p;
	GThread *t;
	u64 begin;

	set_up(&r, &p, data, ABI_POLICY_BLOCK, 200);
	(void)fill(&r, &p);
	l.p = &p;
	t = g_thread_new("progress", only_progress, &l);
	for (u32 i = 0; i < 2; i++) {
		begin = now_ms();
		g_assert_cmpint(ring_write(&r, 2, body, BODY), ==, RECORD_LOST);
		g_assert_cmpuint(now_ms() - begin, >=, 199);
		g_assert_cmpuint(now_ms() - begin, <, 10000);
	}
	store_release_u32(&l.ms, 1);
	g_thread_join(t);
	tear_down(&r, &p);
}

/* What another thread found a moment later than we looked at the clock: no sign that the reader stands still. */
static void test_later_word(gconstpointer data)
{
	struct late l = { .ms = 50, .what = consume_all };
	struct ring r;
	struct page p;
	GThread *t;

	set_up(&r, &p, data, ABI_POLICY_BLOCK, 60000);
	(void)fill(&r, &p);
	l.r = &r;
	l.p = &p;
	store_relaxed_u64(&r.slot.stalled, 1ull << 63 | ((now_ms() + 20) & 0x7FFFFFFF) << 32 |
						   load_relaxed_u32(&p.daemon->progress[SLOT]));
	t = g_thread_new("late", later, &l);
	g_assert_cmpint(ring_write(&r, 2, body, BODY), ==, RECORD_DONE);
	g_thread_join(t);
	tear_down(&r, &p);
}

/* A thread that was away between its refusal and its first look at `progress` says nothing of the time before that look. */
static void test_away(gconstpointer data)
{
	struct waiter w;
	struct ring r;
	struct page p;
	u64 back;

	set_up(&r, &p, data, ABI_POLICY_BLOCK, 30);
	(void)fill(&r, &p);
	waiter_begin(&w, &r.slot, r.slot.generation);
	g_usleep(40000);
	back = now_ms();
	g_assert_cmpint(waiter_next(&w), ==, WAITER_TRY);
	g_assert_cmpint(waiter_next(&w), ==, WAITER_LATE);
	g_assert_cmpuint(load_relaxed_u64(&r.slot.stalled) >> 32 & 0x7FFFFFFF, >=, back & 0x7FFFFFFF);
	tear_down(&r, &p);
}

/* 0 is no waiting, and so is a slot that was never told what to wait on. */
static void test_none(gconstpointer data)
{
	struct ring r;
	struct page p;

	set_up(&r, &p, data, ABI_POLICY_BLOCK, 0);
	(void)fill(&r, &p);
	g_assert_cmpint(ring_write(&r, 2, body, BODY), ==, RECORD_LOST);
	g_assert_cmpuint(lost(&r), ==, 2);
	tear_down(&r, &p);
	ring_init(&r, GPOINTER_TO_UINT(data), ABI_POLICY_BLOCK, 0);
	while (ring_write(&r, 1, body, BODY) == RECORD_DONE)
		;
	g_assert_cmpuint(lost(&r), ==, 1);
	ring_deinit(&r);
}

/* ---- handlers ---- */

static struct ring *handler_ring;
static struct page *handler_page;
static volatile sig_atomic_t handled;
static bool handler_forks;
static pid_t handler_child;

static void on_alarm(int signal)
{
	int saved = errno;

	(void)signal;
	if (handled++)
		return;
	if (handler_forks) {
		handler_child = fork();
		if (handler_child == 0) {
			/* what MADV_WIPEONFORK does to a slot */
			memset(&handler_ring->slot, 0, sizeof(handler_ring->slot));
			errno = saved;
			return;
		}
	} else {
		u8 head[RECORD_HEADROOM + 16] = { 0 };
		struct record_part part = { head + RECORD_HEADROOM, 8, 0 };

		/* room for two: this one has it before the record that it interrupted */
		consume(handler_ring, handler_page);
		if (record_write(&handler_ring->slot, 1, 7, handler_ring->ids, 5, &handler_ring->clock, &part, 1) !=
		    RECORD_DONE)
			abort();
	}
	errno = saved;
}

static void arm_alarm(void)
{
	struct sigaction action = { .sa_handler = on_alarm };
	struct itimerval t = { .it_value = { 0, 30000 } };

	handled = 0;
	g_assert_no_errno(sigaction(SIGALRM, &action, NULL));
	g_assert_no_errno(setitimer(ITIMER_REAL, &t, NULL));
}

/* Its thread waits for room, and a handler records meanwhile; both are stored. */
static void test_handler(gconstpointer data)
{
	struct ring r;
	struct page p;

	set_up(&r, &p, data, ABI_POLICY_BLOCK, 20000);
	(void)fill(&r, &p);
	handler_ring = &r;
	handler_page = &p;
	handler_forks = false;
	arm_alarm();
	g_assert_cmpint(ring_write(&r, 2, body, 8), ==, RECORD_DONE);
	g_assert_cmpint(handled, ==, 1);
	g_assert_cmpuint(lost(&r), ==, 1);
	tear_down(&r, &p);
}

/* A handler forks; its child comes back into the wait with a wiped slot, and leaves it. */
static void test_fork(gconstpointer data)
{
	struct ring r;
	struct page p;
	enum record_result result;
	int status;

	set_up(&r, &p, data, ABI_POLICY_BLOCK, 1000);
	(void)fill(&r, &p);
	handler_ring = &r;
	handler_page = &p;
	handler_forks = true;
	arm_alarm();
	result = ring_write(&r, 2, body, 8);
	if (handler_child == 0)
		_exit(result == RECORD_STALE ? 0 : 9);
	g_assert_cmpint(result, ==, RECORD_LOST);
	g_assert_cmpint(waitpid(handler_child, &status, 0), ==, handler_child);
	g_assert_cmpint(status, ==, 0);
	tear_down(&r, &p);
}

/* Whoever can read the page can move a waiter to another word, and nobody wakes him there: a slice later he looks. */
static void requeue(struct ring *r, struct page *p)
{
	static u32 elsewhere;

	reader_consume(&r->reader, 4096);
	(void)fetch_add_seq_cst_u32(&p->daemon->progress[SLOT], 1);
	(void)syscall(SYS_futex, &p->program->progress[SLOT], FUTEX_REQUEUE, 0, INT_MAX, &elsewhere, 0);
}

static void test_requeue(gconstpointer data)
{
	struct late l = { .ms = 33, .what = requeue };
	struct ring r;
	struct page p;
	GThread *t;
	u64 begin;

	set_up(&r, &p, data, ABI_POLICY_BLOCK, 20000);
	(void)fill(&r, &p);
	l.r = &r;
	l.p = &p;
	t = g_thread_new("late", later, &l);
	begin = now_ms();
	g_assert_cmpint(ring_write(&r, 2, body, BODY), ==, RECORD_DONE);
	g_assert_cmpuint(now_ms() - begin, <, 10000);
	g_thread_join(t);
	tear_down(&r, &p);
}

static void add(const char *name, void (*test)(gconstpointer))
{
	for (u32 w = 0; w < N_WRITERS; w++) {
		g_autofree char *path = g_strdup_printf("/waiter/%s/%s", name, writer_names[w]);

		g_test_add_data_func(path, GUINT_TO_POINTER(w), test);
	}
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	add("calls", test_calls);
	add("calls/refused", test_call_refused);
	add("room", test_room);
	add("over", test_over);
	add("renewed", test_renewed);
	add("detached", test_detached);
	add("dead", test_dead);
	add("idle-reader", test_idle_reader);
	add("elsewhere", test_elsewhere);
	add("later-word", test_later_word);
	add("away", test_away);
	add("none", test_none);
	add("handler", test_handler);
	add("fork", test_fork);
	add("requeue", test_requeue);
	return g_test_run();
}
