/* SPDX-License-Identifier: MIT */
#include "fake.h"

#include <fcntl.h>
#include <glib/gstdio.h>
#include <limits.h>
#include <linux/futex.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>

#include "lib/atomic.h"
#include "lib/pattern.h"
#include "lib/reader.h"

#define MAX_IDS 4096

typedef struct {
	bool running;
	char *pattern;
	uid_t uid;
	u32 generation;
	struct {
		uid_t uid;
		struct region region;
	} owners[FAKE_MAX_OWNERS];
	u32 n_owners;
} FakeSession;

struct Fake {
	GMutex lock;
	GThread *thread;
	char *directory, *socket;
	int listener, quit, control_fd;
	struct abi_control_page *page;
	FakeBehaviour behaviour;
	void (*before)(void *);
	void *before_data;
	FakeSession sessions[ABI_MAX_SLOTS];
	u32 next_generation;
	struct event_class *classes[MAX_IDS]; /* id - 1 */
	u32 n_classes;
	GArray *exchanges;
	GArray *answered; /* descriptors; NULL: nobody asks who was late */
	u32 n_late;
	char *reason;
	struct geometry geometry;
	u32 block_timeout_us;
	u32 n_cpu;
};

static int bind_socket(Fake *f)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	g_assert_cmpint(fd, >=, 0);
	g_strlcpy(a.sun_path, f->socket, sizeof(a.sun_path));
	(void)g_unlink(f->socket);
	g_assert_no_errno(bind(fd, (struct sockaddr *)&a, sizeof(a)));
	g_assert_no_errno(chmod(f->socket, 0666));
	g_assert_no_errno(listen(fd, 64));
	return fd;
}

static void progress(Fake *f, u32 slot)
{
	u32 *word = &f->page->head.progress[slot];

	(void)fetch_add_seq_cst_u32(word, 1);
	(void)syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* Masks first, then the slot's generation, then the generation, as the design says. */
static void publish(Fake *f)
{
	for (u32 b = 0; b < ABI_BUCKETS; b++) {
		u64 mask = 0;

		for (u32 i = 0; i < ABI_MAX_SLOTS; i++) {
			char provider[CLASS_MAX_NAME + 1];

			if (!f->sessions[i].running)
				continue;
			if (!pattern_literal_provider(f->sessions[i].pattern, provider,
						      sizeof(provider)) ||
			    abi_bucket(provider) == b)
				mask |= 1ull << i;
		}
		store_release_u64(&f->page->mask[b], mask);
	}
	for (u32 i = 0; i < ABI_MAX_SLOTS; i++)
		store_release_u32(&f->page->head.slot_generation[i],
				  f->sessions[i].running ? f->sessions[i].generation : 0);
	/* whoever waits for room of a session that is over */
	for (u32 i = 0; i < ABI_MAX_SLOTS; i++)
		progress(f, i);
	store_release_u32(&f->page->head.generation, f->page->head.generation + 1);
}

static u32 class_id(Fake *f, struct event_class *c)
{
	for (u32 i = 0; i < f->n_classes; i++)
		if (class_equal(f->classes[i], c)) {
			free(c);
			return i + 1;
		}
	g_assert_cmpint(f->n_classes, <, MAX_IDS);
	f->classes[f->n_classes++] = c;
	return f->n_classes;
}

static struct region *owner_region(Fake *f, u32 slot, uid_t uid)
{
	FakeSession *s = &f->sessions[slot];
	u32 rings[64];

	for (u32 i = 0; i < s->n_owners; i++)
		if (s->owners[i].uid == uid)
			return &s->owners[i].region;
	g_assert_cmpint(s->n_owners, <, FAKE_MAX_OWNERS);
	for (u32 i = 0; i < f->n_cpu; i++)
		rings[i] = i;
	s->owners[s->n_owners].uid = uid;
	g_assert_cmpint(region_create(&s->owners[s->n_owners].region, "fake", &f->geometry, slot,
				      s->generation, rings, f->n_cpu),
			==, 0);
	return &s->owners[s->n_owners++].region;
}

static bool send_message(int fd, const void *p, size_t n, const int *fds, u32 n_fds)
{
	union {
		struct cmsghdr h;
		u8 b[CMSG_SPACE(2 * sizeof(int))];
	} control = {0};
	struct iovec v = {(void *)p, n};
	struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1};

	if (n_fds) {
		m.msg_control = &control;
		m.msg_controllen = CMSG_SPACE(n_fds * sizeof(int));
		control.h.cmsg_level = SOL_SOCKET;
		control.h.cmsg_type = SCM_RIGHTS;
		control.h.cmsg_len = CMSG_LEN(n_fds * sizeof(int));
		memcpy(CMSG_DATA(&control.h), fds, n_fds * sizeof(int));
	}
	return sendmsg(fd, &m, MSG_NOSIGNAL) >= 0;
}

