/* SPDX-License-Identifier: MIT */
#include "tests/fuzz/replay.h"

#include <dirent.h>

typedef struct {
	size_t max;
	void (*each)(u8 *p, size_t n);
} Replay;

void replay_try(const u8 *p, size_t n)
{
	u8 *exact = malloc(n ? n : 1);

	must(exact != NULL, "no memory");
	memcpy(exact, p, n);
	(void)LLVMFuzzerTestOneInput(exact, n);
	free(exact);
}

static size_t replay_file(const Replay *r, const char *path)
{
	_cleanup_free_ u8 *all = malloc(r->max);
	FILE *f = fopen(path, "rbe");
	size_t n;

	must(f && all, path);
	n = fread(all, 1, r->max, f);
	must(fclose(f) == 0, path);
	r->each(all, n);
	return 1;
}

static size_t replay_path(const Replay *r, const char *path)
{
	DIR *d = opendir(path);
	size_t n = 0;

	if (!d)
		return replay_file(r, path);
	for (struct dirent *e; (e = readdir(d));) {
		_cleanup_free_ char *below = NULL;

		if (e->d_name[0] == '.')
			continue;
		must(asprintf(&below, "%s/%s", path, e->d_name) > 0, "no memory");
		n += replay_path(r, below);
	}
	(void)closedir(d);
	return n;
}

size_t replay_paths(char **paths, int n_paths, size_t max, void (*each)(u8 *p, size_t n))
{
	const Replay r = { max, each };
	size_t n = 0;

	for (int i = 0; i < n_paths; i++)
		n += replay_path(&r, paths[i]);
	return n;
}

static u64 state = 0x9e3779b97f4a7c15ull;

void replay_seed(u64 seed)
{
	state = seed | 1; /* of 0 nothing would come but 0 */
}

u64 replay_roll(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}
