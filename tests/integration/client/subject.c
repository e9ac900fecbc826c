/* SPDX-License-Identifier: MIT */
/* A program under test: runs the commands that its arguments are. */
#include "subject-events.h"

#include <dirent.h>
#include <dlfcn.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

TRACER_EVENT(subject, conflict, TRACER_INFO, TRACER_U64(number))
TRACER_EVENT(subject, late, TRACER_INFO, TRACER_U64(number))
TRACER_EVENT(subject, empty, TRACER_INFO)
TRACER_EVENT(subject, scalars, TRACER_INFO, TRACER_U8(a), TRACER_U16(b), TRACER_U32(c),
	     TRACER_U64(d), TRACER_I8(e), TRACER_I16(f), TRACER_I32(g), TRACER_I64(h),
	     TRACER_F32(i), TRACER_F64(j), TRACER_BOOL(k), TRACER_HEX64(l), TRACER_PTR(m))
TRACER_EVENT(subject, text, TRACER_INFO, TRACER_U8(before), TRACER_STR(s), TRACER_U8(between),
	     TRACER_STR(t), TRACER_U8(after))
TRACER_EVENT(subject, blob, TRACER_INFO, TRACER_BYTES(blob), TRACER_U16(after))
TRACER_EVENT(subject, arrays, TRACER_INFO, TRACER_U16_ARRAY(small, 3), TRACER_U32_ARRAY(large, 5),
	     TRACER_I32_SEQ(some), TRACER_F64_SEQ(none), TRACER_U8(last))
/* names that are macros in the system's headers */
TRACER_EVENT(linux, stdin, TRACER_INFO, TRACER_I32(errno), TRACER_PTR(stdout))

void other_conflict(void);

static uint64_t counter;
static int n_fds_at_start;

static int count_fds(void)
{
	int n = 0;

	for (int fd = 0; fd < 1024; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

static void values(void)
{
	static const uint16_t small[3] = {1, 2, 3};
	static const uint32_t large[5] = {10, 20, 30, 40, 50};
	static const int32_t some[2] = {-1, 7};
	static char long_text[5000], blob[300];

	memset(long_text, 'x', sizeof(long_text) - 1);
	for (size_t i = 0; i < sizeof(blob); i++)
		blob[i] = (char)i;
	trace_subject_empty();
	trace_subject_scalars(1, 2, 3, 4, -1, -2, -3, -4, 1.5f, -2.5, true, 0xabcdef,
			      (void *)0x1234);
	trace_subject_text(1, "short", 2, NULL, 3);
	trace_subject_text(1, long_text, 2, "", 3);
	trace_subject_text(1, long_text, 2, long_text + 4000, 3);
	trace_subject_blob(blob, 4, 0xbeef);
	trace_subject_blob(blob, sizeof(blob), 0xbeef);
	trace_subject_blob(NULL, 12, 0xbeef);
	trace_subject_arrays(small, large, some, 2, NULL, 0, 0x7f);
	trace_linux_stdin(5, NULL);
}

static void on_tick(int signal)
{
	(void)signal;
	trace_subject_tick();
}

static void *emitter(void *data)
{
	uint64_t n = *(uint64_t *)data;

	while (n--)
		trace_subject_number(__atomic_fetch_add(&counter, 1, __ATOMIC_RELAXED));
	return NULL;
}

static void ticks(int hz)
{
	struct itimerval t = {{0, hz ? 1000000 / hz : 0}, {0, hz ? 1000000 / hz : 0}};
	struct sigaction a = {.sa_handler = on_tick, .sa_flags = SA_RESTART};

	sigaction(SIGALRM, &a, NULL);
	setitimer(ITIMER_REAL, &t, NULL);
}

/* A handler on the smallest stack that a kernel takes, and what an event may need. */
static void small_stack(void)
{
	size_t size = ((size_t)sysconf(_SC_MINSIGSTKSZ) + 3072 + 4095) & ~(size_t)4095;
	char *p =
	    mmap(NULL, size + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	size_t use = (size_t)sysconf(_SC_MINSIGSTKSZ) + 3072;
	struct sigaction a = {.sa_handler = on_tick, .sa_flags = SA_ONSTACK};
	stack_t s = {.ss_sp = p + 4096, .ss_size = use};

	if (p == MAP_FAILED || mprotect(p, 4096, PROT_NONE) < 0 || sigaltstack(&s, NULL) < 0)
		err(1, "altstack");
	sigaction(SIGUSR1, &a, NULL);
	raise(SIGUSR1);
}

static void plugin(const char *path, int n)
{
	for (int i = 0; i < n; i++) {
		void *h = dlopen(path, RTLD_NOW | RTLD_LOCAL);
		void (*call)(unsigned int);

		if (!h)
			errx(1, "%s", dlerror());
		*(void **)&call = dlsym(h, "plugin_call");
		call((unsigned int)i);
		if (dlclose(h) != 0)
			errx(1, "%s", dlerror());
		/* gone, or this test tests nothing */
		if (dlopen(path, RTLD_NOW | RTLD_NOLOAD))
			errx(1, "%s stays loaded", path);
	}
}

static void pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set) < 0)
		err(1, "affinity");
}