static void send_session(Fake *f, int fd, u32 slot, uid_t uid, const u32 *ids, u32 n)
{
	struct region *r = owner_region(f, slot, uid);
	FakeBehaviour b = f->behaviour;
	u32 n_sent = b == FAKE_WRONG_ID ? n - 1 : n;
	size_t size = sizeof(struct wire_session) + n_sent * 2;
	g_autofree struct wire_session *m = g_malloc0(size);
	int fds[2] = {r->fd, r->fd}, unsealed = -1;
	u16 *id = (u16 *)(m + 1);

	*m = (struct wire_session){
	    .header = wire_header(WIRE_SESSION, (u32)size),
	    .slot = slot,
	    .generation = f->sessions[slot].generation,
	    .ring_shift = r->geometry.ring_shift,
	    .sub_shift = r->geometry.sub_shift,
	    .side_shift = r->geometry.side_shift,
	    .side_sub_shift = r->geometry.side_sub_shift,
	    .n_ring = r->geometry.n_ring + (b == FAKE_BIG),
	    .n_side = r->geometry.n_side,
	    .policy = r->geometry.policy,
	    .contexts = r->geometry.contexts,
	    .size = r->size,
	    .n_classes = n_sent,
	    .block_timeout_us = f->block_timeout_us,
	};
	if (b == FAKE_BIG) {
		struct geometry g;

		g = r->geometry;
		g.n_ring++;
		m->size = geometry_size(&g);
	}
	for (u32 i = 0; i < n_sent; i++)
		id[i] =
		    pattern_match_event(f->sessions[slot].pattern, f->classes[ids[i] - 1]->provider,
					f->classes[ids[i] - 1]->name)
			? (u16)ids[i]
			: 0;
	if (b == FAKE_UNSEALED) {
		unsealed = memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING);
		g_assert_no_errno(ftruncate(unsealed, (off_t)r->size));
		fds[0] = unsealed;
	}
	send_message(fd, m, size, fds, b == FAKE_NO_FD ? 0 : b == FAKE_TWO_FDS ? 2 : 1);
	if (b == FAKE_TWICE)
		send_message(fd, m, size, fds, 1);
	if (unsealed >= 0)
		close(unsealed);
}

static void answer(Fake *f, int fd, const struct ucred *peer, const u32 *ids, u32 n)
{
	struct wire_done done = {.header = wire_header(WIRE_DONE, sizeof(done)),
				 .generation = f->page->head.generation,
				 .producer = (u32)peer->pid};

	if (f->before)
		f->before(f->before_data);
	if (f->behaviour == FAKE_REFUSES) {
		struct wire_refused m = {wire_header(WIRE_REFUSED, sizeof(m)), EDQUOT, 0};

		send_message(fd, &m, sizeof(m), NULL, 0);
		return;
	}
	if (f->behaviour == FAKE_NONSENSE) {
		send_message(fd, "nonsense, thirty bytes of it..", 30, NULL, 0);
		return;
	}
	if (f->behaviour == FAKE_HANGS_UP)
		return;
	for (u32 i = 0; i < ABI_MAX_SLOTS; i++) {
		if (!f->sessions[i].running ||
		    (f->sessions[i].uid != (uid_t)-1 && f->sessions[i].uid != peer->uid))
			continue;
		send_session(f, fd, i, peer->uid, ids, n);
		done.n_sessions++;
	}
	f->n_late += !send_message(fd, &done, sizeof(done), NULL, 0);
}

