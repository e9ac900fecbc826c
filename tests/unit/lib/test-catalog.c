/* SPDX-License-Identifier: MIT */
/* The classes of a process: each once, under one number, in bytes that the daemon's decoder takes.
 */
#include "lib/catalog.h"

#include "lib/class.h"

#include <glib.h>
#include <sys/wait.h>

static const struct tracer_field two[] = {
    {"a", TRACER_TYPE_U32, TRACER_SHAPE_ONE, 0},
    {"b", TRACER_TYPE_U16, TRACER_SHAPE_FIXED, 7},
    {NULL, 0, 0, 0},
};
static const struct tracer_field none[] = {{NULL, 0, 0, 0}};

static u32 add(const char *provider, const char *name, u8 level, const struct tracer_field *fields)
{
	struct tracer_event e = {
	    .provider = provider, .name = name, .level = level, .fields = fields};
	struct tracer_state *state = NULL;

	g_assert_cmpint(catalog_add(&e, &state), ==, 0);
	return (u32)(state - process.states);
}

static struct event_class *decoded(u32 i)
{
	struct event_class *c;
	u32 size;
	const u8 *p = catalog_class(i, &size);

	g_assert_cmpint(class_decode(&c, p, size), ==, (int)size);
	return c;
}

static void once(void)
{
	char provider[] = "p", name[] = "n";
	u32 a = add("p", "n", 3, two);
	_cleanup_free_ struct event_class *c = NULL;

	g_assert_cmpint(add(provider, name, 3, two), ==, a);
	g_assert_cmpint(add("p", "n", 4, two), !=, a);
	g_assert_cmpint(add("p", "n", 3, none), !=, a);
	g_assert_cmpint(add("q", "n", 3, two), !=, a);
	g_assert_cmpint(catalog_count(), ==, 4);
	c = decoded(a);
	g_assert_cmpstr(c->provider, ==, "p");
	g_assert_cmpint(c->level, ==, 3);
	g_assert_cmpint(c->n_fields, ==, 2);
	g_assert_cmpint(c->fields[1].count, ==, 7);
}

static void too_long(void)
{
	g_autofree char *name = g_strnfill(20000, 'x');
	struct tracer_event e = {.provider = "p", .name = name, .fields = none};
	struct tracer_state *state;

	g_assert_cmpint(catalog_add(&e, &state), ==, -E2BIG);
}

static gpointer adder(gpointer data)
{
	u32 *numbers = data;

	for (u32 i = 0; i < 2000; i++) {
		char name[32];

		g_snprintf(name, sizeof(name), "name%u", i);
		numbers[i] = add("threads", name, 6, two);
	}
	return NULL;
}

/* Threads that add the same agree on the numbers; and a child that is forked meanwhile is not
 * stuck. */
static void together(void)
{
	static u32 numbers[3][2000];
	GThread *t[3];
	u32 before = catalog_count();

	for (u32 i = 0; i < 3; i++)
		t[i] = g_thread_new("adder", adder, numbers[i]);
	for (u32 i = 0; i < 20; i++) {
		pid_t pid = fork();
		int status;

		if (pid == 0) {
			alarm(10);
			(void)add("child", "n", 1, none);
			(void)add("threads", "name1999", 6, two);
			_exit(0);
		}
		g_assert_cmpint(waitpid(pid, &status, 0), ==, pid);
		g_assert_cmpint(status, ==, 0);
	}
	for (u32 i = 0; i < 3; i++)
		g_thread_join(t[i]);
	g_assert_cmpint(catalog_count() - before, ==, 2000);
	g_assert_cmpmem(numbers[0], sizeof(numbers[0]), numbers[1], sizeof(numbers[1]));
	g_assert_cmpmem(numbers[0], sizeof(numbers[0]), numbers[2], sizeof(numbers[2]));
	for (u32 i = 0; i < 2000; i++) {
		_cleanup_free_ struct event_class *c = NULL;
		char name[32];

		g_snprintf(name, sizeof(name), "name%u", i);
		c = decoded(numbers[0][i]);
		g_assert_cmpstr(c->name, ==, name);
	}
}

static void full(void)
{
	struct tracer_event e = {.provider = "p", .name = "one_more", .fields = none};
	struct tracer_state *state;

	for (u32 i = 0; catalog_count() < WIRE_MAX_CLASSES; i++) {
		char name[32];

		g_snprintf(name, sizeof(name), "full%u", i);
		(void)add("p", name, 6, two);
	}
	g_assert_cmpint(catalog_add(&e, &state), ==, -E2BIG);
	/* those that are there are found */
	g_assert_cmpint(add("p", "full0", 6, two), <, WIRE_MAX_CLASSES);
}

int main(int argc, char **argv)
{
	g_assert_cmpint(fork_prepare(), ==, 0);
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/catalog/once", once);
	g_test_add_func("/catalog/too-long", too_long);
	g_test_add_func("/catalog/together", together);
	g_test_add_func("/catalog/full", full);
	return g_test_run();
}
