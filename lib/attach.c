/* SPDX-License-Identifier: MIT */
/* Orders. Three things are published, and each is read in the opposite direction by recorders
 * (event.c):
 *
 *   ids of a slot, then n_ids (release)   | n_ids (acquire), then ids
 *   ids, ring, then the slot's generation | generation (acquire), then ids, then the sequence,
 * which (release, in slot_attach)           |   compares the generation again quiet, then the
 * class's generation    | class's generation (acquire), then quiet (release) |
 *
 * Ids have a fixed place per slot and are written over, never freed. A recorder that was delayed
 * between generation and id may so read an id of the slot's next session; but its sequence finds
 * another generation then and leaves. For one generation an id never changes into another, it only
 * appears (a class that was sent later) or becomes 0. */
#include "lib/attach.h"

#include <signal.h>
#include <sys/auxv.h>
#include <sys/syscall.h>

#include "lib/catalog.h"
#include "lib/connection.h"
#include "lib/control.h"
#include "lib/program.h"
#include "lib/sequence.h"

#define ATTEMPTED 0x100000000ull

/* Of the one who holds the lock. A child that was forked while somebody did has its own copies and
 * a free lock. */
static _Alignas(8) u8 message[WIRE_MAX];
static struct pending {
	int fd;
	u64 inode;
	u32 generation;
	struct geometry geometry;
	u32 block_timeout_us;
	u32 pinned;
} pending[ABI_MAX_SLOTS];
static u64 answered_slots; /* bits: sessions in the answer */
static u8 triggers[WIRE_MAX_CLASSES / 8]; /* bits: classes that it named as triggers */
static struct connection connection;
static u64 deadline; /* of the whole synchronisation, CLOCK_MONOTONIC */

u16 attach_ids[ABI_MAX_SLOTS][WIRE_MAX_CLASSES];
u32 attach_flags[ABI_MAX_SLOTS][WIRE_MAX_CLASSES];

static u32 slot_generation_wanted(u32 i)
{
	return load_acquire_u32(&control_page->head.slot_generation[i]);
}

/* A thread that is stuck in a side ring keeps one slot, and the others' users leave at once: so the whole is
 * bounded by the deadline, and nobody who is merely in the middle of something loses his slot by it. */
static void forget_slot(u32 i)
{
	if (process.slots[i].generation) {
		u64 now = monotonic_ns();

		slot_detach_until(&process.slots[i], MAX(MIN(now + SLOT_USERS_WAIT, deadline),
							 now + NSEC_PER_MSEC));
	}
	process.inode[i] = 0;
}

/* Descriptors of an exchange, done or given up. Our own are closed by now; a child that was forked in the
 * middle of one has copies of its parent's, which nobody else will close. */
static void close_left(void)
{
	connection_close(&connection);
	for (u32 i = 0; i < ABI_MAX_SLOTS; i++) {
		connection_close_own(pending[i].fd, pending[i].inode);
		pending[i] = (struct pending){.fd = -1};
	}
}

/* Rings belong to whom they were given to: who has another effective uid asks again. */
static void check_identity(void)
{
	u32 euid = (u32)syscall(SYS_geteuid);

	if (process.euid == euid)
		return;
	for (u32 i = 0; i < ABI_MAX_SLOTS; i++)
		forget_slot(i);
	for (u32 c = 0, n = catalog_count(); c < n; c++) {
		store_release_u32(&process.states[c].generation, 0);
		store_release_u32(&process.states[c].trigger, 0);
	}
	process.euid = euid;
}

/* Which program this is, for who reads a trace: the daemon may not be allowed to look for itself. */
static int send_program(struct connection *c)
{
	struct wire_program head = {.reserved = 0};
	u32 exe, build_id;

	exe = program_exe((char *)message, WIRE_MAX_EXE);
	build_id = program_build_id(message + exe, WIRE_MAX_BUILD_ID);
	head.header = wire_header(WIRE_PROGRAM, (u32)sizeof(head) + exe + build_id);
	head.exe_length = (u16)exe;
	head.build_id_length = (u16)build_id;
	return connection_send(c, &head, sizeof(head), message, exe + build_id);
}

