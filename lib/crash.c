/* SPDX-License-Identifier: MIT */
/* tracer_crash_handler(): tells the daemon of a fault before anything else happens to the process. What comes behind it, the
 * core dump above all, takes seconds for each gigabyte, while other processes of the same user write the rings over.
 *
 * In the handler: no lock, no allocation, no stdio, nothing that waits. The daemon is told by one connection and one message,
 * both of which the kernel takes at once or not at all. Then everything goes on as if the handler had not been there. */
#include <pthread.h>
#include <signal.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "lib/atomic.h"
#include "lib/connection.h"
#include "lib/control.h"
#include "lib/tracer.h"
#include "lib/wire.h"

#ifndef AT_MINSIGSTKSZ
#define AT_MINSIGSTKSZ 51
#endif

/* Those whose default is a core dump and that a fault raises, abort() and a seccomp filter included. */
static const int signals[] = { SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGSYS, SIGTRAP };

/* What a program had before; written before our own is installed. */
static struct sigaction before[ELEMENTSOF(signals)];

/* A program that lives by its faults, as some virtual machines do, would else spend its time in connections. */
#define SPEAK_GAP NSEC_PER_SEC
static u64 spoken; /* relaxed, all of it: two threads that fault at once may both speak, and the daemon hears one crash */

/* ---- in the handler ---- */

static void speak(int signal, const siginfo_t *info)
{
	const u64 *cookie = (const u64 *)getauxval(AT_RANDOM);
	struct wire_crash m = {
		.header = wire_header(WIRE_CRASH, sizeof(m)),
		.signal = (u32)signal,
		.code = info->si_code,
		.vtid = (u32)syscall(SYS_gettid),
	};
	u64 now = monotonic_ns(), last = load_relaxed_u64(&spoken);
	struct connection c;

	if (last && now - last < SPEAK_GAP)
		return;
	store_relaxed_u64(&spoken, now);
	/* of a signal that was sent, the same bytes are who sent it */
	if (info->si_code > 0 && signal != SIGSYS && signal != SIGABRT)
		m.address = (u64)(uintptr_t)info->si_addr;
	if (cookie)
		memcpy(m.cookie, cookie, sizeof(m.cookie));
	/* Nobody is waited for: the daemon knows by the kernel who it was that connected, also when we are gone. */
	if (connection_try(&c, control_socket()) < 0)
		return;
	(void)connection_send(&c, &m, sizeof(m), NULL, 0);
	connection_close(&c);
}

/* The default: the same signal once more, with all that is known of it, blocked until we return. It is delivered before the
 * program runs on, so that status and core dump are those of the fault itself, its registers included. */
static void end_by_default(int signal, siginfo_t *info)
{
	const struct sigaction plain = { .sa_handler = SIG_DFL };
	long pid = syscall(SYS_getpid), tid = syscall(SYS_gettid);

	(void)sigaction(signal, &plain, NULL);
	if (syscall(SYS_rt_tgsigqueueinfo, pid, tid, signal, info) < 0)
		(void)syscall(SYS_tgkill, pid, tid, signal);
}

/* The program's own, under the mask that it would have had. It may return, or jump out. */
static void call_before(struct sigaction *old, int signal, siginfo_t *info, void *context)
{
	struct sigaction a = *old;
	u64 mask, more;

	/* what the kernel saves there is eight bytes, whatever the type says */
	memcpy(&mask, &((ucontext_t *)context)->uc_sigmask, sizeof(mask));
	memcpy(&more, &a.sa_mask, sizeof(more));
	mask |= more;
	if (!(a.sa_flags & SA_NODEFER))
		mask |= 1ull << (signal - 1);
	if (a.sa_flags & (int)SA_RESETHAND)
		*old = (struct sigaction){ .sa_handler = SIG_DFL };
	(void)syscall(SYS_rt_sigprocmask, SIG_SETMASK, &mask, NULL, sizeof(mask));
	if (a.sa_flags & SA_SIGINFO)
		a.sa_sigaction(signal, info, context);
	else
		a.sa_handler(signal);
}

