/* SPDX-License-Identifier: MIT */
/* What a daemon left behind that was killed while it wrote: files that were allocated further than they were filled, a last
 * packet that is half there, indexes that lag behind. Made a trace that every reader takes, with all that is whole in it. */
#pragma once

#include "daemon/failure.h"
#include "lib/base.h"

typedef struct {
	u32 n_owners;	  /* traces that are readable now */
	u32 n_unusable;	  /* owners' directories without metadata of ours: left as they are */
	u32 n_streams, n_packets;
	u32 n_cut;	  /* streams that ended in something else than a whole packet */
	u64 bytes_cut;	  /* taken off their ends ... */
	u64 bytes_torn;	  /* ... and of those, up to the last byte that is not 0: what was lost */
	char unusable[256]; /* the first of n_unusable */
} RepairResult;

/* Repairs the trace directory NAME in dir_fd (all owners in it), where nobody may be writing, and waits until that is on disk.
 * Every packet is read. Does nothing to a trace that is whole. The name stays: who calls renames. 0, or -errno with
 * f (may be NULL) set: what can be repaired is, and another try goes on. *ret is filled also then. */
int trace_repair(int dir_fd, const char *name, RepairResult *ret, Failure *f);
