/* SPDX-License-Identifier: MIT */
/* Runs a program and lets one of its system calls fail: the N-th of a kind in a step, counted over all threads.
 *
 *     injector PAGE [STEP NUMBER NTH ERROR] -- PROGRAM ARGUMENT...
 *     injector --names		the numbers and names of system calls here
 *
 * PAGE is a file that is shared with who drives the program: it says there which step it is at, and finds there what happened.
 * Without a call that is to fail, all calls are counted, by step. A filter of the kernel picks the calls, so that the
 * others run at full speed: the program does not notice that it is watched. (strace counts in each thread by itself, which is
 * not "once", and knows no steps.)
 *
 * ERROR is an errno, or 0: the call does half of what was asked. Where a kernel could not fail like that (a disk's error on a
 * socket, a wake-up that is interrupted), nothing is done, and PAGE says so. close() does close, and then lies,
 * as the kernel does. What the loader does before main() is not ours to judge and not counted. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#define STEPS  16
#define CALLS  512
#define FRAMES 64

enum { NOTHING, DONE, IMPLAUSIBLE };

/* tests/faults/injector.py reads it */
struct page {
	uint32_t step;	/* the driver's */
	uint32_t outcome;
	uint32_t pid;
	uint32_t ended, status; /* as waitpid() has it */
	uint32_t n_frames;
	char text[256]; /* what the call was about */
	uint64_t frames[FRAMES];
	uint32_t counts[STEPS][CALLS];
};

static const struct {
	const char *name;
	int number;
} names[] = {
#include "names.h"
};

struct wish {
	bool all;
	uint32_t step, number, nth;
	int error;
};

static struct page *page;

static void die(const char *what)
{
	perror(what);
	exit(125);
}

/* ---- the program ---- */

static void filter(const struct wish *w)
{
	struct sock_filter some[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, w->number, 2, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigprocmask, 1, 0), /* main() begins with it */
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE),
	};
	struct sock_filter all[] = { BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE) };
	struct sock_fprog p = w->all ? (struct sock_fprog){ 1, all } : (struct sock_fprog){ 5, some };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &p) < 0)
		die("seccomp");
}

static pid_t launch(const struct wish *w, char **argv)
{
	pid_t pid = fork();

	if (pid < 0)
		die("fork");
	if (pid == 0) {
		if (ptrace(PTRACE_TRACEME, 0, 0, 0) < 0)
			die("ptrace");
		(void)raise(SIGSTOP);
		filter(w);
		(void)execv(argv[0], argv);
		die(argv[0]);
	}
	if (waitpid(pid, NULL, __WALL) != pid ||
	    ptrace(PTRACE_SETOPTIONS, pid, 0,
		   PTRACE_O_TRACESECCOMP | PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK |
			   PTRACE_O_TRACEEXEC | PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL) < 0)
		die("ptrace");
	return pid;
}

/* ---- what a call is ---- */

struct call {
	long number;
	uint64_t argument[6];
	uint64_t sp;
	long answer; /* when it has returned */
};

#if defined(__x86_64__)
static bool call_get(pid_t tid, struct call *c)
{
	struct user_regs_struct r;

	if (ptrace(PTRACE_GETREGS, tid, 0, &r) < 0)
		return false;
	*c = (struct call){ (long)r.orig_rax, { r.rdi, r.rsi, r.rdx, r.r10, r.r8, r.r9 }, r.rsp, (long)r.rax };
	return true;
}

static void call_set(pid_t tid, const struct call *c, long answer)
{
	struct user_regs_struct r;

	(void)ptrace(PTRACE_GETREGS, tid, 0, &r);
	r.orig_rax = (unsigned long long)c->number;
	r.rdi = c->argument[0];
	r.rdx = c->argument[2];
	r.rax = (unsigned long long)answer;
	(void)ptrace(PTRACE_SETREGS, tid, 0, &r);
}
#else
#error "the registers of system calls of this architecture are not known here"
#endif

static bool fd_mode(pid_t tid, uint64_t fd, mode_t *ret)
{
	char path[64];
	struct stat st;

	(void)snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)tid, (int)fd);
	if (stat(path, &st) < 0)
		return false;
	*ret = st.st_mode;
	return true;
}

static bool takes_fd(long number)
{
	switch (number) {
	case SYS_read:
	case SYS_write:
	case SYS_readv:
	case SYS_writev:
	case SYS_pread64:
	case SYS_pwrite64:
	case SYS_preadv:
	case SYS_pwritev:
	case SYS_preadv2:
	case SYS_pwritev2:
	case SYS_close:
	case SYS_fstat:
	case SYS_fsync:
	case SYS_fdatasync:
	case SYS_ftruncate:
	case SYS_fallocate:
	case SYS_lseek:
		return true;
	}
	return false;
}

