/* SPDX-License-Identifier: MIT */
/* The restartable sequences for x86-64; lib/sequence.h says what they are, lib/abi.h what they write.
 *
 * rdi request, rsi rseq area, except for the usual record, which gets all it needs in registers. Stores are in order on x86, so that the commit needs no barrier, and what
 * the next sequence stores is behind it; loads are in order, so that what is loaded behind the generation
 * belongs to it.
 *
 * BROKEN_* are negative controls of tests/stress: each breaks one rule, and the stress must notice. */
#include "lib/sequence.h"

	.text

	.pushsection .data.rel.ro.tracer_rseq, "aw"
	.balign	32
	.globl	sequence_first
	.hidden	sequence_first
sequence_first:
	.popsection

/* begin: the descriptor; it is armed outside the sequence, and so are registers saved, so that an abort
 * finds the same stack */
.macro BEGIN name, saves=0, area=%rsi
	.globl	\name
	.hidden	\name
	.type	\name, @function
	.balign	64
\name:
	.cfi_startproc
	.if	\saves
	push	%rbx
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset %rbx, 0
	push	%rbp
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset %rbp, 0
	push	%r12
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset %r12, 0
	push	%r13
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset %r13, 0
	push	%r14
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset %r14, 0
	.endif
	.pushsection .data.rel.ro.tracer_rseq, "aw"
	.balign	32
.Ldescriptor_\name:
	.long	0, 0
	.quad	.Lstart_\name, .Lcommit_\name - .Lstart_\name, .Labort_\name
	.popsection
	lea	.Ldescriptor_\name(%rip), %rax
	mov	%rax, RSEQ_AREA_CS(\area)
.Lstart_\name:
.endm

.macro LEAVE value
	mov	$\value, %eax
	jmp	9000b
.endm

/* Directly behind the commit, which must be the last instruction inside: one more (a jump, say), and a
 * preemption between the two publishes the record and runs it again. All exits come after it. */
.macro END name, value, saves=0
.Lcommit_\name:
	mov	$\value, %eax
9000:
	.if	\saves
	.cfi_remember_state
	pop	%r14
	.cfi_adjust_cfa_offset -8
	.cfi_restore %r14
	pop	%r13
	.cfi_adjust_cfa_offset -8
	.cfi_restore %r13
	pop	%r12
	.cfi_adjust_cfa_offset -8
	.cfi_restore %r12
	pop	%rbp
	.cfi_adjust_cfa_offset -8
	.cfi_restore %rbp
	pop	%rbx
	.cfi_adjust_cfa_offset -8
	.cfi_restore %rbx
	.endif
	ret
	.if	\saves
	.cfi_restore_state
	.endif
	.byte	0x0f, 0xb9, 0x3d	/* ud1: the signature, its operand, must not be reachable code */
	.long	RSEQ_AREA_SIGNATURE
.Labort_\name:
	mov	$SEQUENCE_ABORT, %eax
	jmp	9000b
.endm

.macro FINISH name
	.cfi_endproc
	.size	\name, . - \name
.endm

/* Slot, generation, geometry, CPU, ring: all loaded here, inside. Detach clears the generation alone and
 * fences, so what is loaded behind a generation that agreed belongs to it.
 * rbx/r8 (\slot) slot, r9 control line, r10 data of the ring, r11 offset word, rsi position; rax = ring;
 * clobbers rcx, rdx. The area is not needed any more. */
.macro LOAD slot
	mov	REQUEST_SLOT(%rdi), \slot
	mov	SLOT_GENERATION(\slot), %eax
	cmp	REQUEST_GENERATION(%rdi), %eax
	jne	8001f
	mov	RSEQ_AREA_CPU_ID(%rsi), %eax
	cmp	$ABI_MAX_CPUS, %eax	/* unsigned: also the -1 and -2 of a thread without rseq */
	jae	8002f
	mov	SLOT_CPU_RING(\slot), %rdx
	movzwl	(%rdx, %rax, 2), %eax
	cmp	SLOT_N_RING(\slot), %eax	/* ABI_NO_RING is above every n_ring */
	jae	8002f
	mov	SLOT_MAP(\slot), %r10
	mov	SLOT_SHIFT(\slot), %ecx
	mov	%eax, %edx
	shl	%cl, %rdx
	mov	%eax, %r9d
	shl	$ABI_LINE_SHIFT, %r9
	lea	ABI_PAGE(%r10, %r9), %r9
	add	SLOT_DATA(\slot), %r10
	add	%rdx, %r10
	mov	ABI_LINE_OFFSET(%r9), %r11
	mov	%r11, %rsi
	and	$-4, %rsi
