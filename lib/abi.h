/* SPDX-License-Identifier: MIT */
/* The bytes that processes share: the control page and the rings. This file is their specification;
 * a reader should need nothing else to write a producer or a consumer.
 *
 * 1. PURPOSE AND PROMISE. Every region begins with a magic and {major, minor}. A different major
 *    refuses (producer: behaves as with no daemon; daemon: refuses the producer with a reason). A
 *    higher minor only gives meaning to words that were reserved; who does not know them reads on.
 *    Reserved words are written 0 and ignored when read. Zeroed memory (behind a valid header page) is
 *    a valid, empty ring. All integers are little endian, naturally aligned, of fixed width; 32-bit
 *    and 64-bit processes see the same bytes.
 *
 * 2. TRUST. The control page is written by the daemon alone; producers map it read-only and may
 *    believe it. A ring region is mapped read-write by the daemon and by every producer of its
 *    owner. The daemon believes nothing that is read from it, and neither does a producer: each
 *    position is loaded once into a local, then masked or checked against geometry that came by the
 *    wire (wire.h) and is kept in private memory. The header page of a region is information for
 *    people and dump tools, never an input.
 *
 * 3. MAPS.
 *    control page (a file of ABI_CONTROL_SIZE bytes)
 *      0      struct abi_control: generation, clock, retry; per session slot a generation and two futex words
 *      4096   u16 cpu_ring[ABI_MAX_CPUS]: the ring of a CPU, ABI_NO_RING where it has none yet
 *      12288  u64 mask[ABI_BUCKETS]: bit i says that slot i may want events of a provider whose name
 *             hashes there (abi_bucket())
 *    ring region (one memfd per session and owner)
 *      0      struct abi_region, one page
 *      4096   struct abi_ring[n_ring + n_side + n_pinned], the control lines
 *      data   n_ring rings of 1 << ring_shift bytes, then n_side rings of 1 << side_shift, then (minor 2)
 *             n_pinned rings of 1 << pinned_shift; `data` is 4096 + the lines, rounded up to 4096
 *    ring: sub-buffers of 1 << sub_shift (side_sub_shift, pinned_sub_shift) bytes, at least ABI_MIN_SUBS of
 *      them (ABI_MIN_PINNED_SUBS in a pinned ring); each begins with struct abi_sub and goes on with records
 *    record: ABI_RECORD_HEADER bytes {u16 id, u16 length, u32 low time}, or ABI_RECORD_EXTENDED bytes
 *      {u16 0xFFFF, u16 length, u32 id, u64 time}; then the session's contexts (by default u32 vpid,
 *      u32 vtid), then the fields, packed. `length` counts all of it, without padding; the next record
 *      begins at the next multiple of 4.
 *
 * 4. FIELDS: at each struct below: who writes, who reads, in which order, and the partner.
 *
 * 5. STATES. A ring has one state, `offset`: the byte position (it only grows) that the next record is
 *    written at. offset on a multiple of the sub-buffer's size: a boundary; the sub-buffer behind it
 *    has not been entered and nothing beyond it is written. Edges, each one restartable sequence of a
 *    writer on its CPU (or a holder of a side ring's lock), each published by one store:
 *      inside     -> inside     a record
 *      inside     -> boundary   a record that fits exactly (stores `end` first), or a record that does
 *                               not fit (stores `end`, then the boundary and nothing else)
 *      boundary   -> inside     entry: the policy is asked, the header written, the record stored
 *    Nobody else moves it. The daemon writes `consumed`, `hold`, `deadline` and, for a dead holder, `lock`.
 *    A refused entry moves nothing: under `block` the writer leaves the ring, waits (9), and begins again.
 *
 * 6. PAIRS.
 *      writer                                     reader
 *      record bytes                               load_acquire  offset          (R1)
 *      store_release count[!valid] := n + 1 (W0)  copy bytes
 *      store_release offset | !valid   (W1)       acquire fence, load_acquire offset (R2)
 *    W1 pairs with R1: what R1 names is visible. The writer's stores into a sub-buffer are ordered behind
 *    the W1 that published the boundary before it (x86: stores are in order; aarch64: `dmb ishst` in the
 *    sequence that enters), so that a reader whose copy met newer bytes sees, at R2, an offset that tells
 *    it so: it drops the sub-buffer that the writer stands before or in, one lap back, and all that is older.
 *      count: bit 0 of offset names the valid word of count[2]; a reader loads offset, count, offset until
 *      both offsets are equal. The valid word is stable while the offset is: the sequence that writes it
 *      again comes after the next W1, and W0, a release, is ordered behind that.
 *      consumed (daemon, release) pairs with the load in an entry under `discard` and `block`: a writer overwrites only
 *      what the daemon does not read any more. It is stored when the records below are in a file, whole sub-buffers at a
 *      time: a daemon that is killed leaves every record in its file, in the ring, or in both.
 *      deadline, then hold (daemon, release each) pair with hold, then deadline in an entry under
 *      `overwrite`; the membarrier between hold and R1 makes every sequence that had not seen
 *      hold start again, or be published where R1 sees it.
 *    Progress: a record is wait-free but for restarts by the kernel, which are bounded (then: side ring).
 *    A stopped or dead writer holds up nobody in a per-CPU ring; in a side ring the others count `busy`.
 *    Under `block` a record takes its session's timeout at most, by the wall, while the ring is full.
 *
 * 7. WIDTHS. offset and counts are 64 bits and do not wrap in practice (2^64 bytes). offset is a multiple
 *    of 4 with bit 0 borrowed. A record is at most 0xFFFF bytes in its extended form, and must fit
 *    an empty sub-buffer in that form; else it is counted ABI_LOST_BIG.
 *
 * 8. LOSSES by cause in `lost` of the control line of the CPU that noticed; exact per session, not per
 *    ring. written = count; kept = walked; count - kept = overwritten.
 *
 * 9. WAKE-UP (minor 1). Two words per session slot in the control page, so that the daemon alone writes them
 *    and a program can neither keep a consumer awake nor be parked by another's bytes. Both are waited on
 *    and woken by the futex calls for shared mappings, which a read-only mapping of a file is enough for.
 *      wake      consumer: store 1; membarrier(GLOBAL_EXPEDITED); look at every ring; FUTEX_WAIT while it is
 *                1; awake, store 0.
 *                writer, behind the W1 that published a boundary: load it (relaxed); not 0: FUTEX_WAKE of 1.
 *                Either that W1 is before the barrier, and the look sees it, or the load is behind it, and
 *                sees 1: the barrier stands for the fence between W1 and the load, which so costs nothing.
 *                A writer pays a load per sub-buffer, and a system call per sub-buffer while the consumer
 *                sleeps.
 *      progress  consumer: store_release consumed, then add 1 (release), then FUTEX_WAKE of all. Also when a
 *                session is over or gets other rings, behind its slot's generation.
 *                writer under `block`: load it (acquire), then the record; refused for want of room:
 *                FUTEX_WAIT while it is what was loaded; then again. The acquire pairs with the release: a
 *                writer that loaded the newer value sees the newer `consumed` and generation.
 *    Every wait is bounded: a call that comes between the consumer's look and its sleep finds nobody, since
 *    writers do not change the word that is compared (the next boundary calls again); a writer may be
 *    stopped between W1 and its call, or may not have been allowed to register for the barrier; and whoever
 *    can read the page can wake or requeue who sleeps there. A writer waits in slices of 10 ms, a
 *    consumer briefly at first and no longer than it may be late.
 *    A writer holds nothing while it waits: no lock, no use of a ring, no signal blocked.
 *
 * 10. PINNED RINGS (minor 2) keep the first records of a program, those of the events that its session has
 *     pinned, whatever the other rings do. They are side rings, format and lock, with three differences: the
 *     answer of the daemon names the one that is this program's, and no other honest program writes there;
 *     whatever the policy, entry is as under `discard`; and a record that is refused is not lost, but
 *     goes where it would have gone without, while `unpinned` counts it. The daemon moves `consumed` only when
 *     the program whose ring it was is gone and another one gets it. A program without a pinned ring counts
 *     `unpinned` on a side ring's line.
 *
 * 11. DEATH. SIGKILL anywhere in a sequence: it never began. SIGSTOP: nobody waits, and one who
 *     waited looks again first. fork: regions are
 *     MADV_DONTFORK. exec: mappings go. Death with a side ring's lock: the daemon breaks it by the
 *     producer number in the lock word. Daemon death: programs go on recording; under
 *     `block` once a timeout has passed without progress a full ring is left at once, until there is some.
 *
 * 12. CLOCK. nanoseconds. ABI_CLOCK_COUNTER: (counter * mult) >> 32, in 128 bits, counter = TSC or
 *     cntvct_el0, read inside the sequence; ABI_CLOCK_MONOTONIC: CLOCK_MONOTONIC, read before the
 *     sequence, which leaves when it is older than the ring's `last` and else stores `last` before its
 *     commit (side rings do the same under their lock, with either clock). Per ring, time never goes back.
 *
 * 13. RETRY (minor 3). A program whose exchange failed asks again when the generation moves. Where the daemon noticed that somebody
 *     was not heard (lost patience, found no place in its queue, had too many connections), nothing has changed for those
 *     that were, and `retry` moves instead, once a second at most. A program whose last exchange failed, and that finds it other
 *     than it was before that, asks again at a time of its own within a period that doubles with each failure, so that a thousand who
 *     were late together do not come back together. A library of minor 2 asks at the next generation.
 *
 * Formats and rules are our own; doc/abi.md argues them. CTF constraints on the record are those of CTF
 * 1.8 (diamon.org/ctf) as babeltrace2 and Trace Compass read it. */
