/* SPDX-License-Identifier: MIT */
/* Quotas per user, and the classes that are charged by them. */
#include "daemon/account.h"
#include "daemon/classes.h"

#include <glib.h>

static Account *account_with(u64 total, u64 per_user)
{
	AccountLimits l = { .total[CHARGE_PRODUCERS] = total, .per_user[CHARGE_PRODUCERS] = per_user };
	Account *a;

	g_assert_cmpint(account_new(&a), ==, 0);
	account_set_limits(a, &l);
	return a;
}

static void test_limits(void)
{
	_cleanup_(account_freep) Account *a = account_with(5, 3);
	Failure f = FAILURE_NULL;

	for (int i = 0; i < 3; i++)
		g_assert_cmpint(account_charge(a, 1000, CHARGE_PRODUCERS, 1, &f), ==, 0);
	g_assert_cmpint(account_charge(a, 1000, CHARGE_PRODUCERS, 1, &f), ==, -EDQUOT);
	g_assert_cmpint(f.kind, ==, FAILURE_LIMIT);
	/* the sentence has the numbers and says which key to turn */
	g_assert_nonnull(strstr(f.text, "user 1000 has 3 of 3 producers and wants 1 more"));
	g_assert_nonnull(strstr(f.text, "max_producers_per_user"));
	g_assert_cmpint(account_charge(a, 1001, CHARGE_PRODUCERS, 3, &f), ==, -EDQUOT);
	g_assert_nonnull(strstr(f.text, "the daemon has 3 of 5"));
	g_assert_cmpint(account_charge(a, 1001, CHARGE_PRODUCERS, 2, &f), ==, 0);
	g_assert_cmpuint(account_total(a, CHARGE_PRODUCERS), ==, 5);
	account_release(a, 1000, CHARGE_PRODUCERS, 3);
	g_assert_cmpuint(account_of(a, 1000, CHARGE_PRODUCERS), ==, 0);
	g_assert_cmpint(account_charge(a, 1001, CHARGE_PRODUCERS, 1, &f), ==, 0);
	g_assert_cmpint(account_charge(a, 1001, CHARGE_PRODUCERS, UINT64_MAX, &f), ==, -EDQUOT);
}

static void test_lowered(void)
{
	_cleanup_(account_freep) Account *a = account_with(100, 100);
	AccountLimits l = { .total[CHARGE_PRODUCERS] = 2, .per_user[CHARGE_PRODUCERS] = 2 };

	g_assert_cmpint(account_charge(a, 1, CHARGE_PRODUCERS, 50, NULL), ==, 0);
	account_set_limits(a, &l);
	g_assert_cmpint(account_charge(a, 1, CHARGE_PRODUCERS, 1, NULL), ==, -EDQUOT);
	account_release(a, 1, CHARGE_PRODUCERS, 49);
	g_assert_cmpint(account_charge(a, 1, CHARGE_PRODUCERS, 1, NULL), ==, 0);
	/* more given back than was taken does not wrap */
	account_release(a, 1, CHARGE_PRODUCERS, 1000);
	g_assert_cmpuint(account_total(a, CHARGE_PRODUCERS), ==, 0);
}

static void test_log(void)
{
	_cleanup_(account_freep) Account *a = account_with(0, 0);
	u64 swallowed = 99, t = NSEC_PER_SEC;

	g_assert_true(account_may_log(a, 7, t, &swallowed));
	g_assert_cmpuint(swallowed, ==, 0);
	for (int i = 0; i < 12; i++)
		g_assert_false(account_may_log(a, 7, t + (u64)i, &swallowed));
	g_assert_true(account_may_log(a, 8, t, &swallowed)); /* another user has its own */
	g_assert_true(account_may_log(a, 7, t + 11 * NSEC_PER_SEC, &swallowed));
	g_assert_cmpuint(swallowed, ==, 12);
	account_sweep(a, t + 12 * NSEC_PER_SEC);
	g_assert_cmpuint(account_n_users(a), ==, 1);
	account_sweep(a, t + 60 * NSEC_PER_SEC);
	g_assert_cmpuint(account_n_users(a), ==, 0);
}

/* A flood of uids that hold nothing does not grow the table for ever. */
static void test_log_flood(void)
{
	_cleanup_(account_freep) Account *a = account_with(0, 0);
	u64 swallowed;

	for (u32 uid = 0; uid < 100000; uid++)
		(void)account_may_log(a, uid, NSEC_PER_SEC, &swallowed);
	g_assert_cmpuint(account_n_users(a), <=, 4096);
}

