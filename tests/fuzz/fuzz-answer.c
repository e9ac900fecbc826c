/* SPDX-License-Identifier: MIT */
/* What a daemon may answer to a synchronisation: an honest answer, edited. The client must be as it was before:
 * no descriptor left, no more time than it is allowed, every ring that it has mapped of the size it believes; and
 * the next honest answer finds it able to record.
 *
 * An input is a list of edits of eight bytes: u8 which message, u8 how, u16 place, u32 value. The first byte
 * chooses what comes along and how it ends.
 *
 * Built as a libFuzzer target where the compiler has it; elsewhere main() replays files and goes on with
 * random edits: fuzz-answer [-r RANDOM INPUTS] [-s SEED] [FILE...]. */
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>

#include "lib/connection.h"
#include "lib/control.h"
#include "lib/fork.h"
#include "lib/reader.h"
#include "lib/region.h"
#include "lib/sequence.h"

TRACER_EVENT(fuzz, answer, TRACER_INFO, TRACER_U64(value))
TRACER_EVENT(fuzz, other, TRACER_INFO, TRACER_STR(text))

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const u8 *data, size_t size);

#define SESSIONS 3
#define MESSAGES 6

struct message {
	u8 bytes[512];
	u32 size, n_fds;
	int fds[3];
};

static const u32 slots[SESSIONS] = {0, 7, 63};
static struct region regions[SESSIONS];
static struct geometry geometry;
static struct abi_control_page *page; /* ours, to write */
static int listener, odd_files[4];
static const struct abi_ring *odd_lines; /* of the file that may be shortened: never written to */
static pthread_t daemon_thread;
static int go[2], back[2];
/* of the exchange under way; handed over by the one pipe, and given back by the other */
static const u8 *edits;
static size_t n_edits;
static u8 flags;

static void require(bool condition, const char *what)
{
	if (condition)
		return;
	fprintf(stderr, "fuzz-answer: %s\n", what);
	abort();
}

static void make_session(struct message *m, u32 i, u32 n_classes)
{
	struct wire_session head = {
	    .slot = slots[i],
	    .generation = page->head.slot_generation[slots[i]],
	    .ring_shift = geometry.ring_shift,
	    .sub_shift = geometry.sub_shift,
	    .side_shift = geometry.side_shift,
	    .side_sub_shift = geometry.side_sub_shift,
	    .n_ring = geometry.n_ring,
	    .n_side = geometry.n_side,
	    .policy = geometry.policy,
	    .contexts = geometry.contexts,
	    .size = regions[i].size,
	    .n_classes = n_classes,
	};
	u16 ids[8] = {1, 2, 3, 4, 5, 6, 7, 8};

	m->size = (u32)sizeof(head) + n_classes * 2;
	head.header = wire_header(WIRE_SESSION, m->size);
	memcpy(m->bytes, &head, sizeof(head));
	memcpy(m->bytes + sizeof(head), ids, n_classes * 2);
	m->n_fds = 1;
	m->fds[0] = regions[i].fd;
}

static void edit(struct message *m, u32 *n, const u8 *e)
{
	u32 i = e[0] % *n, value;
	struct message *one = &m[i], was;
	u16 place;

	memcpy(&place, e + 2, 2);
	memcpy(&value, e + 4, 4);
	switch (e[1] % 10) {
	case 0:
		one->bytes[place % sizeof(one->bytes)] = (u8)value;
		break;
	case 1: /* a word of the message; small numbers are the dangerous ones */
		memcpy(one->bytes + place % (sizeof(one->bytes) / 4) * 4, &value, 4);
		break;
	case 2:
		one->bytes[place % 128] ^= (u8)(1 << value % 8);
		break;
	case 3: /* another length, which it says itself or not */
		one->size = place % (sizeof(one->bytes) + 1);
		if (value & 1)
			memcpy(one->bytes + 8, &one->size, 4);
		break;
	case 4: /* other descriptors */
		one->n_fds = value % 4;
		for (u32 k = 0; k < one->n_fds; k++)
			one->fds[k] = odd_files[(value >> 4) % 4];
		break;
	case 5:
		one->n_fds = 2;
		one->fds[1] = one->fds[0] = regions[value % SESSIONS].fd;
		break;
	case 6: /* twice */
		if (*n < MESSAGES)
			m[(*n)++] = *one;
		break;
	case 7: /* in another order */
		was = *one;
		*one = m[value % *n];
		m[value % *n] = was;
		break;
	case 8: /* not at all */
		if (*n > 1)
			*one = m[--*n];
		break;
	default: /* another's ring */
		one->n_fds = 1;
		one->fds[0] = regions[value % SESSIONS].fd;
	}
}

