/* SPDX-License-Identifier: MIT */
/* A program that dies in a given way, and that has, or has not, handlers of its own before. Its arguments, in order:
 *
 *     handler, again     tracer_crash_handler()
 *     own-return N       a handler of its own for signal N, which returns where it can be gone on from
 *     own-exit N         ... which exits with 42
 *     own-jump N         ... which jumps out
 *     ignore N
 *     record N           so many events
 *     memory MIB         touched, so that it is in the core dump
 *     thread             the rest in a thread with a stack of its own
 *     fault, abort, trap, divide, overflow, raise N, badsys
 *     loop N             N faults, of which each is repaired
 *     descriptors        "descriptors N"
 *     ready              says so
 *     wait               for a line
 *     say                "alive" */
#include "lib/tracer.h"

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

TRACER_EVENT(shop, order, TRACER_INFO, TRACER_U64(number), TRACER_STR(customer))

/* A sanitizer that is linked in would else take the signals for itself. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
	return "handle_segv=0:handle_sigbus=0:handle_sigfpe=0:handle_sigill=0:handle_abort=0:handle_sigtrap=0:"
	       "use_sigaltstack=0:detect_leaks=0:disable_coredump=0";
}

static char **arguments;
static unsigned long number;
static volatile char *page;
static sigjmp_buf out;
static siginfo_t seen;

static void own_return(int signal, siginfo_t *info, void *context)
{
	sigset_t now;

	seen = *info;
	(void)sigprocmask(SIG_BLOCK, NULL, &now);
	/* the mask is the one that was asked for, and no other */
	if (!sigismember(&now, signal) || sigismember(&now, SIGUSR1) || !sigismember(&now, SIGUSR2))
		_exit(41);
	if (page)
		(void)mprotect((void *)page, 4096, PROT_READ | PROT_WRITE);
}

static void own_exit(int signal)
{
	_exit(42);
}

static void own_jump(int signal)
{
	siglongjmp(out, 1);
}

static void own(int signal, void *handler, int flags)
{
	struct sigaction a = { .sa_flags = flags };

	(void)sigemptyset(&a.sa_mask);
	(void)sigaddset(&a.sa_mask, SIGUSR2);
	a.sa_handler = (void (*)(int))handler;
	(void)sigaction(signal, &a, NULL);
}

static int __attribute__((noinline)) overflow(int n)
{
	volatile char much[4096];

	if (n < 0)
		return 0;
	much[n % 4096] = (char)n;
	return overflow(n + 1) + much[0];
}

static void badsys(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getppid, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { sizeof(filter) / sizeof(filter[0]), filter };

	(void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	(void)prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
	(void)getppid();
}

static void fault(void)
{
	page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	page[8] = 1;
}

static void run(void);

static void *in_thread(void *unused)
{
	run();
	return NULL;
}

static int n_descriptors(void)
{
	int n = 0;

	for (int fd = 0; fd < 1024; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

static void run(void)
{
	volatile int zero = 0;

	while (*arguments) {
		const char *verb = *arguments++;

		if (strcmp(verb, "handler") == 0) {
			int r = tracer_crash_handler(0);

			if (r < 0)
				(void)printf("handler %d\n", r);
		} else if (strcmp(verb, "own-return") == 0) {
			own(atoi(*arguments++), (void *)own_return, SA_SIGINFO);
		} else if (strcmp(verb, "own-exit") == 0) {
			own(atoi(*arguments++), (void *)own_exit, 0);
		} else if (strcmp(verb, "own-jump") == 0) {
			own(atoi(*arguments++), (void *)own_jump, 0);
			if (sigsetjmp(out, 1))
				(void)printf("out\n");
		} else if (strcmp(verb, "ignore") == 0) {
			(void)signal(atoi(*arguments++), SIG_IGN);
		} else if (strcmp(verb, "record") == 0) {
			for (long n = atol(*arguments++); n > 0; n--)
				trace_shop_order(number++, "customer");
		} else if (strcmp(verb, "memory") == 0) {
			size_t size = strtoul(*arguments++, NULL, 10) << 20;
			char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

			for (size_t i = 0; i < size; i += 4096)
				p[i] = (char)(i >> 12 | 1);
		} else if (strcmp(verb, "thread") == 0) {
			pthread_t t;

			(void)pthread_create(&t, NULL, in_thread, NULL);
			(void)pthread_join(t, NULL);
			return;
		} else if (strcmp(verb, "fault") == 0) {
			fault();
		} else if (strcmp(verb, "abort") == 0) {
			abort();
		} else if (strcmp(verb, "trap") == 0) {
#ifdef __x86_64__
			__asm__ volatile("int3");
#else
			(void)raise(SIGTRAP);
#endif
		} else if (strcmp(verb, "divide") == 0) {
#ifdef __x86_64__
			(void)printf("%d\n", 4711 / zero);
#else
			(void)raise(SIGFPE);
			(void)zero;
#endif
		} else if (strcmp(verb, "overflow") == 0) {
			(void)printf("%d\n", overflow(1));
		} else if (strcmp(verb, "raise") == 0) {
			(void)raise(atoi(*arguments++));
		} else if (strcmp(verb, "badsys") == 0) {
			badsys();
		} else if (strcmp(verb, "loop") == 0) {
			for (long n = atol(*arguments++); n > 0; n--)
				fault();
			(void)printf("looped\n");
		} else if (strcmp(verb, "descriptors") == 0) {
			(void)printf("descriptors %d\n", n_descriptors());
		} else if (strcmp(verb, "wait") == 0) {
			char line[64];

			(void)!fgets(line, sizeof(line), stdin);
		} else if (strcmp(verb, "ready") == 0) {
			(void)printf("ready\n");
		} else if (strcmp(verb, "say") == 0) {
			(void)printf("alive %d %d\n", seen.si_signo, seen.si_code);
		}
	}
}

int main(int argc, char **argv)
{
	(void)setvbuf(stdout, NULL, _IOLBF, 0);
	arguments = argv + 1;
	run();
	return 0;
}
