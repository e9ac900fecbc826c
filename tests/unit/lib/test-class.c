/* SPDX-License-Identifier: MIT */
#include "lib/class.h"

#include <glib.h>

typedef struct {
	u8 bytes[70000];
	size_t n;
} Encoded;

static void add(Encoded *e, const void *p, size_t n)
{
	memcpy(e->bytes + e->n, p, n);
	e->n += n;
	if (e->n >= 4) {
		u16 length = (u16)e->n;

		memcpy(e->bytes, &length, 2);
	}
}

static void begin(Encoded *e, u8 level, u8 n_fields, const char *provider, const char *name)
{
	u8 head[4] = {0, 0, level, n_fields};

	e->n = 0;
	add(e, head, 4);
	add(e, provider, strlen(provider) + 1);
	add(e, name, strlen(name) + 1);
}

static void field(Encoded *e, u8 type, u8 shape, u16 count, const char *name)
{
	u8 head[4] = {type, shape, (u8)count, (u8)(count >> 8)};

	add(e, head, 4);
	add(e, name, strlen(name) + 1);
}

/* In memory of exactly that size, so that a read beyond it is seen by the sanitizer. */
static int decode(const Encoded *e, size_t n, struct event_class **ret)
{
	g_autofree u8 *copy = g_memdup2(e->bytes, n);

	return class_decode(ret, copy, n);
}

static int refused(const Encoded *e)
{
	struct event_class *c = NULL;
	int r = decode(e, e->n, &c);

	if (r >= 0)
		free(c);
	return r;
}

static void whole(void)
{
	_cleanup_free_ struct event_class *a = NULL, *b = NULL, *d = NULL;
	Encoded e;

	begin(&e, TRACER_INFO, 3, "shop.eu-1", "order_placed");
	field(&e, TRACER_TYPE_U64, TRACER_SHAPE_ONE, 0, "order_id");
	field(&e, TRACER_TYPE_F32, TRACER_SHAPE_FIXED, 300, "prices");
	field(&e, TRACER_TYPE_BYTE, TRACER_SHAPE_VAR, 0, "blob");
	g_assert_cmpint(decode(&e, e.n, &a), ==, (int)e.n);
	g_assert_cmpstr(a->provider, ==, "shop.eu-1");
	g_assert_cmpstr(a->name, ==, "order_placed");
	g_assert_cmpint(a->level, ==, TRACER_INFO);
	g_assert_cmpint(a->n_fields, ==, 3);
	g_assert_cmpstr(a->fields[0].name, ==, "order_id");
	g_assert_cmpint(a->fields[0].type, ==, TRACER_TYPE_U64);
	g_assert_cmpint(a->fields[1].count, ==, 300);
	g_assert_cmpint(a->fields[1].shape, ==, TRACER_SHAPE_FIXED);
	g_assert_cmpstr(a->fields[2].name, ==, "blob");

	/* what follows belongs to the next class */
	g_assert_cmpint(decode(&e, e.n + 50, &b), ==, (int)e.n);
	g_assert_true(class_equal(a, b));
	begin(&e, TRACER_INFO, 2, "shop.eu-1", "order_placed");
	field(&e, TRACER_TYPE_U64, TRACER_SHAPE_ONE, 0, "order_id");
	field(&e, TRACER_TYPE_F32, TRACER_SHAPE_FIXED, 301, "prices");
	g_assert_cmpint(decode(&e, e.n, &d), ==, (int)e.n);
	g_assert_false(class_equal(a, d));
	/* cut anywhere */
	for (size_t i = 0; i < e.n; i++) {
		struct event_class *c;

		g_assert_cmpint(decode(&e, i, &c), ==, -EBADMSG);
	}
}

static void equality(void)
{
	static const struct {
		u8 level;
		const char *provider, *name;
		u8 type, shape;
		u16 count;
		const char *field;
	} cases[] = {
	    {6, "p", "n", TRACER_TYPE_U8, TRACER_SHAPE_FIXED, 2, "f"},
	    {7, "p", "n", TRACER_TYPE_U8, TRACER_SHAPE_FIXED, 2, "f"},
	    {6, "q", "n", TRACER_TYPE_U8, TRACER_SHAPE_FIXED, 2, "f"},
	    {6, "p", "m", TRACER_TYPE_U8, TRACER_SHAPE_FIXED, 2, "f"},
	    {6, "p", "n", TRACER_TYPE_I8, TRACER_SHAPE_FIXED, 2, "f"},
	    {6, "p", "n", TRACER_TYPE_U8, TRACER_SHAPE_FIXED, 3, "f"},
	    {6, "p", "n", TRACER_TYPE_U8, TRACER_SHAPE_VAR, 0, "f"},
	    {6, "p", "n", TRACER_TYPE_U8, TRACER_SHAPE_FIXED, 2, "g"},
	};
	struct event_class *c[G_N_ELEMENTS(cases)];

	for (u32 i = 0; i < G_N_ELEMENTS(cases); i++) {
		Encoded e;

		begin(&e, cases[i].level, 1, cases[i].provider, cases[i].name);
		field(&e, cases[i].type, cases[i].shape, cases[i].count, cases[i].field);
		g_assert_cmpint(decode(&e, e.n, &c[i]), >, 0);
	}
	for (u32 i = 0; i < G_N_ELEMENTS(cases); i++)
		for (u32 k = 0; k < G_N_ELEMENTS(cases); k++)
			g_assert_cmpint(class_equal(c[i], c[k]), ==, i == k);
	for (u32 i = 0; i < G_N_ELEMENTS(cases); i++)
		free(c[i]);
}