static void send_message(int fd, const struct message *m)
{
	union {
		struct cmsghdr h;
		u8 b[CMSG_SPACE(sizeof(m->fds))];
	} control = {0};
	struct iovec v = {(void *)m->bytes, m->size};
	struct msghdr h = {.msg_iov = &v, .msg_iovlen = 1};

	if (m->n_fds) {
		h.msg_control = &control;
		h.msg_controllen = CMSG_SPACE(m->n_fds * sizeof(int));
		control.h.cmsg_level = SOL_SOCKET;
		control.h.cmsg_type = SCM_RIGHTS;
		control.h.cmsg_len = CMSG_LEN(m->n_fds * sizeof(int));
		memcpy(CMSG_DATA(&control.h), m->fds, m->n_fds * sizeof(int));
	}
	(void)sendmsg(fd, &h, MSG_NOSIGNAL);
}

static void answer(int fd, u32 n_classes)
{
	struct wire_done done = {.header = wire_header(WIRE_DONE, sizeof(done)),
				 .generation = page->head.generation,
				 .producer = 77,
				 .n_sessions = SESSIONS};
	struct message m[MESSAGES] = {0};
	u32 n = SESSIONS + 1;

	for (u32 i = 0; i < SESSIONS; i++)
		make_session(&m[i], i, n_classes);
	memcpy(m[SESSIONS].bytes, &done, sizeof(done));
	m[SESSIONS].size = sizeof(done);
	for (size_t i = 0; i + 8 <= n_edits; i += 8)
		edit(m, &n, edits + i);
	for (u32 i = 0; i < n; i++)
		send_message(fd, &m[i]);
}

static void *serve(void *unused)
{
	static _Alignas(8) u8 bytes[WIRE_MAX];
	char byte;

	(void)unused;
	while (read(go[0], &byte, 1) == 1) {
		int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
		u32 n_classes = 0;
		bool ended = false;

		require(fd >= 0, "accept");
		while (!ended) {
			ssize_t n = recv(fd, bytes, sizeof(bytes), 0);

			require(n > 0, "the client hung up");
			switch (wire_check(bytes, (size_t)n)) {
			case WIRE_HELLO:
				n_classes = ((struct wire_hello *)bytes)->n_classes;
				break;
			case WIRE_PROGRAM:
			case WIRE_CLASSES:
				break;
			case WIRE_END:
				ended = true;
				break;
			default:
				require(false, "what the client says");
			}
		}
		require(n_classes <= 8, "classes");
		answer(fd, n_classes);
		/* says nothing more: the client waits as long as it may */
		if ((flags & 0x3f) == 0x3f)
			while (recv(fd, bytes, sizeof(bytes), 0) > 0)
				;
		close(fd);
		require(write(back[1], "d", 1) == 1, "pipe");
	}
	return NULL;
}

