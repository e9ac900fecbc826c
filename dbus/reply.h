/* SPDX-License-Identifier: MIT */
/* Answers to what has been done already: one that cannot be sent is a caller who waits in vain, or is told that it failed. */
#pragma once

#include <systemd/sd-bus.h>

/* 1, or -errno. A send that finds no memory for once is done again. */
int reply_send(sd_bus_message *reply);
/* To `m`, with these arguments. */
int reply_to(sd_bus_message *m, const char *types, ...);
