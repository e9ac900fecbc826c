/* SPDX-License-Identifier: MIT */
#include "lib/base.h"
#include "systemd/journal.h"
#include "systemd/messages.h"

#include <fcntl.h>
#include <glib.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>

/* Runs body() in a process whose stderr is a file, and returns what it wrote. The target is chosen once per
 * process, so each case has its own. */
static char *said(const char *stream, const char *invocation, void (*body)(void))
{
	g_autofree char *path = NULL;
	char *text = NULL;
	int fd = g_file_open_tmp("test-journal-XXXXXX", &path, NULL);
	pid_t pid;
	int status;

	g_assert_cmpint(fd, >=, 0);
	pid = fork();
	if (pid == 0) {
		g_unsetenv("JOURNAL_STREAM");
		g_unsetenv("INVOCATION_ID");
		if (stream && *stream)
			g_setenv("JOURNAL_STREAM", stream, TRUE);
		if (invocation)
			g_setenv("INVOCATION_ID", invocation, TRUE);
		if (dup2(fd, STDERR_FILENO) < 0)
			_exit(1);
		body();
		_exit(0);
	}
	g_assert_cmpint(waitpid(pid, &status, 0), ==, pid);
	g_assert_cmpint(status, ==, 0);
	close(fd);
	g_assert_true(g_file_get_contents(path, &text, NULL, NULL));
	(void)unlink(path);
	return text;
}

static void body_simple(void)
{
	log_error("cannot open %s: %s", "x", "no");
	log_debug("too fine");
	journal_set_level(LOG_DEBUG);
	log_debug("fine");
	journal_set_level(LOG_ERR);
	log_warning("not now");
}

static void test_plain(void)
{
	g_autofree char *text = said(NULL, NULL, body_simple);

	g_assert_cmpstr(text, ==, "tracerd: cannot open x: no\ntracerd: fine\n");
}

static void test_prefix(void)
{
	g_autofree char *text = said(NULL, "f5d6a5ccd71e4a19b3b4b8c1a2a4b3c2", body_simple);

	g_assert_cmpstr(text, ==, "<3>cannot open x: no\n<7>fine\n");
}

/* JOURNAL_STREAM is inherited by whoever is started from a service, with its stderr redirected: it must not
 * speak to the journal of somebody else. */
static void test_foreign_stream(void)
{
	g_autofree char *text = said("1:1", "f5d6a5ccd71e4a19b3b4b8c1a2a4b3c2", body_simple);

	g_assert_cmpstr(text, ==, "tracerd: cannot open x: no\ntracerd: fine\n");
}

static void body_lines(void)
{
	log_error("one\n<0>two");
}

/* A program can be called "x\n<0>The machine burns". */
static void test_one_line(void)
{
	g_autofree char *text = said(NULL, "f5d6a5ccd71e4a19b3b4b8c1a2a4b3c2", body_lines);

	g_assert_cmpstr(text, ==, "<3>one <0>two\n");
}

static void body_flood(void)
{
	for (int i = 0; i < 10000; i++)
		log_warning("flood %d", i);
	log_warning("another place is heard");
	for (int i = 0; i < 100; i++)
		journal_log(LOG_NOTICE,
			    &(JournalFields){ .message_id = MESSAGE_SNAPSHOT_WRITTEN, .path = "/p" },
			    "path %d", i);
}

static void test_budget(void)
{
	g_autofree char *text = said(NULL, NULL, body_flood);
	g_auto(GStrv) lines = g_strsplit(text, "\n", -1);
	guint n = 0, paths = 0;
	bool other = false;

	for (guint i = 0; lines[i]; i++) {
		n += g_str_has_prefix(lines[i], "tracerd: flood");
		paths += g_str_has_prefix(lines[i], "tracerd: path");
		other |= g_str_equal(lines[i], "tracerd: another place is heard");
	}
	g_assert_cmpuint(n, >=, 10);
	g_assert_cmpuint(n, <, 200);
	g_assert_true(other);
	/* what names a file on disk is never swallowed */
	g_assert_cmpuint(paths, ==, 100);
}

static void body_errno(void)
{
	errno = ENOSPC;
	log_error("cannot: %m");
	if (errno != ENOSPC)
		_exit(1);
}

static void test_errno(void)
{
	g_autofree char *text = said(NULL, NULL, body_errno);
	g_autofree char *wanted = g_strdup_printf("tracerd: cannot: %s\n", g_strerror(ENOSPC));

	g_assert_cmpstr(text, ==, wanted);
}

static void body_long(void)
{
	g_autofree char *much = g_strnfill(100000, 'x');

	log_error("%s", much);
}

static void test_long(void)
{
	g_autofree char *text = said(NULL, NULL, body_long);

	g_assert_cmpuint(strlen(text), >, 1000);
	g_assert_cmpuint(strlen(text), <, 4096);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/systemd/journal/plain", test_plain);
	g_test_add_func("/systemd/journal/prefix", test_prefix);
	g_test_add_func("/systemd/journal/foreign-stream", test_foreign_stream);
	g_test_add_func("/systemd/journal/one-line", test_one_line);
	g_test_add_func("/systemd/journal/budget", test_budget);
	g_test_add_func("/systemd/journal/errno", test_errno);
	g_test_add_func("/systemd/journal/long", test_long);
	return g_test_run();
}
