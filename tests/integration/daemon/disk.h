/* SPDX-License-Identifier: MIT */
/* File systems that can be made to fail, mounted for one test. */
#pragma once

#include "lib/base.h"

typedef struct {
	char *path;    /* where it is mounted */
	char *below;   /* of disk_thin(): the file system in memory that its device lies in; NULL */
	char *ballast; /* takes the room that is to be missing */
	char device[32];
	int memory_fd, device_fd; /* of a block device; -1 */
} Disk;

/* In memory, with so much room. Of this and the next two, false: the test is skipped, since nothing can be mounted here. */
bool disk_small(Disk *d, const char *path, const char *options);
/* ext4 on a block device of 64 MiB, ... */
bool disk_block(Disk *d, const char *path);
/* ... or on one that only promises so much, and has `size`. */
bool disk_thin(Disk *d, const char *path, const char *size);

/* Takes `bytes` of what has room: the file system itself, or what is below it. UINT64_MAX: all there is. */
void disk_fill(Disk *d, u64 bytes);
void disk_free(Disk *d);
/* As root does; it must take it. */
void disk_read_only(Disk *d, bool read_only);
/* Of disk_block(): the device takes no writes any more, and never will: EIO. */
void disk_die(Disk *d);
/* Of disk_block(): ext4 has met an error that makes it read-only, at once, whatever is open. False: the test is skipped. */
bool disk_break(Disk *d);
/* After that: mounted anew. False: somebody uses it still. */
bool disk_mend(Disk *d);
/* Nobody may use it any more. */
void disk_close(Disk *d);