static void refuse_vfork(void)
{
	struct sock_filter code[] = {
	    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
#ifdef SYS_vfork
	    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_vfork, 0, 1),
#else
	    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 1),
#endif
	    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EAGAIN),
	    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {sizeof(code) / sizeof(code[0]), code};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0)
		err(1, "seccomp");
}

/* Says "w", and goes on when it is told. */
static void wait_for_test(void)
{
	char c = 'w';

	if (write(1, &c, 1) != 1 || read(0, &c, 1) != 1)
		exit(3);
}

static void reap(pid_t pid)
{
	int status;

	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			err(1, "waitpid");
	if (!WIFEXITED(status) || WEXITSTATUS(status))
		errx(1, "child: %x", (unsigned int)status);
}

/* Nothing of ours is there that nobody asked for. */
static void unwanted(void)
{
	char line[512];
	FILE *f = fopen("/proc/self/maps", "re");
	int pages = 0, tasks = 0;
	struct dirent *e;
	DIR *d;

	if (!f)
		err(1, "maps");
	while (fgets(line, sizeof(line), f)) {
		if (strstr(line, "/control")) {
			unsigned long from, to;
			char rights[5];

			if (sscanf(line, "%lx-%lx %4s", &from, &to, rights) != 3 ||
			    to - from != 20480 || strcmp(rights, "r--s"))
				errx(1, "control page: %s", line);
			pages++;
		}
		if (strstr(line, "memfd:"))
			errx(1, "a ring: %s", line);
	}
	fclose(f);
	d = opendir("/proc/self/task");
	while (d && (e = readdir(d)))
		tasks += e->d_name[0] != '.';
	closedir(d);
	if (pages != 1 || tasks != 1 || count_fds() != n_fds_at_start)
		errx(1, "%d control pages, %d threads, %d descriptors (%d)", pages, tasks,
		     count_fds(), n_fds_at_start);
}

/* Records while the main thread is in the middle of an exchange with the daemon, and says when it
 * is done. */
static void *skipper(void *data)
{
	char c = 'w';

	if (read(0, &c, 1) != 1)
		exit(3);
	emitter(data);
	c = 'w';
	if (write(1, &c, 1) != 1)
		exit(3);
	return NULL;
}

/* Closes every descriptor and opens others under their numbers, while the main thread is in the
 * middle of an exchange with the daemon; none of the new ones may be closed by it. */
static void *reopener(void *data)
{
	char c;

	(void)data;
	if (read(0, &c, 1) != 1)
		exit(3);
	for (int fd = 3; fd < 64; fd++)
		close(fd);
	for (int fd = 3; fd < 64; fd++)
		if (open("/dev/null", O_RDWR) != fd)
			errx(1, "open");
	n_fds_at_start = count_fds();
	c = 'w';
	if (write(1, &c, 1) != 1)
		exit(3);
	return NULL;
}

static char **run(char **a);

static void *runner(void *data)
{
	run(data);
	return NULL;
}

