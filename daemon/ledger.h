/* SPDX-License-Identifier: MIT */
/* Lines of text in a memfd that outlives the daemon (systemd/fdstore.h): what a line says is there once ledger_append() returns,
 * whoever dies then. Each line has a sum, so that one that was damaged is left out alone.
 *
 * The file has two halves. Lines are appended to one of them; when too many of those are old news, everything is written anew into
 * the other one, which takes over by a single store: a death at any moment leaves one half that is whole. Nobody but daemons has this
 * memory; it is read as if everybody had, since the daemon that wrote it may have been the one that was broken. */
#pragma once

#include "lib/base.h"

typedef struct Ledger Ledger;

/* An empty one. 0 or -errno. */
int ledger_new(Ledger **ret);
/* What another daemon left. Takes fd, also on failure. -EBADMSG: it is none of ours; -EPROTONOSUPPORT: of a version that is not
 * understood. */
int ledger_open(Ledger **ret, int fd);
Ledger *ledger_free(Ledger *l);
DEFINE_CLEANUP(Ledger *, ledger_free)

/* Its memfd, for the store. Borrowed. */
int ledger_fd(const Ledger *l);
typedef struct {
	u32 n_lines; /* that were not whole */
	u64 n_bytes; /* of them */
} LedgerDamage;
/* Every line that is whole, in order. 0 or -errno (of fn, if that is not 0; it ends it). */
int ledger_read(Ledger *l, int (*fn)(void *userdata, const char *line), void *userdata, LedgerDamage *ret_damage);
/* 0; -ENOSPC, -ENOMEM, -errno: the line is not there. A line with a newline in it is -EINVAL. */
int ledger_append(Ledger *l, const char *line);

/* It has grown so much that it should be written anew. */
bool ledger_due(const Ledger *l);
/* From here lines go to the other half, until the end makes that the one; on false all is as it was. */
void ledger_rewrite_begin(Ledger *l);
int ledger_rewrite_end(Ledger *l, bool good);

/* ---- the daemons' own deaths, in the head of the file ---- */

/* A fault (a signal of the kind that a program brings upon itself) is noted as it happens, so that it is told from being killed.
 * Returns how many daemons in a row died so, and forgets the note of the last one; ledger_healthy() begins to count anew. */
u32 ledger_faults(Ledger *l);
void ledger_healthy(Ledger *l);
/* Async-signal-safe. */
void ledger_note_fault(Ledger *l);

/* ---- what a daemon could not say in lines: these cannot fail ---- */

/* So many ids were given to events that no line says. */
void ledger_note_missed(Ledger *l, u32 n);
u32 ledger_missed(const Ledger *l);
/* From here sessions are stopped because the daemon ends, and for no other reason. */
void ledger_note_end(Ledger *l);
bool ledger_ended(const Ledger *l);
/* The lines say it all again; running: and sessions are as they should be. */
void ledger_complete(Ledger *l, bool running);
