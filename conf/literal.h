/* SPDX-License-Identifier: MIT */
/* A value that is no bracket: a string, or a word without quotes. It is read, judged, and handed on as something that libconfig
 * reads right; what is wrong with it is said, behind `key`, "memory: ", or "". */
#pragma once

#include "conf/cursor.h"
#include "conf/problem.h"

/* What stands in the text handed on for a value that had to be repaired, its problem being told. */
#define LITERAL_REPAIRED "\x01"

/* The string that begins at c->p; keep: and hands it on. 0; -ENOMEM; or 1: it has no end on its line, and everything up to there was
 * taken. */
int literal_string(Cursor *c, const FileProblems *problems, const char *key, bool keep);
/* The word at c->p: a number, true, false, or what should have had quotes. 0; -ENOMEM; or 1: it is of another language (YAML, or the
 * like), and nothing was handed on. */
int literal_word(Cursor *c, const FileProblems *problems, const char *key);
/* Hands on something in the place of a value that is not there, or cannot be. 0 or -ENOMEM. */
int literal_repaired(Cursor *c);
