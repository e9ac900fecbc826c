/* SPDX-License-Identifier: MIT */
/* One thread for work that waits for disks. The loop hands it one piece at a time and is told by an eventfd when it is
 * done; the thread touches nothing but what it was handed. */
#pragma once

#include <systemd/sd-event.h>

#include "lib/base.h"

typedef struct Worker Worker;

int worker_new(Worker **ret, sd_event *event);
/* Ends the thread, or, if it is still at work (a disk that hangs), leaves it and its memory to the end of the process. Returns
 * NULL. */
Worker *worker_free(Worker *w);
DEFINE_CLEANUP(Worker *, worker_free)

bool worker_busy(const Worker *w);
/* work runs on the thread, then done from the loop. -EBUSY: one is at work. */
int worker_run(Worker *w, void (*work)(void *userdata), void (*done)(void *userdata), void *userdata);
/* Waits for the piece at work, without the loop (which is over at the end of the daemon), and calls its done. True if it
 * was finished in time. */
bool worker_wait(Worker *w, u64 timeout_ns);
