/* SPDX-License-Identifier: MIT */
/* Any bytes as what a daemon left behind: no crash, no leak, and what is believed of it is possible. The first byte says how they
 * come: 'l', lines each with a sum that fits, so that what is behind the sum is met; else the bytes of the account as they are.
 * Built with -fsanitize=fuzzer this is a libFuzzer target; without, main() replays files and directories, each also cut off at
 * every byte, and with bytes of it changed. */
#include <stdio.h>
#include <unistd.h>

#include "daemon/restore.h"
#include "tests/fuzz/replay.h"

#define INPUT_MAX (1u << 20)
#define HEAD	  4096

static void say_lines(Ledger *l, const char *p, size_t n)
{
	for (const char *end = p + n; p < end;) {
		const char *newline = memchr(p, '\n', (size_t)(end - p));
		_cleanup_free_ char *line = strndup(p, (size_t)((newline ? newline : end) - p));

		must(line && ledger_append(l, line) == 0, "a line is not taken");
		p = newline ? newline + 1 : end;
	}
}

static void say_bytes(Ledger *l, const uint8_t *p, size_t n)
{
	const u64 tip = (u64)n << 1;

	must(pwrite(ledger_fd(l), p, n, HEAD) == (ssize_t)n && pwrite(ledger_fd(l), &tip, sizeof(tip), 24) == sizeof(tip),
	     "no memory");
}

static void check(const Restored *r)
{
	for (const RestoredSession *s = r->sessions; s; s = s->next) {
		must(config_session_name_valid(s->name) && s->text, "a session of no name");
		must(!s->planned || geometry_check(&s->geometry) == 0, "a geometry that cannot be");
		must(!s->running || (s->planned && s->slot < ABI_MAX_SLOTS && s->generation), "it runs nowhere");
		must(!s->next || strcmp(s->name, s->next->name) != 0, "twice");
	}
	for (const RestoredOwner *o = r->owners; o; o = o->next) {
		must(o->remains.number && o->remains.number <= r->last_number, "a number that will be given again");
		must(geometry_check(&o->remains.geometry) == 0, "a geometry that cannot be");
		must(o->label[0] && o->label[0] != '.' && !strchr(o->label, '/') && strlen(o->label) < 256, "no directory");
		must(o->remains.key.kind <= BUFFERS_PER_PROCESS, "a kind that is none");
		must(o->remains.key.kind != BUFFERS_PER_UNIT || o->remains.key.unit, "a unit without a name");
		for (const RestoredId *i = o->ids; i; i = i->next)
			must(i->id && i->id <= ABI_ID_MAX && i->class && i->class->class, "an id that cannot be");
	}
	for (const RestoredClass *c = r->classes; c; c = c->next)
		must(c->number && c->number <= r->last_class && c->class && !c->taken, "a class that cannot be");
	for (const RestoredProgram *p = r->programs; p; p = p->next)
		must(p->pid && p->number && p->number <= r->last_program && p->command && p->unit, "a program that cannot be");
	for (const RestoredDue *d = r->due; d; d = d->next)
		must(d->session && d->trigger && d->reason && d->path, "a snapshot that cannot be");
	must(!r->cpu_of || r->n_cpus <= ABI_MAX_CPUS, "more CPUs than can be");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	Ledger *l, *next;
	Restored r;

	if (n == 0 || n > INPUT_MAX)
		return 0;
	must(ledger_new(&l) == 0, "no memory");
	if (data[0] == 'l')
		say_lines(l, (const char *)data + 1, n - 1);
	else
		say_bytes(l, data + 1, n - 1);
	must(ledger_open(&next, dup(ledger_fd(l))) == 0, "our own is not taken");
	must(restored_read(&r, next) == 0, "it cannot be read");
	check(&r);
	restored_clear(&r);
	(void)ledger_free(next);
	(void)ledger_free(l);
	return 0;
}

#ifndef TRACER_FUZZ_ENGINE
#define CHANGES 300

static void try_changed(const u8 *all, size_t n, u32 changes)
{
	_cleanup_free_ u8 *changed = malloc(n ? n : 1);

	must(changed != NULL, "no memory");
	memcpy(changed, all, n);
	for (; changes && n > 1; changes--)
		changed[1 + replay_roll() % (n - 1)] =
			replay_roll() % 3 ? (u8)("0123456789 =\n,-%af"[replay_roll() % 18]) : (u8)replay_roll();
	replay_try(changed, n);
}

static void replay_input(u8 *all, size_t n)
{
	for (size_t cut = 0; cut <= n; cut += n > 4096 ? n / 1024 + 1 : 1)
		replay_try(all, cut);
	for (u32 i = 0; i < CHANGES; i++)
		try_changed(all, n, 1 + i % 20);
	replay_try(all, n);
}

int main(int argc, char **argv)
{
	size_t n = replay_paths(argv + 1, argc - 1, INPUT_MAX, replay_input);

	printf("%zu inputs\n", n);
	return n > 0 ? 0 : 1;
}
#endif