static struct event_class *class_make(const char *name, u8 level)
{
	size_t n = strlen(name) + 1;
	struct event_class *c = calloc(1, sizeof(*c) + 2 + n);

	c->provider = (char *)(c + 1);
	strcpy(c->provider, "p");
	c->name = c->provider + 2;
	memcpy(c->name, name, n);
	c->level = level;
	return c;
}

static void test_classes(void)
{
	AccountLimits l = { .per_user[CHARGE_CLASSES] = 1000 };
	_cleanup_(account_freep) Account *a = NULL;
	Class *held[1000], *twin;
	Failure f = FAILURE_NULL;
	Classes *c;
	char name[32];

	g_assert_cmpint(account_new(&a), ==, 0);
	account_set_limits(a, &l);
	g_assert_cmpint(classes_new(&c, a), ==, 0);
	for (u32 i = 0; i < 1000; i++) {
		g_snprintf(name, sizeof(name), "event_%u", i);
		g_assert_cmpint(classes_intern(c, 5, class_make(name, 6), &held[i], &f), ==, 0);
	}
	g_assert_cmpint(classes_intern(c, 5, class_make("one_more", 6), &twin, &f), ==, -EDQUOT);
	/* the same again costs nothing and is the same object; another user's is another */
	g_assert_cmpint(classes_intern(c, 5, class_make("event_7", 6), &twin, &f), ==, 0);
	g_assert_true(twin == held[7]);
	(void)class_unref(twin);
	g_assert_cmpint(classes_intern(c, 6, class_make("event_7", 6), &twin, &f), ==, 0);
	g_assert_true(twin != held[7]);
	g_assert_true(class_same(twin, held[7]));
	(void)class_unref(twin);
	/* holes in the table must not hide what lies behind them */
	for (u32 i = 0; i < 1000; i += 2)
		(void)class_unref(held[i]);
	g_assert_cmpuint(classes_n(c), ==, 500);
	for (u32 i = 1; i < 1000; i += 2) {
		g_snprintf(name, sizeof(name), "event_%u", i);
		g_assert_cmpint(classes_intern(c, 5, class_make(name, 6), &twin, &f), ==, 0);
		g_assert_true(twin == held[i]);
		(void)class_unref(twin);
		(void)class_unref(held[i]);
	}
	g_assert_cmpuint(classes_n(c), ==, 0);
	g_assert_cmpuint(account_of(a, 5, CHARGE_CLASSES), ==, 0);
	(void)classes_free(c);
}

/* A tenth of the loop is anybody's, a burst comes on top, and a debt is paid by waiting, not by going away and coming back. */
static void test_share(void)
{
	_cleanup_(account_freep) Account *a = NULL;
	const u64 ms = NSEC_PER_MSEC;
	Failure f;

	g_assert_cmpint(account_new(&a), ==, 0);
	account_spend(a, 7, 1000 * ms, 500 * ms); /* unknown: holds nothing */
	g_assert_false(account_overdrawn(a, 7, 1000 * ms));
	g_assert_cmpint(account_charge(a, 7, CHARGE_CONNECTIONS, 1, &f), ==, 0);
	g_assert_cmpint(account_charge(a, 8, CHARGE_CONNECTIONS, 1, &f), ==, 0);
	/* 8 % of the time for a minute */
	for (u64 t = 0; t < 60000; t += 100)
		account_spend(a, 8, t * ms, 8 * ms);
	g_assert_false(account_overdrawn(a, 8, 60000 * ms));
	account_spend(a, 7, 60000 * ms, 49 * ms);
	g_assert_false(account_overdrawn(a, 7, 60000 * ms));
	account_spend(a, 7, 60000 * ms, 5000 * ms);
	g_assert_true(account_overdrawn(a, 7, 60000 * ms));
	g_assert_false(account_overdrawn(a, 8, 60000 * ms));
	account_release(a, 7, CHARGE_CONNECTIONS, 1);
	account_sweep(a, 60000 * ms);
	g_assert_true(account_overdrawn(a, 7, 60400 * ms));
	g_assert_false(account_overdrawn(a, 7, 60600 * ms));
	account_sweep(a, 62000 * ms);
	g_assert_cmpuint(account_n_users(a), ==, 1);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/account/limits", test_limits);
	g_test_add_func("/account/lowered", test_lowered);
	g_test_add_func("/account/log", test_log);
	g_test_add_func("/account/log-flood", test_log_flood);
	g_test_add_func("/account/share", test_share);
	g_test_add_func("/classes/pool", test_classes);
	return g_test_run();
}
