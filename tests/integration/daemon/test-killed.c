/* SPDX-License-Identifier: MIT */
/* A daemon that is killed while it writes: every record whose memory it had given back to the writers is in the trace, once that is
 * repaired. The daemon is a child; one of its writes, at random, does not come back (linked in by --wrap), before any byte of it is
 * written or half-way, or none is held and it is killed at some moment. */
#include "tests/integration/daemon/house.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "daemon/sink/uring.h"
#include "daemon/trace/repair.h"
#include "lib/atomic.h"

#define ASK  400
#define TURNS 6

typedef enum { HOLD_BEFORE, HOLD_HALF, HOLD_NOT } Hold;

/* In the child: which write is held. The thread's that writes; `held` is release, and acquire in the loop. */
static struct {
	Hold how;
	u32 at, n, held;
} hold;

static void held(void)
{
	store_release_u32(&hold.held, 1);
	for (;;)
		(void)pause();
}

/* NOLINTBEGIN(bugprone-reserved-identifier): the linker's names */
ssize_t __real_pwritev64v2(int fd, const struct iovec *v, int n, off_t offset, int flags);
ssize_t __wrap_pwritev64v2(int fd, const struct iovec *v, int n, off_t offset, int flags);
ssize_t __wrap_pwritev64v2(int fd, const struct iovec *v, int n, off_t offset, int flags)
{
	struct iovec half = v[0];

	if (hold.how == HOLD_NOT || ++hold.n < hold.at)
		return __real_pwritev64v2(fd, v, n, offset, flags);
	half.iov_len = half.iov_len / 2 & ~(size_t)4095;
	if (hold.how == HOLD_HALF && half.iov_len > 0)
		(void)__real_pwritev64v2(fd, &half, 1, offset, flags);
	held();
	return 0;
}

int __real_uring_write(Uring *u, int fd, const struct iovec *v, u32 n, u64 offset, void *tag);
int __wrap_uring_write(Uring *u, int fd, const struct iovec *v, u32 n, u64 offset, void *tag);
int __wrap_uring_write(Uring *u, int fd, const struct iovec *v, u32 n, u64 offset, void *tag)
{
	if (hold.how != HOLD_NOT && ++hold.n >= hold.at)
		held();
	return __real_uring_write(u, fd, v, n, offset, tag);
}
/* NOLINTEND(bugprone-reserved-identifier) */

/* ---- the child ---- */

/* Says its directories when it may be killed; records on until it is. */
static _Noreturn void child(int out, const char *io, Hold how, u32 at)
{
	g_autofree char *config = g_strdup_printf("sessions: { log: { autostart = true; events = [ \"shop:*\" ]; policy = \"discard\"; "
						  "output_keep_free = \"0\"; memory = \"1M\"; flush_interval = \"20ms\"; io = \"%s\"; }; };",
						  io);
	g_autofree char *text = NULL;
	cpu_set_t one;
	House h = { 0 };
	Program p;

	/* one ring */
	CPU_ZERO(&one);
	CPU_SET((size_t)sched_getcpu(), &one);
	(void)sched_setaffinity(0, sizeof(one), &one);
	hold.how = how;
	hold.at = at;
	house_up(&h, config);
	program_start(&h, &p, 0);
	for (u32 n = 0; how == HOLD_NOT ? n < at : !load_acquire_u32(&hold.held); n++)
		(void)program_ask(&p, "record %d", ASK);
	text = g_strdup_printf("%s\n%s\n", h.directory, house_info(&h, "log").output);
	/* more than a ring holds, however much of it was given back */
	for (u32 n = 0; how != HOLD_NOT && n < 30; n++)
		(void)program_ask(&p, "record %d", ASK);
	if (how != HOLD_NOT)
		g_assert_cmpuint(house_info(&h, "log").discarded, >, 0);
	g_assert_cmpint(write(out, text, strlen(text)), ==, (gssize)strlen(text));
	for (;;)
		(void)program_ask(&p, "record %d", ASK);
}

/* ---- what is left of it ---- */

/* The rings of one region, as whoever takes them over finds them: records below `consumed`. */
static u64 count_given(int fd)
{
	struct abi_region head;
	struct geometry g;
	u64 sum = 0, size;
	u8 *map;

	g_assert_cmpint(pread(fd, &head, sizeof(head), 0), ==, sizeof(head));
	g_assert_cmpuint(head.magic, ==, ABI_REGION_MAGIC);
	g = (struct geometry){ .ring_shift = head.ring_shift, .sub_shift = head.sub_shift, .side_shift = head.side_shift,
			       .side_sub_shift = head.side_sub_shift, .n_ring = head.n_ring, .n_side = head.n_side };
	size = geometry_size(&g);
	map = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
	g_assert_true(map != MAP_FAILED);
	for (u32 i = 0; i < g.n_ring + g.n_side; i++) {
		const struct abi_ring *r = (const struct abi_ring *)(map + ABI_PAGE) + i;
		u64 offset = r->offset & ~1ull, at = r->consumed;
		struct abi_sub sub;

		g_assert_cmpuint(at, <=, offset);
		if (at == offset) {
			sum += r->count[r->offset & 1];
			continue;
		}
		memcpy(&sub, map + geometry_ring_at(&g, i) + (at & (geometry_ring_size(&g, i) - 1)), sizeof(sub));
		g_assert_cmpuint(sub.position, ==, at);
		sum += sub.count;
	}
	(void)munmap(map, size);
	return sum;
}