#pragma once

#define ABI_MAJOR 1
#define ABI_MINOR 3 /* 1: wake, progress, policy block; 2: pinned rings; 3: retry */

/* ---- control page ---- */
#define ABI_MAX_SLOTS	 64    /* sessions at one time: the bits of a mask */
#define ABI_MAX_CPUS	 4096
#define ABI_BUCKETS	 1024  /* 8 KiB of masks; a collision costs a compare per event, no more */
#define ABI_NO_RING	 0xFFFF
#define ABI_CONTROL_SIZE 20480
#define ABI_CONTROL_CPUS  4096
#define ABI_CONTROL_MASKS 12288

#define ABI_CLOCK_NONE	    0 /* the page was never written by a daemon */
#define ABI_CLOCK_COUNTER   1
#define ABI_CLOCK_MONOTONIC 2

/* ---- ring region ---- */
#define ABI_PAGE	    4096
#define ABI_LINE	    256 /* sizeof(struct abi_ring) */
#define ABI_LINE_SHIFT	    8
#define ABI_LINE_OFFSET	    0
#define ABI_LINE_COUNT	    8
#define ABI_LINE_BASE	    24
#define ABI_LINE_LAST	    32
#define ABI_LINE_UNPINNED   40
#define ABI_LINE_LOST	    64
#define ABI_LINE_CONSUMED   128
#define ABI_LINE_HOLD	    136
#define ABI_LINE_DEADLINE   144
#define ABI_LINE_LOCK	    192

