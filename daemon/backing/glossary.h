/* SPDX-License-Identifier: MIT */
/* What the ids in an owner's rings mean, on disk: a file that is only ever added to. An entry is durable before a sub-buffer
 * that may name it is written at all, so that whatever of the image is found after a power cut can be decoded. */
#pragma once

#include "daemon/trace/trace.h"

typedef struct Glossary Glossary;

/* image: the id of the image that it belongs to. */
int glossary_new(Glossary **ret, u64 image);
Glossary *glossary_free(Glossary *l);
DEFINE_CLEANUP(Glossary *, glossary_free)

/* From any thread, before a program is told the id: no disk. 0 or -ENOMEM. */
int glossary_add(Glossary *l, u32 id, const struct event_class *c);
/* Appends what was added to NAME below dir_fd and waits for the disk; nothing if nothing was. 0 or -errno: then it is done again
 * by the next call. *ret_bytes: written. One thread at a time. */
int glossary_flush(Glossary *l, int dir_fd, const char *name, u64 *ret_bytes);

/* Its file is gone: all of it is written again by the next flush. */
void glossary_reset(Glossary *l);
/* Bytes of its file that are durable; of the thread that flushes. */
u64 glossary_size(const Glossary *l);

/* ---- reading ---- */

typedef struct {
	TraceClass *v; /* owned, and the classes */
	size_t n;
	u32 n_bad;    /* places where an entry should be and is none: torn, or damaged */
	bool given_up; /* too many of them */
	u64 size;      /* of the file */
} GlossaryClasses;

/* All entries of the image that can be believed, also behind ones that cannot. 0, -ENOMEM, or -errno of the disk. */
int glossary_read(GlossaryClasses *ret, int fd, u64 image);
void glossary_classes_clear(GlossaryClasses *c);
