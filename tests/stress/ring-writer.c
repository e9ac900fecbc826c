/* SPDX-License-Identifier: MIT */
/* Threads that record, with handlers that record into the same rings, on CPUs that change. */
#include "tests/stress/ring.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>

struct writers writers;
static __thread u64 ids;
static __thread u32 my_number;
static __thread bool handling; /* the handler may record */
static u8 long_tail[PAY_LONG];
static struct slot slots[64];

u8 pay_byte(const struct pay *p, u32 i)
{
	return (u8)(p->number * 7 + p->who * 31 + p->generation * 3 + i * 11);
}

u8 pay_tail(u32 i)
{
	return (u8)(i * 37 + (i >> 8));
}

void pay_text(const struct pay *p, char *text, u32 size, bool recorded)
{
	u32 half = p->number % 32 < 16 ? size / 2 : size - 1;

	for (u32 i = 0; i < size; i++)
		text[i] = (char)('a' + (p->number + i) % 26);
	if (recorded)
		memset(text + half, '#', size - 1 - half);
	else
		text[half] = 0;
	text[size - 1] = 0;
}

enum record_result writer_emit(u32 who, u32 kind, u32 fill, bool side)
{
	struct {
		u64 headroom;
		struct pay pay;
	} head;
	struct state *s = &shared->t[who];
	struct record_part parts[3] = {{&head.pay, PAY_HEAD, 0}};
	static __thread struct {
		u64 headroom;
		u8 bytes[PAY_LONG + 8];
	} long_head; /* by kind 0 only, so that no handler meets it */
	struct slot *slot = load_acquire_ptr(&writers.slot);
	u32 n = 1, generation = 1, id = kind ? ID_HANDLER : ID_NUMBER;
	char text[sizeof(head.pay.fill)];
	enum record_result r;

	if (!ids)
		ids = (u64)(u32)getpid() | (u64)(u32)syscall(SYS_gettid) << 32;
	head.pay.who = who;
	head.pay.number = s->number[kind];
	head.pay.generation = shared->incarnation[who];
	if (writers.attaching) {
		generation = load_acquire_u32(&slot->generation);
		if (!generation)
			return RECORD_STALE;
		head.pay.generation = generation;
	}
	for (u32 i = 0; i < MIN(fill, (u32)sizeof(head.pay.fill)); i++)
		head.pay.fill[i] = pay_byte(&head.pay, i);
	head.pay.before = record_clock_now(&record_clock);
	if (fill == PAY_LONG && head.pay.number & 1) {
		memcpy(long_head.bytes, &head.pay, sizeof(head.pay));
		if (!long_head.bytes[PAY_LONG - 1])
			memcpy(long_head.bytes + sizeof(head.pay), long_tail + sizeof(head.pay),
			       PAY_LONG - sizeof(head.pay));
		parts[0] = (struct record_part){long_head.bytes, head.pay.number & 2 ? PAY_MIDDLE : PAY_LONG, 0};
	} else if (fill == PAY_LONG) {
		parts[0].size = sizeof(head.pay);
		/* one that has a piece of every size, and one that is copied otherwise */
		parts[n++] = (struct record_part){long_tail + sizeof(head.pay), 127, 0};
		parts[n++] = (struct record_part){long_tail + sizeof(head.pay) + 127,
						  PAY_LONG - sizeof(head.pay) - 127, 0};
	} else if (head.pay.number % 16 == 3) {
		/* gathered by the sequence */
		parts[n++] = (struct record_part){head.pay.fill, fill, 0};
	} else if (head.pay.number % 16 == 5 && !kind) {
		u32 size = MIN(fill, 100u) + 1;

		id = ID_TEXT;
		pay_text(&head.pay, text, size, false);
		parts[n++] = (struct record_part){text, size, 1};
	} else {
		parts[0].size += fill;
	}
	r = (side ? record_write_side : record_write)(slot, generation, id, ids, writers.producer,
						      &record_clock, parts, n);
	s->side += side;
	if (r == RECORD_STALE)
		s->stale++;
	if (r == RECORD_LOST)
		s->lost[kind]++;
	if (r == RECORD_DONE || (r == RECORD_LOST && writers.number_lost)) {
		/* before, then number: the checker loads them the other way round */
		store_release_u64(&s->before[kind], head.pay.before);
		store_release_u64(&s->number[kind], head.pay.number + 1);
	}
	return r;
}