.endm
.macro LOAD_EXITS
8001:	LEAVE	SEQUENCE_STALE
8002:	LEAVE	SEQUENCE_NO_RING
.endm

/* rax = nanoseconds by the counter, \mult register or memory; clobbers rdx */
.macro COUNTER mult
	rdtsc
	shl	$32, %rdx
	or	%rdx, %rax
	mulq	\mult
	shrd	$32, %rdx, %rax
.endm
/* rax = \now, the time that was read before the sequence. Older than the newest stamp here: leave. `last` may be
 * stored before the commit: left behind by a sequence that never was, it costs somebody a reading more */
.macro GIVEN now
	mov	\now, %rax
	cmp	ABI_LINE_LAST(%r9), %rax
	jb	8005f
	mov	%rax, ABI_LINE_LAST(%r9)
.endm
.macro GIVEN_EXITS
8005:	LEAVE	SEQUENCE_CLOCK
.endm

/* ecx bytes, a multiple of 4, from \from to \to; clobbers rcx, rdx and both */
.macro COPY from, to
	sub	$8, %ecx
	jb	7001f
7000:	mov	(\from), %rdx
	mov	%rdx, (\to)
	add	$8, \from
	add	$8, \to
	sub	$8, %ecx
	jae	7000b
7001:	test	$4, %cl
	jz	7002f
	mov	(\from), %edx
	mov	%edx, (\to)
7002:
.endm

/* ecx bytes from rsi to rdi, 16 at a time; odd: not a multiple of 4. Clobbers rax, rcx, xmm0 to xmm3. `rep movsb` takes as long to begin as this to copy
 * a kilobyte. */
#define PART_PIECES_MAX 1024
.macro PIECES odd
8056:	sub	$64, %ecx
	jb	8057f
	movdqu	(%rsi), %xmm0
	movdqu	16(%rsi), %xmm1
	movdqu	32(%rsi), %xmm2
	movdqu	48(%rsi), %xmm3
	movdqu	%xmm0, (%rdi)
	movdqu	%xmm1, 16(%rdi)
	movdqu	%xmm2, 32(%rdi)
	movdqu	%xmm3, 48(%rdi)
	add	$64, %rsi
	add	$64, %rdi
	jmp	8056b
8057:	add	$64, %ecx
8058:	sub	$16, %ecx
	jb	8058f
	movdqu	(%rsi), %xmm0
	movdqu	%xmm0, (%rdi)
	add	$16, %rsi
	add	$16, %rdi
	jmp	8058b
8058:	test	$8, %cl
	jz	8058f
	mov	(%rsi), %rax
	mov	%rax, (%rdi)
	add	$8, %rsi
	add	$8, %rdi
8058:	test	$4, %cl
	jz	8058f
	mov	(%rsi), %eax
	mov	%eax, (%rdi)
	add	$4, %rsi
	add	$4, %rdi
	.if	\odd
8058:	test	$2, %cl
	jz	8058f
	movzwl	(%rsi), %eax
	mov	%ax, (%rdi)
	add	$2, %rsi
	add	$2, %rdi
8058:	test	$1, %cl
	jz	8058f
	movzbl	(%rsi), %eax
	mov	%al, (%rdi)
	inc	%rsi
	inc	%rdi
	.endif
8058:
.endm

/* the other count word := valid one + \add; rsi, the new position, gets the flipped bit; clobbers rcx, rdx */
.macro COUNT add
	mov	%r11d, %ecx
	and	$1, %ecx
	mov	ABI_LINE_COUNT(%r9, %rcx, 8), %rdx
	.if	\add
	inc	%rdx
	.endif
	xor	$1, %ecx
	mov	%rdx, ABI_LINE_COUNT(%r9, %rcx, 8)
	or	%rcx, %rsi