static u32 count_fds(void)
{
	u32 n = 0;

	for (int fd = 0; fd < 256; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

static u64 recorded(void)
{
	u64 n = 0;

	for (u32 i = 0; i < SESSIONS; i++)
		for (u32 k = 0; k < geometry.n_ring + geometry.n_side; k++) {
			struct abi_ring *line = (struct abi_ring *)(regions[i].map + ABI_PAGE) + k;

			n += line->count[line->offset & 1];
		}
	return n;
}

static void call(u64 value)
{
	trace_fuzz_answer(value);
	trace_fuzz_other("text");
}

/* One exchange under a new generation. */
static void exchange(const u8 *data, size_t size, u8 how)
{
	u32 before = count_fds();
	u64 start;
	char byte;

	edits = data;
	n_edits = size;
	flags = how;
	store_release_u32(&page->head.generation, page->head.generation + 1);
	require(write(go[1], "g", 1) == 1, "pipe");
	start = monotonic_ns();
	call(start);
	/* 200 ms, and what a busy machine adds */
	require(monotonic_ns() - start < 3 * NSEC_PER_SEC, "it took too long");
	/* the daemon's own end of it is gone behind this */
	require(read(back[0], &byte, 1) == 1, "pipe");
	require(count_fds() <= before, "a descriptor is left");
	require(count_fds() == before, "a descriptor is gone");
	for (u32 i = 0; i < ABI_MAX_SLOTS; i++) {
		struct slot *s = &process.slots[i];

		if (!s->generation)
			continue;
		require(geometry_check(&s->geometry) == 0, "geometry");
		require(s->size == geometry_size(&s->geometry), "size");
		require(s->size <= regions[0].size, "larger than its file");
		require(s->map == s->range && s->range_size >= s->size, "mapping");
	}
	for (u32 k = 0; k < geometry.n_ring + geometry.n_side; k++)
		require(!odd_lines[k].offset, "records in a file that may be shortened");
}

static void prepare_page(const char *directory)
{
	char path[sizeof(((struct sockaddr_un *)0)->sun_path)];
	int fd;

	(void)snprintf(path, sizeof(path), "%s/control", directory);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
	require(fd >= 0 && ftruncate(fd, ABI_CONTROL_SIZE) == 0, "control page");
	page = mmap(NULL, ABI_CONTROL_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	require(page != MAP_FAILED, "control page");
	close(fd);
}

/* The client opens its page before main(): so once without one, then again. */
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	static const u32 rings[] = {0, 1};
	const char *directory = getenv("TRACER_RUNTIME_DIR");
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	char made[] = "/tmp/tracer-XXXXXX";

	(void)argc;
	if (!getenv("FUZZ_ANSWER")) {
		require(mkdtemp(made) && setenv("TRACER_RUNTIME_DIR", made, 1) == 0 &&
			    setenv("FUZZ_ANSWER", "1", 1) == 0,
			"directory");
		prepare_page(made);
		page->head = (struct abi_control){.magic = ABI_CONTROL_MAGIC,
						  .major = ABI_MAJOR,
						  .size = ABI_CONTROL_SIZE,
						  .clock = ABI_CLOCK_COUNTER,
						  .clock_mult = 1ull << 32};
		for (u32 i = 0; i < ABI_MAX_CPUS; i++)
			page->cpu_ring[i] = (u16)(i % 2);
		execv("/proc/self/exe", *argv);
		require(false, "exec");
	}
	prepare_page(directory);
	require(geometry_plan(&geometry, 1 << 20, 16, 2, 2, ABI_POLICY_OVERWRITE,
			      ABI_CONTEXT_VPID | ABI_CONTEXT_VTID, NULL) == 0,
		"geometry");
	for (u32 i = 0; i < SESSIONS; i++) {
		require(region_create(&regions[i], "fuzz", &geometry, slots[i], 1, rings, 2) == 0, "region");
		store_release_u32(&page->head.slot_generation[slots[i]], i + 1);
		page->mask[abi_bucket("fuzz")] |= 1ull << slots[i];
	}
	/* nothing, somebody's pipe, one of the right size that may be shortened, one that is too short */
	odd_files[0] = open("/dev/null", O_RDWR | O_CLOEXEC);
	require(pipe2(go, O_CLOEXEC) == 0 && pipe2(back, O_CLOEXEC) == 0, "pipe");
	odd_files[1] = go[0];
	odd_files[2] = memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	odd_files[3] = memfd_create("short", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	require(ftruncate(odd_files[2], (off_t)regions[0].size) == 0 &&
		    ftruncate(odd_files[3], ABI_PAGE) == 0 &&
		    fcntl(odd_files[3], F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0,
		"files");
	odd_lines = mmap(NULL, ABI_PAGE * 2, PROT_READ, MAP_SHARED, odd_files[2], 0);
	require(odd_lines != MAP_FAILED, "files");
	odd_lines = (const struct abi_ring *)((const u8 *)odd_lines + ABI_PAGE);
	(void)snprintf(a.sun_path, sizeof(a.sun_path), "%s/producer.sock", directory);
	listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	require(listener >= 0 && bind(listener, (struct sockaddr *)&a, sizeof(a)) == 0 &&
		    listen(listener, 8) == 0,
		"socket");
	require(pthread_create(&daemon_thread, NULL, serve, NULL) == 0, "thread");
	return 0;
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	u64 before;

	if (!size)
		return 0;
	/* sessions that are not there any more, or not yet, on the client's side */
	if (data[0] & 0x40)
		store_release_u32(&page->head.slot_generation[slots[data[0] % SESSIONS]],
				  page->head.generation + 1000);
	exchange(data + 1, size - 1, data[0]);
	exchange(NULL, 0, 0);
	before = recorded();
	call(1);
	require(recorded() == before + 2 * SESSIONS, "an honest answer came, but it does not record");
	return 0;
}

#ifndef FUZZ_ENGINE
static void remove_directory(void)
{
	const char *directory = getenv("TRACER_RUNTIME_DIR");
	char path[sizeof(((struct sockaddr_un *)0)->sun_path)];

	(void)snprintf(path, sizeof(path), "%s/control", directory);
	(void)unlink(path);
	(void)snprintf(path, sizeof(path), "%s/producer.sock", directory);
	(void)unlink(path);
	(void)rmdir(directory);
}

static void replay(const char *path)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	u8 data[4096];
	ssize_t n = fd < 0 ? -1 : read(fd, data, sizeof(data));

	require(n >= 0, path);
	(void)LLVMFuzzerTestOneInput(data, (size_t)n);
}

/* Words that mean something in a message: counts, shifts, slots, types. */
static u32 word(void)
{
	static const u32 some[] = {0, 1, 2, 3, 5, 6, 8, 11, 12, 16, 31, 32, 63, 64, 0xFFFF, 0x10000, 0x7FFFFFFF,
				   0x80000000, 0xFFFFFFFF};

	return rand() % 4 ? some[(size_t)rand() % ELEMENTSOF(some)] : (u32)rand();
}

int main(int argc, char **argv)
{
	u32 seed = (u32)time(NULL), random_inputs = 0, n = 0;
	int option;

	(void)LLVMFuzzerInitialize(&argc, &argv);
	while ((option = getopt(argc, argv, "r:s:")) != -1) {
		if (option == 'r')
			random_inputs = (u32)atoi(optarg);
		else if (option == 's')
			seed = (u32)strtoul(optarg, NULL, 0);
		else
			return 2;
	}
	for (int i = optind; i < argc; i++, n++)
		replay(argv[i]);
	if (random_inputs)
		printf("seed %u\n", seed);
	fflush(stdout);
	srand(seed);
	for (u32 i = 0; i < random_inputs; i++) {
		u8 data[1 + 8 * 6];
		size_t size = 1 + 8 * (size_t)(rand() % 7);

		data[0] = (u8)rand();
		/* silence costs the whole of the time: not often */
		if ((data[0] & 0x3f) == 0x3f && rand() % 8)
			data[0] &= 0xC0;
		for (size_t k = 1; k < size; k += 8) {
			u16 place = (u16)(rand() % 64);
			u32 value = word();

			data[k] = (u8)rand();
			data[k + 1] = (u8)rand();
			memcpy(data + k + 2, &place, 2);
			memcpy(data + k + 4, &value, 4);
		}
		(void)LLVMFuzzerTestOneInput(data, size);
	}
	printf("%u files and %u random inputs\n", n, random_inputs);
	remove_directory();
	return 0;
}
#endif
