/* SPDX-License-Identifier: MIT */
/* What was said is there for the next one, who dies when; what was damaged is left out alone. */
#include "daemon/ledger.h"

#include <fcntl.h>
#include <glib.h>
#include <signal.h>
#include <sys/resource.h>

#define HEAD 4096u
#define HALF (64ull << 20)

static int gather(void *userdata, const char *line)
{
	g_ptr_array_add(userdata, g_strdup(line));
	return 0;
}

static GPtrArray *lines_of(Ledger *l, LedgerDamage *damage)
{
	GPtrArray *v = g_ptr_array_new_with_free_func(g_free);

	g_assert_cmpint(ledger_read(l, gather, v, damage), ==, 0);
	return v;
}

/* As the next daemon finds it, were we dead now. */
static Ledger *after_death(const Ledger *l)
{
	Ledger *next;

	g_assert_cmpint(ledger_open(&next, fcntl(ledger_fd(l), F_DUPFD_CLOEXEC, 0)), ==, 0);
	return next;
}

static void check_lines(const Ledger *l, u32 from, u32 n)
{
	Ledger *next = after_death(l);
	LedgerDamage damage;
	GPtrArray *v = lines_of(next, &damage);

	g_assert_cmpuint(damage.n_lines, ==, 0);
	g_assert_cmpuint(v->len, ==, n);
	for (u32 i = 0; i < n; i++) {
		g_autofree char *text = g_strdup_printf("line number=%u", from + i);

		g_assert_cmpstr(g_ptr_array_index(v, i), ==, text);
	}
	g_ptr_array_unref(v);
	(void)ledger_free(next);
}

static void say(Ledger *l, u32 from, u32 n)
{
	for (u32 i = from; i < from + n; i++) {
		g_autofree char *text = g_strdup_printf("line number=%u", i);

		g_assert_cmpint(ledger_append(l, text), ==, 0);
	}
}

/* Killed between any two steps: before, while all is written anew, and behind that. */
static void test_rewrite(void)
{
	Ledger *l;

	g_assert_cmpint(ledger_new(&l), ==, 0);
	check_lines(l, 0, 0);
	for (u32 turn = 0; turn < 4; turn++) {
		ledger_rewrite_begin(l);
		for (u32 i = 0; i < 100; i++) {
			say(l, 1000 + turn * 100 + i, 1);
			if (turn == 0)
				check_lines(l, 0, 0);
			else
				check_lines(l, 1000 + (turn - 1) * 100, 100);
		}
		g_assert_cmpint(ledger_rewrite_end(l, true), ==, 0);
		check_lines(l, 1000 + turn * 100, 100);
	}
	/* one that failed: all is as it was, and is gone on from */
	ledger_rewrite_begin(l);
	say(l, 7, 3);
	g_assert_cmpint(ledger_rewrite_end(l, false), <, 0);
	check_lines(l, 1300, 100);
	say(l, 1400, 10);
	check_lines(l, 1300, 110);
	(void)ledger_free(l);
}

static void test_due(void)
{
	Ledger *l;
	u32 n = 0;

	g_assert_cmpint(ledger_new(&l), ==, 0);
	for (; !ledger_due(l); n++)
		say(l, n, 1);
	g_assert_cmpuint(n, <, 10000);
	ledger_rewrite_begin(l);
	say(l, 0, 2 * n);
	g_assert_cmpint(ledger_rewrite_end(l, true), ==, 0);
	g_assert_false(ledger_due(l));
	/* also of another daemon's */
	check_lines(l, 0, 2 * n);
	(void)ledger_free(l);
}

/* One that is almost all of what there is room for is written anew before there is no more. */
static void test_large(void)
{
	g_autofree char *text = g_strnfill(1 << 20, 'x');
	Ledger *l;
	int r, n = 0;

	g_assert_cmpint(ledger_new(&l), ==, 0);
	ledger_rewrite_begin(l);
	for (int i = 0; i < 45; i++)
		g_assert_cmpint(ledger_append(l, text), ==, 0);
	g_assert_cmpint(ledger_rewrite_end(l, true), ==, 0);
	while (!ledger_due(l)) {
		g_assert_cmpint(ledger_append(l, text), ==, 0);
		n++;
	}
	g_assert_cmpint(n, >, 0);
	while ((r = ledger_append(l, text)) == 0)
		;
	g_assert_cmpint(r, ==, -ENOSPC);
	(void)ledger_free(l);
}

/* Cut off at every byte, as a tip that is none of ours says: what is whole of it is there. */
static void test_truncated(void)
{
	LedgerDamage damage;
	GPtrArray *all;
	u64 tip;
	Ledger *l;

	g_assert_cmpint(ledger_new(&l), ==, 0);
	say(l, 0, 20);
	g_assert_cmpint(pread(ledger_fd(l), &tip, sizeof(tip), 24), ==, sizeof(tip));
	for (u64 size = 0; size <= tip >> 1; size++) {
		const u64 cut = size << 1 | (tip & 1);
		Ledger *next;
		char last = '\n';

		g_assert_cmpint(pwrite(ledger_fd(l), &cut, sizeof(cut), 24), ==, sizeof(cut));
		if (size)
			g_assert_cmpint(pread(ledger_fd(l), &last, 1, (off_t)(HEAD + size - 1)), ==, 1);
		next = after_death(l);
		all = lines_of(next, &damage);
		for (u32 i = 0; i < all->len; i++) {
			g_autofree char *text = g_strdup_printf("line number=%u", i);

			g_assert_cmpstr(g_ptr_array_index(all, i), ==, text);
		}
		/* without its newline only it is whole all the same */
		g_assert_cmpuint(damage.n_lines, <=, last != '\n');
		g_ptr_array_unref(all);
		(void)ledger_free(next);
	}
	(void)ledger_free(l);
}

