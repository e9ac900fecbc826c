/* SPDX-License-Identifier: MIT */
/* What a session's backing looks like on disk; doc/backing-format.md argues it. All integers are little endian, as in the
 * rings. Whoever reads this believes nothing but checksums, and of what those vouch for nothing but that it was written. */
#pragma once

#include "lib/geometry.h"

#define BACKING_BLOCK	4096
#define BACKING_VERSION 1
/* Positions that no ring reaches in a machine's life. */
#define BACKING_POSITION_LIMIT (1ull << 62)

/* Names in a run's directory: "session", and LABEL.N.rings, LABEL.N.glossary and LABEL.N.programs for each owner. */
#define BACKING_SESSION "session"
#define BACKING_RINGS	".rings"
#define BACKING_GLOSSARY	".glossary"
#define BACKING_PROGRAMS	".programs"

#define BACKING_MAGIC_SESSION 0x3153534B43425254ull /* "TRBCKSS1" */
#define BACKING_MAGIC_IMAGE   0x314D494B43425254ull /* "TRBCKIM1" */
#define BACKING_MAGIC_TABLE   0x3142544B43425254ull /* "TRBCKTB1" */
#define BACKING_MAGIC_SLOT    0x314C534B43425254ull /* "TRBCKSL1" */
#define BACKING_MAGIC_PROGRAMS 0x31505243424B5254ull /* "TRKBCRP1" */
#define BACKING_MAGIC_ENTRY   0x45435254u	    /* "TRCE" */

/* Block 0 of `session`: written once, before any image. Texts end with a NUL. */
struct backing_session {
	u64 magic;
	u64 checksum; /* of the whole block with this word 0: so for every checksum here */
	u32 version, clock; /* ABI_CLOCK_* */
	u64 begun;	    /* CLOCK_REALTIME, nanoseconds */
	u8 boot_id[16];
	u8 clock_uuid[16];
	u64 clock_mult;
	char name[128]; /* of the session */
	char host[128];
	char buffers[32]; /* "per-user" */
	char boot_text[40]; /* the boot id as the kernel writes it */
	u8 reserved[3696];
};

/* Block 0 of NAME.rings: written once, before any slot. */
struct backing_image {
	u64 magic, checksum;
	u32 version, reserved0;
	u64 id; /* drawn at random: in everything that belongs to this image */
	u32 ring_shift, sub_shift, side_shift, side_sub_shift, n_ring, n_side, policy, contexts;
	char label[256];
	u32 pinned_shift, pinned_sub_shift, n_pinned, reserved1;
	u8 reserved[3760];
};

/* Two tables follow, each of whole blocks; pass P writes number P & 1. What a table says of a ring is on disk if the next pass
 * has begun. */
struct backing_table {
	u64 magic, checksum; /* of the table and its rings */
	u64 image, pass;     /* passes count from 1 */
	u64 begun;	     /* trace clock, before the first copy: what was recorded before is in this pass */
	u64 time;	     /* ... behind the last one: nothing in it is newer */
	u64 until;	     /* ... of the last time that all owners of the session were gone through: when that began; 0: never */
	u64 realtime_offset; /* CLOCK_REALTIME - trace clock */
	u64 glossary;	     /* bytes that the glossary has */
	u32 n_rings, reserved;
};

struct backing_table_ring {
	u64 first, end; /* positions: all of [first, end) is in slots */
	u64 count;	/* records up to `end`; UINT64_MAX: not known */
	u64 lost[ABI_LOST_CAUSES];
	u32 cpu, reserved;
};

/* Then, for each ring, its slots: a sub-buffer each, as it was in the ring, with this in the room that its header has. */
struct backing_slot {
	u64 magic, checksum; /* of the first `size` bytes of the sub-buffer, this header among them */
	u64 image, pass;
	u64 position;
	u64 time;  /* trace clock, behind the copy */
	u64 count; /* records of the ring up to the end of what is here; UINT64_MAX: not known */
	u64 lost;  /* of the ring, all causes, then */
	u32 size;  /* bytes, from the sub-buffer's beginning */
	u32 ring;
	u32 complete; /* 1: the ring had gone on to the next sub-buffer */
	u32 reserved;
	u64 reserved1;
};

