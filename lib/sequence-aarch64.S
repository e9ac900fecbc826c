/* SPDX-License-Identifier: MIT */
/* The restartable sequences for aarch64; lib/sequence.h says what they are, lib/abi.h what they write. The
 * order of stores and loads mirrors sequence-x86_64.S; what x86 gives for nothing is said here:
 *   - the generation, `hold` and `consumed` are loaded by ldar: what is loaded or stored behind them is;
 *   - the count is stored by stlr (W0): behind the W1 of the record before, which a reader relies on that
 *     still sees that W1's predecessor;
 *   - entering a sub-buffer begins with dmb ishst: behind the W1 that published the boundary;
 *   - the commit is stlr (W1): behind the record.
 *
 * x0 request, x1 rseq area, except for the usual record, which gets all it needs in registers. Only caller-saved registers are used.
 * BROKEN_* are negative controls of tests/stress, as on x86-64. */
#include "lib/sequence.h"

	.text

	.pushsection .data.rel.ro.tracer_rseq, "aw"
	.balign	32
	.globl	sequence_first
	.hidden	sequence_first
sequence_first:
	.popsection

.macro BEGIN name, area=x1
	.globl	\name
	.hidden	\name
	.type	\name, %function
	.balign	64
\name:
	.cfi_startproc
	.pushsection .data.rel.ro.tracer_rseq, "aw"
	.balign	32
.Ldescriptor_\name:
	.long	0, 0
	.quad	.Lstart_\name, .Lcommit_\name - .Lstart_\name, .Labort_\name
	.popsection
	adrp	x9, .Ldescriptor_\name
	add	x9, x9, :lo12:.Ldescriptor_\name
	str	x9, [\area, RSEQ_AREA_CS]
.Lstart_\name:
.endm

.macro LEAVE value
	mov	w0, \value
	ret
.endm

/* directly behind the commit, which must be the last instruction inside; all exits come after it */
.macro END name, value
.Lcommit_\name:
	mov	w0, \value
	ret
	.inst	RSEQ_AREA_SIGNATURE
.Labort_\name:
	mov	w0, SEQUENCE_ABORT
	ret
.endm

.macro FINISH name
	.cfi_endproc
	.size	\name, . - \name
.endm

/* x2 slot, w3 ring, x6 control line, x5 data of the ring, x7 offset word, x8 position; clobbers x4 */
.macro LOAD
	ldr	x2, [x0, REQUEST_SLOT]
	ldar	w3, [x2]		/* SLOT_GENERATION is 0 */
	ldr	w4, [x0, REQUEST_GENERATION]
	cmp	w3, w4
	b.ne	8001f
	ldr	w3, [x1, RSEQ_AREA_CPU_ID]
	cmp	w3, ABI_MAX_CPUS	/* unsigned: also the -1 and -2 of a thread without rseq */
	b.hs	8002f
	ldr	x4, [x2, SLOT_CPU_RING]
	ldrh	w3, [x4, x3, lsl 1]
	ldr	w4, [x2, SLOT_N_RING]	/* ABI_NO_RING is above every n_ring */
	cmp	w3, w4
	b.hs	8002f
	ldr	x5, [x2, SLOT_MAP]
	add	x6, x5, ABI_PAGE
	add	x6, x6, x3, lsl ABI_LINE_SHIFT
	ldr	w4, [x2, SLOT_SHIFT]
	lsl	x7, x3, x4
	ldr	x4, [x2, SLOT_DATA]
	add	x5, x5, x4
	add	x5, x5, x7
	ldr	x7, [x6, ABI_LINE_OFFSET]
	and	x8, x7, -4
.endm
.macro LOAD_EXITS
8001:	LEAVE	SEQUENCE_STALE
8002:	LEAVE	SEQUENCE_NO_RING
.endm

/* x9 = nanoseconds by the counter, by the register \mult; clobbers x11 */
.macro COUNTER mult
	isb
	mrs	x9, cntvct_el0
	mul	x11, x9, \mult
	umulh	x9, x9, \mult
	extr	x9, x9, x11, 32
