/* SPDX-License-Identifier: MIT */
/* Under ptrace: single-stepped, no sequence ever ends, and the side ring must take the records; and
 * SIGKILL at each instruction of every sequence in turn. */
#include "lib/sequence.h"
#include "tests/stress/ring.h"
#include "tests/stress/breakpoint.h"

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>

#define SKIPPED 77

static void attach(const struct region *r)
{
	if (slot_register() < 0 ||
	    slot_attach(writers.slot, r->fd, &r->geometry, 1, writers.cpu_ring, NULL, 0) < 0)
		_exit(2);
}

/* stops itself as soon as the tracer is there */
static void be_traced(void)
{
	if (ptrace(PTRACE_TRACEME, 0, 0, 0) < 0)
		_exit(SKIPPED);
	(void)raise(SIGSTOP);
}

static void one_cpu(void)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(0, &set);
	(void)sched_setaffinity(0, sizeof(set), &set);
}

void mode_step(u32 seconds)
{
	struct region r = make_region(16, 12, N_CPU, N_SIDE, ABI_POLICY_OVERWRITE, 1);
	/* a reading of the clock for each turn takes its time */
	u32 n = record_clock.kind == ABI_CLOCK_COUNTER ? 20 : 5;
	u64 steps = 0, count, lost;
	int status;
	pid_t pid = fork();

	if (!pid) {
		static u64 huge[1100];
		struct record_part part = {&huge[1], 8700, 0};

		attach(&r);
		be_traced();
		for (u32 i = 0; i < n; i++)
			(void)writer_emit(0, 0, 5, false);
		(void)record_write(writers.slot, 1, 1, 1ull << 32, 1, &record_clock, &part, 1);
		_exit(0);
	}
	(void)waitpid(pid, &status, 0);
	while (steps < 5000000 && WIFSTOPPED(status)) {
		(void)ptrace(PTRACE_SINGLESTEP, pid, 0, 0);
		(void)waitpid(pid, &status, 0);
		steps++;
	}
	if (WIFEXITED(status) && WEXITSTATUS(status) == SKIPPED)
		exit(SKIPPED);
	if (!WIFEXITED(status)) {
		bad("no progress in %lu steps", steps);
		(void)kill(pid, SIGKILL);
		(void)waitpid(pid, &status, 0);
	}
	count = check_quiet(&r, 0, ~0u);
	lost = check_lost(&r, false);
	if (count != n || lost != 1 || shared->t[0].number[0] != n)
		bad("records %lu, lost %lu", count, lost);
	printf("  %lu steps for %u records and a loss\n", steps, n);
	region_close(&r);
}

/* ---- each instruction ---- */
static struct abi_ring *line_of(const struct region *r)
{
	return (struct abi_ring *)(writers.slot->map + ABI_PAGE);
}

static u64 left(const struct region *r)
{
	u64 sub = 1ull << r->geometry.sub_shift;

	return sub - (line_of(r)->offset & ~3ull & (sub - 1));
}

/* 40 bytes at least, by small records, until the next one ends the sub-buffer */
static void fill_up(const struct region *r)
{
	while (left(r) > 144 && writer_emit(0, 0, 0, false) == RECORD_DONE)
		;
}

/* Everything a record can be, on the ring of CPU 0, whatever state it is in. */
static void script(const struct region *r)
{
	bool discard = r->geometry.policy == ABI_POLICY_DISCARD;
	struct abi_ring *line = line_of(r);
	u64 edge;

	for (u32 i = 0; i < 40; i++)
		(void)writer_emit(0, 0, i * 5 % 104, false);
	line->base -= ABI_COMPACT_LIMIT + 1ull; /* extended */
	(void)writer_emit(0, 0, 9, false);
	line->base -= ABI_COMPACT_LIMIT + 1ull;
	(void)writer_emit(0, 0, 100, false);
	if (r->geometry.sub_shift == 16) {
		for (u32 i = 0; i < 4; i++)
			(void)writer_emit(0, 0, PAY_LONG, false);
		return;
	}
	for (u32 i = 0; i < 3;
	     i++) { /* an exact fit, then an entry; not with a text, whose size is its own */
		fill_up(r);
		if (left(r) >= 40 && left(r) <= 144)
			(void)writer_emit(0, 0, (u32)left(r) - 40, false);
		(void)writer_emit(0, 0, 8, false);
	}
	fill_up(r); /* a boundary, by a compact and by an extended record */
	(void)writer_emit(0, 0, 104, false);
	(void)writer_emit(0, 0, 104, false);
	fill_up(r);
	line->base -= ABI_COMPACT_LIMIT + 1ull;
	(void)writer_emit(0, 0, 104, false);
	(void)writer_emit(0, 0, 104, false);
	record_lose(writers.slot, 1, 1ull << 32, ABI_LOST_VFORK, 1);
	shared->t[0].lost[1]++;
	/* full, or held, from the next boundary but one on, as from any lap */
	edge = (line->offset & ~3ull) - (1ull << r->geometry.ring_shift) +
	       (2ull << r->geometry.sub_shift);
	if (discard)
		line->consumed = edge;
	else
		line->hold = edge | 1;
	for (u32 i = 0; i < 100; i++) {
		/* anew for each, since the debugger takes its time */
		line->deadline = record_clock_now(&record_clock) + ABI_HOLD_NS;
		if (writer_emit(0, 0, 90, false) != RECORD_DONE)
			break;
	}
	line->hold = 0;
	line->consumed = line->offset & ~3ull;
}