.endm

/* ---- the usual record ----
 * rdi body, rsi mult or now, rdx slot, ecx generation, r8d idlen, r9 rseq area: in this order, since rdx and rcx are
 * what the counter and a shift take, and slot and generation are done with by then. LOAD is written out here, so that
 * nothing is computed that this form does not use.
 * r9 control line, r10 where the record goes, r11 offset word, rcx step */

/* What goes into esi bytes, a multiple of 4, from rdi to r10 behind the header. Straight for the usual sizes: a loop's
 * counting costs more than its copying. By 8 bytes and from the start, as the caller stored them: a load that spans two
 * stores has to wait for both. Clobbers rax, rcx, rdx. */
.macro BODY
	.irp	at, 0, 8, 16, 24, 32, 40, 48, 56
	cmp	$\at + 8, %esi
	jb	7003f
	mov	\at(%rdi), %rax
	mov	%rax, ABI_RECORD_HEADER + \at(%r10)
	.endr
	mov	$64, %edx
	lea	-8(%rsi), %ecx
	jmp	7002f
7001:	mov	(%rdi, %rdx), %rax
	mov	%rax, ABI_RECORD_HEADER(%r10, %rdx)
	add	$8, %edx
7002:	cmp	%ecx, %edx
	jbe	7001b
7003:	test	$4, %sil
	jz	7004f
	mov	-4(%rdi, %rsi), %eax
	mov	%eax, ABI_RECORD_HEADER - 4(%r10, %rsi)
7004:
.endm

/* the other count word := valid one + 1; r11 := the new offset word; clobbers rax, rdx */
.macro NEXT
	mov	%r11d, %eax
	and	$1, %eax
	mov	ABI_LINE_COUNT(%r9, %rax, 8), %rdx
	inc	%rdx
	xor	$1, %eax
	mov	%rdx, ABI_LINE_COUNT(%r9, %rax, 8)
	xor	$1, %r11
	add	%rcx, %r11
.endm

.macro FAST name, counter
BEGIN \name, 0, %r9
	cmp	SLOT_GENERATION(%rdx), %ecx
	jne	8001f
	mov	RSEQ_AREA_CPU_ID(%r9), %eax
	cmp	$ABI_MAX_CPUS, %eax	/* unsigned: also the -1 and -2 of a thread without rseq */
	jae	8002f
	mov	SLOT_CPU_RING(%rdx), %r9
	movzwl	(%r9, %rax, 2), %eax
	cmp	SLOT_N_RING(%rdx), %eax	/* ABI_NO_RING is above every n_ring */
	jae	8002f
	mov	SLOT_MAP(%rdx), %r10
	mov	SLOT_SHIFT(%rdx), %ecx
	mov	%eax, %r9d
	shl	%cl, %rax
	shl	$ABI_LINE_SHIFT, %r9
	lea	ABI_PAGE(%r10, %r9), %r9
	add	SLOT_DATA(%rdx), %r10
	add	%rax, %r10
	mov	ABI_LINE_OFFSET(%r9), %r11
	mov	%r8d, %ecx
	shr	$16, %ecx
	add	$3, %ecx
	and	$-4, %ecx
	mov	%r11, %rax
	and	$-4, %rax
	and	SLOT_RING_MASK(%rdx), %rax
	add	%rax, %r10
	and	SLOT_SUB_MASK(%rdx), %rax
	jz	8003f			/* on a boundary */
	add	%rcx, %rax
	cmp	SLOT_SUB_MASK(%rdx), %rax
	ja	8003f			/* no fit; or an exact one, which stores `end` too */
	.if	\counter
	COUNTER	%rsi
	.else
	GIVEN	%rsi
	.endif
	mov	%rax, %rdx
	sub	ABI_LINE_BASE(%r9), %rdx
	mov	$ABI_COMPACT_LIMIT, %esi
	cmp	%rsi, %rdx
	jae	8003f			/* extended */
	mov	%r8d, (%r10)
	mov	%eax, 4(%r10)
	lea	-ABI_RECORD_HEADER(%rcx), %esi