static bool has_control(pid_t tid, uint64_t message)
{
	struct msghdr m;
	struct iovec local = { &m, sizeof(m) }, remote = { (void *)(uintptr_t)message, sizeof(m) };

	return process_vm_readv(tid, &local, 1, &remote, 1, 0) == sizeof(m) && m.msg_controllen > 0;
}

/* Could a kernel answer this? */
static bool plausible(pid_t tid, const struct call *c, int error)
{
	mode_t mode;
	bool disk;

	switch (c->number) {
	case SYS_epoll_ctl: /* only an addition takes memory */
		return c->argument[1] == EPOLL_CTL_ADD;
	case SYS_futex:
		return (c->argument[1] & FUTEX_CMD_MASK) == FUTEX_WAIT ||
		       (c->argument[1] & FUTEX_CMD_MASK) == FUTEX_WAIT_BITSET;
	case SYS_fcntl: /* only these take something */
		return c->argument[1] == F_DUPFD || c->argument[1] == F_DUPFD_CLOEXEC || c->argument[1] == F_SETLK ||
		       c->argument[1] == F_SETLKW || c->argument[1] == F_OFD_SETLK;
	}
	if (error == ETOOMANYREFS) /* of descriptors on their way */
		return has_control(tid, c->argument[1]);
	if (!takes_fd(c->number))
		return true;
	if (!fd_mode(tid, c->argument[0], &mode))
		return false;
	disk = S_ISREG(mode) || S_ISDIR(mode);
	if (error == 0)
		return disk && c->argument[2] > 1;
	if (error == EAGAIN)
		return !disk;
	if (error == EIO || error == ENOSPC || error == EDQUOT || error == EFBIG)
		return disk;
	return true;
}

static bool string_read(pid_t tid, uint64_t at, char *ret, size_t size)
{
	struct iovec local = { ret, size - 1 }, remote = { (void *)(uintptr_t)at, size - 1 };
	size_t page_left = 4096 - at % 4096;
	ssize_t n;

	if (at < 4096)
		return false;
	if (page_left < size - 1)
		remote.iov_len = page_left;
	n = process_vm_readv(tid, &local, 1, &remote, 1, 0);
	if (n <= 1)
		return false;
	ret[n] = 0;
	for (char *p = ret; *p; p++)
		if (*p < ' ' || *p > '~')
			return false;
	return ret[0] != 0;
}

static void describe(pid_t tid, const struct call *c)
{
	char *p = page->text, *end = p + sizeof(page->text), text[PATH_MAX], path[64];

	for (int i = 0; i < 4; i++) {
		ssize_t n;

		(void)snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)tid, (int)c->argument[i]);
		if (i == 0 && (n = readlink(path, text, sizeof(text) - 1)) > 0)
			text[n] = 0;
		else if (!string_read(tid, c->argument[i], text, 128))
			(void)snprintf(text, sizeof(text), "%#llx", (unsigned long long)c->argument[i]);
		if (p < end)
			p += snprintf(p, (size_t)(end - p), "%s%s", i ? ", " : "", text);
	}
}

/* Words on the stack that point into the program itself: where it was, with some that are left from before. */
static void frames(pid_t tid, const struct call *c)
{
	char path[64], line[PATH_MAX + 128], exe[PATH_MAX];
	uint64_t from = 0, to = 0, base = 0, words[1024];
	FILE *maps;
	ssize_t n;

	(void)snprintf(path, sizeof(path), "/proc/%d/exe", (int)tid);
	n = readlink(path, exe, sizeof(exe) - 1);
	if (n <= 0)
		return;
	exe[n] = 0;
	(void)snprintf(path, sizeof(path), "/proc/%d/maps", (int)tid);
	maps = fopen(path, "re");
	while (maps && fgets(line, sizeof(line), maps)) {
		unsigned long long a, b, offset;
		char rights[8];

		if (!strstr(line, exe) || sscanf(line, "%llx-%llx %7s %llx", &a, &b, rights, &offset) != 4)
			continue;
		if (offset == 0)
			base = a;
		if (rights[2] == 'x') {
			from = a;
			to = b;
		}
	}
	if (maps)
		(void)fclose(maps);
	for (uint64_t at = c->sp; at < c->sp + 32768 && page->n_frames < FRAMES;) {
		size_t size = 4096 - at % 4096;
		struct iovec local = { words, size }, remote = { (void *)(uintptr_t)at, size };

		n = process_vm_readv(tid, &local, 1, &remote, 1, 0);
		for (ssize_t i = 0; i < n / 8 && page->n_frames < FRAMES; i++)
			if (words[i] >= from && words[i] < to)
				page->frames[page->n_frames++] = words[i] - base;
		if (n <= 0)
			break;
		at += size;
	}
}