.endm
/* x9 is the time that was read before the sequence; `last` before the commit, as on x86-64; clobbers x10 */
.macro GIVEN
	ldr	x10, [x6, ABI_LINE_LAST]
	cmp	x9, x10
	b.lo	8005f
	str	x9, [x6, ABI_LINE_LAST]
.endm
.macro GIVEN_EXITS
8005:	LEAVE	SEQUENCE_CLOCK
.endm

/* w11 bytes, a multiple of 4, from x10 to \to; clobbers x10, x11, x12 and \to */
.macro COPY to
	subs	w11, w11, 8
	b.lo	7001f
7000:	ldr	x12, [x10], 8
	str	x12, [\to], 8
	subs	w11, w11, 8
	b.hs	7000b
7001:	tbz	w11, 2, 7002f
	ldr	w12, [x10]
	str	w12, [\to]
7002:
.endm

/* the other count word := valid one + \add (W0); x8, the new position, gets the flipped bit; clobbers
 * x10, x11, x12 */
.macro COUNT add
	and	x10, x7, 1
	add	x12, x6, ABI_LINE_COUNT
	ldr	x11, [x12, x10, lsl 3]
	.if	\add
	add	x11, x11, 1
	.endif
	eor	x10, x10, 1
	add	x12, x12, x10, lsl 3
	stlr	x11, [x12]
	orr	x8, x8, x10
.endm

/* ---- the usual record ----
 * x0 body, x1 mult or now, x2 slot, w3 generation, w4 idlen, x5 rseq area. LOAD is written out here, so that nothing is
 * computed that this form does not use.
 * x6 control line, x12 where the record goes, x7 offset word, x8 position, w13 step */

/* What goes into w13 - ABI_RECORD_HEADER bytes from x0 to x12, straight for the usual sizes, as on x86-64; clobbers x0,
 * x10, x11, x12 */
.macro BODY
	sub	w11, w13, ABI_RECORD_HEADER
	.irp	at, 0, 8, 16, 24, 32, 40, 48, 56
	cmp	w11, \at + 8
	b.lo	7003f
	ldr	x10, [x0], 8
	str	x10, [x12], 8
	.endr
	sub	w11, w11, 64
	b	7002f
7001:	ldr	x10, [x0], 8
	str	x10, [x12], 8
	sub	w11, w11, 8
7002:	cmp	w11, 8
	b.hs	7001b
7003:	tbz	w11, 2, 7004f
	ldr	w10, [x0]
	str	w10, [x12]
7004:
.endm

.macro FAST name, counter
BEGIN \name, x5
	ldar	w9, [x2]		/* SLOT_GENERATION is 0 */
	cmp	w9, w3
	b.ne	8001f
	ldr	w3, [x5, RSEQ_AREA_CPU_ID]
	cmp	w3, ABI_MAX_CPUS	/* unsigned: also the -1 and -2 of a thread without rseq */
	b.hs	8002f
	ldr	x9, [x2, SLOT_CPU_RING]
	ldrh	w3, [x9, x3, lsl 1]
	ldr	w9, [x2, SLOT_N_RING]	/* ABI_NO_RING is above every n_ring */
	cmp	w3, w9
	b.hs	8002f
	ldr	x12, [x2, SLOT_MAP]
	add	x6, x12, ABI_PAGE
	add	x6, x6, x3, lsl ABI_LINE_SHIFT
	ldr	w9, [x2, SLOT_SHIFT]
	lsl	x3, x3, x9
	ldr	x9, [x2, SLOT_DATA]
	add	x12, x12, x9
	add	x12, x12, x3
	ldr	x7, [x6, ABI_LINE_OFFSET]
	and	x8, x7, -4
	lsr	w13, w4, 16
	add	w13, w13, 3
	and	w13, w13, -4
	ldr	x9, [x2, SLOT_RING_MASK]
	and	x10, x8, x9
	add	x12, x12, x10
	ldr	x9, [x2, SLOT_SUB_MASK]
	ands	x10, x8, x9
	b.eq	8003f			/* on a boundary */
	add	x10, x10, x13
	cmp	x10, x9
	b.hi	8003f			/* no fit; or an exact one, which stores `end` too */
	.if	\counter
	COUNTER	x1
	.else
	mov	x9, x1
	GIVEN
	.endif
	ldr	x10, [x6, ABI_LINE_BASE]
	sub	x10, x9, x10
	ldr	x11, =ABI_COMPACT_LIMIT
	cmp	x10, x11
	b.hs	8003f			/* extended */
	stp	w4, w9, [x12], ABI_RECORD_HEADER
	add	x8, x8, x13
