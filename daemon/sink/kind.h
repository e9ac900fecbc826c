/* SPDX-License-Identifier: MIT */
/* What a strategy is to sink.c: one table of functions, and what every sink and set begins with. Only for the files of this
 * directory. */
#pragma once

#include "daemon/sink/file.h"
#include "daemon/sink/sink.h"

typedef struct SinkKind SinkKind;

struct SinkSet {
	Io io;
	const SinkKind *kind; /* NULL: `auto` that has not seen a file */
	void *shared;	      /* owned: the kind's, made by set_up() */
};

struct Sink {
	SinkSet *set;
	File file;
	u64 size;  /* taken */
	u64 mark;  /* of the last packet that is in the file */
};

struct SinkKind {
	const char *name;
	u32 align;
	size_t size; /* of its struct, which begins with a Sink */

	/* What all files of the set share. Both may be NULL. */
	int (*set_up)(SinkSet *set);
	void (*tear_down)(SinkSet *set);
	/* Until nothing is on its way. NULL: a packet that was taken is in the file, and its mark the Sink's. Else the kind moves that. */
	void (*settle)(SinkSet *set);

	/* The file is made and empty. -EOPNOTSUPP: the file system does not take this strategy. On failure nothing of the
	 * kind's own is left; the file is removed by the caller. */
	int (*open)(Sink *s);
	/* The packet is checked: a multiple of `align`, and large enough for what it holds. */
	int (*append)(Sink *s, const SinkPacket *p);
	/* Begins to write what has only gathered; waits for nothing. NULL: nothing ever does. */
	void (*push)(Sink *s);
	/* Until all that was taken is in the file. NULL: it always is. */
	int (*flush)(Sink *s);
	/* Frees what is the kind's own (not the Sink, not the file). *ret_whole: where the last packet that is in the file
	 * ends; *ret_lost: records taken that are not in it. NULL: nothing to free, and all that was taken is there. */
	void (*close)(Sink *s, u64 *ret_whole, u64 *ret_lost);
};

extern const SinkKind sink_write_kind, sink_mmap_kind, sink_splice_kind, sink_direct_kind;

/* For a kind that falls back to it: what `write` does with a packet, from its byte `from` on. */
int sink_write_packet(Sink *s, const SinkPacket *p, u64 from);
