/* SPDX-License-Identifier: MIT */
/* An id means its class for as long as a record with it may be in a ring. */
#include "daemon/ids.h"
#include "lib/abi.h"

#include <glib.h>

typedef struct {
	Account *account;
	Classes *classes;
	Ids ids;
} Fixture;

static void up(Fixture *x, gconstpointer data)
{
	g_assert_cmpint(account_new(&x->account), ==, 0);
	g_assert_cmpint(classes_new(&x->classes, x->account), ==, 0);
}

static void down(Fixture *x, gconstpointer data)
{
	ids_clear(&x->ids);
	g_assert_cmpuint(classes_n(x->classes), ==, 0);
	(void)classes_free(x->classes);
	(void)account_free(x->account);
}

static u16 get(Fixture *x, uid_t uid, u32 n)
{
	struct event_class *c = calloc(1, sizeof(*c) + 32);
	Class *class;
	u16 id = 0;

	c->provider = (char *)(c + 1);
	strcpy(c->provider, "p");
	c->name = c->provider + 2;
	g_snprintf(c->name, 24, "e%u", n);
	g_assert_cmpint(classes_intern(x->classes, uid, c, &class, NULL), ==, 0);
	if (ids_get(&x->ids, class, &id) < 0)
		id = 0;
	(void)class_unref(class);
	return id;
}

static void test_dense(Fixture *x, gconstpointer data)
{
	for (u32 i = 1; i <= 1000; i++)
		g_assert_cmpuint(get(x, 1, i), ==, i);
	for (u32 i = 1; i <= 1000; i++)
		g_assert_cmpuint(get(x, 1, i), ==, i);
	/* an equal class of another user is the same event */
	g_assert_cmpuint(get(x, 2, 500), ==, 500);
	g_assert_cmpstr(ids_entry(&x->ids, 7)->class->class->name, ==, "e7");
	g_assert_null(ids_entry(&x->ids, 0));
	g_assert_null(ids_entry(&x->ids, 1001));
}

static Epoch *epoch(u64 a, u64 b)
{
	Epoch *e;

	g_assert_cmpint(epoch_new(&e, 2), ==, 0);
	e->offset[0] = a;
	e->offset[1] = b;
	return e;
}

static void test_reuse(Fixture *x, gconstpointer data)
{
	IdSet one = {}, two = {};
	u64 first[2] = { 0, 0 };
	Epoch *e;

	g_assert_cmpuint(get(x, 1, 1), ==, 1);
	g_assert_cmpuint(get(x, 1, 2), ==, 2);
	g_assert_cmpint(ids_hold(&x->ids, &one, 1), ==, 0);
	g_assert_cmpint(ids_hold(&x->ids, &one, 1), ==, 0);
	g_assert_cmpint(ids_hold(&x->ids, &one, 2), ==, 0);
	g_assert_cmpint(ids_hold(&x->ids, &two, 2), ==, 0);
	e = epoch(4096, 0);
	ids_release(&x->ids, &one, e);
	(void)epoch_unref(e);
	ids_prune(&x->ids, first, 2);
	g_assert_nonnull(ids_entry(&x->ids, 1)); /* ring 0 still begins before that */
	first[0] = 4096;
	ids_prune(&x->ids, first, 2); /* ring 1 never held anything */
	g_assert_null(ids_entry(&x->ids, 1));
	g_assert_nonnull(ids_entry(&x->ids, 2)); /* the other program lives */
	e = epoch(8192, 8192);
	ids_release(&x->ids, &two, e);
	(void)epoch_unref(e);
	first[0] = 8192;
	ids_prune(&x->ids, first, 2);
	g_assert_nonnull(ids_entry(&x->ids, 2));
	first[1] = 8192;
	ids_prune(&x->ids, first, 2);
	g_assert_null(ids_entry(&x->ids, 2));
}

/* A class that comes back while its records are still there gets its old id, and is safe again. */
static void test_return(Fixture *x, gconstpointer data)
{
	u64 first[2] = { UINT64_MAX, UINT64_MAX };
	IdSet set = {};
	Epoch *e = epoch(4096, 4096);

	g_assert_cmpuint(get(x, 1, 1), ==, 1);
	g_assert_cmpint(ids_hold(&x->ids, &set, 1), ==, 0);
	ids_release(&x->ids, &set, e);
	(void)epoch_unref(e);
	g_assert_cmpuint(get(x, 1, 1), ==, 1);
	g_assert_cmpint(ids_hold(&x->ids, &set, 1), ==, 0);
	ids_prune(&x->ids, first, 2);
	g_assert_nonnull(ids_entry(&x->ids, 1));
	ids_release(&x->ids, &set, NULL); /* no memory for an epoch: kept for good */
	ids_prune(&x->ids, first, 2);
	g_assert_nonnull(ids_entry(&x->ids, 1));
}

static void test_exhausted(Fixture *x, gconstpointer data)
{
	u64 first[2] = { UINT64_MAX, UINT64_MAX };
	IdSet set = {};
	Epoch *e = epoch(64, 64);

	for (u32 i = 1; i <= ABI_ID_MAX; i++)
		g_assert_cmpuint(get(x, 1, i), ==, i);
	g_assert_cmpuint(get(x, 1, ABI_ID_MAX + 1), ==, 0);
	g_assert_cmpint(ids_hold(&x->ids, &set, 4711), ==, 0);
	ids_release(&x->ids, &set, e);
	(void)epoch_unref(e);
	ids_prune(&x->ids, first, 2);
	g_assert_cmpuint(get(x, 1, ABI_ID_MAX + 1), ==, 4711);
	g_assert_cmpuint(get(x, 1, ABI_ID_MAX + 2), ==, 0);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add("/ids/dense", Fixture, NULL, up, test_dense, down);
	g_test_add("/ids/reuse", Fixture, NULL, up, test_reuse, down);
	g_test_add("/ids/return", Fixture, NULL, up, test_return, down);
	g_test_add("/ids/exhausted", Fixture, NULL, up, test_exhausted, down);
	return g_test_run();
}
