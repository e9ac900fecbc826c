/* SPDX-License-Identifier: MIT */
#include "subject.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <sys/wait.h>

Subject subject_start_v(const char *directory, char **argv)
{
	g_auto(GStrv) env = g_get_environ();
	int in[2], out[2];
	posix_spawn_file_actions_t a;
	Subject s;

	if (directory)
		env = g_environ_setenv(env, "TRACER_RUNTIME_DIR", directory, TRUE);
	else
		env = g_environ_unsetenv(env, "TRACER_RUNTIME_DIR");
	/* so that a busy machine is no reason not to be heard */
	env = g_environ_setenv(env, "TRACER_ATTACH_TIMEOUT", "10000", FALSE);
	g_assert_no_errno(pipe2(in, O_CLOEXEC));
	g_assert_no_errno(pipe2(out, O_CLOEXEC));
	posix_spawn_file_actions_init(&a);
	posix_spawn_file_actions_adddup2(&a, in[0], 0);
	posix_spawn_file_actions_adddup2(&a, out[1], 1);
	g_assert_cmpint(posix_spawn(&s.pid, argv[0], &a, NULL, argv, env), ==, 0);
	posix_spawn_file_actions_destroy(&a);
	close(in[0]);
	close(out[1]);
	s.in = in[1];
	s.out = out[0];
	return s;
}

static Subject start_list(const char *directory, va_list list)
{
	g_autoptr(GPtrArray) argv = g_ptr_array_new();
	char *arg;

	g_ptr_array_add(argv, (void *)g_getenv("SUBJECT"));
	while ((arg = va_arg(list, char *)))
		g_ptr_array_add(argv, arg);
	g_ptr_array_add(argv, NULL);
	return subject_start_v(directory, (char **)argv->pdata);
}

Subject subject_start(const char *directory, ...)
{
	va_list list;
	Subject s;

	va_start(list, directory);
	s = start_list(directory, list);
	va_end(list);
	return s;
}

void subject_waits(Subject *s)
{
	char c = 0;

	g_assert_cmpint(read(s->out, &c, 1), ==, 1);
	g_assert_cmpint(c, ==, 'w');
}

void subject_go(Subject *s)
{
	g_assert_cmpint(write(s->in, "g", 1), ==, 1);
}

char *subject_end(Subject *s, int expected)
{
	GString *text = g_string_new(NULL);
	char buffer[512];
	int status;
	ssize_t n;

	while ((n = read(s->out, buffer, sizeof(buffer))) > 0)
		g_string_append_len(text, buffer, n);
	g_assert_cmpint(waitpid(s->pid, &status, 0), ==, s->pid);
	close(s->in);
	close(s->out);
	if (WIFSIGNALED(status))
		g_error("the subject died of signal %d", WTERMSIG(status));
	g_assert_cmpint(WEXITSTATUS(status), ==, expected);
	return g_string_free(text, FALSE);
}

void subject_run(const char *directory, ...)
{
	g_autofree char *text = NULL;
	va_list list;
	Subject s;

	va_start(list, directory);
	s = start_list(directory, list);
	va_end(list);
	text = subject_end(&s, 0);
}

u32 count_records(Fake *f, u32 slot, const char *event, pid_t pid)
{
	g_autoptr(GPtrArray) records = fake_records(f, slot, (uid_t)-1);
	u32 n = 0;

	for (u32 i = 0; i < records->len; i++) {
		FakeRecord *r = records->pdata[i];

		n += (!event || !strcmp(r->event, event)) && (!pid || r->vpid == (u32)pid);
	}
	return n;
}