#define ABI_SUB_HEADER	    128 /* sizeof(struct abi_sub) */
#define ABI_SUB_POSITION    0
#define ABI_SUB_BEGIN	    8
#define ABI_SUB_COUNT	    16
#define ABI_SUB_LOST	    24
#define ABI_SUB_END	    32

#define ABI_MIN_SUBS	    16	 /* a snapshot reaches back (n - 2) / n of a ring at worst */
#define ABI_MIN_SUB_SHIFT   12
/* a pinned ring never comes round: parts of it are only what is given away at a time */
#define ABI_MIN_PINNED_SUBS	 8
#define ABI_MIN_PINNED_SUB_SHIFT 10
#define ABI_MAX_RING_SHIFT  32

#define ABI_RECORD_HEADER   8
#define ABI_RECORD_EXTENDED 16
#define ABI_ID_EXTENDED	    0xFFFF
#define ABI_ID_MAX	    0xFFFE /* ids are 1..ABI_ID_MAX; 0 means "not wanted" on the wire */
#define ABI_MAX_RECORD	    0xFFFF /* bytes, contexts included, in the extended form */

/* A compact stamp holds the low 32 bits; a reader adds 2^32 when they fall. Compact is safe while less
 * than 2^32 ns have passed since `base`, less some slack. The stress shortens stamps, so that a wrap comes
 * every few microseconds and the other stored bits prove what the reader made of it. */
#ifndef ABI_STAMP_BITS
#define ABI_STAMP_BITS	  32
#define ABI_COMPACT_LIMIT 0xFFF00000
#endif

