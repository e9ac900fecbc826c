/* SPDX-License-Identifier: MIT */
/* Collecting what is wrong with a configuration. */
#pragma once

#include "conf/config.h"

/* More of one file help nobody; a file of garbage would give one a line. */
enum { PROBLEMS_PER_FILE = 100 };

/* line 0: the file as a whole. 0 or -ENOMEM. */
int problem_add(ConfigProblems *p, const char *file, int line, bool warning, const char *format, ...)
	_printf_(5, 6);
/* True if an error was added at or behind index `first`. */
bool problem_error_since(const ConfigProblems *p, size_t first);

/* Those of the file that is being read: in `all`, from index `first` on. */
typedef struct {
	const char *file;
	ConfigProblems *all;
	size_t first;
} FileProblems;

/* An error of a word that is wrong by itself; nothing once there are PROBLEMS_PER_FILE. 0 or -ENOMEM. */
int problem_complain(const FileProblems *p, int line, const char *format, ...) _printf_(3, 4);
/* The same of a token at the wrong place: nothing behind another mistake on the same line, from which it mostly follows. */
int problem_follow(const FileProblems *p, int line, const char *format, ...) _printf_(3, 4);

/* Those from index `first` on, all of one file, by line. */
void problem_sort(ConfigProblems *p, size_t first);

/* *ret_text := a sentence; returns -EINVAL, or -ENOMEM: `return problem_text(ret_text, "...")`. */
int problem_text(char **ret_text, const char *format, ...) _printf_(2, 3);

/* The bytes of a user's word for a message: quoted, control and invalid bytes as '?', cut when long. */
enum { WORD_SHOWN = 72 };
const char *problem_word(const char *word, char ret[WORD_SHOWN + 8]);
const char *problem_bytes(const char *at, size_t n, char ret[WORD_SHOWN + 8]);
