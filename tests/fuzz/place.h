/* SPDX-License-Identifier: MIT */
/* A real manager in a directory of its own, for what is told to a daemon from outside. Whatever paths an input names: as
 * nobody, if it may be anybody, and with no more than what a small memory has room for. */
#pragma once

#include "daemon/manager.h"
#include "tests/fuzz/replay.h"

typedef struct {
	char directory[64], runtime[80], state[80];
	sd_event *event;
	Manager *manager;
} Place;

void place_open(Place *p);
void place_close(Place *p);
/* Lets everything happen that can happen without waiting. */
void place_settle(Place *p);
/* Until *done. What never comes is a finding. */
void place_until(Place *p, const bool *done, const char *what);
/* No sessions but "flight", as it was made; with text for a configuration that all inputs find. */
void place_tidy(Place *p, bool running);

/* The bytes of an input, taken from its front; 0 behind its end. */
typedef struct {
	const u8 *p;
	size_t n;
} Bytes;
u8 bytes_u8(Bytes *b);
u64 bytes_u64(Bytes *b);
/* A piece of at most `max`, its length in front of it. */
Bytes bytes_piece(Bytes *b, size_t max);

/* main() of a build without an engine: -r N random inputs, and files and directories, each also cut off at many places. */
int replay_main(int argc, char **argv);
int LLVMFuzzerInitialize(int *argc, char ***argv);
