/* SPDX-License-Identifier: MIT */
/* One crash is one snapshot, and a crash loop does not fill the disk. */
#include "daemon/triggers.h"

#include <glib.h>

#define S NSEC_PER_SEC

static Cause died(CauseKind kind, pid_t pid, const char *unit)
{
	return (Cause){ kind, pid, (u64)pid * 10, unit };
}

static Cause crash(pid_t pid, const char *unit)
{
	return died(CAUSE_CRASH, pid, unit);
}

static Cause failed(const char *unit)
{
	return (Cause){ .kind = CAUSE_UNIT, .unit = unit };
}

static Verdict decide(Triggers *t, Cause c, u64 now)
{
	Sign *s;

	return triggers_decide(t, &c, now, 10 * S, &s);
}

static void test_signs_of_one_death(void)
{
	Triggers t = {};

	g_assert_cmpint(decide(&t, crash(7, "a.service"), 100 * S), ==, VERDICT_FIRE);
	g_assert_cmpint(decide(&t, failed("a.service"), 103 * S), ==, VERDICT_DUPLICATE);
	g_assert_cmpint(decide(&t, crash(7, "a.service"), 104 * S), ==, VERDICT_DUPLICATE);
	/* the other order */
	g_assert_cmpint(decide(&t, failed("b.service"), 200 * S), ==, VERDICT_FIRE);
	g_assert_cmpint(decide(&t, crash(8, "b.service"), 200 * S + 1), ==, VERDICT_DUPLICATE);
	/* long after, it is another failure */
	g_assert_cmpint(decide(&t, failed("a.service"), 300 * S), ==, VERDICT_FIRE);
}

/* Whoever finds the death, in whatever way, finds the snapshot of it. */
static void test_ways_to_die(void)
{
	static const CauseKind kinds[] = { CAUSE_CRASH, CAUSE_EXIT, CAUSE_DEATH, CAUSE_COREDUMP };
	Triggers t = {};

	for (u32 i = 0; i < G_N_ELEMENTS(kinds); i++) {
		pid_t pid = (pid_t)(i + 1);
		u64 at = (i + 1) * 1000 * S;
		Cause c = died(kinds[i], pid, "");
		Sign *first, *later;

		g_assert_cmpint(triggers_decide(&t, &c, at, 10 * S, &first), ==, VERDICT_FIRE);
		first->snapshot = 40 + i;
		for (u32 k = 0; k < G_N_ELEMENTS(kinds); k++) {
			c = died(kinds[k], pid, "");
			if (kinds[k] == CAUSE_COREDUMP)
				c.start_time = 0;
			g_assert_cmpint(triggers_decide(&t, &c, at + 1, 10 * S, &later), ==, VERDICT_DUPLICATE);
			g_assert_cmpuint(later->snapshot, ==, 40 + i);
		}
	}
	/* another process of that number is another one */
	g_assert_cmpint(decide(&t, (Cause){ CAUSE_CRASH, 4, 77, "" }, 4000 * S + 2), ==, VERDICT_FIRE);
}

/* A handler speaks, then a minute of core dump, then all else. */
static void test_long_dump(void)
{
	Triggers t = {};

	g_assert_cmpint(decide(&t, crash(7, "a.service"), 100 * S), ==, VERDICT_FIRE);
	g_assert_cmpint(decide(&t, crash(7, "a.service"), 190 * S), ==, VERDICT_DUPLICATE);
	g_assert_cmpint(decide(&t, failed("a.service"), 191 * S), ==, VERDICT_DUPLICATE);
	/* it was no death after all: what it does much later is news */
	g_assert_cmpint(decide(&t, crash(7, "a.service"), 400 * S), ==, VERDICT_FIRE);
}

static void test_loop(void)
{
	u32 fired = 0, suppressed = 0;
	Triggers t = {};

	/* a unit that dies twice a second for a minute: 10 s apart is all that is taken */
	for (u32 i = 0; i < 120; i++) {
		u64 now = 1000 * S + i * S / 2;

		switch (decide(&t, crash(100 + (pid_t)i, "loop.service"), now)) {
		case VERDICT_FIRE:
			g_assert_cmpuint(triggers_take(&t, CAUSE_CRASH), ==, i ? 19 : 0);
			fired++;
			break;
		case VERDICT_SUPPRESS:
			suppressed++;
			break;
		case VERDICT_DUPLICATE:
			g_assert_not_reached();
		}
		g_assert_cmpint(decide(&t, failed("loop.service"), now + 1), ==, VERDICT_DUPLICATE);
	}
	g_assert_cmpuint(fired, ==, 6);
	g_assert_cmpuint(suppressed, ==, 114);
	g_assert_cmpuint(t.of[CAUSE_CRASH].total, ==, 114);
	g_assert_cmpuint(t.of[CAUSE_UNIT].total, ==, 0);
	/* the last ones are said when no more can follow */
	g_assert_cmpuint(triggers_settle(&t, CAUSE_CRASH, 1059 * S, 10 * S), ==, 0);
	g_assert_cmpuint(triggers_settle(&t, CAUSE_CRASH, 1061 * S, 10 * S), ==, 19);
	g_assert_cmpuint(triggers_settle(&t, CAUSE_CRASH, 1062 * S, 10 * S), ==, 0);
	g_assert_cmpuint(triggers_take(&t, CAUSE_CRASH), ==, 19);
	triggers_reset(&t);
	g_assert_cmpuint(t.of[CAUSE_CRASH].total, ==, 0);
}