/* Behind the "end" of a block that was run elsewhere. */
static char **behind_end(char **a)
{
	for (int depth = 1; depth; a++) {
		if (!*a)
			errx(1, "no end");
		depth += !strcmp(*a, "fork") || !strcmp(*a, "clone") || !strcmp(*a, "thread");
		depth -= !strcmp(*a, "end");
	}
	return a;
}

/* Fills the numbers of an exchange under way with sockets of the program's own, each with a message waiting; then
 * looks whether all are still there. */
static int own[32][2], n_own;

static void *replacer(void *data)
{
	char c;

	(void)data;
	if (read(0, &c, 1) != 1)
		exit(3);
	for (int fd = 3; fd < 64; fd++)
		close(fd);
	for (n_own = 0; n_own < 30; n_own++)
		if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, own[n_own]) < 0 ||
		    send(own[n_own][0], "mine", 4, 0) != 4 || send(own[n_own][1], "mine", 4, 0) != 4)
			err(1, "socketpair");
	c = 'w';
	if (write(1, &c, 1) != 1)
		exit(3);
	return NULL;
}

/* Forks while the main thread is in the middle of an exchange; the child's first record clears up after it. */
static void *forker(void *data)
{
	char c;

	if (read(0, &c, 1) != 1)
		exit(3);
	*(pid_t *)data = fork();
	if (*(pid_t *)data == 0) {
		if (read(0, &c, 1) != 1)
			exit(3);
		trace_subject_number(counter++);
		_exit(count_fds() == n_fds_at_start ? 0 : 7);
	}
	c = 'w';
	if (write(1, &c, 1) != 1)
		exit(3);
	return NULL;
}

static void check_own_sockets(void)
{
	char bytes[64];

	for (int i = 0; i < n_own; i++)
		for (int k = 0; k < 2; k++) {
			if (recv(own[i][k], bytes, sizeof(bytes), MSG_DONTWAIT) != 4)
				errx(1, "a message of ours is gone: %d", own[i][k]);
			if (recv(own[i][k], bytes, sizeof(bytes), MSG_DONTWAIT) >= 0)
				errx(1, "somebody sends to us: %d", own[i][k]);
		}
	for (int i = 0; i < n_own; i++)
		for (int k = 0; k < 2; k++)
			close(own[i][k]);
}

/* A child of vfork, on another CPU than its parent's area says, forks. */
static void vfork_then_fork(int n)
{
	pid_t pid, inner;

	pin(0);
	trace_subject_number(counter++);
	pid = vfork();
	if (pid < 0)
		err(1, "vfork");
	if (pid == 0) {
		pin(1);
		inner = fork();
		if (inner == 0)
			for (int i = 0; i < n; i++)
				trace_subject_number(counter++);
		else
			reap(inner);
		_exit(0);
	}
	reap(pid);
}

static void vfork_in_vfork(int n)
{
	volatile pid_t pid = vfork();
	pid_t inner;

	if (pid < 0)
		err(1, "vfork");
	if (pid == 0) {
		for (int i = 0; i < n; i++)
			trace_subject_number(counter++);
		inner = vfork();
		if (inner == 0) {
			for (int i = 0; i < n; i++)
				trace_subject_number(counter++);
			_exit(0);
		}
		reap(inner);
		for (int i = 0; i < n; i++)
			trace_subject_number(counter++);
		_exit(0);
	}
	reap(pid);
}

