/* SPDX-License-Identifier: MIT */
/* What a recovery has to say of what it could not read: sentences for people, as many as people read. */
#pragma once

#include "lib/base.h"

#define NOTES_MAX 200

typedef struct {
	char **v; /* owned */
	size_t n;
	u32 n_more;   /* that were not kept */
	u32 n_damage; /* that speak of what was durable and is damaged, not of what the power cut came before */
} Notes;

void notes_add(Notes *notes, bool damage, const char *format, ...) _printf_(3, 4);
void notes_clear(Notes *notes);