/* Of the daemon that is still there. */
static int region_of(pid_t pid)
{
	g_autofree char *path = g_strdup_printf("/proc/%d/fd", pid);
	GDir *d = g_dir_open(path, 0, NULL);
	const char *name;
	int fd = -1;

	g_assert_nonnull(d);
	while (fd < 0 && (name = g_dir_read_name(d))) {
		g_autofree char *link = g_build_filename(path, name, NULL), *to = g_file_read_link(link, NULL);

		if (to && g_str_has_prefix(to, "/memfd:tracer:"))
			fd = open(link, O_RDONLY | O_CLOEXEC);
	}
	g_dir_close(d);
	return fd;
}

/* Records of all traces below the output, each of which is repaired first; numbers grow. */
static u64 count_repaired(const char *output)
{
	_cleanup_close_ int fd = open(output, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	GDir *d = g_dir_open(output, 0, NULL);
	const char *name;
	u64 n = 0;

	for (; d && (name = g_dir_read_name(d));) {
		g_autofree char *path = g_build_filename(output, name, NULL), *text = NULL;
		RepairResult result;
		gint64 before = -1;

		g_assert_cmpint(trace_repair(fd, name, &result, NULL), ==, 0);
		g_assert_cmpuint(result.n_unusable, ==, 0);
		if (!result.n_owners)
			continue;
		text = trace_text(path);
		/* a line at a time: the sanitizer's strstr() measures all that is left */
		for (char *line = text, *end; *line; line = end) {
			const char *at;
			gint64 number;

			end = strchr(line, '\n');
			if (end)
				*end++ = 0;
			else
				end = line + strlen(line);
			at = strstr(line, "number = ");
			if (!at)
				continue;
			number = g_ascii_strtoll(at + 9, NULL, 10);
			g_assert_cmpint(number, >, before);
			before = number;
			n++;
		}
	}
	if (d)
		g_dir_close(d);
	return n;
}

static void run(const char *io, Hold how, u32 at)
{
	g_autofree char *text = g_malloc0(4096);
	_cleanup_close_ int fd = -1;
	g_auto(GStrv) lines = NULL;
	const char *remove[] = { "rm", "-rf", "--", NULL, NULL };
	u64 given, there;
	int pipe_fd[2];
	size_t n = 0;
	pid_t pid;

	g_assert_cmpint(pipe2(pipe_fd, O_CLOEXEC), ==, 0);
	pid = fork();
	g_assert_cmpint(pid, >=, 0);
	if (pid == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		child(pipe_fd[1], io, how, at);
	}
	(void)close(pipe_fd[1]);
	while (n < 2 || text[n - 1] != '\n') {
		ssize_t r = read(pipe_fd[0], text + n, 4095 - n);

		if (r <= 0)
			g_error("the daemon did not come so far");
		n += (size_t)r;
	}
	(void)close(pipe_fd[0]);
	fd = region_of(pid);
	g_assert_cmpint(fd, >=, 0);
	if (how == HOLD_NOT)
		g_usleep((gulong)g_test_rand_int_range(0, 100000));
	(void)kill(pid, SIGKILL);
	g_assert_cmpint(waitpid(pid, NULL, 0), ==, pid);
	lines = g_strsplit(text, "\n", 3);
	given = count_given(fd);
	there = count_repaired(lines[1]);
	g_test_message("%s, held %d, at %u: %" G_GUINT64_FORMAT " given back, %" G_GUINT64_FORMAT " in the trace", io, (int)how, at,
		       given, there);
	g_assert_cmpuint(there, >=, given);
	remove[3] = lines[0];
	(void)g_spawn_sync(NULL, (char **)remove, NULL, G_SPAWN_SEARCH_PATH, NULL, NULL, NULL, NULL, NULL, NULL);
}

static void test_killed(gconstpointer io)
{
	for (u32 turn = 0; turn < TURNS; turn++)
		run(io, (Hold)(turn % 3), (u32)g_test_rand_int_range(1, 40));
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_data_func("/killed/auto", "auto", test_killed);
	g_test_add_data_func("/killed/write", "write", test_killed);
	g_test_add_data_func("/killed/splice", "splice", test_killed);
	return g_test_run();
}