#ifdef BROKEN_EARLY			/* published, then copied */
	mov	x14, x12
	COUNT	1
	mov	x12, x14
	stlr	x8, [x6]
	BODY
	nop
#else
	BODY
	COUNT	1
	stlr	x8, [x6]		/* W1, commit; ABI_LINE_OFFSET is 0 */
#ifdef BROKEN_LATE			/* the commit is not the last instruction; an emulator looks for interrupts at jumps */
	b	7777f
7777:	nop
#endif
#endif
END \name, SEQUENCE_DONE
8003:	LEAVE	SEQUENCE_SLOW
8001:	LEAVE	SEQUENCE_STALE
8002:	LEAVE	SEQUENCE_NO_RING
	.if	!\counter
	GIVEN_EXITS
	.endif
	.ltorg
FINISH \name
.endm
	FAST	sequence_fast_counter, 1
	FAST	sequence_fast_given, 0

/* ---- any record ----
 * x13 step, x14 size of a sub-buffer, x15 where the record begins behind the position (an entered
 * sub-buffer's header), x16 where it ends in its sub-buffer, x17 where its body goes */
BEGIN sequence_full
	LOAD
	str	w3, [x0, REQUEST_RING]
	str	wzr, [x0, REQUEST_RENEW]
	ldr	w13, [x0, REQUEST_STEP]
	ldr	x14, [x2, SLOT_SUB_MASK]
	add	x14, x14, 1
	add	x10, x13, ABI_SUB_HEADER + ABI_RECORD_EXTENDED - ABI_RECORD_HEADER
	cmp	x10, x14
	b.hi	8010f			/* too large: before any boundary, in the extended form */
	ldr	x10, [x0, REQUEST_MULT]
	cbz	x10, 8014f
	COUNTER	x10
	str	x9, [x0, REQUEST_NOW]
8015:	ldr	x10, [x2, SLOT_SUB_MASK]
	ands	x16, x8, x10
	b.eq	8020f
	mov	x15, 0
	ldr	x10, [x6, ABI_LINE_BASE]
	sub	x10, x9, x10
	ldr	x11, =ABI_COMPACT_LIMIT
	cmp	x10, x11
	b.hs	8030f
	add	x16, x16, x13
	cmp	x16, x14
	b.hi	8011f

	/* compact */
8040:	add	x10, x8, x15
	ldr	x11, [x2, SLOT_RING_MASK]
	and	x10, x10, x11
	add	x17, x5, x10
	ldr	w10, [x0, REQUEST_IDLEN]
	stp	w10, w9, [x17], ABI_RECORD_HEADER
	b	8050f

8014:	ldr	x9, [x0, REQUEST_NOW]
	GIVEN
	b	8015b

	/* on a boundary: the policy, then the header */
8020:	ldr	x10, [x2, SLOT_RING_MASK]
	add	x10, x10, 1
	add	x11, x8, x14		/* entering needs the memory of x11 - ring and below */
	ldr	w12, [x2, SLOT_POLICY]
	cmp	w12, ABI_POLICY_OVERWRITE
	b.ne	8021f
	add	x12, x6, ABI_LINE_HOLD
	ldar	x12, [x12]		/* hold, then deadline: stored the other way round */
	tbz	x12, 0, 8022f
	ldr	x15, [x6, ABI_LINE_DEADLINE]
	sub	x15, x15, x9
	ldr	x16, =ABI_MAX_HOLD_NS
	cmp	x15, x16		/* unsigned: past, or further away than anybody may ask */
	b.hi	8022f
	and	x12, x12, -2
	add	x10, x10, x12
	cmp	x11, x10
	b.hi	8012f
	b	8022f
