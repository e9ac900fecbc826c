/* SPDX-License-Identifier: MIT */
/* How packets reach the file of a stream: the I/O strategies. A strategy is one table of functions (struct SinkKind) in
 * one file; adding one touches that file and the list in sink.c. All of them promise the same:
 *
 *   - A packet is taken whole or not at all. What was not taken is the caller's still, and may be offered again.
 *   - What was taken is in the file, or is kept in memory of the sink's own and tried again, until it is in the file or
 *     sink_abandon() counts it. A write that failed half-way leaves no half packet in front of a reader: the file is cut
 *     back, or ends (by its size) before it.
 *   - Short writes and EINTR are gone on with. ENOSPC, EDQUOT, EIO and the like are answers, never an exit.
 *   - sink_mark() tells how far the file has come. Bytes in the file survive the daemon, not the machine.
 *   - The page cache does not grow with the trace.
 *
 * A set is what all files of one session share (buffers, a queue of requests, a pipe). Set and sinks belong to one thread.
 * Errors are negative errno. Not for signal handlers. */
#pragma once

#include "conf/config.h"

typedef struct SinkSet SinkSet;
typedef struct Sink Sink;

/* One packet. head and records may be in different memory; behind the records come zeros up to `size`. */
typedef struct {
	const void *head;     /* packet header and context: the daemon's memory */
	u32 head_size;
	const void *records;  /* may lie in a ring that a program can write: read once */
	u64 records_size;
	u64 size;	      /* of the packet in the file: a multiple of sink_align(), at least head_size + records_size */
	int fd;		      /* the memfd in which the records lie at fd_offset; -1: they are only in memory */
	u64 fd_offset;
	u64 n_records;	      /* for sink_abandon() */
	u64 mark;	      /* for sink_mark(); 0: says nothing */
} SinkPacket;

/* io: a strategy that writes (not IO_NONE). IO_AUTO is decided by the first file: direct on a preallocated file where the
 * file system takes O_DIRECT and fallocate, else write (with RWF_DONTCACHE where the kernel has it, else early write-back
 * and dropping what is done). A strategy that was asked for by name and that the file system does not take makes sink_open()
 * fail with -EOPNOTSUPP, nothing made. 0 or -ENOMEM, -EMFILE, -ENFILE, -EINVAL (IO_NONE).
 * For the whole process: SIGXFSZ is ignored if nobody handles it (a file at RLIMIT_FSIZE is an error, not the end), and with
 * mmap and direct a SIGBUS while a packet is copied is an error too; any other goes where it went before. */
int sink_set_new(SinkSet **ret, Io io);
/* Every sink of it must be closed. NULL is fine. */
SinkSet *sink_set_free(SinkSet *s);
DEFINE_CLEANUP(SinkSet *, sink_set_free)
/* The strategy that is used: "direct"; "auto" before it is decided. Static. */
const char *sink_set_name(const SinkSet *s);
/* What packets of this set's files are a multiple of: 8, or 4096 for direct. Settled once the first file is open; until then
 * what suits either. */
u32 sink_align(const SinkSet *s);

/* Waits until no request of any of its files is on its way, and takes in what became of them. */
void sink_set_settle(SinkSet *s);

/* Makes the file NAME (0640, O_EXCL) below dir_fd. */
int sink_open(Sink **ret, SinkSet *set, int dir_fd, const char *name);
/* Takes a packet, or fails with nothing taken (-EINVAL: its size is not as above; -EFBIG: the file would be larger than RLIMIT_FSIZE or
 * its file system allows). When it returns 0 the memory behind p is
 * the caller's again. Blocks as long as the disk does, if all buffers are on their way. */
int sink_append(Sink *s, const SinkPacket *p);
/* The mark of the last packet with one that is in the file, as all before it are; 0: there is none. */
u64 sink_mark(const Sink *s);
/* No more packets come for now: what was taken and has only gathered is on its way from here. Waits for nothing. */
void sink_push(Sink *s);
/* Waits until all that was taken is in the file, and makes the file's size say so; tries again what had failed. What is left
 * is kept, and the first error returned. An error of the disk that came after the
 * page cache had taken the bytes is returned once, as -EIO whatever it was: nothing is left that could be tried again, and nothing says
 * what of the file is there. */
int sink_flush(Sink *s);
/* Bytes taken: the offset of the next packet. */
u64 sink_size(const Sink *s);
/* False once the file is gone from its directory (st_nlink is 0). */
bool sink_present(const Sink *s);

/* sink_flush(), then cuts the file to its size and gives the descriptor (*ret_fd, to be synced and closed by the caller, on
 * whatever thread) while the sink is freed. Some of its end is in the page cache: after the sync posix_fadvise(DONTNEED)
 * drops it. On failure the sink stays as it is. */
int sink_finish(Sink *s, int *ret_fd);
/* Gives up: frees the sink; the file keeps whole packets only. Returns how many records of taken packets are not in it. NULL is
 * fine. */
u64 sink_abandon(Sink *s);