static void handler(int signal, siginfo_t *info, void *context)
{
	struct sigaction *old = before;
	int saved = errno;

	for (size_t i = 0; i < ELEMENTSOF(signals); i++)
		if (signals[i] == signal)
			old = &before[i];
	speak(signal, info);
	errno = saved;
	if (!(old->sa_flags & SA_SIGINFO) && old->sa_handler == SIG_DFL)
		end_by_default(signal, info);
	else
		call_before(old, signal, info, context);
}

/* ---- the alternate stack of a thread ---- */

static pthread_once_t stack_once = PTHREAD_ONCE_INIT;
static pthread_key_t stack_key;
static bool stack_key_made;
static size_t stack_size; /* of the mapping: a page that guards it, then the stack */

/* A thread ends: what it had from us goes, unless it is in use for something else. */
static void stack_end(void *map)
{
	stack_t is, none = { .ss_flags = SS_DISABLE };

	if (sigaltstack(NULL, &is) == 0 && is.ss_sp == (u8 *)map + ABI_PAGE && !(is.ss_flags & SS_ONSTACK) &&
	    sigaltstack(&none, NULL) == 0)
		(void)munmap(map, stack_size);
}

static void stack_begin(void)
{
	size_t least = getauxval(AT_MINSIGSTKSZ); /* what the kernel itself puts there, with all registers of this processor */

	stack_size = ALIGN_UP(MAX(least, (size_t)2048) + 65536, (size_t)65536) + ABI_PAGE;
	stack_key_made = pthread_key_create(&stack_key, stack_end) == 0;
}

/* Without one, a stack that has overflowed leaves no place to run a handler on. What the thread has is left alone. */
static int stack_prepare(void)
{
	stack_t is, ours;
	u8 *map;

	if (sigaltstack(NULL, &is) < 0)
		return -errno;
	if (!(is.ss_flags & SS_DISABLE))
		return 0;
	(void)pthread_once(&stack_once, stack_begin);
	map = mmap(NULL, stack_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
	if (map == MAP_FAILED)
		return -errno;
	(void)mprotect(map, ABI_PAGE, PROT_NONE); /* where pages are larger it fails, and there is no guard */
	ours = (stack_t){ .ss_sp = map + ABI_PAGE, .ss_size = stack_size - ABI_PAGE };
	if (sigaltstack(&ours, NULL) < 0) {
		int r = -errno;

		(void)munmap(map, stack_size);
		return r;
	}
	/* without a key it stays behind when the thread ends */
	if (stack_key_made)
		(void)pthread_setspecific(stack_key, map);
	return 0;
}

/* ---- installation ---- */

static int install(size_t i)
{
	struct sigaction ours = { .sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_ONSTACK }, is;

	if (sigaction(signals[i], NULL, &is) < 0)
		return -errno;
	if (is.sa_flags & SA_SIGINFO && is.sa_sigaction == handler)
		return 0;
	/* somebody wants the signal to do nothing */
	if (!(is.sa_flags & SA_SIGINFO) && is.sa_handler == SIG_IGN)
		return 0;
	/* nothing interrupts it: a fault in the handler itself ends the program by the kernel's hand */
	(void)sigfillset(&ours.sa_mask);
	before[i] = is;
	return sigaction(signals[i], &ours, NULL) < 0 ? -errno : 0;
}

int tracer_crash_handler(unsigned flags)
{
	int saved = errno, r;

	if (flags)
		return -EINVAL;
	control_open();
	if (!*control_socket())
		return -ENOENT;
	r = stack_prepare();
	for (size_t i = 0; i < ELEMENTSOF(signals) && r == 0; i++)
		r = install(i);
	errno = saved;
	return r;
}

/* For a program that cannot be built anew. Behind the constructor that opens the page. */
__attribute__((constructor(102))) static void crash_construct(void)
{
	const char *wanted = getauxval(AT_SECURE) ? NULL : getenv("TRACER_CRASH_HANDLER");

	if (wanted && strcmp(wanted, "1") == 0)
		(void)tracer_crash_handler(0);
}