/* A hold is believed while deadline - now <= this, unsigned: a writer that read its clock just before the
 * snapshot did sees a deadline a little further off than ABI_HOLD_NS; a hostile one asks for ever. */
#define ABI_HOLD_NS	100000000
#define ABI_MAX_HOLD_NS 200000000

#define ABI_POLICY_OVERWRITE 0
#define ABI_POLICY_DISCARD   1
#define ABI_POLICY_BLOCK     2 /* in a ring: discard. What a writer does about a refusal is its own affair */

/* causes of a loss; the order is the wire's, the daemon's and the trace's */
#define ABI_LOST_FULL	0 /* discard, block: the reader was not fast enough */
#define ABI_LOST_HELD	1 /* overwrite: a snapshot held the memory */
#define ABI_LOST_BIG	2 /* larger than a sub-buffer or than `length` can say */
#define ABI_LOST_BUSY	3 /* the side ring's lock was taken for too long */
#define ABI_LOST_VFORK	4 /* called by a vfork child, added by its parent */
#define ABI_LOST_CAUSES 8

/* contexts, a bit each, in this order in the record */
#define ABI_CONTEXT_VPID 1
#define ABI_CONTEXT_VTID 2

#ifndef __ASSEMBLER__
#include <stddef.h>
#include <stdint.h>

#define ABI_CONTROL_MAGIC 0x314C4F5254435254ull /* "TRCTROL1" */
#define ABI_REGION_MAGIC  0x31474E4952435254ull /* "TRCRING1" */

struct abi_control {
	uint64_t magic;
	uint16_t major, minor;
	uint32_t size;		/* ABI_CONTROL_SIZE */
	uint32_t generation;	/* daemon: release, after all else of a change; producer: acquire */
	uint32_t clock;		/* ABI_CLOCK_*; set once per boot */
	uint64_t clock_mult;	/* 32.32 fixed point: nanoseconds per tick */
	uint8_t boot_id[16];	/* the clock constants hold for this boot alone */
	uint8_t clock_uuid[16]; /* the uuid of the clock in every trace of this boot */
	uint32_t retry;		/* 13. Both: relaxed, it orders nothing */
	uint32_t reserved2;
	uint64_t reserved0[23];
	/* 0: no session. The daemon writes tables, masks, then the slot's generation (release); a
	 * producer compares it (acquire) with the one its own slot was attached for. */
	uint32_t slot_generation[ABI_MAX_SLOTS];
	/* 9. Daemon: see there; producer: relaxed, behind W1 */
	uint32_t wake[ABI_MAX_SLOTS];
	/* 9. Daemon: release, behind `consumed` and slot_generation; producer: acquire, before an attempt */
	uint32_t progress[ABI_MAX_SLOTS];
	uint8_t reserved1[3072];
};

struct abi_control_page {
	struct abi_control head;
	uint16_t cpu_ring[ABI_MAX_CPUS]; /* daemon: release; producer: inside the sequence */
	uint64_t mask[ABI_BUCKETS];	 /* daemon: release; producer: relaxed (a hint; rechecked) */
};

struct abi_region {
	uint64_t magic;
	uint16_t major, minor;
	uint32_t ring_shift, sub_shift, side_shift, side_sub_shift, n_ring, n_side, policy, contexts;
	uint32_t slot, generation;
	uint32_t reserved; /* a 32-bit compiler would put size here */
	uint64_t size;
	uint32_t pinned_shift, pinned_sub_shift, n_pinned, reserved1; /* minor 2 */
};

/* A ring's control line. Three cache lines by who writes them, and the side ring's lock. */
struct abi_ring {
	/* writers */
	uint64_t offset;   /* W1/R1/R2; bit 0: the valid word of count */
	uint64_t count[2]; /* records ever written */
	uint64_t base;	   /* time of the last entry or extended record; a sequence of its own */
	uint64_t last;	   /* newest stamp: clock MONOTONIC, and side rings */
	uint64_t unpinned; /* side and pinned rings: records that were to be pinned and were not; locked adds */
	uint64_t reserved0[2];
	/* writers, seldom */
	uint64_t lost[ABI_LOST_CAUSES];
	/* the daemon */
	uint64_t consumed; /* discard, block: positions below are free, their records in a file */
	uint64_t hold;	   /* overwrite: lowest held position | 1; 0: none */
	uint64_t deadline; /* time until which hold counts */
	uint64_t reserved1[5];
	/* side rings: 0, or producer number << 32 | tid of the holder */
	uint64_t lock;
	uint64_t reserved2[7];
};

