/* SPDX-License-Identifier: MIT */
/* pid_t vfork(void). The child shares the parent's memory and thread pointer, but not its rseq
 * registration: it would record into the ring of a CPU that it does not run on. So the thread is marked until
 * the parent runs again, and what is recorded under the mark is counted only (fork.c).
 *
 * The child returns to our caller and goes on calling, which overwrites the stack below the caller's frame
 * and so the return address of the parent: it waits in %rdi, which the system call keeps. */
#include <sys/syscall.h>

	.text
	.globl	vfork
	.type	vfork, @function
	.balign	16
vfork:
	.cfi_startproc
	endbr64
	subq	$8, %rsp
	.cfi_adjust_cfa_offset 8
	call	fork_vfork_begin
	addq	$8, %rsp
	.cfi_adjust_cfa_offset -8
	popq	%rdi
	.cfi_adjust_cfa_offset -8
	.cfi_register %rip, %rdi
	movl	$SYS_vfork, %eax
	syscall
	pushq	%rdi
	.cfi_adjust_cfa_offset 8
	.cfi_offset %rip, -8
	testq	%rax, %rax
	jnz	1f
	/* The child. Where there is a shadow stack it is the parent's too: leave its entry alone. rdsspq
	 * leaves 0 where there is none. */
	xorl	%esi, %esi
	rdsspq	%rsi
	testq	%rsi, %rsi
	jz	2f
	popq	%rdi
	.cfi_adjust_cfa_offset -8
	.cfi_register %rip, %rdi
	jmp	*%rdi
	.cfi_adjust_cfa_offset 8
	.cfi_offset %rip, -8
2:	ret
1:	movq	%rax, %rdi
	subq	$8, %rsp
	.cfi_adjust_cfa_offset 8
	call	fork_vfork_end
	addq	$8, %rsp
	.cfi_adjust_cfa_offset -8
	ret
	.cfi_endproc
	.size	vfork, . - vfork

	.section .note.GNU-stack, "", @progbits