struct instruction {
	u64 address;
	u32 sequence, region, clock;
};
#define MAX_INSTRUCTIONS 2000
static struct instruction instructions[MAX_INSTRUCTIONS];
static u32 n_instructions;

static int sequence_at(u64 address)
{
	for (u32 i = 0; sequence_first + i < sequence_last; i++) {
		const struct sequence_descriptor *d = &sequence_first[i];

		if (address >= d->start && address < d->start + d->commit_offset)
			return (int)i;
	}
	return -1;
}

static void found(u64 address, u32 region, u32 clock)
{
	int sequence = sequence_at(address);

	if (sequence < 0 || n_instructions == MAX_INSTRUCTIONS)
		return;
	for (u32 i = 0; i < n_instructions; i++)
		if (instructions[i].address == address && instructions[i].clock == clock)
			return;
	instructions[n_instructions++] = (struct instruction){
	    .address = address, .sequence = (u32)sequence, .region = region, .clock = clock};
}

/* From the start of a sequence to its end, step by step. A repeated move (x86-64) is cut short: the region
 * is thrown away afterwards. */
static bool step_through(pid_t pid, u32 region, u32 clock)
{
	struct user_regs_struct regs;
#if defined(__x86_64__)
	u64 before = 0;
#endif
	int status;

	while (break_registers(pid, &regs) && sequence_at(BREAK_PC(&regs)) >= 0) {
		found(BREAK_PC(&regs), region, clock);
#if defined(__x86_64__)
		if (regs.rip == before && regs.rcx > 1) {
			regs.rcx = 1;
			break_set_registers(pid, &regs);
		}
		before = regs.rip;
#endif
		(void)ptrace(PTRACE_SINGLESTEP, pid, 0, 0);
		if (waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status))
			return false;
	}
	return true;
}

/* What the script executes of the sequences, told by stepping through each with an rseq area that
 * the kernel does not know, so that nothing is restarted. */
static void find_instructions(const struct region *r, u32 region, u32 clock)
{
	u32 n = (u32)(sequence_last - sequence_first);
	struct user_regs_struct regs;
	pid_t pid = fork();
	long text[16];
	int status;

	if (!pid) {
		static struct {
			u32 start, cpu;
			u64 cs;
			u32 reserved[4];
		} __attribute__((aligned(32))) area;

		attach(r);
		sequence_offset = (char *)&area - sequence_thread_pointer();
		be_traced();
		script(r);
		_exit(0);
	}
	(void)waitpid(pid, &status, 0);
	for (u32 i = 0; i < n && WIFSTOPPED(status); i++)
		text[i] = break_plant(pid, sequence_first[i].start);
	while (WIFSTOPPED(status)) {
		int i;

		(void)ptrace(PTRACE_CONT, pid, 0, 0);
		(void)waitpid(pid, &status, 0);
		if (!WIFSTOPPED(status))
			break;
		if (!break_registers(pid, &regs))
			bad("a stopped process without registers");
		BREAK_PC(&regs) -= BREAK_AHEAD;
		i = sequence_at(BREAK_PC(&regs));
		if (WSTOPSIG(status) != SIGTRAP || i < 0) {
			bad("the script stopped with %x", (unsigned)status);
			(void)kill(pid, SIGKILL);
			(void)waitpid(pid, &status, 0);
			return;
		}
		break_set_registers(pid, &regs);
		(void)ptrace(PTRACE_POKETEXT, pid, sequence_first[i].start, text[i]);
		if (!step_through(pid, region, clock)) {
			bad("the script ended inside a sequence");
			return;
		}
		(void)break_plant(pid, sequence_first[i].start);
	}
	if (WIFEXITED(status) && WEXITSTATUS(status) == SKIPPED)
		exit(SKIPPED);
	if (!WIFEXITED(status) || WEXITSTATUS(status))
		bad("the script ended with %x", (unsigned)status);
}

static int by_address(const void *a, const void *b)
{
	const struct instruction *x = a, *y = b;

	return x->address < y->address ? -1 : x->address > y->address;
}

/* Each byte of each sequence must belong to an instruction that was found. */
static void check_coverage(void)
{
	qsort(instructions, n_instructions, sizeof(instructions[0]), by_address);
	for (u32 i = 0; sequence_first + i < sequence_last; i++) {
		const struct sequence_descriptor *d = &sequence_first[i];
		u64 at = d->start, end = d->start + d->commit_offset, next = at;
		bool first = true;

		for (u32 k = 0; k < n_instructions; k++) {
			if (instructions[k].sequence != i)
				continue;
			if (instructions[k].address > next + (first ? 0 : BREAK_LONGEST))
				bad("sequence %u: bytes %lu to %lu were never executed", i,
				    next - at, instructions[k].address - at);
			next = instructions[k].address;
			first = false;
		}
		if (next + BREAK_LONGEST < end)
			bad("sequence %u: bytes %lu to %lu were never executed", i, next - at,
			    end - at);
	}
}

