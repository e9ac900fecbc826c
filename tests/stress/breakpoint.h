/* SPDX-License-Identifier: MIT */
/* Breakpoints in another process: what a debugger must know of the instructions. */
#pragma once

#include <elf.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>

#if defined(__x86_64__)
#define BREAK_LONGEST 15   /* an instruction, at most */
#define BREAK_MASK    0xfful
#define BREAK_CODE    0xccul /* int3 */
#define BREAK_AHEAD   1	   /* how far behind its address it stops */
#define BREAK_PC(r)   ((r)->rip)
#elif defined(__aarch64__)
#define BREAK_LONGEST 4
#define BREAK_MASK    0xfffffffful
#define BREAK_CODE    0xd4200000ul /* brk 0 */
#define BREAK_AHEAD   0
#define BREAK_PC(r)   ((r)->pc)
#else
#error "no breakpoints for this architecture"
#endif

/* Plants one; returns the bytes that were there. */
static inline long break_plant(pid_t pid, u64 address)
{
	long text = ptrace(PTRACE_PEEKTEXT, pid, address, 0);

	(void)ptrace(PTRACE_POKETEXT, pid, address, ((u64)text & ~BREAK_MASK) | BREAK_CODE);
	return text;
}

static inline bool break_registers(pid_t pid, struct user_regs_struct *ret)
{
	struct iovec v = {ret, sizeof(*ret)};

	return ptrace(PTRACE_GETREGSET, pid, NT_PRSTATUS, &v) == 0;
}

static inline void break_set_registers(pid_t pid, struct user_regs_struct *registers)
{
	struct iovec v = {registers, sizeof(*registers)};

	(void)ptrace(PTRACE_SETREGSET, pid, NT_PRSTATUS, &v);
}