static char **run(char **a)
{
	while (*a) {
		const char *c = *a++;

		if (!strcmp(c, "end"))
			return a;
		if (!strcmp(c, "emit")) {
			for (int n = atoi(*a++); n > 0; n--)
				trace_subject_number(counter++);
		} else if (!strcmp(c, "emit-on")) {
			struct pollfd p = {.fd = STDIN_FILENO, .events = POLLIN};

			/* until the test says go */
			while (poll(&p, 1, 1) == 0)
				trace_subject_number(counter++);
			wait_for_test();
		} else if (!strcmp(c, "late")) {
			trace_subject_late(counter++);
		} else if (!strcmp(c, "emit-other")) {
			other_emit(counter++);
		} else if (!strcmp(c, "conflict")) {
			trace_subject_conflict(7);
			other_conflict();
		} else if (!strcmp(c, "values")) {
			values();
		} else if (!strcmp(c, "wait")) {
			wait_for_test();
		} else if (!strcmp(c, "enabled")) {
			if (!trace_enabled_subject_number())
				errx(1, "not enabled");
		} else if (!strcmp(c, "disabled")) {
			if (trace_enabled_subject_number())
				errx(1, "enabled");
		} else if (!strcmp(c, "unwanted")) {
			unwanted();
		} else if (!strcmp(c, "nofds")) {
			if (count_fds() != n_fds_at_start)
				errx(1, "%d descriptors, %d at start", count_fds(), n_fds_at_start);
		} else if (!strcmp(c, "ticks")) {
			ticks(atoi(*a++));
		} else if (!strcmp(c, "smallstack")) {
			small_stack();
		} else if (!strcmp(c, "plugin")) {
			plugin(a[0], atoi(a[1]));
			a += 2;
		} else if (!strcmp(c, "threads")) {
			uint64_t n = strtoull(a[1], NULL, 0);
			int k = atoi(a[0]);
			pthread_t *t = calloc((size_t)k, sizeof(*t));

			for (int i = 0; i < k; i++)
				if (pthread_create(&t[i], NULL, emitter, &n))
					errx(1, "thread");
			for (int i = 0; i < k; i++)
				pthread_join(t[i], NULL);
			free(t);
			a += 2;
		} else if (!strcmp(c, "thread")) {
			pthread_t t;

			if (pthread_create(&t, NULL, runner, a))
				errx(1, "thread");
			pthread_join(t, NULL);
			a = behind_end(a);
		} else if (!strcmp(c, "fork") || !strcmp(c, "clone")) {
			pid_t pid = *c == 'f'
					? fork()
					: (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, 0);

			if (pid < 0)
				err(1, "fork");
			if (pid == 0) {
				run(a);
				_exit(0);
			}
			reap(pid);
			a = behind_end(a);
		} else if (!strcmp(c, "vfork")) {
			/* the child on the other CPU, where the parent's ring is not */
			int n = atoi(*a++);
			pid_t pid;

			pin(0);
			trace_subject_number(counter++);
			pid = vfork();
			if (pid < 0)
				err(1, "vfork");
			if (pid == 0) {
				pin(1);
				for (int i = 0; i < n; i++)
					trace_subject_number(counter++);
				_exit(0);
			}
			reap(pid);
		} else if (!strcmp(c, "vfork-fork")) {
			vfork_then_fork(atoi(*a++));
		} else if (!strcmp(c, "vfork-vfork")) {
			vfork_in_vfork(atoi(*a++));
		} else if (!strcmp(c, "vfork-fails")) {
			/* root has no limit of processes, but a filter binds him too */
			refuse_vfork();
			errno = 0;
			if (vfork() != -1 || errno != EAGAIN)
				_exit(9);
		} else if (!strcmp(c, "spawn")) {
			char *argv[] = {(char *)"/proc/self/exe", (char *)"emit", (char *)"2",
					NULL};
			extern char **environ;
			pid_t pid;

			if (posix_spawn(&pid, "/proc/self/exe", NULL, NULL, argv, environ))
				errx(1, "spawn");
			reap(pid);
		} else if (!strcmp(c, "daemon")) {
			if (daemon(1, 1) < 0)
				err(1, "daemon");
		} else if (!strcmp(c, "setuid")) {
			uid_t u = (uid_t)atoi(*a++);

			if (setresuid(u, u, u) < 0)
				err(1, "setresuid");
		} else if (!strcmp(c, "seteuid")) {
			if (seteuid((uid_t)atoi(*a++)) < 0)
				err(1, "seteuid");
		} else if (!strcmp(c, "chroot")) {
			if (chroot(*a++) < 0 || chdir("/") < 0)
				err(1, "chroot");
		} else if (!strcmp(c, "newpid")) {
			if (unshare(CLONE_NEWPID) < 0)
				err(1, "unshare");
		} else if (!strcmp(c, "noforkmap")) {
			/* a child has neither the rings nor what they were */
			char line[512];
			FILE *f = fopen("/proc/self/maps", "re");

			while (f && fgets(line, sizeof(line), f))
				if (strstr(line, "memfd:tracer"))
					errx(1, "inherited: %s", line);
			fclose(f);
		} else if (!strcmp(c, "reopen")) {
			/* closes every number and opens something else under it */
			for (int fd = 3; fd < 64; fd++)
				close(fd);
			for (int fd = 3; fd < 64; fd++)
				if (open("/dev/null", O_RDWR) != fd)
					errx(1, "open");
			n_fds_at_start = count_fds();
		} else if (!strcmp(c, "reopen-during")) {
			pthread_t t;

			pthread_create(&t, NULL, reopener, NULL);
			trace_subject_number(counter++);
			pthread_join(t, NULL);
		} else if (!strcmp(c, "replace-during")) {
			pthread_t t;

			pthread_create(&t, NULL, replacer, NULL);
			trace_subject_number(counter++);
			pthread_join(t, NULL);
			check_own_sockets();
		} else if (!strcmp(c, "fork-during")) {
			pthread_t t;
			pid_t pid;

			pthread_create(&t, NULL, forker, &pid);
			trace_subject_number(counter++);
			pthread_join(t, NULL);
			reap(pid);
		} else if (!strcmp(c, "emit-during")) {
			uint64_t n = strtoull(*a++, NULL, 0);
			pthread_t t;

			pthread_create(&t, NULL, skipper, &n);
			trace_subject_number(counter++);
			pthread_join(t, NULL);
		} else if (!strcmp(c, "exec")) {
			char *argv[] = {(char *)"/proc/self/exe", (char *)"emit", (char *)"2",
					NULL};

			execv(argv[0], argv);
			err(1, "exec");
		} else if (!strcmp(c, "nostdio")) {
			for (int fd = 0; fd < 3; fd++)
				close(fd);
			n_fds_at_start = count_fds();
		} else if (!strcmp(c, "fullfds")) {
			struct rlimit r = {32, 32};

			setrlimit(RLIMIT_NOFILE, &r);
			while (open("/dev/null", O_RDWR) >= 0)
				;
		} else if (!strcmp(c, "close")) {
			close(atoi(*a++));
		} else if (!strcmp(c, "snapshot")) {
			dprintf(1, "%d\n", tracer_snapshot(*a++));
		} else if (!strcmp(c, "printf")) {
			errno = 77;
			tracer_printf(TRACER_NOTICE, "%s %d", *a++, 42);
			tracer_printf(TRACER_DEBUG, "%0600d", 1);
			if (errno != 77)
				errx(1, "errno");
		} else if (!strcmp(c, "errno")) {
			errno = 77;
			trace_subject_number(counter++);
			if (errno != 77)
				errx(1, "errno: %d", errno);
		} else if (!strcmp(c, "cancel")) {
			/* a cancellation that is pending does not happen inside of us */
			pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, NULL);
			pthread_cancel(pthread_self());
			trace_subject_number(counter++);
			pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
		} else if (!strcmp(c, "bounded")) {
			struct timespec t0, t1;
			long ms;

			clock_gettime(CLOCK_MONOTONIC, &t0);
			trace_subject_number(counter++);
			clock_gettime(CLOCK_MONOTONIC, &t1);
			ms = (t1.tv_sec - t0.tv_sec) * 1000 + (t1.tv_nsec - t0.tv_nsec) / 1000000;
			dprintf(1, "%ld\n", ms);
		} else {
			errx(2, "unknown command %s", c);
		}
	}
	return a;
}

#ifdef __SANITIZE_ADDRESS__
/* Looking for leaks takes a tracer, which a process that has changed its user does not let near. */
int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void)
{
	return prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) != 1;
}
#endif

int main(int argc, char **argv)
{
	(void)argc;
	n_fds_at_start = count_fds();
	run(argv + 1);
	return 0;
}