static void names(void)
{
	static const char *const bad[] = {"",         "1a",  "a b", "a:b", "a\n",
					  "\xc3\xa9", "a\"", "a/b", "*"};
	g_autofree char *longest = g_strnfill(CLASS_MAX_NAME, 'n'),
			*longer = g_strnfill(CLASS_MAX_NAME + 1, 'n');
	Encoded e;

	for (u32 i = 0; i < G_N_ELEMENTS(bad); i++) {
		begin(&e, 0, 0, bad[i], "name");
		g_assert_cmpint(refused(&e), ==, -EBADMSG);
		begin(&e, 0, 0, "provider", bad[i]);
		g_assert_cmpint(refused(&e), ==, -EBADMSG);
		begin(&e, 0, 1, "provider", "name");
		field(&e, TRACER_TYPE_U8, TRACER_SHAPE_ONE, 0, bad[i]);
		g_assert_cmpint(refused(&e), ==, -EBADMSG);
	}
	begin(&e, 0, 0, "a.b-c", "name");
	g_assert_cmpint(refused(&e), >, 0);
	begin(&e, 0, 0, "provider", "a.b");
	g_assert_cmpint(refused(&e), ==, -EBADMSG);
	begin(&e, 0, 0, ".a", "name");
	g_assert_cmpint(refused(&e), ==, -EBADMSG);
	begin(&e, 0, 0, longest, longest);
	g_assert_cmpint(refused(&e), >, 0);
	begin(&e, 0, 0, longer, "name");
	g_assert_cmpint(refused(&e), ==, -EBADMSG);
	begin(&e, 0, 0, "provider", longer);
	g_assert_cmpint(refused(&e), ==, -EBADMSG);

	begin(&e, 0, 2, "provider", "name");
	field(&e, TRACER_TYPE_U8, TRACER_SHAPE_ONE, 0, "twice");
	field(&e, TRACER_TYPE_U16, TRACER_SHAPE_ONE, 0, "twice");
	g_assert_cmpint(refused(&e), ==, -EBADMSG);
}

static void numbers(void)
{
	static const struct {
		u8 type, shape;
		u16 count;
		bool good;
	} cases[] = {
	    {0, TRACER_SHAPE_ONE, 0, false},
	    {16, TRACER_SHAPE_ONE, 0, false},
	    {255, TRACER_SHAPE_VAR, 0, false},
	    {TRACER_TYPE_U8, 3, 0, false},
	    {TRACER_TYPE_U8, TRACER_SHAPE_ONE, 1, false},
	    {TRACER_TYPE_U8, TRACER_SHAPE_FIXED, 0, false},
	    {TRACER_TYPE_U8, TRACER_SHAPE_VAR, 1, false},
	    {TRACER_TYPE_STR, TRACER_SHAPE_ONE, 0, true},
	    {TRACER_TYPE_STR, TRACER_SHAPE_FIXED, 2, false},
	    {TRACER_TYPE_STR, TRACER_SHAPE_VAR, 0, false},
	    {TRACER_TYPE_BYTE, TRACER_SHAPE_ONE, 0, false},
	    {TRACER_TYPE_BYTE, TRACER_SHAPE_FIXED, 16, true},
	    {TRACER_TYPE_BYTE, TRACER_SHAPE_VAR, 0, true},
	    {TRACER_TYPE_U64, TRACER_SHAPE_FIXED, 8191, true},
	    {TRACER_TYPE_U64, TRACER_SHAPE_FIXED, 8192, false}, /* larger than a record */
	};
	Encoded e;

	for (u32 i = 0; i < G_N_ELEMENTS(cases); i++) {
		begin(&e, 0, 1, "p", "n");
		field(&e, cases[i].type, cases[i].shape, cases[i].count, "f");
		g_assert_cmpint(refused(&e) > 0, ==, cases[i].good);
	}
	begin(&e, TRACER_DEBUG + 1, 0, "p", "n");
	g_assert_cmpint(refused(&e), ==, -EBADMSG);
	/* more said than there, and more there than said */
	begin(&e, 0, 1, "p", "n");
	g_assert_cmpint(refused(&e), ==, -EBADMSG);
	begin(&e, 0, 0, "p", "n");
	field(&e, TRACER_TYPE_U8, TRACER_SHAPE_ONE, 0, "f");
	g_assert_cmpint(refused(&e), ==, -EBADMSG);
	/* as many as there may be, and one more */
	for (u8 n = CLASS_MAX_FIELDS; n <= CLASS_MAX_FIELDS + 1; n++) {
		begin(&e, 0, n, "p", "n");
		for (u8 i = 0; i < n; i++) {
			char name[8];

			g_snprintf(name, sizeof(name), "f%u", i);
			field(&e, TRACER_TYPE_U8, TRACER_SHAPE_ONE, 0, name);
		}
		g_assert_cmpint(refused(&e) > 0, ==, n == CLASS_MAX_FIELDS);
	}
}

static void noise(void)
{
	for (u32 i = 0; i < 300000; i++) {
		Encoded e;
		struct event_class *c;

		begin(&e, 1, 2, "p", "n");
		field(&e, TRACER_TYPE_U8, TRACER_SHAPE_ONE, 0, "a");
		field(&e, TRACER_TYPE_U16, TRACER_SHAPE_FIXED, 2, "b");
		for (u32 k = (u32)g_test_rand_int_range(1, 5); k; k--)
			e.bytes[g_test_rand_int_range(0, (gint32)e.n)] = (u8)g_test_rand_int();
		if (decode(&e, e.n, &c) > 0)
			free(c);
	}
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/class/whole", whole);
	g_test_add_func("/class/equal", equality);
	g_test_add_func("/class/names", names);
	g_test_add_func("/class/numbers", numbers);
	g_test_add_func("/class/noise", noise);
	return g_test_run();
}