/* Any byte of it changed: that line is left out, or two where it was a newline, and no other. */
static void test_damaged(void)
{
	LedgerDamage damage;
	Ledger *l, *next;
	u64 tip;

	g_assert_cmpint(ledger_new(&l), ==, 0);
	say(l, 0, 10);
	g_assert_cmpint(pread(ledger_fd(l), &tip, sizeof(tip), 24), ==, sizeof(tip));
	for (u64 at = 0; at < tip >> 1; at++) {
		GPtrArray *v;
		char was, is;

		g_assert_cmpint(pread(ledger_fd(l), &was, 1, (off_t)(HEAD + at)), ==, 1);
		is = (char)(was ^ (was == '\n' ? 0x20 : 0x41));
		g_assert_cmpint(pwrite(ledger_fd(l), &is, 1, (off_t)(HEAD + at)), ==, 1);
		next = after_death(l);
		v = lines_of(next, &damage);
		g_assert_cmpuint(v->len, ==, at == (tip >> 1) - 1 ? 9 : was == '\n' ? 8 : 9);
		g_assert_cmpuint(damage.n_lines, >=, 1);
		g_assert_cmpuint(damage.n_bytes, >, 0);
		g_ptr_array_unref(v);
		(void)ledger_free(next);
		g_assert_cmpint(pwrite(ledger_fd(l), &was, 1, (off_t)(HEAD + at)), ==, 1);
	}
	check_lines(l, 0, 10);
	(void)ledger_free(l);
}

static void test_strange(void)
{
	static const struct {
		off_t at;
		u64 value;
		int error;
	} heads[] = { { 0, 5, -EBADMSG }, { 8, 2, -EPROTONOSUPPORT }, { 24, UINT64_MAX, -EBADMSG },
		      { 24, (HALF + 1) << 1, -EBADMSG } };
	Ledger *l, *next;
	int fd;

	for (size_t i = 0; i < G_N_ELEMENTS(heads); i++) {
		g_assert_cmpint(ledger_new(&l), ==, 0);
		g_assert_cmpint(pwrite(ledger_fd(l), &heads[i].value, 8, heads[i].at), ==, 8);
		g_assert_cmpint(ledger_open(&next, fcntl(ledger_fd(l), F_DUPFD_CLOEXEC, 0)), ==, heads[i].error);
		(void)ledger_free(l);
	}
	fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	g_assert_cmpint(ledger_open(&next, fd), ==, -EBADMSG);
	g_assert_cmpint(ledger_new(&l), ==, 0);
	g_assert_cmpint(ledger_append(l, "two\nlines"), ==, -EINVAL);
	check_lines(l, 0, 0);
	(void)ledger_free(l);
}

/* No memory for a line: it is not there, those before are, and it goes on once there is. */
static void test_full(void)
{
	struct rlimit was, less;
	Ledger *l;

	g_assert_cmpint(ledger_new(&l), ==, 0);
	say(l, 0, 5);
	(void)signal(SIGXFSZ, SIG_IGN);
	g_assert_cmpint(getrlimit(RLIMIT_FSIZE, &was), ==, 0);
	less = (struct rlimit){ HEAD, was.rlim_max };
	g_assert_cmpint(setrlimit(RLIMIT_FSIZE, &less), ==, 0);
	g_assert_cmpint(ledger_append(l, "line number=5"), <, 0);
	check_lines(l, 0, 5);
	g_assert_cmpint(setrlimit(RLIMIT_FSIZE, &was), ==, 0);
	say(l, 5, 5);
	check_lines(l, 0, 10);
	(void)ledger_free(l);
}

static void test_notes(void)
{
	Ledger *l, *next;

	g_assert_cmpint(ledger_new(&l), ==, 0);
	next = after_death(l);
	g_assert_cmpuint(ledger_faults(next), ==, 0);
	g_assert_false(ledger_ended(next));
	g_assert_cmpuint(ledger_missed(next), ==, 0);
	(void)ledger_free(next);
	for (u32 i = 1; i <= 3; i++) {
		ledger_note_fault(l);
		ledger_note_fault(l); /* a handler that was in two threads */
		next = after_death(l);
		g_assert_cmpuint(ledger_faults(next), ==, i);
		g_assert_cmpuint(ledger_faults(next), ==, i);
		(void)ledger_free(next);
	}
	ledger_healthy(l);
	g_assert_cmpuint(ledger_faults(l), ==, 0);
	ledger_note_missed(l, 3);
	ledger_note_missed(l, 4);
	ledger_note_end(l);
	next = after_death(l);
	g_assert_cmpuint(ledger_missed(next), ==, 7);
	g_assert_true(ledger_ended(next));
	ledger_complete(next, false);
	g_assert_cmpuint(ledger_missed(l), ==, 0);
	g_assert_true(ledger_ended(l));
	ledger_complete(next, true);
	g_assert_false(ledger_ended(l));
	ledger_note_missed(l, UINT32_MAX);
	ledger_note_missed(l, 1);
	g_assert_cmpuint(ledger_missed(l), ==, UINT32_MAX);
	(void)ledger_free(next);
	(void)ledger_free(l);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/ledger/rewrite", test_rewrite);
	g_test_add_func("/ledger/due", test_due);
	g_test_add_func("/ledger/large", test_large);
	g_test_add_func("/ledger/truncated", test_truncated);
	g_test_add_func("/ledger/damaged", test_damaged);
	g_test_add_func("/ledger/strange", test_strange);
	g_test_add_func("/ledger/full", test_full);
	g_test_add_func("/ledger/notes", test_notes);
	return g_test_run();
}