/* The reserved header of a sub-buffer: written by the sequence that enters it; `end` by the one that
 * publishes the boundary behind it. The rest is room for a CTF packet header. */
struct abi_sub {
	uint64_t position; /* of this sub-buffer's first byte: tells laps apart */
	uint64_t begin;	   /* time of its first record */
	uint64_t count;	   /* records of the ring before it */
	uint64_t lost;	   /* losses of the ring before it, all causes */
	uint64_t end;	   /* position behind the last record (padded), once the boundary is published */
	uint64_t room[11];
};

#define ABI_AT(s, f, o) _Static_assert(offsetof(struct s, f) == (o), #s "." #f)
_Static_assert(sizeof(struct abi_control) == ABI_PAGE, "abi_control");
_Static_assert(sizeof(struct abi_control_page) == ABI_CONTROL_SIZE, "abi_control_page");
ABI_AT(abi_control, magic, 0);
ABI_AT(abi_control, major, 8);
ABI_AT(abi_control, minor, 10);
ABI_AT(abi_control, size, 12);
ABI_AT(abi_control, generation, 16);
ABI_AT(abi_control, clock, 20);
ABI_AT(abi_control, clock_mult, 24);
ABI_AT(abi_control, boot_id, 32);
ABI_AT(abi_control, clock_uuid, 48);
ABI_AT(abi_control, retry, 64);
ABI_AT(abi_control, reserved0, 72);
ABI_AT(abi_control, slot_generation, 256);
ABI_AT(abi_control, wake, 512);
ABI_AT(abi_control, progress, 768);
ABI_AT(abi_control, reserved1, 1024);
ABI_AT(abi_control_page, cpu_ring, ABI_CONTROL_CPUS);
ABI_AT(abi_control_page, mask, ABI_CONTROL_MASKS);
_Static_assert(sizeof(struct abi_ring) == ABI_LINE && 1 << ABI_LINE_SHIFT == ABI_LINE, "abi_ring");
ABI_AT(abi_ring, offset, ABI_LINE_OFFSET);
ABI_AT(abi_ring, count, ABI_LINE_COUNT);
ABI_AT(abi_ring, base, ABI_LINE_BASE);
ABI_AT(abi_ring, last, ABI_LINE_LAST);
ABI_AT(abi_ring, lost, ABI_LINE_LOST);
ABI_AT(abi_ring, unpinned, ABI_LINE_UNPINNED);
ABI_AT(abi_ring, consumed, ABI_LINE_CONSUMED);
ABI_AT(abi_ring, hold, ABI_LINE_HOLD);
ABI_AT(abi_ring, deadline, ABI_LINE_DEADLINE);
ABI_AT(abi_ring, lock, ABI_LINE_LOCK);
_Static_assert(sizeof(struct abi_sub) == ABI_SUB_HEADER, "abi_sub");
ABI_AT(abi_sub, position, ABI_SUB_POSITION);
ABI_AT(abi_sub, begin, ABI_SUB_BEGIN);
ABI_AT(abi_sub, count, ABI_SUB_COUNT);
ABI_AT(abi_sub, lost, ABI_SUB_LOST);
ABI_AT(abi_sub, end, ABI_SUB_END);
ABI_AT(abi_region, ring_shift, 12);
ABI_AT(abi_region, contexts, 40);
ABI_AT(abi_region, slot, 44);
ABI_AT(abi_region, size, 56);
ABI_AT(abi_region, pinned_shift, 64);
_Static_assert(sizeof(struct abi_region) == 80, "abi_region");

/* The mask word of a provider: FNV-1a (Fowler, Noll, Vo), 32 bits, folded to the table. */
static inline uint32_t abi_bucket(const char *provider)
{
	uint32_t h = 2166136261u;

	for (; *provider; provider++)
		h = (h ^ (uint8_t)*provider) * 16777619u;
	return (h ^ h >> 16) & (ABI_BUCKETS - 1);
}
#endif
