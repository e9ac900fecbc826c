/* SPDX-License-Identifier: MIT */
/* Work of an output that waits for the disk, on a thread of its own: a chunk on its way there, one that a dead daemon left behind, or
 * only old ones on their way out. */
#pragma once

#include "daemon/chunk.h"

typedef struct Closing Closing;
struct Closing {
	Closing *next;
	/* one of these, or neither */
	Chunk *chunk;	/* owned once it is started */
	char *leftover; /* owned: its name in `fd` */
	char *path;	/* owned: of what will be finished */
	void *token;	/* for who started it */
	int r;		/* once it is done */

	pthread_t thread;
	bool has_thread;
	int fd; /* owned: of the directory, whose lock it shares */
	char *directory;
	RetentionConfig keep;
	u32 done; /* release by the thread, acquire by closing_done(): r is there */
};

/* For what lies in the directory; fd: of it, whose lock is kept until closing_free(). name: of what will be finished, or NULL. NULL: no memory. */
Closing *closing_new(const char *directory, int fd, const char *name, const RetentionConfig *keep);
/* Waits for the thread, if it was started. */
Closing *closing_free(Closing *c);
void closing_start(Closing *c);
bool closing_done(const Closing *c);
/* Until it is done. */
void closing_wait(Closing *c);
