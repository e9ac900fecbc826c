/* SPDX-License-Identifier: MIT */
/* pid_t vfork(void): see vfork-x86_64.S. The return address waits in x30, which the system call keeps; the
 * child that goes on calling overwrites the stack, never the parent's registers. */
#include <sys/syscall.h>

#define CLONE_VM_VFORK_SIGCHLD 0x4111

	.text
	.globl	vfork
	.type	vfork, %function
	.balign	16
vfork:
	.cfi_startproc
	hint	34			/* bti c */
	stp	x29, x30, [sp, -16]!
	.cfi_adjust_cfa_offset 16
	.cfi_rel_offset x29, 0
	.cfi_rel_offset x30, 8
	bl	fork_vfork_begin
	ldp	x29, x30, [sp], 16
	.cfi_adjust_cfa_offset -16
	.cfi_restore x29
	.cfi_restore x30
	mov	x0, CLONE_VM_VFORK_SIGCHLD
	mov	x1, 0			/* the parent's stack */
	mov	x2, 0
	mov	x3, 0
	mov	x4, 0
	mov	x8, SYS_clone
	svc	0
	cbnz	x0, 1f
	ret
1:	stp	x29, x30, [sp, -16]!
	.cfi_adjust_cfa_offset 16
	.cfi_rel_offset x29, 0
	.cfi_rel_offset x30, 8
	bl	fork_vfork_end
	ldp	x29, x30, [sp], 16
	.cfi_adjust_cfa_offset -16
	.cfi_restore x29
	.cfi_restore x30
	ret
	.cfi_endproc
	.size	vfork, . - vfork

	.section .note.GNU-stack, "", %progbits