static int send_classes(struct connection *c, u32 n_classes)
{
	int r;

	for (u32 first = 0, next = 0; first < n_classes; first = next) {
		struct wire_classes head;
		u32 at = 0;

		for (; next < n_classes; next++) {
			u32 size;
			const u8 *bytes = catalog_class(next, &size);

			if (sizeof(head) + at + size > WIRE_MAX_ASKED)
				break;
			memcpy(message + at, bytes, size);
			at += size;
		}
		head = (struct wire_classes){wire_header(WIRE_CLASSES, (u32)sizeof(head) + at),
					     first, next - first};
		r = connection_send(c, &head, sizeof(head), message, at);
		if (r < 0)
			return r;
	}
	return 0;
}

/* An id that gets or loses flags is in both places for a moment: a recorder looks for the plain one, the other, and once more for
 * the plain one, so that it always finds one. */
static void store_id(u32 slot, u32 class, u16 id, u16 flags)
{
	if (id && flags) {
		store_release_u32(&attach_flags[slot][class], id | (u32)flags << 16);
		/* release, pairs with attach_plain(): who finds no plain id finds the flags */
		store_release_u16(&attach_ids[slot][class], 0);
		return;
	}
	/* relaxed: before the release below, which pairs with attach_flagged() */
	store_relaxed_u16(&attach_ids[slot][class], id);
	if (load_relaxed_u32(&attach_flags[slot][class]))
		store_release_u32(&attach_flags[slot][class], 0);
}

static int take_session(const struct wire_session *m, int fd, u32 n_classes)
{
	const u16 *id = wire_session_ids(m);
	struct geometry g;
	struct slot *s;
	u32 i = m->slot, pinned;
	u64 inode;
	int r;

	r = wire_session_geometry(m, &g, &pinned);
	if (r < 0)
		return r;
	if (fd < 0 || m->n_classes != n_classes || answered_slots & 1ull << i)
		return -EBADMSG;
	answered_slots |= 1ull << i;
	s = &process.slots[i];
	inode = connection_inode(fd);
	if (s->generation && (s->generation != m->generation || process.inode[i] != inode))
		forget_slot(i); /* another session, or another owner's ring */
	for (u32 c = 0; c < n_classes; c++)
		store_id(i, c, id[c], wire_session_flags(m, c));
	if (s->generation) {
		slot_pin(s, pinned);
		slot_watch(s, &control_page->head, i, m->block_timeout_us);
		store_release_u32(&s->n_ids, n_classes);
	} else {
		pending[i] = (struct pending){fd, inode, m->generation, g, m->block_timeout_us, pinned};
	}
	return s->generation ? 0 : 1;
}

static int take_triggers(const struct wire_triggers *m, u32 n_classes)
{
	if (m->n_classes != n_classes)
		return -EBADMSG;
	memcpy(triggers, m + 1, (n_classes + 7) / 8);
	return 0;
}

static int receive_answer(struct connection *c, u32 n_classes, struct wire_done *ret)
{
	int fd = -1, n, r;

	for (;;) {
		n = connection_receive(c, message, sizeof(message), &fd);
		if (n < 0)
			return n;
		r = wire_check(message, (size_t)n);
		if (r == WIRE_SESSION) {
			r = take_session((const struct wire_session *)message, fd, n_classes);
			if (r == 1)
				continue; /* the descriptor is pending now */
			connection_close_own(fd, connection_inode(fd));
			if (r < 0)
				return r;
			continue;
		}
		if (fd >= 0)
			connection_close_own(fd, connection_inode(fd));
		if (r == WIRE_REFUSED) {
			const struct wire_refused *m = (const struct wire_refused *)message;

			return m->error && m->error < 4096 ? -(int)m->error : -EBADMSG;
		}
		if (r == WIRE_TRIGGERS && take_triggers((const struct wire_triggers *)message, n_classes) == 0)
			continue;
		if (r != WIRE_DONE)
			return -EBADMSG;
		memcpy(ret, message, sizeof(*ret));
		return !ret->producer ||
			       ret->n_sessions != (u32)__builtin_popcountll(answered_slots)
			   ? -EBADMSG
			   : 0;
	}
}

