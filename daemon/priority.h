/* SPDX-License-Identifier: MIT */
/* Who goes first where the programs want every CPU. Linux has a nice value for each thread; what may not be set (LimitNICE= of
 * the unit) stays as it is, and nothing but speed depends on it. */
#pragma once

/* The calling thread is the loop: programs wait for it, at most 200 ms, and at each turn it does little. Before threads are made,
 * which begin with the value of their maker. */
void priority_loop(void);
/* A consumer: while it waits for its turn the rings fill, and what comes then is lost. */
void priority_consumer(void);
/* Any other thread of ours: as the daemon was started. */
void priority_usual(void);
/* For the moment in which others are held off. Returns what to give to priority_back(). */
int priority_hurry(void);
void priority_back(int before);
