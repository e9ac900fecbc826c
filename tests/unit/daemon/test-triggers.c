/* SPDX-License-Identifier: MIT */
/* One crash is one snapshot, and a crash loop does not fill the disk. */
#include "daemon/triggers.h"

#include <glib.h>

#define S NSEC_PER_SEC

static Cause crash(pid_t pid, const char *unit)
{
	return (Cause){ CAUSE_CRASH, pid, (u64)pid * 10, unit };
}

static Cause failed(const char *unit)
{
	return (Cause){ .kind = CAUSE_UNIT, .unit = unit };
}

static Verdict decide(Triggers *t, Cause c, u64 now)
{
	return triggers_decide(t, &c, now, 10 * S);
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

static void test_loop(void)
{
	Triggers t = {};
	u32 fired = 0, suppressed = 0;

	/* a unit that dies twice a second for a minute: 10 s apart is all that is taken */
	for (u32 i = 0; i < 120; i++) {
		switch (decide(&t, crash(100 + (pid_t)i, "loop.service"), 1000 * S + i * S / 2)) {
		case VERDICT_FIRE:
			fired++;
			break;
		case VERDICT_SUPPRESS:
			suppressed++;
			break;
		case VERDICT_DUPLICATE:
			g_assert_not_reached();
		}
	}
	g_assert_cmpuint(fired, ==, 6);
	g_assert_cmpuint(suppressed, ==, 114);
}

/* The unit's failure after a crash that came too soon is a sign of that crash, and not counted again. */
static void test_suppressed_sign(void)
{
	Triggers t = {};

	g_assert_cmpint(decide(&t, crash(1, "x.service"), 50 * S), ==, VERDICT_FIRE);
	g_assert_cmpint(decide(&t, crash(2, "y.service"), 51 * S), ==, VERDICT_SUPPRESS);
	g_assert_cmpint(decide(&t, failed("y.service"), 52 * S), ==, VERDICT_DUPLICATE);
}

static void test_program(void)
{
	Triggers t = {};
	Cause c = { CAUSE_PROGRAM, 5, 50, "a.service" };

	g_assert_cmpint(decide(&t, c, 10 * S), ==, VERDICT_FIRE);
	g_assert_cmpint(decide(&t, c, 11 * S), ==, VERDICT_SUPPRESS);
	/* its crash a little later is news, though too soon */
	g_assert_cmpint(decide(&t, crash(5, "a.service"), 12 * S), ==, VERDICT_SUPPRESS);
	g_assert_cmpint(triggers_decide(&t, &c, 13 * S, 0), ==, VERDICT_FIRE); /* no interval: always */
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
	g_test_add_func("/triggers/loop", test_loop);
	g_test_add_func("/triggers/suppressed-sign", test_suppressed_sign);
	g_test_add_func("/triggers/program", test_program);
	g_test_add_func("/triggers/nameless", test_nameless);
	return g_test_run();
}