static void apply_answer(const struct wire_done *done, u32 n_classes)
{
	u64 attached = 0;

	/* relaxed: a recorder that still has the old one writes to a ring that has it on its list, too */
	store_relaxed_u32(&process.producer, done->producer);
	process.clock.kind = control_page->head.clock;
	process.clock.mult = control_page->head.clock_mult;
	/* relaxed: one value per boot; the slot's generation (release) publishes it */
	store_relaxed_u64(&process.mult,
			  process.clock.kind == ABI_CLOCK_COUNTER ? process.clock.mult : 0);
	store_relaxed_u64(&process.quick, sequence_offset && fork_key_usable ? process.mult : 0);
	for (u32 i = 0; i < ABI_MAX_SLOTS; i++) {
		struct slot *s = &process.slots[i];
		struct pending *p = &pending[i];

		if (!(answered_slots & 1ull << i)) {
			forget_slot(i); /* over, or no longer for us */
			continue;
		}
		attached |= 1ull << i;
		if (p->fd < 0)
			continue;
		/* One that cannot be mapped is missed, and counted as such: its bit is not quiet,
		 * its slot has no generation. */
		if (!s->retired) {
			slot_watch(s, &control_page->head, i, p->block_timeout_us);
			slot_pin(s, p->pinned);
		}
		if (!s->retired &&
		    slot_attach(s, p->fd, &p->geometry, p->generation, control_page->cpu_ring,
				attach_ids[i], n_classes) == 0)
			process.inode[i] = p->inode;
		else
			(void)fetch_add_relaxed_u64(&process.failed, 1);
	}
	for (u32 c = 0; c < n_classes; c++) {
		u32 generation = done->generation, trigger = 0;
		u64 wanted = 0;

		if (triggers[c / 8] & 1u << c % 8) {
			trigger = generation;
			generation = 0;
		}
		for (u64 bits = attached; bits; bits &= bits - 1) {
			u32 i = (u32)__builtin_ctzll(bits);

			if (load_relaxed_u16(&attach_ids[i][c]) || load_relaxed_u32(&attach_flags[i][c]))
				wanted |= 1ull << i;
		}
		__atomic_store_n(&process.states[c].quiet, ~wanted, __ATOMIC_RELAXED);
		/* pair with the acquire in tracer_wanted_() and in record_all() */
		store_release_u32(&process.states[c].generation, generation);
		store_release_u32(&process.states[c].trigger, trigger);
	}
}

static int exchange(u32 n_classes, u32 flags)
{
	const u64 *cookie = (const u64 *)getauxval(AT_RANDOM);
	u64 missed = load_relaxed_u64(&process.missed), failed = load_relaxed_u64(&process.failed);
	struct wire_hello hello = {
	    .header = wire_header(WIRE_HELLO, sizeof(hello)),
	    .abi_major = ABI_MAJOR,
	    .abi_minor = ABI_MINOR,
	    .n_classes = n_classes,
	    .missed = missed,
	    .failed = failed,
	    .vpid = (u32)fork_identity(),
	    .flags = flags | WIRE_HELLO_TRIGGERS,
	};
	struct wire_end end = {wire_header(WIRE_END, sizeof(end))};
	struct wire_done done;
	int r;

	if (cookie)
		memcpy(hello.cookie, cookie, sizeof(hello.cookie));
	r = connection_open(&connection, control_socket(), deadline);
	if (r < 0)
		return r;
	r = connection_send(&connection, &hello, sizeof(hello), NULL, 0);
	if (r == 0 && control_page->head.minor >= 2)
		r = send_program(&connection);
	if (r == 0)
		r = send_classes(&connection, n_classes);
	if (r == 0)
		r = connection_send(&connection, &end, sizeof(end), NULL, 0);
	/* A daemon that refuses may hang up before it has read all: what it said is there to be
	 * read. */
	if (r == 0 || r == -EPIPE)
		r = receive_answer(&connection, n_classes, &done);
	connection_close(&connection);
	if (r == 0 && control_page->head.clock == ABI_CLOCK_NONE)
		r = -EBADMSG;
	if (r == 0) {
		process.answered = done.generation;
		apply_answer(&done, n_classes);
		(void)fetch_add_relaxed_u64(&process.missed, -missed);
		(void)fetch_add_relaxed_u64(&process.failed, -failed);
	}
	return r;
}

