/* SPDX-License-Identifier: MIT */
/* Pure decisions: what a session wants, which CPU has which ring, which clock, which failure. */
#include "daemon/clock.h"
#include "daemon/cpus.h"
#include "daemon/failure.h"
#include "daemon/locks.h"
#include "daemon/scope.h"

#include <glib.h>

static SessionConfig *session(const char *key, const char *const *values)
{
	ConfigValue v = { .type = CONFIG_STRINGS };
	SessionConfig *c;
	char *text = NULL;

	g_assert_cmpint(session_config_new(&c, "s"), ==, 0);
	if (!key)
		return c;
	v.strings = (Strings){ (char **)values, g_strv_length((char **)values) };
	g_assert_cmpint(session_config_set(c, key, &v, &text), ==, 0);
	return c;
}

static void add(SessionConfig *c, const char *key, const char *const *values)
{
	ConfigValue v = { .type = CONFIG_STRINGS };
	char *text = NULL;

	v.strings = (Strings){ (char **)values, g_strv_length((char **)values) };
	g_assert_cmpint(session_config_set(c, key, &v, &text), ==, 0);
}

#define STRINGS(...) ((const char *const[]){ __VA_ARGS__, NULL })

static void test_events(void)
{
	_cleanup_(session_config_freep) SessionConfig *c =
		session("events", STRINGS("shop:*", "libc:open*"));
	Scope s;

	add(c, "exclude", STRINGS("shop:noise"));
	c->level = 6;
	g_assert_cmpint(scope_init(&s, c, NULL), ==, 0);
	g_assert_true(scope_wants_event(&s, "shop", "order", 6));
	g_assert_false(scope_wants_event(&s, "shop", "order", 7));
	g_assert_false(scope_wants_event(&s, "shop", "noise", 1));
	g_assert_true(scope_wants_event(&s, "libc", "openat", 0));
	g_assert_false(scope_wants_event(&s, "libc", "read", 0));
	scope_clear(&s);
}

static void test_programs(void)
{
	_cleanup_(session_config_freep) SessionConfig *c = session("users", STRINGS("0", "no-such-user-x"));
	const char *unknown = NULL;
	Scope s;

	add(c, "units", STRINGS("nginx*.service"));
	add(c, "processes", STRINGS("ng*"));
	g_assert_cmpint(scope_init(&s, c, &unknown), ==, 0);
	g_assert_cmpstr(unknown, ==, "no-such-user-x");
	g_assert_true(scope_wants_program(&s, 0, "nginx", "nginx.service"));
	g_assert_false(scope_wants_program(&s, 1, "nginx", "nginx.service"));
	g_assert_false(scope_wants_program(&s, 0, "apache", "nginx.service"));
	g_assert_false(scope_wants_program(&s, 0, "nginx", ""));
	scope_clear(&s);
}

/* Only unknown users is nobody, not everybody. */
static void test_nobody(void)
{
	_cleanup_(session_config_freep) SessionConfig *c = session("users", STRINGS("no-such-user-x"));
	Scope s;

	g_assert_cmpint(scope_init(&s, c, NULL), ==, 0);
	g_assert_false(scope_wants_program(&s, 0, "a", ""));
	scope_clear(&s);
}

static void test_buckets(void)
{
	_cleanup_(session_config_freep) SessionConfig *c = session("events", STRINGS("shop:*", "libc"));
	u64 buckets[SCOPE_WORDS];
	u32 n = 0, shop = abi_bucket("shop"), libc = abi_bucket("libc");
	Scope s;

	g_assert_cmpint(scope_init(&s, c, NULL), ==, 0);
	scope_buckets(&s, buckets);
	for (u32 i = 0; i < SCOPE_WORDS; i++)
		n += (u32)__builtin_popcountll(buckets[i]);
	g_assert_cmpuint(n, ==, 2);
	g_assert_true(buckets[shop / 64] >> shop % 64 & 1);
	g_assert_true(buckets[libc / 64] >> libc % 64 & 1);
	add(c, "events", STRINGS("shop:*", "li?c:*"));
	scope_buckets(&s, buckets);
	for (u32 i = 0; i < SCOPE_WORDS; i++)
		g_assert_cmpuint(buckets[i], ==, UINT64_MAX);
	scope_clear(&s);
}