static void on_tick(int signal)
{
	int saved = errno;

	if (handling)
		(void)writer_emit(my_number, 1, (u32)(shared->t[my_number].number[1] % 61), false);
	errno = saved;
}

static void set_cpus(u64 r)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET((u32)r & 1, &set);
	if (r & 2)
		CPU_SET(~(u32)r & 1, &set);
	(void)sched_setaffinity(0, sizeof(set), &set); /* fewer CPUs than two: stays where it is */
}

static void *writer(void *arg)
{
	u32 who = (u32)(uintptr_t)arg;
	u64 random = seed * 0x9e3779b97f4a7c15 ^ (who + 1ull) * 0xbf58476d1ce4e5b9 ^
		     (u64)shared->incarnation[who] << 32;
	long hz = who & 1 ? 10000 : 1000;
	struct itimerspec every = {{0, 1000000000 / hz}, {0, 1000000000 / hz}};
	struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGRTMIN};
	sigset_t tick;
	timer_t timer;

	my_number = who;
	event._sigev_un._tid = (pid_t)syscall(SYS_gettid);
	if (timer_create(CLOCK_MONOTONIC, &event, &timer) < 0) {
		perror("timer_create");
		_exit(2);
	}
	set_cpus(2);
	handling = true;
	(void)timer_settime(timer, 0, &every, NULL);
	while (!load_relaxed_u32(&shared->stop)) {
		u64 r = random_next(&random), dice = r >> 40;
		bool side = writers.side_share && r % writers.side_share == 0;
		bool large = writers.attaching && r >> 56 < writers.large_share;

		(void)writer_emit(who, 0, large ? PAY_LONG : (u32)(r >> 20) % 100, side);
		if (dice % 4096 == 0)
			set_cpus(r);
		else if (dice % 8192 == 1)
			(void)sched_yield();
		else if (dice % 65536 == 2)
			nap(r & 255);
	}
	/* blocked first: a handler in the middle of the last record would be counted late */
	sigemptyset(&tick);
	sigaddset(&tick, SIGRTMIN);
	(void)pthread_sigmask(SIG_BLOCK, &tick, NULL);
	handling = false;
	(void)timer_delete(timer);
	return NULL;
}

void writers_run(u32 first, u32 n)
{
	pthread_t threads[MAX_WHO];

	for (u32 i = 0; i < n; i++)
		(void)pthread_create(&threads[i], NULL, writer, (void *)(uintptr_t)(first + i));
	for (u32 i = 0; i < n; i++)
		(void)pthread_join(threads[i], NULL);
}

void writers_init(void)
{
	struct sigaction action = {.sa_handler = on_tick, .sa_flags = SA_RESTART};

	writers.slot = slots;
	(void)sigaction(SIGRTMIN, &action, NULL);
	for (u32 i = 0; i < ABI_MAX_CPUS; i++)
		writers.cpu_ring[i] = i < N_CPU ? (u16)i : ABI_NO_RING;
	for (u32 i = 0; i < PAY_LONG; i++)
		long_tail[i] = pay_tail(i);
}

void writers_next_slot(void)
{
	struct slot *next = writers.slot + 1;

	/* a user that was away for longer than the detach waits; it comes back */
	while (load_seq_cst_u32(&writers.slot->users))
		nap(1000);
	if (next == slots + ELEMENTSOF(slots)) {
		bad("too many slots retired");
		next = slots;
	}
	store_release_ptr(&writers.slot, next);
}

pid_t writers_start(const struct region *r, u32 first, u32 n)
{
	pid_t pid;

	(void)fflush(stdout);
	pid = fork();
	if (pid)
		return pid;
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	(void)setpriority(PRIO_PROCESS, 0, 0); /* whatever the checker gave itself */
	writers.producer = first + 1;
	if (slot_register() < 0 ||
	    slot_attach(writers.slot, r->fd, &r->geometry, 1, writers.cpu_ring, NULL, 0) < 0)
		_exit(2);
	writers_run(first, n);
	_exit(0);
}

void writers_total(u32 n, struct state *ret)
{
	*ret = (struct state){0};
	for (u32 i = 0; i < n; i++) {
		for (u32 k = 0; k < 2; k++) {
			ret->number[k] += shared->t[i].number[k];
			ret->lost[k] += shared->t[i].lost[k];
		}
		ret->stale += shared->t[i].stale;
		ret->side += shared->t[i].side;
	}
}