/* Under the lock, all signals blocked. */
static void synchronise_locked(u32 generation, u32 flags)
{
	u32 n_classes = catalog_count();
	/* relaxed, and before the question: what the daemon notices of this exchange comes behind it, so that no word
	 * that is meant for us is taken for an old one */
	u32 retry = load_relaxed_u32(&control_page->head.retry);
	int r;

	deadline = monotonic_ns() + control_timeout();
	close_left();
	check_identity();
	/* Sessions that are over give their memory back, whatever the daemon answers. */
	for (u32 i = 0; i < ABI_MAX_SLOTS; i++)
		if (process.slots[i].generation &&
		    process.slots[i].generation != slot_generation_wanted(i))
			forget_slot(i);
	answered_slots = 0;
	memset(triggers, 0, sizeof(triggers));

	r = exchange(n_classes, flags);

	close_left();
	if (r < 0)
		(void)fetch_add_relaxed_u64(&process.failed, 1);
	/* Remembered however it ended: a failure is not tried again before the generation moves. */
	store_relaxed_u32(&process.attempted_classes, n_classes);
	store_relaxed_u32(&process.attempt_failed, r < 0 ? load_relaxed_u32(&process.attempt_failed) + 1 : 0);
	store_relaxed_u32(&process.retry, retry);
	store_relaxed_u64(&process.retry_at, 0);
	store_release_u64(&process.attempted, ATTEMPTED | generation);
}

/* The daemon noticed that somebody was not heard, and our last exchange failed: asks again, at a time of its own. (13 of
 * abi.h; all relaxed: who reads an old value asks a little earlier or later.) */
static bool retry_due(void)
{
	u32 failures = load_relaxed_u32(&process.attempt_failed);
	u64 now, at;

	if (likely(!failures) || load_relaxed_u32(&control_page->head.retry) == load_relaxed_u32(&process.retry))
		return false;
	now = monotonic_ns();
	at = load_relaxed_u64(&process.retry_at);
	if (!at) {
		/* pids of a crowd are neighbours, and they see the page at about the same time: the odd number spreads both */
		u64 spread = (now ^ load_relaxed_u32(&process.pid)) * 0x9e3779b97f4a7c15 >> 16;

		at = now + spread % (RETRY_PERIOD << MIN(failures, RETRY_DOUBLINGS));
		store_relaxed_u64(&process.retry_at, at);
	}
	return now >= at;
}

/* Something would be learned: the generation is one that was neither tried nor answered, or the
 * class is new and the last exchange at this generation went well, or the last one failed and is to be repeated. */
static bool due(u32 generation, u32 index)
{
	u64 attempted = load_acquire_u64(&process.attempted);

	if (attempted != (ATTEMPTED | generation) &&
	    (!attempted || load_relaxed_u32(&process.attempt_failed) ||
	     load_relaxed_u32(&process.answered) != generation))
		return true;
	if (retry_due())
		return true;
	return index >= load_relaxed_u32(&process.attempted_classes) &&
	       !load_relaxed_u32(&process.attempt_failed);
}

static void synchronise(u32 index, u32 flags)
{
	u32 generation = load_acquire_u32(&control_page->head.generation), was = 0;
	sigset_t all, saved;

	if (!due(generation, index))
		return;
	/* A handler that records meanwhile would find the lock taken and count; but while it runs,
	 * nothing goes on here, and others wait for the time we take. */
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &saved);
	if (cas_acquire_u32(&process.attach_lock, &was, 1)) {
		generation = load_acquire_u32(&control_page->head.generation);
		if (due(generation, index))
			synchronise_locked(generation, flags);
		store_release_u32(&process.attach_lock, 0);
	}
	pthread_sigmask(SIG_SETMASK, &saved, NULL);
}

void attach_refresh(u32 index)
{
	int saved = errno;

	synchronise(index, 0);
	errno = saved;
}

void attach_eagerly(void)
{
	int saved = errno;

	synchronise(catalog_count() - 1, WIRE_HELLO_EAGER);
	errno = saved;
}
