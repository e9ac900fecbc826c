/* SPDX-License-Identifier: MIT */
/* Any bytes as a configuration file: no crash, no leak, no exit; a refusal has its error, and what is accepted
 * comes back the same from its own dump. Built with -fsanitize=fuzzer this is a libFuzzer target; without, main()
 * replays the files and directories that it is given. */
#include <stdio.h>

#include "conf/config.h"
#include "conf/load.h"
#include "tests/fuzz/replay.h"

static bool same(const Config *a, const Config *b)
{
	if (!daemon_config_equal(&a->daemon, &b->daemon) || a->n_sessions != b->n_sessions)
		return false;
	for (size_t i = 0; i < a->n_sessions; i++)
		if (!session_config_equal(a->sessions[i], b->sessions[i]))
			return false;
	return true;
}

static void try_dump(const Config *c)
{
	_cleanup_(config_problems_clear) ConfigProblems problems = { 0 };
	_cleanup_(config_freep) Config *back = NULL;
	_cleanup_free_ char *text = NULL;
	size_t n = 0;
	FILE *f = open_memstream(&text, &n);

	must(f != NULL, "no memory");
	must(config_dump(c, f) == 0 && fclose(f) == 0, "a dump failed");
	must(config_load_text("dump", text, n, &back, &problems) == 0 && problems.n == 0,
	     "a dump does not read back");
	must(same(c, back), "a dump reads back as something else");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	_cleanup_(config_problems_clear) ConfigProblems problems = { 0 };
	_cleanup_(config_freep) Config *c = NULL;
	size_t n_errors = 0;
	int r;

	if (n > CONFIG_FILE_MAX)
		return 0;
	r = config_load_text("input", (const char *)data, n, &c, &problems);
	must(r == 0 || r == -EINVAL, "an error of another kind");
	must(c != NULL, "nothing to use");
	for (size_t i = 0; i < problems.n; i++) {
		_cleanup_free_ char *text = config_problem_text(&problems.v[i]);

		must(text && !strpbrk(text, "\n\001"), "a problem is not one line");
		must(problems.v[i].line >= 0, "a line below zero");
		n_errors += !problems.v[i].warning;
	}
	must((r == -EINVAL) == (n_errors > 0), "refused without an error, or not refused with one");
	try_dump(c);
	return 0;
}

#ifndef TRACER_FUZZ_ENGINE
/* And every beginning of it, since files are also cut off. */
static void replay_input(u8 *all, size_t n)
{
	for (size_t cut = 0; cut <= n; cut += n > 4096 ? n / 64 + 1 : 1)
		replay_try(all, cut);
	replay_try(all, n);
}

int main(int argc, char **argv)
{
	size_t n = replay_paths(argv + 1, argc - 1, CONFIG_FILE_MAX, replay_input);

	printf("%zu inputs\n", n);
	return n > 0 ? 0 : 1;
}
#endif