8021:	add	x12, x6, ABI_LINE_CONSUMED
	ldar	x12, [x12]		/* what is stored behind it overwrites only what was copied */
	add	x10, x10, x12
	cmp	x11, x10
	b.hi	8013f
8022:	dmb	ishst			/* behind the W1 that published this boundary */
	ldr	x10, [x2, SLOT_RING_MASK]
	and	x10, x10, x8
	add	x17, x5, x10
	str	x8, [x17, ABI_SUB_POSITION]
	str	x9, [x17, ABI_SUB_BEGIN]
	and	x10, x7, 1
	add	x11, x6, ABI_LINE_COUNT
	ldr	x10, [x11, x10, lsl 3]
	str	x10, [x17, ABI_SUB_COUNT]
	ldp	x10, x11, [x6, ABI_LINE_LOST]
	add	x12, x10, x11
	ldp	x10, x11, [x6, ABI_LINE_LOST + 16]
	add	x12, x12, x10
	add	x12, x12, x11
	ldp	x10, x11, [x6, ABI_LINE_LOST + 32]
	add	x12, x12, x10
	add	x12, x12, x11
	ldp	x10, x11, [x6, ABI_LINE_LOST + 48]
	add	x12, x12, x10
	add	x12, x12, x11
	str	x12, [x17, ABI_SUB_LOST]
	str	xzr, [x17, ABI_SUB_END]
	mov	x15, ABI_SUB_HEADER
	str	w15, [x0, REQUEST_RENEW]	/* anything but 0 */
	add	x16, x13, ABI_SUB_HEADER
	b	8040b			/* always compact: the begin time is its own */

	/* extended: 0xFFFF, length + 8, u32 id, u64 time */
8030:	add	x13, x13, ABI_RECORD_EXTENDED - ABI_RECORD_HEADER
	add	x16, x16, x13
	cmp	x16, x14
	b.hi	8011f
	ldr	x10, [x2, SLOT_RING_MASK]
	and	x10, x10, x8
	add	x17, x5, x10
	ldr	w10, [x0, REQUEST_IDLEN]
	and	w11, w10, 0xFFFF	/* the id */
	lsr	w10, w10, 16
	add	w10, w10, ABI_RECORD_EXTENDED - ABI_RECORD_HEADER
	lsl	w10, w10, 16
	orr	w10, w10, ABI_ID_EXTENDED
	stp	w10, w11, [x17]
	str	x9, [x17, 8]
	add	x17, x17, ABI_RECORD_EXTENDED
	str	w14, [x0, REQUEST_RENEW]

8050:
#ifdef BROKEN_EXACT			/* `end` is left as it was */
	b	8051f
#endif
	/* an exact fit publishes a boundary: `end` first */
	cmp	x16, x14
	b.ne	8051f
	sub	x10, x14, 1
	bic	x10, x8, x10
	ldr	x11, [x2, SLOT_RING_MASK]
	and	x10, x10, x11
	add	x10, x5, x10
	add	x11, x8, x15
	add	x11, x11, x13
	str	x11, [x10, ABI_SUB_END]
	str	w14, [x0, REQUEST_EDGE]	/* anything but 0 */
8051:	add	x8, x8, x15
	add	x8, x8, x13		/* the new position, for the commit */

	/* the body; x13 = where the first part goes */
	ldr	w13, [x0, REQUEST_HEAD]
	add	x13, x17, x13
	ldr	x10, [x0, REQUEST_BODY]
	ldr	w11, [x0, REQUEST_BYTES]
	COPY	x17
	ldr	w14, [x0, REQUEST_N_PARTS]
	cbz	w14, 8070f
	ldr	x15, [x0, REQUEST_PARTS]
8054:	ldr	x10, [x15, PART_DATA]
	ldr	w11, [x15, PART_SIZE]
	ldr	w12, [x15, PART_STRING]
	cbnz	w12, 8060f
	subs	w11, w11, 16
	b.lo	8057f
8056:	ldp	x16, x17, [x10], 16
	stp	x16, x17, [x13], 16
	subs	w11, w11, 16
	b.hs	8056b
8057:	add	w11, w11, 16
8058:	cbz	w11, 8055f
	ldrb	w12, [x10], 1
	strb	w12, [x13], 1
	sub	w11, w11, 1
	b	8058b