/* Takes one exchange; what a client of ours sends must always be right. False: it came to no end. */
static bool serve(Fake *f, int fd)
{
	static _Alignas(8) u8 buffer[WIRE_MAX];
	g_autofree u32 *ids = g_new0(u32, WIRE_MAX_CLASSES);
	FakeExchange e = {0};
	struct ucred peer;
	socklen_t length = sizeof(peer);
	u32 n = 0;

	g_assert_no_errno(getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length));
	e.pid = peer.pid;
	e.uid = peer.uid;
	for (;;) {
		struct pollfd p[2] = {{.fd = fd, .events = POLLIN},
				      {.fd = f->quit, .events = POLLIN}};
		ssize_t r;

		if (poll(p, 2, 5000) <= 0 || p[1].revents)
			return false;
		r = recv(fd, buffer, sizeof(buffer), 0);
		if (r <= 0)
			return false;
		switch (wire_check(buffer, (size_t)r)) {
		case WIRE_HELLO:
			memcpy(&e.hello, buffer, sizeof(e.hello));
			break;
		case WIRE_PROGRAM: {
			struct wire_program head;

			g_assert_cmpint(n, ==, 0);
			memcpy(&head, buffer, sizeof(head));
			memcpy(e.exe, buffer + sizeof(head), head.exe_length);
			memcpy(e.build_id, buffer + sizeof(head) + head.exe_length, head.build_id_length);
			e.n_build_id = head.build_id_length;
			break;
		}
		case WIRE_CLASSES: {
			struct wire_classes head;
			size_t at = sizeof(head);

			memcpy(&head, buffer, sizeof(head));
			g_assert_cmpint(head.first, ==, n);
			g_mutex_lock(&f->lock);
			for (u32 i = 0; i < head.n; i++) {
				struct event_class *c;
				int taken = class_decode(&c, buffer + at, (size_t)r - at);

				g_assert_cmpint(taken, >, 0);
				at += (size_t)taken;
				ids[n++] = class_id(f, c);
			}
			g_mutex_unlock(&f->lock);
			g_assert_cmpint(at, ==, r);
			break;
		}
		case WIRE_END:
			g_assert_cmpint(n, ==, e.hello.n_classes);
			g_mutex_lock(&f->lock);
			g_array_append_val(f->exchanges, e);
			if (f->behaviour != FAKE_SILENT)
				answer(f, fd, &peer, ids, n);
			g_mutex_unlock(&f->lock);
			if (f->behaviour == FAKE_SILENT)
				continue; /* until the client gives up */
			return true;
		case WIRE_SNAPSHOT: {
			struct wire_snapshot *m = (struct wire_snapshot *)buffer;
			struct wire_accepted yes = {wire_header(WIRE_ACCEPTED, sizeof(yes)), 1, 0};
			struct wire_refused no = {wire_header(WIRE_REFUSED, sizeof(no)), EBUSY, 0};

			g_mutex_lock(&f->lock);
			g_free(f->reason);
			f->reason = g_strndup((char *)(m + 1), m->reason_length);
			if (f->behaviour == FAKE_REFUSES)
				send_message(fd, &no, sizeof(no), NULL, 0);
			else if (f->behaviour == FAKE_ANSWERS)
				send_message(fd, &yes, sizeof(yes), NULL, 0);
			g_mutex_unlock(&f->lock);
			if (f->behaviour == FAKE_SILENT)
				continue;
			return true;
		}
		default:
			g_assert_not_reached();
		}
	}
}

