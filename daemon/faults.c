/* SPDX-License-Identifier: MIT */
#include "daemon/faults.h"

#include <signal.h>

static Ledger *watched;

static void on_fault(int signal)
{
	ledger_note_fault(watched);
	/* the handler is off (SA_RESETHAND): this one ends us, with a core dump of where it happened */
	(void)raise(signal);
}

void faults_watch(Ledger *l)
{
	static const int faults[] = { SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGSYS };
	struct sigaction a = { .sa_handler = on_fault, .sa_flags = SA_RESETHAND };

	watched = l;
	for (size_t i = 0; i < ELEMENTSOF(faults); i++) {
		struct sigaction old;

		/* sanitizers and tests have their own */
		if (sigaction(faults[i], NULL, &old) == 0 && !(old.sa_flags & SA_SIGINFO) && old.sa_handler == SIG_DFL)
			(void)sigaction(faults[i], &a, NULL);
	}
}

void faults_unwatch(const Ledger *l)
{
	if (watched != l)
		return;
	watched = NULL;
	for (int i = 0; i < NSIG; i++) {
		struct sigaction old;

		if (sigaction(i, NULL, &old) == 0 && !(old.sa_flags & SA_SIGINFO) && old.sa_handler == on_fault)
			(void)signal(i, SIG_DFL);
	}
}