#ifdef BROKEN_EARLY			/* published, then copied */
	NEXT
	mov	%r11, ABI_LINE_OFFSET(%r9)
	BODY
	nop
#else
	NEXT
	BODY
	mov	%r11, ABI_LINE_OFFSET(%r9)	/* W1, commit */
#ifdef BROKEN_LATE			/* the commit is not the last instruction */
	nop
#endif
#endif
END \name, SEQUENCE_DONE
8003:	LEAVE	SEQUENCE_SLOW
8001:	LEAVE	SEQUENCE_STALE
8002:	LEAVE	SEQUENCE_NO_RING
	.if	!\counter
	GIVEN_EXITS
	.endif
FINISH \name
.endm
	FAST	sequence_fast_counter, 1
	FAST	sequence_fast_given, 0

/* ---- any record ----
 * rbx slot, rbp step, r13 size of a sub-buffer, r14 where the record begins behind the position (an
 * entered sub-buffer's header), r12 where it ends in its sub-buffer, r8 where its body goes */
BEGIN sequence_full, 1
	LOAD	%rbx
	mov	%eax, REQUEST_RING(%rdi)
	movl	$0, REQUEST_RENEW(%rdi)
	mov	REQUEST_STEP(%rdi), %ebp
	mov	SLOT_SUB_MASK(%rbx), %r13
	inc	%r13
	lea	ABI_SUB_HEADER + ABI_RECORD_EXTENDED - ABI_RECORD_HEADER(%rbp), %rdx
	cmp	%r13, %rdx
	ja	8010f			/* too large: before any boundary, in the extended form */
	cmpq	$0, REQUEST_MULT(%rdi)
	je	8014f
	COUNTER	REQUEST_MULT(%rdi)
	mov	%rax, REQUEST_NOW(%rdi)
8015:	mov	%rsi, %r12
	and	SLOT_SUB_MASK(%rbx), %r12
	jz	8020f
	xor	%r14d, %r14d
	mov	%rax, %rdx
	sub	ABI_LINE_BASE(%r9), %rdx
	mov	$ABI_COMPACT_LIMIT, %ecx
	cmp	%rcx, %rdx
	jae	8030f
	add	%rbp, %r12
	cmp	%r13, %r12
	ja	8011f

	/* compact */
8040:	lea	(%rsi, %r14), %rcx
	and	SLOT_RING_MASK(%rbx), %rcx
	lea	ABI_RECORD_HEADER(%r10, %rcx), %r8
	mov	REQUEST_IDLEN(%rdi), %edx
	mov	%edx, -8(%r8)
	mov	%eax, -4(%r8)
	jmp	8050f

8014:	GIVEN	REQUEST_NOW(%rdi)
	jmp	8015b

	/* on a boundary: the policy, then the header */
8020:	mov	SLOT_RING_MASK(%rbx), %rcx
	inc	%rcx
	lea	(%rsi, %r13), %rdx	/* entering needs the memory of rdx - ring and below */
	cmpl	$ABI_POLICY_OVERWRITE, SLOT_POLICY(%rbx)
	jne	8021f
	mov	ABI_LINE_HOLD(%r9), %r12	/* hold, then deadline: stored the other way round */
	test	$1, %r12b
	jz	8022f
	mov	ABI_LINE_DEADLINE(%r9), %r14
	sub	%rax, %r14
	cmp	$ABI_MAX_HOLD_NS, %r14	/* unsigned: past, or further away than anybody may ask */
	ja	8022f
	and	$-2, %r12
	add	%r12, %rcx
	cmp	%rcx, %rdx
	ja	8012f
	jmp	8022f
8021:	add	ABI_LINE_CONSUMED(%r9), %rcx
	cmp	%rcx, %rdx
	ja	8013f