8055:	add	x15, x15, PART_STRIDE
	sub	w14, w14, 1
	cbnz	w14, 8054b
	b	8070f

	/* a string: somebody may shorten it meanwhile. A word without a zero byte goes as it was tested */
8060:	subs	w11, w11, 1		/* the terminator is ours */
	b.lo	8055b
	mov	x16, 0x0101010101010101
8061:	cmp	w11, 8
	b.lo	8062f
	ldr	x12, [x10]
	sub	x17, x12, x16
	bic	x17, x17, x12
	tst	x17, 0x8080808080808080
	b.ne	8062f
	str	x12, [x13], 8
	add	x10, x10, 8
	sub	w11, w11, 8
	b	8061b
8062:	cbz	w11, 8064f
	ldrb	w12, [x10], 1
	cbz	w12, 8063f
	strb	w12, [x13], 1
	sub	w11, w11, 1
	b	8062b
8063:	mov	w12, '#'
8065:	strb	w12, [x13], 1
	subs	w11, w11, 1
	b.ne	8065b
8064:	strb	wzr, [x13], 1
	b	8055b

8070:	COUNT	1
	stlr	x8, [x6]		/* W1, commit */
END sequence_full, SEQUENCE_DONE_FULL
8010:	mov	w9, ABI_LOST_BIG
	b	8018f
8011:	str	w13, [x0, REQUEST_NEED]
	LEAVE	SEQUENCE_NO_FIT
8012:	mov	w9, ABI_LOST_HELD
	b	8018f
8013:	mov	w9, ABI_LOST_FULL
8018:	str	w9, [x0, REQUEST_CAUSE]
	LEAVE	SEQUENCE_LOST
	LOAD_EXITS
	GIVEN_EXITS
	.ltorg
FINISH sequence_full

/* ---- the boundary, and nothing else ---- */
BEGIN sequence_boundary
	LOAD
	ldr	x9, [x2, SLOT_SUB_MASK]
	ands	x10, x8, x9
	b.eq	8080f			/* somebody did it */
	ldr	w11, [x0, REQUEST_NEED]
	add	x10, x10, x11
	sub	x10, x10, 1
	cmp	x10, x9
	b.ls	8080f			/* another ring, where it fits */
	bic	x10, x8, x9
	ldr	x11, [x2, SLOT_RING_MASK]
	and	x10, x10, x11
	add	x10, x5, x10
	str	x8, [x10, ABI_SUB_END]
	orr	x8, x8, x9
	add	x8, x8, 1
	COUNT	0
	stlr	x8, [x6]		/* W1, commit */
END sequence_boundary, SEQUENCE_DONE
8080:	LEAVE	SEQUENCE_SLOW
	LOAD_EXITS
FINISH sequence_boundary

/* ---- base := now ---- */
BEGIN sequence_base
	LOAD
	ldr	w9, [x0, REQUEST_RING]
	cmp	w3, w9
	b.ne	8090f
	ldr	x9, [x0, REQUEST_NOW]
	ldr	x10, [x6, ABI_LINE_BASE]
	cmp	x9, x10
	b.ls	8090f
	str	x9, [x6, ABI_LINE_BASE]	/* commit */
END sequence_base, SEQUENCE_DONE
8090:	LEAVE	SEQUENCE_DONE
	LOAD_EXITS
FINISH sequence_base

/* ---- losses on this CPU's ring ---- */
BEGIN sequence_lost
	LOAD
	ldr	w9, [x0, REQUEST_CAUSE]
	add	x9, x6, x9, lsl 3
	ldr	x10, [x0, REQUEST_AMOUNT]
	ldr	x11, [x9, ABI_LINE_LOST]
	add	x11, x11, x10
	str	x11, [x9, ABI_LINE_LOST]	/* commit */
END sequence_lost, SEQUENCE_DONE
	LOAD_EXITS
FINISH sequence_lost

	.pushsection .data.rel.ro.tracer_rseq, "aw"
	.balign	32
	.globl	sequence_last
	.hidden	sequence_last
sequence_last:
	.popsection

	.section .note.GNU-stack, "", %progbits
