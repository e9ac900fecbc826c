/* SPDX-License-Identifier: MIT */
/* The metadata of a trace that lies on disk, as far as those need it who read or copy its packets: metadata.c's own text,
 * and no other's. Which classes there are is for CTF readers. */
#pragma once

#include "daemon/trace/trace.h"

typedef struct {
	char *text; /* owned; with a NUL behind its size */
	size_t size;
	u8 uuid[16]; /* of the trace */
	u64 offset;  /* nanoseconds from the trace's clock to the time of day */
} MetadataText;

#define METADATA_TEXT_MAX (256u << 20)

/* Reads "metadata" in dir_fd. -ENOENT, -EBADMSG: it is not one of ours, or not whole; -ENOMEM, -errno. */
int metadata_text_read(MetadataText *ret, int dir_fd);
/* The same of a text that is there already. Takes it on success; it must have a NUL at [size]. */
int metadata_text_parse(MetadataText *ret, char *text, size_t size);
void metadata_text_clear(MetadataText *m);

/* A copy for another trace: with its uuid, and `pairs` in the environment in place of what had their keys (which are
 * identifiers). 0 or -ENOMEM. */
int metadata_text_copy(const MetadataText *m, const u8 uuid[16], const TraceEnvironment *pairs, size_t n, char **ret,
		       size_t *ret_size);