/* ---- the watch ---- */

/* true: the call goes its way, and its registers are to be put right when it returns */
static bool strike(pid_t tid, const struct call *c, int error)
{
	struct call other = *c;

	describe(tid, c);
	if (!plausible(tid, c, error)) {
		page->outcome = IMPLAUSIBLE;
		return false;
	}
	frames(tid, c);
	page->outcome = DONE;
	if (c->number == SYS_close)
		return true;
	if (error == 0)
		other.argument[2] /= 2;
	else
		other.number = -1; /* skipped */
	call_set(tid, &other, -error);
	return other.number >= 0;
}

/* The compiler knows that a call leaves its arguments as they were. */
static void put_right(pid_t tid, const struct call *struck, int error)
{
	bool lies = struck->number == SYS_close;
	struct call c;

	if (call_get(tid, &c))
		call_set(tid, struck, lies ? -error : c.answer);
}

static bool on_call(const struct wish *w, pid_t tid, struct call *ret)
{
	static bool begun;
	uint32_t step = __atomic_load_n(&page->step, __ATOMIC_ACQUIRE), n;
	struct call c;

	if (!call_get(tid, &c) || c.number < 0 || c.number >= CALLS || step >= STEPS)
		return false;
	if (!begun) {
		begun = c.number == SYS_rt_sigprocmask;
		return false;
	}
	n = ++page->counts[step][c.number];
	*ret = c;
	return !w->all && page->outcome == NOTHING && step == w->step && c.number == w->number && n == w->nth &&
	       strike(tid, &c, w->error);
}

static void watch(const struct wish *w, pid_t pid)
{
	struct call c, struck = { 0 };
	pid_t changed = 0;
	int status, signal;

	(void)ptrace(PTRACE_CONT, pid, 0, 0);
	for (;;) {
		pid_t tid = waitpid(-1, &status, __WALL);

		if (tid < 0) {
			if (errno == EINTR)
				continue;
			return;
		}
		if (WIFEXITED(status) || WIFSIGNALED(status)) {
			if (tid != pid)
				continue;
			page->status = (uint32_t)status;
			__atomic_store_n(&page->ended, 1, __ATOMIC_RELEASE);
			return;
		}
		signal = 0;
		if (status >> 8 == (SIGTRAP | PTRACE_EVENT_SECCOMP << 8)) {
			if (on_call(w, tid, &struck)) {
				changed = tid;
				(void)ptrace(PTRACE_SYSCALL, tid, 0, 0);
				continue;
			}
		} else if (WSTOPSIG(status) == (SIGTRAP | 0x80)) {
			if (tid == changed)
				put_right(tid, &struck, w->error);
			changed = 0;
		} else if (status >> 16) {
			; /* clone, exec: a new thread begins with a SIGSTOP */
		} else if (WSTOPSIG(status) != SIGSTOP) {
			signal = WSTOPSIG(status);
			if ((signal == SIGSEGV || signal == SIGABRT) && call_get(tid, &c)) {
				page->n_frames = 0; /* of what ends it, rather than of what led there */
				frames(tid, &c);
			}
		}
		(void)ptrace(PTRACE_CONT, tid, 0, signal);
	}
}

int main(int argc, char **argv)
{
	struct wish w = { .all = true };
	int fd, at = 2;
	pid_t pid;

	if (argc == 2 && strcmp(argv[1], "--names") == 0) {
		for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
			(void)printf("%d %s\n", names[i].number, names[i].name);
		return 0;
	}
	if (argc >= 8 && strcmp(argv[6], "--") == 0) {
		w = (struct wish){ .step = (uint32_t)atoi(argv[2]),
				   .number = (uint32_t)atoi(argv[3]),
				   .nth = (uint32_t)atoi(argv[4]),
				   .error = atoi(argv[5]) };
		at = 6;
	}
	if (argc < at + 2 || strcmp(argv[at], "--") != 0) {
		(void)fprintf(stderr, "injector: PAGE [STEP NUMBER NTH ERROR] -- PROGRAM ARGUMENT...\n");
		return 125;
	}
	fd = open(argv[1], O_RDWR | O_CLOEXEC);
	if (fd < 0 || ftruncate(fd, sizeof(*page)) < 0)
		die(argv[1]);
	page = mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (page == MAP_FAILED)
		die("mmap");
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	pid = launch(&w, argv + at + 1);
	page->pid = (uint32_t)pid;
	watch(&w, pid);
	return 0;
}
