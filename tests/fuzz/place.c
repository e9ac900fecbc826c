/* SPDX-License-Identifier: MIT */
#include "tests/fuzz/place.h"

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "systemd/journal.h"

#define NOBODY	    65534
#define PATIENCE    (60 * NSEC_PER_SEC)
#define INPUT_MAX   (64u << 10)
#define FILE_MAX    (64u << 20)
#define STATE_MOST  200 /* directories that inputs left, before they are removed */

void place_open(Place *p)
{
	static const char *const nowhere[] = { "/nonexistent", NULL };
	struct rlimit limit = { FILE_MAX, FILE_MAX };
	const char *tmp = getenv("TMPDIR");
	ManagerOptions options;

	*p = (Place){ 0 };
	must(snprintf(p->directory, sizeof(p->directory), "%s/tracer-fuzz-XXXXXX", tmp ? tmp : "/tmp") <
		     (int)sizeof(p->directory),
	     "TMPDIR is too long");
	must(mkdtemp(p->directory) != NULL, "no directory");
	(void)snprintf(p->runtime, sizeof(p->runtime), "%s/run", p->directory);
	(void)snprintf(p->state, sizeof(p->state), "%s/state", p->directory);
	if (geteuid() == 0)
		must(chown(p->directory, NOBODY, NOBODY) == 0 && setgroups(0, NULL) == 0 && setgid(NOBODY) == 0 &&
			     setuid(NOBODY) == 0,
		     "cannot become nobody");
	/* who changes his user may not be looked at by others, and a sanitizer looks for leaks from a process of its own */
	must(prctl(PR_SET_DUMPABLE, 1) == 0, "cannot be looked at");
	must(setrlimit(RLIMIT_FSIZE, &limit) == 0, "no limit");
	(void)signal(SIGXFSZ, SIG_IGN);
	(void)signal(SIGPIPE, SIG_IGN);
	must(mkdir(p->runtime, 0755) == 0 && mkdir(p->state, 0755) == 0, "no directories");
	if (!getenv("TRACER_FUZZ_LOG"))
		journal_set_level(0);
	options = (ManagerOptions){ .runtime_directory = p->runtime,
				    .state_directory = p->state,
				    .config_directories = nowhere,
				    .listen_fd = -1,
				    .user = true };
	must(sd_event_new(&p->event) >= 0 && manager_new(&p->manager, p->event, &options) >= 0, "no manager");
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)remove(path);
	return 0;
}

void place_close(Place *p)
{
	p->manager = manager_free(p->manager);
	p->event = sd_event_unref(p->event);
	(void)nftw(p->directory, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

void place_settle(Place *p)
{
	int r;

	while ((r = sd_event_run(p->event, 0)) > 0)
		;
	must(r == 0, "the loop has ended");
}

void place_until(Place *p, const bool *done, const char *what)
{
	u64 end = monotonic_ns() + PATIENCE;

	while (!*done) {
		must(sd_event_run(p->event, 1000000) >= 0, "the loop has ended");
		must(*done || monotonic_ns() < end, what);
	}
}

static void on_stopped(void *userdata, const Failure *failure)
{
	*(bool *)userdata = true;
}

/* One that writes is only gone when its files are closed. */
static void session_remove(Place *p, const char *name)
{
	Failure f = FAILURE_NULL;
	bool stopped = false;

	if (manager_stop_session(p->manager, name, on_stopped, &stopped, &f) == 0)
		place_until(p, &stopped, "a session does not stop");
	must(manager_remove_session(p->manager, name, &f) == 0, "a session that stays");
}

static void state_empty(Place *p)
{
	DIR *d = opendir(p->state);
	u32 n = 0;

	must(d != NULL, "the state directory is gone");
	while (readdir(d))
		n++;
	(void)closedir(d);
	if (n < STATE_MOST)
		return;
	(void)nftw(p->state, remove_one, 16, FTW_DEPTH | FTW_PHYS);
	must(mkdir(p->state, 0755) == 0, "no state directory");
}

void place_tidy(Place *p, bool running)
{
	SessionConfig *c = NULL;
	Failure f = FAILURE_NULL;
	Session *s;

	place_settle(p);
	while ((s = manager_first(p->manager))) {
		SessionInfo info;
		_cleanup_free_ char *name = NULL;

		session_info(s, &info);
		name = strdup(info.name);
		must(name != NULL, "no memory");
		session_remove(p, name);
	}
	state_empty(p);
	must(session_config_new(&c, "flight") == 0, "no memory");
	c->memory = 1u << 20;
	must(manager_create_session(p->manager, c, &s, &f) == 0, "no session can be made");
	if (running)
		must(manager_start_session(p->manager, "flight", &f) == 0, "no session can be started");
}

/* ---- an input ---- */

u8 bytes_u8(Bytes *b)
{
	if (!b->n)
		return 0;
	b->n--;
	return *b->p++;
}

u64 bytes_u64(Bytes *b)
{
	u64 v = 0;
	size_t n = MIN(b->n, sizeof(v));

	memcpy(&v, b->p, n);
	b->p += n;
	b->n -= n;
	return v;
}

Bytes bytes_piece(Bytes *b, size_t max)
{
	size_t wanted = bytes_u8(b);
	Bytes piece;

	/* short ones by one byte, long ones by two */
	if (wanted >= 0xF0)
		wanted = (wanted & 15) << 8 | bytes_u8(b);
	piece = (Bytes){ b->p, MIN(MIN(wanted, max), b->n) };
	b->p += piece.n;
	b->n -= piece.n;
	return piece;
}

#ifndef TRACER_FUZZ_ENGINE
/* ---- without an engine ---- */

static void replay_input(u8 *all, size_t n)
{
	for (size_t cut = 0; cut < n; cut += n / 8 + 1)
		replay_try(all, cut);
	replay_try(all, n);
	for (u32 i = 0; i < 4 && n; i++) {
		all[replay_roll() % n] = (u8)replay_roll();
		replay_try(all, n);
	}
}

int replay_main(int argc, char **argv)
{
	u64 n_random = 0, seed = (u64)time(NULL) * 0x9e3779b97f4a7c15ull | 1;
	size_t n;
	int option;

	while ((option = getopt(argc, argv, "r:s:")) != -1) {
		if (option == 'r')
			n_random = strtoull(optarg, NULL, 0);
		else if (option == 's')
			seed = strtoull(optarg, NULL, 0);
		else
			return 2;
	}
	printf("seed %llu\n", (unsigned long long)seed);
	(void)fflush(stdout);
	replay_seed(seed);
	(void)LLVMFuzzerInitialize(&argc, &argv);
	n = replay_paths(argv + optind, argc - optind, INPUT_MAX, replay_input);
	for (u64 i = 0; i < n_random; i++) {
		u8 data[512];
		size_t size = replay_roll() % sizeof(data);

		/* bytes that mean something are small: choices, lengths */
		for (size_t k = 0; k < size; k++)
			data[k] = (u8)(replay_roll() % 3 ? replay_roll() % 48 : replay_roll());
		replay_try(data, size);
	}
	printf("%zu files and %llu random inputs\n", n, (unsigned long long)n_random);
	return n + n_random > 0 ? 0 : 1;
}
#endif