/* NAME.glossary: one of these, and its payload padded to 8, after another. */
struct backing_entry {
	u32 magic, type;
	u32 size; /* of the payload */
	u32 id;	  /* of the class */
	u64 image, checksum; /* of this and the payload */
};
#define BACKING_ENTRY_CLASS 1 /* the class as it travels on the wire (lib/wire.h) */
#define BACKING_ENTRY_MAX   65535 /* bytes of a payload */

/* NAME.programs: one of these, then so many programs. Written anew when they change. */
struct backing_programs {
	u64 magic, checksum; /* of this and the programs */
	u64 image;
	u64 left_out, left_until; /* that are known to have been there, and nothing more; when the last of them ended */
	u32 n, reserved;
};

/* Texts end with a NUL if they are shorter than their room. Times are CLOCK_REALTIME, nanoseconds; 0: unknown, or not yet. */
struct backing_program {
	u32 pid, uid, vpid, reserved;
	u64 start_ticks, started, ended;
	char command[64], unit[256], how[64], user[64], exe[512], build_id[72];
};

_Static_assert(sizeof(struct backing_session) == BACKING_BLOCK, "backing_session");
_Static_assert(sizeof(struct backing_image) == BACKING_BLOCK, "backing_image");
_Static_assert(sizeof(struct backing_table) == 80, "backing_table");
_Static_assert(sizeof(struct backing_table_ring) == 96, "backing_table_ring");
_Static_assert(sizeof(struct backing_slot) == ABI_SUB_HEADER - offsetof(struct abi_sub, room), "backing_slot");
_Static_assert(sizeof(struct backing_entry) == 32, "backing_entry");
_Static_assert(sizeof(struct backing_programs) == 48, "backing_programs");
_Static_assert(sizeof(struct backing_program) == 1072, "backing_program");
ABI_AT(backing_session, boot_id, 32);
ABI_AT(backing_session, name, 72);
ABI_AT(backing_image, ring_shift, 32);
ABI_AT(backing_image, label, 64);
ABI_AT(backing_table, n_rings, 72);
ABI_AT(backing_slot, size, 64);
ABI_AT(backing_entry, image, 16);

/* ---- where things are, for a checked geometry ---- */

static inline u32 backing_n_rings(const struct geometry *g)
{
	return geometry_rings(g);
}

static inline u32 backing_n_subs(const struct geometry *g, u32 ring)
{
	return (u32)(geometry_ring_size(g, ring) / geometry_sub_size(g, ring));
}

/* As many again as the ring has sub-buffers: a pass that finds the whole ring new writes all of it beside what the pass before
 * has left, which stays whole until this one is. */
static inline u32 backing_n_slots(const struct geometry *g, u32 ring)
{
	return 2 * backing_n_subs(g, ring);
}

/* Nothing is overwritten in a ring with another policy, or in a pinned one, so that its oldest sub-buffer is always whole. */
static inline bool backing_overwrites(const struct geometry *g, u32 ring)
{
	return !geometry_keeps(g, ring);
}

static inline u64 backing_table_size(const struct geometry *g)
{
	u64 size = sizeof(struct backing_table) + (u64)backing_n_rings(g) * sizeof(struct backing_table_ring);

	return ALIGN_UP(size, (u64)BACKING_BLOCK);
}

static inline u64 backing_table_at(const struct geometry *g, u64 pass)
{
	return BACKING_BLOCK + (pass & 1) * backing_table_size(g);
}

/* Of the ring's first slot; with ring = backing_n_rings(): the size of the file. */
u64 backing_slots_at(const struct geometry *g, u32 ring);

/* CRC-64 of XZ (ECMA-182, reflected): every change of less than 64 bits in a row, and all but one in 2^64 others. Goes on from
 * `crc`; 0 to begin. */
u64 backing_checksum(u64 crc, const void *p, u64 size);
