/* SPDX-License-Identifier: MIT */
/* An account while it is read. Each kind of thing in it has a file of its own, which knows the words of the lines that speak of it,
 * and how it is let go of: restore-session.c, restore-owner.c, restore-program.c. */
#pragma once

#include "daemon/restore.h"

/* Numbers are given in turn, so that the lowest bits are as good as any. */
#define READING_BUCKETS 4096u

/* While lines are read, what has a number is found by it. */
typedef struct {
	Restored *r;
	u32 n_sessions, n_due;
	RestoredClass *classes[READING_BUCKETS];
	RestoredOwner *owners[READING_BUCKETS];
	RestoredProgram *programs[READING_BUCKETS];
} Reading;

typedef struct {
	const char *word;
	/* 0; -EBADMSG: the line says what cannot be; -ENOMEM: ends it all */
	int (*read)(Reading *g, const char *line);
} ReadingWord;

/* Behind the last one of each is one without a word. */
extern const ReadingWord restore_session_words[]; /* sessions, and snapshots of them that are due */
extern const ReadingWord restore_owner_words[];	  /* owners of rings, and what is in these */
extern const ReadingWord restore_program_words[];

/* What these have made. */
void restored_sessions_free(RestoredSession *first);
void restored_due_free(RestoredDue *first);
void restored_owners_free(RestoredOwner *first);
void restored_classes_free(RestoredClass *first);
void restored_programs_free(RestoredProgram *first);

/* Lines of sessions that are the end of owners as well: of the one with this number, if it is known; of all that a session had. */
void reading_owner_gone(Reading *g, u64 number);
void reading_owners_gone(Reading *g, const char *session);
