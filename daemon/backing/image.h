/* SPDX-License-Identifier: MIT */
/* One owner's rings on disk, as its thread keeps them: what is new is copied into free places and made durable in steps, so that
 * what the step before has left is whole until this one is. */
#pragma once

#include "daemon/backing/glossary.h"
#include "daemon/description.h"
#include "daemon/cpus.h"
#include "lib/record.h"

typedef struct Image Image;

typedef struct {
	const char *label; /* copied */
	u32 number;	   /* of its files' names: labels come again */
	u8 *map;	   /* borrowed, as all that follows */
	struct geometry geometry;
	struct record_clock clock;
	const Cpus *cpus;
} ImageOptions;

/* What the thread has done; all only grow. */
typedef struct {
	u64 passes, sub_buffers, bytes; /* made durable */
	u64 missed; /* sub-buffers that their writers came round to before they could be copied */
} ImageCounters;

/* Touches no disk. 0 or -errno. */
int image_new(Image **ret, const ImageOptions *options);
/* Leaves its files. */
Image *image_free(Image *m);
DEFINE_CLEANUP(Image *, image_free)

/* From any thread. */
Glossary *image_glossary(const Image *m);

/* The thread's: copies what is new and waits for the disk. 0: everything whose call returned before this one was made, and that the
 * rings still had, is durable; -errno: what was is, as before. *ret_made: files were made, so the directory is to be synced.
 * until: trace clock; all owners of the session are durable up to then. */
int image_pass(Image *m, int dir_fd, u64 until, bool *ret_made, ImageCounters *counters);
/* The thread's: whose records they are; taken. The next pass writes it. */
void image_describe(Image *m, Descriptions *programs);
/* Its files are gone: the next pass makes them again, with all that the rings hold. */
void image_reset(Image *m);
/* Takes its files away. 0 or -errno. */
int image_remove(Image *m, int dir_fd);