static gpointer run(gpointer data)
{
	Fake *f = data;

	for (;;) {
		struct pollfd p[2] = {{.fd = f->listener, .events = POLLIN},
				      {.fd = f->quit, .events = POLLIN}};
		int fd;

		if (poll(p, 2, -1) < 0)
			continue;
		if (p[1].revents)
			return NULL;
		fd = accept4(f->listener, NULL, NULL, SOCK_CLOEXEC);
		if (fd < 0)
			continue;
		if (!serve(f, fd))
			f->n_late++;
		else if (f->answered) {
			g_array_append_val(f->answered, fd);
			continue;
		}
		close(fd);
	}
}

void fake_memory(Fake *f, u64 memory)
{
	g_assert_cmpint(geometry_plan(&f->geometry, memory, 16, f->n_cpu, f->n_cpu,
				      ABI_POLICY_OVERWRITE, ABI_CONTEXT_VPID | ABI_CONTEXT_VTID,
				      NULL),
			==, 0);
}

void fake_policy(Fake *f, u32 policy, u32 block_timeout_us)
{
	f->geometry.policy = policy;
	f->block_timeout_us = block_timeout_us;
}

u32 fake_consume(Fake *f, u32 slot)
{
	FakeSession *s = &f->sessions[slot];
	u32 n = 0;

	g_mutex_lock(&f->lock);
	for (u32 i = 0; i < s->n_owners; i++)
		for (u32 k = 0; k < f->geometry.n_ring + f->geometry.n_side; k++) {
			struct reader r;
			u64 offset, count, consumed;

			reader_init(&r, s->owners[i].region.map, &f->geometry, k);
			consumed = load_relaxed_u64(&r.line->consumed);
			if (reader_position(&r, &offset, &count) < 0 || offset < consumed + r.sub_size)
				continue;
			reader_consume(&r, consumed + r.sub_size);
			n++;
		}
	if (n)
		progress(f, slot);
	g_mutex_unlock(&f->lock);
	return n;
}

u64 fake_ring_size(Fake *f)
{
	return 1ull << f->geometry.ring_shift;
}

u64 fake_count(Fake *f, u32 slot)
{
	FakeSession *s = &f->sessions[slot];
	u64 sum = 0;

	g_mutex_lock(&f->lock);
	for (u32 i = 0; i < s->n_owners; i++)
		for (u32 k = 0; k < f->geometry.n_ring + f->geometry.n_side; k++) {
			u64 offset, count;
			struct reader r;

			reader_init(&r, s->owners[i].region.map, &f->geometry, k);
			g_assert_cmpint(reader_position(&r, &offset, &count), ==, 0);
			sum += count;
		}
	g_mutex_unlock(&f->lock);
	return sum;
}