8022:	mov	%rsi, %r8
	and	SLOT_RING_MASK(%rbx), %r8
	add	%r10, %r8
	mov	%rsi, ABI_SUB_POSITION(%r8)
	mov	%rax, ABI_SUB_BEGIN(%r8)
	mov	%r11d, %edx
	and	$1, %edx
	mov	ABI_LINE_COUNT(%r9, %rdx, 8), %rdx
	mov	%rdx, ABI_SUB_COUNT(%r8)
	mov	ABI_LINE_LOST(%r9), %rdx
	add	ABI_LINE_LOST + 8(%r9), %rdx
	add	ABI_LINE_LOST + 16(%r9), %rdx
	add	ABI_LINE_LOST + 24(%r9), %rdx
	add	ABI_LINE_LOST + 32(%r9), %rdx
	add	ABI_LINE_LOST + 40(%r9), %rdx
	add	ABI_LINE_LOST + 48(%r9), %rdx
	add	ABI_LINE_LOST + 56(%r9), %rdx
	mov	%rdx, ABI_SUB_LOST(%r8)
	movq	$0, ABI_SUB_END(%r8)
	movl	$1, REQUEST_RENEW(%rdi)
	mov	$ABI_SUB_HEADER, %r14d
	lea	ABI_SUB_HEADER(%rbp), %r12
	jmp	8040b			/* always compact: the begin time is its own */

	/* extended: 0xFFFF, length + 8, u32 id, u64 time */
8030:	add	$ABI_RECORD_EXTENDED - ABI_RECORD_HEADER, %ebp
	add	%rbp, %r12
	cmp	%r13, %r12
	ja	8011f
	mov	%rsi, %r8
	and	SLOT_RING_MASK(%rbx), %r8
	lea	ABI_RECORD_EXTENDED(%r10, %r8), %r8
	movl	$1, REQUEST_RENEW(%rdi)
	mov	REQUEST_IDLEN(%rdi), %edx
	and	$0xFFFF0000, %edx
	add	$((ABI_RECORD_EXTENDED - ABI_RECORD_HEADER) << 16 | ABI_ID_EXTENDED), %edx
	mov	%edx, -16(%r8)
	movzwl	REQUEST_IDLEN(%rdi), %edx
	mov	%edx, -12(%r8)
	mov	%rax, -8(%r8)

8050:
#ifdef BROKEN_EXACT			/* `end` is left as it was */
	jmp	8051f
#endif
	/* an exact fit publishes a boundary: `end` first */
	cmp	%r13, %r12
	jne	8051f
	lea	-1(%r13), %rdx
	not	%rdx
	and	%rsi, %rdx
	and	SLOT_RING_MASK(%rbx), %rdx
	lea	(%rsi, %r14), %rcx
	add	%rbp, %rcx
	mov	%rcx, ABI_SUB_END(%r10, %rdx)
	movl	$1, REQUEST_EDGE(%rdi)
8051:	lea	(%rsi, %r14), %r14
	add	%rbp, %r14		/* r14 = the new position, for the commit */

	/* the body. rbx = request from here on: the slot is done with, and rdi is a copy's target */
	mov	%rdi, %rbx
	mov	%r8, %rdi
	mov	REQUEST_HEAD(%rbx), %eax
	add	%rax, %r8		/* where the first part goes */
	mov	REQUEST_BODY(%rbx), %rsi
	mov	REQUEST_BYTES(%rbx), %ecx
	cmp	$SEQUENCE_FAST_MAX, %ecx
	ja	8051f
	COPY	%rsi, %rdi
	jmp	8053f
8051:	cmp	$PART_PIECES_MAX, %ecx
	ja	8052f
	PIECES	0
	jmp	8053f
8052:	rep movsb
8053:	mov	REQUEST_N_PARTS(%rbx), %r12d
	test	%r12d, %r12d
	jz	8070f
	mov	%r8, %rdi
	mov	REQUEST_PARTS(%rbx), %r13
8054:	mov	PART_DATA(%r13), %rsi
	mov	PART_SIZE(%r13), %ecx
	cmpl	$0, PART_STRING(%r13)
	jne	8060f
	cmp	$PART_PIECES_MAX, %ecx
	ja	8059f
	PIECES	1
	jmp	8055f
8059:	rep movsb
8055:	add	$PART_STRIDE, %r13
	dec	%r12d
	jnz	8054b
	jmp	8070f

	/* a string: somebody may shorten it meanwhile. A word without a zero byte goes as it was tested */
