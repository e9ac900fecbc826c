/* SPDX-License-Identifier: MIT */
/* tracerd's command line, and the directories it means. */
#pragma once

#include "lib/base.h"

typedef struct {
	bool user, bus, check, dump, help_config;
	const char *config_file, *address;
	const char *check_file; /* of check and dump, instead of config_file */
	char *runtime_directory, *state_directory; /* owned */
	const char *config_directories[8];	   /* NULL-terminated */
	char *own_config;			   /* owned: of config_directories */
} Arguments;

/* 0: go on; positive: exit with this less one. */
int arguments_parse(Arguments *a, int argc, char **argv);
/* Fills in what was not said. -EINVAL, and said why, if a directory cannot be guessed. */
int arguments_default(Arguments *a);
void arguments_clear(Arguments *a);
