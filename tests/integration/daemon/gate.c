/* SPDX-License-Identifier: MIT */
#include "tests/integration/daemon/gate.h"

#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include "daemon/capture.h"
#include "daemon/trace/trace.h"

static struct {
	pthread_mutex_t lock; /* guards shut and go */
	pthread_cond_t wake;
	bool shut[GATES], go[GATES];
	int fd[GATES]; /* eventfds: somebody stands there */
	bool reached[GATES]; /* the loop's */
	sd_event_source *source[GATES];
} gates = { .lock = PTHREAD_MUTEX_INITIALIZER, .wake = PTHREAD_COND_INITIALIZER };

static int gate_on_reached(sd_event_source *s, int fd, u32 revents, void *userdata)
{
	u64 n;

	g_assert_cmpint(read(fd, &n, sizeof(n)), ==, sizeof(n));
	*(bool *)userdata = true;
	return 0;
}

void gates_open(House *h)
{
	for (int i = 0; i < GATES; i++) {
		gates.shut[i] = gates.go[i] = gates.reached[i] = false;
		gates.fd[i] = eventfd(0, EFD_CLOEXEC);
		g_assert_cmpint(sd_event_add_io(h->event, &gates.source[i], gates.fd[i], EPOLLIN,
						gate_on_reached, &gates.reached[i]),
				>=, 0);
	}
}

void gates_close(void)
{
	for (int i = 0; i < GATES; i++) {
		gates.source[i] = sd_event_source_disable_unref(gates.source[i]);
		(void)close(gates.fd[i]);
	}
}

void gate_shut(Gate g)
{
	(void)pthread_mutex_lock(&gates.lock);
	gates.shut[g] = true;
	gates.go[g] = false;
	(void)pthread_mutex_unlock(&gates.lock);
}

static bool gate_reached(void *userdata)
{
	return *(bool *)userdata;
}

void gate_await(House *h, Gate g)
{
	house_until(h, gate_reached, &gates.reached[g]);
	gates.reached[g] = false;
}

void gate_go(Gate g)
{
	(void)pthread_mutex_lock(&gates.lock);
	gates.go[g] = true;
	(void)pthread_cond_broadcast(&gates.wake);
	(void)pthread_mutex_unlock(&gates.lock);
}

static void gate_pass(Gate g)
{
	u64 one = 1;

	(void)pthread_mutex_lock(&gates.lock);
	if (gates.shut[g]) {
		gates.shut[g] = false;
		g_assert_cmpint(write(gates.fd[g], &one, sizeof(one)), ==, sizeof(one));
		while (!gates.go[g])
			(void)pthread_cond_wait(&gates.wake, &gates.lock);
	}
	(void)pthread_mutex_unlock(&gates.lock);
}

/* NOLINTBEGIN(bugprone-reserved-identifier): the linker's names */
int __real_capture_take(Capture *ret, const CaptureSource *sources, size_t n, const struct record_clock *clock,
			const CaptureLimit *limit);
int __wrap_capture_take(Capture *ret, const CaptureSource *sources, size_t n, const struct record_clock *clock,
			const CaptureLimit *limit);
int __wrap_capture_take(Capture *ret, const CaptureSource *sources, size_t n, const struct record_clock *clock,
			const CaptureLimit *limit)
{
	int r;

	gate_pass(GATE_BEFORE_COPY);
	r = __real_capture_take(ret, sources, n, clock, limit);
	gate_pass(GATE_AFTER_COPY);
	return r;
}

int __real_trace_finish(Trace *t, const char *metadata, size_t size);
int __wrap_trace_finish(Trace *t, const char *metadata, size_t size);
int __wrap_trace_finish(Trace *t, const char *metadata, size_t size)
{
	gate_pass(GATE_WRITING);
	return __real_trace_finish(t, metadata, size);
}
/* NOLINTEND(bugprone-reserved-identifier) */
