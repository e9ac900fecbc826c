/* SPDX-License-Identifier: MIT */
/* Where there is no desktop, nobody would show polkit's question for a password: pkttyagent(1) asks on the
 * terminal, for the process that started it. */
#include "dbus/tracerctl.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

/* An agent that cannot register in this time will not: go on without. */
#define AGENT_TIMEOUT_MS 3000

static pid_t agent;

static void agent_exec(int notify, pid_t parent)
{
	char fd[16];

	(void)snprintf(fd, sizeof(fd), "%d", notify);
	(void)prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != parent)
		_exit(1);
	(void)execlp("pkttyagent", "pkttyagent", "--notify-fd", fd, "--fallback", NULL);
	_exit(127);
}

void agent_start(const Options *o)
{
	struct pollfd p;
	pid_t parent = getpid();
	int fds[2];

	if (agent > 0 || o->no_ask_password || o->user || o->address || geteuid() == 0 || !isatty(STDIN_FILENO))
		return;
	if (pipe2(fds, O_CLOEXEC) < 0)
		return;
	agent = fork();
	if (agent == 0) {
		(void)fcntl(fds[1], F_SETFD, 0);
		agent_exec(fds[1], parent);
	}
	(void)close(fds[1]);
	/* it closes its end when it is registered, or is gone */
	p = (struct pollfd){ .fd = fds[0], .events = POLLIN };
	if (agent > 0)
		(void)poll(&p, 1, AGENT_TIMEOUT_MS);
	(void)close(fds[0]);
}

void agent_stop(void)
{
	if (agent <= 0)
		return;
	(void)kill(agent, SIGTERM);
	(void)kill(agent, SIGCONT);
	while (waitpid(agent, NULL, 0) < 0 && errno == EINTR)
		;
	agent = 0;
}
