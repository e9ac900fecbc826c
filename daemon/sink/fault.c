/* SPDX-License-Identifier: MIT */
#include "daemon/sink/fault.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>

/* Set while this thread copies. Written and read by one thread and its own signal handler: volatile is enough for these. */
static __thread sigjmp_buf *volatile escape;
static struct sigaction previous;
static int install_error;

static void on_sigbus(int sig, siginfo_t *info, void *context)
{
	/* si_code > 0: of the kernel, for what this thread did; what another process sent is none of ours */
	if (escape && info->si_code > 0) {
		sigjmp_buf *to = escape;

		escape = NULL;
		siglongjmp(*to, 1);
	}
	if (previous.sa_flags & SA_SIGINFO) {
		previous.sa_sigaction(sig, info, context);
	} else if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN) {
		previous.sa_handler(sig);
	} else if (previous.sa_handler == SIG_DFL || info->si_code > 0) {
		/* As if nobody had asked: a fault comes again when this returns, a signal that was sent does not. One
		 * that is ignored is ignored only if it was sent: a fault would come back for ever. */
		(void)signal(sig, SIG_DFL);
		if (info->si_code <= 0)
			(void)raise(sig);
	}
}

static void install(void)
{
	struct sigaction action = {.sa_sigaction = on_sigbus};

	sigemptyset(&action.sa_mask);
	/* SA_NODEFER: the signal is not blocked in the handler, so that leaving it by a jump has no mask to restore, and a
	 * copy no system call to save one */
	action.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK | SA_RESTART;
	/* read first, so that `previous` is whole before the handler can run; two who install at the same moment is what
	 * pthread_once() keeps apart, and others of the process are not expected to */
	if (sigaction(SIGBUS, NULL, &previous) < 0 || sigaction(SIGBUS, &action, NULL) < 0)
		install_error = -errno;
}

int fault_install(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	(void)pthread_once(&once, install);
	return install_error;
}

int fault_copy(void *to, const void *from, size_t size)
{
	sigjmp_buf here;

	if (size == 0)
		return 0;
	if (sigsetjmp(here, 0) != 0)
		return -EIO;
	escape = &here;
	/* the compiler must not move the copy out from between the two: it may, over a volatile */
	__asm__ volatile("" ::: "memory");
	if (from)
		memcpy(to, from, size);
	else
		memset(to, 0, size);
	__asm__ volatile("" ::: "memory");
	escape = NULL;
	return 0;
}