/* The script again, from another process, with SIGKILL at that instruction. Then the ring must be
 * walkable, count what was said to be recorded, and take records. */
static void kill_at(struct region *r, const struct instruction *what, u64 *hits)
{
	u64 count = check_quiet(r, 0, ~0u), lost = check_lost(r, false), now_count, now_lost;
	/* the last but one, lib/sequence-*.S */
	bool in_base = what->sequence + 2 == (u32)(sequence_last - sequence_first);
	struct state *s = &shared->t[0];
	int status;
	pid_t pid;

	memset(s, 0, sizeof(*s));
	(void)fflush(stdout);
	pid = fork();
	if (!pid) {
		/* ours is not mapped here */
		memset(writers.slot, 0, sizeof(*writers.slot));
		attach(r);
		be_traced();
		script(r);
		_exit(0);
	}
	(void)waitpid(pid, &status, 0);
	(void)break_plant(pid, what->address);
	(void)ptrace(PTRACE_CONT, pid, 0, 0);
	(void)waitpid(pid, &status, 0);
	if (WIFSTOPPED(status) && WSTOPSIG(status) == SIGTRAP) {
		(*hits)++;
	} else if (!WIFEXITED(status) || WEXITSTATUS(status)) {
		bad("at +%lu of sequence %u: ended with %x",
		    what->address - sequence_first[what->sequence].start, what->sequence,
		    (unsigned)status);
	} else {
		bad("+%lu of sequence %u was not reached again",
		    what->address - sequence_first[what->sequence].start, what->sequence);
		return;
	}
	(void)kill(pid, SIGKILL);
	(void)waitpid(pid, &status, 0);

	now_count = check_quiet(r, 0, ~0u);
	now_lost = check_lost(r, false);
	/* killed in `base`: published, though the call had not returned */
	if (now_count != count + s->number[0] + in_base ||
	    now_lost != lost + s->lost[0] + s->lost[1])
		bad("killed at +%lu of sequence %u: count %lu, lost %lu, but told %lu and %lu (and "
		    "base %d)",
		    what->address - sequence_first[what->sequence].start, what->sequence,
		    now_count - count, now_lost - lost, s->number[0], s->lost[0] + s->lost[1],
		    in_base);
	/* not stuck: the next writer gets on */
	line_of(r)->hold = 0;
	store_release_u64(&line_of(r)->consumed, line_of(r)->offset & ~4095ull);
	memset(s, 0, sizeof(*s));
	for (u32 i = 0; i < 3; i++)
		if (writer_emit(0, 0, i * 40, false) != RECORD_DONE)
			bad("stuck behind +%lu of sequence %u",
			    what->address - sequence_first[what->sequence].start, what->sequence);
	if (check_quiet(r, 0, ~0u) != now_count + 3)
		bad("count %lu after %lu and three more", check_quiet(r, 0, ~0u), now_count);
}

void mode_instructions(u32 seconds)
{
	static const struct {
		u32 ring_shift, sub_shift, policy;
	} shapes[3] = {
	    {16, 12, ABI_POLICY_OVERWRITE},
	    {20, 16, ABI_POLICY_OVERWRITE},
	    {16, 12, ABI_POLICY_DISCARD},
	};
	const struct record_clock clocks[2] = {record_clock, {ABI_CLOCK_MONOTONIC, 0}};
	struct slot *slots = writers.slot;
	u64 hits = 0;

	sequence_detect();
	if (!sequence_offset)
		exit(SKIPPED);
	one_cpu();
	writers.producer = 1;
	/* first all that is executed, then each of it in turn, both on regions of their own by
	 * clock */
	for (u32 round = 0; round < 12; round++) {
		u32 clock = round / 3 % 2, i = round % 3;
		struct region r = make_region(shapes[i].ring_shift, shapes[i].sub_shift, N_CPU,
					      N_SIDE, shapes[i].policy, 1);

		record_clock = clocks[clock];
		writers.slot = slots + clock * 3 + i;
		if (round < 6) {
			find_instructions(&r, i, clock);
			memset(&shared->t[0], 0, sizeof(shared->t[0]));
		} else {
			attach(&r);
			for (u32 k = 0; k < n_instructions && n_bad < 100; k++)
				if (instructions[k].clock == clock && instructions[k].region == i)
					kill_at(&r, &instructions[k], &hits);
		}
		if (round == 5)
			check_coverage();
		region_close(&r);
	}
	printf("  %u instructions of %ld sequences, killed at %lu of them; records checked %lu\n",
	       n_instructions, (long)(sequence_last - sequence_first), hits, checked.records);
	if (hits != n_instructions)
		bad("only %lu of %u breakpoints were hit", hits, n_instructions);
}