Fake *fake_new(void)
{
	Fake *f = g_new0(Fake, 1);
	g_autofree char *control = NULL;

	f->directory = g_dir_make_tmp("tracer-XXXXXX", NULL);
	g_assert_nonnull(f->directory);
	g_assert_no_errno(chmod(f->directory, 0755));
	control = g_build_filename(f->directory, "control", NULL);
	f->socket = g_build_filename(f->directory, "producer.sock", NULL);
	f->control_fd = open(control, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
	g_assert_cmpint(f->control_fd, >=, 0);
	g_assert_no_errno(ftruncate(f->control_fd, ABI_CONTROL_SIZE));
	f->page =
	    mmap(NULL, ABI_CONTROL_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, f->control_fd, 0);
	g_assert(f->page != MAP_FAILED);
	f->page->head = (struct abi_control){.magic = ABI_CONTROL_MAGIC,
					     .major = ABI_MAJOR,
					     .minor = ABI_MINOR,
					     .size = ABI_CONTROL_SIZE,
					     .clock = ABI_CLOCK_COUNTER,
					     .clock_mult = 1ull << 32};
	f->n_cpu = (u32)sysconf(_SC_NPROCESSORS_CONF);
	for (u32 i = 0; i < ABI_MAX_CPUS; i++)
		f->page->cpu_ring[i] = i < f->n_cpu ? (u16)i : ABI_NO_RING;
	fake_memory(f, 8 << 20);
	f->next_generation = 100;
	f->exchanges = g_array_new(FALSE, TRUE, sizeof(FakeExchange));
	f->quit = eventfd(0, EFD_CLOEXEC);
	f->listener = bind_socket(f);
	f->thread = g_thread_new("fake", run, f);
	publish(f);
	return f;
}

static void stop_thread(Fake *f)
{
	u64 one = 1;

	if (!f->thread)
		return;
	g_assert_cmpint(write(f->quit, &one, 8), ==, 8);
	g_thread_join(f->thread);
	f->thread = NULL;
	g_assert_cmpint(read(f->quit, &one, 8), ==, 8);
	for (int fd; (fd = accept4(f->listener, NULL, NULL, SOCK_CLOEXEC)) >= 0; close(fd))
		f->n_late++; /* had to wait for longer than it does */
	close(f->listener);
}

void fake_die(Fake *f)
{
	stop_thread(f);
}

void fake_note_late(Fake *f)
{
	f->answered = g_array_new(FALSE, FALSE, sizeof(int));
}

bool fake_was_late(Fake *f)
{
	int fd;

	stop_thread(f);
	for (u32 i = 0; i < f->answered->len; i++) {
		u8 byte;

		fd = g_array_index(f->answered, int, i);
		/* closed with our answer in it, or (ECONNRESET) before */
		f->n_late += recv(fd, &byte, 1, MSG_DONTWAIT) < 0;
		close(fd);
	}
	g_array_set_size(f->answered, 0);
	return f->n_late;
}

void fake_revive(Fake *f)
{
	f->listener = bind_socket(f);
	f->thread = g_thread_new("fake", run, f);
	fake_bump(f);
}

static void end_session(FakeSession *s)
{
	for (u32 i = 0; i < s->n_owners; i++)
		region_close(&s->owners[i].region);
	s->n_owners = 0;
	g_clear_pointer(&s->pattern, g_free);
}

void fake_free(Fake *f)
{
	g_autofree char *control = g_build_filename(f->directory, "control", NULL);

	stop_thread(f);
	for (u32 i = 0; i < ABI_MAX_SLOTS; i++)
		end_session(&f->sessions[i]);
	for (u32 i = 0; i < f->n_classes; i++)
		free(f->classes[i]);
	munmap(f->page, ABI_CONTROL_SIZE);
	close(f->control_fd);
	close(f->quit);
	(void)g_unlink(control);
	(void)g_unlink(f->socket);
	(void)g_rmdir(f->directory);
	g_array_unref(f->exchanges);
	if (f->answered)
		g_array_unref(f->answered);
	g_free(f->reason);
	g_free(f->directory);
	g_free(f->socket);
	g_free(f);
}

const char *fake_directory(Fake *f)
{
	return f->directory;
}

void fake_behave(Fake *f, FakeBehaviour b)
{
	g_mutex_lock(&f->lock);
	f->behaviour = b;
	g_mutex_unlock(&f->lock);
}

void fake_before_answer(Fake *f, void (*call)(void *), void *userdata)
{
	g_mutex_lock(&f->lock);
	f->before = call;
	f->before_data = userdata;
	g_mutex_unlock(&f->lock);
}

void fake_start(Fake *f, u32 slot, const char *pattern, uid_t uid)
{
	FakeSession *s = &f->sessions[slot];

	g_mutex_lock(&f->lock);
	end_session(s);
	s->running = true;
	s->pattern = g_strdup(pattern);
	s->uid = uid;
	s->generation = ++f->next_generation;
	publish(f);
	g_mutex_unlock(&f->lock);
}

void fake_stop(Fake *f, u32 slot)
{
	g_mutex_lock(&f->lock);
	f->sessions[slot].running = false;
	publish(f);
	g_mutex_unlock(&f->lock);
}

void fake_bump(Fake *f)
{
	g_mutex_lock(&f->lock);
	publish(f);
	g_mutex_unlock(&f->lock);
}

void fake_retry(Fake *f)
{
	(void)__atomic_add_fetch(&f->page->head.retry, 1, __ATOMIC_RELAXED);
}

u32 fake_n_exchanges(Fake *f)
{
	u32 n;

	g_mutex_lock(&f->lock);
	n = f->exchanges->len;
	g_mutex_unlock(&f->lock);
	return n;
}

FakeExchange fake_exchange(Fake *f, u32 i)
{
	FakeExchange e;

	g_mutex_lock(&f->lock);
	g_assert_cmpint(i, <, f->exchanges->len);
	e = g_array_index(f->exchanges, FakeExchange, i);
	g_mutex_unlock(&f->lock);
	return e;
}

char *fake_snapshot_reason(Fake *f)
{
	char *s;

	g_mutex_lock(&f->lock);
	s = g_strdup(f->reason);
	g_mutex_unlock(&f->lock);
	return s;
}

static void free_record(gpointer p)
{
	FakeRecord *r = p;

	g_free((void *)r->fields);
	g_free(r->event);
	g_free(r);
}

/* Reads a quiet ring: nobody writes while a test looks. */
static void read_ring(Fake *f, struct region *region, u32 ring, GPtrArray *to)
{
	struct reader r;
	u64 offset, count, first, n = 0;

	reader_init(&r, region->map, &region->geometry, ring);
	g_assert_cmpint(reader_position(&r, &offset, &count), ==, 0);
	first = reader_first_whole(offset, r.size, r.sub_size);
	for (u64 sub = first; sub < offset; sub += r.sub_size) {
		const u8 *p = r.data + (sub & (r.size - 1));
		const struct abi_sub *h = (const struct abi_sub *)p;
		u64 end = sub + r.sub_size <= offset ? h->end : offset, at = sub + ABI_SUB_HEADER;
		u64 clock = h->begin;

		g_assert_cmpuint(h->position, ==, sub);
		while (at < end) {
			struct record rec;
			u32 step = record_parse(p + (at - sub), end - at, &clock, &rec);
			FakeRecord *out;

			g_assert_cmpint(step, >, 0);
			g_assert_cmpint(rec.id, >=, 1);
			g_assert_cmpint(rec.id, <=, f->n_classes);
			g_assert_cmpint(rec.body_size, >=, 8);
			out = g_new0(FakeRecord, 1);
			out->id = rec.id;
			out->time = rec.time;
			out->ring = ring;
			memcpy(&out->vpid, rec.body, 4);
			memcpy(&out->vtid, rec.body + 4, 4);
			out->size = rec.body_size - 8;
			out->fields = g_memdup2(rec.body + 8, out->size);
			out->event = g_strdup_printf("%s:%s", f->classes[rec.id - 1]->provider,
						     f->classes[rec.id - 1]->name);
			g_ptr_array_add(to, out);
			at += step;
			n++;
		}
		g_assert_cmpuint(at, ==, end);
	}
	if (!first)
		g_assert_cmpuint(n, ==, count);
}

GPtrArray *fake_records(Fake *f, u32 slot, uid_t uid)
{
	GPtrArray *a = g_ptr_array_new_with_free_func(free_record);
	FakeSession *s = &f->sessions[slot];

	g_mutex_lock(&f->lock);
	for (u32 i = 0; i < s->n_owners; i++)
		if (uid == (uid_t)-1 || s->owners[i].uid == uid)
			for (u32 k = 0; k < f->geometry.n_ring + f->geometry.n_side; k++)
				read_ring(f, &s->owners[i].region, k, a);
	g_mutex_unlock(&f->lock);
	return a;
}

u64 fake_lost(Fake *f, u32 slot, u32 cause)
{
	FakeSession *s = &f->sessions[slot];
	u64 sum = 0;

	g_mutex_lock(&f->lock);
	for (u32 i = 0; i < s->n_owners; i++)
		for (u32 k = 0; k < f->geometry.n_ring + f->geometry.n_side; k++) {
			struct reader r;

			reader_init(&r, s->owners[i].region.map, &f->geometry, k);
			sum += reader_lost_by(&r, cause);
		}
	g_mutex_unlock(&f->lock);
	return sum;
}