static void test_cpus(void)
{
	u64 set[ABI_MAX_CPUS / 64];
	Cpus *c = g_new0(Cpus, 1);

	g_assert_cmpint(cpus_parse("0-3,8,62-65\n", set), ==, 0);
	g_assert_cmpuint(set[0], ==, 0xfull | 1 << 8 | 3ull << 62);
	g_assert_cmpuint(set[1], ==, 3);
	g_assert_cmpint(cpus_parse("\n", set), ==, 0);
	g_assert_cmpuint(set[0], ==, 0);
	g_assert_cmpint(cpus_parse("4090-5000", set), ==, 0); /* beyond the table: side rings */
	g_assert_cmpint(cpus_parse("3-1", set), ==, -EINVAL);
	g_assert_cmpint(cpus_parse("x", set), ==, -EINVAL);
	g_assert_cmpint(cpus_parse("1-", set), ==, -EINVAL);
	g_assert_cmpint(cpus_init(c), ==, 0);
	g_assert_cmpuint(c->n_rings, >, 0);
	g_assert_cmpuint(c->n_possible, >=, c->n_rings);
	for (u32 i = 0; i < c->n_rings; i++)
		g_assert_cmpuint(c->ring_of[c->cpu_of[i]], ==, i);
	c->n_possible = c->n_rings;
	g_assert_cmpint(cpus_add(c, 4000), ==, -ENOSPC);
	g_free(c);
}

static void test_clock(void)
{
	Failure f = FAILURE_NULL;
	u32 kind;

	g_assert_true(clock_cpuinfo_invariant("flags\t: fpu tsc constant_tsc x nonstop_tsc y\n"));
	g_assert_false(clock_cpuinfo_invariant("flags\t: fpu tsc constant_tsc x\n"));
	g_assert_false(clock_cpuinfo_invariant("flags\t: xconstant_tsc nonstop_tsc\n"));
	g_assert_true(clock_sources_list_counter("tsc hpet acpi_pm \n"));
	g_assert_false(clock_sources_list_counter("kvm-clock tsc-early \n"));
	g_assert_cmpuint(clock_mult(1000, 2000), ==, 1ull << 31);
	g_assert_cmpuint(clock_mult(1, 0), ==, 0);
	g_assert_cmpint(clock_choose(CLOCK_MONO, &kind, &f), ==, 0);
	g_assert_cmpuint(kind, ==, ABI_CLOCK_MONOTONIC);
	if (clock_choose(CLOCK_COUNTER, &kind, &f) < 0) {
		g_assert_cmpuint(kind, ==, ABI_CLOCK_MONOTONIC);
		g_test_skip("no invariant counter here");
		return;
	}
	g_assert_cmpuint(kind, ==, ABI_CLOCK_COUNTER);
	{
		/* two calibrations agree to a few millionths */
		u64 a = clock_calibrate(), b = clock_calibrate(), d = a > b ? a - b : b - a;

		g_assert_cmpuint(a, >, 0);
		g_assert_cmpuint(d, <, a / 100000);
	}
}

static void test_failure(void)
{
	Failure f = FAILURE_NULL;
	int seen[FAILURE_IO + 1] = {};
	char *longer = g_strnfill(5000, 'x');

	for (int k = FAILURE_INVALID; k <= FAILURE_IO; k++) {
		int r = failure_set(&f, (FailureKind)k, "it is %d", k);

		g_assert_cmpint(r, <, 0);
		g_assert_cmpint(f.kind, ==, k);
		for (int i = 0; i < k; i++)
			g_assert_cmpint(seen[i], !=, r);
		seen[k] = r;
	}
	g_assert_cmpstr(f.text, ==, "it is 13");
	g_assert_cmpint(failure_set(NULL, FAILURE_IO, "nobody asks"), ==, -EIO);
	(void)failure_set(&f, FAILURE_IO, "%s", longer);
	g_assert_cmpuint(strlen(f.text), ==, sizeof(f.text) - 1);
	g_free(longer);
}

static void test_tid(void)
{
	g_assert_cmpuint(locks_tid_of_status("Name:\tx\nPid:\t9\nNSpid:\t900\t12\nNSpgid:\t1\n"), ==, 12);
	g_assert_cmpuint(locks_tid_of_status("Name:\tx\nNSpid:\t900\nNSpgid:\t7\n"), ==, 900);
	g_assert_cmpuint(locks_tid_of_status("Name:\tx\n"), ==, 0);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/scope/events", test_events);
	g_test_add_func("/scope/programs", test_programs);
	g_test_add_func("/scope/nobody", test_nobody);
	g_test_add_func("/scope/buckets", test_buckets);
	g_test_add_func("/cpus/lists", test_cpus);
	g_test_add_func("/clock/choice", test_clock);
	g_test_add_func("/failure/kinds", test_failure);
	g_test_add_func("/locks/tid", test_tid);
	return g_test_run();
}