8060:	sub	$1, %ecx		/* the terminator is ours */
	jb	8055b
	mov	$0x0101010101010101, %r10
	mov	$0x8080808080808080, %rbp
8061:	cmp	$8, %ecx
	jb	8062f
	mov	(%rsi), %rax
	mov	%rax, %rdx
	sub	%r10, %rdx
	mov	%rax, %r8
	not	%r8
	and	%r8, %rdx
	test	%rbp, %rdx
	jnz	8062f
	mov	%rax, (%rdi)
	add	$8, %rsi
	add	$8, %rdi
	sub	$8, %ecx
	jmp	8061b
8062:	test	%ecx, %ecx
	jz	8064f
	movzbl	(%rsi), %eax
	test	%al, %al
	jz	8063f
	mov	%al, (%rdi)
	inc	%rsi
	inc	%rdi
	dec	%ecx
	jmp	8062b
8063:	mov	$'#', %al
	rep stosb
8064:	movb	$0, (%rdi)
	inc	%rdi
	jmp	8055b

8070:	mov	%r14, %rsi
	COUNT	1
	mov	%rsi, ABI_LINE_OFFSET(%r9)	/* W1, commit */
END sequence_full, SEQUENCE_DONE_FULL, 1
8010:	movl	$ABI_LOST_BIG, REQUEST_CAUSE(%rdi)
	LEAVE	SEQUENCE_LOST
8011:	mov	%ebp, REQUEST_NEED(%rdi)
	LEAVE	SEQUENCE_NO_FIT
8012:	movl	$ABI_LOST_HELD, REQUEST_CAUSE(%rdi)
	LEAVE	SEQUENCE_LOST
8013:	movl	$ABI_LOST_FULL, REQUEST_CAUSE(%rdi)
	LEAVE	SEQUENCE_LOST
	LOAD_EXITS
	GIVEN_EXITS
FINISH sequence_full

/* ---- the boundary, and nothing else ---- */
BEGIN sequence_boundary
	LOAD	%r8
	mov	SLOT_SUB_MASK(%r8), %rcx
	mov	%rsi, %rax
	and	%rcx, %rax
	jz	8080f			/* somebody did it */
	mov	REQUEST_NEED(%rdi), %edx
	lea	-1(%rax, %rdx), %rax
	cmp	%rcx, %rax
	jbe	8080f			/* another ring, where it fits */
	mov	%rcx, %rdx
	not	%rdx
	and	%rsi, %rdx
	and	SLOT_RING_MASK(%r8), %rdx
	mov	%rsi, ABI_SUB_END(%r10, %rdx)
	or	%rcx, %rsi
	inc	%rsi
	COUNT	0
	mov	%rsi, ABI_LINE_OFFSET(%r9)	/* W1, commit */
END sequence_boundary, SEQUENCE_DONE
8080:	LEAVE	SEQUENCE_SLOW
	LOAD_EXITS
FINISH sequence_boundary

/* ---- base := now ---- */
BEGIN sequence_base
	LOAD	%r8
	cmp	REQUEST_RING(%rdi), %eax
	jne	8090f
	mov	REQUEST_NOW(%rdi), %rax
	cmp	ABI_LINE_BASE(%r9), %rax
	jbe	8090f
	mov	%rax, ABI_LINE_BASE(%r9)	/* commit */
END sequence_base, SEQUENCE_DONE
8090:	LEAVE	SEQUENCE_DONE
	LOAD_EXITS
FINISH sequence_base

/* ---- losses on this CPU's ring ---- */
BEGIN sequence_lost
	LOAD	%r8
	mov	REQUEST_CAUSE(%rdi), %ecx
	mov	REQUEST_AMOUNT(%rdi), %rdx
	add	%rdx, ABI_LINE_LOST(%r9, %rcx, 8)	/* commit */
END sequence_lost, SEQUENCE_DONE
	LOAD_EXITS
FINISH sequence_lost

	.pushsection .data.rel.ro.tracer_rseq, "aw"
	.balign	32
	.globl	sequence_last
	.hidden	sequence_last
sequence_last:
	.popsection

	.section .note.GNU-stack, "", @progbits