/* The unit's failure after a crash that came too soon is a sign of that crash, and not counted again; it has no snapshot,
 * although the crash before it in the same unit has one. */
static void test_suppressed_sign(void)
{
	Cause c = crash(1, "x.service");
	Triggers t = {};
	Sign *s;

	g_assert_cmpint(triggers_decide(&t, &c, 50 * S, 10 * S, &s), ==, VERDICT_FIRE);
	s->snapshot = 3;
	g_assert_cmpint(decide(&t, crash(2, "x.service"), 51 * S), ==, VERDICT_SUPPRESS);
	c = failed("x.service");
	g_assert_cmpint(triggers_decide(&t, &c, 52 * S, 10 * S, &s), ==, VERDICT_DUPLICATE);
	g_assert_cmpuint(s->snapshot, ==, 0);
}

/* systemd may speak first: a death belongs to the failure of its own life, not to that of the one before. */
static void test_lives(void)
{
	Cause c = { CAUSE_UNIT, 100, 0, "x.service" };
	Triggers t = {};
	Sign *s;

	g_assert_cmpint(triggers_decide(&t, &c, 50 * S, 0, &s), ==, VERDICT_FIRE);
	g_assert_cmpint(decide(&t, crash(100, "x.service"), 50 * S + 1), ==, VERDICT_DUPLICATE);
	c = crash(101, "x.service");
	g_assert_cmpint(triggers_decide(&t, &c, 51 * S, 0, &s), ==, VERDICT_FIRE);
	/* who does not say which process it was, is believed for the first that is told of */
	g_assert_cmpint(decide(&t, failed("y.service"), 70 * S), ==, VERDICT_FIRE);
	g_assert_cmpint(decide(&t, crash(200, "y.service"), 71 * S), ==, VERDICT_DUPLICATE);
	c = crash(201, "y.service");
	g_assert_cmpint(triggers_decide(&t, &c, 72 * S, 0, &s), ==, VERDICT_FIRE);
	/* a worker that crashed, and the whole that fails for it */
	g_assert_cmpint(decide(&t, crash(301, "z.service"), 90 * S), ==, VERDICT_FIRE);
	g_assert_cmpint(decide(&t, (Cause){ CAUSE_UNIT, 300, 0, "z.service" }, 91 * S), ==, VERDICT_DUPLICATE);
}

/* Each kind has an interval of its own: what a program asks for does not cost its crash the snapshot. */
static void test_kinds(void)
{
	Cause c = { CAUSE_PROGRAM, 5, 50, "a.service" };
	Triggers t = {};
	Sign *s;

	g_assert_cmpint(decide(&t, c, 10 * S), ==, VERDICT_FIRE);
	g_assert_cmpint(decide(&t, c, 11 * S), ==, VERDICT_SUPPRESS);
	g_assert_cmpint(decide(&t, died(CAUSE_EVENT, 5, "a.service"), 11 * S), ==, VERDICT_FIRE);
	g_assert_cmpint(decide(&t, crash(5, "a.service"), 12 * S), ==, VERDICT_FIRE);
	g_assert_cmpint(decide(&t, died(CAUSE_EXIT, 6, "a.service"), 12 * S), ==, VERDICT_FIRE);
	g_assert_cmpint(decide(&t, crash(7, "a.service"), 13 * S), ==, VERDICT_SUPPRESS);
	g_assert_cmpint(triggers_decide(&t, &c, 13 * S, 0, &s), ==, VERDICT_FIRE); /* no interval: always */
	for (u32 i = 0; i < CAUSE_KINDS; i++)
		g_assert_nonnull(cause_name(i));
}

/* No unit is no unit: two programs without one are not the same. */
static void test_nameless(void)
{
	Triggers t = {};

	g_assert_cmpint(decide(&t, crash(1, ""), 10 * S), ==, VERDICT_FIRE);
	g_assert_cmpint(decide(&t, failed(""), 30 * S), ==, VERDICT_FIRE);
	g_assert_cmpint(decide(&t, crash(2, NULL), 50 * S), ==, VERDICT_FIRE);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/triggers/signs-of-one-death", test_signs_of_one_death);
	g_test_add_func("/triggers/ways-to-die", test_ways_to_die);
	g_test_add_func("/triggers/long-dump", test_long_dump);
	g_test_add_func("/triggers/loop", test_loop);
	g_test_add_func("/triggers/suppressed-sign", test_suppressed_sign);
	g_test_add_func("/triggers/lives", test_lives);
	g_test_add_func("/triggers/kinds", test_kinds);
	g_test_add_func("/triggers/nameless", test_nameless);
	return g_test_run();
}
