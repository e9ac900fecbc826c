/* SPDX-License-Identifier: MIT */
/* A hostile program at work. */
#include "tests/integration/daemon/attack.h"

#include <fcntl.h>
#include <sys/wait.h>

/* root's programs and nobody's are told apart; without root both are ours, in one owner */
void attack_begin(Attack *a, const char *mode)
{
	const char *path = g_getenv("TRACER_TEST_HOSTILE");
	int out[2];

	g_assert_cmpint(pipe2(out, O_CLOEXEC), ==, 0);
	*a = (Attack){ .out = out[0] };
	a->pid = fork();
	g_assert_cmpint(a->pid, >=, 0);
	if (a->pid == 0) {
		(void)dup2(out[1], 1);
		if (getuid() == 0 && !g_getenv("TRACER_TEST_ATTACKER_UID") &&
		    (setgid(NOBODY) < 0 || setuid(NOBODY) < 0))
			_exit(126);
		(void)execl(path, "hostile", mode, NULL);
		_exit(127);
	}
	(void)close(out[1]);
}

bool attack_over(void *userdata)
{
	Attack *a = userdata;

	if (!a->ended && waitpid(a->pid, &a->status, WNOHANG) == a->pid)
		a->ended = true;
	return a->ended;
}

/* The loop is woken at least every 10 ms, by a timer, to see whether the attack is over. */
void attack_finish(House *h, Attack *a)
{
	u64 end = manager_now() + 60 * NSEC_PER_SEC;

	while (!attack_over(a)) {
		g_assert_cmpuint(manager_now(), <, end);
		house_turn(h, 10000);
	}
	(void)close(a->out);
	if (!WIFEXITED(a->status) || WEXITSTATUS(a->status))
		g_error("the attack ended with 0x%x", a->status);
}
